//! Parts in a stream ring on virtual time: whatever the sizes, the order and the interleaving, the same bits and
//! balanced books.
//!
//! A failing seed is printed; `DDO_SEED=N` replays it alone, `DDO_SEEDS=COUNT` runs that many.

use crate::support::ledger::Ledger;
use crate::support::lives::{self, driver, each_seed, first_to_fail};
use crate::support::mosaic::Mosaic;
use crate::support::tiny::{Skip, SkipWaits};
use ddo_recorder::driver::{Driver, HostMode, Priority};
use ddo_recorder::{
    Ceiling, HostDriver, HostOptions, LaunchScope, Offload, OffloadConfig, ResidencyMode, SnapshotOptions, enable_offload,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;

/// The least ceiling that holds what a launch reads.
fn least_ceiling(mosaic: &Mosaic, scope: LaunchScope, part_bytes: u64) -> u64 {
    let place = |bytes: &u64| bytes.next_multiple_of(512);
    let unit = |sizes: &Vec<u64>| sizes.iter().map(place).sum::<u64>();
    let largest = match scope {
        LaunchScope::Parts if part_bytes <= 1 => mosaic.sizes.iter().flatten().map(place).max(),
        _ => mosaic.sizes.iter().map(unit).max(),
    };
    largest.unwrap_or_default().next_multiple_of(PAGE)
}

struct Life {
    mosaic: Mosaic,
    offload: Offload,
    scope: LaunchScope,
    rng: fastrand::Rng,
}

impl Life {
    fn audit(&self) {
        assert_eq!(self.offload.audit(), Vec::<String>::new(), "conservation");
    }

    /// A host that lets a tensor go only behind the next one's launch, where the ring has room for both.
    fn submit_overlapping(&mut self, unit: usize, state: &Arc<Mutex<u64>>) {
        let (offload, mosaic) = (&self.offload, &self.mosaic);
        let guard = offload.unit(mosaic.id(offload, unit)).expect("a unit");
        let mut held: Option<usize> = None;
        for tensor in 0..mosaic.sizes[unit].len() {
            let job = match mosaic.fold_job(&guard, tensor, state) {
                Ok(job) => job,
                Err(error) => {
                    assert_eq!(error.code(), "stream_ring_in_hand");
                    guard.release(&mosaic.name(held.take().expect("something is in hand"))).expect("released");
                    mosaic.fold_job(&guard, tensor, state).expect("nothing else is in hand")
                }
            };
            let lasting = Duration::from_nanos(self.rng.u64(0..20_000));
            offload.launch_part(offload.compute_stream(), &guard, job.lasting(lasting)).expect("queued");
            if let Some(earlier) = held.replace(tensor) {
                guard.release(&mosaic.name(earlier)).expect("released");
            }
            self.audit();
        }
    }

    fn step(&mut self, second: Option<ddo_recorder::StreamId>) {
        let mut order: Vec<usize> = (0..self.mosaic.sizes.len()).collect();
        if self.rng.u8(..4) == 0 {
            self.rng.shuffle(&mut order);
        }
        let state = Arc::new(Mutex::new(1));
        for unit in &order {
            if self.rng.u8(..10) == 0 {
                let other = self.rng.usize(..order.len());
                drop(self.offload.unit(self.mosaic.id(&self.offload, other)).expect("a unit in hand, and let go"));
                self.audit();
            }
            if let Some(second) = second {
                let tensor = self.rng.usize(..self.mosaic.sizes[*unit].len());
                let lasting = Duration::from_nanos(self.rng.u64(0..40_000));
                self.mosaic.check_on(&self.offload, second, *unit, tensor, lasting).expect("submitted");
                self.audit();
            }
            if self.scope == LaunchScope::Parts && self.rng.u8(..4) == 0 {
                self.submit_overlapping(*unit, &state);
            } else {
                let lasting = Duration::from_nanos(self.rng.u64(0..20_000));
                self.mosaic.submit(&self.offload, *unit, &state, lasting, self.scope).expect("submitted");
            }
            self.audit();
            if self.rng.u8(..10) == 0 {
                self.offload.collect().expect("collected");
                self.audit();
            }
        }
        self.offload.mark_step().expect("a step");
        self.audit();
        if self.rng.bool() {
            self.offload.wait_stream(self.offload.compute_stream()).expect("done");
            let got = *state.lock().expect("jobs do not panic");
            assert_eq!(got, self.mosaic.reference(&order), "the same bits as without a runtime");
        }
    }
}

/// One random life of a component; panics when anything is wrong.
fn life(seed: u64, wrap: impl FnOnce(Arc<HostDriver>) -> Arc<dyn Driver>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mosaic = Mosaic::random(&mut rng);
    let scope = if rng.bool() { LaunchScope::Units } else { LaunchScope::Parts };
    let part_bytes = *rng.choice([1, 1, 1000, 6000].iter()).expect("one of them");
    let least = least_ceiling(&mosaic, scope, part_bytes);
    let ceiling = least + rng.u64(0..=mosaic.total_bytes());
    let ledger = Ledger::over(wrap(driver(seed, &mut rng)), ceiling);
    let config = OffloadConfig {
        ceiling: Ceiling::Bytes(ceiling),
        residency: ResidencyMode::Parts,
        launches: scope,
        part_bytes,
        look_ahead: rng.u8(..8) > 0,
        ..OffloadConfig::new(Arc::<Ledger>::clone(&ledger))
    };
    let offload = enable_offload(mosaic.component(), config).expect("attached");
    // In some lives a second stream reads some of the same tensors; it takes no part in the result.
    let second = (rng.u8(..3) == 0).then(|| ledger.stream_create(Priority::Normal).expect("a stream"));
    let steps = rng.u64(2..5);
    let mut life = Life { mosaic, offload, scope, rng };
    for _ in 0..steps {
        life.step(second);
    }
    if let Some(second) = second {
        life.offload.wait_stream(second).expect("the second stream read the right weights");
    }
    life.offload.wait_idle().expect("idle");
    let options = SnapshotOptions { collect_completed: true, timing: None, ..SnapshotOptions::default() };
    let vmm = life.offload.metrics_snapshot(options).expect("a report").runtime.vmm.expect("attached");
    assert_eq!((vmm.tickets.fast_transfer_live_tickets, vmm.arena.fast_pinned_units), (Some(0), Some(0)));
    assert_eq!(vmm.uploads.fast_upload_bytes, Some(ledger.seen().copied_bytes), "every copied byte is counted");
    lives::end(&life.offload, &ledger, second);
}

#[test]
fn five_thousand_lives_in_parts_give_the_same_bits_and_balanced_books() {
    each_seed(5_000, |seed| life(seed, |host| host));
}

#[test]
fn every_wait_around_the_ring_is_needed_and_its_absence_is_noticed() {
    let all = [Skip::ComputeForUpload, Skip::UploadForConsumer, Skip::UploadForFurtherConsumers, Skip::UploadBetweenCopies];
    for skipped in all {
        let found = first_to_fail(|seed| life(seed, |host| -> Arc<dyn Driver> { SkipWaits::new(host, skipped) }));
        assert!(found.is_some(), "no seed below 10,000 notices that {skipped:?} is gone");
    }
}

/// Virtual nanoseconds of each of the passes of a model under a ceiling; the link moves one byte a nanosecond.
fn pass_times(mosaic: &Mosaic, change: impl FnOnce(&mut OffloadConfig), lasting: Duration, passes: usize) -> Vec<u64> {
    let options = HostOptions {
        mode: HostMode::Stepped,
        page_bytes: PAGE,
        link_bytes_per_second: Some(1_000_000_000),
        ..HostOptions::default()
    };
    let host = HostDriver::new(options).expect("a host driver");
    let mut config = OffloadConfig::new(Arc::<HostDriver>::clone(&host));
    change(&mut config);
    let scope = config.launches;
    let offload = enable_offload(mosaic.component(), config).expect("attached");
    let order: Vec<usize> = (0..mosaic.sizes.len()).collect();
    let mut times = Vec::new();
    for _ in 0..passes {
        let (start, state) = (host.stream_time().0, Arc::new(Mutex::new(1)));
        for unit in &order {
            mosaic.submit(&offload, *unit, &state, lasting, scope).expect("submitted");
        }
        offload.mark_step().expect("a step");
        offload.wait_stream(offload.compute_stream()).expect("done");
        assert_eq!(*state.lock().expect("jobs do not panic"), mosaic.reference(&order));
        times.push(host.stream_time().0 - start);
    }
    offload.wait_idle().expect("idle");
    offload.close(Duration::from_secs(1)).expect("closes");
    times
}

#[test]
fn later_parts_arrive_while_earlier_ones_compute() {
    // Two units of four parts of one page each; the work on a part takes 1000 ns, its upload 4096 ns.
    let mosaic = Mosaic::even(2, 4, PAGE);
    let lasting = Duration::from_nanos(1000);
    let in_parts = |config: &mut OffloadConfig| {
        (config.ceiling, config.residency) = (Ceiling::Bytes(2 * PAGE), ResidencyMode::Parts);
        (config.launches, config.part_bytes) = (LaunchScope::Parts, 1);
    };
    let times = pass_times(&mosaic, in_parts, lasting, 4);
    assert_eq!(times[0], 8 * PAGE + 1000, "the link is never idle, the last part computes alone");
    assert_eq!(times[2..], [8 * PAGE, 8 * PAGE], "a warm pass takes the link's time: two parts of memory are enough");
    let whole = |config: &mut OffloadConfig| {
        (config.ceiling, config.residency) = (Ceiling::Bytes(8 * PAGE), ResidencyMode::Classic);
        config.part_bytes = 1;
    };
    assert_eq!(pass_times(&mosaic, whole, lasting, 4)[3], 2 * 1000, "all of it fits");
}

#[test]
fn a_copy_starts_where_the_ring_is_free_before_the_rest_is() {
    // Two parts of one page fill the ring; the third takes both places, and its first page need not wait for the second
    // part's work. Uploads of a page and works take one page's time: 1 and 2 arrive, 1 ends with 2's arrival, and so on.
    let mosaic = Mosaic { sizes: vec![vec![PAGE, PAGE, 2 * PAGE]] };
    let settings = |config: &mut OffloadConfig| {
        (config.ceiling, config.residency) = (Ceiling::Bytes(2 * PAGE), ResidencyMode::Parts);
        (config.launches, config.part_bytes) = (LaunchScope::Parts, 1);
    };
    assert_eq!(pass_times(&mosaic, settings, Duration::from_nanos(PAGE), 1), [5 * PAGE], "6 if it waited for both");
}
