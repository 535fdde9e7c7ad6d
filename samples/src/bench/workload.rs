//! What is run: the generated model on either driver?
//!
//! May use: the samples' workload, the recorder's embeddable interface.
//!
//! Invariants: steps of one repeat are submitted without waiting in between; each step's result is compared afterwards.

use super::StreamArgs;
use crate::args::DriverKind;
use crate::flux::{Dtype, FluxTensor, FluxUnit, flux_shaped, flux_unit, initial_state, make_checkpoint, resident};
use crate::run::device_work::{DeviceWork, Pass};
use crate::run::expected::expected_folds;
use crate::run::{RunError, SEED};
use ddo_recorder::driver::{CudaDriver, CudaOptions};
use ddo_recorder::{Driver, HostDriver, HostOptions, Job, JobError, LaunchScope, Offload, UnitGuard, UnitId, View};
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

/// A device with the model's file and the right answer.
pub(super) struct Prepared {
    device: Device,
    path: PathBuf,
    width: usize,
}

enum Device {
    Host { driver: Arc<HostDriver>, want: Vec<f32> },
    Cuda { driver: Arc<CudaDriver>, want: Vec<u64> },
}

impl Prepared {
    /// Opens the device, makes the checkpoint if it is missing, and computes the right answer.
    pub(super) fn new(args: &StreamArgs, target_dir: &Path) -> Result<Prepared, RunError> {
        let width = crate::flux::width_for_scale(args.scale());
        let dtype = if args.driver == DriverKind::Cuda { Dtype::Bf16 } else { Dtype::F32 };
        let path = args.model.clone().unwrap_or_else(|| crate::run::default_path(target_dir, width, dtype));
        let device = match args.driver {
            DriverKind::Host => {
                let link_bytes_per_second = args.link_gb_per_second.map(|rate| rate.0);
                let registration_bytes_per_second = args.registration_gb_per_second.map(|rate| rate.0);
                let options = HostOptions { link_bytes_per_second, registration_bytes_per_second, ..HostOptions::default() };
                let driver = HostDriver::new(options);
                let driver = driver.map_err(ddo_recorder::Error::from)?;
                let made = make_checkpoint(&path, args.scale(), dtype, SEED)?;
                Device::Host { driver, want: resident(&path, made.width)? }
            }
            DriverKind::Cuda => {
                let driver = CudaDriver::open(CudaOptions { device: args.device }).map_err(RunError::NoCuda)?;
                let made = make_checkpoint(&path, args.scale(), dtype, SEED)?;
                Device::Cuda { driver, want: expected_folds(&path, made.width)? }
            }
        };
        Ok(Prepared { device, path, width })
    }

    pub(super) fn driver(&self) -> Arc<dyn Driver> {
        match &self.device {
            Device::Host { driver, .. } => Arc::<HostDriver>::clone(driver),
            Device::Cuda { driver, .. } => Arc::<CudaDriver>::clone(driver),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The workload with a number of tokens.
    pub(super) fn workload(&self, args: &StreamArgs, tokens: u64) -> Result<Workload, RunError> {
        Ok(match &self.device {
            Device::Host { want, .. } => {
                let blocks = flux_shaped(self.width).into_iter().map(Arc::new).collect();
                Workload::Host(OnHost { blocks, states: Arc::default(), want: want.clone() })
            }
            Device::Cuda { driver, want } => {
                let work = DeviceWork::new(driver, self.width, tokens, args.steps.max(super::stream::MEASURING_STEPS))?;
                Workload::Device(OnDevice { work, want: want.clone() })
            }
        })
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
    pub(super) fn submit(&self, offload: &Offload, units: &[UnitId], step: u64, launches: LaunchScope) -> Result<(), RunError> {
        match self {
            Workload::Device(device) => {
                device.work.submit(offload, units, Pass { index: step, slow: Duration::ZERO, launches }, || Ok(()))
            }
            Workload::Host(host) => host.submit(offload, units, launches),
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
    fn submit(&self, offload: &Offload, units: &[UnitId], launches: LaunchScope) -> Result<(), RunError> {
        for (index, (block, unit)) in self.blocks.iter().zip(units).enumerate() {
            let guard = offload.unit(*unit)?;
            if launches == LaunchScope::Units {
                let job = self.job(&guard, &block.tensors, index == 0)?;
                offload.launch(offload.compute_stream(), guard, job)?;
                continue;
            }
            for (nth, tensor) in block.tensors.iter().enumerate() {
                let job = self.job(&guard, std::slice::from_ref(tensor), index == 0 && nth == 0)?;
                offload.launch_part(offload.compute_stream(), &guard, job)?;
                guard.release(&tensor.name)?;
            }
        }
        Ok(())
    }

    /// Folds some tensors of a unit, at the begin of a pass into a new state.
    fn job(&self, guard: &UnitGuard, tensors: &[FluxTensor], begin: bool) -> Result<Job, RunError> {
        let named: Vec<(String, View)> =
            tensors.iter().map(|tensor| Ok((tensor.name.clone(), guard.view(&tensor.name)?))).collect::<Result<_, RunError>>()?;
        let states = Arc::clone(&self.states);
        Ok(Job::host(move |context| {
            let weights = named.iter().map(|(name, view)| Ok((name.as_str(), context.slice::<f32>(view)?)));
            let weights = weights.collect::<Result<Vec<_>, JobError>>()?;
            let mut states = states.lock().unwrap_or_else(PoisonError::into_inner);
            if begin {
                states.push(initial_state());
            }
            if let Some(state) = states.last_mut() {
                flux_unit(&weights, state);
            }
            Ok(())
        }))
    }
}
