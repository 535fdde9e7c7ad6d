//! How do tokens look at each other? Multi-head self-attention over a padded batch (Vaswani et al. 2017, section 3.2).
//!
//! May use: this folder's matrix product and softmax.
//!
//! Invariants: a padded key has weight exactly zero in every row; heads and sequences are worked through in order, one at a time,
//! so one score square (`seq` x `seq`) is all the scratch memory there is.

use super::{ComputeError, Matrix, MatrixMut, check_length, multiply_f32, product, softmax_f32};

/// The extents of one attention call; queries, keys, values and output are all `[batch, seq, heads * head_width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Sequences.
    pub batch: usize,
    /// Tokens of each sequence, padding included.
    pub seq: usize,
    /// Heads.
    pub heads: usize,
    /// Elements of one head.
    pub head_width: usize,
}

/// Multi-head self-attention: `out = softmax(q * k^T / sqrt(head_width)) * v`, each head on its own.
///
/// `mask` is `[batch, seq]`, true for a token and false for padding. `scores` is scratch that is resized to `seq * seq`.
///
/// # Errors
/// A slice whose length is not what `shape` says.
pub fn attention_f32(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    shape: AttentionShape,
    mask: &[bool],
    out: &mut [f32],
    scores: &mut Vec<f32>,
) -> Result<(), ComputeError> {
    const CALL: &str = "attention_f32";
    let AttentionShape { batch, seq, heads, head_width } = shape;
    let width = product(CALL, "a token", &[heads, head_width])?;
    let sequence = product(CALL, "a sequence", &[seq, width])?;
    for (what, got) in [("q", q.len()), ("k", k.len()), ("v", v.len()), ("out", out.len())] {
        check_length(CALL, what, got, &[batch, sequence])?;
    }
    check_length(CALL, "mask", mask.len(), &[batch, seq])?;
    if sequence == 0 {
        return Ok(());
    }
    scores.resize(product(CALL, "the scores", &[seq, seq])?, 0.0);
    let scale = (head_width as f32).sqrt().recip();
    let inputs = q.chunks_exact(sequence).zip(k.chunks_exact(sequence)).zip(v.chunks_exact(sequence));
    let outputs = mask.chunks_exact(seq).zip(out.chunks_exact_mut(sequence));
    for (((q, k), v), (mask, out)) in inputs.zip(outputs) {
        for first in (0..heads).map(|head| head * head_width) {
            let head = |data| head_of(data, first, seq, head_width, width);
            let mut square = MatrixMut::new(scores, seq, seq, seq)?;
            multiply_f32(&mut square, head(q)?, head(k)?.transposed(), scale)?;
            for row in scores.chunks_exact_mut(seq) {
                let hidden = row.iter_mut().zip(mask).filter(|(_, seen)| !**seen);
                hidden.for_each(|(score, _)| *score = f32::NEG_INFINITY);
            }
            softmax_f32(scores, seq)?;
            let target = out.get_mut(first..).unwrap_or_default();
            let mut target = MatrixMut::new(target, seq, head_width, width)?;
            multiply_f32(&mut target, Matrix::new(scores, seq, seq, seq, 1)?, head(v)?, 1.0)?;
        }
    }
    Ok(())
}

/// One head's `[seq, head_width]` window of a `[seq, width]` sequence.
fn head_of(data: &[f32], first: usize, seq: usize, head_width: usize, width: usize) -> Result<Matrix<'_>, ComputeError> {
    Matrix::new(data.get(first..).unwrap_or_default(), seq, head_width, width, 1)
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn naive(q: &[f32], k: &[f32], v: &[f32], shape: AttentionShape, mask: &[bool]) -> Vec<f64> {
        let AttentionShape { batch, seq, heads, head_width } = shape;
        let at = |b: usize, t: usize, h: usize, i: usize| ((b * seq + t) * heads + h) * head_width + i;
        let mut out = vec![0.0; q.len()];
        for (b, h, t) in (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..seq).map(move |t| (b, h, t)))) {
            let score = |s: usize| {
                let dot: f64 = (0..head_width).map(|i| f64::from(q[at(b, t, h, i)]) * f64::from(k[at(b, s, h, i)])).sum();
                if mask[b * seq + s] { (dot / (head_width as f64).sqrt()).exp() } else { 0.0 }
            };
            let weights: Vec<f64> = (0..seq).map(score).collect();
            let sum: f64 = weights.iter().sum();
            for i in 0..head_width {
                let mixed: f64 = (0..seq).map(|s| weights[s] * f64::from(v[at(b, s, h, i)])).sum();
                out[at(b, t, h, i)] = if sum > 0.0 { mixed / sum } else { 0.0 };
            }
        }
        out
    }

    #[test]
    fn attention_agrees_with_naive_loops() {
        let shape = AttentionShape { batch: 3, seq: 7, heads: 4, head_width: 5 };
        let n = 3 * 7 * 4 * 5;
        let mut rng = Rng::with_seed(3);
        let mut noise = || (0..n).map(|_| rng.f32() * 2.0 - 1.0).collect::<Vec<f32>>();
        let (q, k, v) = (noise(), noise(), noise());
        let mask: Vec<bool> = (0..21).map(|i| i < 9 || (14..18).contains(&i)).collect();
        let (mut out, mut scores) = (vec![f32::NAN; n], Vec::new());
        attention_f32(&q, &k, &v, shape, &mask, &mut out, &mut scores).expect("shapes fit");
        for (got, want) in out.iter().zip(naive(&q, &k, &v, shape, &mask)) {
            assert!((f64::from(*got) - want).abs() < 1e-5, "{got} against {want}");
        }
    }

    #[test]
    fn padding_changes_no_bit_of_a_sequence_that_is_masked() {
        let shape = AttentionShape { batch: 1, seq: 4, heads: 1, head_width: 2 };
        let mask = [true, true, false, false];
        let (q, k, mut v) = (vec![0.5; 8], vec![0.25; 8], vec![1.0; 8]);
        let run = |v: &[f32]| {
            let (mut out, mut scores) = (vec![0.0; 8], Vec::new());
            attention_f32(&q, &k, v, shape, &mask, &mut out, &mut scores).expect("shapes fit");
            out
        };
        let before = run(&v);
        v[4..].fill(77.0);
        assert_eq!(before, run(&v));
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let shape = AttentionShape { batch: 1, seq: 2, heads: 1, head_width: 2 };
        let (good, mut out, mut scores) = ([0.0; 4], [0.0; 4], Vec::new());
        let error = attention_f32(&good, &good[1..], &good, shape, &[true; 2], &mut out, &mut scores).expect_err("k is short");
        assert_eq!(error.to_string(), "attention_f32: k has 3 elements; its shape needs 4");
        assert!(attention_f32(&good, &good, &good, shape, &[true], &mut out, &mut scores).is_err());
        let huge = AttentionShape { batch: usize::MAX, ..shape };
        assert!(attention_f32(&good, &good, &good, huge, &[true; 2], &mut out, &mut scores).is_err());
    }
}
