//! What does a measurement look like, and on which machine was it taken?
//!
//! May use: `serde`, `/proc`.
//!
//! Invariants: what is not known is `null`; the host's name is never part of a line.

use ddo_recorder::Driver;
use serde::Serialize;
use std::fs;

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Which benchmark.
    pub bench: &'static str,
    /// What was asked for, with defaults filled in.
    pub setting: serde_json::Value,
    /// Seconds of one step.
    pub seconds: Option<f64>,
    /// The least that a step could take; see [`Terms`].
    pub floor_seconds: Option<f64>,
    /// `seconds` over `floor_seconds`.
    pub ratio: Option<f64>,
    /// Bytes that came over the link in one step.
    pub bytes: Option<u64>,
    /// Bytes a second over the whole step.
    pub rate: Option<f64>,
    /// Unit of `rate`.
    pub unit: &'static str,
    /// Another system that was measured the same way.
    pub peer: Option<String>,
    /// The floor's terms.
    pub terms: Terms,
    /// Where it was measured.
    pub machine: Machine,
}

/// What the floor is made of: `max(C, X / B)`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Terms {
    /// C: seconds of a step with every weight resident, measured.
    pub resident_seconds: Option<f64>,
    /// B: bytes a second from registered or imitated host memory to the device.
    pub link_bytes_per_second: Option<f64>,
    /// How B is known: `measured`, `supplied` or `unknown`.
    pub link: &'static str,
    /// X: managed bytes less the ceiling; what must come over the link in a step.
    pub must_stream_bytes: u64,
    /// Bytes that the plan streams in a step; above X by what stream memory holds and what residents leave unused.
    pub streamed_bytes: u64,
    /// The floor of what the plan streams: `max(C, streamed / B)`.
    pub plan_floor_seconds: Option<f64>,
    /// Device seconds of the work of a step, and bytes a second of its uploads: what an early step of the same setting told the
    /// planner.
    pub work_seconds: Option<f64>,
    /// See `work_seconds`.
    pub learned_link_bytes_per_second: Option<u64>,
    /// What the planner expects of a steady step.
    pub predicted_seconds: Option<f64>,
    /// Median, least and most seconds of a step over the repeats; on the summary line only.
    pub spread_seconds: Option<[f64; 3]>,
}

/// The machine.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Processor model.
    pub cpu: Option<String>,
    /// Processors that the process may use.
    pub cores: Option<usize>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Driver of the device; `none` where no device took part.
    pub driver: &'static str,
    /// Name of the device.
    pub device: Option<String>,
}

impl Machine {
    /// Reads what the system says about itself and about the device.
    pub fn of(driver: &dyn Driver) -> Machine {
        let facts = driver.facts();
        Machine { driver: facts.driver, device: Some(facts.name), ..Machine::host() }
    }

    /// Reads what the system says about itself, for measurements without a device.
    pub fn host() -> Machine {
        let field = |path: &str, name: &str| {
            let text = fs::read_to_string(path).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
            Some(line.trim().to_string())
        };
        let kib = |text: String| text.strip_suffix(" kB")?.parse::<u64>().ok();
        Machine {
            cpu: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().ok().map(usize::from),
            memory_bytes: field("/proc/meminfo", "MemTotal").and_then(kib).map(|kib| kib * 1024),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_string()),
            driver: "none",
            device: None,
        }
    }
}
