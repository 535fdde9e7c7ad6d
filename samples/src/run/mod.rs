//! How does a sample run under the runtime, and is its result right?
//!
//! May use: the recorder's embeddable interface, the models of this crate and their references.
//!
//! Invariants: weights of execution units are reached only through the views of a pinned unit, inside a job; hidden states move
//! from job to job behind a lock that the host takes only after a completion boundary; every step is compared with the reference,
//! bit for bit, and one difference fails the run; what the wrapper's settings leave off costs nothing here.
//!
//! | file | its question |
//! |---|---|
//! | `session` | which calls does every sample make around its forward passes? |
//! | `recording` | what is recorded of a run? |
//! | `minilm`, `flux` | how does each model run on the host driver? |
//! | `flux_device` | how does the generated workload run on a cuda device? |
//! | [`device_work`] | what does a cuda device compute with a unit? |
//! | [`expected`] | what must it give, computed from plain reads? |

#[cfg(test)]
mod broken_order;
pub mod device_work;
pub mod expected;
mod flux;
mod flux_device;
mod minilm;
mod recording;
mod session;

pub(crate) use flux::SEED;
pub use flux::default_path;
pub use minilm::{EncoderPass, encoder};
pub use session::{Passes, Session};

use crate::args::{DriverKind, ModelKind, SampleArgs};
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a sample did not run to its end, or not to the right one.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The device asked for cannot be used.
    #[error("--driver cuda: {0}; --driver host needs no device")]
    NoCuda(ddo_recorder::DriverError),
    /// An option that the driver asked for has no use for.
    #[error("{option} cannot be used with --driver {driver}: {reason}")]
    NotWithDriver {
        /// The option.
        option: &'static str,
        /// The driver.
        driver: &'static str,
        /// Why.
        reason: &'static str,
    },
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
    /// Switches that need each other, or a number outside its limits.
    #[error(transparent)]
    Settings(#[from] ddo_schemas::settings::BadSettings),
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
    /// A mapped source was still being registered when steps were to be timed.
    #[error("{bytes} bytes are still to be registered after {seconds} s")]
    NotSettled {
        /// What is left.
        bytes: u64,
        /// How long it was waited for.
        seconds: u64,
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
    /// The device computed something else than the reference.
    #[error(
        "step {step}: {what} differs from the reference: {got:#018x}, not {want:#018x}; {different} of {total} numbers differ"
    )]
    OtherBits {
        /// Zero-based step.
        step: u64,
        /// The first number that differs, by its name.
        what: String,
        /// What the device gave.
        got: u64,
        /// What is right.
        want: u64,
        /// Numbers that differ.
        different: usize,
        /// Numbers compared.
        total: usize,
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
            RunError::Differs { .. } | RunError::OtherBits { .. } | RunError::Close { .. } => false,
            RunError::NotSettled { .. } | RunError::Compute(_) => false,
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
    /// What the scopes that were asked for found, a line each.
    pub diagnosed: Vec<String>,
    /// What the device itself says, on a real one.
    pub device: Option<DeviceUse>,
}

/// Memory of a real device around a run, as the device reports it for all of its users.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceUse {
    /// Its name.
    pub name: String,
    /// Free before the component was attached; context, kernels and buffers of the sample are there already.
    pub free_before_bytes: u64,
    /// Least free while it ran.
    pub least_free_bytes: u64,
    /// Free after the close.
    pub free_after_bytes: u64,
    /// What is compared in each step.
    pub compared: String,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ddo_schemas::unit::human_bytes as human;
        writeln!(f, "{}: {} steps, each bit for bit equal to the resident run", self.model, self.steps)?;
        writeln!(f, "  managed   {} in {} units, {} resident", human(self.managed_bytes), self.units, self.resident_units)?;
        writeln!(f, "  ceiling   {} ({} bytes)", human(self.ceiling_bytes), self.ceiling_bytes)?;
        write!(f, "  streamed  {} a step", human(self.streamed_bytes_per_step))?;
        for line in &self.diagnosed {
            write!(f, "\n  {line}")?;
        }
        let Some(device) = &self.device else { return Ok(()) };
        let used = device.free_before_bytes.saturating_sub(device.least_free_bytes);
        let kept = device.free_before_bytes.saturating_sub(device.free_after_bytes);
        writeln!(f, "\n  device    {}", device.name)?;
        writeln!(f, "  compared  {}", device.compared)?;
        write!(
            f,
            "  memory    at most {} ({used} bytes) more in use than before attaching, {kept} bytes after closing",
            human(used)
        )
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
    check_options(args)?;
    match (args.model_kind, args.driver) {
        (ModelKind::Minilm, _) => minilm::run(args, target_dir),
        (ModelKind::FluxShaped, DriverKind::Host) => flux::run(args, target_dir),
        (ModelKind::FluxShaped, DriverKind::Cuda) => flux_device::run(args, target_dir),
    }
}

/// Refuses options that the driver asked for has no use for, before anything is made.
fn check_options(args: &SampleArgs) -> Result<(), RunError> {
    let refuse = |option, driver, reason| Err(RunError::NotWithDriver { option, driver, reason });
    match args.driver {
        DriverKind::Host if args.device != 0 => Err(RunError::NoDevice { got: args.device }),
        DriverKind::Host if args.tokens != 0 => refuse("--tokens", "host", "matrix products are computed on a cuda device"),
        DriverKind::Cuda if args.model_kind == ModelKind::Minilm => {
            refuse("minilm", "cuda", "its layers are computed on the host")
        }
        DriverKind::Cuda if args.virtual_time => refuse("--virtual-time", "cuda", "its time is real"),
        DriverKind::Cuda if args.link_gb_per_second.is_some() => refuse("--link-gb-per-second", "cuda", "the link is a real one"),
        _ => Ok(()),
    }
}

/// Compares two results bit for bit.
pub(crate) fn compare(step: u64, what: &'static str, got: &[f32], want: &[f32]) -> Result<(), RunError> {
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
    fn a_device_that_is_not_there_is_a_refusal_that_says_so() {
        use clap::Parser as _;
        let args = |line: &[&str]| SampleArgs::try_parse_from(["ddo-sample"].iter().chain(line)).expect("all known");
        let folder = std::env::temp_dir();
        let device = args(&["flux_shaped", "--driver", "cuda", "--device", "999", "--scale", "0.0001"]);
        let error = run(&device, &folder).expect_err("no machine has this device");
        assert!(error.is_refusal() && !error.to_string().contains('\n'), "{error}");
        assert!(error.to_string().starts_with("--driver cuda: cuda_open failed"), "{error}");
        for line in [
            &["minilm", "--driver", "cuda"][..],
            &["flux_shaped", "--tokens", "8"],
            &["flux_shaped", "--device", "1"],
            &["flux_shaped", "--driver", "cuda", "--link-gb-per-second", "1"],
            &["flux_shaped", "--driver", "cuda", "--virtual-time"],
        ] {
            let error = run(&args(line), &folder).expect_err("refused before anything is made");
            assert!(error.is_refusal(), "{error}");
        }
    }

    #[test]
    fn one_bit_is_a_difference() {
        assert!(compare(0, "x", &[1.0, f32::NAN], &[1.0, f32::NAN]).is_ok());
        let error = compare(3, "the state", &[1.0, 0.0], &[1.0, -0.0]).expect_err("the sign of zero");
        assert!(error.to_string().starts_with("step 3: the state differs from the resident run in 1 of 2 values"), "{error}");
        assert!(compare(0, "x", &[1.0], &[1.0, 2.0]).is_err());
    }
}
