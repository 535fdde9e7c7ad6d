//! What does a host compute with a unit, and what is the right answer? A chain of dot products that notices every weight.
//!
//! May use: the shapes of this folder; [`crate::plain`] for the reference. Never the runtime.
//!
//! Invariants: fixed order, one pass over the weights, no allocation that grows with them; the same weights and state give the same
//! bits. It imitates no real layer: it makes a wrong, stale or misplaced byte visible at the price of one read.

use super::{FluxUnit, flux_shaped};
use crate::plain::{PlainError, PlainFile};
use std::path::Path;

/// Elements of the rolling state.
pub const STATE: usize = 64;

/// The state before the first unit.
pub fn initial_state() -> Vec<f32> {
    (1..=STATE as u16).map(|i| f32::from(i).recip()).collect()
}

/// Folds the weights of one unit into the state, tensor by tensor in the order given.
///
/// Each lane of the state keeps a running product sum with its own weights, and a hash of their bits and the tensor's name, since a
/// sum alone rounds small changes away and does not see an exchange. After a tensor each lane becomes its squashed neighbour sum
/// plus its hash as a fraction; a changed byte goes unnoticed with a chance of about 2^-24.
pub fn flux_unit(weights: &[(&str, &[f32])], state: &mut [f32]) {
    let lanes = state.len().max(1);
    let (mut sums, mut hashes) = (vec![0f32; state.len()], vec![0u32; state.len()]);
    for (name, weights) in weights {
        let seed = name.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        sums.fill(0.0);
        hashes.iter_mut().zip(0u32..).for_each(|(hash, lane)| *hash = seed.wrapping_add(lane));
        for row in weights.chunks(lanes) {
            for (((sum, hash), weight), state) in sums.iter_mut().zip(&mut hashes).zip(row).zip(&*state) {
                *sum += weight * state;
                *hash = (*hash ^ weight.to_bits()).wrapping_mul(0x9e37_79b1).rotate_left(13);
            }
        }
        let neighbours = sums.iter().skip(1).chain(sums.first());
        for ((state, sum), hash) in state.iter_mut().zip(neighbours).zip(&hashes) {
            let fraction = (scatter(*hash) >> 8) as f32 / (1u32 << 24) as f32;
            *state = 0.5 * sum / (1.0 + sum.abs()) + (fraction - 0.5);
        }
    }
}

/// Lets every bit of a hash reach every other (the finaliser of MurmurHash3).
fn scatter(hash: u32) -> u32 {
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

/// The state after one forward pass, computed from plain reads: the right answer for the runtime.
///
/// # Errors
/// The file cannot be read or is of another width.
///
/// # Cost
/// Reads the whole file once, a unit at a time.
pub fn resident(weights: &Path, width: usize) -> Result<Vec<f32>, PlainError> {
    let mut file = PlainFile::open(weights)?;
    let mut state = initial_state();
    for FluxUnit { name, tensors } in flux_shaped(width) {
        for tensor in tensors {
            let values = file.read_f32(&format!("{name}.{}", tensor.name), &tensor.shape)?;
            flux_unit(&[(&tensor.name, &values)], &mut state);
        }
    }
    Ok(state)
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn bits(weights: &[(&str, &[f32])]) -> Vec<u32> {
        let mut state = initial_state();
        flux_unit(weights, &mut state);
        state.into_iter().map(f32::to_bits).collect()
    }

    #[test]
    fn every_bit_order_and_name_is_noticed() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut a: Vec<f32> = (0..1000).map(|_| rng.f32() - 0.5).collect();
        let b: Vec<f32> = (0..640).map(|_| rng.f32() - 0.5).collect();
        let right = bits(&[("a", &a), ("b", &b)]);
        assert_eq!(right, bits(&[("a", &a), ("b", &b)]));
        assert!(right.iter().all(|v| f32::from_bits(*v).is_finite()));
        assert_ne!(right, bits(&[("b", &b), ("a", &a)]));
        assert_ne!(right, bits(&[("a", &a), ("c", &b)]));
        for at in [0, 63, 64, 500, 999] {
            for bit in [0, 7, 8, 16, 31] {
                let whole = a[at];
                a[at] = f32::from_bits(whole.to_bits() ^ (1 << bit));
                assert_ne!(right, bits(&[("a", &a), ("b", &b)]), "element {at}, bit {bit}");
                a[at] = whole;
            }
        }
        a.swap(3, 67);
        assert_ne!(right, bits(&[("a", &a), ("b", &b)]), "an exchange within a lane");
    }

    #[test]
    fn a_unit_folded_at_once_or_by_tensor_is_the_same() {
        let (a, b) = ([0.25; 100], [-0.5; 70]);
        let mut state = initial_state();
        flux_unit(&[("a", &a)], &mut state);
        flux_unit(&[("b", &b)], &mut state);
        let parts: Vec<u32> = state.into_iter().map(f32::to_bits).collect();
        assert_eq!(parts, bits(&[("a", &a), ("b", &b)]));
        flux_unit(&[("a", &a)], &mut []);
    }
}
