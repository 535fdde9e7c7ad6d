//! The planner's simulation of a pass beside a session on virtual time: the same nanosecond, whatever the model.

use crate::support::mosaic::Mosaic;
use ddo_recorder::driver::{Driver, EventId, HostMode};
use ddo_recorder::plan::LinkModel;
use ddo_recorder::{
    Ceiling, HostDriver, HostOptions, LaunchScope, Offload, OffloadConfig, ResidencyMode, SnapshotOptions, enable_offload,
};
use ddo_schemas::{Nullable, Seconds};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;
const PASSES: usize = 5;

/// A random model, with the time that each launch takes.
struct Case {
    mosaic: Mosaic,
    work: Vec<Vec<u64>>,
    link: LinkModel,
    config: OffloadConfig,
    host: Arc<HostDriver>,
}

impl Case {
    fn random(seed: u64) -> Case {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mosaic = Mosaic::random(&mut rng);
        let most = 1 << rng.u32(1..16);
        let work: Vec<Vec<u64>> = mosaic.sizes.iter().map(|unit| unit.iter().map(|_| rng.u64(0..most)).collect()).collect();
        let link = LinkModel {
            bytes_per_second: (rng.u8(..8) > 0).then(|| 1 << rng.u32(22..34)),
            latency_ns: if rng.bool() { rng.u64(0..3000) } else { 0 },
        };
        let options = HostOptions {
            mode: HostMode::Stepped,
            page_bytes: PAGE,
            link_bytes_per_second: link.bytes_per_second,
            link_latency: Duration::from_nanos(link.latency_ns),
            ..HostOptions::default()
        };
        let host = HostDriver::new(options).expect("a host driver");
        let config = OffloadConfig {
            ceiling: Ceiling::Bytes(3 * PAGE + rng.u64(0..=mosaic.total_bytes())),
            residency: *rng.choice([ResidencyMode::Auto, ResidencyMode::Classic, ResidencyMode::Parts].iter()).expect("one"),
            launches: if rng.bool() { LaunchScope::Units } else { LaunchScope::Parts },
            part_bytes: *rng.choice([1, 1000, 6000].iter()).expect("one"),
            slots: rng.u64(2..5),
            look_ahead: rng.u8(..8) > 0,
            measure: true,
            ..OffloadConfig::new(Arc::<HostDriver>::clone(&host))
        };
        Case { mosaic, work, link, config, host }
    }

    /// The end of each pass on the stepped driver, in nanoseconds; the host never waits.
    fn run(&self, offload: &Offload) -> Vec<u64> {
        let mark = || -> EventId {
            let event = self.host.event_create(true).expect("an event");
            self.host.event_record(event, offload.compute_stream()).expect("recorded");
            event
        };
        let start = mark();
        let state = Arc::new(Mutex::new(1));
        let ends: Vec<EventId> = (0..PASSES)
            .map(|_| {
                for (unit, work) in self.work.iter().enumerate() {
                    let lasting: Vec<Duration> = work.iter().map(|ns| Duration::from_nanos(*ns)).collect();
                    self.mosaic.submit_lasting(offload, unit, &state, &lasting, self.config.launches).expect("submitted");
                }
                let end = mark();
                offload.mark_step().expect("a step");
                end
            })
            .collect();
        offload.wait_idle().expect("idle");
        let elapsed = |end: &EventId| self.host.event_elapsed(start, *end).expect("passed").seconds;
        ends.iter().map(|end| (elapsed(end) * 1e9).round() as u64).collect()
    }

    fn predicted(&self, offload: &Offload) -> Vec<u64> {
        let index = |name: &str| name.rsplit('.').next().and_then(|number| number.parse::<usize>().ok()).expect("a number");
        let work = |unit: &str, tensor: &str| {
            let tensor = tensor.trim_start_matches('t').trim_end_matches(".weight").parse::<usize>().expect("a number");
            Duration::from_nanos(self.work[index(unit)][tensor])
        };
        let ends = offload.predict(self.link, work, PASSES).expect("it runs");
        ends.iter().map(|end| end.as_nanos() as u64).collect()
    }
}

