//! "What did we find on disk?" The only room that reads files.
//!
//! It may use `run` (what it builds), `limits` and `error`. Invariants: it never panics and never follows a link; a file
//! that cannot be used is a finding and the rest still loads; files are recognised by content, not by place; the
//! input is never written to. Only an input without a single usable document is an error.

mod ahead;
mod diagnostics;
mod document;
mod flatten;
mod folders;
mod generations;
mod group;
mod notes;
mod operators;
mod record;
mod report;
mod runs;
mod samples;
mod structures;
mod walk;

use crate::error::Error;
use crate::limits::MAX_TOTAL_JSON_BYTES;
use crate::run::operators::OperatorTrace;
use crate::run::{Generation, Run};
use ahead::Parsed;
use ddo_schemas::Finding;
use ddo_schemas::manifest::{Manifest, ManifestEnd};
use document::Document;
use flatten::Paths;
pub use folders::runs_in;
use group::Groups;
use notes::Notes;
use std::path::Path;

/// Reads a journal folder, a bare folder of records, a folder of another recorder, or one file. Several manifests in
/// folders of their own, such as those of the ranks of a job, are several runs: see [`Run::others`].
///
/// # Errors
/// When the input cannot be opened, or holds nothing usable.
pub fn load(path: &Path) -> Result<Run, Error> {
    load_watched(path, &mut |_, _| {})
}

/// [`load`], telling before each file how many were read and how many there are.
///
/// # Errors
/// When the input cannot be opened, or holds nothing usable.
pub fn load_watched(path: &Path, watch: &mut dyn FnMut(usize, usize)) -> Result<Run, Error> {
    let mut loader = Loader::default();
    let entries = walk::files(path, &mut loader.notes)?;
    loader.all(&entries, watch);
    loader.finish(path)
}

/// Reads contents that are held in memory, as if they were files of these names.
///
/// # Errors
/// When they hold nothing usable.
pub fn load_held(contents: &[(&str, &[u8])]) -> Result<Run, Error> {
    let mut loader = Loader::default();
    loader.all(&walk::held(contents), &mut |_, _| {});
    loader.finish(Path::new("held"))
}

/// The last part of a path, also for `.` and the like.
fn name_of(path: &Path) -> Option<String> {
    let named = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    named(path).or_else(|| path.canonicalize().ok().as_deref().and_then(named))
}

/// What was found of one run.
#[derive(Default)]
struct Found {
    /// Its folder relative to the input; empty for the input itself.
    folder: String,
    groups: Groups,
    manifest: Option<Manifest>,
    manifest_seen: bool,
    seal: Option<ManifestEnd>,
    seal_seen: bool,
    memory: samples::Memory,
    tracker: Option<serde_json::Value>,
    generations: Vec<Generation>,
    operators: Vec<OperatorTrace>,
}

#[derive(Default)]
struct Loader {
    notes: Notes,
    paths: Paths,
    run: Found,
    done: Vec<Run>,
    ignored: usize,
    bytes: u64,
}

impl Loader {
    fn all(&mut self, entries: &[walk::Entry], watch: &mut dyn FnMut(usize, usize)) {
        let files = entries.len();
        let mut at = 0;
        for (folder, entries) in runs::split(entries, &mut self.notes) {
            self.run = Found { folder, ..Found::default() };
            ahead::each(&entries, |entry, parsed| {
                watch(at, files);
                tracing::debug!(file = %entry.shown, bytes = entry.bytes, "reading");
                self.file(entry, parsed);
                at += 1;
            });
            self.end_run();
        }
    }

    fn file(&mut self, entry: &walk::Entry, parsed: Option<Parsed>) {
        if entry.is_temporary() {
            let text = "was never published; the writer stopped before it was complete";
            self.notes.add(Finding::warning("unpublished_temporary", &entry.shown, text));
            return;
        }
        match (parsed, entry.extension()) {
            (Some(Parsed::Trace), _) => self.operators(entry),
            (Some(Parsed::Document(document)), _) => self.json(entry, document),
            (None, Some("gz")) if operators::recognise(entry) => self.operators(entry),
            (None, Some("ndjson")) => self.run.memory.read(entry, &mut self.paths, &mut self.notes),
            _ => self.ignored += 1,
        }
    }

    fn operators(&mut self, entry: &walk::Entry) {
        self.run.operators.extend(operators::read(entry, &mut self.notes));
    }

    fn json(&mut self, entry: &walk::Entry, document: Result<serde_json::Value, Finding>) {
        self.bytes = self.bytes.saturating_add(entry.bytes);
        if self.bytes > MAX_TOTAL_JSON_BYTES {
            let text = format!("was not read: the files before it reach the limit of {MAX_TOTAL_JSON_BYTES} bytes in all");
            return self.notes.add(Finding::error("input_too_large", &entry.shown, text));
        }
        let value = match document {
            Ok(value) => value,
            Err(finding) => return self.notes.add(finding),
        };
        match Document::recognise(value) {
            Document::Record(value) => {
                if let Some(record) = record::read(entry, value, &mut self.paths, &mut self.notes) {
                    self.run.groups.add_record(entry.folder(), record, &mut self.notes);
                }
            }
            Document::Report(value) => self.report(entry, value),
            Document::Structure(value) => {
                structures::note_alone(&entry.shown, &mut self.notes);
                self.report(entry, structures::report_of(value));
            }
            Document::Manifest(value) => self.manifest(entry, value),
            Document::Seal(value) => self.seal(entry, value),
            Document::Tracker(value) => self.tracker(entry, value),
            Document::DiskStop => {}
            Document::OperatorTrace => self.operators(entry),
            Document::Unknown => {
                self.notes.add(Finding::note("unrecognised_file", &entry.shown, "is JSON, but no document that is known here"));
            }
        }
    }

