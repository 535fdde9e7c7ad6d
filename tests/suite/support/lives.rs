//! Random lives of a session on virtual time: the device, the seeds, and the end that every life has.
//!
//! A failing seed is printed; `DDO_SEED=N` replays it alone, `DDO_SEEDS=COUNT` runs that many.

use super::ledger::Ledger;
use ddo_recorder::driver::{Driver, HostMode};
use ddo_recorder::{HostDriver, HostOptions, Offload, StreamId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A host that interleaves its streams by the seed, with pages of 4096 bytes and a link of any speed.
pub(crate) fn driver(seed: u64, rng: &mut fastrand::Rng) -> Arc<HostDriver> {
    let options = HostOptions {
        mode: HostMode::Interleaved { seed },
        page_bytes: 4096,
        link_bytes_per_second: Some(1 << rng.u32(20..34)),
        link_latency: Duration::from_nanos(rng.u64(0..5000)),
        ..HostOptions::default()
    };
    HostDriver::new(options).expect("a host driver")
}

/// Lives through every seed: as many as usual, unless the environment asks for others.
pub(crate) fn each_seed(usual: u64, life: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("DDO_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("DDO_SEEDS").unwrap_or(usual),
    };
    for seed in seeds {
        if catch_unwind(AssertUnwindSafe(|| life(seed))).is_err() {
            panic!("seed {seed} failed; replay it with DDO_SEED={seed}");
        }
    }
}

/// The first of ten thousand seeds whose life goes wrong.
pub(crate) fn first_to_fail(life: impl Fn(u64)) -> Option<u64> {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = (0..10_000).find(|seed| catch_unwind(AssertUnwindSafe(|| life(*seed))).is_err());
    std::panic::set_hook(quiet);
    found
}

/// Closes a session that is idle: everything is given back, a second stream included.
pub(crate) fn end(offload: &Offload, ledger: &Ledger, second: Option<StreamId>) {
    assert_eq!(offload.audit(), Vec::<String>::new(), "conservation");
    let closed = offload.close(Duration::from_secs(1)).expect("closes");
    assert_eq!((closed.quarantined_bytes, closed.errors.len()), (0, 0), "{closed:?}");
    if let Some(second) = second {
        ledger.stream_destroy(second).expect("destroyed");
    }
    ledger.seen().assert_balanced();
}
