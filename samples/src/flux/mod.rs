//! What is the measured workload, at any scale? The linear units of a Flux-shaped transformer with generated weights.
//!
//! | file | its question |
//! |---|---|
//! | here | Which units and tensors are there, and how large? |
//! | `write` | How does a checkpoint of that shape come to be? |
//! | `fold` | What does a host compute with a unit, and what is the right answer? |
//!
//! May use: the standard library, `fastrand`, [`crate::plain`]. Never the runtime.
//!
//! Invariants: 24 units whatever the scale, 144 tensors, in execution order; a tensor's values depend on seed, tensor index and
//! element index alone.
//!
//! **Scale.** A scale multiplies each unit's bytes. All extents are multiples of the width, so the width shrinks by the square root
//! of the scale and is rounded to whole heads' worth of elements (a multiple of 24, at least 24); the number of units, tensors and
//! heads stays. [`exact_scale`] is the share that the rounded width really gives.

mod fold;
mod write;

pub use fold::{STATE, flux_unit, initial_state, resident};
pub use write::{FluxError, Made, make_checkpoint};

/// Width of the full model.
pub const FULL_WIDTH: usize = 3072;
/// Attention heads, at every scale.
pub const HEADS: usize = 24;
/// Blocks with two streams (image and text).
pub const DOUBLE_BLOCKS: usize = 8;
/// Blocks with one joined stream.
pub const SINGLE_BLOCKS: usize = 16;

/// The linear layers of a double block: name, outputs and inputs in widths.
const DOUBLE: [(&str, usize, usize); 10] = [
    ("norm1.linear", 6, 1),
    ("norm1_context.linear", 6, 1),
    ("attn.to_qkv", 3, 1),
    ("attn.add_qkv_proj", 3, 1),
    ("attn.to_out.0", 1, 1),
    ("attn.to_add_out", 1, 1),
    ("ff.net.0.proj", 4, 1),
    ("ff.net.2", 1, 4),
    ("ff_context.net.0.proj", 4, 1),
    ("ff_context.net.2", 1, 4),
];
/// The linear layers of a single block.
const SINGLE: [(&str, usize, usize); 4] = [("norm.linear", 3, 1), ("proj_mlp", 4, 1), ("attn.to_qkv", 3, 1), ("proj_out", 1, 5)];

/// Element type of a generated checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 32-bit floats: what the host computes with.
    F32,
    /// 16-bit brain floats: what the measured workload holds.
    Bf16,
}

impl Dtype {
    /// The word in a safetensors header.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "F32",
            Dtype::Bf16 => "BF16",
        }
    }

    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        match self {
            Dtype::F32 => 4,
            Dtype::Bf16 => 2,
        }
    }
}

/// One weight matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FluxTensor {
    /// Name within the unit (`attn.to_out.0.weight`).
    pub name: String,
    /// Outputs and inputs.
    pub shape: [usize; 2],
}

impl FluxTensor {
    /// The module that it is the weight of, within the block (`attn.to_qkv`).
    pub fn module(&self) -> &str {
        self.name.rsplit_once('.').map_or(&self.name, |(module, _)| module)
    }

    /// The block's direct child that it belongs to (`attn`).
    pub fn child(&self) -> &str {
        self.name.split_once('.').map_or(&self.name, |(child, _)| child)
    }

    /// Elements of the matrix.
    pub fn elements(&self) -> u64 {
        let [outs, ins] = self.shape;
        outs as u64 * ins as u64
    }
}

/// One block: an execution unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FluxUnit {
    /// Name in the checkpoint (`transformer_blocks.0`).
    pub name: String,
    /// Its matrices in the order that they are used.
    pub tensors: Vec<FluxTensor>,
}

impl FluxUnit {
    /// The matrices of each direct child, with the name of the child and the number of its first matrix.
    pub fn children(&self) -> impl Iterator<Item = (&str, usize, &[FluxTensor])> {
        let mut next = 0;
        self.tensors.chunk_by(|a, b| a.child() == b.child()).map(move |chunk| {
            let first = next;
            next += chunk.len();
            (chunk.first().map_or("", FluxTensor::child), first, chunk)
        })
    }
}

/// The units of a model of this width, in execution order, which is the file's order.
pub fn flux_shaped(width: usize) -> Vec<FluxUnit> {
    let unit = |list: &str, index: usize, layers: &[(&str, usize, usize)]| FluxUnit {
        name: format!("{list}.{index}"),
        tensors: layers
            .iter()
            .map(|(name, outs, ins)| FluxTensor { name: format!("{name}.weight"), shape: [outs * width, ins * width] })
            .collect(),
    };
    let double = (0..DOUBLE_BLOCKS).map(|i| unit("transformer_blocks", i, &DOUBLE));
    let single = (0..SINGLE_BLOCKS).map(|i| unit("single_transformer_blocks", i, &SINGLE));
    double.chain(single).collect()
}

/// The width that a scale asks for: whole multiples of the head count, at least one.
pub fn width_for_scale(scale: f64) -> usize {
    let per_head = (FULL_WIDTH as f64 * scale.max(0.0).sqrt() / HEADS as f64).round();
    (per_head as usize).max(1).saturating_mul(HEADS)
}

/// The share of the full model's bytes that a width gives.
pub fn exact_scale(width: usize) -> f64 {
    (width as f64 / FULL_WIDTH as f64).powi(2)
}

/// Least bytes of a part for a model of this width: the runtime's default at full size, and the same share of a smaller one, so
/// that every size is cut alike. At least a small page.
pub fn part_bytes(width: usize, full: u64) -> u64 {
    ((full as f64 * exact_scale(width).min(1.0)) as u64).max(4096)
}

/// Bytes of all tensors of a width.
pub fn total_bytes(width: usize, dtype: Dtype) -> u64 {
    flux_shaped(width).iter().flat_map(|unit| &unit.tensors).map(|tensor| tensor.elements() * dtype.bytes()).sum()
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn the_full_model_has_the_measured_size_at_every_scale_the_same_units() {
        assert_eq!(total_bytes(FULL_WIDTH, Dtype::Bf16), 528 * 3072 * 3072 * 2);
        for scale in [1.0, 0.25, 0.01, 0.001, 0.00001] {
            let width = width_for_scale(scale);
            let units = flux_shaped(width);
            assert_eq!((units.len(), units.iter().map(|unit| unit.tensors.len()).sum::<usize>()), (24, 144));
            assert_eq!(width % HEADS, 0);
        }
        assert_eq!((width_for_scale(1.0), width_for_scale(0.25), width_for_scale(0.0)), (3072, 1536, 24));
        assert_eq!(exact_scale(1536), 0.25);
        assert_eq!([3072, 1536, 24, 6144].map(|width| part_bytes(width, 1 << 20)), [1 << 20, 1 << 18, 4096, 1 << 20]);
        let first = &flux_shaped(3072)[0];
        assert_eq!(format!("{}.{}", first.name, first.tensors[0].name), "transformer_blocks.0.norm1.linear.weight");
    }
}
