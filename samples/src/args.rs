//! What did the command line of `ddo-sample` ask for?
//!
//! May use: `clap`, the standard library, the runtime's own reading of a ceiling and its residency modes, the
//! recorder's settings.
//!
//! Invariants: nothing is guessed; a value outside its range is refused with the range; what was not given is `None` or its
//! documented default.

use crate::host_memory::HostMemoryArgs;
use clap::{Args, Parser, ValueEnum};
use ddo_recorder::{Ceiling, LaunchScope, ResidencyMode, SourceChoice};
use ddo_schemas::settings::{BadSettings, Settings};
use std::path::PathBuf;
use std::str::FromStr;

/// Runs a model under the offload runtime and compares the result, bit for bit, with a run that has all weights in plain memory.
#[derive(Clone, Debug, Parser)]
#[command(name = "ddo-sample", version)]
pub struct SampleArgs {
    /// The model to run.
    pub model_kind: ModelKind,
    /// The device; `host` imitates one in ordinary memory.
    #[arg(long, value_enum, default_value_t = DriverKind::Host)]
    pub driver: DriverKind,
    /// Index of the device, for drivers that have several.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device: u32,
    /// Device memory for weights: a share of the managed bytes (40%), a byte count, or a size (512MiB, 4GiB).
    #[arg(long, value_name = "40%|BYTES|SIZE", default_value = "40%")]
    pub ceiling: Ceiling,
    /// Where streamed weights are read from.
    #[arg(long, value_enum, default_value_t = SourceArg::Auto)]
    pub source: SourceArg,
    /// Host memory of the sources that read or register files.
    #[command(flatten)]
    pub host: HostMemoryArgs,
    /// Forward passes in a run.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub steps: u64,
    /// Generations with the model loaded once, each of as many steps; a wrapper may ask for more than one, too.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub repeats: Option<u64>,
    /// What is diagnosed, on top of what a wrapper asks for.
    #[command(flatten)]
    pub diagnose: DiagnoseArgs,
    /// Rate of the imitated link in 10^9 bytes a second; as fast as memory if it is not given.
    #[arg(long, value_name = "R")]
    pub link_gb_per_second: Option<LinkRate>,
    /// Let time on the imitated device pass by its own copies and work alone: the same on every machine.
    #[arg(long)]
    pub virtual_time: bool,
    /// Page size of the imitated device in KiB, a power of two; 2048 is what CUDA uses.
    #[arg(long, value_name = "N", default_value = "64")]
    pub page_kib: PageKib,
    /// What comes and goes as one.
    #[arg(long, value_enum, default_value_t = ModeArg::Auto)]
    pub mode: ModeArg,
    /// With --mode demand: a unit without memory under the ceiling gets some outside it, counted, instead of a refusal.
    #[arg(long)]
    pub fault_fallback: bool,
    /// Device memory that weights leave to others when they take more, in MiB.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1 << 40))]
    pub device_reserve_mib: u64,
    /// Execution slots for streamed units in the classic mode, at least two.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..=64))]
    pub slots: u64,
    /// The checkpoint: for minilm its folder or model.safetensors; for flux_shaped the file to use, made if it is missing.
    #[arg(long, value_name = "PATH")]
    pub model: Option<PathBuf>,
    /// Rows of the matrix products that flux_shaped computes on a cuda device; 0 folds the weights only.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=65_536))]
    pub tokens: u64,
    /// The least time that each unit's work of flux_shaped takes, in microseconds: slow kernels make late copies visible.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub slow_microseconds: u64,
    /// Size of flux_shaped: its bytes as a share of the full model's 9.97 GB of BF16 (twice that in F32).
    #[arg(long, value_name = "S", default_value = "0.001")]
    pub scale: ScaleArg,
}

