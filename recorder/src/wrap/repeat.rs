//! "How do several runs come to be comparable?" A series of runs of one command, or of two in turn.
//!
//! May use: the other modules of this room.
//!
//! Invariants: the two commands alternate as A B B A, so that a drift of the machine meets both alike; the first run that fails
//! ends the series with its exit code; a command given as one word is split as a shell splits words, and nothing in it is expanded.

use super::child::{EXIT_RECORDER, EXIT_SIGNAL};
use super::error::WrapError;
use super::request::Request;
use super::signals::{self, Signals};
use super::{folder, run, say, words};
use crate::limits::{MAX_REPEATS, MAX_SHOWN_CHARS};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// A series as the command line gives it.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Runs of each command.
    pub count: u64,
    /// The base's command as one word; the request's command is the candidate then.
    pub base: Option<OsString>,
}

/// Signals that end a series after the current run.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// One run of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    folder: String,
    base: bool,
}

/// Runs a series into `request.out` and gives back the exit code of the first run that failed, or 0.
///
/// # Cost
/// Blocks for as long as the commands run.
pub fn series(request: &Request, series: &Series) -> i32 {
    match prepare(request, series) {
        Ok((root, base, signals)) => run_all(request, series, &root, base.as_deref(), signals),
        Err(error) => {
            say::line(&format!("error: {error}"));
            EXIT_RECORDER
        }
    }
}

type Prepared = (PathBuf, Option<Vec<OsString>>, Signals);

/// Everything that can fail before the first run.
fn prepare(request: &Request, series: &Series) -> Result<Prepared, WrapError> {
    if !(1..=MAX_REPEATS).contains(&series.count) {
        return Err(WrapError::Repeats { got: series.count, limit: MAX_REPEATS });
    }
    let root = request.out.as_deref().ok_or(WrapError::SeriesWithoutFolder)?;
    let base = series.base.as_deref().map(split).transpose()?;
    // The whole request is checked before the series' folder is made.
    request.clone().plan(std::env::var_os(ddo_schemas::settings::ENV_SETTINGS).as_deref())?;
    // A signal to the series, such as an interrupt that a command survives, ends it after the current run.
    let signals = Signals::install()?;
    Ok((folder::make(Some(root))?, base, signals))
}

fn run_all(request: &Request, series: &Series, root: &Path, base: Option<&[OsString]>, mut signals: Signals) -> i32 {
    let places = places(series.count, base.is_some());
    for (done, place) in places.iter().enumerate() {
        let command = match base {
            Some(base) if place.base => base.to_vec(),
            _ => request.command.clone(),
        };
        let out = root.join(&place.folder);
        let shown = words::shown(out.as_os_str());
        say::line(&format!("run {} of {}: {}", done + 1, places.len(), place.folder));
        let code = run(Request { out: Some(out), command, ..request.clone() });
        if code != 0 {
            say::line(&format!("the series ends after {} of {} runs: exit code {code} in {shown}", done + 1, places.len()));
            return code;
        }
        // Other signals are news for the command, not a wish to stop.
        if let Some(signal) = signals.already().filter(|signal| ENDING.contains(signal)) {
            say::line(&format!("the series ends after {} of {} runs: {}", done + 1, places.len(), signals::name(signal)));
            return EXIT_SIGNAL + signal;
        }
    }
    if base.is_some() {
        let root = words::quoted(root.as_os_str());
        say::line(&format!("compare with: ddo-analyze diff {root}/base-* -- {root}/candidate-*"));
    }
    0
}

/// The runs in their order: `run-01` .., or base and candidate as A B B A.
fn places(count: u64, interleaved: bool) -> Vec<Place> {
    let width = count.to_string().len().max(2);
    let place = |name: &str, at: u64| Place { folder: format!("{name}-{at:0width$}"), base: name == "base" };
    (1..=count)
        .flat_map(|at| match (interleaved, at % 2) {
            (false, _) => vec![place("run", at)],
            (true, 1) => vec![place("base", at), place("candidate", at)],
            (true, _) => vec![place("candidate", at), place("base", at)],
        })
        .collect()
}

/// What a character means at its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    None,
    Single,
    Double,
}

