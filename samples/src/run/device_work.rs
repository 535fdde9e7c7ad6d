//! What does a cuda device compute with a unit? A fold of every tensor, and a chain of matrix products if tokens are asked for.
//!
//! May use: the recorder's embeddable interface and its safe kernels.
//!
//! Invariants: every weight byte changes a number that is compared; what a pass computes depends on the weights alone, since the
//! activations start from the same values; a matrix product's scale keeps the values near one.

use super::RunError;
use crate::flux::{FluxUnit, flux_shaped};
use ddo_recorder::driver::cuda::compute::{DeviceBuffer, Gemm, GemmShape, Kernels};
use ddo_recorder::driver::{CudaContext, CudaDriver};
use ddo_recorder::{Job, JobError, LaunchScope, Offload, UnitId, View};
use std::sync::Arc;
use std::time::Duration;

/// Root mean square of a generated weight: uniform mantissas between 1/64 and 1/32.
const WEIGHT_RMS: f32 = 0.023_87;
/// Widest activation, in widths: the modulation layers' output.
const WIDEST: u64 = 6;
/// Seeds of the two activation buffers.
const SEEDS: [u64; 2] = [1_000, 2_000];

/// Matrix products with their activations.
struct Chain {
    gemm: Gemm,
    tokens: u64,
    buffers: [DeviceBuffer; 2],
}

/// One block with the number of its first tensor.
struct Block {
    unit: FluxUnit,
    first_tensor: u64,
    last: bool,
}

/// What all jobs share.
struct Shared {
    kernels: Kernels,
    sums: DeviceBuffer,
    numbers: u64,
    chain: Option<Chain>,
}

/// How one pass is submitted.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Where its numbers go: the place of this pass.
    pub index: u64,
    /// The least time that each unit takes.
    pub slow: Duration,
    /// One job for each unit or for each of its matrices.
    pub launches: LaunchScope,
}

/// The workload on one device.
pub struct DeviceWork {
    shared: Arc<Shared>,
    blocks: Vec<Arc<Block>>,
    tensors: u64,
}

impl DeviceWork {
    /// Compiles the kernels and allocates results for `passes` passes, and activations if `tokens` is not zero.
    ///
    /// # Errors
    /// A library or memory is missing.
    pub fn new(driver: &CudaDriver, width: usize, tokens: u64, passes: u64) -> Result<DeviceWork, RunError> {
        let units = flux_shaped(width);
        let (mut blocks, mut tensors) = (Vec::new(), 0);
        for (index, unit) in units.iter().enumerate() {
            blocks.push(Arc::new(Block { unit: unit.clone(), first_tensor: tensors, last: index + 1 == units.len() }));
            tensors += unit.tensors.len() as u64;
        }
        let device = |error| RunError::Runtime(ddo_recorder::Error::Driver(error));
        let numbers = tensors + u64::from(tokens > 0);
        let chain = match tokens {
            0 => None,
            tokens => {
                let bytes = tokens * WIDEST * width as u64 * 2;
                let buffer = || DeviceBuffer::new(driver, bytes).map_err(device);
                Some(Chain { gemm: Gemm::open(driver).map_err(device)?, tokens, buffers: [buffer()?, buffer()?] })
            }
        };
        let sums = DeviceBuffer::new(driver, passes.max(1) * numbers * 8).map_err(device)?;
        let shared = Shared { kernels: Kernels::compile(driver).map_err(device)?, sums, numbers, chain };
        let work = DeviceWork { shared: Arc::new(shared), blocks, tensors };
        work.reset()?;
        Ok(work)
    }

    /// The attached component's units in execution order.
    ///
    /// # Errors
    /// A block is no unit of the component.
    pub fn units(&self, offload: &Offload) -> Result<Vec<UnitId>, RunError> {
        let have = offload.units().len();
        let find = |name: &String| offload.unit_named(name).ok_or_else(|| RunError::NoUnit { name: name.clone(), have });
        self.blocks.iter().map(|block| find(&block.unit.name)).collect()
    }

    /// Clears the results of all passes. Earlier passes must have been waited for.
    ///
    /// # Errors
    /// The device's.
    pub fn reset(&self) -> Result<(), RunError> {
        let zeros = vec![0; self.shared.sums.bytes() as usize];
        self.shared.sums.upload(&zeros).map_err(|error| RunError::Runtime(error.into()))
    }

    /// Submits one pass. `after` is called behind every unit.
    ///
    /// # Errors
    /// The runtime's.
    pub fn submit(
        &self,
        offload: &Offload,
        units: &[UnitId],
        pass: Pass,
        mut after: impl FnMut() -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        for (block, unit) in self.blocks.iter().zip(units) {
            match pass.launches {
                LaunchScope::Units => self.submit_unit(offload, *unit, block, pass)?,
                LaunchScope::Parts => self.submit_parts(offload, *unit, block, pass)?,
            }
            after()?;
        }
        Ok(())
    }

