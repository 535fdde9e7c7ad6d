//! Bytes of JSON, one value after the other: "What stands here?"
//!
//! Uses `decimal` and `limits`. Invariants: a value is read from the bytes alone, without a tree; what is not there yet
//! is asked for and nothing is half read; every departure from JSON that is accepted is counted; a position never
//! leaves the bytes.

use super::decimal::Number;
use super::repairs::Repairs;
use crate::limits::{MAX_TRACE_DEPTH, MAX_TRACE_STRING_BYTES};
use std::borrow::Cow;

/// Why a value could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It goes on behind the bytes at hand.
    More,
    /// It is broken: where, and how.
    Bad(usize, &'static str),
}

pub(super) type Step<T> = Result<T, Stop>;

/// A string between its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text<'a> {
    /// The bytes as they stand.
    pub(super) raw: &'a [u8],
    /// True where they are plain ASCII without escapes.
    pub(super) plain: bool,
}

/// A value; lists and objects are passed over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// A number.
    Number(Number<'a>),
    /// A string.
    Text(Text<'a>),
    /// A word for a number that is none, such as `inf`.
    NonFinite,
    /// `null`, `true` or `false`.
    Word,
    /// A list or an object, by its bytes.
    Nested(&'a [u8]),
}

/// Where a string stands; it decides which quote ends it when quotes are not escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Before a colon.
    Key,
    /// After one.
    Value,
    /// In a list.
    Item,
}

/// A position in bytes.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    /// The next byte.
    pub(super) at: usize,
    /// True where nothing follows the bytes.
    pub(super) ended: bool,
    /// True to look for the quote that a writer meant.
    pub(super) lenient: bool,
    /// What was repaired since the caller last looked.
    pub(super) repairs: Repairs,
}

