//! What did the command line of `ddo-bench` ask for?
//!
//! May use: `clap`, the samples' argument types.
//!
//! Invariants: every option has a default; what this build cannot do is refused before anything is made.

use crate::args::{DriverKind, LinkRate, ScaleArg};
use crate::host_memory::{HostMemoryArgs, RegisterArg, positive};
use clap::{Args, Parser, Subcommand, ValueEnum};
use ddo_recorder::{LaunchScope, ResidencyMode, SourceChoice};
use std::path::{Path, PathBuf};

/// Measures the runtime; prints one JSON object a line.
#[derive(Clone, Debug, Parser)]
#[command(name = "ddo-bench", version)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub bench: Bench,
}

/// What can be measured.
#[derive(Clone, Debug, Subcommand)]
pub enum Bench {
    /// Seconds a step of the generated workload, streamed under a ceiling, against the floor.
    Stream(StreamArgs),
    /// Seconds of attaching anew and the first step, together and each, against what the link needs for all weights, and of the
    /// steps behind it; --steps is not used.
    Cold(StreamArgs),
    /// What each scope of observation costs a step of the generated workload: runs without and with it, in turn.
    Overhead(OverheadArgs),
    /// The timeline's upload windows against the driver's own records of copies; --repeats is not used.
    Windows(StreamArgs),
    /// Seconds and memory of the analyzer over a long journal.
    Journal(JournalArgs),
    /// What a unit costs the host, in virtual time and with bytes that are only counted.
    Scale(ScaleArgs),
    /// How fast the analyzer converts a profiler's trace, and in how much memory.
    Trace(TraceArgs),
    /// How fast the analyzer encodes slices.
    Encode(EncodeArgs),
}

/// Options of `overhead`.
#[derive(Clone, Debug, Args)]
pub struct OverheadArgs {
    /// The device.
    #[arg(long, value_enum, default_value_t = DriverKind::Host)]
    pub driver: DriverKind,
    /// Index of the device, for drivers that have several.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device: u32,
    /// Device memory for weights, in GiB; 40 % of the managed bytes if it is not given.
    #[arg(long, value_name = "G", value_parser = positive)]
    pub ceiling_gib: Option<f64>,
    /// What comes and goes as one.
    #[arg(long, value_enum, default_value_t = BenchMode::Parts)]
    pub mode: BenchMode,
    /// Rows of the matrix products on a cuda device; 0 folds the weights only.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=65_536))]
    pub tokens: u64,
    /// Steps in a run.
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub steps: u64,
    /// Seconds for all pairs together, the start of the device included; at least six rounds are taken.
    #[arg(long, value_name = "S", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Size of the model as a share of the full one; 1 on cuda and 0.001 on the host if it is not given.
    #[arg(long, value_name = "S")]
    pub scale: Option<ScaleArg>,
    /// Rate of the host driver's imitated link in 10^9 bytes a second; unlimited if it is not given.
    #[arg(long, value_name = "R")]
    pub link_gb_per_second: Option<LinkRate>,
    /// The checkpoint file, made if it is missing.
    #[arg(long, value_name = "PATH")]
    pub model: Option<PathBuf>,
}

impl OverheadArgs {
    /// The same workload in the words of `stream`.
    pub fn stream(&self) -> StreamArgs {
        StreamArgs {
            driver: self.driver,
            device: self.device,
            ceiling_gib: self.ceiling_gib.into_iter().collect(),
            mode: self.mode,
            source: BenchSource::Mapped,
            tokens: vec![self.tokens],
            steps: self.steps,
            repeats: 1,
            slots: 2,
            scale: self.scale,
            link_gb_per_second: self.link_gb_per_second,
            registration_gb_per_second: None,
            host: HostMemoryArgs::default(),
            model: self.model.clone(),
        }
    }
}

/// Options of `trace`.
#[derive(Clone, Debug, Args)]
pub struct TraceArgs {
    /// A trace in Chrome's format; one is generated if it is not given.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Megabytes of the generated trace.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=16_384))]
    pub megabytes: u64,
    /// Conversions, each timed.
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub repeats: u64,
    /// The program to measure; the one beside this program if it is not given.
    #[arg(long, value_name = "PATH")]
    pub analyzer: Option<PathBuf>,
}

