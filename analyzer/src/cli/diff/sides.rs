//! The runs of a side: "Which of them can be used?"
//!
//! Uses `ingest` and `analysis::diff`. Invariants: a reader has one run in memory at a time; the order is that of the paths; what cannot be used ends the command with its name,
//! or is left out with its name.

use crate::analysis::diff::Side;
use crate::error::Error;
use crate::ingest;
use crate::limits::{MAX_READERS, MAX_SIDE_RUNS, PROGRESS_RUNS};
use crate::run::shorten;
use ddo_schemas::Severity;
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reads runs and remembers those that it left out.
pub(super) struct Loader {
    pub(super) allow_missing: bool,
    pub(super) left_out: Vec<String>,
}

impl Loader {
    /// The runs of one side.
    pub(super) fn load(&mut self, side: &'static str, inputs: &[PathBuf]) -> Result<Vec<Side>, Error> {
        let mut found: Vec<(&PathBuf, Vec<PathBuf>)> = Vec::new();
        for input in inputs {
            match ingest::runs_in(input) {
                Ok(runs) => found.push((input, runs)),
                Err(error) => self.unusable(input, error.to_string())?,
            }
        }
        let count: usize = found.iter().map(|(_, runs)| runs.len()).sum();
        if count > MAX_SIDE_RUNS {
            return Err(Error::TooManyRuns { side, got: count, limit: MAX_SIDE_RUNS });
        }
        let visible = count >= PROGRESS_RUNS && io::stderr().is_terminal();
        let bar = if visible { ProgressBar::new(count as u64).with_message(side) } else { ProgressBar::hidden() };
        let paths: Vec<&PathBuf> = found.iter().flat_map(|(_, runs)| runs).collect();
        let mut read = read_all(&paths, &bar).into_iter();
        bar.finish_and_clear();
        let mut sides = Vec::with_capacity(count);
        for (input, runs) in &found {
            let mut group = Vec::with_capacity(runs.len());
            for (path, read) in runs.iter().zip(read.by_ref()) {
                group.extend(self.usable(path, read)?);
            }
            match Side::are_one_job(&group) {
                true => sides.push(Side::of_job(&name_of(input), group)),
                false => sides.append(&mut group),
            }
        }
        if sides.is_empty() { Err(Error::NoRuns { side }) } else { Ok(sides) }
    }

    /// The side, where the run can be used; else an error, or nothing and a name among those left out.
    fn usable(&mut self, path: &Path, read: Read) -> Result<Option<Side>, Error> {
        let side = match read {
            Ok(side) => side,
            Err(reason) => return self.unusable(path, reason).map(|()| None),
        };
        let failed = side.unsound.iter().find(|(field, _)| field == "failed");
        match failed.filter(|_| self.allow_missing) {
            Some((_, reason)) => {
                self.left_out.push(format!("{}: {}", side.name, shorten(reason)));
                Ok(None)
            }
            None => Ok(Some(side)),
        }
    }

    fn unusable(&mut self, path: &Path, reason: String) -> Result<(), Error> {
        if !self.allow_missing {
            return Err(Error::BrokenRun { path: path.into(), reason });
        }
        self.left_out.push(format!("{}: {}", name_of(path), shorten(&reason)));
        Ok(())
    }
}

/// A run reduced to its numbers, or why it cannot be used.
type Read = Result<Side, String>;

/// Reads runs on all processors; the answers are in the order of the paths.
fn read_all(paths: &[&PathBuf], bar: &ProgressBar) -> Vec<Read> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut own = Vec::new();
        while let Some((at, path)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, paths.get(at)?))) {
            own.push((at, read(path)));
            bar.inc(1);
        }
        own
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_READERS).min(paths.len());
    let mut all: BTreeMap<usize, Read> = BTreeMap::new();
    std::thread::scope(|scope| {
        let named = || std::thread::Builder::new().name("ddo-read".into());
        // Fewer readers are slower, no failure.
        let others: Vec<_> = (1..workers).filter_map(|_| named().spawn_scoped(scope, work).ok()).collect();
        all.extend(work());
        for other in others {
            // A reader that ends early leaves its run without an answer, which is said below.
            all.extend(other.join().unwrap_or_default());
        }
    });
    (0..paths.len()).map(|at| all.remove(&at).unwrap_or_else(|| Err("reading it ended early".into()))).collect()
}

fn read(path: &Path) -> Read {
    let run = ingest::load(path).map_err(|error| error.to_string())?;
    let mut broken = run.findings.iter().filter(|finding| finding.severity == Severity::Error);
    match broken.next() {
        Some(first) => {
            let more = broken.count();
            Err(if more > 0 { format!("{first} and {more} more") } else { first.to_string() })
        }
        None => Ok(Side::of(&run)),
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| ".".into(), |name| shorten(&name.to_string_lossy()))
}

/// Runs with one name on both sides get their parent's name, too, where every input is one run.
pub(super) fn tell_apart(base: &mut [Side], base_paths: &[PathBuf], candidate: &mut [Side], candidate_paths: &[PathBuf]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for side in base.iter().chain(candidate.iter()) {
        *seen.entry(side.name.clone()).or_default() += 1;
    }
    for (sides, paths) in [(base, base_paths), (candidate, candidate_paths)] {
        if sides.len() != paths.len() {
            continue;
        }
        for (side, path) in sides.iter_mut().zip(paths).filter(|(side, _)| seen.get(&side.name).is_some_and(|count| *count > 1)) {
            if let Some(parent) = path.parent().and_then(Path::file_name) {
                side.name = shorten(&format!("{}/{}", parent.to_string_lossy(), side.name));
            }
        }
    }
}

/// The runs of both sides in a folder that `ddo-record --repeat --interleave` made.
pub(super) fn batch(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Error> {
    let runs = ingest::runs_in(folder)?;
    let named = |word: &str| -> Vec<PathBuf> { runs.iter().filter(|run| name_of(run).starts_with(word)).cloned().collect() };
    let (base, candidate) = (named("base"), named("candidate"));
    match (base.is_empty(), candidate.is_empty()) {
        (false, false) => Ok((base, candidate)),
        (true, _) => Err(Error::NoRuns { side: "base of the second batch" }),
        (_, true) => Err(Error::NoRuns { side: "candidate of the second batch" }),
    }
}
