//! Work that a host hands to a stream, and the views it may read.

use super::DeviceAddress;
use super::activity::CHILD_RANGE;
use super::block::HostBlock;
use super::cuda::CudaContext;
use super::host::Inside;
use crate::limits::{MAX_JOB_FAILURES, MAX_RANK};
use crate::plan::checkpoint::Dtype;
use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Host bytes with a lease on their owner; the owner lives until the last copy of them has run.
#[derive(Clone)]
pub struct HostBytes {
    /// `None` for bytes that are only counted.
    owner: Option<Arc<dyn AsRef<[u8]> + Send + Sync>>,
    /// The block that the bytes lie in, where they lie in one.
    block: Option<Arc<HostBlock>>,
    range: Range<usize>,
}

/// Keeps bytes mapped without being a lease on their contents: what a registration needs.
#[derive(Clone)]
pub(super) struct Keeper {
    /// Address of the first byte.
    pub(super) start: usize,
    block: Option<Arc<HostBlock>>,
    owner: Option<Arc<dyn AsRef<[u8]> + Send + Sync>>,
}

impl Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.block.is_some() || self.owner.is_some();
        write!(f, "Keeper({:#x}, kept: {kept})", self.start)
    }
}

impl HostBytes {
    /// A lease on part of the owner's bytes; `None` when the range lies outside.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>, offset: u64, bytes: u64) -> Option<HostBytes> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(bytes).ok()?)?;
        (*owner).as_ref().get(start..end)?;
        Some(HostBytes { owner: Some(owner), block: None, range: start..end })
    }

    /// Bytes that are only counted, for simulations of models that no machine could hold. `None` when there are more
    /// than the machine can address.
    pub fn unbacked(bytes: u64) -> Option<HostBytes> {
        Some(HostBytes { owner: None, block: None, range: 0..usize::try_from(bytes).ok()? })
    }

    /// A lease on a stretch of these bytes; `None` when it lies outside.
    pub fn stretch(&self, from: u64, bytes: u64) -> Option<HostBytes> {
        let start = self.range.start.checked_add(usize::try_from(from).ok()?)?;
        let end = start.checked_add(usize::try_from(bytes).ok()?).filter(|end| *end <= self.range.end)?;
        Some(HostBytes { owner: self.owner.clone(), block: self.block.clone(), range: start..end })
    }

    /// True when there are real bytes.
    pub fn is_backed(&self) -> bool {
        self.owner.is_some()
    }

    /// The bytes; empty when they are only counted.
    pub fn as_slice(&self) -> &[u8] {
        let all = self.owner.as_deref().map_or(&[][..], |owner| owner.as_ref());
        all.get(self.range.clone()).unwrap_or(&[])
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.range.len() as u64
    }

    /// A lease on bytes of a block.
    pub(super) fn of_block(
        owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
        block: Arc<HostBlock>,
        offset: u64,
        bytes: u64,
    ) -> Option<HostBytes> {
        HostBytes::new(owner, offset, bytes).map(|lease| HostBytes { block: Some(block), ..lease })
    }

    /// Keeps the bytes mapped. A block lives on without its lease, so that it can be written while it is registered.
    pub(super) fn keeper(&self) -> Keeper {
        let owner = if self.block.is_some() { None } else { self.owner.clone() };
        Keeper { start: self.as_slice().as_ptr() as usize, block: self.block.clone(), owner }
    }

    /// Names the owner while any lease on it lives; `None` for bytes that are only counted.
    pub(super) fn owner_address(&self) -> Option<usize> {
        self.owner.as_ref().map(|owner| Arc::as_ptr(owner).cast::<()>() as usize)
    }
}

impl Debug for HostBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBytes({:?})", self.range)
    }
}

/// Where a tensor lies in device memory: a plain value, valid while its unit is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// First byte.
    pub pointer: DeviceAddress,
    /// Element type.
    pub dtype: Dtype,
    /// Payload in bytes.
    pub bytes: u64,
    rank: u8,
    shape: [u64; MAX_RANK],
}

impl View {
    /// A view of a contiguous tensor; `None` when it has more than [`MAX_RANK`] dimensions.
    pub fn new(pointer: DeviceAddress, dtype: Dtype, shape: &[u64], bytes: u64) -> Option<View> {
        let mut fixed = [0; MAX_RANK];
        fixed.get_mut(..shape.len())?.copy_from_slice(shape);
        Some(View { pointer, dtype, bytes, rank: u8::try_from(shape.len()).ok()?, shape: fixed })
    }