/// Options of `encode`.
#[derive(Clone, Debug, Args)]
pub struct EncodeArgs {
    /// Slices to encode; each is two events.
    #[arg(long, value_name = "N", default_value_t = 20_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub slices: u64,
    /// Encodings, each timed.
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub repeats: u64,
    /// The program to measure; the one beside this program if it is not given.
    #[arg(long, value_name = "PATH")]
    pub analyzer: Option<PathBuf>,
}

/// Options of `scale`.
#[derive(Clone, Copy, Debug, Args)]
pub struct ScaleArgs {
    /// Warm passes that are timed; the median counts.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub passes: u64,
}

/// Options of `journal`.
#[derive(Clone, Debug, Args)]
pub struct JournalArgs {
    /// Records of the journal.
    #[arg(value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub records: u64,
    /// The journal record to imitate; a recorded one of 63 KB among the tests' data if it is not given.
    #[arg(long, value_name = "FILE")]
    pub like: Option<PathBuf>,
    /// The program to measure; the one beside this program if it is not given.
    #[arg(long, value_name = "PATH")]
    pub analyzer: Option<PathBuf>,
}

impl JournalArgs {
    /// The record to imitate.
    pub fn like(&self) -> PathBuf {
        const RECORDED: &str = "../tests/data/peer-runs/small-cache-full/denoise_snapshots/step_0001.json";
        self.like.clone().unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDED))
    }
}

/// Where streamed weights are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchSource {
    /// The checkpoint file, mapped and registered in place.
    Mapped,
    /// A private copy in host memory.
    Cpu,
    /// Host memory that is kept once the file was read into it.
    Retained,
    /// The ring alone: the file is read for each upload.
    Ring,
    /// Staging slots that the submitting thread reads the file into.
    Staged,
}

impl From<BenchSource> for SourceChoice {
    fn from(source: BenchSource) -> SourceChoice {
        match source {
            BenchSource::Mapped => SourceChoice::Mapped,
            BenchSource::Cpu => SourceChoice::Cpu,
            BenchSource::Retained => SourceChoice::Retained,
            BenchSource::Ring => SourceChoice::Ring,
            BenchSource::Staged => SourceChoice::Staged,
        }
    }
}

/// What comes and goes as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchMode {
    /// Whole units in fixed slots, one launch a unit.
    Classic,
    /// Parts of units in a stream ring, one launch a matrix.
    Parts,
    /// Whole units in the arena on demand, least recently used pages first, one launch a unit.
    Demand,
    /// `classic` and `parts`, one after the other, against the same floor.
    Both,
}

impl BenchMode {
    /// The runs that it stands for.
    pub fn runs(self) -> &'static [(ResidencyMode, LaunchScope)] {
        const CLASSIC: (ResidencyMode, LaunchScope) = (ResidencyMode::Classic, LaunchScope::Units);
        const PARTS: (ResidencyMode, LaunchScope) = (ResidencyMode::Parts, LaunchScope::Parts);
        match self {
            BenchMode::Classic => &[CLASSIC],
            BenchMode::Parts => &[PARTS],
            BenchMode::Demand => &[(ResidencyMode::Demand, LaunchScope::Units)],
            BenchMode::Both => &[CLASSIC, PARTS],
        }
    }
}

/// Options of `stream`.
#[derive(Clone, Debug, Args)]
pub struct StreamArgs {
    /// The device.
    #[arg(long, value_enum, default_value_t = DriverKind::Host)]
    pub driver: DriverKind,
    /// Index of the device, for drivers that have several.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device: u32,
    /// Device memory for weights, in GiB, one run for each number; 40 % of the managed bytes if it is not given.
    #[arg(long, value_name = "G", value_parser = positive, value_delimiter = ',')]
    pub ceiling_gib: Vec<f64>,
    /// What comes and goes as one.
    #[arg(long, value_enum, default_value_t = BenchMode::Parts)]
    pub mode: BenchMode,
    /// Where streamed weights are read from.
    #[arg(long, value_enum, default_value_t = BenchSource::Mapped)]
    pub source: BenchSource,
    /// Rows of the matrix products on a cuda device, one run for each number; 0 folds the weights only.
    #[arg(long, value_name = "N", default_value = "0", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(0..=65_536))]
    pub tokens: Vec<u64>,
    /// Steps in a repeat.
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub steps: u64,
    /// Repeats, each timed as a whole.
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub repeats: u64,
    /// Execution slots for streamed units in the classic mode.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..=64))]
    pub slots: u64,
    /// Size of the model as a share of the full one; 1 on cuda and 0.001 on the host if it is not given.
    #[arg(long, value_name = "S")]
    pub scale: Option<ScaleArg>,
    /// Rate of the host driver's imitated link in 10^9 bytes a second; unlimited if it is not given.
    #[arg(long, value_name = "R")]
    pub link_gb_per_second: Option<LinkRate>,
    /// Rate at which the host driver imitates registering, in 10^9 bytes a second; it takes no time if it is not given.
    #[arg(long, value_name = "R")]
    pub registration_gb_per_second: Option<LinkRate>,
    /// Host memory of sources that read or register files.
    #[command(flatten)]
    pub host: HostMemoryArgs,
    /// The checkpoint file, made if it is missing.
    #[arg(long, value_name = "PATH")]
    pub model: Option<PathBuf>,
}

