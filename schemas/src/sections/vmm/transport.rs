//! Dispatch of unit batches: "Where does the host spend an upload?"

use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// Host scopes of one batch a unit; nested, never summed.
    #[derive(Default)]
    pub struct Transport at "runtime.vmm" {
        fast_native_transport_batch_transport_total_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time of look-up, preparation and submission of unit batches, failures included.",
            "Contains prepare and submit; never add them to it.";
        fast_native_transport_batch_transport_total_calls: Option<u64> = Unit::Count("calls"), Counter, Session, "upload enqueued",
            "Unit batches that the host began to dispatch, failed ones included.",
            "Divide the seconds by it.";
        fast_native_transport_batch_transport_prepare_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time to look a batch up, its one-time creation included; one batch a unit, or a part of one.",
            "Subtract creation to see the look-up alone.";
        fast_native_transport_batch_transport_prepare_calls: Option<u64> = Unit::Count("calls"), Counter, Session, "upload enqueued",
            "Times a batch was looked up.",
            "Equal to the total's calls.";
        fast_native_transport_batch_transport_create_seconds: Option<Seconds> = Unit::Seconds, Counter, Session,
            "first upload of a unit",
            "Host time to build a unit's batch once: ranges, sources, merged copies.",
            "After the first pass it should not grow: batches are reused.";
        fast_native_transport_batch_transport_create_calls: Option<u64> = Unit::Count("calls"), Counter, Session,
            "first upload of a unit",
            "Batches built for the first time, failed attempts included.",
            "At most one for each unit and place it is uploaded to.";
        fast_native_transport_batch_transport_submit_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time to enqueue a batch's copies and its completion event.",
            "Large: the driver holds the enqueuing thread back.";
        fast_native_transport_batch_transport_submit_calls: Option<u64> = Unit::Count("calls"), Counter, Session, "upload enqueued",
            "Times a batch was enqueued, failures included.",
            "Failures explain a difference to the submissions.";
        fast_native_transport_source_prepare_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "preparation of a unit",
            "Host time to describe a unit's sources ahead of its upload and have them admitted; reading goes on in the background.",
            "Count it with the whole phase: time moved here from the upload is not saved.";
        fast_native_transport_source_prepare_calls: Option<u64> = Unit::Count("calls"), Counter, Session, "preparation of a unit",
            "Units whose sources were prepared ahead, failed attempts included.",
            "Above zero, first creation of batches may lie in preparation instead of the upload.";
    }
}
