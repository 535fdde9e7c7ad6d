//! Memory samples as a counter: "How much did the command hold?"
//!
//! Uses `model` and `clocks`. Invariants: the track is named by what was read; a sample without a value is an instant
//! on the data quality track.

use super::clocks::Shift;
use super::model::{Model, Point};
use crate::run::nanoseconds;
use ddo_schemas::memory::MemorySample;
use ddo_schemas::{Unit, catalogue};

/// Draws the samples.
pub(super) fn draw(model: &mut Model, samples: &[MemorySample], parent: u64, shift: Shift, label: &str) {
    let name = if label.is_empty() { "host memory".to_string() } else { format!("host memory ({label})") };
    let mut track = None;
    for sample in samples {
        let Some(at) = nanoseconds(sample.elapsed_seconds.0).map(|ns| shift.at(ns)) else { continue };
        match sample.rss_bytes.map(i64::try_from) {
            Some(Ok(value)) => {
                let track = *track.get_or_insert_with(|| {
                    let group = model.track(parent, &name, "Samples of the memory monitor; a short peak can fall between two.");
                    let text = catalogue::find("memory.rss_bytes").map_or("", |row| row.field.meaning);
                    model.counter(group, "resident memory (rss, sampled)", Unit::Bytes, text)
                });
                model.points.push(Point { track, at, value });
            }
            Some(Err(_)) => model.doubt(at, "value above 2^63-1", Vec::new()),
            None => {
                let reason = sample.error_type.as_deref().unwrap_or("no reason recorded");
                let notes = vec![model.text("error_type", reason)];
                model.doubt(at, "memory sample without a value", notes);
            }
        }
    }
}
