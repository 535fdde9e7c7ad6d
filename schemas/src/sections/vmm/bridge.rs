//! Between the adapter and the native library: "What does crossing over cost?"

use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// Host scopes around the library calls that build, prepare and submit a batch.
    #[derive(Default)]
    pub struct Bridge at "runtime.vmm" {
        fast_source_cache_batch_bridge_create_total_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache,
            "first upload of a unit",
            "Host time of the wrapper that builds a batch: its locks, the conversion of descriptors and the library call.",
            "Compare with the library call; the rest is not pure interpreter time, locks are in it.";
        fast_source_cache_batch_bridge_create_total_calls: Option<u64> = Unit::Count("calls"), Counter, Cache,
            "first upload of a unit",
            "Batches that the wrapper set out to build, failures included.",
            "Stands still once every unit has its batch.";
        fast_source_cache_batch_bridge_create_ffi_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache,
            "first upload of a unit",
            "Of building a batch, the library call alone with its entry and return.",
            "A small share of the wrapper: its locks and the conversion lead.";
        fast_source_cache_batch_bridge_create_ffi_calls: Option<u64> = Unit::Count("calls"), Counter, Cache,
            "first upload of a unit",
            "Library calls that built a batch or failed to.",
            "Fewer than the wrapper's: it gave up before the call.";
        fast_source_cache_batch_bridge_source_prepare_total_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache,
            "preparation of a unit",
            "Host time in the library's call that admits a batch's reads ahead of use; no copy to the device, no registration.",
            "It lies inside source preparation; look there for the descriptors' share.";
        fast_source_cache_batch_bridge_source_prepare_total_calls: Option<u64> = Unit::Count("calls"), Counter, Cache,
            "preparation of a unit",
            "Batches whose reads the library was asked to start ahead.",
            "Compare with prepared units; a difference is preparation that never reached the library.";
        fast_source_cache_batch_bridge_submit_total_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "upload enqueued",
            "Host time of the wrapper that submits a batch: lock, arguments, library call and check of the answer; failures too.",
            "Its four parts should leave little over.";
        fast_source_cache_batch_bridge_submit_total_calls: Option<u64> = Unit::Count("calls"), Counter, Cache, "upload enqueued",
            "Submissions that the wrapper began; it counts for the lock wait as well.",
            "More than complete native submissions: some failed.";
        fast_source_cache_batch_bridge_submit_lock_wait_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache,
            "upload enqueued",
            "Host time until the wrapper held the cache's lock; no device wait. It has no count of its own.",
            "Large: other host threads use the same cache at the same time.";
        fast_source_cache_batch_bridge_submit_prepare_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "upload enqueued",
            "Host time to check destination, handles and stream before the library is called.",
            "Expected small; per call it should not depend on the unit's size.";
        fast_source_cache_batch_bridge_submit_prepare_calls: Option<u64> = Unit::Count("calls"), Counter, Cache,
            "upload enqueued",
            "Times the arguments of a submission were checked.",
            "Fewer than submissions begun: the lock was not obtained.";
        fast_source_cache_batch_bridge_submit_ffi_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "upload enqueued",
            "Time in the library's submit call as the caller sees it, the way in and out and waiting for the interpreter included.",
            "Compare with the library's own submit time; what is over is unexplained and belongs to no cause without evidence.";
        fast_source_cache_batch_bridge_submit_ffi_calls: Option<u64> = Unit::Count("calls"), Counter, Cache, "upload enqueued",
            "Submit calls that entered the library.",
            "Use it for the mean of both the caller's and the library's submit time.";
        fast_source_cache_batch_bridge_submit_result_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "upload enqueued",
            "Host time to check the library's answer and turn a failure into an error.",
            "Expected tiny; growth comes with failures.";
        fast_source_cache_batch_bridge_submit_result_calls: Option<u64> = Unit::Count("calls"), Counter, Cache,
            "upload enqueued",
            "Answers checked after the library returned.",
            "Equal to the submit calls unless a call never came back.";
    }
}
