//! How are two matrices multiplied? Strided views with proven bounds, and the one call into `gemm`.
//!
//! May use: this folder's errors and length checks.
//!
//! Invariants:
//! - A [`Matrix`] or [`MatrixMut`] exists only if each of its elements lies inside the slice that it borrows; a [`MatrixMut`]
//!   never names one element twice. The single unsafe call rests on that alone.
//! - Single-threaded; the order of sums depends on shapes and strides, never on addresses.
#![allow(unsafe_code)]

use super::{ComputeError, check_length};

/// A read-only strided view of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    data: &'a [f32],
    layout: Layout,
}

/// A writable strided view of a slice; no two elements share a place.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    data: &'a mut [f32],
    layout: Layout,
}

/// Extents and strides, both in elements.
#[derive(Clone, Copy, Debug)]
struct Layout {
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl Layout {
    /// Elements that a slice must have for the last element to lie inside it.
    fn span(&self) -> Option<usize> {
        if self.rows == 0 || self.cols == 0 {
            return Some(0);
        }
        let down = (self.rows - 1).checked_mul(self.row_stride)?;
        let right = (self.cols - 1).checked_mul(self.col_stride)?;
        let span = down.checked_add(right)?.checked_add(1)?;
        // The callee counts in signed pointer offsets.
        isize::try_from(span).ok().map(|_| span)
    }

    fn checked(self, len: usize, what: &'static str) -> Result<Layout, ComputeError> {
        const CALL: &str = "matrix";
        let strides = [self.row_stride, self.col_stride];
        let expected = self.span().filter(|_| strides.iter().all(|&s| isize::try_from(s).is_ok()));
        let expected = expected.ok_or(ComputeError::Overflow { call: CALL, what })?;
        if len < expected { Err(ComputeError::Length { call: CALL, what, got: len, expected }) } else { Ok(self) }
    }
}

impl<'a> Matrix<'a> {
    /// A view of `rows` x `cols` elements; strides count elements.
    ///
    /// # Errors
    /// The last element would lie outside `data`.
    pub fn new(data: &'a [f32], rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Result<Self, ComputeError> {
        let layout = Layout { rows, cols, row_stride, col_stride }.checked(data.len(), "a matrix")?;
        Ok(Matrix { data, layout })
    }

    /// The same elements with rows and columns exchanged.
    pub fn transposed(self) -> Matrix<'a> {
        let Layout { rows, cols, row_stride, col_stride } = self.layout;
        Matrix { data: self.data, layout: Layout { rows: cols, cols: rows, row_stride: col_stride, col_stride: row_stride } }
    }
}

impl<'a> MatrixMut<'a> {
    /// A writable view of `rows` x `cols` elements whose columns are neighbours and whose rows lie `row_stride` apart.
    ///
    /// # Errors
    /// The last element would lie outside `data`, or rows would overlap (`row_stride` below `cols`).
    pub fn new(data: &'a mut [f32], rows: usize, cols: usize, row_stride: usize) -> Result<Self, ComputeError> {
        let layout = Layout { rows, cols, row_stride, col_stride: 1 }.checked(data.len(), "the output matrix")?;
        if row_stride < cols {
            return Err(ComputeError::Rows { call: "matrix", what: "the output's row stride", got: row_stride, width: cols });
        }
        Ok(MatrixMut { data, layout })
    }
}

/// `out = scale * a * b`; what `out` held before is not read.
///
/// # Errors
/// Shapes that do not fit each other.
pub fn multiply_f32(out: &mut MatrixMut<'_>, a: Matrix<'_>, b: Matrix<'_>, scale: f32) -> Result<(), ComputeError> {
    const CALL: &str = "multiply_f32";
    let shape = |what, got: Layout, rows, cols| {
        let fits = got.rows == rows && got.cols == cols;
        let error = ComputeError::Shape { call: CALL, what, got_rows: got.rows, got_cols: got.cols, rows, cols };
        if fits { Ok(()) } else { Err(error) }
    };
    shape("b", b.layout, a.layout.cols, b.layout.cols)?;
    shape("out", out.layout, a.layout.rows, b.layout.cols)?;
    let (m, n, k) = (a.layout.rows, b.layout.cols, a.layout.cols);
    // Every stride passed `Layout::checked`, which refuses what does not fit a signed offset.
    let stride = |s: usize| s as isize;
    // SAFETY: `Layout::checked` proved that the last element of `out`, `a` and `b` lies inside its slice, so every offset the call
    // forms is in bounds; the extents agree (checked above); `out` is borrowed mutably, so it overlaps neither input, and
    // `MatrixMut::new` proved that its elements are distinct. f32 is a type `gemm` knows; no other thread takes part.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.data.as_mut_ptr(),
            stride(out.layout.col_stride),
            stride(out.layout.row_stride),
            false,
            a.data.as_ptr(),
            stride(a.layout.col_stride),
            stride(a.layout.row_stride),
            b.data.as_ptr(),
            stride(b.layout.col_stride),
            stride(b.layout.row_stride),
            0.0,
            scale,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
    Ok(())
}

