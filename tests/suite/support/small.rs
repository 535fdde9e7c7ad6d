//! A small component whose result shows every byte of its weights, in order.

use ddo_recorder::driver::Driver;
use ddo_recorder::{Component, HostTensor, Job, Offload, OffloadConfig, StreamId, UnitId};
use std::sync::{Arc, Mutex};

/// Elements of one unit: two tensors.
pub(crate) const UNIT_ELEMENTS: u64 = 3 * 4096;

/// The weights of unit `unit`, distinct everywhere.
fn weights(unit: u64, tensor: u64, elements: u64) -> Vec<f32> {
    let mut state = fastrand::Rng::with_seed(unit * 31 + tensor);
    (0..elements).map(|_| state.f32() - 0.5).collect()
}

/// A component of `count` list items, its tensors in host memory.
pub(crate) fn component(count: u64) -> Component {
    let mut tensors = Vec::new();
    for unit in 0..count {
        for (index, (name, elements)) in [("a.weight", 4096), ("b.weight", 8192)].into_iter().enumerate() {
            let tensor =
                HostTensor::from_elements(&[elements / 64, 64], &weights(unit, index as u64, elements)).expect("shape fits");
            tensors.push((format!("blocks.{unit}.{name}"), tensor));
        }
    }
    Component::from_tensors("small", tensors, |_| None).expect("a component")
}

/// Folds weights into a state; any changed bit changes the result.
fn fold(state: u64, weights: &[f32]) -> u64 {
    weights.iter().fold(state, |state, value| (state ^ u64::from(value.to_bits())).wrapping_mul(0x100_0000_01b3).rotate_left(5))
}

/// What a pass over the given units gives, straight from the weights.
pub(crate) fn reference(order: &[u64]) -> u64 {
    order.iter().fold(1, |state, unit| fold(fold(state, &weights(*unit, 0, 4096)), &weights(*unit, 1, 8192)))
}

/// Runs the given units in order and returns the result once the stream is done.
pub(crate) fn pass(offload: &Offload, order: &[u64]) -> ddo_recorder::Result<u64> {
    let state = Arc::new(Mutex::new(1));
    for unit in order {
        submit(offload, offload.compute_stream(), *unit, &state)?;
    }
    offload.mark_step()?;
    offload.wait_stream(offload.compute_stream())?;
    let result = *state.lock().expect("jobs do not panic");
    Ok(result)
}

/// The id of a unit.
pub(crate) fn id(offload: &Offload, unit: u64) -> UnitId {
    offload.unit_named(&format!("blocks.{unit}")).expect("the unit exists")
}

/// Submits one unit's work.
pub(crate) fn submit(offload: &Offload, stream: StreamId, unit: u64, state: &Arc<Mutex<u64>>) -> ddo_recorder::Result<()> {
    let guard = offload.unit(id(offload, unit))?;
    let (a, b) = (guard.view("a.weight")?, guard.view("b.weight")?);
    let state = Arc::clone(state);
    let job = Job::host(move |context| {
        let mut state = state.lock().expect("jobs do not panic");
        *state = fold(fold(*state, context.slice::<f32>(&a)?), context.slice::<f32>(&b)?);
        Ok(())
    });
    offload.launch(stream, guard, job)
}

/// Settings with small pages.
pub(crate) fn config(driver: Arc<dyn Driver>) -> OffloadConfig {
    OffloadConfig::new(driver)
}
