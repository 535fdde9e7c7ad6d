//! The one thing that the hot path knows of observers: somebody may want to mark windows on a stream.

use super::slot::Slot;
use crate::driver::StreamId;
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
    /// Marks the end of a step.
    fn step(&self);
}

pub(crate) type MarksSlot = Slot<dyn Marks>;

/// Runs `work` inside a window when somebody observes.
pub(crate) fn window<T>(
    marks: &MarksSlot,
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
    pub(crate) fn open(marks: &MarksSlot, kind: SampleKind, unit: usize, stream: StreamId) -> Option<OpenWindow> {
        let marks = marks.get()?;
        let token = marks.begin(kind, unit as u64, None, stream)?;
        Some(OpenWindow { marks, token, stream })
    }

    /// Marks its end.
    pub(crate) fn close(self) {
        self.marks.end(self.token, self.stream);
    }
}
