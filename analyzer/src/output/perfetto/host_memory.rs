//! Memory samples as counters: "How much did the command hold, by kind?"
//!
//! Uses `model`, `clocks` and the analysis of memory over time. Invariants: a track is named by what was read, and two
//! names are two tracks; a sample without a value is an instant on the data quality track; a phase that a host named is an
//! instant at its first sample, for its end was not recorded.

use super::clocks::Shift;
use super::model::{Model, Point};
use crate::analysis::memory_series::series;
use crate::run::nanoseconds;
use ddo_schemas::memory::MemorySample;
use ddo_schemas::{Unit, catalogue};

/// Draws the samples.
pub(super) fn draw(model: &mut Model, samples: &[MemorySample], parent: u64, shift: Shift, label: &str) {
    let name = if label.is_empty() { "host memory".to_string() } else { format!("host memory ({label})") };
    let mut group = None;
    for series in series(samples) {
        let mut track = None;
        for (seconds, bytes) in &series.points {
            let Some(at) = nanoseconds(*seconds).map(|ns| shift.at(ns)) else { continue };
            let Ok(value) = i64::try_from(*bytes) else {
                model.doubt(at, "value above 2^63-1", Vec::new());
                continue;
            };
            let track = *track.get_or_insert_with(|| {
                let text = "Samples of the memory monitor; a short peak can fall between two.";
                let group = *group.get_or_insert_with(|| model.track(parent, &name, text));
                let text = catalogue::find(series.path).map_or("", |row| row.field.meaning);
                model.counter(group, &format!("{}, sampled", series.name), Unit::Bytes, text)
            });
            model.points.push(Point { track, at, value });
        }
    }
    for sample in samples {
        let Some(at) = nanoseconds(sample.elapsed_seconds.0).map(|ns| shift.at(ns)) else { continue };
        for (what, reason) in [("memory", &sample.error_type), ("device memory", &sample.gpu_error_type)] {
            if let Some(reason) = reason {
                let notes = vec![model.text("error_type", reason)];
                model.doubt(at, &format!("{what} sample without a value"), notes);
            }
        }
    }
    phases(model, samples, parent, shift);
}

/// The phases of the samples: an instant where the first sample of each was taken.
fn phases(model: &mut Model, samples: &[MemorySample], parent: u64, shift: Shift) {
    let mut last: Option<&str> = None;
    let mut track = None;
    for sample in samples {
        let phase = sample.phase.as_deref();
        if phase == last {
            continue;
        }
        last = phase;
        let at = nanoseconds(sample.elapsed_seconds.0).map(|ns| shift.at(ns));
        if let (Some(name), Some(at)) = (phase, at) {
            let text = "Where the first memory sample of each phase that a host named was taken.";
            let track = *track.get_or_insert_with(|| model.track(parent, "phases (by samples)", text));
            model.instant(track, at, &crate::run::shorten(name), "phase", Vec::new());
        }
    }
}
