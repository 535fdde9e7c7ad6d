//! Several runs in one input: "Which files belong to which run?"
//!
//! Uses `walk` and `run`. Invariants: a folder with a manifest is a run of its own where there are several of them; a
//! file belongs to the deepest such folder around it, else to the input; ranks are ordered by number, never by name.

use super::notes::Notes;
use super::walk::Entry;
use crate::limits::MAX_RUNS;
use crate::run::Run;
use ddo_schemas::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// Name of the file that makes a folder a run.
const MANIFEST: &str = "manifest.json";

/// The files of each run, by its folder.
pub(super) fn split(entries: &[Entry], notes: &mut Notes) -> BTreeMap<String, Vec<Entry>> {
    let mut folders: BTreeSet<&str> = entries.iter().filter(|entry| entry.name() == MANIFEST).map(Entry::folder).collect();
    if folders.len() < 2 {
        folders.clear();
    }
    folders.insert("");
    let refused: BTreeSet<&str> = folders.iter().copied().skip(MAX_RUNS).collect();
    if let Some(first) = refused.first() {
        let text = format!("is run number {} of this input; only the first {MAX_RUNS} were read", MAX_RUNS + 1);
        notes.add(Finding::error("too_many_runs", *first, text));
    }
    let mut runs: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        let home = home_of(entry.folder(), &folders);
        if !refused.contains(home) {
            runs.entry(home.to_string()).or_default().push(entry.clone());
        }
    }
    runs
}

fn home_of<'a>(folder: &'a str, folders: &BTreeSet<&str>) -> &'a str {
    let mut at = folder;
    while !folders.contains(at) {
        at = at.rsplit_once('/').map_or("", |(above, _)| above);
    }
    at
}

/// One run with the others inside; the lowest rank speaks for all.
pub(super) fn join(mut runs: Vec<Run>, name: &str, notes: &mut Notes) -> Option<Run> {
    let several = runs.len() > 1;
    for run in runs.iter_mut().filter(|run| run.name.is_empty() || !several) {
        run.name = name.to_string();
    }
    runs.sort_by_key(|run| run.rank().rank.unwrap_or(u64::MAX));
    if several {
        judge(&runs, notes);
    }
    let mut runs = runs.into_iter();
    let mut first = runs.next()?;
    first.others = runs.collect();
    Some(first)
}

fn judge(runs: &[Run], notes: &mut Notes) {
    let mut seen: BTreeMap<u64, &str> = BTreeMap::new();
    for run in runs {
        let Some(rank) = run.rank().rank else { continue };
        match seen.get(&rank) {
            Some(first) => {
                let text = format!("is rank {rank}, as {first} is; both are shown");
                notes.add(Finding::warning("rank_twice", &run.name, text));
            }
            None => {
                seen.insert(rank, &run.name);
            }
        }
    }
    if let Some(size) = runs.iter().filter_map(|run| run.rank().world_size).max()
        && size > seen.len() as u64
    {
        let text = format!("{} of {size} ranks are in this input", seen.len());
        notes.add(Finding::warning("ranks_missing", ".", text));
    }
    if let Some(first) = runs.first() {
        let text = format!("holds {} runs; each is a process of the trace, the figures are those of {}", runs.len(), first.name);
        notes.add(Finding::note("several_runs", ".", text));
    }
}
