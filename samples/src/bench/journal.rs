//! How long does the analyzer take for a long journal, and how much memory?
//!
//! May use: the built programs beside this one.
//!
//! Invariants: the journal is made from a recorded one, with counters that go on; it lies in a temporary folder that is removed at the end, also after
//! a failure; making it is not part of the time; the peak is the one that the system kept for the process.

use super::JournalArgs;
use super::line::Machine;
use super::trace::{analyzer, run};
use anyhow::Context as _;
use serde::Serialize;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One command over one journal.
#[derive(Clone, Debug, Serialize)]
pub struct JournalLine {
    /// `journal`.
    pub bench: &'static str,
    /// What was run: `default` or a subcommand.
    pub command: &'static str,
    /// Records of the journal.
    pub records: u64,
    /// Bytes of all records.
    pub bytes: u64,
    /// Seconds from start to end of the program.
    pub seconds: f64,
    /// Processor time of the program, as far as it was seen.
    pub cpu_seconds: Option<f64>,
    /// Records a second.
    pub records_per_second: f64,
    /// Largest resident memory of the program, as last read while it ran.
    pub peak_rss_bytes: Option<u64>,
    /// Bytes that it wrote.
    pub written_bytes: u64,
    /// Where it was measured.
    pub machine: Machine,
}

/// A folder that goes when it is dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes a journal and runs the analyzer over it; hands each measurement to `print`.
///
/// # Errors
/// The record to imitate cannot be read, the journal cannot be written, or the analyzer fails.
pub fn journal(args: &JournalArgs, mut print: impl FnMut(&JournalLine)) -> anyhow::Result<()> {
    let analyzer = analyzer(args.analyzer.as_deref())?;
    let folder = Temporary(std::env::temp_dir().join(format!("ddo-bench-journal-{}", std::process::id())));
    let input = folder.0.join("journal");
    fs::create_dir_all(&input).with_context(|| format!("cannot make {}", input.display()))?;
    let bytes = make(&args.like(), args.records, &input)?;
    for (command, words) in [("default", &[][..]), ("delta", &["delta"][..]), ("export", &["export"])] {
        let out = folder.0.join(command);
        let mut child = Command::new(&analyzer);
        child.args(words).arg(&input);
        if command != "delta" {
            child.arg("--out").arg(&out);
        }
        let ended = run(&mut child)?;
        print(&JournalLine {
            bench: "journal",
            command,
            records: args.records,
            bytes,
            seconds: ended.seconds,
            cpu_seconds: ended.cpu_seconds,
            records_per_second: args.records as f64 / ended.seconds,
            peak_rss_bytes: ended.peak_rss_bytes,
            written_bytes: size(&out),
            machine: Machine::host(),
        });
    }
    Ok(())
}

/// Writes records like the given one; returns their bytes.
fn make(like: &Path, records: u64, folder: &Path) -> anyhow::Result<u64> {
    let text = fs::read(like).with_context(|| format!("cannot read {}; name a journal record with --like", like.display()))?;
    let mut record: Value = serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", like.display()))?;
    let mut bytes = 0;
    for step in 0..records {
        advance(&mut record, step).with_context(|| format!("{} is no journal record", like.display()))?;
        let path = folder.join(format!("step_{step:04}.json"));
        let write = || -> std::io::Result<u64> {
            let mut out = BufWriter::new(File::create_new(&path)?);
            serde_json::to_writer_pretty(&mut out, &record)?;
            out.flush()?;
            Ok(out.get_ref().metadata()?.len())
        };
        bytes += write().with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(bytes)
}

/// Makes the record that of a step: its number, its time, and every third whole number a counter that went on.
fn advance(record: &mut Value, step: u64) -> Option<()> {
    *record.get_mut("step_index")? = step.into();
    *record.get_mut("host_elapsed_seconds")? = (step as f64 / 20.0).into();
    let counters = record.pointer_mut("/metrics/runtime/vmm")?.as_object_mut()?;
    for (at, value) in counters.values_mut().enumerate() {
        let part = u64::try_from(at).unwrap_or(u64::MAX);
        if let Some(whole) = value.as_u64().filter(|_| at % 3 == 0 && step > 0) {
            *value = whole.saturating_add(part).into();
        } else if let Some(seconds) = value.as_f64().filter(|_| value.is_f64() && step > 0) {
            *value = (seconds + 1e-3).into();
        }
    }
    Some(())
}

fn size(folder: &Path) -> u64 {
    let Ok(listing) = fs::read_dir(folder) else { return 0 };
    let entry = |entry: fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => size(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    listing.filter_map(Result::ok).map(entry).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_goes_on_from_step_to_step() {
        let mut record = json!({"step_index": 7, "host_elapsed_seconds": 9.0,
            "metrics": {"runtime": {"vmm": {"a": 1, "b": 5, "c": 0.5, "d": 10}}}});
        advance(&mut record, 0).expect("a record");
        let vmm = |record: &Value| record["metrics"]["runtime"]["vmm"].clone();
        assert_eq!(vmm(&record), json!({"a": 1, "b": 5, "c": 0.5, "d": 10}), "the first is the recorded one");
        advance(&mut record, 1).expect("a record");
        assert_eq!(vmm(&record), json!({"a": 1, "b": 5, "c": 0.501, "d": 13}));
        assert_eq!(record["step_index"], 1);
        assert!(advance(&mut json!({}), 1).is_none());
    }
}