/// Scopes that a run can be asked for; all of them cost something, so all are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
pub struct DiagnoseArgs {
    /// Time steps on the compute stream.
    #[arg(long)]
    pub gpu_timing: bool,
    /// Record native windows, CAPACITY 1 to 8192; needs --gpu-timing [default capacity: 4096]
    #[arg(long, value_name = "CAPACITY", num_args = 0..=1, require_equals = true)]
    pub native_timeline: Option<Option<u64>>,
    /// Wait for the compute stream after every step; needs --gpu-timing and --native-timeline. Not a benchmark.
    #[arg(long)]
    pub diagnostic_step_wait: bool,
    /// Count and time the driver's memory calls. Not a benchmark.
    #[arg(long)]
    pub allocation_diagnostics: bool,
}

impl DiagnoseArgs {
    /// What the command line asks for on top of a wrapper's settings, or of none.
    ///
    /// # Errors
    /// Switches that need each other, or a number outside its limits.
    pub fn over(self, repeats: Option<u64>, settings: Option<&Settings>) -> Result<Settings, BadSettings> {
        let mut settings = settings.cloned().unwrap_or_default();
        settings.gpu_timing |= self.gpu_timing;
        settings.native_timeline |= self.native_timeline.is_some();
        if let Some(capacity) = self.native_timeline.flatten() {
            settings.native_timeline_capacity = capacity;
        }
        if self.diagnostic_step_wait {
            settings.diagnostic_step_wait = Some(true);
        }
        if self.allocation_diagnostics {
            settings.allocation_diagnostics = Some(true);
        }
        settings.repeats = repeats.or(settings.repeats);
        settings.check()?;
        Ok(settings)
    }
}

/// A model that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ModelKind {
    /// The sentence encoder all-MiniLM-L6-v2.
    Minilm,
    /// Generated weights in the shapes of a Flux transformer.
    FluxShaped,
}

/// A device driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DriverKind {
    /// The imitation in ordinary memory.
    Host,
    /// An NVIDIA device.
    Cuda,
}

/// Where streamed weights are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SourceArg {
    /// The runtime chooses.
    Auto,
    /// The checkpoint file, mapped and registered in place.
    Mapped,
    /// Tensors in host memory.
    Cpu,
    /// The checkpoint file, read through a ring of host memory for each upload.
    Ring,
    /// The checkpoint file, read once into host memory that is kept.
    Retained,
    /// The checkpoint file or tensors in host memory, copied into staging slots by the thread that runs the model.
    Staged,
}

impl From<SourceArg> for SourceChoice {
    fn from(source: SourceArg) -> SourceChoice {
        match source {
            SourceArg::Auto => SourceChoice::Auto,
            SourceArg::Mapped => SourceChoice::Mapped,
            SourceArg::Cpu => SourceChoice::Cpu,
            SourceArg::Ring => SourceChoice::Ring,
            SourceArg::Retained => SourceChoice::Retained,
            SourceArg::Staged => SourceChoice::Staged,
        }
    }
}

/// What comes and goes as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// Parts, where they need fewer bytes to be streamed than whole units.
    Auto,
    /// Whole units in fixed slots.
    Classic,
    /// Parts of units in a stream ring.
    Parts,
    /// Whole units in the arena on demand, least recently used pages first: nothing is planned.
    Demand,
}

impl From<ModeArg> for ResidencyMode {
    fn from(mode: ModeArg) -> ResidencyMode {
        match mode {
            ModeArg::Auto => ResidencyMode::Auto,
            ModeArg::Classic => ResidencyMode::Classic,
            ModeArg::Parts => ResidencyMode::Parts,
            ModeArg::Demand => ResidencyMode::Demand,
        }
    }
}

impl SampleArgs {
    /// How flux_shaped launches: matrix by matrix unless whole units are asked for.
    pub fn flux_launches(&self) -> LaunchScope {
        match self.mode {
            ModeArg::Classic | ModeArg::Demand => LaunchScope::Units,
            ModeArg::Auto | ModeArg::Parts => LaunchScope::Parts,
        }
    }
}

