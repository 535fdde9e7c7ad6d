//! Events and reader windows of the retained source: "What does it still own?"

use crate::field::{Condition, Gate};
use crate::section;
use crate::unit::Unit;

section! {
    /// Completion events by owner, and the windows of the background dispatcher.
    #[derive(Default)]
    pub struct SourceEvents at "runtime.vmm" {
        fast_source_cache_events_created: Option<u64> = Unit::Count("events"), Counter, Cache, "upload enqueued",
            "Completion events created for tickets because none was idle; the lasting ones of batches and slots are not in it.",
            "Still after the first pass; growth means that tickets stay open.",
            { gate: Gate::Informative };
        fast_source_cache_events_reused: Option<u64> = Unit::Count("events"), Counter, Cache, "upload enqueued",
            "Times a ticket took an idle event, which only a completed copy sets free.",
            "Compare with uploads: nearly all should reuse.",
            { gate: Gate::Informative };
        fast_source_cache_transfer_owned_events: Option<u64> = Unit::Count("events"), Gauge, Cache, "snapshot",
            "Events that submitted copies of the cache still own; tickets not yet submitted are left out.",
            "Zero after the final successful collection.",
            { gate: Gate::Informative };
        fast_source_cache_pooled_events: Option<u64> = Unit::Count("events"), Gauge, Cache, "snapshot",
            "Events of the cache that lie idle until a ticket takes one; at most 256 are kept.",
            "At the bound: further ones are destroyed and created again.",
            { gate: Gate::Informative };
        fast_source_cache_batch_completion_events: Option<u64> = Unit::Count("events"), Gauge, Cache, "snapshot",
            "Completion events that reusable batches own: lasting ones, or as here those behind submissions whose end is not proven.",
            "At most one a batch and place it is uploaded to; zero after batches are closed.",
            { gate: Gate::Informative };
        fast_source_cache_source_dispatcher_enabled: Option<bool> = Unit::Flag, Flag, Cache, "snapshot",
            "Whether a background dispatcher fills the cache; no promise that data is ready, registered or on the device.",
            "Compare runs with the same setting only.";
        fast_source_cache_source_dispatcher_owned_windows: Option<u64> = Unit::Count("windows"), Gauge, Cache, "snapshot",
            "Read windows submitted and not yet retired; their reading may have ended already.",
            "Zero after the source was drained.",
            { gate: Gate::Informative };
        fast_source_cache_source_dispatcher_peak_windows: Option<u64> = Unit::Count("windows"), Peak, Cache, "snapshot",
            "Most windows owned at one time since the cache was last cleared; no proof that the disk worked on them at once.",
            "1: reads were admitted one after the other. It never exceeds the window limit.",
            { gate: Gate::Informative,
              meaningful_if: Condition::SiblingNonZero("fast_source_cache_source_dispatcher_window_limit") };
        fast_source_cache_source_dispatcher_window_limit: Option<u64> = Unit::Count("windows"), Limit, Cache, "snapshot",
            "Most windows the dispatcher may own: the least of cache segments, reader threads and eight. It costs no memory.",
            "Zero until the dispatcher has started, and after a clear.",
            { meaningful_if: Condition::NonZero };
    }
}
