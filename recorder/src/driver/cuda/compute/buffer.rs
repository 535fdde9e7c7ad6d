//! Where do activations live? Plain device memory outside the arena.
//!
//! Invariants: freed when the last owner goes; queued work is an owner until the stream has passed it, so no free happens
//! under running work. A failed free is stored in the driver.

#![allow(unsafe_code)]

use crate::driver::cuda::context::Context;
use crate::driver::cuda::error::{check, invalid};
use crate::driver::cuda::work::Keep;
use crate::driver::cuda::{CudaContext, CudaDriver};
use crate::driver::{DriverResult, JobError};
use cudarc::driver::sys;
use std::sync::Arc;

#[derive(Debug)]
struct Allocation {
    context: Arc<Context>,
    pointer: u64,
    bytes: u64,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let current = self.context.make_current("buffer_free");
        // SAFETY: allocated by `DeviceBuffer::new`, freed once; work that uses it owns the allocation, so none is left.
        let free = || check("buffer_free", "cuMemFree_v2", unsafe { sys::cuMemFree_v2(self.pointer) });
        self.context.store(current.and_then(|()| free()));
    }
}

/// Device memory for activations and results. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct DeviceBuffer {
    allocation: Arc<Allocation>,
}

impl DeviceBuffer {
    /// Allocates; the contents are undefined until they are written.
    ///
    /// # Errors
    /// CUDA's answer, or zero bytes.
    pub fn new(driver: &CudaDriver, bytes: u64) -> DriverResult<DeviceBuffer> {
        DeviceBuffer::in_context(&driver.context, bytes)
    }

    pub(super) fn in_context(context: &Arc<Context>, bytes: u64) -> DriverResult<DeviceBuffer> {
        let call = "buffer_new";
        context.make_current(call)?;
        let size = usize::try_from(bytes).map_err(|_| invalid(call, format!("{bytes} bytes exceed the address space")))?;
        let mut pointer = 0;
        // SAFETY: `pointer` is a valid place for one address; the context is current.
        check(call, "cuMemAlloc_v2", unsafe { sys::cuMemAlloc_v2(&mut pointer, size) })?;
        Ok(DeviceBuffer { allocation: Arc::new(Allocation { context: Arc::clone(context), pointer, bytes }) })
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.allocation.bytes
    }

    /// Device address of the first byte.
    pub fn pointer(&self) -> u64 {
        self.allocation.pointer
    }

    pub(super) fn keep(&self) -> Keep {
        Keep::new(&self.allocation)
    }

    pub(super) fn is_usable_in(&self, context: &CudaContext) -> Result<(), JobError> {
        context.is_in(&self.allocation.context)
    }

    /// Writes from the first byte on, at once. Work that uses the buffer must have been waited for.
    ///
    /// # Errors
    /// More bytes than there are, or CUDA's answer.
    ///
    /// # Cost
    /// Blocks until the bytes are there.
    pub fn upload(&self, bytes: &[u8]) -> DriverResult<()> {
        self.fits("buffer_upload", bytes.len())?;
        // SAFETY: both ranges have at least this length and live through the call, which returns when the bytes are copied.
        let answer = unsafe { sys::cuMemcpyHtoD_v2(self.pointer(), bytes.as_ptr().cast(), bytes.len()) };
        check("buffer_upload", "cuMemcpyHtoD_v2", answer)
    }

    /// Reads from the first byte on, at once. Work that writes the buffer must have been waited for.
    ///
    /// # Errors
    /// More bytes than there are, or CUDA's answer.
    ///
    /// # Cost
    /// Blocks until the bytes are there.
    pub fn download(&self, bytes: &mut [u8]) -> DriverResult<()> {
        self.fits("buffer_download", bytes.len())?;
        // SAFETY: both ranges have at least this length and live through the call, which returns when the bytes are copied.
        let answer = unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), self.pointer(), bytes.len()) };
        check("buffer_download", "cuMemcpyDtoH_v2", answer)
    }

    /// Queues zeros over the whole buffer.
    ///
    /// # Errors
    /// A buffer of another context, or CUDA's answer.
    pub fn zero(&self, context: &CudaContext) -> Result<(), JobError> {
        self.is_usable_in(context)?;
        // SAFETY: the range is the whole allocation, which the stream's leases keep; the stream is the context's.
        context.enqueue("cuMemsetD8Async", [self.keep()], |stream| unsafe {
            sys::cuMemsetD8Async(self.pointer(), 0, self.bytes() as usize, stream)
        })
    }

    fn fits(&self, call: &'static str, bytes: usize) -> DriverResult<()> {
        if bytes as u64 > self.bytes() {
            return Err(invalid(call, format!("{bytes} bytes asked for; the buffer has {}", self.bytes())));
        }
        self.allocation.context.make_current(call)
    }
}
