//! What is the right answer? The whole model in plain host memory, bypassing every part of the runtime.
//!
//! May use: [`crate::plain`], this model's arithmetic. Never the runtime.
//!
//! Invariants: all weights are read once and never change; encoding the same batch again gives the same bits.

use super::{
    Batch, EmbeddingWeights, HOST_TENSORS, LAYER_TENSORS, LAYERS, LayerWeights, Scratch, embed, encoder_layer, pool_and_normalise,
};
use crate::plain::{PlainError, PlainFile};
use ddo_recorder::driver::compute::ComputeError;
use std::path::Path;

/// Every weight of the model in memory.
#[derive(Debug)]
pub struct Resident {
    tables: [Vec<f32>; 5],
    layers: Vec<[Vec<f32>; 16]>,
}

/// Reads the tensors of a list in its order.
fn read_all<const N: usize>(
    file: &mut PlainFile,
    prefix: &str,
    list: &[(&str, &[usize]); N],
) -> Result<[Vec<f32>; N], PlainError> {
    let mut tensors: [Vec<f32>; N] = std::array::from_fn(|_| Vec::new());
    for (tensor, (name, shape)) in tensors.iter_mut().zip(list) {
        *tensor = file.read_f32(&format!("{prefix}{name}"), shape)?;
    }
    Ok(tensors)
}

impl Resident {
    /// Reads the checkpoint.
    ///
    /// # Errors
    /// The file cannot be read, or a tensor is missing or of another shape.
    ///
    /// # Cost
    /// Reads and keeps about 90 MB.
    pub fn load(weights: &Path) -> Result<Resident, PlainError> {
        let mut file = PlainFile::open(weights)?;
        let tables = read_all(&mut file, "", &HOST_TENSORS)?;
        let layer = |i| read_all(&mut file, &format!("encoder.layer.{i}."), &LAYER_TENSORS);
        let layers = (0..LAYERS).map(layer).collect::<Result<_, _>>()?;
        Ok(Resident { tables, layers })
    }

    /// One unit vector a text.
    ///
    /// # Errors
    /// A token outside the tables.
    pub fn encode(&self, batch: &Batch) -> Result<Vec<Vec<f32>>, ComputeError> {
        let mut hidden = embed(&EmbeddingWeights::in_order(self.tables.each_ref().map(Vec::as_slice)), batch)?;
        let mut scratch = Scratch::default();
        for layer in &self.layers {
            let weights = LayerWeights::in_order(layer.each_ref().map(Vec::as_slice));
            encoder_layer(&weights, &mut hidden, batch.batch, batch.seq, &batch.mask, &mut scratch, None)?;
        }
        Ok(pool_and_normalise(&hidden, batch.seq, &batch.mask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minilm::{TEXTS, Tokens, cosine};
    use crate::model;

    #[derive(serde::Deserialize)]
    struct Reference {
        safetensors_sha256: String,
        sentences: Vec<Sentence>,
    }

    #[derive(serde::Deserialize)]
    struct Sentence {
        text: String,
        token_ids: Vec<Id>,
        tokens: usize,
        embedding: Vec<f32>,
    }

    /// A token id, or the dots that stand for ids left out of a long list.
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Id {
        Token(u32),
        Dots(String),
    }

    /// Compares ids with a list that may leave out its middle; the count is compared in any case.
    fn assert_ids(got: &[u32], sentence: &Sentence) {
        assert_eq!(got.len(), sentence.tokens, "{:?}", sentence.text);
        let recorded = &sentence.token_ids;
        let token = |id: &Id| if let Id::Token(token) = id { Some(*token) } else { None };
        let head: Vec<u32> = recorded.iter().map_while(token).collect();
        let mut tail: Vec<u32> = recorded.iter().rev().map_while(token).collect();
        tail.reverse();
        let dots = recorded.iter().filter(|id| matches!(id, Id::Dots(dots) if dots == "...")).count();
        let whole = dots == 0 && head == got;
        let ends = dots == 1 && head.len() + tail.len() + 1 == recorded.len() && got.starts_with(&head) && got.ends_with(&tail);
        assert!(whole || ends, "{:?}: {got:?}", sentence.text);
    }

    fn reference() -> Reference {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/minilm/minilm-reference.json");
        serde_json::from_slice(&std::fs::read(path).expect("the recorded reference")).expect("its JSON")
    }

    #[test]
    fn tokens_and_embeddings_match_the_recorded_reference() {
        let Some(files) = model::found_or_skip() else { return };
        let reference = reference();
        assert_eq!(reference.safetensors_sha256, model::WEIGHTS_SHA256);
        let tokens = Tokens::load(&files.tokenizer).expect("the vocabulary");
        let texts: Vec<&str> = reference.sentences.iter().map(|s| s.text.as_str()).collect();
        for sentence in &reference.sentences {
            assert_ids(&tokens.ids(&sentence.text).expect("tokens"), sentence);
        }
        let resident = Resident::load(&files.weights).expect("the weights");
        let batch = tokens.batch(&texts).expect("tokens");
        assert_eq!((batch.batch, batch.seq), (10, 256));
        let started = std::time::Instant::now();
        let got = resident.encode(&batch).expect("shapes fit");
        println!("ten sentences, {} tokens each: {:.2?}", batch.seq, started.elapsed());
        for (got, sentence) in got.iter().zip(&reference.sentences) {
            let cosine = cosine(got, &sentence.embedding);
            let furthest = got.iter().zip(&sentence.embedding).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
            println!("1 - cosine {:.3e}, largest difference {furthest:.3e}: {:.40}", 1.0 - cosine, sentence.text);
            assert!(cosine > 0.9999, "{cosine}: {:?}", sentence.text);
            assert!(furthest < 1e-5, "{furthest}: {:?}", sentence.text);
        }
    }

    #[test]
    fn encoding_again_gives_the_same_bits() {
        let Some(files) = model::found_or_skip() else { return };
        let batch = Tokens::load(&files.tokenizer).expect("the vocabulary").batch(&TEXTS).expect("tokens");
        let resident = Resident::load(&files.weights).expect("the weights");
        let started = std::time::Instant::now();
        let bits = |run: Vec<Vec<f32>>| run.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let first = bits(resident.encode(&batch).expect("shapes fit"));
        println!("the sample's batch, {} tokens each: {:.2?}", batch.seq, started.elapsed());
        let again = Resident::load(&files.weights).expect("the weights");
        assert!(first == bits(again.encode(&batch).expect("shapes fit")), "two runs differ");
    }
}
