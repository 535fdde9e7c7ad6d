//! Native timelines in integer nanoseconds: "When was each window open?"
//!
//! Uses the recorded structure. Invariants: the origin stays the recorded epoch, so times may be negative; a window
//! without both times has none, and no duration is made up for it.

use ddo_schemas::timeline::{NativeTimeline, Sample, SampleKind, SampleStatus};

/// A recorded timeline and its windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// The structure as recorded.
    pub recorded: NativeTimeline,
    /// Its samples by sequence.
    pub windows: Vec<Window>,
}

/// One window between two markers on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Order in which windows were opened, from 1.
    pub sequence: u64,
    /// Run-local unit; see the catalogue for step markers.
    pub unit: u64,
    /// Stream handle; an identity inside this run only.
    pub stream: u64,
    /// What the window encloses.
    pub kind: SampleKind,
    /// Payload, where collected.
    pub bytes: Option<u64>,
    /// Whether, and when, it was open.
    pub state: WindowState,
}

/// The times of a window, or why it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowState {
    /// Nanoseconds since the timeline's epoch; the end is not before the start.
    Complete {
        /// First marker.
        start_ns: i64,
        /// Second marker.
        end_ns: i64,
    },
    /// A marker is still in flight.
    Pending,
    /// A marker failed.
    Failed,
    /// Called complete, but its times are missing or run backwards.
    Contradictory,
}

impl Window {
    /// Start and end, where known.
    pub fn times(&self) -> Option<(i64, i64)> {
        match self.state {
            WindowState::Complete { start_ns, end_ns } => Some((start_ns, end_ns)),
            WindowState::Pending | WindowState::Failed | WindowState::Contradictory => None,
        }
    }
}

/// Seconds to whole nanoseconds; `None` for what does not fit 64 bits.
pub fn nanoseconds(seconds: f64) -> Option<i64> {
    let ns = (seconds * 1e9).round();
    // 2^62 ns are 146 years: room for shifts without overflow.
    (ns.is_finite() && ns.abs() < 4.6e18).then_some(ns as i64)
}

impl Timeline {
    /// Converts a recorded timeline.
    pub fn new(recorded: NativeTimeline) -> Timeline {
        let mut windows: Vec<Window> = recorded.samples.iter().map(window).collect();
        windows.sort_by_key(|window| window.sequence);
        Timeline { recorded, windows }
    }

    /// The module name of a run-local unit, where the timeline has one.
    pub fn unit_name(&self, unit: u64) -> Option<&str> {
        self.recorded.execution_units.get(&unit.to_string()).map(String::as_str)
    }

    /// Complete windows of one kind as (start, end).
    pub fn intervals(&self, kind: SampleKind) -> Vec<(i64, i64)> {
        self.windows.iter().filter(|window| window.kind == kind).filter_map(Window::times).collect()
    }

    /// Times of the step marker with this number.
    pub fn marker(&self, unit: u64) -> Option<(i64, i64)> {
        self.windows.iter().find(|w| w.kind == SampleKind::StepMarker && w.unit == unit).and_then(Window::times)
    }
}

fn window(sample: &Sample) -> Window {
    let state = match sample.status {
        SampleStatus::Pending => WindowState::Pending,
        SampleStatus::Failed => WindowState::Failed,
        SampleStatus::Complete => {
            let start = sample.start_seconds.and_then(|s| nanoseconds(s.0));
            let end = sample.end_seconds.and_then(|s| nanoseconds(s.0));
            match (start, end) {
                (Some(start_ns), Some(end_ns)) if start_ns <= end_ns => WindowState::Complete { start_ns, end_ns },
                _ => WindowState::Contradictory,
            }
        }
    };
    Window {
        sequence: sample.sequence,
        unit: sample.unit,
        stream: sample.stream,
        kind: sample.kind,
        bytes: sample.bytes.0,
        state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_whole_nanoseconds_or_nothing() {
        assert_eq!(nanoseconds(4.527_999_833e-5), Some(45_280));
        assert_eq!(nanoseconds(-1.5e-9), Some(-2));
        assert_eq!(nanoseconds(f64::NAN), None);
        assert_eq!(nanoseconds(1e30), None);
    }
}
