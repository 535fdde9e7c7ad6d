//! Files read through the ring, into retained storage and into staging slots, on virtual time: whatever the sizes, the ceilings, the order,
//! the host's pressure and the interleaving, the same bits and balanced books.
//!
//! A failing seed is printed; `DDO_SEED=N` replays it alone, `DDO_SEEDS=COUNT` runs that many.

use crate::support::ledger::Ledger;
use crate::support::lives::{self, each_seed};
use crate::support::mosaic::Mosaic;
use crate::support::scratch;
use crate::support::tiny::component_of;
use ddo_recorder::driver::HostMode;
use ddo_recorder::memory::{HostReading, HostReadings};
use ddo_recorder::{
    Ceiling, HostBudget, HostDriver, HostMemorySettings, HostOptions, LaunchScope, Offload, OffloadConfig, RegistrationPolicy,
    ResidencyMode, SnapshotOptions, SourceChoice, enable_offload,
};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;
const WINDOW: u64 = 64 << 10;

/// A host whose memory comes and goes, and that sometimes does not tell.
#[derive(Debug)]
struct Moody {
    rng: Mutex<fastrand::Rng>,
    quiet: bool,
}

impl HostReadings for Moody {
    fn read(&self) -> Option<HostReading> {
        let mut rng = self.rng.lock().expect("no test panics here");
        if self.quiet {
            return Some(HostReading { ram_bytes: 1 << 40, commit_bytes: 1 << 40 });
        }
        let mut bytes = || rng.u64(0..8 * WINDOW);
        let reading = HostReading { ram_bytes: bytes(), commit_bytes: bytes() };
        (rng.u8(..6) > 0).then_some(reading)
    }
}

/// Random ceilings of host memory that can be met.
fn host_memory(rng: &mut fastrand::Rng, source: SourceChoice) -> HostMemorySettings {
    let retained = source == SourceChoice::Retained;
    let slots = if source == SourceChoice::Staged { rng.u64(2..5) } else { rng.u64(1..5) };
    let staging_slot_bytes = PAGE * rng.u64(1..4);
    let kept = rng.u64(1..6);
    let registered = rng.u64(0..=kept);
    HostMemorySettings {
        staging_bytes: slots * staging_slot_bytes,
        staging_slot_bytes,
        readers: rng.u64(1..3),
        retained_slot_bytes: if retained { WINDOW } else { 0 },
        retained_slots: if retained { kept } else { 0 },
        registered_bytes: if retained { registered * WINDOW } else { 0 },
        registration: *rng.choice(&[RegistrationPolicy::StableSubset, RegistrationPolicy::Recycle]).expect("two of them"),
        // In some lives the process may register less than the component.
        process_limit_bytes: slots * staging_slot_bytes + rng.u64(0..4) * WINDOW + if rng.bool() { 1 << 30 } else { 0 },
        headroom_bytes: WINDOW,
        ..HostMemorySettings::default()
    }
}

/// Sizes of at most six units; the largest take several windows.
fn mosaic(rng: &mut fastrand::Rng) -> Mosaic {
    let tensor = |rng: &mut fastrand::Rng| if rng.u8(..5) == 0 { rng.u64(1..100_000) } else { rng.u64(1..12_000) };
    let sizes = (0..rng.usize(1..7)).map(|_| (0..rng.usize(1..5)).map(|_| tensor(rng)).collect()).collect();
    Mosaic { sizes }
}

struct Life {
    mosaic: Mosaic,
    offload: Offload,
    scope: LaunchScope,
    rng: fastrand::Rng,
}

impl Life {
    fn step(&mut self) {
        let mut order: Vec<usize> = (0..self.mosaic.sizes.len()).collect();
        if self.rng.u8(..4) == 0 {
            self.rng.shuffle(&mut order);
        }
        let state = Arc::new(Mutex::new(1));
        for unit in &order {
            if self.rng.u8(..10) == 0 {
                let other = self.rng.usize(..order.len());
                drop(self.offload.unit(self.mosaic.id(&self.offload, other)).expect("a unit in hand, and let go"));
            }
            let lasting = Duration::from_nanos(self.rng.u64(0..20_000));
            self.mosaic.submit(&self.offload, *unit, &state, lasting, self.scope).expect("submitted");
            assert_eq!(self.offload.audit(), Vec::<String>::new(), "conservation");
            if self.rng.u8(..10) == 0 {
                self.offload.collect().expect("collected");
            }
        }
        self.offload.mark_step().expect("a step");
        assert_eq!(self.offload.audit(), Vec::<String>::new(), "conservation");
        if self.rng.bool() {
            self.offload.wait_stream(self.offload.compute_stream()).expect("done");
            let got = *state.lock().expect("jobs do not panic");
            assert_eq!(got, self.mosaic.reference(&order), "the same bits as without a runtime");
        }
    }
}

