//! Generations with one loaded model: "How do repeats compare?"
//!
//! May use: the run folder, snapshots and the session's clock.
//!
//! Invariants: a generation lasts from the preparation of its input to the readback of its result, as the host says; the report is
//! taken afterwards, waits for nothing and collects nothing; without a timer there is no report, which is written as null. Each
//! generation is a file of its own, so that earlier ones stay readable whatever happens to later ones.

use super::folder::claim_dir;
use super::host_events::event;
use super::journal::{make_folder, to_json};
use super::publish::publish_new;
use super::run::RecordRun;
use super::snapshot::SnapshotOptions;
use super::timer::Timing;
use crate::error::{Error, Result};
use crate::meter::Nanos;
use crate::session::Offload;
use ddo_schemas::memory::HostEvent;
use ddo_schemas::settings::MAX_GENERATIONS;
use ddo_schemas::tracker::{GenerationObservation, Tracker};
use ddo_schemas::{Nullable, Seconds};
use std::path::PathBuf;

/// Observes generations of one attached component and publishes each.
#[derive(Debug)]
pub struct Generations {
    run: RecordRun,
    offload: Offload,
    folder: Option<PathBuf>,
    begun: u64,
}

/// A generation that runs.
#[derive(Debug)]
#[must_use = "a generation is observed when it has ended"]
pub struct Generation {
    index: u64,
    started: Nanos,
}

/// A generation whose result has been read back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObservedGeneration {
    /// Which one it was, from zero.
    pub index: u64,
    /// Host seconds from the preparation of the input to the readback.
    pub seconds: f64,
}

impl Generations {
    /// Observes generations of a component. Nothing is made before the first one is recorded.
    pub fn new(run: RecordRun, offload: &Offload) -> Generations {
        Generations { run, offload: offload.clone(), folder: None, begun: 0 }
    }

    /// The preparation of an input begins.
    ///
    /// # Errors
    /// A refusal after as many generations as one run may have.
    pub fn begin(&mut self) -> Result<Generation> {
        if self.begun >= MAX_GENERATIONS {
            let what = "generations of one run";
            return Err(Error::refused("generations_full", what, self.begun + 1, MAX_GENERATIONS, "generations"));
        }
        self.begun += 1;
        Ok(Generation { index: self.begun - 1, started: self.offload.inner.clock.now() })
    }

    /// The result has been read back.
    pub fn end(&self, generation: &Generation) -> ObservedGeneration {
        let seconds = self.offload.inner.clock.now().since(generation.started) as f64 / 1e9;
        ObservedGeneration { index: generation.index, seconds }
    }

    /// Publishes a generation as `generations/COMPONENT/generation_NNNN.json`: a part of the host tracker's report. With the
    /// generation's timer it has a report.
    ///
    /// # Errors
    /// [`Error::Publish`] where it was published before; [`Error::Serialise`]; I/O errors with their path; the driver's, when a
    /// timer is read.
    pub fn record(&mut self, observed: ObservedGeneration, timing: Option<&Timing>) -> Result<PathBuf> {
        let report = match timing {
            Some(timing) => {
                let options = SnapshotOptions { timing: Some(timing), ..SnapshotOptions::default() };
                let report = self.offload.metrics_snapshot(options)?;
                let as_value = serde_json::to_value(report);
                Some(as_value.map_err(|error| Error::Serialise { what: "a report".into(), reason: error.to_string() })?)
            }
            None => None,
        };
        let tracker = Tracker {
            generation_observations: Some(vec![GenerationObservation {
                repeat_index: Some(observed.index),
                elapsed_seconds: Some(Seconds(observed.seconds)),
                ddo_report: Some(Nullable(report)),
            }]),
            ..Tracker::default()
        };
        let file = format!("generation_{:04}.json", observed.index);
        let path = publish_new(&self.folder()?, &file, &to_json(&file, &tracker)?)?;
        let folder = Some(self.run.relative(&path));
        self.run.tell(&HostEvent { component: Some(self.offload.component().into()), folder, ..event("generation") })?;
        Ok(path)
    }

    fn folder(&mut self) -> Result<PathBuf> {
        if let Some(folder) = &self.folder {
            return Ok(folder.clone());
        }
        let parent = self.run.folder().join("generations");
        make_folder(&parent)?;
        let name = self.run.settings().component.as_deref().unwrap_or(self.offload.component());
        let claimed = claim_dir(&parent, name);
        let claimed = claimed.map_err(|error| Error::io("claim a folder in", &parent, std::io::Error::other(error)))?;
        self.folder = Some(claimed.clone());
        Ok(claimed)
    }
}