impl<'a> Cursor<'a> {
    /// At the first byte.
    pub(super) fn new(bytes: &'a [u8], ended: bool) -> Cursor<'a> {
        Cursor { bytes, at: 0, ended, lenient: false, repairs: Repairs::default() }
    }

    fn bad<T>(&self, what: &'static str) -> Step<T> {
        Err(Stop::Bad(self.at, what))
    }

    /// Passes over white space; returns what stands behind it.
    #[inline]
    pub(super) fn next(&mut self) -> Step<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !byte.is_ascii_whitespace() {
                return Ok(*byte);
            }
            self.at += 1;
        }
        Err(Stop::More)
    }

    /// Passes over one expected byte.
    #[inline]
    pub(super) fn expect(&mut self, wanted: u8, what: &'static str) -> Step<()> {
        if self.next()? != wanted {
            return self.bad(what);
        }
        self.at += 1;
        Ok(())
    }

    /// Bytes between two positions.
    pub(super) fn between(&self, from: usize, to: usize) -> &'a [u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// A string.
    #[inline]
    pub(super) fn string(&mut self, role: Role) -> Step<Text<'a>> {
        if self.next()? != b'"' {
            return self.bad("a string is missing");
        }
        let from = self.at + 1;
        let mut at = from;
        let mut plain = true;
        loop {
            at = special(self.bytes, at, &mut plain);
            if at - from > MAX_TRACE_STRING_BYTES {
                return self.bad("a string is longer than the limit");
            }
            match self.bytes.get(at) {
                None => return Err(Stop::More),
                Some(b'"') if !self.lenient || self.closes(at, role)? => break,
                Some(b'"') => {
                    self.repairs.quotes = true;
                    plain = false;
                    at += 1;
                }
                Some(b'\\') => {
                    plain = false;
                    at += 2;
                }
                Some(_) => {
                    plain = false;
                    at += 1;
                }
            }
        }
        self.at = at + 1;
        Ok(Text { raw: self.between(from, at), plain })
    }

    /// Whether the writer meant this quote as the end: what follows must go on as the place demands.
    fn closes(&self, quote: usize, role: Role) -> Step<bool> {
        let mut ahead = Cursor::new(self.bytes, self.ended);
        ahead.at = quote + 1;
        let ended = self.ended;
        let more = |step: Step<u8>| match step {
            Err(Stop::More) if ended => Ok(None),
            other => other.map(Some),
        };
        let Some(first) = more(ahead.next())? else { return Ok(true) };
        Ok(match (role, first) {
            (Role::Key, first) => first == b':',
            (Role::Item, b',' | b']') => true,
            (Role::Value, b'}') => {
                ahead.at += 1;
                matches!(more(ahead.next())?, None | Some(b',' | b']' | b'}'))
            }
            (Role::Value, b',') => {
                ahead.at += 1;
                if more(ahead.next())? != Some(b'"') {
                    return Ok(false);
                }
                let key = ahead.string(Role::Key)?;
                key.plain && more(ahead.next())? == Some(b':')
            }
            _ => false,
        })
    }

    /// Any value.
    #[inline]
    pub(super) fn value(&mut self, role: Role) -> Step<Value<'a>> {
        match self.next()? {
            b'"' => self.string(role).map(Value::Text),
            b'{' | b'[' => {
                let from = self.at;
                self.skip_nested()?;
                Ok(Value::Nested(self.between(from, self.at)))
            }
            b'0'..=b'9' | b'-' | b'+' | b'.' => self.number(),
            b'a'..=b'z' | b'A'..=b'Z' => self.word(),
            _ => self.bad("a value is missing"),
        }
    }

    fn number(&mut self) -> Step<Value<'a>> {
        let from = self.at;
        let rest = self.bytes.get(from..).unwrap_or_default();
        let (number, length) = Number::read(rest);
        let Some(next) = rest.get(length) else {
            // More digits may follow.
            return Err(Stop::More);
        };
        if number.is_none() && next.is_ascii_alphabetic() {
            self.at += length;
            return self.word();
        }
        match number {
            Some(number) if !next.is_ascii_alphanumeric() && *next != b'.' => {
                self.at += length;
                Ok(Value::Number(number))
            }
            // An exponent may be cut in two.
            _ if rest.iter().skip(length).all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) => {
                Err(Stop::More)
            }
            _ => self.bad("a number is broken"),
        }
    }

    fn word(&mut self) -> Step<Value<'a>> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_') else {
            return Err(Stop::More);
        };
        let word = rest.get(..length).unwrap_or_default();
        let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        let value = if is("null") || is("true") || is("false") {
            Value::Word
        } else if ["inf", "infinity", "nan"].iter().any(|other| is(other)) {
            self.repairs.non_finite += 1;
            Value::NonFinite
        } else {
            return self.bad("a word is no value of JSON");
        };
        self.at += length;
        Ok(value)
    }

    /// Passes over a list or an object. Its brackets are counted, its strings and words are looked at.
    fn skip_nested(&mut self) -> Step<()> {
        // One bit a level: set for an object.
        let mut objects = 0_u64;
        let mut depth = 0_usize;
        let mut key = false;
        loop {
            match self.next()? {
                open @ (b'{' | b'[') => {
                    if depth >= MAX_TRACE_DEPTH {
                        return self.bad("arguments are nested deeper than the limit");
                    }
                    key = open == b'{';
                    objects = (objects << 1) | u64::from(key);
                    depth += 1;
                    self.at += 1;
                }
                close @ (b'}' | b']') => {
                    if (objects & 1 == 1) != (close == b'}') {
                        return self.bad("a bracket does not match");
                    }
                    objects >>= 1;
                    depth -= 1;
                    key = false;
                    self.at += 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                b',' => {
                    key = objects & 1 == 1;
                    self.at += 1;
                }
                b':' => {
                    key = false;
                    self.at += 1;
                }
                b'"' => {
                    let role = match (key, objects & 1 == 1) {
                        (true, _) => Role::Key,
                        (false, true) => Role::Value,
                        (false, false) => Role::Item,
                    };
                    self.string(role)?;
                }
                b'0'..=b'9' | b'-' | b'+' | b'.' => drop(self.number()?),
                b'a'..=b'z' | b'A'..=b'Z' => drop(self.word()?),
                _ => return self.bad("a value is missing"),
            }
        }
    }

    /// The members of an object, one call each; `member` passes over the value.
    #[inline]
    pub(super) fn object(&mut self, mut member: impl FnMut(&mut Cursor<'a>, Text<'a>) -> Step<()>) -> Step<()> {
        self.expect(b'{', "an object is missing")?;
        loop {
            match self.next()? {
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                b',' => self.at += 1,
                _ => {}
            }
            if self.next()? == b'}' {
                continue;
            }
            let key = self.string(Role::Key)?;
            self.expect(b':', "a colon is missing")?;
            member(self, key)?;
            if !matches!(self.next()?, b',' | b'}') {
                return self.bad("a comma or a closing bracket is missing");
            }
        }
    }
}

impl<'a> Text<'a> {
    /// The words, with what is no text replaced and counted.
    #[inline]
    pub(super) fn decode(&self, repairs: &mut Repairs) -> Cow<'a, str> {
        if self.plain
            && let Ok(text) = std::str::from_utf8(self.raw)
        {
            return Cow::Borrowed(text);
        }
        let text = match std::str::from_utf8(self.raw) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => {
                repairs.non_utf8 += 1;
                String::from_utf8_lossy(self.raw)
            }
        };
        if text.chars().all(|c| c != '\\' && c >= ' ') {
            return text;
        }
        Cow::Owned(unescape(&text, repairs))
    }
}

fn unescape(text: &str, repairs: &mut Repairs) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    let (mut control, mut escapes) = (false, false);
    while let Some(c) = rest.next() {
        if c < ' ' {
            control = true;
            out.push(char::REPLACEMENT_CHARACTER);
        } else if c != '\\' {
            out.push(c);
        } else {
            let before = rest.clone();
            match escape(&mut rest) {
                Some(c) => out.push(c),
                None => {
                    // The backslash was meant as one.
                    escapes = true;
                    out.push('\\');
                    rest = before;
                }
            }
        }
    }
    repairs.control += u64::from(control);
    repairs.escapes += u64::from(escapes);
    out
}