impl StreamArgs {
    /// The scale asked for, or the driver's default.
    pub fn scale(&self) -> f64 {
        let default = if self.driver == DriverKind::Cuda { 1.0 } else { 0.001 };
        self.scale.map_or(default, |scale| scale.0)
    }

    /// What cannot be combined: the option and the reason.
    pub fn refusal(&self) -> Option<(&'static str, &'static str)> {
        let registers = matches!(self.source, BenchSource::Mapped | BenchSource::Retained);
        match self.driver {
            _ if self.host.registered_gib.is_some() && !registers => {
                Some(("--registered-gib", "it is a ceiling of the sources `mapped` and `retained`"))
            }
            _ if self.host.retained_gib.is_some() && self.source != BenchSource::Retained => {
                Some(("--retained-gib", "it is a ceiling of the source `retained`"))
            }
            _ if self.host.register != RegisterArg::Auto && self.source != BenchSource::Mapped => {
                Some(("--register", "only the source `mapped` has a choice"))
            }
            DriverKind::Host if self.device != 0 => Some(("--device", "the host driver has one device, 0")),
            DriverKind::Host if self.tokens.iter().any(|tokens| *tokens != 0) => {
                Some(("--tokens", "matrix products are computed on a cuda device"))
            }
            DriverKind::Cuda if self.link_gb_per_second.is_some() => {
                Some(("--link-gb-per-second", "the link of a cuda device is a real one"))
            }
            DriverKind::Cuda if self.registration_gb_per_second.is_some() => {
                Some(("--registration-gb-per-second", "a cuda device registers as fast as it can"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(line: &[&str]) -> StreamArgs {
        let line = ["ddo-bench", "stream"].iter().chain(line);
        let Bench::Stream(args) = BenchArgs::try_parse_from(line).expect("all known").bench else { panic!("another bench") };
        args
    }

    #[test]
    fn defaults_and_refusals() {
        let args = stream(&[]);
        assert_eq!((args.scale(), args.repeats, args.steps, args.refusal()), (0.001, 5, 10, None));
        assert_eq!(stream(&["--driver", "cuda"]).scale(), 1.0);
        assert_eq!((args.tokens, args.ceiling_gib.len(), args.mode.runs().len()), (vec![0], 0, 1));
        let lists = stream(&["--ceiling-gib", "4,2", "--tokens", "0,1280,8192", "--mode", "both"]);
        assert_eq!((lists.ceiling_gib, lists.tokens, lists.mode.runs().len()), (vec![4.0, 2.0], vec![0, 1280, 8192], 2));
        for (line, option) in [
            (&["--source", "ring", "--retained-gib", "1"][..], "--retained-gib"),
            (&["--source", "ring", "--registered-gib", "4"], "--registered-gib"),
            (&["--source", "ring", "--register", "background"], "--register"),
            (&["--driver", "cuda", "--registration-gb-per-second", "1"], "--registration-gb-per-second"),
            (&["--tokens", "8"], "--tokens"),
            (&["--device", "1"], "--device"),
            (&["--driver", "cuda", "--link-gb-per-second", "1"], "--link-gb-per-second"),
        ] {
            assert_eq!(stream(line).refusal().map(|(option, _)| option), Some(option));
        }
        for bad in [["--ceiling-gib", "0"], ["--ceiling-gib", "nan"], ["--steps", "0"], ["--scale", "-1"]] {
            assert!(BenchArgs::try_parse_from(["ddo-bench", "stream"].iter().chain(&bad)).is_err(), "{bad:?}");
        }
    }
}
