//! The planner's simulation of a pass beside a session on virtual time: the same nanosecond, whatever the model.

use crate::support::mosaic::Mosaic;
use ddo_recorder::driver::{Driver, EventId, HostMode};
use ddo_recorder::plan::LinkModel;
use ddo_recorder::{Ceiling, HostDriver, HostOptions, LaunchScope, Offload, OffloadConfig, ResidencyMode, enable_offload};
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
