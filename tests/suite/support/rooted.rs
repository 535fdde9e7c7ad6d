//! A mosaic whose root module has tensors of its own, which every unit's work reads first.

use super::mosaic::{Mosaic, checkpoint_of_bytes, component_of_bytes, fold};
use ddo_recorder::{Checkpoint, Component, HostTensor, Job, Offload};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Units, and the sizes of the root's tensors.
#[derive(Clone, Debug)]
pub(crate) struct Rooted {
    pub(crate) mosaic: Mosaic,
    pub(crate) root: Vec<u64>,
}

/// The name of a tensor of the root.
pub(crate) fn root_name(tensor: usize) -> String {
    format!("root{tensor}")
}

fn root_bytes(tensor: usize, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|index| (index.wrapping_mul(0x9e37_79b9) >> (tensor % 7)) as u8 ^ tensor as u8).collect()
}

impl Rooted {
    pub(crate) fn payload_bytes(&self) -> u64 {
        self.root.iter().sum()
    }

    /// Bytes of whole pages that hold the root, each tensor at its alignment.
    pub(crate) fn capacity_bytes(&self, page: u64) -> u64 {
        let end = self.root.iter().fold(0u64, |end, bytes| end.next_multiple_of(256) + bytes);
        end.next_multiple_of(page)
    }

    pub(crate) fn tensors(&self) -> Vec<(String, Vec<u8>)> {
        let of_root = self.root.iter().enumerate().map(|(tensor, bytes)| (root_name(tensor), root_bytes(tensor, *bytes)));
        of_root.chain(self.mosaic.tensors()).collect()
    }

    /// The root as the host would see it.
    pub(crate) fn host_tensors(&self) -> Vec<(String, HostTensor)> {
        let built = |(name, bytes): (String, Vec<u8>)| {
            (name, HostTensor::from_elements(&[bytes.len() as u64], &bytes).expect("shape fits"))
        };
        self.tensors().into_iter().map(built).collect()
    }

    pub(crate) fn component(&self) -> Component {
        component_of_bytes(self.tensors())
    }

    pub(crate) fn written_component(&self, folder: &Path) -> Component {
        let path = checkpoint_of_bytes(folder, &self.tensors());
        Component::from_checkpoint("mosaic", &Checkpoint::open(&path).expect("a checkpoint"), |_| None).expect("a component")
    }

    /// What a pass over the units gives, straight from the weights.
    pub(crate) fn reference(&self, order: &[usize]) -> u64 {
        let root: Vec<u8> = (0..self.root.len()).flat_map(|tensor| root_bytes(tensor, self.root[tensor])).collect();
        let tensors = self.mosaic.tensors();
        let unit = |state, unit: &usize| {
            let prefix = format!("blocks.{unit}.");
            let own = tensors.iter().filter(|(name, _)| name.starts_with(&prefix)).flat_map(|(_, bytes)| bytes);
            fold(fold(state, root.iter().copied()), own.copied())
        };
        order.iter().fold(1, unit)
    }

    /// Submits a unit's work, which reads the root without a pin.
    pub(crate) fn submit(
        &self,
        offload: &Offload,
        unit: usize,
        state: &Arc<Mutex<u64>>,
        lasting: Duration,
    ) -> ddo_recorder::Result<()> {
        let guard = offload.unit(self.mosaic.id(offload, unit))?;
        let of_root = (0..self.root.len()).map(|tensor| offload.lifetime_view(&root_name(tensor)));
        let own = (0..self.mosaic.sizes[unit].len()).map(|tensor| guard.view(&self.mosaic.name(tensor)));
        let views = of_root.chain(own).collect::<Result<Vec<_>, _>>()?;
        let state = Arc::clone(state);
        let job = Job::host(move |context| {
            let mut state = state.lock().expect("jobs do not panic");
            for view in &views {
                *state = fold(*state, context.slice::<u8>(view)?.iter().copied());
            }
            Ok(())
        });
        offload.launch(offload.compute_stream(), guard, job.lasting(lasting))
    }

    /// Runs the units in order; the result once the stream is done.
    pub(crate) fn pass(&self, offload: &Offload, order: &[usize]) -> ddo_recorder::Result<u64> {
        let state = Arc::new(Mutex::new(1));
        order.iter().try_for_each(|unit| self.submit(offload, *unit, &state, Duration::ZERO))?;
        offload.mark_step()?;
        offload.wait_stream(offload.compute_stream())?;
        let result = *state.lock().expect("jobs do not panic");
        Ok(result)
    }
}
