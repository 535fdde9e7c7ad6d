//! The metrics journal: one published record at each step boundary, never overwriting anything.

use super::publish::publish_new;
use super::snapshot::SnapshotOptions;
use crate::error::{Error, Result};
use crate::meter::Nanos;
use crate::session::Offload;
use ddo_schemas::journal::{JournalRecord, OBSERVATION, RecordName};
use ddo_schemas::{Nullable, Seconds, version};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Whether a journal writes at all. Off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalOptions {
    /// Off: no snapshot, no folder, no file.
    pub enabled: bool,
}

/// How the file names of step records start.
pub(crate) const STEP_FILE_START: &str = "step_";

/// An open journal. It holds the session only until it is finished or dropped.
#[derive(Debug)]
pub struct MetricsJournal {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    offload: Offload,
    folder: PathBuf,
    start: Nanos,
    folder_made: bool,
    /// While this file exists, nothing is written.
    stop: Option<PathBuf>,
}

impl Offload {
    /// Opens a journal in a folder, which is made with the first record. Disabled, it touches nothing.
    pub fn metrics_journal(&self, folder: &Path, options: JournalOptions) -> MetricsJournal {
        let open = options.enabled.then(|| Open {
            offload: self.clone(),
            folder: folder.to_path_buf(),
            start: self.inner.clock.now(),
            folder_made: false,
            stop: None,
        });
        MetricsJournal { open }
    }
}

impl MetricsJournal {
    /// Writes nothing while the given file exists; a wrapper makes it when its disk budget is reached.
    #[must_use]
    pub fn stopped_by(mut self, file: PathBuf) -> MetricsJournal {
        if let Some(open) = &mut self.open {
            open.stop = Some(file);
        }
        self
    }

    /// Publishes the record before the first step (`None`) or after the submission of a step, and says where.
    /// `None` from a disabled or finished journal's point of view: a disabled one answers `Ok(None)`, and so does one that
    /// was told to stop.
    ///
    /// # Errors
    /// [`Error::Publish`] when the record exists already or cannot be published; earlier records stay as they are.
    ///
    /// # Cost
    /// Writes, flushes and publishes one file.
    pub fn record(&mut self, step: Option<u64>) -> Result<Option<PathBuf>> {
        let Some(open) = &mut self.open else { return Ok(None) };
        if open.stop.as_ref().is_some_and(|file| file.exists()) {
            return Ok(None);
        }
        let name = step.map_or(RecordName::Before, RecordName::Step).file_name();
        let record = JournalRecord {
            schema_version: version::JOURNAL,
            observation: OBSERVATION.into(),
            step_index: Nullable(step),
            host_elapsed_seconds: Seconds(open.offload.inner.clock.now().since(open.start) as f64 / 1e9),
            gpu_completion_proven: false,
            completion_collection_requested: false,
            metrics: open.offload.metrics_snapshot(SnapshotOptions::default())?,
        };
        let json = to_json(&name, &record)?;
        if !open.folder_made {
            make_folder(&open.folder)?;
            open.folder_made = true;
        }
        Ok(Some(publish_new(&open.folder, &name, &json)?))
    }

    /// Ends the journal and lets the session go.
    pub fn finish(self) {}
}

pub(super) fn to_json(what: &str, value: &impl serde::Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec_pretty(value);
    json.map_err(|error| Error::Serialise { what: what.to_string(), reason: error.to_string() })
}

/// One line of JSON with its end.
pub(super) fn to_json_line(what: &str, value: &impl serde::Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(value);
    let mut line = json.map_err(|error| Error::Serialise { what: what.to_string(), reason: error.to_string() })?;
    line.push(b'\n');
    Ok(line)
}

/// Makes a folder and its parents, for the owner only.
pub(super) fn make_folder(folder: &Path) -> Result<()> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| Error::io("make the folder", folder, error))
}
