//! Counters and gauges of the offload runtime.

use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// The runtime's own numbers. Fields of parts that are not in use are left out.
    pub struct Vmm at "runtime.vmm" {
        reserved_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Addresses reserved for the arena; no memory by themselves.",
            "Never read it as memory use.";
        resident_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Device memory mapped under the arena.",
            "Slots and stream ring are not in it; see the total.";
        materializations: Option<u64> = Unit::Count("ranges"), Counter, Session, "page fault",
            "Arena ranges that received memory.",
            "Growing in steady state means that residents come and go.";
        evictions: Option<u64> = Unit::Count("ranges"), Counter, Session, "eviction",
            "Arena ranges that lost their memory again.",
            "Not zero: residents do not fit.";
        copied_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Payload of all uploads, arena and stream memory.",
            "Divide by steps for the traffic of one.";
        fast_faults: Option<u64> = Unit::Count("ranges"), Counter, Session, "unit requested",
            "Arena ranges that had to be mapped before use.",
            "After the first pass it should stand still.";
        fast_signature_hits: Option<u64> = Unit::Count("tensors"), Counter, Session, "unit requested",
            "Resident tensors found with the contents of their last upload.",
            "Each is an upload that was not needed.";
        fast_uploads: Option<u64> = Unit::Count("tensors"), Counter, Session, "upload enqueued",
            "Tensors whose upload was enqueued.",
            "Compare with the tensors of the streamed units.";
        fast_file_uploads: Option<u64> = Unit::Count("tensors"), Counter, Session, "upload enqueued",
            "Of the uploads, those that read straight from a mapped file.",
            "Zero with a `cpu` source.";
        fast_upload_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Payload of the enqueued uploads.",
            "Equal to the copied payload on this route.";
        fast_fault_failures: Option<u64> = Unit::Count("failures"), Counter, Session, "unit requested",
            "Requests for arena memory that were declined or failed.",
            "Read the admission failures for the cause.";
        fast_capacity_admission_failures: Option<u64> = Unit::Count("refusals"), Counter, Session, "unit requested",
            "Requests declined because the weight ceiling leaves no page.",
            "Raise the ceiling or keep fewer residents.";
        fast_cuda_admission_failures: Option<u64> = Unit::Count("refusals"), Counter, Session, "unit requested",
            "Requests declined because the device had no memory left.",
            "Other users of the device hold it; lower the ceiling.";
        fast_execution_buffer_uploads: Option<u64> = Unit::Count("units"), Counter, Session, "upload enqueued",
            "Units uploaded into stream memory: slots, or the ring once all their streamed parts are enqueued.",
            "Per step it should equal the streamed units.";
        fast_execution_buffer_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Payload of those uploads; traffic, not capacity.",
            "This is the numerator of the upload term of the floor.";
        fast_execution_buffer_capacity_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "All slots together, or the stream ring, in whole pages; charged against the ceiling.",
            "With the arena's ceiling it makes up the weight ceiling.";
        fast_execution_buffer_resident_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Device memory mapped under the slots or the stream ring.",
            "It equals the capacity while attached.";
        fast_execution_buffer_slots: Option<u64> = Unit::Count("slots"), Limit, Session, "attach",
            "Number of slots; left out where parts of units take turns in a ring.",
            "Zero when every unit is resident.";
        fast_execution_buffer_slot_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Capacity of one slot: the largest streamed unit in whole pages; left out with a ring.",
            "One large unit makes all slots large.";
        fast_dma_enqueue_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time spent to find, prepare and enqueue uploads; no device time.",
            "A rate from it would be the host's, never the link's.";
        fast_dma_enqueue_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Payload handed over in that time.",
            "Do not divide by the enqueue time for a bandwidth.";
        fast_compute_wait_events: Option<u64> = Unit::Count("dependencies"), Counter, Session, "launch",
            "Stream dependencies on uploads queued before compute; the host does not wait.",
            "At least one for each uploaded unit.";
        fast_gpu_prefetch_units: Option<u64> = Unit::Count("units"), Counter, Session, "look-ahead",
            "Units whose whole upload was enqueued before their consumer asked.",
            "Hits, cancelled ones and those in flight add up to it.";
        fast_gpu_prefetch_hits: Option<u64> = Unit::Count("units"), Counter, Session, "unit requested",
            "Requests that found their whole unit already on its way.",
            "Streamed requests minus hits were served on demand.";
        fast_gpu_prefetch_capacity_skips: Option<u64> = Unit::Count("attempts"), Counter, Session, "look-ahead",
            "Look-ahead attempts that what is in hand left no place for; skipped, never waited for.",
            "Many skips mean that weights stay pinned for long.";
        fast_gpu_prefetch_cancelled_units: Option<u64> = Unit::Count("units"), Counter, Session, "order mismatch, close",
            "Units uploaded ahead and never consumed.",
            "Growing in steady state: the order of units changes between passes.";
        fast_gpu_prefetch_in_flight_units: Option<u64> = Unit::Count("units"), Gauge, Session, "snapshot",
            "Units uploaded ahead that nobody has asked for yet.",
            "At most the look-ahead depth where there is one.";
        fast_execution_plan_passes: Option<u64> = Unit::Count("passes"), Counter, Session, "step marked",
            "Passes after which the order of units was known.",
            "Look-ahead starts with the second pass.";
        fast_execution_plan_mismatches: Option<u64> = Unit::Count("mismatches"), Counter, Session, "unit requested",
            "Requests, of units or of their parts, that came in another order than the learned one.",
            "Each one cancels look-ahead; find what changes the order.";
        fast_file_backed_bindings: Option<u64> = Unit::Count("tensors"), Gauge, Session, "attach",
            "Managed tensors whose bytes lie in a file.",
            "With the host-memory ones they make up all managed tensors.";
        fast_file_backed_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "attach",
            "Payload of the file-backed tensors.",
            "It needs page cache, not private memory.";
        fast_cpu_source_bindings: Option<u64> = Unit::Count("tensors"), Gauge, Session, "attach",
            "Managed tensors whose bytes lie in host memory.",
            "Each holds private host memory.";
        fast_cpu_source_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "attach",
            "Payload of the tensors in host memory.",
            "Add it to the host budget.";
        fast_cpu_source_dma_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Upload traffic out of host memory.",
            "Left out when no tensor lies there.";
        fast_mapped_source_mapped_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "File bytes mapped read-only into the process; address space, not private memory.",
            "The page cache decides what is in memory.";
        fast_mapped_source_registered_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Of the mapped bytes, those registered with the device.",
            "Unregistered bytes are copied at the pageable rate on a GPU.";
        fast_mapped_source_dma_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Upload traffic straight out of mapped files.",
            "Left out when no file is mapped.";
        fast_transfer_batch_submissions: Option<u64> = Unit::Count("batches"), Counter, Session, "upload enqueued",
            "Upload batches enqueued completely, one a unit (its streamed and its resident parts apart); no proof of completion.",
            "Compare with units uploaded.";
        fast_transfer_copies: Option<u64> = Unit::Count("copies"), Counter, Session, "upload enqueued",
            "Single copies after neighbouring ranges were merged.",
            "Far more than batches: tensors of a unit are scattered in the file.";
        fast_transfer_live_tickets: Option<u64> = Unit::Count("tickets"), Gauge, Session, "snapshot",
            "Upload tickets whose completion has not been proven yet.",
            "Zero after a collection that follows a completed readback.";
        fast_transfer_owned_events: Option<u64> = Unit::Count("events"), Gauge, Session, "snapshot",
            "Events that belong to live tickets.",
            "Zero after such a collection.";
        fast_transfer_pooled_events: Option<u64> = Unit::Count("events"), Gauge, Session, "snapshot",
            "Idle events kept for reuse, at most 256.",
            "Not a limit on work in flight.";
        fast_transfer_events_created: Option<u64> = Unit::Count("events"), Counter, Session, "upload enqueued",
            "Events created because the pool was empty.",
            "Growing in steady state: tickets are not retired.";
        fast_transfer_events_reused: Option<u64> = Unit::Count("events"), Counter, Session, "upload enqueued",
            "Events taken from the pool.",
            "In steady state every upload reuses.";
        fast_native_transport_batch_transport_total_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time of look-up, preparation and submission of unit batches, failures included.",
            "Contains prepare and submit; never add them to it.";
        fast_native_transport_batch_transport_total_calls: Option<u64> = Unit::Count("calls"), Counter, Session, "upload enqueued",
            "Times the total scope was entered.",
            "Divide the seconds by it.";
        fast_native_transport_batch_transport_prepare_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time to look a batch up, its one-time creation included; one batch a unit, or a part of one.",
            "Subtract creation to see the look-up alone.";
        fast_native_transport_batch_transport_prepare_calls: Option<u64> = Unit::Count("calls"), Counter, Session, "upload enqueued",
            "Times a batch was looked up.",
            "Equal to the total's calls.";
        fast_native_transport_batch_transport_create_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "first upload of a unit",
            "Host time to build a unit's batch once: ranges, sources, merged copies.",
            "Stands still after the first pass.";
        fast_native_transport_batch_transport_create_calls: Option<u64> = Unit::Count("calls"), Counter, Session, "first upload of a unit",
            "Batches built.",
            "At most the number of units.";
        fast_native_transport_batch_transport_submit_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "upload enqueued",
            "Host time to enqueue a batch's copies and its completion event.",
            "Large: the driver holds the enqueuing thread back.";
        fast_native_transport_batch_transport_submit_calls: Option<u64> = Unit::Count("calls"), Counter, Session, "upload enqueued",
            "Times a batch was enqueued, failures included.",
            "Failures explain a difference to the submissions.";
        fast_resident_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Device memory of the arena, under the route's own name.",
            "Compare with the arena's ceiling.";
        fast_total_weight_resident_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "All device memory that holds weights: arena, and slots or stream ring.",
            "Never above the weight ceiling.";
        fast_fault_ceiling_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "What the ceiling leaves for the arena after the slots or the stream ring.",
            "Zero: nothing can stay resident.";
        fast_virtual_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Size of the arena's address range.",
            "No memory by itself.";
        fast_page_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Page size that the arena maps with.",
            "Unused ends of pages count against the ceiling.";
        fast_arena_materialized_pages: Option<u64> = Unit::Count("pages"), Counter, Session, "page fault",
            "Arena pages that received memory.",
            "Stands still after the first pass.";
        fast_pinned_units: Option<u64> = Unit::Count("units"), Gauge, Session, "snapshot",
            "Units held by a guard or by work whose completion is not proven.",
            "Zero after the phase's completion boundary and a collection.";
        fast_quarantined_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Device memory kept because the end of its use could not be proven.",
            "Any value above zero is a safety failure.";
    } flatten { parts: crate::sections::VmmParts }
}