/// A dense layer: `out[r, o] = sum_i x[r, i] * w[o, i] + bias[o]`.
///
/// `x` is `[rows, in]`, `w` is `[out, in]` row-major as checkpoints store it, `bias` is `[out]`, `out` is `[rows, out]`. The
/// extents `in` and `out` follow from the slices.
///
/// # Errors
/// A slice whose length does not fit the others.
pub fn linear_f32(x: &[f32], rows: usize, w: &[f32], bias: Option<&[f32]>, out: &mut [f32]) -> Result<(), ComputeError> {
    const CALL: &str = "linear_f32";
    let per_row = |what, got: usize| match got.checked_rem(rows) {
        Some(0) => Ok(got / rows),
        _ => Err(ComputeError::Length { call: CALL, what, got, expected: rows.saturating_mul((got / rows.max(1)).max(1)) }),
    };
    let (width, outs) = (per_row("x", x.len())?, per_row("out", out.len())?);
    check_length(CALL, "w", w.len(), &[outs, width])?;
    if let Some(bias) = bias {
        check_length(CALL, "bias", bias.len(), &[outs])?;
    }
    let input = Matrix::new(x, rows, width, width, 1)?;
    let weight = Matrix::new(w, outs, width, width, 1)?.transposed();
    multiply_f32(&mut MatrixMut::new(out, rows, outs, outs)?, input, weight, 1.0)?;
    if let Some(bias) = bias.filter(|bias| !bias.is_empty()) {
        for row in out.chunks_exact_mut(outs) {
            row.iter_mut().zip(bias).for_each(|(value, add)| *value += add);
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn noise(rng: &mut Rng, n: usize) -> Vec<f32> {
        (0..n).map(|_| rng.f32() - 0.5).collect()
    }

    fn naive(x: &[f32], rows: usize, w: &[f32], bias: &[f32]) -> Vec<f64> {
        let (width, outs) = (x.len() / rows, bias.len());
        let dot = |r: usize, o: usize| (0..width).map(|i| f64::from(x[r * width + i]) * f64::from(w[o * width + i])).sum::<f64>();
        (0..rows * outs).map(|at| dot(at / outs, at % outs) + f64::from(bias[at % outs])).collect()
    }

    #[test]
    fn linear_agrees_with_a_naive_sum() {
        let mut rng = Rng::with_seed(7);
        for (rows, width, outs) in [(1, 1, 1), (3, 5, 7), (17, 384, 33), (64, 96, 130), (1, 200, 3), (40, 1, 9)] {
            let (x, w, bias) = (noise(&mut rng, rows * width), noise(&mut rng, outs * width), noise(&mut rng, outs));
            let mut out = vec![f32::NAN; rows * outs];
            linear_f32(&x, rows, &w, Some(&bias), &mut out).expect("shapes fit");
            for (got, want) in out.iter().zip(naive(&x, rows, &w, &bias)) {
                assert!((f64::from(*got) - want).abs() < 1e-4, "{rows} x {width} x {outs}: {got} against {want}");
            }
        }
    }

    #[test]
    fn the_same_bits_wherever_the_slices_lie() {
        let mut rng = Rng::with_seed(11);
        let (rows, width, outs) = (37, 384, 100);
        let (x, w) = (noise(&mut rng, rows * width), noise(&mut rng, outs * width));
        let mut first = vec![0.0; rows * outs];
        linear_f32(&x, rows, &w, None, &mut first).expect("shapes fit");
        for shift in 1..18 {
            let moved = |v: &[f32]| [&vec![9.0; shift], v].concat();
            let (x, w, mut out) = (moved(&x), moved(&w), vec![0.0; rows * outs + shift]);
            linear_f32(&x[shift..], rows, &w[shift..], None, &mut out[shift..]).expect("shapes fit");
            let same = out[shift..].iter().zip(&first).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "moved by {shift} elements");
        }
    }

    #[test]
    fn wrong_lengths_are_named_and_nothing_is_written() {
        let mut out = [5.0; 6];
        let error = linear_f32(&[0.0; 8], 2, &[0.0; 11], None, &mut out).expect_err("w is one short");
        assert_eq!(error, ComputeError::Length { call: "linear_f32", what: "w", got: 11, expected: 12 });
        assert_eq!(error.to_string(), "linear_f32: w has 11 elements; its shape needs 12");
        let error = linear_f32(&[0.0; 8], 2, &[0.0; 12], Some(&[0.0; 2]), &mut out).expect_err("bias is one short");
        assert_eq!(error, ComputeError::Length { call: "linear_f32", what: "bias", got: 2, expected: 3 });
        assert!(linear_f32(&[0.0; 8], 3, &[0.0; 12], None, &mut out).is_err());
        assert!(linear_f32(&[], 0, &[], None, &mut out).is_err());
        assert_eq!(out, [5.0; 6]);
    }

    #[test]
    fn a_view_outside_its_slice_cannot_be_made() {
        let data = [0.0; 12];
        assert!(Matrix::new(&data, 3, 4, 4, 1).is_ok());
        assert!(Matrix::new(&data, 3, 4, 5, 1).is_err());
        assert!(Matrix::new(&data, usize::MAX, 2, usize::MAX, 1).is_err());
        assert!(MatrixMut::new(&mut [0.0; 12], 3, 4, 3).is_err(), "overlapping rows");
        let a = Matrix::new(&data, 3, 4, 4, 1).expect("fits");
        let mut out = [0.0; 9];
        let mut out = MatrixMut::new(&mut out, 3, 3, 3).expect("fits");
        let error = multiply_f32(&mut out, a, a, 1.0).expect_err("4 columns against 3 rows");
        assert_eq!(error.to_string(), "multiply_f32: b is 3 x 4; it must be 4 x 4");
    }
}
