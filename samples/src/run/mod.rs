//! How does a sample run under the runtime, and is its result right?
//!
//! May use: the recorder's embeddable interface, the models of this crate and their references.
//!
//! Invariants: weights of execution units are reached only through the views of a pinned unit, inside a job; hidden states move
//! from job to job behind a lock that the host takes only after a completion boundary; every step is compared with the reference,
//! bit for bit, and one difference fails the run; what the wrapper's settings leave off costs nothing here.

mod flux;
mod minilm;
mod session;

pub use minilm::{EncoderPass, encoder};
pub use session::Session;

use crate::args::{DriverKind, ModelKind, SampleArgs};
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a sample did not run to its end, or not to the right one.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The driver asked for is not part of this build.
    #[error("the cuda driver is not built yet; use --driver host")]
    NoCuda,
    /// The host driver imitates one device.
    #[error("--device is {got}; the host driver has one device, 0")]
    NoDevice {
        /// The index asked for.
        got: u32,
    },
    /// There is no checkpoint.
    #[error(transparent)]
    Model(#[from] crate::model::ModelError),
    /// The checkpoint is sound, but of another model.
    #[error("{}: this is no all-MiniLM-L6-v2 checkpoint: {what}", path.display())]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        what: String,
    },
    /// The generated checkpoint could not be made.
    #[error(transparent)]
    Flux(#[from] crate::flux::FluxError),
    /// The reference could not be read.
    #[error(transparent)]
    Plain(#[from] crate::plain::PlainError),
    /// The texts could not be encoded.
    #[error(transparent)]
    Tokenize(#[from] crate::minilm::TokenizeError),
    /// Arithmetic was refused.
    #[error(transparent)]
    Compute(#[from] ddo_recorder::driver::compute::ComputeError),
    /// The runtime failed or declined.
    #[error(transparent)]
    Runtime(#[from] ddo_recorder::Error),
    /// Work was still in flight or had failed when the component was closed.
    #[error("closing: {first}; {count} errors, {quarantined_bytes} bytes in quarantine")]
    Close {
        /// The first error.
        first: String,
        /// Errors in all.
        count: usize,
        /// Device memory that could not be proven free.
        quarantined_bytes: u64,
    },
    /// The component has another set of units than the model.
    #[error("the component has no unit {name:?}; it has {have}")]
    NoUnit {
        /// The unit's name.
        name: String,
        /// How many units there are.
        have: usize,
    },
    /// A tensor list of another length than the code that names its entries.
    #[error("{what}: {got} tensors were found; {expected} are needed")]
    TensorCount {
        /// The unit or table group.
        what: String,
        /// Tensors found.
        got: usize,
        /// Tensors needed.
        expected: usize,
    },
    /// The runtime computed something else than the reference.
    #[error("step {step}: {what} differs from the resident run in {different} of {total} values (cosine {cosine:.9})")]
    Differs {
        /// Zero-based step.
        step: u64,
        /// What was compared.
        what: &'static str,
        /// Values whose bits differ.
        different: usize,
        /// Values compared.
        total: usize,
        /// Cosine similarity of the two.
        cosine: f64,
    },
}

impl RunError {
    /// True where what was asked for cannot be used: the command line, a checkpoint, a limit. Nothing was computed then.
    pub fn is_refusal(&self) -> bool {
        use ddo_recorder::Error;
        match self {
            RunError::Differs { .. } | RunError::Close { .. } | RunError::Compute(_) => false,
            RunError::Runtime(error) => !matches!(
                error,
                Error::Driver(_) | Error::Job { .. } | Error::Poisoned { .. } | Error::Closed { .. } | Error::Publish(_)
            ),
            _ => true,
        }
    }
}

/// What a finished run has to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What ran.
    pub model: String,
    /// Steps, all of them equal to the reference.
    pub steps: u64,
    /// Units of the component.
    pub units: usize,
    /// Units that stayed in device memory.
    pub resident_units: usize,
    /// Bytes of all units.
    pub managed_bytes: u64,
    /// Device memory for weights that was allowed.
    pub ceiling_bytes: u64,
    /// Bytes of the units that came over the link in each step.
    pub streamed_bytes_per_step: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ddo_schemas::unit::human_bytes as human;
        writeln!(f, "{}: {} steps, each bit for bit equal to the resident run", self.model, self.steps)?;
        writeln!(f, "  managed   {} in {} units, {} resident", human(self.managed_bytes), self.units, self.resident_units)?;
        writeln!(f, "  ceiling   {} ({} bytes)", human(self.ceiling_bytes), self.ceiling_bytes)?;
        write!(f, "  streamed  {} a step", human(self.streamed_bytes_per_step))
    }
}

/// Runs what the command line asks for, once.
///
/// # Errors
/// See [`RunError`]; a result that differs from the reference is one of them.
///
/// # Cost
/// Blocks until all steps are complete. May make a checkpoint (`flux_shaped`); never downloads.
pub fn run(args: &SampleArgs, target_dir: &Path) -> Result<Outcome, RunError> {
    if args.driver == DriverKind::Cuda {
        return Err(RunError::NoCuda);
    }
    if args.device != 0 {
        return Err(RunError::NoDevice { got: args.device });
    }
    match args.model_kind {
        ModelKind::Minilm => minilm::run(args, target_dir),
        ModelKind::FluxShaped => flux::run(args, target_dir),
    }
}

/// Compares two results bit for bit.
fn compare(step: u64, what: &'static str, got: &[f32], want: &[f32]) -> Result<(), RunError> {
    let paired = got.iter().zip(want).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    let different = paired + got.len().abs_diff(want.len());
    if different == 0 {
        return Ok(());
    }
    let cosine = crate::minilm::cosine(got, want);
    Err(RunError::Differs { step, what, different, total: want.len(), cosine })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_is_a_difference() {
        assert!(compare(0, "x", &[1.0, f32::NAN], &[1.0, f32::NAN]).is_ok());
        let error = compare(3, "the state", &[1.0, 0.0], &[1.0, -0.0]).expect_err("the sign of zero");
        assert!(error.to_string().starts_with("step 3: the state differs from the resident run in 1 of 2 values"), "{error}");
        assert!(compare(0, "x", &[1.0], &[1.0, 2.0]).is_err());
    }
}
