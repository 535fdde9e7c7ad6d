//! Settings of an attached component.

use crate::driver::{CallMeter, Driver, JobError, View};
use crate::error::{Error, Result};
use crate::limits::{DEFAULT_PART_BYTES, MIN_SLOTS};
use crate::memory::{HostBudget, HostReadings, SystemReadings};
use crate::meter::{Clock, SystemClock};
pub use crate::plan::{HostMemorySettings, LaunchScope, RegistrationPolicy, RegistrationTiming};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::str::FromStr;
use std::sync::Arc;

/// The most device memory that weights may occupy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ceiling {
    /// In bytes.
    Bytes(u64),
    /// In percent of the managed payload.
    Percent(f64),
}

impl Ceiling {
    /// Bytes for a component of the given managed payload.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a percentage that is not above 0 and at most 100.
    pub fn resolve(self, managed_bytes: u64) -> Result<u64> {
        match self {
            Ceiling::Bytes(bytes) => Ok(bytes),
            Ceiling::Percent(percent) if percent > 0.0 && percent <= 100.0 => Ok((managed_bytes as f64 * percent / 100.0) as u64),
            Ceiling::Percent(percent) => Err(Error::invalid("ceiling", format!("{percent} % is not above 0 and at most 100"))),
        }
    }
}

impl FromStr for Ceiling {
    type Err = Error;

    /// Reads `40%`, a number of bytes, or a number with `KiB`, `MiB` or `GiB`: plain decimals without sign or exponent.
    fn from_str(text: &str) -> Result<Ceiling> {
        let forms = "write a share (40%), bytes (17033011), or a size in KiB, MiB or GiB (512MiB)";
        let bad = || Error::invalid("ceiling", format!("{text:?} is not understood; {forms}"));
        let trimmed = text.trim();
        if let Some(percent) = trimmed.strip_suffix('%') {
            let ceiling = Ceiling::Percent(decimal(percent).ok_or_else(bad)?);
            return ceiling.resolve(0).map(|_| ceiling);
        }
        let outside = || Error::invalid("ceiling", format!("{text:?} is outside the range of 1 to {} bytes", u64::MAX));
        for (suffix, unit) in [("KiB", 1u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)] {
            if let Some(value) = trimmed.strip_suffix(suffix) {
                let bytes = decimal(value).ok_or_else(bad)? * unit as f64;
                let inside = (1.0..u64::MAX as f64).contains(&bytes);
                return if inside { Ok(Ceiling::Bytes(bytes as u64)) } else { Err(outside()) };
            }
        }
        if trimmed.is_empty() || !trimmed.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad());
        }
        trimmed.parse().ok().filter(|bytes| *bytes > 0).map(Ceiling::Bytes).ok_or_else(outside)
    }
}

/// Digits and at most one point. No sign, exponent, `inf` or `nan`.
fn decimal(text: &str) -> Option<f64> {
    let text = text.trim_end();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

/// Where streamed weights come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceChoice {
    /// For weights in files `retained` where a retained ceiling is set, else `mapped`.
    Auto,
    /// Files mapped shared and read-only.
    Mapped,
    /// A private copy in host memory.
    Cpu,
    /// Files read through a ring of registered host memory for each upload.
    Ring,
    /// Files read once into host memory that is kept, as far as its ceilings allow; the ring serves the rest.
    Retained,
    /// Files and host memory copied by the calling thread into a few slots of registered host memory for each upload.
    Staged,
}

impl SourceChoice {
    const ALL: [SourceChoice; 6] = [
        SourceChoice::Auto,
        SourceChoice::Mapped,
        SourceChoice::Cpu,
        SourceChoice::Ring,
        SourceChoice::Retained,
        SourceChoice::Staged,
    ];

    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            SourceChoice::Auto => "auto",
            SourceChoice::Mapped => "mapped",
            SourceChoice::Cpu => "cpu",
            SourceChoice::Ring => "ring",
            SourceChoice::Retained => "retained",
            SourceChoice::Staged => "staged",
        }
    }
}

impl FromStr for SourceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<SourceChoice> {
        let unknown = || Error::invalid("source", format!("{text:?} is none of auto, mapped, cpu, ring, retained, staged"));
        SourceChoice::ALL.into_iter().find(|choice| choice.name() == text).ok_or_else(unknown)
    }
}

/// What comes and goes as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResidencyMode {
    /// Parts, where they need fewer bytes to be streamed than whole units.
    Auto,
    /// Whole units in fixed slots.
    Classic,
    /// Parts of units in a stream ring.
    Parts,
    /// Whole units in the arena, brought in when they are asked for; the least recently used pages make room. Nothing is
    /// planned: what a system without a plan does, and what the other modes are compared with.
    Demand,
}

impl ResidencyMode {
    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            ResidencyMode::Auto => "auto",
            ResidencyMode::Classic => "classic",
            ResidencyMode::Parts => "parts",
            ResidencyMode::Demand => "demand",
        }
    }
}

impl FromStr for ResidencyMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<ResidencyMode> {
        let all = [ResidencyMode::Auto, ResidencyMode::Classic, ResidencyMode::Parts, ResidencyMode::Demand];
        let unknown = || Error::invalid("residency mode", format!("{text:?} is none of auto, classic, parts, demand"));
        all.into_iter().find(|mode| mode.name() == text).ok_or_else(unknown)
    }
}

