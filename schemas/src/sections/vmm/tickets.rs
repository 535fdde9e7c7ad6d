//! Ownership of uploads in flight: "Which copies are not proven complete?"

use crate::field::Gate;
use crate::section;
use crate::unit::Unit;

section! {
    /// Batches, tickets and their events.
    #[derive(Default)]
    pub struct Tickets at "runtime.vmm" {
        fast_transfer_batch_submissions: Option<u64> = Unit::Count("batches"), Counter, Session, "upload enqueued",
            "Upload batches enqueued completely, one a unit (its streamed and its resident parts apart); no proof of completion.",
            "Compare with units uploaded.";
        fast_transfer_copies: Option<u64> = Unit::Count("copies"), Counter, Session, "upload enqueued",
            "Single copies after neighbouring ranges were merged.",
            "Far more than batches: tensors of a unit are scattered in the file.";
        fast_transfer_live_tickets: Option<u64> = Unit::Count("tickets"), Gauge, Session, "snapshot",
            "Upload tickets whose completion has not been proven yet.",
            "Zero after a collection that follows a completed readback.",
            { gate: Gate::Informative };
        fast_transfer_owned_events: Option<u64> = Unit::Count("events"), Gauge, Session, "snapshot",
            "Events that belong to live tickets.",
            "Zero after such a collection.",
            { gate: Gate::Informative };
        fast_transfer_pooled_events: Option<u64> = Unit::Count("events"), Gauge, Session, "snapshot",
            "Idle events kept for reuse, at most 256.",
            "Not a limit on work in flight.",
            { gate: Gate::Informative };
        fast_transfer_events_created: Option<u64> = Unit::Count("events"), Counter, Session, "upload enqueued",
            "Events created because the pool was empty.",
            "Growing in steady state: tickets are not retired.",
            { gate: Gate::Informative };
        fast_transfer_events_reused: Option<u64> = Unit::Count("events"), Counter, Session, "upload enqueued",
            "Events taken from the pool.",
            "In steady state every upload reuses.",
            { gate: Gate::Informative };
    }
}