    /// Generations join those of other files; of what was monitored, the first report counts.
    fn tracker(&mut self, entry: &walk::Entry, mut value: serde_json::Value) {
        for (generation, report) in generations::take(entry, &mut value, &mut self.paths, &mut self.notes) {
            self.run.generations.push(generation);
            if let Some(report) = report {
                self.run.groups.add_report(report);
            }
        }
        if value.get("memory_monitor").is_none() {
            return;
        }
        if self.run.tracker.is_none() {
            self.run.tracker = Some(value);
        } else {
            let text = "is a second report of a host tracker; the first one counts";
            self.notes.add(Finding::warning("second_tracker", &entry.shown, text));
        }
    }

    fn report(&mut self, entry: &walk::Entry, value: serde_json::Value) {
        if let Some(report) = report::read(entry, value, &mut self.paths, &mut self.notes) {
            self.run.groups.add_report(report);
        }
    }

    fn manifest(&mut self, entry: &walk::Entry, value: serde_json::Value) {
        if self.run.manifest_seen {
            return self.notes.add(Finding::warning(
                "second_manifest",
                &entry.shown,
                "is a second manifest; the first one counts",
            ));
        }
        self.run.manifest_seen = true;
        if let Some(settings) = value.get("settings").filter(|settings| settings.is_object()) {
            let newest = ddo_schemas::version::SETTINGS;
            let _ = document::supported(settings, "the manifest's settings", newest, &entry.shown, &mut self.notes);
        }
        self.paths.document(&value, "manifest");
        self.run.manifest = document::typed(entry, value, "the manifest", ddo_schemas::version::MANIFEST, &mut self.notes);
    }

    fn seal(&mut self, entry: &walk::Entry, value: serde_json::Value) {
        if self.run.seal_seen {
            return self.notes.add(Finding::warning("second_seal", &entry.shown, "is a second seal; the first one counts"));
        }
        self.run.seal_seen = true;
        self.paths.document(&value, "manifest_end");
        let seal: Option<ManifestEnd> =
            document::typed(entry, value, "the manifest's seal", ddo_schemas::version::MANIFEST, &mut self.notes);
        if let Some(seal) = &seal {
            document::judge_seal(entry, seal, &mut self.notes);
        }
        self.run.seal = seal;
    }

    /// Puts together what was found of the current run.
    fn end_run(&mut self) {
        let found = std::mem::take(&mut self.run);
        let (manifest_seen, folder) = (found.manifest_seen, found.folder);
        if manifest_seen && !found.seal_seen {
            let place = if folder.is_empty() { "manifest.end.json".to_string() } else { format!("{folder}/manifest.end.json") };
            let text = "is missing: the recorder did not finish, so the end of the run is not recorded";
            self.notes.add(Finding::warning("not_sealed", place, text));
        }
        found.memory.check(found.seal.as_ref(), &mut self.notes);
        let components = found.groups.finish(&mut self.notes);
        for component in components.iter().filter(|component| manifest_seen && component.reports.is_empty()) {
            let text = "has journal records and no report: the run ended before one was written, or its host writes none";
            self.notes.add(Finding::note("no_report", &component.name, text));
        }
        let run = Run {
            name: folder,
            manifest: found.manifest,
            seal: found.seal,
            components,
            memory: found.memory.samples,
            host_events: found.memory.events,
            tracker: found.tracker,
            generations: found.generations,
            operators: found.operators,
            ..Run::default()
        };
        let told = run.manifest.is_some() || run.seal.is_some() || !run.components.is_empty() || !run.generations.is_empty();
        if told || !run.memory.is_empty() || !run.operators.is_empty() {
            self.done.push(run);
        }
    }

    fn finish(mut self, path: &Path) -> Result<Run, Error> {
        if self.ignored > 0 {
            let text = format!("{} other file(s) were not looked into", self.ignored);
            self.notes.add(Finding::note("other_files", ".", text));
        }
        self.paths.report_unknown(&mut self.notes);
        let name = name_of(path).unwrap_or_else(|| "run".into());
        let run = runs::join(self.done, &name, &mut self.notes);
        let findings = self.notes.finish();
        match run {
            Some(run) => Ok(Run { findings, ..run }),
            None => {
                let reason = match findings.iter().max_by_key(|finding| finding.severity) {
                    Some(finding) => {
                        format!("no record, report, manifest, memory sample or operator trace; for example: {finding}")
                    }
                    None => "it holds no JSON files".into(),
                };
                Err(Error::NothingUsable { path: path.into(), reason })
            }
        }
    }
}

#[cfg(test)]
mod tests;
