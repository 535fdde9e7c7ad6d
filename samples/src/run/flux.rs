//! How does the generated workload run under a ceiling? One job a matrix or a block, folding every weight into a small state.
//!
//! May use: the session, the workload's shapes and fold, its resident reference.
//!
//! Invariants: each step starts from the same state, so each step has the same right answer.

use super::{Outcome, Passes, RunError, Session, compare};
use crate::args::SampleArgs;
use crate::flux::{
    Dtype, FluxUnit, exact_scale, flux_shaped, flux_unit, initial_state, make_checkpoint, resident, width_for_scale,
};
use ddo_recorder::{Checkpoint, Component, Job, LaunchScope, Offload, UnitId, View};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Seed of the weights; any would do, one keeps checkpoints shared between programs.
pub(crate) const SEED: u64 = 1;

/// Where the checkpoint of a scale lies unless a path is given.
pub fn default_path(target_dir: &Path, width: usize, dtype: Dtype) -> PathBuf {
    let dtype = dtype.name().to_ascii_lowercase();
    target_dir.join("models").join(format!("flux_shaped-{width}-{dtype}.safetensors"))
}

/// Runs the steps asked for, making the checkpoint first if it is missing.
pub(super) fn run(args: &SampleArgs, target_dir: &Path) -> Result<Outcome, RunError> {
    let path = args.model.clone().unwrap_or_else(|| default_path(target_dir, width_for_scale(args.scale.0), Dtype::F32));
    let made = make_checkpoint(&path, args.scale.0, Dtype::F32, SEED)?;
    let want = resident(&path, made.width)?;
    let checkpoint = Checkpoint::open(&path)?;
    let component = Component::from_checkpoint("transformer", &checkpoint, |_| None)?;
    let session = Session::open("transformer", component, args, args.flux_launches())?;
    let blocks: Vec<(UnitId, Arc<FluxUnit>)> = flux_shaped(made.width)
        .into_iter()
        .map(|block| session.unit(&block.name).map(|unit| (unit.id, Arc::new(block))))
        .collect::<Result<_, _>>()?;
    let least = Duration::from_micros(args.slow_microseconds);
    let mut pass = FluxPass { blocks, state: Arc::default(), want, launches: args.flux_launches(), least };
    let share = exact_scale(made.width);
    session.run(&mut pass, format!("flux_shaped, width {} (scale {share:.6}), F32", made.width), args)
}

/// The generated model with its resident answer.
struct FluxPass {
    blocks: Vec<(UnitId, Arc<FluxUnit>)>,
    state: Arc<Mutex<Vec<f32>>>,
    want: Vec<f32>,
    launches: LaunchScope,
    least: Duration,
}

impl Passes for FluxPass {
    fn submit(&mut self, session: &Session) -> Result<(), RunError> {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = initial_state();
        self.blocks.iter().try_for_each(|(unit, block)| match self.launches {
            LaunchScope::Units => submit_block(&session.offload, *unit, block, &self.state, self.least),
            LaunchScope::Parts => submit_matrices(&session.offload, *unit, block, &self.state, self.least),
        })
    }

    fn check(&mut self, step: u64) -> Result<(), RunError> {
        compare(step, "the state", &self.state.lock().unwrap_or_else(PoisonError::into_inner), &self.want)
    }
}

/// Pins a block and submits one job for all of it.
fn submit_block(
    offload: &Offload,
    unit: UnitId,
    block: &Arc<FluxUnit>,
    state: &Arc<Mutex<Vec<f32>>>,
    least: Duration,
) -> Result<(), RunError> {
    let forward = offload.forward(&block.name);
    let pinning = forward.operator("pin");
    let guard = offload.unit(unit)?;
    let views: Vec<View> = block.tensors.iter().map(|tensor| guard.view(&tensor.name)).collect::<Result<_, _>>()?;
    drop(pinning);
    let (block, state) = (Arc::clone(block), Arc::clone(state));
    let job = Job::host(move |context| {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        for (child, first, tensors) in block.children() {
            let _child = context.child(child);
            for (tensor, view) in tensors.iter().zip(views.iter().skip(first)) {
                let _fold = context.stretch(tensor.module());
                flux_unit(&[(tensor.name.as_str(), context.slice::<f32>(view)?)], &mut state);
            }
        }
        Ok(())
    });
    let _range = forward.operator("fold");
    offload.launch(offload.compute_stream(), guard, job.lasting(least))?;
    Ok(())
}

/// Submits one job for each matrix of a block, and lets each go behind its job.
fn submit_matrices(
    offload: &Offload,
    unit: UnitId,
    block: &Arc<FluxUnit>,
    state: &Arc<Mutex<Vec<f32>>>,
    least: Duration,
) -> Result<(), RunError> {
    let forward = offload.forward(&block.name);
    let guard = offload.unit(unit)?;
    for (child, first, tensors) in block.children() {
        let child = forward.child(child);
        for (index, tensor) in tensors.iter().enumerate() {
            let _matrix = child.operator(tensor.module());
            let view = guard.view(&tensor.name)?;
            let (name, state) = (tensor.name.clone(), Arc::clone(state));
            let job = Job::host(move |context| {
                let weights = context.slice::<f32>(&view)?;
                flux_unit(&[(name.as_str(), weights)], &mut state.lock().unwrap_or_else(PoisonError::into_inner));
                Ok(())
            });
            let least = if first + index == 0 { least } else { Duration::ZERO };
            offload.launch_part(offload.compute_stream(), &guard, job.lasting(least))?;
            guard.release(&tensor.name)?;
        }
    }
    Ok(())
}
