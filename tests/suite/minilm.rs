//! The real model under a ceiling that is smaller than its layers.
//!
//! Proves: ten sentences give, bit for bit, what the run with all weights in plain memory gives, and the vectors that another
//! implementation recorded; the ceiling holds; one changed byte on its way to the device is noticed.

use crate::support::ledger::Ledger;
use crate::support::{data, minilm};
use ddo_recorder::{Ceiling, Checkpoint, HostOptions, OffloadConfig, SourceChoice, enable_offload};
use ddo_samples::minilm::{Batch, HIDDEN, LAYERS, Resident, Tokens, cosine};
use ddo_samples::model::ModelFiles;
use ddo_samples::run::{EncoderPass, encoder};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const LAYER_BYTES: u64 = 7_097_856;
const MANAGED_BYTES: u64 = LAYERS as u64 * LAYER_BYTES;
const STEPS: usize = 3;

/// Tokens of a sentence that is called short; only one of the ten is longer.
const SHORT: usize = 64;

/// A padded batch with the resident run's vectors.
struct Encoded {
    batch: Batch,
    resident: Vec<f32>,
}

/// All sentences and the short ones, and the recorded vectors of all.
struct Subject {
    files: ModelFiles,
    all: Encoded,
    short: Encoded,
    recorded: Vec<Vec<f32>>,
}

fn subject() -> Option<&'static Subject> {
    static SUBJECT: OnceLock<Option<Subject>> = OnceLock::new();
    let make = || {
        let files = minilm()?;
        let text = std::fs::read(data("minilm/minilm-reference.json")).expect("the recorded reference");
        let reference: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let sentences = reference["sentences"].as_array().expect("a list");
        let texts: Vec<&str> = sentences.iter().map(|sentence| sentence["text"].as_str().expect("a text")).collect();
        let vector = |sentence: &serde_json::Value| serde_json::from_value(sentence["embedding"].clone()).expect("numbers");
        let recorded: Vec<Vec<f32>> = sentences.iter().map(vector).collect();
        let tokens = Tokens::load(&files.tokenizer).expect("the vocabulary");
        let resident = Resident::load(&files.weights).expect("the weights");
        let encode = |texts: &[&str]| {
            let batch = tokens.batch(texts).expect("tokens");
            let resident = resident.encode(&batch).expect("shapes fit").concat();
            Encoded { batch, resident }
        };
        let is_short = |text: &&str| tokens.ids(text).expect("tokens").len() <= SHORT;
        let short: Vec<&str> = texts.iter().copied().filter(is_short).collect();
        let (all, short) = (encode(&texts), encode(&short));
        assert_eq!((all.batch.batch, recorded.len(), short.batch.batch), (10, 10, 9));
        Some(Subject { files, all, short, recorded })
    };
    SUBJECT.get_or_init(make).as_ref()
}

/// How a run streams.
struct Way {
    source: SourceChoice,
    slots: u64,
    page_bytes: u64,
    corrupt: Option<u64>,
}

/// Streams the model for some steps; the vectors of each step.
fn streamed(files: &ModelFiles, batch: &Batch, way: &Way) -> Vec<Vec<f32>> {
    // Four slots of whole pages do not fit in less.
    let ceiling = Ceiling::Percent(if way.slots == 2 { 40.0 } else { 80.0 });
    let limit = ceiling.resolve(MANAGED_BYTES).expect("a share");
    let ledger = Ledger::new(HostOptions { page_bytes: way.page_bytes, ..HostOptions::default() }, limit);
    if let Some(byte) = way.corrupt {
        ledger.corrupt_byte(byte);
    }
    let checkpoint = Checkpoint::open(&files.weights).expect("the checkpoint");
    let config =
        OffloadConfig { ceiling, source: way.source, slots: way.slots, ..OffloadConfig::new(Arc::<Ledger>::clone(&ledger)) };
    let offload = enable_offload(encoder(&checkpoint).expect("the encoder"), config).expect("attached");
    assert_eq!(offload.units().iter().map(|unit| unit.bytes).sum::<u64>(), MANAGED_BYTES);
    let pass = EncoderPass::new(&offload, batch.clone()).expect("six layers");
    let step = |_| {
        pass.submit(&offload).expect("submitted");
        offload.mark_step().expect("a step");
        offload.wait_stream(offload.compute_stream()).expect("done");
        pass.embeddings()
    };
    let steps = (0..STEPS).map(step).collect();
    let closed = offload.close(Duration::from_secs(10)).expect("closes");
    assert_eq!((closed.quarantined_bytes, closed.errors), (0, Vec::new()));
    let seen = ledger.seen();
    seen.assert_balanced();
    assert!(seen.peak_mapped_bytes > 0 && seen.peak_mapped_bytes <= limit, "{} of {limit} bytes", seen.peak_mapped_bytes);
    assert!(seen.copied_bytes >= LAYERS as u64 * LAYER_BYTES);
    steps
}

fn same_bits(got: &[f32], want: &[f32]) -> bool {
    got.len() == want.len() && got.iter().zip(want).all(|(a, b)| a.to_bits() == b.to_bits())
}

#[test]
fn ten_sentences_under_a_ceiling_of_40_percent() {
    let Some(subject) = subject() else { return };
    for (got, want) in subject.all.resident.chunks(HIDDEN).zip(&subject.recorded) {
        let cosine = cosine(got, want);
        assert!(cosine > 0.9999, "{cosine}");
    }
    let way = Way { source: SourceChoice::Mapped, slots: 2, page_bytes: 2 << 20, corrupt: None };
    for (step, got) in streamed(&subject.files, &subject.all.batch, &way).iter().enumerate() {
        assert!(same_bits(got, &subject.all.resident), "step {step}");
    }
}

#[test]
fn every_source_number_of_slots_and_page_size_gives_the_same_bits() {
    let Some(subject) = subject() else { return };
    for source in [SourceChoice::Mapped, SourceChoice::Cpu] {
        for (slots, page_bytes) in [(2, 64 << 10), (2, 2 << 20), (4, 4096), (4, 2 << 20)] {
            let way = Way { source, slots, page_bytes, corrupt: None };
            for (step, got) in streamed(&subject.files, &subject.short.batch, &way).iter().enumerate() {
                assert!(same_bits(got, &subject.short.resident), "step {step}, {source:?}, {slots} slots, pages of {page_bytes}");
            }
        }
    }
}

#[test]
fn one_corrupted_streamed_byte_is_noticed() {
    let Some(subject) = subject() else { return };
    // The exponent of a weight in the middle of the fourth layer, on its way in the first step.
    let corrupt = Some(3 * LAYER_BYTES + 4 * 500_001 + 3);
    let way = Way { source: SourceChoice::Mapped, slots: 2, page_bytes: 64 << 10, corrupt };
    let steps = streamed(&subject.files, &subject.short.batch, &way);
    let right: Vec<bool> = steps.iter().map(|got| same_bits(got, &subject.short.resident)).collect();
    assert_eq!(right, [false, true, true], "a flipped bit is noticed, and later uploads are whole");
}
