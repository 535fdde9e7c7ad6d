//! How does the host compute a layer? Safe arithmetic over slices, for jobs that run on the host driver.
//!
//! May use: nothing of this crate; `gemm` and `libm` outside it.
//!
//! Invariants:
//! - Every function checks every length before it reads or writes, and a wrong one is a [`ComputeError`] with got and expected;
//!   nothing has been written then.
//! - The same input gives the same bits on every run of one machine: one thread, a fixed order of sums that depends on shapes
//!   only, never on where a slice lies in memory.
//! - No function keeps state, logs, or knows weights by name. `unsafe` lives in `matrix` alone.

mod attention;
mod matrix;
mod rows;

pub use attention::{AttentionShape, attention_f32};
pub use matrix::{Matrix, MatrixMut, linear_f32, multiply_f32};
pub use rows::{add_f32, gather_rows_f32, gelu_f32, layer_norm_f32, softmax_f32};

/// Why a computation was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComputeError {
    /// A slice is not as long as the shape says.
    #[error("{call}: {what} has {got} elements; its shape needs {expected}")]
    Length {
        /// The function.
        call: &'static str,
        /// The argument.
        what: &'static str,
        /// Elements found.
        got: usize,
        /// Elements that the shape needs.
        expected: usize,
    },
    /// A slice does not divide into whole rows.
    #[error("{call}: {what} has {got} elements; it must divide into rows of {width}")]
    Rows {
        /// The function.
        call: &'static str,
        /// The argument.
        what: &'static str,
        /// Elements found.
        got: usize,
        /// Elements of one row.
        width: usize,
    },
    /// An index points outside a table.
    #[error("{call}: row {index} was asked for; the table has {rows} rows")]
    Index {
        /// The function.
        call: &'static str,
        /// The row asked for.
        index: u32,
        /// Rows of the table.
        rows: usize,
    },
    /// The shape itself makes no sense: its element count leaves the machine's range.
    #[error("{call}: the shape of {what} overflows")]
    Overflow {
        /// The function.
        call: &'static str,
        /// The argument.
        what: &'static str,
    },
    /// Two matrices do not fit each other.
    #[error("{call}: {what} is {got_rows} x {got_cols}; it must be {rows} x {cols}")]
    Shape {
        /// The function.
        call: &'static str,
        /// The argument.
        what: &'static str,
        /// Rows found.
        got_rows: usize,
        /// Columns found.
        got_cols: usize,
        /// Rows needed.
        rows: usize,
        /// Columns needed.
        cols: usize,
    },
}

/// Checks a slice against the product of a shape's extents.
fn check_length(call: &'static str, what: &'static str, got: usize, extents: &[usize]) -> Result<(), ComputeError> {
    let expected = product(call, what, extents)?;
    if got == expected { Ok(()) } else { Err(ComputeError::Length { call, what, got, expected }) }
}

/// The product of a shape's extents.
fn product(call: &'static str, what: &'static str, extents: &[usize]) -> Result<usize, ComputeError> {
    extents.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent)).ok_or(ComputeError::Overflow { call, what })
}

/// Checks that a slice divides into whole rows of a width above zero.
fn check_rows(call: &'static str, what: &'static str, got: usize, width: usize) -> Result<(), ComputeError> {
    if got.checked_rem(width) == Some(0) { Ok(()) } else { Err(ComputeError::Rows { call, what, got, width }) }
}
