//! "What does the command line say?" The options of `ddo-record`.
//!
//! May use: clap and the wrapper's request. Invariant: words are only carried over here; the wrapper checks them.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser};
use clap_complete::Shell;
use ddo_recorder::limits::MAX_USAGE_CHARS;
use ddo_recorder::wrap::repeat::Series;
use ddo_recorder::wrap::{Request, words};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  ddo-record -- python train.py --steps 10
      record a run into a new folder ddo-journal-<UTC time>
  ddo-record -o runs/a --label gpu=h200 --gpu-timing --native-timeline -- ./host model.safetensors
      ask an embedded recorder for step times and stream windows; label the run for comparisons
  ddo-record --memory-monitor off --redact \"$TOKEN\" --strict-recording -- ./host --token \"$TOKEN\"
      no memory samples, no secret in the journal, exit code 125 when the recording has a problem
  ddo-record --repeat 5 --out runs --interleave './host --old' -- ./host --new
      five runs of each in turn, runs/base-01, runs/candidate-01 ..; then: ddo-analyze diff runs/base-* -- runs/candidate-*

Exit code: the command's own; 128+N when signal N ended it; 127 not found; 126 not executable;
125 when the recorder failed before the start.";

/// Runs a command and records it: what ran, how it ended, its memory, and what an embedded recorder reports.
#[derive(Debug, Parser)]
#[command(name = "ddo-record", version, after_help = EXAMPLES, override_usage = "ddo-record [OPTIONS] -- COMMAND [ARGS...]")]
pub(crate) struct Cli {
    /// Journal folder; must not exist or must be empty. Default: `ddo-journal-<UTC time>`
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Memory monitor over the command and its descendants: `rss` samples resident memory, `full` private memory (dearer),
    /// `off` nothing [default: rss]
    #[arg(long, value_name = "full|rss|off")]
    memory_monitor: Option<String>,

    /// Pause after one memory query before the next, 10ms to 60s [default: 100ms]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    interval: Option<String>,

    /// Records of an embedded recorder: `steps` is one a step [default: steps]
    #[arg(long, value_name = "steps|off")]
    journal: Option<String>,

    /// Ask an embedded recorder for markers on the compute stream
    #[arg(long)]
    gpu_timing: bool,

    /// Ask an embedded recorder for native windows, CAPACITY 1 to 8192; needs --gpu-timing [default capacity: 4096]
    #[arg(long, value_name = "CAPACITY", num_args = 0..=1, require_equals = true)]
    native_timeline: Option<Option<u64>>,

    /// Component name, 1 to 64 of A-Z a-z 0-9 . _ -
    #[arg(long, value_name = "NAME")]
    component: Option<String>,

    /// Label of the run; repeatable
    #[arg(long = "label", value_name = "K=V")]
    labels: Vec<String>,

    /// A recording problem after a good command gives exit code 125
    #[arg(long)]
    strict_recording: bool,

    /// Keep the command line out of the manifest
    #[arg(long)]
    no_command_line: bool,

    /// Replace this text by *** in recorded words, label values, folder names and variables; repeatable
    #[arg(long, value_name = "TEXT")]
    redact: Vec<OsString>,

    /// Stop recording, never the command, when the folder reaches this size, such as 2GiB; what was written stays
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    disk_budget: Option<String>,

    /// Show a live line: time, steps, memory, size of the journal
    #[arg(long)]
    status: bool,

    /// Print completions for a shell and do nothing else
    #[arg(long, value_name = "SHELL", exclusive = true)]
    completions: Option<Shell>,

    /// Print the manual page and do nothing else
    #[arg(long, exclusive = true)]
    man: bool,

    /// Run the command N times, into DIR/run-01 and so on; the first run that fails ends the series
    #[arg(long, value_name = "N", requires = "out")]
    repeat: Option<u64>,

    /// With --repeat: run this base command in turn with the candidate after --, into DIR/base-01 and DIR/candidate-01; one word,
    /// split as a shell splits words, nothing in it is expanded
    #[arg(long, value_name = "BASE COMMAND", requires = "repeat")]
    interleave: Option<OsString>,

    /// The command and its arguments
    #[arg(last = true, required_unless_present_any = ["completions", "man"], num_args = 1.., value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Cli {
    /// The series of runs, where one was asked for.
    pub(crate) fn series(&self) -> Option<Series> {
        self.repeat.map(|count| Series { count, base: self.interleave.clone() })
    }

    /// Prints what was asked for instead of a run; false where a run was asked for.
    pub(crate) fn print_documents(&self, out: &mut dyn io::Write) -> io::Result<bool> {
        let mut text = Vec::new();
        if let Some(shell) = self.completions {
            clap_complete::generate(shell, &mut Cli::command(), "ddo-record", &mut text);
        } else if self.man {
            clap_mangen::Man::new(Cli::command()).render(&mut text)?;
        } else {
            return Ok(false);
        }
        out.write_all(&text)?;
        Ok(true)
    }
}

