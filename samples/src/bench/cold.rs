//! How long does the first step of a fresh attachment take?
//!
//! May use: the workload, `stream`'s settings, the link's rate.
//!
//! Invariants: every repeat attaches anew; the file lies in the page cache, since a step has read it before; the time begins before
//! attaching and ends with the first step's work, whatever of it attaching has put off; its target is one and a half times what the
//! link needs for all weights. The two steps behind it show what was put off further.

use super::stream::{attach, close, settings, timed_steps};
use super::workload::Prepared;
use super::{Line, Machine, StreamArgs, Terms, rate};
use crate::args::DriverKind;
use crate::run::RunError;
use std::path::Path;
use std::time::Instant;

/// Runs the benchmark; `print` is called with each line.
///
/// # Errors
/// See [`RunError`]; a wrong result is one of them.
///
/// # Cost
/// For each setting attaches and runs three steps, repeats + 1 times; may make a checkpoint.
pub fn cold(args: &StreamArgs, target_dir: &Path, mut print: impl FnMut(&Line)) -> Result<(), RunError> {
    let driver = if args.driver == DriverKind::Cuda { "cuda" } else { "host" };
    if let Some((option, reason)) = args.refusal() {
        return Err(RunError::NotWithDriver { option, driver, reason });
    }
    let prepared = Prepared::new(args, target_dir)?;
    let machine = Machine::of(&*prepared.driver());
    let (rate, origin) = match args.driver {
        DriverKind::Cuda => (Some(rate::link_rate(&*prepared.driver(), prepared.path())?), "measured"),
        DriverKind::Host => (args.link_gb_per_second.map(|rate| rate.0 as f64), "supplied"),
    };
    for setting in settings(args) {
        let mut workload = prepared.workload(args, setting.tokens)?;
        // The first one brings the file into the page cache and the device's libraries into memory.
        for repeat in 0..=args.repeats {
            let start = Instant::now();
            let offload = attach(&prepared, &setting, None)?;
            let attached = start.elapsed().as_secs_f64();
            let units = workload.units(&offload)?;
            let mut step = || timed_steps(&mut workload, &offload, &units, 1, setting.mode.1);
            let (first, registered) = (step()?, offload.registration());
            let (second, third) = (step()?, step()?);
            let managed: u64 = offload.units().iter().map(|unit| unit.bytes).sum();
            let ceiling = setting.ceiling.resolve(managed)?;
            let mut shown = setting.shown(ceiling, managed, &offload, repeat.into());
            close(&offload)?;
            if repeat == 0 {
                continue;
            }
            let seconds = attached + first;
            let floor_seconds = rate.map(|rate| managed as f64 / rate);
            if let Some(shown) = shown.as_object_mut() {
                shown.insert("attach_seconds".into(), attached.into());
                shown.insert("step_seconds".into(), first.into());
                shown.insert("registered_bytes_behind_it".into(), registered.registered_bytes.into());
                shown.insert("second_step_seconds".into(), second.into());
                shown.insert("third_step_seconds".into(), third.into());
            }
            print(&Line {
                bench: "cold",
                setting: shown,
                seconds: Some(seconds),
                floor_seconds,
                ratio: floor_seconds.map(|floor| seconds / floor),
                bytes: Some(managed),
                rate: Some(managed as f64 / seconds),
                unit: "bytes/s",
                peer: None,
                terms: Terms {
                    link_bytes_per_second: rate,
                    link: if rate.is_some() { origin } else { "unknown" },
                    must_stream_bytes: managed,
                    streamed_bytes: managed,
                    ..Terms::default()
                },
                machine: machine.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, BenchArgs};
    use clap::Parser as _;

    #[test]
    fn a_cold_step_counts_attaching_and_every_byte() {
        let folder = std::env::temp_dir().join(format!("ddo-cold-{:032x}", fastrand::u128(..)));
        std::fs::create_dir(&folder).expect("made");
        let model = folder.join("model.safetensors");
        let line = ["ddo-bench", "cold", "--scale", "0.00001", "--repeats", "2", "--link-gb-per-second", "1"];
        let register = ["--registration-gb-per-second", "1", "--register", "background", "--model"];
        let line = line.into_iter().chain(register).map(std::ffi::OsString::from);
        let args = BenchArgs::try_parse_from(line.chain([model.into()]));
        let Bench::Cold(args) = args.expect("all known").bench else { panic!("another bench") };
        let mut lines = Vec::new();
        cold(&args, &folder, |line| lines.push(line.clone())).expect("measured");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(lines.len() >= 2);
        for line in lines {
            let of = |name: &str| line.setting[name].as_f64().expect("seconds");
            assert_eq!(line.setting["register"], "background");
            assert!(of("second_step_seconds") > 0.0 && of("third_step_seconds") > 0.0);
            assert!((of("attach_seconds") + of("step_seconds") - line.seconds.expect("timed")).abs() < 1e-9);
            assert!(line.ratio.expect("the rate is supplied") >= 1.0, "no copy is faster than the link: {line:?}");
        }
    }
}
