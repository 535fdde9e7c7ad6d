//! What the hot path knows of observers: somebody may want to mark windows on a stream, or count steps.

use super::slot::Slot;
use crate::driver::{EventId, StreamId};
use ddo_schemas::timeline::SampleKind;
use std::fmt::Debug;
use std::sync::Arc;

/// An open window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkToken(pub u64);

/// An observer of windows. Its failures never become the session's.
pub trait Marks: Send + Sync + Debug {
    /// Marks the begin of a window; `None` when there is no room for it.
    fn begin(&self, kind: SampleKind, unit: u64, bytes: Option<u64>, stream: StreamId) -> Option<MarkToken>;
    /// Marks the end of a window.
    fn end(&self, token: MarkToken, stream: StreamId);
    /// Marks the end of a step. A token asks the host to wait for the marker before it goes on.
    fn step(&self) -> Option<StepToken>;
    /// Waits until the device has passed a step's marker.
    fn wait(&self, step: StepToken);
}

/// The marker at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepToken(pub EventId);

/// An observer of steps alone, on the host's side: it calls no driver.
pub trait StepMarks: Send + Sync + Debug {
    /// A step has been submitted.
    fn step(&self);
}

pub(crate) type MarksSlot = Slot<dyn Marks>;
pub(crate) type StepsSlot = Slot<dyn StepMarks>;

/// Runs `work` inside a window when somebody observes.
pub(crate) fn window<T>(
    marks: &Slot<dyn Marks>,
    kind: SampleKind,
    unit: usize,
    bytes: Option<u64>,
    stream: StreamId,
    work: impl FnOnce() -> T,
) -> T {
    let Some(marks) = marks.get() else { return work() };
    let token = marks.begin(kind, unit as u64, bytes, stream);
    let result = work();
    if let Some(token) = token {
        marks.end(token, stream);
    }
    result
}

/// A window that somebody observes and that is not closed yet.
#[derive(Debug)]
pub(crate) struct OpenWindow {
    marks: Arc<dyn Marks>,
    token: MarkToken,
    stream: StreamId,
}

impl OpenWindow {
    /// Opens a window; `None` when nobody observes or there is no room.
    pub(crate) fn open(marks: &Slot<dyn Marks>, kind: SampleKind, unit: usize, stream: StreamId) -> Option<OpenWindow> {
        let marks = marks.get()?;
        let token = marks.begin(kind, unit as u64, None, stream)?;
        Some(OpenWindow { marks, token, stream })
    }

    /// Marks its end.
    pub(crate) fn close(self) {
        self.marks.end(self.token, self.stream);
    }
}
