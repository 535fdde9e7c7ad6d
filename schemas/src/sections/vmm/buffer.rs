//! Reusable device memory beside the arena: "What do streamed units and root parameters occupy?"

use crate::field::Condition;
use crate::section;
use crate::unit::Unit;

section! {
    /// Execution slots, and the buffer that lives as long as the component.
    #[derive(Default)]
    pub struct Buffers at "runtime.vmm" {
        fast_execution_buffer_uploads: Option<u64> = Unit::Count("units"), Counter, Session, "upload enqueued",
            "Units uploaded into stream memory: slots, or the ring once all their streamed parts are enqueued.",
            "Per step it should equal the streamed units.";
        fast_execution_buffer_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Payload of those uploads; traffic, not capacity.",
            "This is the numerator of the upload term of the floor.";
        fast_execution_buffer_capacity_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "All slots together, or the stream ring, in whole pages; charged against the ceiling.",
            "With the arena's ceiling it makes up the weight ceiling.",
            { deterministic: true };
        fast_execution_buffer_resident_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Device memory mapped under the slots or the stream ring.",
            "It equals the capacity while attached.";
        fast_execution_buffer_slots: Option<u64> = Unit::Count("slots"), Limit, Session, "attach",
            "Places that a streamed unit can be uploaded to; each takes one whole unit at a time.",
            "Zero when every unit is resident, or when nothing is streamed through slots.",
            { deterministic: true };
        fast_execution_buffer_slot_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Capacity of one slot: the largest streamed unit in whole pages; left out with a ring.",
            "One large unit makes all slots large.",
            { deterministic: true, meaningful_if: Condition::SiblingNonZero("fast_execution_buffer_slots") };
        fast_component_lifetime_capacity_bytes: Option<u64> = Unit::Bytes, Limit, Session, "snapshot",
            "Size, in whole pages, of the buffer that holds the component's root parameters until it is removed.",
            "It is charged to the weight ceiling: what it takes, arena and slots lack.",
            { deterministic: true };
        fast_component_lifetime_resident_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Of the root parameters' buffer, the device memory that is really mapped.",
            "Expect its full capacity after setup; it is uploaded once, not each step.";
    }
}
