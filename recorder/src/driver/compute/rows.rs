//! What happens row by row or element by element between two matrix products? Normalisation, activation, look-ups, sums.
//!
//! May use: this folder's errors and length checks; `libm` for the error function.
//!
//! Invariants: plain loops in slice order, means and variances summed in f64, so results do not depend on the machine's vector width.

use super::{ComputeError, check_length, check_rows};

/// Layer normalisation in place: each row of `x` (as wide as `weight`) becomes `(x - mean) / sqrt(variance + eps) * weight + bias`.
/// The variance is the biased one (divided by the width), as in PyTorch's `LayerNorm`.
///
/// # Errors
/// `x` does not divide into rows as wide as `weight`, or `bias` has another width.
pub fn layer_norm_f32(x: &mut [f32], weight: &[f32], bias: &[f32], eps: f32) -> Result<(), ComputeError> {
    const CALL: &str = "layer_norm_f32";
    check_rows(CALL, "x", x.len(), weight.len())?;
    check_length(CALL, "bias", bias.len(), &[weight.len()])?;
    let width = weight.len() as f64;
    for row in x.chunks_exact_mut(weight.len()) {
        let mean = row.iter().map(|&v| f64::from(v)).sum::<f64>() / width;
        let variance = row.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / width;
        let factor = (variance + f64::from(eps)).sqrt().recip();
        for ((value, &scale), &shift) in row.iter_mut().zip(weight).zip(bias) {
            let normal = ((f64::from(*value) - mean) * factor) as f32;
            *value = normal * scale + shift;
        }
    }
    Ok(())
}

/// The exact GELU in place: `x * (1 + erf(x / sqrt 2)) / 2` (Hendrycks and Gimpel 2016), not its tanh approximation.
pub fn gelu_f32(x: &mut [f32]) {
    for value in x {
        *value = 0.5 * *value * (1.0 + libm::erff(*value * std::f32::consts::FRAC_1_SQRT_2));
    }
}

/// Softmax over each row of `width` elements, in place. An element of minus infinity becomes zero; a row of nothing else becomes
/// all zeros, never NaN.
///
/// # Errors
/// `x` does not divide into rows of `width`.
pub fn softmax_f32(x: &mut [f32], width: usize) -> Result<(), ComputeError> {
    check_rows("softmax_f32", "x", x.len(), width)?;
    for row in x.chunks_exact_mut(width) {
        let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if top == f32::NEG_INFINITY {
            row.fill(0.0);
            continue;
        }
        row.iter_mut().for_each(|value| *value = (*value - top).exp());
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|value| *value /= sum);
    }
    Ok(())
}

/// Copies row `ids[i]` of `table` (rows of `width` elements) to row `i` of `out`.
///
/// # Errors
/// `table` does not divide into rows, `out` is not `ids.len()` rows long, or an id lies outside the table; `out` is unchanged then.
pub fn gather_rows_f32(table: &[f32], width: usize, ids: &[u32], out: &mut [f32]) -> Result<(), ComputeError> {
    const CALL: &str = "gather_rows_f32";
    check_rows(CALL, "table", table.len(), width)?;
    check_length(CALL, "out", out.len(), &[ids.len(), width])?;
    let rows = table.len() / width;
    let outside = ids.iter().copied().find(|&id| usize::try_from(id).is_ok_and(|id| id >= rows));
    if let Some(index) = outside {
        return Err(ComputeError::Index { call: CALL, index, rows });
    }
    for (to, &id) in out.chunks_exact_mut(width).zip(ids) {
        let start = id as usize * width;
        let from = table.get(start..start + width).ok_or(ComputeError::Index { call: CALL, index: id, rows })?;
        to.copy_from_slice(from);
    }
    Ok(())
}

