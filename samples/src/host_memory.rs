//! Which host memory did the command line give to the sources that read or register files?
//!
//! May use: `clap`, the recorder's settings.
//!
//! Invariants: without options the recorder's defaults hold, and retained storage takes what holds the whole checkpoint.

use clap::{Args, ValueEnum};
use ddo_recorder::limits::{DEFAULT_STAGING_BYTES, DEFAULT_STAGING_SLOT_BYTES};
use ddo_recorder::{HostMemorySettings, RegistrationPolicy, RegistrationTiming, SourceChoice};

/// When a mapped file is registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RegisterArg {
    /// In the background where that is a gain.
    #[default]
    Auto,
    /// All of it before the first step.
    Attach,
    /// Beside the first steps; what is not registered yet passes through the ring.
    Background,
}

impl From<RegisterArg> for RegistrationTiming {
    fn from(register: RegisterArg) -> RegistrationTiming {
        match register {
            RegisterArg::Auto => RegistrationTiming::Auto,
            RegisterArg::Attach => RegistrationTiming::AtAttach,
            RegisterArg::Background => RegistrationTiming::Background,
        }
    }
}

/// Host memory of the sources that read or register files.
#[derive(Clone, Debug, Args)]
pub struct HostMemoryArgs {
    /// Registered staging memory in all, in MiB: the ring, or the slots of `staged`.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_STAGING_BYTES >> 20, value_parser = clap::value_parser!(u64).range(1..=40_960))]
    pub staging_mib: u64,
    /// One slot of it, in KiB: a multiple of 4.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_STAGING_SLOT_BYTES >> 10, value_parser = clap::value_parser!(u64).range(4..=65_536))]
    pub staging_slot_kib: u64,
    /// Threads that read files and copy into the ring; 0 for two fewer than there are processors.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=14))]
    pub readers: u64,
    /// Ceiling of retained storage in GiB, in segments of 64 MiB; what holds the checkpoint if it is not given.
    #[arg(long, value_name = "G", value_parser = positive)]
    pub retained_gib: Option<f64>,
    /// Ceiling of registered source bytes (retained, or the mapped file) in GiB, in whole segments; all if it is not given.
    #[arg(long, value_name = "R", value_parser = positive)]
    pub registered_gib: Option<f64>,
    /// Which segments are registered below that ceiling: stable_subset or recycle.
    #[arg(long, value_name = "POLICY", default_value = "stable_subset")]
    pub registration: RegistrationPolicy,
    /// When a mapped file is registered.
    #[arg(long, value_enum, default_value_t)]
    pub register: RegisterArg,
}

/// A number above zero.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if value > 0.0 && value <= 1_048_576.0 {
        Ok(value)
    } else {
        Err(format!("{text} is outside the range; it must be above 0, at most 1048576"))
    }
}

fn bytes(gib: f64) -> u64 {
    (gib * (1u64 << 30) as f64) as u64
}

impl Default for HostMemoryArgs {
    /// What the command line gives where nothing is said.
    fn default() -> HostMemoryArgs {
        HostMemoryArgs {
            staging_mib: DEFAULT_STAGING_BYTES >> 20,
            staging_slot_kib: DEFAULT_STAGING_SLOT_BYTES >> 10,
            readers: 0,
            retained_gib: None,
            registered_gib: None,
            registration: RegistrationPolicy::StableSubset,
            register: RegisterArg::Auto,
        }
    }
}

impl HostMemoryArgs {
    /// The settings for a source; `holds_all` is the retained storage that holds the whole checkpoint.
    pub fn settings(&self, source: SourceChoice, holds_all: impl FnOnce() -> u64) -> HostMemorySettings {
        let retained_bytes = match (self.retained_gib, source) {
            (Some(gib), _) => bytes(gib),
            (None, SourceChoice::Retained) => holds_all(),
            (None, _) => 0,
        };
        HostMemorySettings {
            staging_bytes: self.staging_mib << 20,
            staging_slot_bytes: self.staging_slot_kib << 10,
            readers: self.readers,
            retained_bytes,
            registered_bytes: self.registered_gib.map_or(0, bytes),
            registration: self.registration,
            registration_timing: self.register.into(),
            ..HostMemorySettings::default()
        }
    }
}