/// What is wrong with the words, in one line; the parser itself takes several.
pub(crate) fn in_one_line(error: &clap::Error) -> String {
    let stray = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) if !word.starts_with('-') => Some(word),
        _ => None,
    };
    let rendered = error.render().to_string();
    let said = rendered.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    // Behind `--` stands the command, so that hint of the parser would mislead.
    let said = said.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("tip: to pass"));
    let said: Vec<&str> = said.collect();
    let said = said.join(" ").replacen("error: ", "", 1).replacen(" tip: ", "; ", 1);
    let text = match stray {
        Some(word) => format!("{word:?} is no option; the command stands behind `--`"),
        None if said.contains("<COMMAND>") => "no command; write it behind `--`".into(),
        None => said,
    };
    let text = words::cut(&words::shown(OsStr::new(&text)), MAX_USAGE_CHARS);
    format!("{text}; ddo-record --help lists the options")
}

impl From<Cli> for Request {
    fn from(cli: Cli) -> Request {
        Request {
            out: cli.out,
            memory_monitor: cli.memory_monitor,
            interval: cli.interval,
            journal: cli.journal,
            gpu_timing: cli.gpu_timing,
            native_timeline: cli.native_timeline,
            component: cli.component,
            labels: cli.labels,
            strict: cli.strict_recording,
            no_command_line: cli.no_command_line,
            redact: cli.redact,
            disk_budget: cli.disk_budget,
            status: cli.status,
            command: cli.command,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &[&str]) -> Result<Request, clap::Error> {
        Cli::try_parse_from(std::iter::once("ddo-record").chain(words.iter().copied())).map(Request::from)
    }

    #[test]
    fn the_declaration_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn completions_and_the_manual_name_every_option() {
        let options: Vec<String> =
            Cli::command().get_arguments().filter_map(|option| option.get_long().map(|name| format!("--{name}"))).collect();
        for words in [&["--man"][..], &["--completions", "bash"], &["--completions", "zsh"], &["--completions", "fish"]] {
            let cli = Cli::try_parse_from(std::iter::once("ddo-record").chain(words.iter().copied())).expect("valid");
            let mut out = Vec::new();
            assert!(cli.print_documents(&mut out).expect("memory"));
            let text = String::from_utf8(out).expect("text").replace('\\', "");
            let plain = |option: &String| text.contains(option.as_str()) || text.contains(option.trim_start_matches('-'));
            assert!(options.iter().all(plain), "{words:?}");
        }
        let run = Cli::try_parse_from(["ddo-record", "--", "x"]).expect("valid");
        assert!(!run.print_documents(&mut Vec::new()).expect("memory"));
        assert!(Cli::try_parse_from(["ddo-record", "--man", "--", "x"]).is_err());
    }

    #[test]
    fn a_capacity_is_attached_and_the_command_follows_two_dashes() {
        let timeline = |words: &[&str]| request(words).expect("valid").native_timeline;
        assert_eq!(timeline(&["--", "x"]), None);
        assert_eq!(timeline(&["--native-timeline", "--", "x"]), Some(None));
        assert_eq!(timeline(&["--native-timeline=5", "--", "x"]), Some(Some(5)));
        for words in [&["--native-timeline", "5", "--", "x"][..], &["--native-timeline=true", "--", "x"], &["x"], &["--"], &[]] {
            assert!(request(words).is_err(), "{words:?}");
        }
        let command = request(&["--", "x", "--out", "y"]).expect("valid").command;
        assert_eq!(command, ["x", "--out", "y"]);
    }

    #[test]
    fn what_is_wrong_with_the_words_is_one_line() {
        let told = |words: &[&str]| {
            let refused = Cli::try_parse_from(std::iter::once("ddo-record").chain(words.iter().copied())).expect_err("refused");
            let line = in_one_line(&refused);
            assert!(!line.chars().any(char::is_control) && line.chars().count() < 2 * MAX_USAGE_CHARS, "{line}");
            line
        };
        assert!(told(&["touch", "ran"]).starts_with("\"touch\" is no option; the command stands behind `--`;"));
        for words in [&[][..], &["--"], &["--status"]] {
            assert!(told(words).starts_with("no command; write it behind `--`;"), "{words:?}");
        }
        assert!(
            told(&["--lable", "a=b", "--", "x"])
                .starts_with("unexpected argument '--lable' found; a similar argument exists: '--label'")
        );
        let completions = told(&["--completions", "csh"]);
        assert!(completions.contains("'csh'") && completions.contains("bash, elvish, fish, powershell, zsh"), "{completions}");
        let long = format!("--{}\nx", "y".repeat(5000));
        assert!(told(&[&long, "--", "x"]).contains(" .. "));
    }

    #[test]
    fn a_series_needs_its_folder_and_its_number() {
        let words = |words: &[&str]| Cli::try_parse_from(std::iter::once("ddo-record").chain(words.iter().copied()));
        assert!(words(&["--repeat", "2", "--", "x"]).is_err());
        assert!(words(&["--out", "y", "--interleave", "z", "--", "x"]).is_err());
        let series = words(&["--repeat", "2", "--out", "y", "--interleave", "z 1", "--", "x"])
            .expect("valid")
            .series()
            .expect("asked for");
        assert_eq!((series.count, series.base), (2, Some("z 1".into())));
        assert!(words(&["--", "x"]).expect("valid").series().is_none());
    }
}
