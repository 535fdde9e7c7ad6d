//! Tensors read ahead of their upload: every row against an independent count, nothing promised, nothing read twice.
//!
//! Proves: attempts = hits + dropped + in flight at every moment; each upload is a hit, a skip, or was expected by nobody;
//! the threads read what was asked for ahead and what was not hit, and no more; what is resident is passed over once a pass;
//! beside retained storage no file is read ahead.

use crate::support::mosaic::Mosaic;
use crate::support::streamed::{PAGE, Streamed, WINDOW, rows, staging};
use crate::support::until;
use ddo_recorder::{HostMemorySettings, LaunchScope, Offload, SourceChoice};

/// Attempts, hits, skips, dropped, in flight.
fn counts(offload: &Offload) -> [u64; 5] {
    let rows = rows(offload).look_ahead;
    let counts = [
        rows.fast_prefetch_attempts,
        rows.fast_prefetch_hits,
        rows.fast_prefetch_skips,
        rows.fast_prefetch_dropped_tensors,
        rows.fast_prefetch_in_flight_tensors,
    ];
    let [attempts, hits, skips, dropped, in_flight] = counts.map(|count| count.expect("a source that reads ahead"));
    assert_eq!(attempts, hits + dropped + in_flight);
    [attempts, hits, skips, dropped, in_flight]
}

/// Four units of two tensors of one slot each, of which nothing can stay.
fn bench(name: &str) -> Streamed {
    Streamed::new(name, Mosaic::even(4, 2, 2 * PAGE), 4 * PAGE)
}

fn chunks(offload: &Offload) -> u64 {
    rows(offload).ring.fast_native_transport_source_read_chunks.expect("counted")
}

#[test]
fn every_upload_is_a_hit_a_skip_or_expected_by_nobody() {
    for slots in [1, 2, 3, 8, 64] {
        let bench = bench("read-ahead");
        let offload = bench.attach(SourceChoice::Ring, staging(slots)).expect("attached");
        assert_eq!(counts(&offload), [0; 5], "nothing was asked for");
        for pass in 1..=4 {
            bench.passes(&offload, 1);
            let [attempts, hits, skips, dropped, _] = counts(&offload);
            let uploads = bench.ledger.seen().calls["copy_to_device"];
            // The first tensor of all, and the first one behind the first step: until then nobody knew of another pass.
            assert_eq!((uploads - hits - skips, dropped), (2, 0), "{slots} slots, pass {pass}");
            assert!(skips > 0 || slots > 3, "few slots are soon busy");
            assert!(hits > 0 || slots == 1, "some slots are free");
            until("the threads have read what was asked for", || chunks(&offload) == attempts + uploads - hits);
        }
        let [attempts, hits, ..] = counts(&offload);
        bench.close(&offload);
        let closed = counts(&offload);
        assert_eq!((closed[0], closed[1], closed[4]), (attempts, hits, 0), "what was in flight is dropped");
    }
}

#[test]
fn a_tensor_larger_than_the_ring_counts_once() {
    let bench = Streamed::new("read-ahead-large", Mosaic::even(3, 1, 10 * PAGE), 20 * PAGE);
    let offload = bench.attach(SourceChoice::Ring, staging(3)).expect("attached");
    bench.passes(&offload, 4);
    let [attempts, hits, skips, ..] = counts(&offload);
    let uploads = rows(&offload).uploads.fast_uploads.expect("counted");
    assert_eq!(uploads - hits - skips, 2);
    assert!(attempts <= uploads + 3, "{attempts} attempts of {uploads} uploads and what is ahead");
    bench.close(&offload);
}

