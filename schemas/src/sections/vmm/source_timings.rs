//! Host scopes inside the retained source: "Which part of a native submission takes the time?"

use crate::field::Condition;
use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// Host scopes of requests, copies, registration and closing; nested, never summed, and no device time.
    #[derive(Default)]
    pub struct SourceTimings at "runtime.vmm" {
        fast_source_cache_batch_submit_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "upload enqueued",
            "The library's own time for submissions: retiring tickets, requests, copies and the bounded detour through the ring.",
            "Look at its largest part: requests, copies or retirement.";
        fast_source_cache_batch_reap_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "upload enqueued, collection",
            "Host time to look for finished tickets and close them; closing can block on one.",
            "Large: see how much of it is closing.";
        fast_source_cache_request_total_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "source request",
            "Host time of whole requests for source data, by uploads and by preparation, scheduling of reads included.",
            "Compare with misses: a request that hits should cost microseconds.";
        fast_source_cache_copy_total_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "upload enqueued",
            "Host time of direct copies from end to end: readiness, event, registration and enqueue; not the transfer itself.",
            "Its parts say whether files, registration or the driver lead.";
        fast_source_cache_close_total_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "ticket close",
            "Host time to close tickets: necessary waits, giving events back, bookkeeping.",
            "High: many tickets outstanding, or closed before their copy ended.";
        fast_source_cache_source_ready_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "upload enqueued",
            "Host time an upload spent waiting for its file data, quick checks included; not the duration of background reads, and \
             explicit waits and detours are left out.",
            "High in the first pass is the disk; high later means data that was discarded.";
        fast_source_cache_event_acquire_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "upload enqueued",
            "Host time to take a completion event from the pool or to create one.",
            "Compare with events created: creation is the expensive way.";
        fast_source_cache_event_retire_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "ticket close",
            "Host time to give a completion event back or to destroy it.",
            "Large: the pool is full and events are destroyed.";
        fast_source_cache_dma_submit_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "upload enqueued",
            "Host time in the driver call that enqueues a direct copy, its context handling and failed calls included.",
            "Growing: the driver's queue is full and holds the thread back.";
        fast_source_cache_dma_event_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "upload enqueued",
            "Host time to record the completion event behind a direct copy, failures included; creation and queries are not in it.",
            "Normally microseconds each; more means contention in the driver.";
        fast_source_cache_registration_schedule_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "upload enqueued",
            "Host time to get a segment registered for a copy: choosing, recycling, and the calls and waits inside.",
            "High: compare with registrations in the interval; files are not read here.";
        fast_source_cache_registration_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "registration",
            "Host time in calls that register persistent storage, failures included. Registration bundled with admission in older \
             modes is left out.",
            "Divide by registrations and compare with the size of a segment; growth each step is churn.",
            { meaningful_if: Condition::NonZero };
        fast_source_cache_unregistration_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "registration",
            "Host time in calls that take a registration back to reuse its allowance; teardown of the cache is left out.",
            "With the registering side it is the price of a registration ceiling that is too small.",
            { meaningful_if: Condition::NonZero };
        fast_source_cache_registration_wait_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "registration",
            "Host time blocked until a copy let go of a registration to be recycled; closing tickets and queries are left out.",
            "High: copies are slower than the demand for registrations.";
        fast_source_cache_ticket_close_wait_seconds: Option<Seconds> = Unit::Seconds, Counter, Cache, "ticket close",
            "Host time blocked on an event or stream because a submitted ticket had to be safe before it closed; zero where only \
             tickets are closed whose event was found passed.",
            "High: retire tickets later. Waits of the final cleanup come after the last snapshot and are missing.";
    }
}