fn escape(rest: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match rest.next()? {
        c @ ('"' | '\\' | '/') => c,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => {
            let unit = hex(rest)?;
            if !(0xd800..0xdc00).contains(&unit) {
                return char::from_u32(unit);
            }
            if rest.next()? != '\\' || rest.next()? != 'u' {
                return None;
            }
            let low = hex(rest)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            return char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + low);
        }
        _ => return None,
    })
}

fn hex(rest: &mut std::str::Chars<'_>) -> Option<u32> {
    (0..4).try_fold(0, |sum, _| Some(sum * 16 + rest.next()?.to_digit(16)?))
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Position of the first quote, backslash or control character from `at` on, eight bytes at a time.
#[inline]
fn special(bytes: &[u8], mut at: usize, plain: &mut bool) -> usize {
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    while let Some(chunk) = bytes.get(at..at + 8).and_then(|chunk| <[u8; 8]>::try_from(chunk).ok()) {
        let word = u64::from_le_bytes(chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let found = zero(word ^ (ONES * u64::from(b'"'))) | zero(word ^ (ONES * u64::from(b'\\'))) | control;
        if word & HIGH != 0 {
            *plain = false;
        }
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at) {
        if *byte >= 0x80 {
            *plain = false;
        } else if matches!(byte, b'"' | b'\\' | 0..=0x1f) {
            return at;
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(raw: &str) -> (String, Repairs) {
        let text = format!("\"{raw}\",");
        let mut cursor = Cursor::new(text.as_bytes(), true);
        let found = cursor.string(Role::Value).expect("a string");
        let mut repairs = Repairs::default();
        (found.decode(&mut repairs).into_owned(), repairs)
    }

    #[test]
    fn strings_are_unescaped_and_what_is_wrong_is_kept_and_counted() {
        assert_eq!(decoded(r#"a\"b\\c\/\u00e9\ud83d\ude00"#).0, "a\"b\\c/\u{e9}\u{1f600}");
        let (text, repairs) = decoded(r"C:\Temp\qx.py \u12 \ud800x");
        assert_eq!((text.as_str(), repairs.escapes), (r"C:\Temp\qx.py \u12 \ud800x", 1));
        let (text, repairs) = decoded("\u{1}M\u{f}-\u{e9}");
        assert_eq!((text.as_str(), repairs.control, repairs.escapes), ("\u{fffd}M\u{fffd}-\u{e9}", 1, 0));
        assert_eq!(decoded("plain words that are longer than eight bytes").1, Repairs::default());
    }

    #[test]
    fn every_cut_asks_for_more_and_nothing_else() {
        let whole = br#"{"a":[1,{"b":"c\"d"},-2.5e3,null,inf],"e":"f"} "#;
        for end in 0..whole.len() - 2 {
            let mut cursor = Cursor::new(&whole[..end], false);
            let step = cursor.object(|cursor, _| cursor.value(Role::Value).map(drop));
            assert_eq!(step, Err(Stop::More), "cut at {end}");
        }
        let mut cursor = Cursor::new(whole, true);
        assert_eq!(cursor.object(|cursor, _| cursor.value(Role::Value).map(drop)), Ok(()));
        assert_eq!((cursor.repairs.non_finite, cursor.at), (1, whole.len() - 1));
    }

    #[test]
    fn depth_and_length_have_limits() {
        let step = |text: String| Cursor::new(text.as_bytes(), true).value(Role::Value).map(drop);
        let deep = |levels: usize| format!("{}{} ", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(step(deep(MAX_TRACE_DEPTH)), Ok(()));
        assert!(matches!(step(deep(MAX_TRACE_DEPTH + 1)), Err(Stop::Bad(MAX_TRACE_DEPTH, _))));
        assert!(matches!(step(format!("\"{}\" ", "a".repeat(MAX_TRACE_STRING_BYTES + 1))), Err(Stop::Bad(0, _))));
        assert_eq!(step("[1}".into()), Err(Stop::Bad(2, "a bracket does not match")));
        assert!(matches!(step("1.2.3 ".into()), Err(Stop::Bad(0, _))));
    }

    #[test]
    fn a_lenient_reading_finds_the_quote_that_was_meant() {
        let text = "{\"name\":\"lib = L(\"t\", \"I\")\n(1): <module>\",\"pid\":1}";
        let read = |lenient| {
            let mut cursor = Cursor::new(text.as_bytes(), true);
            cursor.lenient = lenient;
            let mut name = None;
            cursor
                .object(|cursor, key| {
                    let value = cursor.value(Role::Value)?;
                    if let (b"name", Value::Text(text)) = (key.raw, value) {
                        name = Some(text.decode(&mut Repairs::default()).into_owned());
                    }
                    Ok(())
                })
                .map(|()| name)
        };
        assert!(matches!(read(false), Err(Stop::Bad(..))));
        assert_eq!(read(true).expect("read"), Some("lib = L(\"t\", \"I\")\u{fffd}(1): <module>".to_string()));
    }
}
