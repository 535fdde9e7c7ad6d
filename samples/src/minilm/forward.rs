//! How does a layer turn hidden states into hidden states? BERT's encoder (Devlin et al. 2019) and the sentence encoder's mean pooling.
//!
//! May use: `ddo_recorder::driver::compute`, this model's extents and weights.
//!
//! Invariants: pure functions over slices; the same input gives the same bits; every length is checked by the arithmetic called.
//! Hidden states are `[batch, seq, HIDDEN]`.

use super::{Batch, EmbeddingWeights, HEADS, HIDDEN, INTERMEDIATE, LAYER_NORM_EPS, LayerWeights};
use ddo_recorder::HostContext;
use ddo_recorder::driver::Stretch;
use ddo_recorder::driver::compute::{self, AttentionShape, ComputeError};

/// Memory that a layer writes on its way; reused from call to call, it never carries a result.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    mixed: Vec<f32>,
    wide: Vec<f32>,
    scores: Vec<f32>,
}

/// Hidden states of a batch before the first layer: words + positions + types, normalised. All tokens are of type 0.
///
/// # Errors
/// A table of another size, a token outside it, or more tokens than positions.
pub fn embed(weights: &EmbeddingWeights<'_>, batch: &Batch) -> Result<Vec<f32>, ComputeError> {
    let mut hidden = vec![0.0; batch.ids.len() * HIDDEN];
    let mut added = vec![0.0; batch.ids.len() * HIDDEN];
    compute::gather_rows_f32(weights.words, HIDDEN, &batch.ids, &mut hidden)?;
    compute::gather_rows_f32(weights.types, HIDDEN, &vec![0; batch.ids.len()], &mut added)?;
    compute::add_f32(&mut hidden, &added)?;
    let positions: Vec<u32> = (0..batch.batch).flat_map(|_| (0u32..).take(batch.seq)).collect();
    compute::gather_rows_f32(weights.positions, HIDDEN, &positions, &mut added)?;
    compute::add_f32(&mut hidden, &added)?;
    compute::layer_norm_f32(&mut hidden, weights.norm_weight, weights.norm_bias, LAYER_NORM_EPS)?;
    Ok(hidden)
}

/// Does work inside an announced stretch.
fn within<T>(stretch: Option<Stretch<'_>>, work: impl FnOnce() -> T) -> T {
    let _stretch = stretch;
    work()
}

/// One encoder layer, in place: self-attention and feed-forward, each added to its input and normalised. Run as a job, it announces
/// its children and operators to the job's context.
///
/// # Errors
/// `hidden`, `mask` or a weight of another length than `batch`, `seq` and the model's extents need.
pub fn encoder_layer(
    weights: &LayerWeights<'_>,
    hidden: &mut [f32],
    batch: usize,
    seq: usize,
    mask: &[bool],
    scratch: &mut Scratch,
    context: Option<&HostContext>,
) -> Result<(), ComputeError> {
    let rows = batch * seq;
    let Scratch { query, key, value, mixed, wide, scores } = scratch;
    for buffer in [&mut *query, &mut *key, &mut *value, &mut *mixed] {
        buffer.resize(rows * HIDDEN, 0.0);
    }
    wide.resize(rows * INTERMEDIATE, 0.0);
    let child = |name| context.map(|context| context.child(name));
    let operator = |name| context.map(|context| context.stretch(name));
    let norm = |hidden: &mut [f32], weight: &[f32], bias: &[f32]| {
        within(operator("layer_norm"), || compute::layer_norm_f32(hidden, weight, bias, LAYER_NORM_EPS))
    };
    let linear = |from: &[f32], weight: &[f32], bias: &[f32], to: &mut [f32]| {
        within(operator("linear"), || compute::linear_f32(from, rows, weight, Some(bias), to))
    };
    within(child("attention"), || {
        linear(hidden, weights.query_weight, weights.query_bias, query)?;
        linear(hidden, weights.key_weight, weights.key_bias, key)?;
        linear(hidden, weights.value_weight, weights.value_bias, value)?;
        let shape = AttentionShape { batch, seq, heads: HEADS, head_width: HIDDEN / HEADS };
        within(operator("attention"), || compute::attention_f32(query, key, value, shape, mask, mixed, scores))?;
        // The queries are spent; their memory takes what comes next.
        linear(mixed, weights.attention_output_weight, weights.attention_output_bias, query)?;
        within(operator("add"), || compute::add_f32(hidden, query))?;
        norm(hidden, weights.attention_norm_weight, weights.attention_norm_bias)
    })?;
    within(child("intermediate"), || {
        linear(hidden, weights.intermediate_weight, weights.intermediate_bias, wide)?;
        within(operator("gelu"), || compute::gelu_f32(wide));
        Ok::<_, ComputeError>(())
    })?;
    within(child("output"), || {
        linear(wide, weights.output_weight, weights.output_bias, query)?;
        within(operator("add"), || compute::add_f32(hidden, query))?;
        norm(hidden, weights.output_norm_weight, weights.output_norm_bias)
    })
}

/// One unit vector of [`HIDDEN`] elements a text: the mean over its tokens (padding left out), divided by its length.
pub fn pool_and_normalise(hidden: &[f32], seq: usize, mask: &[bool]) -> Vec<Vec<f32>> {
    let seq = seq.max(1);
    let pool = |(tokens, mask): (&[f32], &[bool])| {
        let mut sum = vec![0f32; HIDDEN];
        let seen = tokens.chunks_exact(HIDDEN).zip(mask).filter(|(_, seen)| **seen);
        seen.for_each(|(token, _)| sum.iter_mut().zip(token).for_each(|(sum, value)| *sum += value));
        // Scaling by the count cancels in the division by the length; it is kept so that intermediate values are the mean's.
        let count = mask.iter().filter(|seen| **seen).count().max(1) as f32;
        sum.iter_mut().for_each(|value| *value /= count);
        let length = sum.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt().max(1e-12);
        sum.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
        sum
    };
    hidden.chunks_exact(seq * HIDDEN).zip(mask.chunks_exact(seq)).map(pool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooling_leaves_padding_out() {
        let token = |value: f32| vec![value; HIDDEN];
        let hidden = [token(1.0), token(99.0), token(2.0), token(2.0)].concat();
        let pooled = pool_and_normalise(&hidden, 2, &[true, false, true, true]);
        let want = (1.0 / (HIDDEN as f64).sqrt()) as f32;
        assert_eq!(pooled.len(), 2);
        assert!(pooled.iter().flatten().all(|v| (v - want).abs() < 1e-7));
    }
}
