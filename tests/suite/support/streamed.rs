//! A component of which nothing can stay on the device, on virtual time: what stories of its sources share.

use super::ledger::Ledger;
use super::mosaic::Mosaic;
use super::tiny::component_of;
use super::{Scratch, scratch};
use ddo_recorder::driver::HostMode;
use ddo_recorder::memory::{HostReading, HostReadings, HostTotals};
use ddo_recorder::meter::{Clock, FakeClock};
use ddo_recorder::{
    Ceiling, Component, HostBudget, HostMemorySettings, HostOptions, LaunchScope, Offload, OffloadConfig, ResidencyMode,
    SnapshotOptions, SourceChoice, enable_offload,
};
use ddo_schemas::Report;
use ddo_schemas::sections::Vmm;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const PAGE: u64 = 4096;
/// A slot of the micro geometry of retained storage.
pub(crate) const WINDOW: u64 = 64 << 10;

/// A host with more memory than anybody asks for, that can take time to tell.
#[derive(Debug)]
struct Roomy(Arc<FakeClock>, u64);

impl HostReadings for Roomy {
    fn read(&self) -> Option<HostReading> {
        self.0.advance(self.1);
        Some(HostReading { ram_bytes: 1 << 40, commit_bytes: 1 << 40 })
    }
}

/// The same weights in a file and in memory, and the device.
pub(crate) struct Streamed {
    pub(crate) mosaic: Mosaic,
    pub(crate) path: PathBuf,
    pub(crate) budget: Arc<HostBudget>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clock: Arc<FakeClock>,
    /// Nanoseconds that the host takes to tell how much memory it has.
    pub(crate) reading_nanoseconds: u64,
    pub(crate) ceiling: u64,
    _folder: Scratch,
}

impl Streamed {
    /// Under a ceiling in bytes; the link carries a byte a nanosecond.
    pub(crate) fn new(name: &str, mosaic: Mosaic, ceiling: u64) -> Streamed {
        let folder = scratch(name);
        let path = mosaic.checkpoint(folder.path());
        let options = HostOptions {
            mode: HostMode::Stepped,
            page_bytes: PAGE,
            link_bytes_per_second: Some(1_000_000_000),
            ..HostOptions::default()
        };
        let ledger = Ledger::new(options, ceiling);
        let (budget, clock) = (Arc::default(), Arc::default());
        Streamed { mosaic, path, budget, ledger, clock, reading_nanoseconds: 0, ceiling, _folder: folder }
    }

    pub(crate) fn config(&self, source: SourceChoice, host: HostMemorySettings) -> OffloadConfig {
        OffloadConfig {
            ceiling: Ceiling::Bytes(self.ceiling),
            source,
            residency: ResidencyMode::Parts,
            launches: LaunchScope::Parts,
            part_bytes: 1,
            host,
            host_budget: Arc::clone(&self.budget),
            host_readings: Arc::new(Roomy(Arc::clone(&self.clock), self.reading_nanoseconds)),
            clock: Arc::<FakeClock>::clone(&self.clock) as Arc<dyn Clock>,
            ..OffloadConfig::new(Arc::<Ledger>::clone(&self.ledger))
        }
    }

    pub(crate) fn component(&self) -> Component {
        component_of(&self.path)
    }

    pub(crate) fn attach(&self, source: SourceChoice, host: HostMemorySettings) -> ddo_recorder::Result<Offload> {
        enable_offload(self.component(), self.config(source, host))
    }

    /// One step over the units in an order, checked for its bits.
    pub(crate) fn pass(&self, offload: &Offload, order: &[usize], scope: LaunchScope) -> ddo_recorder::Result<()> {
        let state = Arc::new(Mutex::new(1));
        for unit in order {
            self.mosaic.submit(offload, *unit, &state, Duration::from_nanos(5000), scope)?;
        }
        offload.mark_step()?;
        offload.wait_stream(offload.compute_stream())?;
        assert_eq!(*state.lock().expect("jobs do not panic"), self.mosaic.reference(order), "the same bits");
        assert_eq!(offload.audit(), Vec::<String>::new());
        Ok(())
    }

    /// All units in order, part by part.
    pub(crate) fn passes(&self, offload: &Offload, count: usize) {
        let order: Vec<usize> = (0..self.mosaic.sizes.len()).collect();
        (0..count).for_each(|_| self.pass(offload, &order, LaunchScope::Parts).expect("a pass"));
    }

    pub(crate) fn close(&self, offload: &Offload) {
        let closed = offload.close(Duration::from_secs(1)).expect("closes");
        assert_eq!(closed.errors, Vec::<String>::new());
        self.ledger.seen().assert_balanced();
        assert_eq!(self.budget.totals(), HostTotals::default());
    }
}

/// `slots` slots of two pages, two reading threads.
pub(crate) fn staging(slots: u64) -> HostMemorySettings {
    HostMemorySettings {
        staging_bytes: slots * 2 * PAGE,
        staging_slot_bytes: 2 * PAGE,
        readers: 2,
        ..HostMemorySettings::default()
    }
}

/// A report without waiting or collecting.
pub(crate) fn report(offload: &Offload) -> Report {
    offload.metrics_snapshot(SnapshotOptions::default()).expect("a report")
}

/// Its rows.
pub(crate) fn rows(offload: &Offload) -> Vmm {
    report(offload).runtime.vmm.expect("attached")
}
