//! What may work for a CUDA stream reach?
//!
//! May use: the handles, grants and leases of this driver. Invariants: a pointer comes only from a view that the grants cover;
//! whatever queued work needs is kept until the stream has passed it.

use super::context::Context;
use super::error::check;
use super::handle::Stream;
use super::ledger::Lease;
use crate::driver::{Grant, JobError, View};
use cudarc::driver::sys::{CUresult, CUstream};
use std::sync::Arc;

/// What a CUDA job may reach while it queues its work. The device's context is current.
#[derive(Debug)]
pub struct CudaContext {
    context: Arc<Context>,
    stream: Arc<Stream>,
    grants: Vec<Grant>,
}

/// An owner that queued work needs: its address names it.
pub(super) struct Keep {
    owner: usize,
    lease: Lease,
}

impl Keep {
    /// Keeps a shared owner.
    pub(super) fn new<T: Send + Sync + 'static>(owner: &Arc<T>) -> Keep {
        Keep { owner: Arc::as_ptr(owner) as usize, lease: Box::new(Arc::clone(owner)) }
    }
}

impl CudaContext {
    pub(super) fn new(context: Arc<Context>, stream: Arc<Stream>, grants: Vec<Grant>) -> CudaContext {
        CudaContext { context, stream, grants }
    }

    /// CUDA's handle of the stream (`CUstream`), for work that the host queues by its own means.
    pub fn stream(&self) -> u64 {
        self.stream.raw() as u64
    }

    /// Device pointer of a pinned tensor.
    ///
    /// # Errors
    /// When the view lies outside the ranges pinned for this job.
    pub fn pointer(&self, view: &View) -> Result<u64, JobError> {
        if self.grants.iter().any(|grant| grant.covers(view)) {
            return Ok(view.pointer.0);
        }
        let (start, bytes) = (view.pointer.0, view.bytes);
        Err(JobError::new(format!("{bytes} bytes at {start:#x} are not pinned for this work")))
    }

    /// The stream, for what is kept one a stream.
    pub(super) fn stream_owner(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Whether this work runs in the given context.
    pub(super) fn is_in(&self, context: &Arc<Context>) -> Result<(), JobError> {
        let same = Arc::ptr_eq(&self.context, context);
        if same { Ok(()) } else { Err(JobError::new("the kernels or buffers belong to another device context")) }
    }

    /// Queues work by one call of the library and keeps what it needs.
    pub(super) fn enqueue(
        &self,
        function: &'static str,
        keep: impl IntoIterator<Item = Keep>,
        queue: impl FnOnce(CUstream) -> CUresult,
    ) -> Result<(), JobError> {
        // Held until the work is queued, so that a point recorded by another thread lies before or behind both.
        let mut leases = self.stream.leases();
        for Keep { owner, lease } in keep {
            leases.hold(owner, || lease);
        }
        Ok(check("launch", function, queue(self.stream.raw()))?)
    }
}
