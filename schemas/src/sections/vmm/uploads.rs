//! Uploads as the host sees them: "How much was handed over, and how long did handing over take?"

use crate::field::{Gate, Rate};
use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// Upload traffic and the broad host scopes around it.
    #[derive(Default)]
    pub struct Uploads at "runtime.vmm" {
        fast_uploads: Option<u64> = Unit::Count("tensors"), Counter, Session, "upload enqueued",
            "Tensors whose upload was enqueued.",
            "Compare with the tensors of the streamed units.";
        fast_file_uploads: Option<u64> = Unit::Count("tensors"), Counter, Session, "upload enqueued",
            "Of the uploads, those that read straight from a mapped file.",
            "Zero with a `cpu` source.";
        fast_upload_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Payload of the enqueued uploads.",
            "Equal to the copied payload on this route.";
        fast_dma_enqueue_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time spent to find, prepare and enqueue uploads, reads of ring and retained source included; no device time. On \
             the plain staging path waits for slots and filling them are not in it.",
            "A rate from it would be the host's, never the link's.";
        fast_dma_enqueue_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Payload handed over in that time.",
            "Do not divide by the enqueue time for a bandwidth.",
            { rate: Some(Rate::enqueue("fast_dma_enqueue_seconds")) };
        fast_compute_wait_events: Option<u64> = Unit::Count("dependencies"), Counter, Session, "launch",
            "Stream dependencies on uploads queued before compute; the host does not wait.",
            "At least one for each uploaded unit.",
            { gate: Gate::Informative };
        fast_upload_stream_enter_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time to make the upload stream current before an upload into the arena; slot uploads name their stream and skip it.",
            "Usually small; large values point at the framework's stream bookkeeping, not at copies.";
        fast_upload_stream_body_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time between entering and leaving the upload stream, everything done for that arena upload included.",
            "Look inside it: unit batches or, on the ring route, reads and slot waits. Never add it to them.";
        fast_upload_stream_exit_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time to make the earlier stream current again after an arena upload.",
            "Read it with the time to enter; no copy happens in either.";
        fast_upload_stream_scope_calls: Option<u64> = Unit::Count("calls"), Counter, Session, "upload enqueued",
            "Arena uploads that passed through the upload stream; one count serves entering, body and leaving.",
            "Fewer than dispatched batches: the rest went into slots.";
    }
}
