//! The head of a profile: "What was it, and what was set up?"
//!
//! Uses `document`. Invariant: sizes from metadata are never called memory in use.

use super::document::{Document, Form, Line};
use crate::run::{Scalar, shorten};

/// Version, route and where the document lies.
pub(super) fn head(document: &Document<'_>, lines: &mut Vec<String>) {
    let schema = document.told("schema_version", Form::Plain);
    let route = document.told("route", Form::Plain);
    lines.push(format!("schema={schema} route={route}"));
    let (what, caveat) = match document.report {
        Some(_) => ("report", ""),
        None => ("record", " (a step boundary; what was submitted need not be finished)"),
    };
    lines.push(format!("{what}={} component={}{caveat}", shorten(document.file), shorten(&document.component.name)));
}

/// Observations of the routes beside execution.
pub(super) fn helpers(document: &Document<'_>, lines: &mut Vec<String>) {
    Line::new(document, "auxiliary_source_detachment")
        .bare("setup.auxiliary_source_detachment.status")
        .pair("copied_bytes", "setup.auxiliary_source_detachment.copied_bytes", Form::Plain)
        .end("payload that was cloned; it does not show that memory came back", lines);
    Line::new(document, "host_memory")
        .bare("setup.host_memory.status")
        .pair("phase", "setup.host_memory.phase", Form::Plain)
        .pair("private_bytes", "setup.host_memory.host.process_private_bytes", Form::Plain)
        .optional("rss_bytes", "setup.host_memory.host.process_rss_bytes", Form::Plain)
        .pair("cpu_storage_bytes", "setup.host_memory.cpu_storages.unique_storage_bytes", Form::Plain)
        .end("samples one after the other, not one instant; they overlap and do not add up", lines);
    Line::new(document, "host_cache_release")
        .bare("setup.host_cache_release.status")
        .pair("phase", "setup.host_cache_release.phase", Form::Plain)
        .pair("allocator_bytes_delta", "setup.host_cache_release.allocator_bytes_delta", Form::Plain)
        .end("blocks the allocator owns, before minus after; not what the system got back", lines);
    Line::new(document, "device_cache_release")
        .bare("setup.device_cache_release.status")
        .pair("phase", "setup.device_cache_release.phase", Form::Plain)
        .optional("trim_executed", "setup.device_cache_release.trim_executed", Form::Plain)
        .end("", lines);
    Line::new(document, "weight_source")
        .bare("setup.weight_source.resolver")
        .pair("bound", "setup.weight_source.bound", Form::Plain)
        .pair("available", "setup.weight_source.available", Form::Plain)
        .pair("rejected", "setup.weight_source.rejected_storage_groups", Form::Plain)
        .optional("missing", "setup.weight_source.missing_storage_groups", Form::Plain)
        .end("checkpoint ranges matched after loading; not a native attachment", lines);
    capacity(document, lines);
}

fn capacity(document: &Document<'_>, lines: &mut Vec<String>) {
    const INSPECTION: &str = "setup.capacity_inspection";
    let path = |name: &str| format!("{INSPECTION}.{name}");
    Line::new(document, "component_capacity")
        .bare(&path("observation"))
        .end("sizes from metadata; nothing was allocated or admitted", lines);
    Line::new(document, "component_selection")
        .optional("selected_modules", &path("selected_module_count"), Form::Plain)
        .optional("aligned_payload_gib", &path("selected_aligned_payload_bytes"), Form::Gib)
        .optional("nonselected_gib", &path("nonselected_unique_parameter_bytes"), Form::Gib)
        .optional("shared_owner_gib", &path("shared_selected_nonselected_bytes"), Form::Gib)
        .end("", lines);
    let path = |name: &str| format!("setup.component_capacity.{name}");
    Line::new(document, "component_preflight")
        .bare(&path("observation"))
        .optional("parameters", &path("parameter_groups"), Form::Plain)
        .optional("units", &path("execution_units"), Form::Plain)
        .optional("payload_gib", &path("payload_bytes"), Form::Gib)
        .optional("slots", &path("execution_slot_count"), Form::Plain)
        .optional("slots_total_gib", &path("execution_slot_total_payload_bytes"), Form::Gib)
        .end("geometry of the classic slots; no device was asked", lines);
}

/// The component as it was attached.
pub(super) fn component(document: &Document<'_>, lines: &mut Vec<String>) {
    let setting = |name: &str| format!("configuration.{name}");
    let told = |name: &str| document.told(&setting(name), Form::Plain);
    let known = |name: &str| document.get(&setting(name)).is_some();
    if known("dynamic_offload_requested_preset") || known("dynamic_offload_effective_preset") {
        lines.push(format!(
            "preset={} -> {} mode={}",
            told("dynamic_offload_requested_preset"),
            told("dynamic_offload_effective_preset"),
            told("dynamic_offload_execution_mode")
        ));
    } else if known("dynamic_offload_execution_mode") {
        let effective = document.told("runtime.state.planner_decisions.vmm_effective_source", Form::Plain);
        lines.push(format!(
            "mode={} driver={} residency_mode={} source={} -> {effective}",
            told("dynamic_offload_execution_mode"),
            told("driver"),
            told("residency_mode"),
            told("requested_source"),
        ));
    }
    ownership(document, lines);
    let state = |name: &str| {
        let of = |root: &str| format!("{root}.{name}");
        let runtime = of("runtime.state");
        if document.get(&runtime).is_some() { runtime } else { of("setup") }
    };
    Line::new(document, "modules")
        .bare(&state("module_count"))
        .optional("patched", &state("patched_module_count"), Form::Plain)
        .pair("total_gb", &state("total_gb"), Form::InGib)
        .end("", lines);
    let pinning = |name: &str| state(&format!("sdnq_parameter_pinning.{name}"));
    let counted = |name: &str| document.get(&pinning(name)).is_some_and(|value| value != Scalar::U64(0));
    // Older reports say zero also where nothing was looked at.
    if counted("pinned_count") || counted("unpinned_count") {
        Line::new(document, "sdnq_cpu_parameters")
            .pair("pinned", &pinning("pinned_count"), Form::Plain)
            .pair("pinned_gb", &pinning("pinned_gb"), Form::InGib)
            .pair("unpinned", &pinning("unpinned_count"), Form::Plain)
            .pair("unpinned_gb", &pinning("unpinned_gb"), Form::InGib)
            .end("packed payload on the host; storage that two objects share counts twice", lines);
    }
}

fn ownership(document: &Document<'_>, lines: &mut Vec<String>) {
    let path = |name: &str| format!("runtime.component_ownership.{name}");
    Line::new(document, "experimental_component_ownership")
        .optional("parameters", &path("parameter_groups"), Form::Plain)
        .optional("buffers", &path("buffer_groups"), Form::Plain)
        .optional("buffer_bytes", &path("buffer_bytes"), Form::Plain)
        .optional("units", &path("execution_units"), Form::Plain)
        .optional("lookahead", &path("lookahead"), Form::Plain)
        .end("experimental; what was attached, not memory in use", lines);
    let path = |name: &str| format!("runtime.execution_auxiliary_ownership.{name}");
    Line::new(document, "execution_auxiliary_ownership")
        .optional("parameters", &path("parameter_groups"), Form::Plain)
        .optional("parameter_bytes", &path("parameter_bytes"), Form::Plain)
        .optional("budget", &path("budget_policy"), Form::Plain)
        .optional("small_tensor_threshold_bytes", &path("preserved_small_tensor_threshold_bytes"), Form::Plain)
        .end("payload before alignment, admitted under the ordinary ceiling; no second budget", lines);
}