/// Makes the host's own tensors of places in the arena: what a framework needs that looks at the memory behind an address.
pub trait MakeViews: Debug + Send + Sync {
    /// Makes the tensor of a view, by the names of its unit and, relative to that, of the tensor. Memory without the
    /// weights lies there during the call, and may be gone afterwards; the address stays right until the component is
    /// detached.
    ///
    /// # Errors
    /// Why there is none; the attachment fails then.
    fn make(&self, unit: &str, name: &str, view: &View) -> std::result::Result<(), JobError>;
}

/// Settings of one component.
#[derive(Clone, Debug)]
pub struct OffloadConfig {
    /// The device.
    pub driver: Arc<dyn Driver>,
    /// The most device memory that weights may occupy.
    pub ceiling: Ceiling,
    /// Where streamed weights come from.
    pub source: SourceChoice,
    /// What comes and goes as one.
    pub residency: ResidencyMode,
    /// What one launch reads: it settles how large the stream ring must be. With [`LaunchScope::Parts`] weights are
    /// pinned when their view is asked for, and the host releases each tensor behind the last launch that reads it.
    pub launches: LaunchScope,
    /// Bytes that a part has at least: smaller tensors travel with their neighbours.
    pub part_bytes: u64,
    /// Execution slots for streamed units in the classic mode, at least two.
    pub slots: u64,
    /// Whether what comes next is uploaded while the current unit computes.
    pub look_ahead: bool,
    /// Whether a unit for which the arena has no memory gets some outside the ceiling, for as long as it is in use; each
    /// is counted. Otherwise it is refused. Only with [`ResidencyMode::Demand`].
    pub fault_fallback: bool,
    /// Whether host memory of the source `cpu` is registered where it lies, as far as the limit of the process goes
    /// (`host.process_limit_bytes`): it is locked then, and read at the link's rate.
    pub pin_source_weights: bool,
    /// Bytes of device memory that the arena leaves to others when it grows; zero for no such reserve.
    pub device_reserve_bytes: u64,
    /// Whether one early pass is timed on the device, for the floor and the forecast of a step: two events around each of its
    /// launches and uploads, and nothing afterwards.
    pub measure: bool,
    /// What an earlier attachment measured: the plan follows it instead of assumptions.
    pub measured: Option<MeasuredCosts>,
    /// The most bytes of the component's root module, which belong to no unit, that live on the device as long as the
    /// component: they are uploaded once and charged to the ceiling in whole pages. Zero leaves them on the host.
    pub lifetime_limit_bytes: u64,
    /// Who makes tensors of all places in the arena while attaching; their views are kept, see
    /// [`crate::Offload::fixed_view`]. `None` for hosts that need no memory under a view to make it.
    pub prepare_views: Option<Arc<dyn MakeViews>>,
    /// Host memory of the sources `ring`, `retained` and `staged`.
    pub host: HostMemorySettings,
    /// The books in which their host memory is entered; by default those of the process.
    pub host_budget: Arc<HostBudget>,
    /// Who says how much host memory is left.
    pub host_readings: Arc<dyn HostReadings>,
    /// The clock of all host times.
    pub clock: Arc<dyn Clock>,
    /// What driver calls count into while allocation diagnostics are on; the process has one.
    pub call_meter: Arc<CallMeter>,
}

/// What a pass was seen to cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredCosts {
    /// Device seconds of each unit's own work, by the unit's name.
    pub unit_seconds: BTreeMap<String, f64>,
    /// Bytes a second over the link while it was busy.
    pub link_bytes_per_second: u64,
}

impl OffloadConfig {
    /// Defaults: every weight may be resident, `auto` source and residency, launches of whole units, two slots,
    /// look-ahead on.
    pub fn new(driver: Arc<dyn Driver>) -> OffloadConfig {
        OffloadConfig {
            driver,
            ceiling: Ceiling::Bytes(u64::MAX),
            source: SourceChoice::Auto,
            residency: ResidencyMode::Auto,
            launches: LaunchScope::Units,
            part_bytes: DEFAULT_PART_BYTES,
            slots: MIN_SLOTS,
            look_ahead: true,
            fault_fallback: false,
            pin_source_weights: true,
            device_reserve_bytes: 0,
            measure: false,
            measured: None,
            lifetime_limit_bytes: 0,
            prepare_views: None,
            host: HostMemorySettings::default(),
            host_budget: HostBudget::process(),
            host_readings: Arc::new(SystemReadings::default()),
            clock: Arc::new(SystemClock),
            call_meter: CallMeter::of_process(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_are_read_as_people_write_them() {
        assert_eq!("40%".parse::<Ceiling>().expect("percent"), Ceiling::Percent(40.0));
        assert_eq!("17033011".parse::<Ceiling>().expect("bytes"), Ceiling::Bytes(17_033_011));
        assert_eq!("4GiB".parse::<Ceiling>().expect("GiB"), Ceiling::Bytes(4 << 30));
        assert_eq!("0.5 MiB".parse::<Ceiling>().expect("MiB"), Ceiling::Bytes(512 << 10));
        assert_eq!("12.5 %".parse::<Ceiling>().expect("percent"), Ceiling::Percent(12.5));
        for (text, why) in [
            ("", "understood"),
            ("-1", "understood"),
            ("40 %x", "understood"),
            ("nan%", "understood"),
            ("1e3%", "understood"),
            ("+5", "understood"),
            ("12.5", "understood"),
            ("1e40GiB", "understood"),
            ("4GB", "understood"),
            ("4gib", "understood"),
            ("GiB", "understood"),
            ("1.2.3GiB", "understood"),
            ("0%", "above 0"),
            ("101%", "at most 100"),
            ("0", "range"),
            ("0GiB", "range"),
            ("18446744073709551616", "range"),
            ("99999999999GiB", "range"),
        ] {
            let error = text.parse::<Ceiling>().expect_err(text).to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