/// Adds `y` to `x`, element by element.
///
/// # Errors
/// Lengths differ.
pub fn add_f32(x: &mut [f32], y: &[f32]) -> Result<(), ComputeError> {
    check_length("add_f32", "y", y.len(), &[x.len()])?;
    x.iter_mut().zip(y).for_each(|(value, add)| *value += add);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn noise(seed: u64, n: usize) -> Vec<f32> {
        let mut rng = Rng::with_seed(seed);
        (0..n).map(|_| rng.f32() * 4.0 - 2.0).collect()
    }

    #[test]
    fn layer_norm_agrees_with_f64() {
        let (width, rows) = (48, 5);
        let (x, weight, bias) = (noise(1, width * rows), noise(2, width), noise(3, width));
        let mut got = x.clone();
        layer_norm_f32(&mut got, &weight, &bias, 1e-5).expect("shapes fit");
        for r in 0..rows {
            let row: Vec<f64> = x[r * width..][..width].iter().map(|&v| f64::from(v)).collect();
            let mean = row.iter().sum::<f64>() / width as f64;
            let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / width as f64;
            for i in 0..width {
                let want = (row[i] - mean) / (variance + 1e-5).sqrt() * f64::from(weight[i]) + f64::from(bias[i]);
                assert!((f64::from(got[r * width + i]) - want).abs() < 1e-5, "row {r}, element {i}");
            }
        }
        assert!(layer_norm_f32(&mut got, &weight[1..], &bias, 1e-5).is_err());
        assert!(layer_norm_f32(&mut got, &weight, &bias[1..], 1e-5).is_err());
        assert!(layer_norm_f32(&mut got, &[], &[], 1e-5).is_err());
    }

    #[test]
    fn gelu_is_the_erf_version() {
        let x = noise(4, 100);
        let mut got = x.clone();
        gelu_f32(&mut got);
        for (x, got) in x.iter().zip(got) {
            let x = f64::from(*x);
            let want = 0.5 * x * (1.0 + libm::erf(x / 2f64.sqrt()));
            assert!((f64::from(got) - want).abs() < 1e-6, "{x}: {got} against {want}");
        }
        let mut one = [1.0];
        gelu_f32(&mut one);
        assert!((one[0] - 0.841_344_7).abs() < 1e-6, "the tanh approximation would give 0.84119");
    }

    #[test]
    fn softmax_sums_to_one_and_survives_masks() {
        let mut x = noise(5, 30);
        x[3] = f32::NEG_INFINITY;
        x[20..30].fill(f32::NEG_INFINITY);
        let before = x.clone();
        softmax_f32(&mut x, 10).expect("three rows");
        for r in 0..2 {
            let exps: Vec<f64> = before[r * 10..][..10].iter().map(|&v| f64::from(v).exp()).collect();
            let sum: f64 = exps.iter().sum();
            for (got, want) in x[r * 10..][..10].iter().zip(&exps) {
                assert!((f64::from(*got) - want / sum).abs() < 1e-6);
            }
        }
        assert_eq!(x[3], 0.0);
        assert_eq!(x[20..], [0.0; 10], "a row without a key is all zeros");
        assert!(softmax_f32(&mut x, 7).is_err());
        assert!(softmax_f32(&mut x, 0).is_err());
    }

    #[test]
    fn gather_copies_rows_and_refuses_what_is_outside() {
        let table: Vec<f32> = (0..12u8).map(f32::from).collect();
        let mut out = [0.0; 6];
        gather_rows_f32(&table, 3, &[3, 0], &mut out).expect("inside");
        assert_eq!(out, [9.0, 10.0, 11.0, 0.0, 1.0, 2.0]);
        let error = gather_rows_f32(&table, 3, &[0, 4], &mut out).expect_err("the table has four rows");
        assert_eq!(error, ComputeError::Index { call: "gather_rows_f32", index: 4, rows: 4 });
        assert_eq!(out[0], 9.0, "nothing was written");
        assert!(gather_rows_f32(&table, 5, &[0], &mut out).is_err());
        assert!(gather_rows_f32(&table, 3, &[0], &mut out).is_err());
    }

    #[test]
    fn add_checks_lengths() {
        let mut x = [1.0, 2.0];
        add_f32(&mut x, &[0.5, 0.25]).expect("two and two");
        assert_eq!(x, [1.5, 2.25]);
        assert_eq!(add_f32(&mut x, &[0.0]).expect_err("one").to_string(), "add_f32: y has 1 elements; its shape needs 2");
    }
}
