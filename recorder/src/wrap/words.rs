//! "How is a word written?" Words of a command as JSON text, as terminal text and as shell text; redaction.
//!
//! May use: std only.
//!
//! Invariants:
//! - JSON text is reversible: two different words never become the same text (unless redacted);
//! - terminal and shell text is one line, whatever the word contains;
//! - redaction works on bytes, before any escaping.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// What stands in place of a redacted piece.
pub const REDACTED: &str = "***";

/// A word as JSON text: a backslash is `\\`, a byte that is not UTF-8 is `\xNN`.
pub fn escaped(word: &OsStr) -> String {
    write_word(word, |out, c| if c == '\\' { out.push_str("\\\\") } else { out.push(c) })
}

/// A word for a terminal line: bytes that are not UTF-8 and control characters are `\xNN`.
pub fn shown(word: &OsStr) -> String {
    write_word(word, |out, c| if c.is_control() { push_bytes(out, c.encode_utf8(&mut [0; 4]).as_bytes()) } else { out.push(c) })
}

/// A word that can be pasted into a shell.
pub fn quoted(word: &OsStr) -> String {
    let bytes = word.as_bytes();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_-./+:@%,=".contains(b);
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return shown(word);
    }
    if word.to_str().is_some_and(|text| !text.chars().any(char::is_control)) {
        return format!("'{}'", shown(word).replace('\'', r"'\''"));
    }
    let body = write_word(word, |out, c| match c {
        '\\' | '\'' => out.extend(['\\', c]),
        c if c.is_control() => push_bytes(out, c.encode_utf8(&mut [0; 4]).as_bytes()),
        c => out.push(c),
    });
    format!("$'{body}'")
}

/// The beginning and the end of a long text; the whole of a short one.
pub fn cut(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let part = limit / 2;
    let begin: String = text.chars().take(part).collect();
    let end: String = text.chars().skip(count - part).collect();
    format!("{begin} .. {end}")
}

fn write_word(word: &OsStr, mut push: impl FnMut(&mut String, char)) -> String {
    let mut out = String::with_capacity(word.len());
    for chunk in word.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            push(&mut out, c);
        }
        push_bytes(&mut out, chunk.invalid());
    }
    out
}

fn push_bytes(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a String cannot fail.
        write!(out, "\\x{byte:02X}").ok();
    }
}

/// Replaces plain substrings by [`REDACTED`].
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    patterns: Vec<Vec<u8>>,
}

impl Redactor {
    /// A redactor for the given substrings; empty ones are ignored.
    pub fn new(patterns: &[OsString]) -> Redactor {
        let mut patterns: Vec<Vec<u8>> = patterns.iter().map(|p| p.as_bytes().to_vec()).filter(|p| !p.is_empty()).collect();
        // The longest match wins, so that a short pattern does not break a longer one and show its rest.
        patterns.sort_by_key(|p| std::cmp::Reverse(p.len()));
        Redactor { patterns }
    }

    /// The word with every match replaced, left to right, the longest pattern first.
    pub fn word(&self, word: &OsStr) -> OsString {
        let mut out = Vec::with_capacity(word.len());
        let mut rest = word.as_bytes();
        while let Some((first, tail)) = rest.split_first() {
            match self.patterns.iter().find_map(|p| rest.strip_prefix(p.as_slice())) {
                Some(after) => {
                    out.extend_from_slice(REDACTED.as_bytes());
                    rest = after;
                }
                None => {
                    out.push(*first);
                    rest = tail;
                }
            }
        }
        OsString::from_vec(out)
    }

    /// The word redacted, then as JSON text.
    pub fn json(&self, word: &OsStr) -> String {
        escaped(&self.word(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads JSON text back into bytes; the inverse of [`escaped`].
    fn unescaped(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' if chars.as_str().starts_with('x') => {
                    let hex: String = chars.by_ref().skip(1).take(2).collect();
                    out.push(u8::from_str_radix(&hex, 16).expect("two digits"));
                }
                '\\' => {
                    assert_eq!(chars.next(), Some('\\'));
                    out.push(b'\\');
                }
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        out
    }

    #[test]
    fn json_text_reads_back() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let bytes: Vec<u8> =
                (0..random.usize(0..12)).map(|_| *random.choice(b"\\x4F\xff\xc3\xa4\n").expect("some")).collect();
            assert_eq!(unescaped(&escaped(OsStr::from_bytes(&bytes))), bytes);
        }
        assert_eq!(escaped(OsStr::from_bytes(b"a\xff\\b")), r"a\xFF\\b");
    }

    #[test]
    fn terminal_and_shell_text_is_one_line() {
        assert_eq!(shown(OsStr::from_bytes(b"a\n\x1b[2J\xff")), r"a\x0A\x1B[2J\xFF");
        assert_eq!(quoted(OsStr::new("out/run-1")), "out/run-1");
        assert_eq!(quoted(OsStr::new("my run's")), r"'my run'\''s'");
        assert_eq!(quoted(OsStr::from_bytes(b"a'\xff\n")), r"$'a\'\xFF\x0A'");
        assert_eq!(quoted(OsStr::new("")), "''");
    }

    #[test]
    fn a_long_text_keeps_its_ends() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("\u{e4}bcdefg", 4), "\u{e4}b .. fg");
    }

    #[test]
    fn the_longest_pattern_wins_and_nothing_is_replaced_twice() {
        let redactor = Redactor::new(&["tok".into(), "token-1".into(), "*".into()]);
        assert_eq!(redactor.word(OsStr::new("--key=token-1,tok")), "--key=***,***");
        assert_eq!(Redactor::new(&[]).word(OsStr::new("a")), "a");
        let bytes = Redactor::new(&[OsString::from_vec(vec![0xff])]);
        assert_eq!(bytes.json(OsStr::from_bytes(b"a\xffb\xfe")), r"a***b\xFE");
    }
}