/// Splits a command into words by the quoting rules of the POSIX shell: blanks, `'..'`, `".."` and backslashes. Variables,
/// patterns, pipes and redirections are plain characters.
fn split(command: &OsStr) -> Result<Vec<OsString>, WrapError> {
    let refused =
        |reason: &'static str| WrapError::CommandWord { got: words::cut(&words::shown(command), MAX_SHOWN_CHARS), reason };
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = Quote::None;
    let mut bytes = command.as_bytes().iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Quote::None, b' ' | b'\t' | b'\n') => words.extend(word.take()),
            (Quote::None, b'\'') => (quote, word) = (Quote::Single, Some(word.unwrap_or_default())),
            (Quote::None, b'"') => (quote, word) = (Quote::Double, Some(word.unwrap_or_default())),
            (Quote::Single, b'\'') | (Quote::Double, b'"') => quote = Quote::None,
            (Quote::None | Quote::Double, b'\\') => {
                let next = bytes.next().ok_or_else(|| refused("it ends in a backslash"))?;
                let word = word.get_or_insert_default();
                match (quote, next) {
                    // A backslash before a line break joins two lines.
                    (_, b'\n') => {}
                    (Quote::Double, b'"' | b'\\' | b'$' | b'`') | (Quote::None, _) => word.push(next),
                    _ => word.extend([b'\\', next]),
                }
            }
            _ => word.get_or_insert_default().push(byte),
        }
    }
    if quote != Quote::None {
        return Err(refused("a quote is not closed"));
    }
    words.extend(word);
    if words.is_empty() {
        return Err(refused("it has no word"));
    }
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_splits_words() {
        let cases: [(&str, &[&str]); 9] = [
            ("a  b\tc\n d ", &["a", "b", "c", "d"]),
            ("'a b' \"c d\" e\\ f", &["a b", "c d", "e f"]),
            ("a'b'\"c\"d", &["abcd"]),
            ("'' \"\" x", &["", "", "x"]),
            ("'a\\b' \"a\\b\" \"\\\"\\\\\\$\\`\"", &["a\\b", "a\\b", "\"\\$`"]),
            ("\"it's\" 'say \"x\"'", &["it's", "say \"x\""]),
            ("echo $HOME *.rs | cat > out ; # x", &["echo", "$HOME", "*.rs", "|", "cat", ">", "out", ";", "#", "x"]),
            ("a\\\nb", &["ab"]),
            ("\u{e4} 'b\u{e4}'", &["\u{e4}", "b\u{e4}"]),
        ];
        for (command, wanted) in cases {
            assert_eq!(split(OsStr::new(command)).expect(command), wanted, "{command}");
        }
        let bytes = split(OsStr::from_bytes(b"x 'a\xff'")).expect("bytes");
        assert_eq!(bytes[1].as_bytes(), b"a\xff");
        for command in ["", "  ", "'a", "a\"b", "a\\"] {
            assert!(matches!(split(OsStr::new(command)), Err(WrapError::CommandWord { .. })), "{command}");
        }
    }

    #[test]
    fn two_commands_alternate_so_that_neither_goes_first_more_often() {
        let names = |count, interleaved| places(count, interleaved).into_iter().map(|place| place.folder).collect::<Vec<_>>();
        assert_eq!(names(3, true), ["base-01", "candidate-01", "candidate-02", "base-02", "base-03", "candidate-03"]);
        assert_eq!(names(2, false), ["run-01", "run-02"]);
        assert_eq!(names(100, false).last().map(String::as_str), Some("run-100"));
        assert_eq!(names(100, false)[0], "run-001", "names sort by number");
        assert!(places(4, true).iter().all(|place| place.base == place.folder.starts_with("base")));
    }

    #[test]
    fn a_series_has_a_folder_and_a_number_within_its_limit() {
        let request = Request { command: vec!["true".into()], ..Request::default() };
        let of = |count| prepare(&request, &Series { count, base: None }).err();
        assert!(matches!(of(0), Some(WrapError::Repeats { got: 0, limit: MAX_REPEATS })));
        assert!(matches!(of(MAX_REPEATS + 1), Some(WrapError::Repeats { .. })));
        assert!(matches!(of(2), Some(WrapError::SeriesWithoutFolder)));
    }
}
