//! What is run: the generated model on either driver?
//!
//! May use: the samples' workload, the recorder's embeddable interface.
//!
//! Invariants: steps of one repeat are submitted without waiting in between; each step's result is compared afterwards.

use super::StreamArgs;
use crate::args::DriverKind;
use crate::flux::{Dtype, FluxUnit, flux_shaped, flux_unit, initial_state, make_checkpoint, resident};
use crate::run::device_work::DeviceWork;
use crate::run::expected::expected_folds;
use crate::run::{RunError, SEED};
use ddo_recorder::driver::{CudaDriver, CudaOptions};
use ddo_recorder::{Driver, HostDriver, HostOptions, Job, JobError, Offload, UnitId, View};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The model on the host driver: every step's final state, in order.
pub(super) struct OnHost {
    blocks: Vec<Arc<FluxUnit>>,
    states: Arc<Mutex<Vec<Vec<f32>>>>,
    want: Vec<f32>,
}

/// The model on a cuda device.
pub(super) struct OnDevice {
    work: DeviceWork,
    want: Vec<u64>,
}

/// The model on one of them.
pub(super) enum Workload {
    Host(OnHost),
    Device(OnDevice),
}

/// A workload with its device and its file.
pub(super) struct Prepared {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) path: PathBuf,
    pub(super) workload: Workload,
}

impl Prepared {
    /// Opens the device, makes the checkpoint if it is missing, and computes the right answer.
    pub(super) fn new(args: &StreamArgs, target_dir: &Path) -> Result<Prepared, RunError> {
        let width = crate::flux::width_for_scale(args.scale());
        let dtype = if args.driver == DriverKind::Cuda { Dtype::Bf16 } else { Dtype::F32 };
        let path = args.model.clone().unwrap_or_else(|| crate::run::default_path(target_dir, width, dtype));
        match args.driver {
            DriverKind::Host => {
                let link_bytes_per_second = args.link_gb_per_second.map(|rate| rate.0);
                let driver = HostDriver::new(HostOptions { link_bytes_per_second, ..HostOptions::default() });
                let driver = driver.map_err(ddo_recorder::Error::from)?;
                let made = make_checkpoint(&path, args.scale(), dtype, SEED)?;
                let blocks = flux_shaped(made.width).into_iter().map(Arc::new).collect();
                let want = resident(&path, made.width)?;
                Ok(Prepared { driver, path, workload: Workload::Host(OnHost { blocks, states: Arc::default(), want }) })
            }
            DriverKind::Cuda => {
                let driver = CudaDriver::open(CudaOptions { device: args.device }).map_err(RunError::NoCuda)?;
                let made = make_checkpoint(&path, args.scale(), dtype, SEED)?;
                let work = DeviceWork::new(&driver, made.width, args.tokens, args.steps.max(2))?;
                let want = expected_folds(&path, made.width)?;
                Ok(Prepared { driver, path, workload: Workload::Device(OnDevice { work, want }) })
            }
        }
    }
}

impl Workload {
    pub(super) fn units(&self, offload: &Offload) -> Result<Vec<UnitId>, RunError> {
        match self {
            Workload::Device(device) => device.work.units(offload),
            Workload::Host(host) => {
                let have = offload.units().len();
                let find = |name: &String| offload.unit_named(name).ok_or_else(|| RunError::NoUnit { name: name.clone(), have });
                host.blocks.iter().map(|block| find(&block.name)).collect()
            }
        }
    }

    /// Forgets earlier results; they must have been waited for.
    pub(super) fn reset(&self) -> Result<(), RunError> {
        match self {
            Workload::Device(device) => device.work.reset(),
            Workload::Host(host) => {
                host.states.lock().unwrap_or_else(PoisonError::into_inner).clear();
                Ok(())
            }
        }
    }

    /// Submits one step, the `step`-th since the reset.
    pub(super) fn submit(&self, offload: &Offload, units: &[UnitId], step: u64) -> Result<(), RunError> {
        match self {
            Workload::Device(device) => device.work.submit(offload, units, step, Duration::ZERO, || Ok(())),
            Workload::Host(host) => host.submit(offload, units),
        }
    }

    /// Compares the steps since the reset with the right answer. The first all-resident pass settles the last activation.
    pub(super) fn compare(&mut self, steps: u64) -> Result<(), RunError> {
        match self {
            Workload::Device(OnDevice { work, want }) => {
                let numbers = work.numbers(0)?;
                if numbers.len() == want.len() + 1 {
                    want.extend(numbers.last());
                }
                (0..steps).try_for_each(|step| work.compare(step, step, want))
            }
            Workload::Host(host) => {
                let states = host.states.lock().unwrap_or_else(PoisonError::into_inner);
                states.iter().zip(0..).try_for_each(|(state, step)| crate::run::compare(step, "the state", state, &host.want))
            }
        }
    }
}

impl OnHost {
    fn submit(&self, offload: &Offload, units: &[UnitId]) -> Result<(), RunError> {
        for (index, (block, unit)) in self.blocks.iter().zip(units).enumerate() {
            let guard = offload.unit(*unit)?;
            let views: Vec<View> = block.tensors.iter().map(|tensor| guard.view(&tensor.name)).collect::<Result<_, _>>()?;
            let (block, states) = (Arc::clone(block), Arc::clone(&self.states));
            let job = Job::host(move |context| {
                let named = block.tensors.iter().zip(&views);
                let weights = named.map(|(tensor, view)| Ok((tensor.name.as_str(), context.slice::<f32>(view)?)));
                let weights = weights.collect::<Result<Vec<_>, JobError>>()?;
                let mut states = states.lock().unwrap_or_else(PoisonError::into_inner);
                if index == 0 {
                    states.push(initial_state());
                }
                if let Some(state) = states.last_mut() {
                    flux_unit(&weights, state);
                }
                Ok(())
            });
            offload.launch(offload.compute_stream(), guard, job)?;
        }
        Ok(())
    }
}
