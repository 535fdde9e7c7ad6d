//! Where managed weights lie on the host: "From what are they uploaded?"

use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// Bindings to files and host memory, and traffic out of each.
    #[derive(Default)]
    pub struct Sources at "runtime.vmm" {
        fast_file_backed_bindings: Option<u64> = Unit::Count("tensors"), Gauge, Session, "attach",
            "Managed tensors whose bytes lie in a file.",
            "With the host-memory ones they make up all managed tensors.",
            { deterministic: true };
        fast_file_backed_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "attach",
            "Payload of the file-backed tensors.",
            "It needs page cache, not private memory.",
            { deterministic: true };
        fast_cpu_source_bindings: Option<u64> = Unit::Count("tensors"), Gauge, Session, "attach",
            "Managed tensors whose bytes lie in host memory.",
            "Each holds private host memory.",
            { deterministic: true };
        fast_cpu_source_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "attach",
            "Payload of the tensors in host memory.",
            "Add it to the host budget.",
            { deterministic: true };
        fast_cpu_source_dma_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Upload traffic out of host memory.",
            "Left out when no tensor lies there.";
        fast_cpu_source_registered_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Host memory of the component that is registered where it lies; locked, and read by the device at the link's rate.",
            "Less than what is streamed: the rest is copied by way of the driver's own buffers, far more slowly.";
        fast_mapped_source_mapped_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "File bytes mapped read-only into the process; address space, not private memory.",
            "The page cache decides what is in memory.";
        fast_mapped_source_registered_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Of the mapped bytes, those registered with the device.",
            "Unregistered bytes are copied at the pageable rate on a GPU.";
        fast_mapped_source_registration_waiting_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Segments of mapped files that are still to be registered beside passes.",
            "Until it is zero, passes are read in part through the ring; measure later ones.";
        fast_mapped_source_registration_refusals: Option<u64> = Unit::Count("refusals"), Counter, Session, "snapshot",
            "One where the process's limit or the driver declined to register more of the mapped files.",
            "What was declined stays unregistered until the component is attached again; raise the limit.";
        fast_mapped_source_registration_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "register",
            "Host time of registering mapped bytes ahead of their use, at attach or beside passes, failures included.",
            "Beside passes it overlaps them: no part of a step.";
        fast_mapped_source_registration_calls: Option<u64> = Unit::Count("calls"), Counter, Session, "register",
            "Pieces of mapped files that were handed to the driver to be registered, failed ones included.",
            "Whole segments at attach, smaller pieces beside passes.";
        fast_mapped_source_dma_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Upload traffic straight out of mapped files.",
            "Left out when no file is mapped.";
    }
}
