//! What can a job compute on the device without unsafe code? Buffers, a few kernels, matrix products.
//!
//! May use: the CUDA driver beside it; NVRTC and cuBLASLt, each opened at run time and probed before its first call.
//!
//! Invariants:
//! - Every function checks every length and alignment before anything is queued; weights are reached only through views that
//!   the job's grants cover.
//! - Whatever queued work needs (buffers, the module, the workspace) is kept until the stream has passed it.
//! - The same input gives the same bits on one device, wherever in memory the weights lie: sums are of integers, or in an order
//!   that depends on the shape alone.
//!
//! | file | question |
//! |---|---|
//! | `buffer` | where do activations live? |
//! | `kernels` | which kernels are there, and how do they come to be? |
//! | `fold` | what is the right answer of the fold? (pure) |
//! | `gemm` | how is a linear layer computed? |

mod buffer;
mod fold;
mod gemm;
mod kernels;

pub use buffer::DeviceBuffer;
pub use fold::fold_bytes;
pub use gemm::{Gemm, GemmShape};
pub use kernels::Kernels;