#[test]
fn what_is_resident_is_passed_over_once_a_pass_and_not_read() {
    let bench = Streamed::new("read-ahead-resident", Mosaic::even(4, 2, 2 * PAGE), 10 * PAGE);
    // The ring holds more than the model: all of the next pass is considered.
    let offload = bench.attach(SourceChoice::Ring, staging(64)).expect("attached");
    let decisions = crate::support::streamed::report(&offload).runtime.state.planner_decisions;
    let residents = decisions.vmm_resident_parts.expect("parts");
    assert!((1..8).contains(&residents), "{residents} of 8 tensors stay");
    let skips = |offload: &Offload| rows(offload).look_ahead.fast_prefetch_resident_skips;
    assert_eq!(skips(&offload), Some(0));
    for pass in 1..=4 {
        bench.passes(&offload, 1);
        assert_eq!(skips(&offload), Some(residents * pass), "each resident of the next pass");
    }
    let [attempts, hits, ..] = counts(&offload);
    // A place that comes free in pieces takes several copies.
    let uploads = rows(&offload).uploads.fast_uploads.expect("counted");
    assert!(
        uploads <= bench.ledger.seen().calls["copy_to_device"] && uploads < 8 * 4 + 8,
        "residents are uploaded once: {uploads}"
    );
    until("the threads have read what was asked for", || chunks(&offload) == attempts + uploads - hits);
    bench.close(&offload);
}

#[test]
fn another_order_drops_what_was_read_and_the_next_pass_hits_again() {
    let bench = bench("read-ahead-order");
    let offload = bench.attach(SourceChoice::Ring, staging(8)).expect("attached");
    bench.passes(&offload, 3);
    let before = counts(&offload);
    assert_eq!(before[3], 0);
    bench.pass(&offload, &[0, 3, 1, 2], LaunchScope::Parts).expect("another order");
    let after = counts(&offload);
    assert!(after[3] > 0, "what was read for unit 1 was thrown away: {after:?}");
    bench.pass(&offload, &[0, 3, 1, 2], LaunchScope::Parts).expect("the new order");
    bench.pass(&offload, &[0, 3, 1, 2], LaunchScope::Parts).expect("the new order");
    let settled = counts(&offload);
    assert_eq!(settled[3], after[3], "the new order was learned");
    assert!(settled[1] > after[1]);
    bench.close(&offload);
}

#[test]
fn a_failed_upload_drops_its_tensors() {
    let bench = bench("read-ahead-failure");
    let offload = bench.attach(SourceChoice::Ring, staging(8)).expect("attached");
    bench.passes(&offload, 2);
    std::fs::remove_file(&bench.path).expect("removed");
    let error = bench.pass(&offload, &[0, 1, 2, 3], LaunchScope::Parts).expect_err("gone");
    assert_eq!(error.code(), "source_vanished");
    counts(&offload);
    assert_eq!(offload.audit(), Vec::<String>::new());
    offload.close(std::time::Duration::from_secs(1)).expect("closes");
    assert_eq!(counts(&offload)[4], 0);
}

#[test]
fn beside_retained_storage_no_file_is_read_ahead() {
    for kept in [1, 3, 5] {
        let bench = Streamed::new("read-ahead-retained", Mosaic::even(4, 2, WINDOW / 2), WINDOW);
        let host = HostMemorySettings { retained_slot_bytes: WINDOW, retained_slots: kept, ..staging(4) };
        let offload = bench.attach(SourceChoice::Retained, host).expect("attached");
        bench.passes(&offload, 4);
        let vmm = rows(&offload);
        assert_eq!((counts(&offload), vmm.look_ahead.fast_prefetch_resident_skips), ([0; 5], Some(0)));
        let bypassed = vmm.source_cache.fast_source_cache_batch_bypass_bytes;
        assert_eq!(bypassed == Some(0), kept == 5, "{kept} of five windows are kept");
        assert_eq!(vmm.ring.fast_native_transport_source_read_bytes, bypassed, "each byte was read for an upload that had begun");
        bench.close(&offload);
    }
}

#[test]
fn sources_without_reads_ahead_have_no_such_rows() {
    let bench = bench("read-ahead-none");
    for source in [SourceChoice::Mapped, SourceChoice::Cpu] {
        let offload = bench.attach(source, staging(2)).expect("attached");
        bench.passes(&offload, 1);
        let ahead = rows(&offload).look_ahead;
        assert_eq!((ahead.fast_prefetch_attempts, ahead.fast_prefetch_resident_skips), (None, None));
        bench.close(&offload);
    }
}
