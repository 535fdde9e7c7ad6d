//! How does the generated workload run on a cuda device? One job a matrix or a block, every step compared with plain reads of the file.
//!
//! May use: the session, the device's work, the expected folds.
//!
//! Invariants: the folds are compared with a reference that never touches the runtime; the last activation, if there is one, with a
//! run of the same work with every weight resident; the device's memory is read while units are in flight.

use super::device_work::{DeviceWork, Pass};
use super::expected::expected_folds;
use super::{DeviceUse, Outcome, Passes, RunError, Session, default_path};
use crate::args::SampleArgs;
use crate::flux::{Dtype, Made, exact_scale, make_checkpoint, width_for_scale};
use ddo_recorder::driver::{CudaDriver, CudaOptions};
use ddo_recorder::{Checkpoint, Component, Driver, LaunchScope, OffloadConfig, UnitId, enable_offload};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long closing the reference run may take.
const CLOSE_DEADLINE: Duration = Duration::from_secs(10);

/// Runs the steps asked for, making the checkpoint first if it is missing.
pub(super) fn run(args: &SampleArgs, target_dir: &Path) -> Result<Outcome, RunError> {
    let driver = CudaDriver::open(CudaOptions { device: args.device }).map_err(RunError::NoCuda)?;
    let path = args.model.clone().unwrap_or_else(|| default_path(target_dir, width_for_scale(args.scale.0), Dtype::Bf16));
    let made = make_checkpoint(&path, args.scale.0, Dtype::Bf16, super::flux::SEED)?;
    let work = DeviceWork::new(&driver, made.width, args.tokens, 1)?;
    let mut want = expected_folds(&path, made.width)?;
    if args.tokens > 0 {
        let resident = resident_numbers(&driver, &path, &work, &want)?;
        want.extend(resident.last());
    }
    let free_before_bytes = free(&driver)?;
    let component = component(&path)?;
    let session = Session::open_on(Arc::clone(&driver) as Arc<dyn Driver>, "transformer", component, args, args.flux_launches())?;
    let units = work.units(&session.offload)?;
    let pass = Pass { index: 0, slow: Duration::from_micros(args.slow_microseconds), launches: args.flux_launches() };
    let compared = want.len() - usize::from(args.tokens > 0);
    let mut pass = DevicePass { driver: &driver, work, units, pass, want, least_free_bytes: free_before_bytes, submitted: 0 };
    let outcome = session.run(&mut pass, title(made, args), args)?;
    let least_free_bytes = pass.least_free_bytes;
    let free_after_bytes = free(&driver)?;
    if let Some(error) = driver.stored_errors().into_iter().next() {
        return Err(RunError::Runtime(error.into()));
    }
    let activation = if args.tokens > 0 { ", the last activation with an all-resident run" } else { "" };
    let compared = format!("{compared} folds with plain reads of the file{activation}");
    let name = driver.facts().name;
    Ok(Outcome { device: Some(DeviceUse { name, free_before_bytes, least_free_bytes, free_after_bytes, compared }), ..outcome })
}

/// Device memory that nobody uses, as the device says.
fn free(driver: &CudaDriver) -> Result<u64, RunError> {
    driver.memory_info().map(|info| info.free_bytes).map_err(|error| RunError::Runtime(error.into()))
}

/// The generated model on the device, with the answers from plain reads.
struct DevicePass<'a> {
    driver: &'a CudaDriver,
    work: DeviceWork,
    units: Vec<UnitId>,
    pass: Pass,
    want: Vec<u64>,
    least_free_bytes: u64,
    submitted: u64,
}

impl Passes for DevicePass<'_> {
    fn submit(&mut self, session: &Session) -> Result<(), RunError> {
        self.work.reset()?;
        let (driver, first) = (self.driver, self.submitted < 2);
        let least_free_bytes = &mut self.least_free_bytes;
        // Asked while work is in flight, in the first steps; asking in all of them would slow the run down.
        let look = || {
            if first {
                *least_free_bytes = (*least_free_bytes).min(free(driver)?);
            }
            Ok(())
        };
        self.work.submit(&session.offload, &self.units, self.pass, look)?;
        self.submitted += 1;
        Ok(())
    }

    fn check(&mut self, step: u64) -> Result<(), RunError> {
        self.least_free_bytes = self.least_free_bytes.min(free(self.driver)?);
        self.work.compare(0, step, &self.want)
    }
}

fn title(made: Made, args: &SampleArgs) -> String {
    let (width, scale) = (made.width, exact_scale(made.width));
    format!("flux_shaped, width {width} (scale {scale:.6}), BF16, {} tokens", args.tokens)
}

/// The component of a checkpoint.
pub(crate) fn component(path: &Path) -> Result<Component, RunError> {
    Ok(Component::from_checkpoint("transformer", &Checkpoint::open(path)?, |_| None)?)
}

/// What a pass gives with every weight resident; its folds must be right, too.
fn resident_numbers(driver: &Arc<CudaDriver>, path: &Path, work: &DeviceWork, folds: &[u64]) -> Result<Vec<u64>, RunError> {
    let config = OffloadConfig::new(Arc::clone(driver) as Arc<dyn Driver>);
    let offload = enable_offload(component(path)?, config)?;
    let pass = Pass { index: 0, slow: Duration::ZERO, launches: LaunchScope::Units };
    work.submit(&offload, &work.units(&offload)?, pass, || Ok(()))?;
    offload.wait_stream(offload.compute_stream())?;
    let numbers = work.numbers(0)?;
    let want: Vec<u64> = folds.iter().chain(numbers.last()).copied().collect();
    work.compare(0, 0, &want)?;
    let closed = offload.close(CLOSE_DEADLINE)?;
    match closed.errors.first() {
        None => Ok(numbers),
        Some(first) => {
            let (first, count) = (first.clone(), closed.errors.len());
            Err(RunError::Close { first, count, quarantined_bytes: closed.quarantined_bytes })
        }
    }
}