#[test]
fn four_thousand_models_take_exactly_the_time_that_the_simulated_pass_says() {
    let (mut streamed, mut refused) = (0, 0);
    for seed in 0..4_000 {
        let case = Case::random(seed);
        let Ok(offload) = enable_offload(case.mosaic.component(), case.config.clone()) else {
            refused += 1;
            continue;
        };
        streamed += u64::from(offload.units().iter().any(|unit| unit.streamed_bytes > 0));
        let predicted = case.predicted(&offload);
        assert_eq!(case.run(&offload), predicted, "seed {seed}: {:?}", case.mosaic);
        offload.close(Duration::from_secs(1)).expect("closes");
    }
    assert!(streamed > 1_500 && refused < 1_500, "{streamed} models streamed, {refused} were refused");
}

/// A model whose bytes cost much more than a nanosecond, so that rounding does not show.
fn slow_link(seed: u64) -> Option<(Case, Offload)> {
    let mut case = Case::random(seed);
    // A unit's work is spread over its tensors by their bytes: that is what one number a unit can tell.
    for (work, sizes) in case.work.iter_mut().zip(&case.mosaic.sizes) {
        *work = sizes.iter().map(|bytes| bytes * (seed % 7)).collect();
    }
    let slow = case.link.bytes_per_second.is_some_and(|rate| rate < 1 << 26) && case.link.latency_ns == 0;
    if !slow || !case.config.look_ahead {
        return None;
    }
    let offload = enable_offload(case.mosaic.component(), case.config.clone()).ok()?;
    offload.units().iter().any(|unit| unit.streamed_bytes > 0).then_some((case, offload))
}

fn known(seconds: Option<Nullable<Seconds>>) -> f64 {
    seconds.and_then(|seconds| seconds.0).expect("a pass was timed").0
}

fn near(got: f64, want: f64, what: &str, seed: u64) {
    assert!((got - want).abs() <= want * 1e-3 + 1e-9, "seed {seed}: {what} is {got}, not {want}");
}

#[test]
fn an_early_pass_tells_work_and_link_and_the_next_attachment_plans_with_them() {
    let mut planned = 0;
    for seed in 0..3000 {
        let Some((case, offload)) = slow_link(seed) else { continue };
        assert_eq!(offload.measured_costs(), None, "nothing was timed yet");
        let ends = case.run(&offload);
        let measured = offload.measured_costs().expect("the third pass was timed");
        near(measured.link_bytes_per_second as f64, case.link.bytes_per_second.expect("slow") as f64, "the link", seed);
        for (unit, work) in case.work.iter().enumerate() {
            let want = work.iter().sum::<u64>() as f64 / 1e9;
            near(measured.unit_seconds[&format!("blocks.{unit}")], want, "the unit's work", seed);
        }
        let report = offload.metrics_snapshot(SnapshotOptions::default()).expect("a report");
        let rows = report.runtime.vmm.expect("attached").pass;
        let (warm, counted) = (2, 3);
        let steady = (ends[warm + counted - 1] - ends[warm - 1]) as f64 / counted as f64 / 1e9;
        near(known(rows.fast_pass_predicted_step_seconds), steady, "the forecast step", seed);
        let floor = known(rows.fast_pass_floor_seconds);
        let worst = known(rows.fast_pass_work_seconds);
        let must = rows.fast_pass_must_stream_bytes.expect("known") as f64 / measured.link_bytes_per_second as f64;
        near(floor, worst.max(must), "the floor", seed);
        offload.close(Duration::from_secs(1)).expect("closes");

        let again = Case { config: OffloadConfig { measured: Some(measured), measure: false, ..case.config }, ..case };
        let offload = enable_offload(again.mosaic.component(), again.config.clone()).expect("as before");
        let decisions = offload.metrics_snapshot(SnapshotOptions::default()).expect("a report").runtime.state.planner_decisions;
        let ends = again.run(&offload);
        let steady_again = (ends[4] - ends[1]) as f64 / 3.0 / 1e9;
        near(decisions.vmm_predicted_step_seconds.expect("measured before").0, steady_again, "the plan's step", seed);
        assert_eq!(offload.measured_costs(), None, "not asked for");
        offload.close(Duration::from_secs(1)).expect("closes");
        planned += 1;
    }
    assert!(planned > 100, "{planned} models");
}
