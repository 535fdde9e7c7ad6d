//! What does a unit cost the host, from a few units to ten thousand and from one gigabyte to a hundred?
//!
//! May use: the recorder's embeddable interface, its stepped host driver and its call counts.
//!
//! Invariants: weights are only counted, so any size fits any machine; the device runs in virtual time, so what is timed is the
//! host's own work, the stepped driver's included.

use super::ScaleArgs;
use super::line::Machine;
use crate::run::RunError;
use ddo_recorder::driver::{HostMode, Timed};
use ddo_recorder::meter::SystemClock;
use ddo_recorder::plan::checkpoint::Dtype;
use ddo_recorder::{Ceiling, Component, HostDriver, HostOptions, HostTensor, Job, Offload, OffloadConfig, enable_offload};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One size.
#[derive(Clone, Debug, Serialize)]
pub struct ScaleLine {
    /// `scale`.
    pub bench: &'static str,
    /// Units of the component.
    pub units: u64,
    /// Payload of all units.
    pub bytes: u64,
    /// Units that stay resident.
    pub resident_units: u64,
    /// Driver calls of one warm pass over the number of units.
    pub driver_calls_per_unit: f64,
    /// Host seconds of one warm pass over the number of units: median of the passes.
    pub host_seconds_per_unit: f64,
    /// Where it was measured.
    pub machine: Machine,
}

/// Measures every size and hands each to `print`.
///
/// # Errors
/// The runtime's.
pub fn scale(args: &ScaleArgs, mut print: impl FnMut(&ScaleLine)) -> Result<(), RunError> {
    for units in [10, 100, 1_000, 10_000] {
        for bytes in [1_000_000_000, 10_000_000_000, 100_000_000_000] {
            print(&measure(units, bytes, args.passes)?);
        }
    }
    Ok(())
}

fn measure(units: u64, total: u64, passes: u64) -> Result<ScaleLine, RunError> {
    let page_bytes = 2 << 20;
    let unit_bytes = (total / units).next_multiple_of(page_bytes);
    let options = HostOptions {
        mode: HostMode::Stepped,
        backed: false,
        page_bytes,
        device_bytes: 1 << 40,
        link_bytes_per_second: Some(55_000_000_000),
        ..HostOptions::default()
    };
    let host = HostDriver::new(options).map_err(ddo_recorder::Error::from)?;
    let timed = Timed::new(host, Arc::new(SystemClock));
    let tensor = |unit: u64| Ok((format!("blocks.{unit}.weight"), HostTensor::unbacked(Dtype::U8, &[unit_bytes])?));
    let tensors = (0..units).map(tensor).collect::<Result<Vec<_>, ddo_recorder::Error>>()?;
    let component = Component::from_tensors("scale", tensors, |_| None)?;
    let ceiling = Ceiling::Bytes(units * unit_bytes / 10 + 4 * unit_bytes);
    let config = OffloadConfig { ceiling, ..OffloadConfig::new(Arc::<Timed>::clone(&timed)) };
    let offload = enable_offload(component, config)?;
    pass(&offload)?;
    pass(&offload)?;
    let mut seconds = Vec::new();
    for _ in 0..passes {
        let start = Instant::now();
        pass(&offload)?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    // Counting is switched on for one pass of its own: it must not be part of the time.
    let lease = timed.meter().acquire();
    pass(&offload)?;
    drop(lease);
    let calls: u64 = timed.meter().reading().calls.values().map(|stats| stats.calls).sum();
    let machine = Machine::of(&*timed);
    let line = ScaleLine {
        bench: "scale",
        units,
        bytes: units * unit_bytes,
        resident_units: offload.units().iter().filter(|unit| unit.resident).count() as u64,
        driver_calls_per_unit: calls as f64 / units as f64,
        host_seconds_per_unit: seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN) / units as f64,
        machine,
    };
    offload.close(Duration::from_secs(1000))?;
    Ok(line)
}

fn pass(offload: &Offload) -> Result<(), RunError> {
    for unit in offload.units() {
        let guard = offload.unit(unit.id)?;
        offload.launch(offload.compute_stream(), guard, Job::host(|_| Ok(())))?;
    }
    offload.mark_step()?;
    Ok(offload.wait_stream(offload.compute_stream())?)
}
