//! Weights kept in host memory between passes: "Does the retained source serve what is asked of it?"

use crate::field::{Gate, Rate};
use crate::section;
use crate::unit::Unit;

section! {
    /// Levels, limits and traffic of the retained source.
    #[derive(Default)]
    pub struct SourceCache at "runtime.vmm" {
        fast_source_cache_version: Option<u64> = Unit::Version, Version, Cache, "snapshot",
            "Layout of the statistics that the library filled in; 8 is the newest one known here.",
            "Older layouts lack fields: those are unavailable, not zero.";
        fast_source_cache_struct_size: Option<u64> = Unit::Bytes, Limit, Cache, "snapshot",
            "Length of the statistics that the library filled in, the companion of their layout number.",
            "Shorter than expected: an older library.";
        fast_source_cache_committed_bytes: Option<u64> = Unit::Bytes, Gauge, Cache, "snapshot",
            "Host memory really allocated for retained contents, the unused ends of segments included.",
            "Add staging to it for the host budget; registered bytes are a part of it, not an addition.";
        fast_source_cache_peak_committed_bytes: Option<u64> = Unit::Bytes, Peak, Cache, "snapshot",
            "Most host memory that retained contents ever had allocated.",
            "Compare with the capacity; a peak above today's level means that pressure took segments back.";
        fast_source_cache_process_committed_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Allocated retained storage of all components of the process; other allocators are not in it.",
            "With the ring's registered staging it is the tracked host use of the process.";
        fast_source_cache_retained_bytes: Option<u64> = Unit::Bytes, Gauge, Cache, "snapshot",
            "Valid file contents held now, without the padding of segments.",
            "Less than the model while bypasses grow: it does not fit.";
        fast_source_cache_capacity_bytes: Option<u64> = Unit::Bytes, Limit, Cache, "cache creation",
            "The most storage that retained contents may take; a ceiling, not a level.",
            "Compare with the file-backed payload: smaller means that each pass reads files again.",
            { deterministic: true };
        fast_source_cache_registered_limit_bytes: Option<u64> = Unit::Bytes, Limit, Cache, "cache creation",
            "The most retained storage that may be registered with the device at a time, as it took effect.",
            "Below the capacity, registrations are recycled: watch their count and seconds.",
            { deterministic: true };
        fast_source_cache_registered_bytes: Option<u64> = Unit::Bytes, Gauge, Cache, "snapshot",
            "Retained storage registered with the device now, so that copies read it directly. Host memory, not shared device memory.",
            "At its limit with growing bypasses: look at segment size and host ceiling before the device's ceiling.";
        fast_source_cache_peak_registered_bytes: Option<u64> = Unit::Bytes, Peak, Cache, "snapshot",
            "Most retained storage that was ever registered at one time.",
            "Below the limit: registration never was the constraint.";
        fast_source_cache_process_registered_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Registered retained storage of all live caches of the process; registrations by other libraries are not in it.",
            "Add the ring's registered staging and compare with the process limit.";
        fast_source_cache_process_staging_registered_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Staging memory of rings registered with the device, all components of the process.",
            "It shares one limit with registered retained storage.";
        fast_source_cache_process_limit_bytes: Option<u64> = Unit::Bytes, Limit, Process, "cache creation",
            "The most host memory that rings and retained sources of the process may hold registered together.",
            "Reached: admission is refused and requests go past the cache.",
            { deterministic: true };
        fast_source_cache_hits: Option<u64> = Unit::Count("requests"), Counter, Cache, "source request",
            "Requests whose file segment was already held.",
            "With misses and bypasses these are all requests; there is no counter of requests to compare with.";
        fast_source_cache_misses: Option<u64> = Unit::Count("requests"), Counter, Cache, "source request",
            "Requests that had to fill a segment from the file first.",
            "One for each segment of the model in all; growing afterwards: segments were discarded.";
        fast_source_cache_bypasses: Option<u64> = Unit::Count("requests"), Counter, Cache, "source request",
            "Requests that the cache declined to hold and the ring served; a refusal, no error.",
            "Not zero: compare capacity with the model and read the pressure entries.";
        fast_source_cache_source_read_bytes: Option<u64> = Unit::Bytes, Counter, Cache, "file read",
            "File bytes read to fill segments, background filling included; whole aligned windows cut at the end of the file.",
            "About the model's size once, then still. More: a segment was read again.";
        fast_source_cache_dma_bytes: Option<u64> = Unit::Bytes, Counter, Cache, "upload enqueued",
            "Bytes of requested tensors that were handed over for upload from the cache; neighbours read with them do not count.",
            "Compare with bytes read: how often each byte was used.",
            { rate: Some(Rate::enqueue("fast_source_cache_dma_submit_seconds")) };
        fast_source_cache_ring_fallback_bytes: Option<u64> = Unit::Bytes, Counter, Cache, "upload enqueued",
            "Uploaded bytes that were held but not registered and so went through the staging ring; no file was read for them.",
            "Raise the registration ceiling, or accept one more host copy for them.";
        fast_source_cache_host_copy_bytes: Option<u64> = Unit::Bytes, Counter, Cache, "upload enqueued",
            "Bytes copied from retained storage into staging for that detour; direct uploads need no such copy.",
            "It should follow the fallback traffic; each byte costs host memory rate twice.";
        fast_source_cache_batch_submissions: Option<u64> = Unit::Count("units"), Counter, Cache, "upload enqueued",
            "Units whose native submission succeeded as a whole; those that stopped midway are not in it, and none is proven done.",
            "Compare with the submit calls: the difference failed.";
        fast_source_cache_batch_bypass_bytes: Option<u64> = Unit::Bytes, Counter, Cache, "upload enqueued",
            "Bytes of a batch that came through the ring from outside retained storage, so that a file may have been read.",
            "Growing each step: raise the retained capacity.";
        fast_source_cache_registrations: Option<u64> = Unit::Count("registrations"), Counter, Cache, "registration",
            "Times a retained segment was registered with the device.",
            "Constant per step in steady state: the ceiling makes segments take turns.",
            { gate: Gate::Informative };
        fast_source_cache_unregistrations: Option<u64> = Unit::Count("unregistrations"), Counter, Cache, "registration",
            "Times a registered segment gave its place to another one; its contents stay and are not read again.",
            "With registrations this is churn; its price stands in the two times.",
            { gate: Gate::Informative };
        fast_source_cache_registration_waits: Option<u64> = Unit::Count("waits"), Counter, Cache, "registration",
            "Waits for a copy still using a registered segment that was to be replaced; one event or stream, never the device.",
            "Not zero: a larger registration ceiling helps more than faster copies.",
            { gate: Gate::Informative };
        fast_source_cache_live_tickets: Option<u64> = Unit::Count("tickets"), Gauge, Cache, "snapshot",
            "Source requests not closed yet, whether copied already or not.",
            "Zero after the phase ended and completed tickets were collected.",
            { gate: Gate::Informative };
        fast_source_cache_admission_denials: Option<u64> = Unit::Unspecified, Counter, Cache, "source request",
            "Refused admissions to the cache; nothing written says which of its limits counts, or whether retries count again.",
            "Read bypasses and the pressure entries for a cause.",
            { gate: Gate::NoIncrease };
        fast_source_cache_pressure_evictions: Option<u64> = Unit::Unspecified, Counter, Cache, "pressure poll",
            "Contents given up because the host ran short; whether one is a segment or an episode is not written down.",
            "Use the bytes released with it.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_released_bytes: Option<u64> = Unit::Bytes, Counter, Cache, "pressure poll",
            "Storage given back under host pressure over the life of the cache, by its name; its boundary is not written down.",
            "Compare with the latest episode's reclaimed bytes.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_blocked_requests: Option<u64> = Unit::Unspecified, Counter, Cache, "source request",
            "Requests held off while growth was suspended, by its name; it counts more than entries, which are transitions.",
            "Compare with bypasses.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_suspended: Option<u64> = Unit::Flag, Flag, Cache, "snapshot",
            "1 while growth of the cache is suspended by host pressure, else 0.",
            "A 0 at the end does not undo earlier entries: read their count.",
            { gate: Gate::Informative };
    }
}