    /// One job for the whole block.
    fn submit_unit(&self, offload: &Offload, unit: UnitId, block: &Arc<Block>, pass: Pass) -> Result<(), RunError> {
        let forward = offload.forward(&block.unit.name);
        let pinning = forward.operator("pin");
        let guard = offload.unit(unit)?;
        let views: Vec<View> = block.unit.tensors.iter().map(|tensor| guard.view(&tensor.name)).collect::<Result<_, _>>()?;
        drop(pinning);
        let (shared, block) = (Arc::clone(&self.shared), Arc::clone(block));
        let job = Job::cuda(move |context| {
            views.iter().enumerate().try_for_each(|(index, view)| shared.queue(context, &block, index, view, pass))
        });
        let _range = forward.operator("launch");
        Ok(offload.launch(offload.compute_stream(), guard, job)?)
    }

    /// One job for each matrix: the next ones arrive while it computes.
    fn submit_parts(&self, offload: &Offload, unit: UnitId, block: &Arc<Block>, pass: Pass) -> Result<(), RunError> {
        let forward = offload.forward(&block.unit.name);
        let guard = offload.unit(unit)?;
        for (child, first, tensors) in block.unit.children() {
            let child = forward.child(child);
            for (index, tensor) in (first..).zip(tensors) {
                let _matrix = child.operator(tensor.module());
                let view = guard.view(&tensor.name)?;
                let (shared, block) = (Arc::clone(&self.shared), Arc::clone(block));
                let job = Job::cuda(move |context| shared.queue(context, &block, index, &view, pass));
                offload.launch_part(offload.compute_stream(), &guard, job)?;
                guard.release(&tensor.name)?;
            }
        }
        Ok(())
    }

    /// The numbers of a pass that has been waited for: the folds of all tensors, then that of the last activation.
    ///
    /// # Errors
    /// The device's.
    pub fn numbers(&self, pass: u64) -> Result<Vec<u64>, RunError> {
        let mut bytes = vec![0; self.shared.sums.bytes() as usize];
        self.shared.sums.download(&mut bytes).map_err(|error| RunError::Runtime(error.into()))?;
        let numbers = bytes.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
        Ok(numbers.skip((pass * self.shared.numbers) as usize).take(self.shared.numbers as usize).collect())
    }

    /// Compares a pass that has been waited for with what it must give.
    ///
    /// # Errors
    /// [`RunError::OtherBits`], or the device's.
    pub fn compare(&self, pass: u64, step: u64, want: &[u64]) -> Result<(), RunError> {
        let got = self.numbers(pass)?;
        let differs: Vec<usize> = got.iter().zip(want).enumerate().filter(|(_, (a, b))| a != b).map(|(index, _)| index).collect();
        let total = got.len().max(want.len());
        let different = differs.len() + got.len().abs_diff(want.len());
        if different == 0 {
            return Ok(());
        }
        let first = differs.first().copied().unwrap_or(got.len().min(want.len()));
        let number = |numbers: &[u64]| numbers.get(first).copied().unwrap_or_default();
        Err(RunError::OtherBits { step, what: self.name(first), got: number(&got), want: number(want), different, total })
    }

    fn name(&self, number: usize) -> String {
        let number = number as u64;
        if number >= self.tensors {
            return "the last activation".into();
        }
        let block = self.blocks.iter().rev().find(|block| block.first_tensor <= number);
        let named = block.and_then(|block| {
            let tensor = block.unit.tensors.get((number - block.first_tensor) as usize)?;
            Some(format!("the fold of {}.{}", block.unit.name, tensor.name))
        });
        named.unwrap_or_else(|| format!("number {number}"))
    }
}

impl Shared {
    /// Queues what reads the block's `index`-th matrix.
    fn queue(&self, context: &CudaContext, block: &Block, index: usize, view: &View, pass: Pass) -> Result<(), JobError> {
        let (first, number) = (pass.index * self.numbers, block.first_tensor + index as u64);
        if let Some(chain) = self.chain.as_ref().filter(|_| number == 0) {
            for (buffer, seed) in chain.buffers.iter().zip(SEEDS) {
                self.kernels.fill_bf16(context, buffer, seed)?;
            }
        }
        if index == 0 && !pass.slow.is_zero() {
            self.kernels.spin(context, pass.slow)?;
        }
        self.kernels.fold(context, view, number, &self.sums, first + number)?;
        let (Some(chain), Some(tensor)) = (&self.chain, block.unit.tensors.get(index)) else { return Ok(()) };
        let [n, k] = tensor.shape.map(|extent| extent as u64);
        let (from, to) = chain.pair(number);
        let scale = 1.0 / (WEIGHT_RMS * (k as f32).sqrt());
        chain.gemm.linear_bf16(context, from, view, to, GemmShape { m: chain.tokens, n, k }, scale)?;
        if block.last && number == self.numbers - 2 {
            self.kernels.fold_buffer(context, to, chain.tokens * n * 2, number + 1, &self.sums, first + number + 1)?;
        }
        Ok(())
    }
}

impl Chain {
    /// Input and output of a tensor's product: the buffers take turns.
    fn pair(&self, tensor: u64) -> (&DeviceBuffer, &DeviceBuffer) {
        let [even, odd] = &self.buffers;
        if tensor.is_multiple_of(2) { (even, odd) } else { (odd, even) }
    }
}
