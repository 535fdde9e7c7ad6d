//! Reports: one detached reading of a session.

use super::allocation::AllocationRecord;
use super::source_rows::{SourceRows, source_rows, staging};
use super::timer::Timing;
use crate::error::{Error, Result};
use crate::memory::SourceKind;
use crate::meter::{Counter, HostScope};
use crate::session::{Inner, Levels, Offload, PassForecast, ViewScopes, lock_supply};
use ddo_schemas::report::{ROUTE_DYNAMIC_OFFLOAD, Runtime};
use ddo_schemas::sections::vmm::{Admission, Arena, Buffers, LookAhead, Sources, Tickets, Transport, Uploads, Views};
use ddo_schemas::sections::{CompletionCollection, Setup, Vmm, VmmParts, VmmPass};
use ddo_schemas::{Nullable, Report, Seconds, version};

/// What a snapshot does beside reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotOptions<'a> {
    /// Retire uploads and work whose end is proven, before reading. Never waits.
    pub collect_completed: bool,
    /// A timer to attach.
    pub timing: Option<&'a Timing>,
    /// Wait until the device has passed the last marker of that timer, and for nothing else; needs a timer. For
    /// diagnosis at the end of a phase, never in a step.
    pub wait: bool,
    /// A scope of allocation diagnostics to attach.
    pub allocation: Option<&'a AllocationRecord>,
}

impl Offload {
    /// A detached report of the session: plain values, nothing waited for unless asked to. Works on a closed session
    /// too.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a wait without a timer, and for a timer or a scope of another session; the driver's, when
    /// asked to collect, to wait or to read a timer.
    ///
    /// # Cost
    /// With `wait`: until the compute stream has passed the timer's last marker.
    pub fn metrics_snapshot(&self, options: SnapshotOptions<'_>) -> Result<Report> {
        if options.wait && options.timing.is_none() {
            return Err(Error::invalid("snapshot options", "wait needs a timer to wait for"));
        }
        let timing = options.timing.map(|timing| timing.execution(&self.inner, options.wait)).transpose()?;
        let collection = if options.collect_completed { Some(self.collection()?) } else { None };
        let allocation_diagnostics = options.allocation.map(|record| record.report(&self.inner)).transpose()?;
        let native_timeline = options.timing.and_then(|timing| timing.timeline(self));
        Ok(Report {
            schema_version: version::REPORT,
            route: ROUTE_DYNAMIC_OFFLOAD.into(),
            configuration: self.inner.configuration.clone(),
            setup: Setup::default(),
            runtime: Runtime {
                session_id: Some(self.inner.session_id.clone()),
                observed_monotonic_seconds: Some(Seconds(self.inner.clock.now().seconds())),
                state: self.inner.state_report.clone(),
                vmm: Some(Vmm { pass: pass(self), ..vmm(&self.inner, &self.inner.levels()) }),
                completion_collection: collection,
                execution_timing: timing,
                native_timeline,
                component_ownership: None,
                execution_auxiliary_ownership: None,
                allocation_diagnostics,
                operator_diagnostics: None,
            },
        })
    }

    fn collection(&self) -> Result<CompletionCollection> {
        let counts = self.collect()?;
        Ok(CompletionCollection {
            status: "collected".into(),
            blocking: false,
            tickets_before: Some(counts.before),
            tickets_after: Some(counts.after),
            tickets_retired: Some(counts.retired),
        })
    }
}

fn vmm(inner: &Inner, levels: &Levels) -> Vmm {
    let rows = source_rows(inner, levels);
    let SourceRows { ring, source_cache, source_timings, source_events, pressure, bridge, read_ahead } = rows;
    Vmm {
        reserved_bytes: Some(levels.arena.virtual_bytes),
        resident_bytes: Some(levels.arena.resident_bytes),
        materializations: Some(levels.arena.faults),
        evictions: Some(levels.arena.evictions),
        copied_bytes: count(&inner.counters.upload_bytes),
        arena: arena(inner, levels),
        admission: admission(inner, levels),
        buffers: buffers(inner, levels),
        uploads: uploads(inner),
        look_ahead: look_ahead(inner, levels, read_ahead),
        sources: sources(inner, levels),
        tickets: tickets(inner, levels),
        transport: transport(inner),
        bridge,
        ring,
        staging: staging(inner),
        source_cache,
        source_timings,
        source_events,
        pressure,
        views: views(inner),
        parts: if levels.slots.is_none() { parts(inner, levels) } else { VmmParts::default() },
        ..Vmm::default()
    }
}

pub(super) fn count(counter: &Counter) -> Option<u64> {
    Some(counter.get())
}

pub(super) fn seconds(scope: &HostScope) -> Option<Seconds> {
    Some(Seconds(scope.seconds()))
}

pub(super) fn calls(scope: &HostScope) -> Option<u64> {
    Some(scope.calls())
}