    /// Elements in each dimension, outermost first.
    pub fn shape(&self) -> &[u64] {
        self.shape.get(..usize::from(self.rank)).unwrap_or(&[])
    }

    /// Elements to step over in each dimension; the tensor is contiguous.
    pub fn strides(&self) -> Vec<u64> {
        let mut strides = vec![1; self.shape().len()];
        let mut step = 1u64;
        for (stride, extent) in strides.iter_mut().zip(self.shape()).rev() {
            *stride = step;
            step = step.saturating_mul(*extent);
        }
        strides
    }
}

/// Element types that a host job may read.
pub trait Element: bytemuck::Pod {
    /// The data type that matches.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),* $(,)?) => { $(impl Element for $ty { const DTYPE: Dtype = Dtype::$dtype; })* };
}
elements!(f32 => F32, f64 => F64, i64 => I64, i32 => I32, u8 => U8, half::bf16 => Bf16, half::f16 => F16);

/// Device memory that a job may touch: a pinned range.
///
/// Only the session makes grants, for ranges that stay mapped and unchanged until the job has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    address: DeviceAddress,
    bytes: u64,
}

impl Grant {
    pub(crate) fn new(address: DeviceAddress, bytes: u64) -> Grant {
        Grant { address, bytes }
    }

    /// Whether the view lies inside.
    pub(super) fn covers(&self, view: &View) -> bool {
        let start = view.pointer.0;
        start >= self.address.0
            && start.checked_add(view.bytes).is_some_and(|end| end <= self.address.0.saturating_add(self.bytes))
    }
}

/// Why host-supplied work could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct JobError {
    reason: String,
}

impl JobError {
    /// A failure with its reason.
    pub fn new(reason: impl Into<String>) -> JobError {
        JobError { reason: reason.into() }
    }
}

impl From<super::DriverError> for JobError {
    fn from(error: super::DriverError) -> JobError {
        JobError::new(error.to_string())
    }
}

impl From<super::compute::ComputeError> for JobError {
    fn from(error: super::compute::ComputeError) -> JobError {
        JobError::new(error.to_string())
    }
}

/// What a host job may reach while it runs.
#[derive(Debug)]
pub struct HostContext {
    grants: Vec<Grant>,
    backed: bool,
    inside: Option<Inside>,
}

/// A stretch of host work, until it is dropped.
#[derive(Debug)]
#[must_use = "a stretch ends when it is dropped"]
pub struct Stretch<'a> {
    open: Option<(&'a Inside, Cow<'a, str>, u64)>,
}

impl Drop for Stretch<'_> {
    fn drop(&mut self) {
        if let Some((inside, name, start)) = self.open.take() {
            inside.ended(&name, start);
        }
    }
}

impl HostContext {
    pub(crate) fn new(grants: Vec<Grant>) -> HostContext {
        HostContext { grants, backed: true, inside: None }
    }

    /// Announces a stretch of this work under a name, such as that of an operator; it ends when the value is dropped. Nothing
    /// is recorded unless a diagnostic scope watches the stream.
    pub fn stretch<'a>(&'a self, name: &'a str) -> Stretch<'a> {
        Stretch { open: self.inside.as_ref().map(|inside| (inside, Cow::Borrowed(name), inside.now())) }
    }

    /// Announces the forward of a child of the module that this work belongs to, by its name there; otherwise as
    /// [`HostContext::stretch`].
    pub fn child<'a>(&'a self, name: &'a str) -> Stretch<'a> {
        let named = || Cow::Owned(format!("{CHILD_RANGE}{name}"));
        Stretch { open: self.inside.as_ref().map(|inside| (inside, named(), inside.now())) }
    }

    /// The elements of a pinned tensor.
    ///
    /// # Errors
    /// When the view lies outside the ranges pinned for this job, or its element type is another one.
    pub fn slice<T: Element>(&self, view: &View) -> Result<&[T], JobError> {
        if view.dtype != T::DTYPE {
            return Err(JobError::new(format!("the view holds {}, not {}", view.dtype.name(), T::DTYPE.name())));
        }
        if !self.backed {
            return Err(JobError::new("device memory is only counted on this driver, it holds no bytes"));
        }
        if !self.grants.iter().any(|grant| grant.covers(view)) {
            let (start, bytes) = (view.pointer.0, view.bytes);
            return Err(JobError::new(format!("{bytes} bytes at {start:#x} are not pinned for this work")));
        }
        let bytes = super::host::device_bytes(view.pointer, view.bytes, self);
        bytemuck::try_cast_slice(bytes).map_err(|error| JobError::new(format!("the view cannot be read as elements: {error}")))
    }
}

