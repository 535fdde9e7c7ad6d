//! How does a real sentence encoder compute? all-MiniLM-L6-v2: a BERT of six layers, 22.7 million parameters.
//!
//! | file | its question |
//! |---|---|
//! | `weights` | What is each tensor named, and how large is it? |
//! | `tokenize` | Which tokens does a text become? |
//! | `forward` | How does a layer turn hidden states into hidden states? |
//! | `resident` | What is the right answer? |
//!
//! May use: the recorder's host arithmetic (`ddo_recorder::driver::compute`) and, in `resident`, [`crate::plain`].
//!
//! Invariants: `forward` is pure functions over slices, shared word for word by the resident reference and the offloaded run, so
//! the two may only differ in where weights come from; padding changes no token's result beyond rounding.

mod forward;
mod resident;
mod tokenize;
mod weights;

pub use forward::{Scratch, embed, encoder_layer, pool_and_normalise};
pub use resident::Resident;
pub use tokenize::{Batch, TokenizeError, Tokens};
pub use weights::{EmbeddingWeights, HOST_TENSORS, LAYER_TENSORS, LayerWeights};

/// Width of a hidden state.
pub const HIDDEN: usize = 384;
/// Width inside a layer's feed-forward part.
pub const INTERMEDIATE: usize = 1536;
/// Attention heads.
pub const HEADS: usize = 12;
/// Encoder layers; each is one execution unit.
pub const LAYERS: usize = 6;
/// Rows of the word table.
pub const VOCABULARY: usize = 30_522;
/// Rows of the position table.
pub const POSITIONS: usize = 512;
/// Rows of the token type table.
pub const TYPES: usize = 2;
/// Added to variances; from the model's configuration.
pub const LAYER_NORM_EPS: f32 = 1e-12;
/// The most tokens of one text, `[CLS]` and `[SEP]` included; the sentence encoder's limit, below the position table's.
pub const MAX_TOKENS: usize = 256;

/// The batch that the sample encodes: ten texts of several lengths and scripts.
pub const TEXTS: [&str; 10] = [
    "The weights of this model stay in a file and are streamed under a ceiling.",
    "A profiler that invents zeros is worse than none.",
    "gpu",
    "Upload windows are not engine activity.",
    "Überprüfe die Grenze: 17,03 MB, nicht mehr.",
    "東京は日本の首都です。",
    "for i in range(10): print(i)",
    "The quick brown fox jumps over the lazy dog.",
    "Absent is never zero; zero is a measurement.",
    "A slot is free again once the work that reads it has provably ended.",
];

/// Cosine similarity of two vectors, summed in f64.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>();
    dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt())
}