fn arena(inner: &Inner, levels: &Levels) -> Arena {
    Arena {
        fast_faults: Some(levels.arena.faults),
        fast_signature_hits: count(&inner.counters.signature_hits),
        fast_resident_bytes: Some(levels.arena.resident_bytes),
        fast_total_weight_resident_bytes: Some(levels.total_weight_resident_bytes()),
        fast_fault_ceiling_bytes: Some(levels.arena.ceiling_bytes),
        fast_virtual_bytes: Some(levels.arena.virtual_bytes),
        fast_page_bytes: Some(inner.facts.page_bytes),
        fast_arena_materialized_pages: Some(levels.arena.materialized_pages),
        fast_arena_reused_pages: Some(levels.arena.reused_pages),
        fast_arena_evicted_pages: Some(levels.arena.evicted_pages),
        fast_pinned_units: Some(levels.pinned_units),
        fast_quarantined_bytes: Some(levels.quarantined_bytes),
        ..Arena::default()
    }
}

fn admission(inner: &Inner, levels: &Levels) -> Admission {
    Admission {
        fast_fault_failures: count(&inner.counters.fault_failures),
        fast_capacity_admission_failures: count(&inner.counters.capacity_admission_failures),
        fast_cuda_admission_failures: count(&inner.counters.device_admission_failures),
        fast_guard_admission_failures: count(&inner.counters.reserve_admission_failures),
        fast_temporary_tensors: count(&inner.counters.temporary_tensors),
        fast_temporary_bytes: count(&inner.counters.temporary_bytes),
        fast_temporary_resident_bytes: Some(levels.temporaries.resident_bytes),
        fast_temporary_peak_bytes: Some(levels.temporaries.peak_bytes),
        fast_capacity_event_waits: count(&inner.counters.capacity_event_waits),
    }
}

fn buffers(inner: &Inner, levels: &Levels) -> Buffers {
    Buffers {
        fast_execution_buffer_uploads: count(&inner.counters.stream_uploads),
        fast_execution_buffer_bytes: count(&inner.counters.stream_bytes),
        fast_execution_buffer_capacity_bytes: Some(levels.stream_bytes),
        fast_execution_buffer_resident_bytes: Some(levels.stream_resident_bytes),
        fast_execution_buffer_slots: levels.slots.map(|(count, _)| count),
        fast_execution_buffer_slot_bytes: levels.slots.map(|(_, bytes)| bytes),
        fast_component_lifetime_capacity_bytes: levels.lifetime.map(|(capacity, _)| capacity),
        fast_component_lifetime_resident_bytes: levels.lifetime.map(|(_, resident)| resident),
    }
}

fn uploads(inner: &Inner) -> Uploads {
    Uploads {
        fast_uploads: count(&inner.counters.uploads),
        fast_file_uploads: count(&inner.counters.file_uploads),
        fast_upload_bytes: count(&inner.counters.upload_bytes),
        fast_dma_enqueue_seconds: seconds(&inner.counters.dma_enqueue),
        fast_dma_enqueue_bytes: count(&inner.counters.enqueue_bytes),
        fast_compute_wait_events: count(&inner.counters.compute_wait_events),
        fast_upload_stream_enter_seconds: seconds(&inner.counters.upload_stream.enter),
        fast_upload_stream_body_seconds: seconds(&inner.counters.upload_stream.body),
        fast_upload_stream_exit_seconds: seconds(&inner.counters.upload_stream.exit),
        fast_upload_stream_scope_calls: calls(&inner.counters.upload_stream.body),
    }
}

fn look_ahead(inner: &Inner, levels: &Levels, read_ahead: LookAhead) -> LookAhead {
    LookAhead {
        fast_gpu_prefetch_units: count(&inner.counters.ahead_units),
        fast_gpu_prefetch_hits: count(&inner.counters.ahead_hits),
        fast_gpu_prefetch_capacity_skips: count(&inner.counters.ahead_skips),
        fast_gpu_prefetch_cancelled_units: count(&inner.counters.ahead_cancelled),
        fast_gpu_prefetch_in_flight_units: Some(levels.ahead_in_flight),
        fast_execution_plan_passes: Some(levels.passes),
        fast_execution_plan_mismatches: Some(levels.mismatches),
        ..read_ahead
    }
}

fn sources(inner: &Inner, levels: &Levels) -> Sources {
    let counters = &inner.counters;
    let kind = inner.sources.kind();
    let mapped = kind == SourceKind::Mapped;
    let file_bytes = counters.file_upload_bytes.get();
    let memory_bytes = counters.upload_bytes.get() - file_bytes;
    // Where some bytes pass through the ring, the others are counted where they are queued.
    let direct = |supply: &std::sync::Mutex<crate::transfer::Supply>| lock_supply(supply).book().mapped_bytes.get();
    let mapped_bytes = inner.supply.as_ref().map_or(counters.file_enqueue_bytes.get(), direct);
    let cpu_dma = if kind == SourceKind::Cpu { counters.upload_bytes.get() } else { memory_bytes };
    let registrar = inner.registrar.as_deref();
    let cpu_source = kind == SourceKind::Cpu || inner.bindings.memory > 0;
    Sources {
        fast_file_backed_bindings: Some(inner.bindings.file),
        fast_file_backed_bytes: Some(inner.bindings.file_bytes),
        fast_cpu_source_bindings: Some(inner.bindings.memory),
        fast_cpu_source_bytes: Some(inner.bindings.memory_bytes),
        fast_cpu_source_dma_bytes: cpu_source.then_some(cpu_dma),
        fast_cpu_source_registered_bytes: (kind == SourceKind::Cpu).then_some(levels.pinned_bytes),
        fast_mapped_source_mapped_bytes: mapped.then(|| inner.sources.mapped_bytes()),
        fast_mapped_source_registered_bytes: mapped.then_some(levels.registered_bytes),
        fast_mapped_source_registration_waiting_bytes: registrar.map(|registrar| registrar.levels().waiting_bytes),
        fast_mapped_source_registration_refusals: registrar.map(|registrar| u64::from(registrar.levels().refused)),
        fast_mapped_source_registration_seconds: registrar.and_then(|registrar| seconds(registrar.scope())),
        fast_mapped_source_registration_calls: registrar.and_then(|registrar| calls(registrar.scope())),
        fast_mapped_source_dma_bytes: mapped.then_some(mapped_bytes),
    }
}

