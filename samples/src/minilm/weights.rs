//! What is each tensor named, and how large is it?
//!
//! May use: this model's extents.
//!
//! Invariants: the order of [`LAYER_TENSORS`] is the order of the checkpoint's file (by name), and the only list of names; a
//! weight's length is checked by the arithmetic that reads it.

use super::{HIDDEN, INTERMEDIATE, POSITIONS, TYPES, VOCABULARY};

/// The tensors outside the layers: name and shape. They stay on the host.
pub const HOST_TENSORS: [(&str, &[usize]); 5] = [
    ("embeddings.word_embeddings.weight", &[VOCABULARY, HIDDEN]),
    ("embeddings.position_embeddings.weight", &[POSITIONS, HIDDEN]),
    ("embeddings.token_type_embeddings.weight", &[TYPES, HIDDEN]),
    ("embeddings.LayerNorm.weight", &[HIDDEN]),
    ("embeddings.LayerNorm.bias", &[HIDDEN]),
];

/// The tensors of one layer: name within the layer and shape.
pub const LAYER_TENSORS: [(&str, &[usize]); 16] = [
    ("attention.output.LayerNorm.bias", &[HIDDEN]),
    ("attention.output.LayerNorm.weight", &[HIDDEN]),
    ("attention.output.dense.bias", &[HIDDEN]),
    ("attention.output.dense.weight", &[HIDDEN, HIDDEN]),
    ("attention.self.key.bias", &[HIDDEN]),
    ("attention.self.key.weight", &[HIDDEN, HIDDEN]),
    ("attention.self.query.bias", &[HIDDEN]),
    ("attention.self.query.weight", &[HIDDEN, HIDDEN]),
    ("attention.self.value.bias", &[HIDDEN]),
    ("attention.self.value.weight", &[HIDDEN, HIDDEN]),
    ("intermediate.dense.bias", &[INTERMEDIATE]),
    ("intermediate.dense.weight", &[INTERMEDIATE, HIDDEN]),
    ("output.LayerNorm.bias", &[HIDDEN]),
    ("output.LayerNorm.weight", &[HIDDEN]),
    ("output.dense.bias", &[HIDDEN]),
    ("output.dense.weight", &[HIDDEN, INTERMEDIATE]),
];

/// The look-up tables and the normalisation after them.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingWeights<'a> {
    /// `[VOCABULARY, HIDDEN]`
    pub words: &'a [f32],
    /// `[POSITIONS, HIDDEN]`
    pub positions: &'a [f32],
    /// `[TYPES, HIDDEN]`
    pub types: &'a [f32],
    /// `[HIDDEN]`
    pub norm_weight: &'a [f32],
    /// `[HIDDEN]`
    pub norm_bias: &'a [f32],
}

/// The sixteen tensors of one layer, in the order of [`LAYER_TENSORS`].
#[derive(Clone, Copy, Debug)]
pub struct LayerWeights<'a> {
    /// `[HIDDEN]`
    pub attention_norm_bias: &'a [f32],
    /// `[HIDDEN]`
    pub attention_norm_weight: &'a [f32],
    /// `[HIDDEN]`
    pub attention_output_bias: &'a [f32],
    /// `[HIDDEN, HIDDEN]`
    pub attention_output_weight: &'a [f32],
    /// `[HIDDEN]`
    pub key_bias: &'a [f32],
    /// `[HIDDEN, HIDDEN]`
    pub key_weight: &'a [f32],
    /// `[HIDDEN]`
    pub query_bias: &'a [f32],
    /// `[HIDDEN, HIDDEN]`
    pub query_weight: &'a [f32],
    /// `[HIDDEN]`
    pub value_bias: &'a [f32],
    /// `[HIDDEN, HIDDEN]`
    pub value_weight: &'a [f32],
    /// `[INTERMEDIATE]`
    pub intermediate_bias: &'a [f32],
    /// `[INTERMEDIATE, HIDDEN]`
    pub intermediate_weight: &'a [f32],
    /// `[HIDDEN]`
    pub output_norm_bias: &'a [f32],
    /// `[HIDDEN]`
    pub output_norm_weight: &'a [f32],
    /// `[HIDDEN]`
    pub output_bias: &'a [f32],
    /// `[HIDDEN, INTERMEDIATE]`
    pub output_weight: &'a [f32],
}

impl<'a> EmbeddingWeights<'a> {
    /// Names five slices that come in the order of [`HOST_TENSORS`].
    pub fn in_order(slices: [&'a [f32]; 5]) -> EmbeddingWeights<'a> {
        let [words, positions, types, norm_weight, norm_bias] = slices;
        EmbeddingWeights { words, positions, types, norm_weight, norm_bias }
    }
}

impl<'a> LayerWeights<'a> {
    /// Names sixteen slices that come in the order of [`LAYER_TENSORS`].
    pub fn in_order(slices: [&'a [f32]; 16]) -> LayerWeights<'a> {
        let [
            attention_norm_bias,
            attention_norm_weight,
            attention_output_bias,
            attention_output_weight,
            key_bias,
            key_weight,
            query_bias,
            query_weight,
            value_bias,
            value_weight,
            intermediate_bias,
            intermediate_weight,
            output_norm_bias,
            output_norm_weight,
            output_bias,
            output_weight,
        ] = slices;
        LayerWeights {
            attention_norm_bias,
            attention_norm_weight,
            attention_output_bias,
            attention_output_weight,
            key_bias,
            key_weight,
            query_bias,
            query_weight,
            value_bias,
            value_weight,
            intermediate_bias,
            intermediate_weight,
            output_norm_bias,
            output_norm_weight,
            output_bias,
            output_weight,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_has_the_bytes_of_the_checkpoint() {
        let bytes: usize = LAYER_TENSORS.iter().map(|(_, shape)| shape.iter().product::<usize>() * 4).sum();
        assert_eq!(bytes, 7_097_856);
    }
}