/// A command-line value that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadArg {
    /// Not of a form that is understood.
    #[error("{got:?} is not understood; {forms}")]
    Form {
        /// The text.
        got: String,
        /// The forms that are.
        forms: &'static str,
    },
    /// A number outside its range.
    #[error("{got} is outside the range; it must be {range}")]
    Range {
        /// The text.
        got: String,
        /// The range.
        range: &'static str,
    },
}

/// Rate of the imitated link, bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRate(pub u64);

/// Page size of the imitated device, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageKib(pub u64);

/// A share of a model's bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleArg(pub f64);

/// A plain decimal number: digits and at most one point. No sign, exponent, `inf` or `nan`.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && text.bytes().any(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten().filter(|value: &f64| value.is_finite())
}

impl FromStr for LinkRate {
    type Err = BadArg;

    fn from_str(text: &str) -> Result<Self, BadArg> {
        let forms = "write 10^9 bytes a second as a plain number (0.5)";
        let rate = decimal(text).ok_or_else(|| BadArg::Form { got: text.into(), forms })?;
        if !(0.001..=10_000.0).contains(&rate) {
            return Err(BadArg::Range { got: text.into(), range: "0.001 to 10000" });
        }
        Ok(LinkRate((rate * 1e9) as u64))
    }
}

impl FromStr for PageKib {
    type Err = BadArg;

    fn from_str(text: &str) -> Result<Self, BadArg> {
        let got = || text.into();
        let kib: u64 = text.parse().map_err(|_| BadArg::Form { got: got(), forms: "write a whole number of KiB (64)" })?;
        let inside = kib.is_power_of_two() && (4..=1 << 20).contains(&kib);
        if inside { Ok(PageKib(kib)) } else { Err(BadArg::Range { got: got(), range: "a power of two, 4 to 1048576 (KiB)" }) }
    }
}

impl FromStr for ScaleArg {
    type Err = BadArg;

    fn from_str(text: &str) -> Result<Self, BadArg> {
        let scale = decimal(text).ok_or_else(|| BadArg::Form { got: text.into(), forms: "write a plain number (0.01)" })?;
        let inside = (0.00001..=10.0).contains(&scale);
        if inside { Ok(ScaleArg(scale)) } else { Err(BadArg::Range { got: text.into(), range: "0.00001 to 10" }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_by_form_or_range() {
        let error = "0".parse::<LinkRate>().expect_err("no rate");
        assert_eq!(error.to_string(), "0 is outside the range; it must be 0.001 to 10000");
        assert!("true".parse::<LinkRate>().is_err() && "0".parse::<LinkRate>().is_err() && "NaN".parse::<LinkRate>().is_err());
        assert!("65".parse::<PageKib>().is_err() && "2".parse::<PageKib>().is_err());
        assert!("0".parse::<ScaleArg>().is_err() && "11".parse::<ScaleArg>().is_err());
    }

    #[test]
    fn the_command_line_has_its_documented_defaults() {
        let args = SampleArgs::try_parse_from(["ddo-sample", "minilm"]).expect("a model is enough");
        assert_eq!((args.driver, args.source, args.slots, args.page_kib), (DriverKind::Host, SourceArg::Auto, 2, PageKib(64)));
        assert_eq!((args.ceiling, args.link_gb_per_second), (Ceiling::Percent(40.0), None));
        let line = ["ddo-sample", "flux_shaped", "--ceiling", "1GiB", "--link-gb-per-second", "0.5", "--scale", "0.01"];
        let args = SampleArgs::try_parse_from(line).expect("all known");
        assert_eq!((args.model_kind, args.link_gb_per_second), (ModelKind::FluxShaped, Some(LinkRate(500_000_000))));
        assert!(SampleArgs::try_parse_from(["ddo-sample", "minilm", "--steps", "0"]).is_err());
        assert!(SampleArgs::try_parse_from(["ddo-sample", "gpt"]).is_err());
    }
}
