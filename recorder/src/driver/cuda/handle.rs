//! Who ends a stream or an event? Its last user, once.
//!
//! May use: the context. Invariants: a handle that another thread is using is not destroyed under it; a failure to destroy is
//! an answer where somebody asked for it, and stored in the context where nobody did.

#![allow(unsafe_code)]

use super::context::Context;
use super::error::check;
use super::ledger::{Lease, Leases};
use crate::driver::{DriverResult, StreamId};
use cudarc::driver::sys::{self, CUevent, CUstream};
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A stream with what its work still needs.
pub(super) struct Stream {
    raw: usize,
    context: Arc<Context>,
    ended: bool,
    leases: Mutex<Leases>,
}

impl Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:#x})", self.raw)
    }
}

impl Stream {
    pub(super) fn create(context: &Arc<Context>, priority: i32) -> DriverResult<Stream> {
        let mut raw: CUstream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: `raw` is a valid place for one handle; the caller made the context current.
        let answer = unsafe { sys::cuStreamCreateWithPriority(&mut raw, flags, priority) };
        check("stream_create", "cuStreamCreateWithPriority", answer)?;
        Ok(Stream { raw: raw as usize, context: Arc::clone(context), ended: false, leases: Mutex::default() })
    }

    pub(super) fn raw(&self) -> CUstream {
        self.raw as CUstream
    }

    /// The leases; whoever queues work holds them until it is queued, so that points keep the order of the queue.
    pub(super) fn leases(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what nothing behind the point uses, outside the lock.
    pub(super) fn passed(&self, point: u64) {
        let done: Vec<Lease> = self.leases().passed(point);
        drop(done);
    }

    /// Blocks until everything queued so far has run.
    pub(super) fn synchronize(&self, call: &'static str) -> DriverResult<()> {
        let point = self.leases().point();
        // SAFETY: the stream lives as long as `self`; the caller made its context current.
        check(call, "cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.raw()) })?;
        self.passed(point);
        Ok(())
    }

    /// Whether everything queued so far has run.
    pub(super) fn idle(&self) -> bool {
        // SAFETY: the stream lives as long as `self`; the caller made its context current.
        unsafe { sys::cuStreamQuery(self.raw()) == sys::CUresult::CUDA_SUCCESS }
    }

    fn end(&mut self) -> DriverResult<()> {
        self.ended = true;
        self.context.make_current("stream_destroy")?;
        // SAFETY: created by `create`, destroyed once: `ended` is set, and `self` is the last user.
        check("stream_destroy", "cuStreamDestroy_v2", unsafe { sys::cuStreamDestroy_v2(self.raw()) })
    }

    /// Ends an idle stream now, or with its last user.
    pub(super) fn destroy(stream: Arc<Stream>) -> DriverResult<()> {
        Arc::into_inner(stream).map_or(Ok(()), |mut stream| stream.end())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.ended {
            // Work that cannot be proven over may still read what it was given.
            let current = self.context.make_current("stream_destroy");
            if current.is_err() || !self.idle() {
                self.leases().forget();
            }
            let outcome = current.and_then(|()| self.end());
            self.context.store(outcome);
        }
    }
}

/// An event.
#[derive(Debug)]
pub(super) struct Event {
    raw: usize,
    context: Arc<Context>,
    ended: bool,
    pub(super) timing: bool,
    /// The stream of the latest record, and the point in it.
    pub(super) recorded: Mutex<Option<(StreamId, u64)>>,
}

impl Event {
    pub(super) fn create(context: &Arc<Context>, timing: bool) -> DriverResult<Event> {
        let mut raw: CUevent = std::ptr::null_mut();
        let flags = if timing { sys::CUevent_flags::CU_EVENT_DEFAULT } else { sys::CUevent_flags::CU_EVENT_DISABLE_TIMING };
        // SAFETY: `raw` is a valid place for one handle; the caller made the context current.
        check("event_create", "cuEventCreate", unsafe { sys::cuEventCreate(&mut raw, flags as u32) })?;
        Ok(Event { raw: raw as usize, context: Arc::clone(context), ended: false, timing, recorded: Mutex::default() })
    }

    pub(super) fn raw(&self) -> CUevent {
        self.raw as CUevent
    }

    /// Stream and point of the latest record; `None` before the first.
    pub(super) fn recorded(&self) -> Option<(StreamId, u64)> {
        *self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&mut self) -> DriverResult<()> {
        self.ended = true;
        self.context.make_current("event_destroy")?;
        // SAFETY: created by `create`, destroyed once: `ended` is set, and `self` is the last user.
        check("event_destroy", "cuEventDestroy_v2", unsafe { sys::cuEventDestroy_v2(self.raw()) })
    }

    /// Ends the event now, or with its last user.
    pub(super) fn destroy(event: Arc<Event>) -> DriverResult<()> {
        Arc::into_inner(event).map_or(Ok(()), |mut event| event.end())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if !self.ended {
            let outcome = self.end();
            self.context.store(outcome);
        }
    }
}
