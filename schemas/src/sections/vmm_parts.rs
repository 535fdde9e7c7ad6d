//! Counters and gauges of the stream ring that parts of units pass through.

use crate::section;
use crate::unit::Unit;

section! {
    /// The rows of the residency mode `parts`; all are left out in the classic mode.
    #[derive(Default)]
    pub struct VmmParts at "runtime.vmm" {
        fast_stream_ring_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Stream memory that parts of units take turns in, in whole pages; it is the execution buffer.",
            "A larger ring hides longer uploads and leaves less for residents.";
        fast_stream_ring_restarts: Option<u64> = Unit::Count("restarts"), Counter, Session, "unit requested",
            "Times that a unit found room in the ring but no stretch for one of its parts, and was laid out anew.",
            "Growing in steady state: units come in a new order each pass.";
        fast_part_uploads: Option<u64> = Unit::Count("parts"), Counter, Session, "upload enqueued",
            "Parts uploaded into the ring.",
            "Per step it should equal the streamed parts.";
        fast_part_releases: Option<u64> = Unit::Count("parts"), Counter, Session, "release",
            "Parts that the host let go before the end of their unit.",
            "Zero where every launch reads whole units.";
        fast_part_prefetch_parts: Option<u64> = Unit::Count("parts"), Counter, Session, "look-ahead",
            "Parts whose upload was enqueued before they were asked for.",
            "Parts that hit, were cancelled or are in flight add up to it.";
        fast_part_prefetch_hits: Option<u64> = Unit::Count("parts"), Counter, Session, "view requested",
            "Requests that found their part already on its way.",
            "Uploads of parts minus hits were made on demand.";
        fast_part_prefetch_cancelled_parts: Option<u64> = Unit::Count("parts"), Counter, Session, "order mismatch, close",
            "Parts uploaded ahead and never consumed.",
            "Growing in steady state: parts are asked for in another order each pass.";
        fast_part_prefetch_in_flight_parts: Option<u64> = Unit::Count("parts"), Gauge, Session, "snapshot",
            "Parts uploaded ahead that nobody has asked for yet.",
            "As many as the ring holds.";
        fast_gpu_prefetch_partial_units: Option<u64> = Unit::Count("units"), Counter, Session, "unit requested",
            "Requests that found a part of their unit on its way, but not all of it.",
            "Usual where the ring is smaller than a unit.";
    }
}
