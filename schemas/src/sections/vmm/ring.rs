//! The native staging ring: "What passes through it?"

use crate::field::Gate;
use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// Reads into ring slots and waits for them.
    #[derive(Default)]
    pub struct Ring at "runtime.vmm" {
        fast_native_transport_ring_total_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time of uploads on their way through the ring: ordering reads, waiting for them and for slots, enqueueing copies.",
            "Its two waits are the next to look at; the rest is the driver and the reader's queue.";
        fast_native_transport_ring_total_calls: Option<u64> = Unit::Count("calls"), Counter, Session, "upload enqueued",
            "Times that an upload turned to the ring, failures included; beginning an upload does so, too.",
            "Compare with copies: many more calls mean small pieces.";
        fast_native_transport_read_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time of the ring route's read step, reads ahead of use included; what else it encloses is not written down.",
            "On the ring route it is most of an upload; compare with the page cache's rate. Zero when a retained source serves.";
        fast_native_transport_read_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Bytes asked of the ring's read step; equal to the upload traffic when everything passes through the ring.",
            "Zero with traffic: another source served it.";
        fast_native_transport_slot_wait_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time blocked until a ring slot was free of its earlier copy.",
            "Large: give the ring more staging memory, or the copies are the limit.";
        fast_native_transport_slot_waits: Option<u64> = Unit::Count("waits"), Counter, Session, "upload enqueued",
            "Times the host had to wait for a ring slot.",
            "Divide the waiting time by it; few long waits and many short ones have different cures.",
            { gate: Gate::Informative };
        fast_native_transport_source_workers: Option<u64> = Unit::Count("threads"), Limit, Session, "attach",
            "Reader threads that the ring started.",
            "Fewer than cores while reads lead: the reader is the limit.",
            { deterministic: true };
        fast_native_transport_source_read_chunks: Option<u64> = Unit::Count("chunks"), Counter, Session, "file read",
            "Pieces that the ring's reader threads read from files.",
            "Divide bytes read by it for the size of one piece.";
        fast_native_transport_source_read_bytes: Option<u64> = Unit::Bytes, Counter, Session, "file read",
            "File bytes that reader threads delivered into ring slots; the page cache may have served them.",
            "More than upload traffic: data was read ahead in vain.";
        fast_native_transport_source_read_failures: Option<u64> = Unit::Count("failures"), Counter, Session, "file read",
            "Reads of a ring thread that failed.",
            "Any growth: look at the checkpoint's file system.",
            { gate: Gate::NoIncrease };
    }
}
