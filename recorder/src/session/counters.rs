//! Counters of a session; the report's fields say what each one means.

use super::views::ViewScopes;
use crate::meter::{Counter, HostScope};

/// Everything that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) signature_hits: Counter,
    pub(crate) uploads: Counter,
    pub(crate) file_uploads: Counter,
    pub(crate) upload_bytes: Counter,
    pub(crate) file_upload_bytes: Counter,
    pub(crate) fault_failures: Counter,
    pub(crate) capacity_admission_failures: Counter,
    pub(crate) device_admission_failures: Counter,
    pub(crate) reserve_admission_failures: Counter,
    pub(crate) capacity_event_waits: Counter,
    pub(crate) temporary_tensors: Counter,
    pub(crate) temporary_bytes: Counter,
    pub(crate) stream_uploads: Counter,
    pub(crate) stream_bytes: Counter,
    pub(crate) compute_wait_events: Counter,
    pub(crate) ahead_units: Counter,
    pub(crate) ahead_hits: Counter,
    pub(crate) ahead_partial_units: Counter,
    pub(crate) ahead_skips: Counter,
    pub(crate) ahead_cancelled: Counter,
    pub(crate) part_uploads: Counter,
    pub(crate) part_releases: Counter,
    pub(crate) ahead_parts: Counter,
    pub(crate) ahead_part_hits: Counter,
    pub(crate) ahead_cancelled_parts: Counter,
    pub(crate) ring_restarts: Counter,
    pub(crate) batch_submissions: Counter,
    pub(crate) copies: Counter,
    pub(crate) dma_enqueue: HostScope,
    pub(crate) enqueue_bytes: Counter,
    /// Of them, those of files.
    pub(crate) file_enqueue_bytes: Counter,
    pub(crate) upload_stream: UploadStream,
    pub(crate) transport_total: HostScope,
    pub(crate) transport_prepare: HostScope,
    pub(crate) transport_create: HostScope,
    pub(crate) transport_submit: HostScope,
    pub(crate) source_prepare: HostScope,
    pub(crate) bridge: Bridge,
    pub(crate) source_submissions: Counter,
    pub(crate) views: ViewScopes,
    /// Tensors not read ahead because they are still in the arena.
    pub(crate) resident_skips: Counter,
}

/// Host scopes around uploads that do not go into stream memory.
#[derive(Debug, Default)]
pub(crate) struct UploadStream {
    pub(crate) enter: HostScope,
    pub(crate) body: HostScope,
    pub(crate) exit: HostScope,
}

/// Host scopes between the session and the supply of source bytes.
#[derive(Debug, Default)]
pub(crate) struct Bridge {
    pub(crate) create_total: HostScope,
    pub(crate) create_call: HostScope,
    pub(crate) source_prepare_total: HostScope,
    pub(crate) submit_total: HostScope,
    pub(crate) submit_lock_wait: HostScope,
    pub(crate) submit_prepare: HostScope,
    pub(crate) submit_call: HostScope,
    pub(crate) submit_result: HostScope,
    /// The supply's own time of a submission.
    pub(crate) native_submit: HostScope,
}