/// One random life of a component whose weights lie in a file; panics when anything is wrong.
fn life(seed: u64, folder: &Path) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mosaic = mosaic(&mut rng);
    let path = mosaic.checkpoint(folder);
    let all = [SourceChoice::Retained, SourceChoice::Retained, SourceChoice::Ring, SourceChoice::Staged];
    let source = *rng.choice(&all).expect("one of them");
    let retained = source == SourceChoice::Retained;
    let host = host_memory(&mut rng, source);
    let scope = if rng.bool() { LaunchScope::Units } else { LaunchScope::Parts };
    let residency = if rng.u8(..4) == 0 { ResidencyMode::Auto } else { ResidencyMode::Parts };
    let largest = mosaic.sizes.iter().map(|sizes| sizes.iter().map(|bytes| bytes.next_multiple_of(512)).sum::<u64>()).max();
    let ceiling = largest.unwrap_or_default().next_multiple_of(PAGE) + rng.u64(0..=mosaic.total_bytes());
    let driver = HostDriver::new(HostOptions {
        mode: HostMode::Interleaved { seed },
        page_bytes: PAGE,
        link_bytes_per_second: Some(1 << rng.u32(20..34)),
        link_latency: Duration::from_nanos(rng.u64(0..5000)),
        // In some lives the device declines registrations.
        registration_limit_bytes: (rng.u8(..4) == 0).then(|| host.staging_bytes + rng.u64(0..3) * WINDOW),
        ..HostOptions::default()
    });
    let ledger = Ledger::over(driver.expect("a host driver"), ceiling);
    let budget = Arc::new(HostBudget::default());
    let config = OffloadConfig {
        ceiling: Ceiling::Bytes(ceiling),
        source,
        residency,
        launches: scope,
        part_bytes: *rng.choice(&[1, 1, 1000, 6000]).expect("one of them"),
        look_ahead: rng.u8(..8) > 0,
        host,
        host_budget: Arc::clone(&budget),
        host_readings: Arc::new(Moody { rng: Mutex::new(fastrand::Rng::with_seed(seed)), quiet: rng.bool() }),
        ..OffloadConfig::new(Arc::<Ledger>::clone(&ledger))
    };
    let offload = enable_offload(component_of(&path), config).expect("attached");
    let steps = rng.u64(2..5);
    let mut life = Life { mosaic, offload, scope, rng };
    (0..steps).for_each(|_| life.step());
    life.offload.wait_idle().expect("idle");
    let options = SnapshotOptions { collect_completed: true, ..SnapshotOptions::default() };
    let vmm = life.offload.metrics_snapshot(options).expect("a report").runtime.vmm.expect("attached");
    assert_eq!(vmm.tickets.fast_transfer_live_tickets, Some(0));
    assert_eq!(vmm.uploads.fast_upload_bytes, Some(ledger.seen().copied_bytes), "every copied byte is counted");
    let (cache, moved) = (&vmm.source_cache, vmm.uploads.fast_upload_bytes.expect("counted"));
    if retained {
        assert_eq!(
            (cache.fast_source_cache_live_tickets, vmm.source_events.fast_source_cache_transfer_owned_events),
            (Some(0), Some(0))
        );
        let ways = [cache.fast_source_cache_dma_bytes, cache.fast_source_cache_batch_bypass_bytes];
        assert_eq!(ways.into_iter().flatten().sum::<u64>(), moved, "every byte came out of storage or past it");
        let all = host.staging_bytes + cache.fast_source_cache_registered_limit_bytes.expect("a ceiling");
        assert!(ledger.seen().peak_registered_bytes <= all.min(host.process_limit_bytes), "{cache:?}");
    } else {
        let read = vmm.ring.fast_native_transport_read_bytes.or(vmm.staging.fast_shard_read_bytes);
        assert_eq!(read, Some(moved));
        assert_eq!((cache.fast_source_cache_hits, ledger.seen().peak_registered_bytes), (None, host.staging_bytes));
    }
    lives::end(&life.offload, &ledger, None);
    assert_eq!(budget.totals(), ddo_recorder::memory::HostTotals::default(), "the process holds nothing any more");
}

#[test]
fn a_thousand_lives_from_files_give_the_same_bits_and_balanced_books() {
    let folder = scratch("sources-simulation");
    each_seed(1_000, |seed| life(seed, folder.path()));
}