/// Work that runs on the host.
type HostWork = Box<dyn FnOnce(&HostContext) -> Result<(), JobError> + Send>;

/// Work that queues kernels on a CUDA stream.
type CudaWork = Box<dyn FnOnce(&CudaContext) -> Result<(), JobError> + Send>;

/// Work for a stream.
#[non_exhaustive]
pub enum Job {
    /// Runs on the host, in stream order.
    Host {
        /// The work.
        work: HostWork,
        /// The least time it is to take, for imitating a device; zero for as long as it takes.
        lasting: Duration,
    },
    /// Runs at once on the launching thread and queues its kernels on the CUDA stream.
    Cuda(CudaWork),
}

impl Job {
    /// Work that runs on the host, in stream order.
    pub fn host(work: impl FnOnce(&HostContext) -> Result<(), JobError> + Send + 'static) -> Job {
        Job::Host { work: Box::new(work), lasting: Duration::ZERO }
    }

    /// Work that queues kernels on a CUDA stream. It runs on the launching thread, inside the launch.
    pub fn cuda(work: impl FnOnce(&CudaContext) -> Result<(), JobError> + Send + 'static) -> Job {
        Job::Cuda(Box::new(work))
    }

    /// The same work, lasting at least as long as a device would need; exactly as long in virtual time. Work for a real
    /// device takes the time that it takes.
    #[must_use]
    pub fn lasting(self, least: Duration) -> Job {
        match self {
            Job::Host { work, .. } => Job::Host { work, lasting: least },
            other => other,
        }
    }
}

impl Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Job::Host { lasting, .. } => write!(f, "Job::Host(at least {lasting:?})"),
            Job::Cuda(_) => write!(f, "Job::Cuda"),
        }
    }
}

/// Failures of jobs, kept until the host asks.
#[derive(Debug, Default)]
pub struct JobFailures {
    kept: Mutex<(Vec<(String, String)>, u64)>,
}

impl JobFailures {
    /// Keeps a failure of the named unit.
    pub fn push(&self, unit: &str, reason: String) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.1 += 1;
        if kept.0.len() < MAX_JOB_FAILURES {
            kept.0.push((unit.to_string(), reason));
        }
    }

    /// Takes the oldest failure that was kept.
    pub fn take_first(&self) -> Option<(String, String)> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0.is_empty() { None } else { Some(kept.0.remove(0)) }
    }

    /// Failures so far, taken or not.
    pub fn count(&self) -> u64 {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// A job with the memory it may touch and the place for its failure.
#[derive(Debug)]
pub struct Launch {
    /// The work.
    pub job: Job,
    /// Pinned ranges.
    pub grants: Vec<Grant>,
    /// Name of the unit, for errors.
    pub unit: Arc<str>,
    /// Where a failure is kept.
    pub failures: Arc<JobFailures>,
}

impl Launch {
    /// The least time that the work is to take.
    pub(crate) fn lasting(&self) -> Duration {
        match &self.job {
            Job::Host { lasting, .. } => *lasting,
            Job::Cuda(_) => Duration::ZERO,
        }
    }

    /// Runs host work; a panic in it becomes a failure. `backed` says whether device memory holds bytes.
    pub(crate) fn run_host(self, backed: bool, inside: Option<Inside>) {
        let Launch { job, grants, unit, failures } = self;
        let outcome = match job {
            Job::Host { work, .. } => guarded(|| work(&HostContext { grants, backed, inside })),
            Job::Cuda(_) => Err(CUDA_ONLY.to_string()),
        };
        if let Err(reason) = outcome {
            failures.push(&unit, reason);
        }
    }

    /// Runs CUDA work on this thread; a panic in it becomes a failure.
    pub(super) fn run_cuda(self, context: impl FnOnce(Vec<Grant>) -> CudaContext) {
        let Launch { job, grants, unit, failures } = self;
        let outcome = match job {
            Job::Cuda(work) => guarded(|| work(&context(grants))),
            Job::Host { .. } => Err("host work needs the host driver".to_string()),
        };
        if let Err(reason) = outcome {
            failures.push(&unit, reason);
        }
    }
}

/// Why the host driver declines CUDA work.
pub(super) const CUDA_ONLY: &str = "CUDA work needs the CUDA driver";

fn guarded(work: impl FnOnce() -> Result<(), JobError>) -> Result<(), String> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it panicked".to_string()),
    }
}