fn tickets(inner: &Inner, levels: &Levels) -> Tickets {
    Tickets {
        fast_transfer_batch_submissions: count(&inner.counters.batch_submissions),
        fast_transfer_copies: count(&inner.counters.copies),
        fast_transfer_live_tickets: Some(levels.live_tickets),
        fast_transfer_owned_events: Some(levels.events.owned),
        fast_transfer_pooled_events: Some(levels.events.idle),
        fast_transfer_events_created: Some(levels.events.created),
        fast_transfer_events_reused: Some(levels.events.reused),
    }
}

/// Left out on the plain staging path, which has no native transport.
fn transport(inner: &Inner) -> Transport {
    if inner.staged.is_some() {
        return Transport::default();
    }
    Transport {
        fast_native_transport_batch_transport_total_seconds: seconds(&inner.counters.transport_total),
        fast_native_transport_batch_transport_total_calls: calls(&inner.counters.transport_total),
        fast_native_transport_batch_transport_prepare_seconds: seconds(&inner.counters.transport_prepare),
        fast_native_transport_batch_transport_prepare_calls: calls(&inner.counters.transport_prepare),
        fast_native_transport_batch_transport_create_seconds: seconds(&inner.counters.transport_create),
        fast_native_transport_batch_transport_create_calls: calls(&inner.counters.transport_create),
        fast_native_transport_batch_transport_submit_seconds: seconds(&inner.counters.transport_submit),
        fast_native_transport_batch_transport_submit_calls: calls(&inner.counters.transport_submit),
        fast_native_transport_source_prepare_seconds: inner.supply.as_ref().and(seconds(&inner.counters.source_prepare)),
        fast_native_transport_source_prepare_calls: inner.supply.as_ref().and(calls(&inner.counters.source_prepare)),
    }
}

/// What attaching did for views; zero where none were asked for.
fn views(inner: &Inner) -> Views {
    let ViewScopes { prepare, create, release } = &inner.counters.views;
    Views {
        fast_view_prepare_calls: calls(prepare),
        fast_view_prepare_seconds: seconds(prepare),
        fast_view_create_calls: calls(create),
        fast_view_create_seconds: seconds(create),
        fast_view_release_calls: calls(release),
        fast_view_release_seconds: seconds(release),
    }
}

/// The rows of the forecast: there from the start where a pass is to be measured.
fn pass(offload: &Offload) -> VmmPass {
    if !offload.inner.rules.learns {
        return VmmPass::default();
    }
    let forecast = offload.pass_forecast();
    let seconds = |of: fn(&PassForecast) -> Option<f64>| Some(Nullable(forecast.as_ref().and_then(of).map(Seconds)));
    VmmPass {
        fast_pass_work_seconds: seconds(|forecast| Some(forecast.work_seconds)),
        fast_pass_link_bytes_per_second: Some(Nullable(forecast.map(|forecast| forecast.link_bytes_per_second))),
        fast_pass_must_stream_bytes: Some(offload.must_stream_bytes()),
        fast_pass_floor_seconds: seconds(|forecast| Some(forecast.floor_seconds)),
        fast_pass_predicted_step_seconds: seconds(|forecast| forecast.step_seconds),
    }
}

/// The rows of the stream ring.
fn parts(inner: &Inner, levels: &Levels) -> VmmParts {
    let counters = &inner.counters;
    VmmParts {
        fast_stream_ring_bytes: Some(levels.stream_bytes),
        fast_stream_ring_restarts: count(&counters.ring_restarts),
        fast_part_uploads: count(&counters.part_uploads),
        fast_part_releases: count(&counters.part_releases),
        fast_part_prefetch_parts: count(&counters.ahead_parts),
        fast_part_prefetch_hits: count(&counters.ahead_part_hits),
        fast_part_prefetch_cancelled_parts: count(&counters.ahead_cancelled_parts),
        fast_part_prefetch_in_flight_parts: Some(levels.ahead_parts_in_flight),
        fast_gpu_prefetch_partial_units: count(&counters.ahead_partial_units),
    }
}
