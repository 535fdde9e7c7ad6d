//! Units of several tensors of any size, whose result shows every byte in order, launched whole or part by part.

use ddo_recorder::{Component, HostTensor, Job, JobError, LaunchScope, Offload, StreamId, UnitGuard, UnitId};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bytes of each tensor, by unit.
#[derive(Clone, Debug)]
pub(crate) struct Mosaic {
    pub(crate) sizes: Vec<Vec<u64>>,
}

fn byte(unit: usize, tensor: usize, index: u64) -> u8 {
    let mixed =
        (unit as u64 * 31 + tensor as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index.wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed >> 40) as u8
}

/// Folds bytes into a state; any changed byte changes the result.
pub(crate) fn fold(state: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(state, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The name of a tensor; names sort as indexes do.
fn name(tensor: usize) -> String {
    format!("t{tensor}.weight")
}

/// A component of tensors in host memory.
pub(crate) fn component_of_bytes(tensors: Vec<(String, Vec<u8>)>) -> Component {
    let built = tensors
        .into_iter()
        .map(|(name, bytes)| (name, HostTensor::from_elements(&[bytes.len() as u64], &bytes).expect("shape fits")));
    Component::from_tensors("mosaic", built.collect(), |_| None).expect("a component")
}

/// Writes a file of the given tensors.
fn write(path: &std::path::Path, tensors: &[(String, Vec<u8>)]) {
    let views = tensors.iter().map(|(name, bytes)| {
        let view = safetensors::tensor::TensorView::new(safetensors::Dtype::U8, vec![bytes.len()], bytes);
        (name.clone(), view.expect("shape fits"))
    });
    std::fs::write(path, safetensors::serialize(views, None).expect("a checkpoint")).expect("written");
}

/// Writes tensors to a file in a folder and says where.
pub(crate) fn checkpoint_of_bytes(folder: &std::path::Path, tensors: &[(String, Vec<u8>)]) -> std::path::PathBuf {
    let path = folder.join("model.safetensors");
    write(&path, tensors);
    path
}

impl Mosaic {
    /// At most six units of at most five tensors of at most three pages of 4096 bytes.
    pub(crate) fn random(rng: &mut fastrand::Rng) -> Mosaic {
        let sizes = (0..rng.usize(1..7)).map(|_| (0..rng.usize(1..6)).map(|_| rng.u64(1..3 * 4096)).collect()).collect();
        Mosaic { sizes }
    }

    /// `units` units of `tensors` tensors of `bytes` bytes.
    pub(crate) fn even(units: usize, tensors: usize, bytes: u64) -> Mosaic {
        Mosaic { sizes: vec![vec![bytes; tensors]; units] }
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.sizes.iter().flatten().sum()
    }

    fn tensors_of(&self, unit: usize) -> Vec<(String, Vec<u8>)> {
        let sizes = self.sizes[unit].iter().enumerate();
        let built = sizes.map(|(tensor, bytes)| {
            (format!("blocks.{unit}.{}", name(tensor)), (0..*bytes).map(|index| byte(unit, tensor, index)).collect())
        });
        built.collect()
    }

    /// Names and bytes of all tensors.
    pub(crate) fn tensors(&self) -> Vec<(String, Vec<u8>)> {
        (0..self.sizes.len()).flat_map(|unit| self.tensors_of(unit)).collect()
    }

    pub(crate) fn component(&self) -> Component {
        component_of_bytes(self.tensors())
    }

    /// Writes the same weights to a file and says where.
    pub(crate) fn checkpoint(&self, folder: &std::path::Path) -> std::path::PathBuf {
        checkpoint_of_bytes(folder, &self.tensors())
    }

    /// The same in several files, unit after unit in turn.
    pub(crate) fn shards(&self, folder: &std::path::Path, files: usize) -> std::path::PathBuf {
        for file in 0..files {
            let of_file = (0..self.sizes.len()).filter(|unit| unit % files == file);
            let tensors: Vec<(String, Vec<u8>)> = of_file.flat_map(|unit| self.tensors_of(unit)).collect();
            if !tensors.is_empty() {
                write(&folder.join(format!("part-{file}.safetensors")), &tensors);
            }
        }
        folder.to_path_buf()
    }

    /// What a pass over the units gives, straight from the weights.
    pub(crate) fn reference(&self, order: &[usize]) -> u64 {
        let unit = |state, unit: &usize| {
            let tensors = self.sizes[*unit].iter().enumerate();
            tensors.fold(state, |state, (tensor, bytes)| fold(state, (0..*bytes).map(|index| byte(*unit, tensor, index))))
        };
        order.iter().fold(1, unit)
    }

    pub(crate) fn id(&self, offload: &Offload, unit: usize) -> UnitId {
        offload.unit_named(&format!("blocks.{unit}")).expect("the unit exists")
    }

    /// Work that folds one tensor into the state.
    pub(crate) fn fold_job(&self, guard: &UnitGuard, tensor: usize, state: &Arc<Mutex<u64>>) -> ddo_recorder::Result<Job> {
        let view = guard.view(&name(tensor))?;
        let state = Arc::clone(state);
        Ok(Job::host(move |context| {
            let mut state = state.lock().expect("jobs do not panic");
            *state = fold(*state, context.slice::<u8>(&view)?.iter().copied());
            Ok(())
        }))
    }

    /// Submits a unit: one launch, or one a tensor with each let go behind its own.
    pub(crate) fn submit(
        &self,
        offload: &Offload,
        unit: usize,
        state: &Arc<Mutex<u64>>,
        lasting: Duration,
        scope: LaunchScope,
    ) -> ddo_recorder::Result<()> {
        let launches = self.sizes[unit].len() as u32;
        let each = if scope == LaunchScope::Parts { lasting } else { lasting / launches };
        let mut all = vec![each; launches as usize];
        all[0] += if scope == LaunchScope::Parts { Duration::ZERO } else { lasting - each * launches };
        self.submit_lasting(offload, unit, state, &all, scope)
    }

    /// The same, with the time that each tensor's work lasts.
    pub(crate) fn submit_lasting(
        &self,
        offload: &Offload,
        unit: usize,
        state: &Arc<Mutex<u64>>,
        lasting: &[Duration],
        scope: LaunchScope,
    ) -> ddo_recorder::Result<()> {
        let guard = offload.unit(self.id(offload, unit))?;
        let stream = offload.compute_stream();
        if scope == LaunchScope::Parts {
            for (tensor, lasting) in lasting.iter().enumerate() {
                let job = self.fold_job(&guard, tensor, state)?;
                offload.launch_part(stream, &guard, job.lasting(*lasting))?;
                guard.release(&name(tensor))?;
            }
            return Ok(());
        }
        let views = (0..self.sizes[unit].len()).map(|tensor| guard.view(&name(tensor))).collect::<Result<Vec<_>, _>>()?;
        let state = Arc::clone(state);
        let job = Job::host(move |context| {
            let mut state = state.lock().expect("jobs do not panic");
            for view in &views {
                *state = fold(*state, context.slice::<u8>(view)?.iter().copied());
            }
            Ok(())
        });
        offload.launch(stream, guard, job.lasting(lasting.iter().sum()))
    }

    /// Submits work on any stream that fails unless it reads exactly one tensor's weights.
    pub(crate) fn check_on(
        &self,
        offload: &Offload,
        stream: StreamId,
        unit: usize,
        tensor: usize,
        lasting: Duration,
    ) -> ddo_recorder::Result<()> {
        let guard = offload.unit(self.id(offload, unit))?;
        let view = guard.view(&name(tensor))?;
        let bytes = self.sizes[unit][tensor];
        let job = Job::host(move |context| {
            let right = (0..bytes).map(|index| byte(unit, tensor, index)).eq(context.slice::<u8>(&view)?.iter().copied());
            right.then_some(()).ok_or_else(|| JobError::new("other weights than the tensor's"))
        });
        offload.launch(stream, guard, job.lasting(lasting))
    }

    pub(crate) fn name(&self, tensor: usize) -> String {
        name(tensor)
    }
}
