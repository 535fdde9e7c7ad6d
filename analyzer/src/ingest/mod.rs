//! "What did we find on disk?" The only room that reads files.
//!
//! It may use `run` (what it builds), `limits` and `error`. Invariants: it never panics and never follows a link; a file
//! that cannot be used is a finding and the rest still loads; files are recognised by content, not by place; the
//! input is never written to. Only an input without a single usable document is an error.

mod document;
mod flatten;
mod group;
mod notes;
mod record;
mod report;
mod samples;
mod walk;

use crate::error::Error;
use crate::run::Run;
use ddo_schemas::Finding;
use ddo_schemas::manifest::{Manifest, ManifestEnd};
use document::Document;
use flatten::Paths;
use group::Groups;
use notes::Notes;
use std::path::Path;

/// Reads a journal folder, a bare folder of records, a folder of another recorder, or one file.
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
    for (at, entry) in entries.iter().enumerate() {
        watch(at, entries.len());
        tracing::debug!(file = %entry.shown, bytes = entry.bytes, "reading");
        loader.file(entry);
    }
    loader.finish(path)
}

/// The last part of a path, also for `.` and the like.
fn name_of(path: &Path) -> Option<String> {
    let named = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    named(path).or_else(|| path.canonicalize().ok().as_deref().and_then(named))
}

#[derive(Default)]
struct Loader {
    notes: Notes,
    paths: Paths,
    groups: Groups,
    manifest: Option<Manifest>,
    manifest_seen: bool,
    seal: Option<ManifestEnd>,
    seal_seen: bool,
    memory: samples::Memory,
    tracker: Option<serde_json::Value>,
    ignored: usize,
}

impl Loader {
    fn file(&mut self, entry: &walk::Entry) {
        if entry.is_temporary() {
            let text = "was never published; the writer stopped before it was complete";
            self.notes.add(Finding::warning("unpublished_temporary", &entry.shown, text));
            return;
        }
        match entry.extension() {
            Some("json") => self.json(entry),
            Some("ndjson") => self.memory.read(entry, &mut self.paths, &mut self.notes),
            _ => self.ignored += 1,
        }
    }

    fn json(&mut self, entry: &walk::Entry) {
        let value = match document::read(entry) {
            Ok(value) => value,
            Err(finding) => return self.notes.add(finding),
        };
        match Document::recognise(value) {
            Document::Record(value) => {
                if let Some(record) = record::read(entry, value, &mut self.paths, &mut self.notes) {
                    self.groups.add_record(entry.folder(), record, &mut self.notes);
                }
            }
            Document::Report(value) => {
                if let Some(report) = report::read(entry, value, &mut self.paths, &mut self.notes) {
                    self.groups.add_report(report);
                }
            }
            Document::Manifest(value) => self.manifest(entry, value),
            Document::Seal(value) => self.seal(entry, value),
            Document::Tracker(value) if self.tracker.is_none() => self.tracker = Some(value),
            Document::Tracker(_) => {
                let text = "is a second report of a host tracker; the first one counts";
                self.notes.add(Finding::warning("second_tracker", &entry.shown, text));
            }
            Document::DiskStop => {}
            Document::OperatorTrace => {
                self.notes.add(Finding::note(
                    "operator_trace_not_read",
                    &entry.shown,
                    "is an operator trace; these are not read yet",
                ));
            }
            Document::Unknown => {
                self.notes.add(Finding::note("unrecognised_file", &entry.shown, "is JSON, but no document that is known here"));
            }
        }
    }

    fn manifest(&mut self, entry: &walk::Entry, value: serde_json::Value) {
        if self.manifest_seen {
            return self.notes.add(Finding::warning(
                "second_manifest",
                &entry.shown,
                "is a second manifest; the first one counts",
            ));
        }
        self.manifest_seen = true;
        self.paths.document(&value, "manifest");
        self.manifest = document::typed(entry, value, "the manifest", ddo_schemas::version::MANIFEST, &mut self.notes);
    }

    fn seal(&mut self, entry: &walk::Entry, value: serde_json::Value) {
        if self.seal_seen {
            return self.notes.add(Finding::warning("second_seal", &entry.shown, "is a second seal; the first one counts"));
        }
        self.seal_seen = true;
        self.paths.document(&value, "manifest_end");
        let seal: Option<ManifestEnd> =
            document::typed(entry, value, "the manifest's seal", ddo_schemas::version::MANIFEST, &mut self.notes);
        if let Some(seal) = &seal {
            document::judge_seal(entry, seal, &mut self.notes);
        }
        self.seal = seal;
    }

    fn finish(mut self, path: &Path) -> Result<Run, Error> {
        if self.manifest_seen && !self.seal_seen {
            let text = "is missing: the recorder did not finish, so the end of the run is not recorded";
            self.notes.add(Finding::warning("not_sealed", "manifest.end.json", text));
        }
        if self.ignored > 0 {
            let text = format!("{} other file(s) were not looked into", self.ignored);
            self.notes.add(Finding::note("other_files", ".", text));
        }
        self.memory.check(self.seal.as_ref(), &mut self.notes);
        let components = self.groups.finish(&mut self.notes);
        for component in components.iter().filter(|component| self.manifest_seen && component.reports.is_empty()) {
            let text = "has journal records and no report: the run ended before one was written, or its host writes none";
            self.notes.add(Finding::note("no_report", &component.name, text));
        }
        self.paths.report_unknown(&mut self.notes);
        let usable = self.manifest.is_some() || self.seal.is_some() || !components.is_empty() || !self.memory.samples.is_empty();
        let findings = self.notes.finish();
        if !usable {
            let reason = match findings.iter().max_by_key(|finding| finding.severity) {
                Some(finding) => format!("no record, report, manifest or memory sample; for example: {finding}"),
                None => "it holds no JSON files".into(),
            };
            return Err(Error::NothingUsable { path: path.into(), reason });
        }
        let name = name_of(path).unwrap_or_else(|| "run".into());
        let (memory, host_events) = (self.memory.samples, self.memory.events);
        Ok(Run {
            name,
            manifest: self.manifest,
            seal: self.seal,
            components,
            memory,
            host_events,
            tracker: self.tracker,
            findings,
        })
    }
}

#[cfg(test)]
mod tests;
