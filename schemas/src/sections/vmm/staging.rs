//! The default staging path, without native transport: "What does each step of it take?"

use crate::field::{Gate, Rate};
use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// Reads, copies and waits around bounded staging slots.
    #[derive(Default)]
    pub struct Staging at "runtime.vmm" {
        fast_shard_read_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload prepared",
            "Host time in synchronous reads of a checkpoint file into a staging slot, page faults of a mapped file included; no \
             part of the time to enqueue uploads.",
            "Large on the first pass only: the disk. Large always: the file does not fit the page cache.";
        fast_shard_read_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload prepared",
            "Bytes read from checkpoint files into staging slots; the page cache may have served them.",
            "Over its seconds it is a real read rate; compare with the disk's.",
            { rate: Some(Rate::work("fast_shard_read_seconds")) };
        fast_staging_source_copy_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload prepared",
            "Host time to copy weights from host memory into a staging slot; files are not in it.",
            "Avoid the copy by registering the source, or use more copy threads.";
        fast_staging_source_copy_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload prepared",
            "Bytes copied from host memory into staging slots.",
            "Over its seconds it is the rate of one host copy; well below memory speed means page faults.",
            { rate: Some(Rate::work("fast_staging_source_copy_seconds")) };
        fast_staging_slot_wait_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload prepared",
            "Host time blocked on a staging slot whose last upload had not ended; finding a free one costs nothing here.",
            "Large: uploads are slower than reads; more slots only help bursts.";
        fast_staging_slot_waits: Option<u64> = Unit::Count("waits"), Counter, Session, "upload prepared",
            "Times a staging slot was still busy when it was needed.",
            "Compare with uploads: near one for each, the link sets the pace.",
            { gate: Gate::Informative };
    }
}
