//! All field rows: "What is this number?"

use crate::field::Field;
use crate::section::Section;
use crate::sections::vmm;
use crate::{
    check, deltas, journal, manifest, memory, reconciliation, report, sections, settings, summary, timeline, tracker, verdict,
};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// One expanded row: a concrete path and its declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Path from the root of the document; `[]` is a list item, `*` a free key.
    pub path: String,
    /// The declaration.
    pub field: &'static Field,
}

/// A section with its title, for tables.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Heading.
    pub title: &'static str,
    /// The rows, as declared.
    pub fields: &'static [Field],
}

/// Sections in the order in which a reader meets them.
pub const TABLES: &[Table] = &[
    Table { title: "Report", fields: report::Report::FIELDS },
    Table { title: "Configuration", fields: sections::Configuration::FIELDS },
    Table { title: "Configuration: mapped route of the Python package", fields: sections::PackageVmmSettings::FIELDS },
    Table { title: "Configuration: pinning of the Python package", fields: sections::PackagePinSettings::FIELDS },
    Table { title: "Configuration: budgets of the Python package", fields: sections::PackageBudgetSettings::FIELDS },
    Table { title: "Configuration: helper routes", fields: sections::HelperSettings::FIELDS },
    Table { title: "Setup", fields: sections::Setup::FIELDS },
    Table { title: "Setup: weight source", fields: sections::WeightSource::FIELDS },
    Table { title: "Setup: checkpoint headers", fields: sections::WeightSourceHeader::FIELDS },
    Table { title: "Setup: capacity inspection", fields: sections::CapacityInspection::FIELDS },
    Table { title: "Setup: selected modules", fields: sections::SelectedModule::FIELDS },
    Table { title: "Setup: inspected parameters", fields: sections::InspectedParameter::FIELDS },
    Table { title: "Setup: inspected buffers", fields: sections::InspectedBuffer::FIELDS },
    Table { title: "Setup: component capacity", fields: sections::ComponentCapacity::FIELDS },
    Table { title: "Setup: units of the component", fields: sections::CapacityUnit::FIELDS },
    Table { title: "Setup: host memory", fields: sections::HostMemory::FIELDS },
    Table { title: "Setup: host sample", fields: sections::HostSample::FIELDS },
    Table { title: "Setup: host storages", fields: sections::CpuStorages::FIELDS },
    Table { title: "Setup: largest storages", fields: sections::StorageSample::FIELDS },
    Table { title: "Setup: tensors of a storage", fields: sections::StorageExample::FIELDS },
    Table { title: "Setup: host cache release", fields: sections::HostCacheRelease::FIELDS },
    Table { title: "Setup: host allocator", fields: sections::HostAllocator::FIELDS },
    Table { title: "Setup: device cache release", fields: sections::DeviceCacheRelease::FIELDS },
    Table { title: "Setup: source detachment", fields: sections::SourceDetachment::FIELDS },
    Table { title: "Setup: quantised backend", fields: sections::QuantizedBackend::FIELDS },
    Table { title: "Runtime", fields: report::Runtime::FIELDS },
    Table { title: "State", fields: sections::State::FIELDS },
    Table { title: "Setup actions", fields: sections::SetupAction::FIELDS },
    Table { title: "Planner decisions", fields: sections::PlannerDecisions::FIELDS },
    Table { title: "Planner decisions: mapped route of the Python package", fields: sections::PackageVmmDecisions::FIELDS },
    Table { title: "Planner decisions: budgets of the Python package", fields: sections::PackageBudgetDecisions::FIELDS },
    Table { title: "State of the Python package", fields: sections::PackageState::FIELDS },
    Table { title: "State: placement", fields: sections::BytesByPlacement::FIELDS },
    Table { title: "State: copy paths", fields: sections::CopyPath::FIELDS },
    Table { title: "State: quantised parameters", fields: sections::SdnqPinning::FIELDS },
    Table { title: "State: tensors", fields: sections::StateEntry::FIELDS },
    Table { title: "Component ownership", fields: sections::ComponentOwnership::FIELDS },
    Table { title: "Execution auxiliary ownership", fields: sections::ExecutionAuxiliaryOwnership::FIELDS },
    Table { title: "Offload runtime", fields: sections::Vmm::FIELDS },
    Table { title: "Offload runtime: arena", fields: vmm::Arena::FIELDS },
    Table { title: "Offload runtime: admission", fields: vmm::Admission::FIELDS },
    Table { title: "Offload runtime: slots and lifetime buffer", fields: vmm::Buffers::FIELDS },
    Table { title: "Offload runtime: uploads", fields: vmm::Uploads::FIELDS },
    Table { title: "Offload runtime: look-ahead", fields: vmm::LookAhead::FIELDS },
    Table { title: "Offload runtime: sources", fields: vmm::Sources::FIELDS },
    Table { title: "Offload runtime: tickets", fields: vmm::Tickets::FIELDS },
    Table { title: "Offload runtime: batch transport", fields: vmm::Transport::FIELDS },
    Table { title: "Offload runtime: library bridge", fields: vmm::Bridge::FIELDS },
    Table { title: "Offload runtime: native ring", fields: vmm::Ring::FIELDS },
    Table { title: "Offload runtime: staging", fields: vmm::Staging::FIELDS },
    Table { title: "Offload runtime: view setup", fields: vmm::Views::FIELDS },
    Table { title: "Offload runtime: source cache", fields: vmm::SourceCache::FIELDS },
    Table { title: "Offload runtime: source cache timings", fields: vmm::SourceTimings::FIELDS },
    Table { title: "Offload runtime: source cache events", fields: vmm::SourceEvents::FIELDS },
    Table { title: "Offload runtime: source cache pressure", fields: vmm::Pressure::FIELDS },
    Table { title: "Offload runtime: allocator pool", fields: vmm::AllocatorPool::FIELDS },
    Table { title: "Offload runtime: allocator", fields: vmm::Allocator::FIELDS },
    Table { title: "Offload runtime: parts", fields: sections::VmmParts::FIELDS },
    Table { title: "Offload runtime: forecast of a pass", fields: sections::VmmPass::FIELDS },
    Table { title: "Completion collection", fields: sections::CompletionCollection::FIELDS },
    Table { title: "Execution timing", fields: sections::ExecutionTiming::FIELDS },
    Table { title: "Execution timing: step waits", fields: sections::StepWait::FIELDS },
    Table { title: "Native timeline", fields: timeline::NativeTimeline::FIELDS },
    Table { title: "Timeline samples", fields: timeline::Sample::FIELDS },
    Table { title: "Window summaries", fields: timeline::WindowSummary::FIELDS },
    Table { title: "Window unions", fields: timeline::UnionSeconds::FIELDS },
    Table { title: "Allocation diagnostics", fields: sections::AllocationDiagnostics::FIELDS },
    Table { title: "Allocation diagnostics: steps", fields: sections::AllocationStep::FIELDS },
    Table { title: "Allocation diagnostics: driver counters", fields: sections::DriverDelta::FIELDS },
    Table { title: "Operator diagnostics", fields: sections::OperatorDiagnostics::FIELDS },
    Table { title: "Operator diagnostics: samples", fields: sections::OperatorSample::FIELDS },
    Table { title: "Operator diagnostics: rows", fields: sections::OperatorRow::FIELDS },
    Table { title: "Journal record", fields: journal::JournalRecord::FIELDS },
    Table { title: "Tracker", fields: tracker::Tracker::FIELDS },
    Table { title: "Tracker: monitor", fields: tracker::MonitorSetup::FIELDS },
    Table { title: "Tracker: phases", fields: tracker::TrackedPhase::FIELDS },
    Table { title: "Tracker: monitor of a phase", fields: tracker::PhaseMonitor::FIELDS },
    Table { title: "Tracker: generations", fields: tracker::GenerationObservation::FIELDS },
    Table { title: "Settings", fields: settings::Settings::FIELDS },
    Table { title: "Manifest", fields: manifest::Manifest::FIELDS },
    Table { title: "Manifest: clocks", fields: manifest::Clocks::FIELDS },
    Table { title: "Manifest: machine", fields: manifest::Machine::FIELDS },
    Table { title: "Manifest: devices", fields: manifest::Gpu::FIELDS },
    Table { title: "Manifest: limits", fields: manifest::Limits::FIELDS },
    Table { title: "Manifest: ranks", fields: manifest::Ranks::FIELDS },
    Table { title: "Manifest: baseline", fields: manifest::Baseline::FIELDS },
    Table { title: "Manifest seal", fields: manifest::ManifestEnd::FIELDS },
    Table { title: "Memory sample", fields: memory::MemorySample::FIELDS },
    Table { title: "Host event", fields: memory::HostEvent::FIELDS },
    Table { title: "Summary", fields: summary::Summary::FIELDS },
    Table { title: "Summary: run", fields: summary::RunSummary::FIELDS },
    Table { title: "Summary: steps", fields: summary::StepsSummary::FIELDS },
    Table { title: "Summary: floor", fields: summary::FloorTerms::FIELDS },
    Table { title: "Reconciliation", fields: reconciliation::Reconciliation::FIELDS },
    Table { title: "Reconciliation: scopes", fields: reconciliation::ReconciledScope::FIELDS },
    Table { title: "Reconciliation: headline", fields: reconciliation::Headline::FIELDS },
    Table { title: "Deltas", fields: deltas::Deltas::FIELDS },
    Table { title: "Deltas: rows", fields: deltas::DeltaRow::FIELDS },
    Table { title: "Checks", fields: check::Check::FIELDS },
    Table { title: "Checks: results", fields: check::CheckResult::FIELDS },
    Table { title: "Verdict", fields: verdict::VerdictDocument::FIELDS },
    Table { title: "Verdict: differences", fields: verdict::DifferingField::FIELDS },
    Table { title: "Verdict: runs", fields: verdict::ComparedRuns::FIELDS },
    Table { title: "Verdict: metrics", fields: verdict::ComparedMetric::FIELDS },
    Table { title: "Verdict: diagnostic changes", fields: verdict::DiagnosticChange::FIELDS },
    Table { title: "Verdict: effects", fields: verdict::EffectSize::FIELDS },
];

/// Structures that stand in several places: where the fields are declared, and every place.
pub const PLACES: &[(&str, &[&str])] = &[
    ("runtime.native_timeline.*", &["runtime.native_timeline.window_summary", "runtime.native_timeline.warm_window_summary"]),
    (
        "runtime.allocation_diagnostics.total_delta",
        &["runtime.allocation_diagnostics.total_delta", "runtime.allocation_diagnostics.steps[].driver_delta"],
    ),
    (
        "runtime.operator_diagnostics.samples[].top_host[]",
        &[
            "runtime.operator_diagnostics.samples[].top_host[]",
            "runtime.operator_diagnostics.samples[].top_device[]",
            "runtime.operator_diagnostics.samples[].child_ranges[]",
        ],
    ),
    (
        "setup.host_memory.host",
        &[
            "setup.host_memory.host",
            "setup.host_cache_release.host_before",
            "setup.host_cache_release.host_after",
            "setup.auxiliary_source_detachment.host_before",
            "setup.auxiliary_source_detachment.host_after",
        ],
    ),
    ("setup.host_cache_release.before", &["setup.host_cache_release.before", "setup.host_cache_release.after"]),
];

/// Fields that the Python package repeats in `setup`: where they are declared, and the name there. What lies below goes along.
pub const COPIES: &[(&str, &str)] = &[
    ("runtime.state.module_count", "setup.module_count"),
    ("runtime.state.patched_module_count", "setup.patched_module_count"),
    ("runtime.state.total_gb", "setup.total_gb"),
    ("runtime.state.bytes_by_placement", "setup.bytes_by_placement"),
    ("runtime.state.setup_runtime", "setup.setup_runtime"),
    ("runtime.state.planner_decisions", "setup.planner_decisions"),
    ("runtime.state.sdnq_parameter_pinning", "setup.sdnq_parameter_pinning"),
    ("runtime.state.resolved_resident_module_patterns", "setup.resolved_resident_module_patterns"),
    ("configuration.dynamic_offload_execution_mode", "setup.execution_mode"),
    ("configuration.dynamic_offload_effective_pin_cpu_memory", "setup.pin_cpu_memory"),
    ("configuration.dynamic_offload_allow_pin_memory_fallback", "setup.allow_pin_memory_fallback"),
    ("configuration.dynamic_offload_auto_budget_policy", "setup.auto_budget_policy"),
    ("configuration.dynamic_offload_auto_full_pin_min_model_to_vram_ratio", "setup.auto_full_pin_min_model_to_vram_ratio"),
    ("configuration.dynamic_offload_available_system_ram_gb", "setup.available_system_ram_gb"),
    ("configuration.dynamic_offload_cache_pinned_weights", "setup.cache_pinned_weights"),
    ("configuration.dynamic_offload_cache_plan", "setup.cache_plan"),
    ("configuration.dynamic_offload_load_safetensors_backend", "setup.load_safetensors_backend"),
    ("configuration.dynamic_offload_max_pin_weight_budget_gb", "setup.max_pin_weight_budget_gb"),
    ("configuration.dynamic_offload_max_resident_module_budget_gb", "setup.max_resident_module_budget_gb"),
    ("configuration.dynamic_offload_pin_weight_budget_gb", "setup.pin_weight_budget_gb"),
    ("configuration.dynamic_offload_pin_weight_budget_ratio", "setup.pin_weight_budget_ratio"),
    ("configuration.dynamic_offload_pin_weight_selection", "setup.pin_weight_selection"),
    ("configuration.dynamic_offload_pinned_weight_cache_namespace", "setup.pinned_weight_cache_namespace"),
    ("configuration.dynamic_offload_profile_resident_module_budget_gb", "setup.profile_resident_module_budget_gb"),
    ("configuration.dynamic_offload_system_ram_headroom_gb", "setup.system_ram_headroom_gb"),
];

/// Keys that no declaration can list.
#[derive(Clone, Copy, Debug)]
pub struct FreeKeys {
    /// The path; its last `*` stands for the free key.
    pub path: &'static str,
    /// Who chooses the keys.
    pub reason: &'static str,
}

/// Every place with free keys. Where rows stand below such a key, only they are declared; elsewhere all that lies below is free.
pub const FREE_KEYS: &[FreeKeys] = &[
    FreeKeys { path: "configuration.dynamic_offload_component_policies.*", reason: "the host names its components" },
    FreeKeys { path: "runtime.state.setup_runtime.*", reason: "each route names its setup actions" },
    FreeKeys { path: "setup.setup_runtime.*", reason: "each route names its setup actions" },
    FreeKeys { path: "runtime.state.copy_runtime.*", reason: "a copy path is named after its module" },
    FreeKeys { path: "runtime.native_timeline.execution_units.*", reason: "unit numbers mean something in one run only" },
    FreeKeys { path: "setup.device_cache_release.before.*", reason: "the native library lists its own counters" },
    FreeKeys { path: "setup.device_cache_release.after.*", reason: "the native library lists its own counters" },
    FreeKeys {
        path: "setup.device_cache_release.pool_before_cublas_clear.*",
        reason: "the native library lists its own counters",
    },
    FreeKeys {
        path: "tracker.generation_observations[].ddo_report.*",
        reason: "a whole report, whose rows begin at its own root",
    },
];

/// Every row, in the order of [`TABLES`].
pub fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| TABLES.iter().flat_map(|table| table.fields).flat_map(expand).collect())
}

fn expand(field: &'static Field) -> Vec<Row> {
    let below = |prefix: &str| field.path.strip_prefix(prefix).filter(|rest| rest.starts_with('.'));
    let row = |path: String| Row { path, field };
    for (declared, places) in PLACES {
        if let Some(rest) = below(declared) {
            return places.iter().map(|place| row(format!("{place}{rest}"))).collect();
        }
    }
    let copy = |(declared, place): &(&str, &str)| {
        let rest = if field.path == *declared { Some("") } else { below(declared) };
        rest.map(|rest| row(format!("{place}{rest}")))
    };
    std::iter::once(row(field.path.to_string())).chain(COPIES.iter().filter_map(copy)).collect()
}

/// Finds a row by the path of a leaf in a document.
///
/// List positions are written `[]` or `[3]`; an item of a list of plain values has the row of its list. Keys under a free key
/// match its `*`, dots in them included.
pub fn find(path: &str) -> Option<&'static Row> {
    static INDEX: OnceLock<BTreeMap<&'static str, &'static Row>> = OnceLock::new();
    let index = INDEX.get_or_init(|| rows().iter().map(|row| (row.path.as_str(), row)).collect());
    let normal = normalise(path);
    let plain = normal.strip_suffix("[]").unwrap_or(&normal);
    let exact = index.get(normal.as_str()).or_else(|| index.get(plain)).copied();
    exact.or_else(|| patterns().iter().find(|row| matches_free_keys(&row.path, plain)).copied())
}

/// Rows below a free key.
fn patterns() -> &'static [&'static Row] {
    static PATTERNS: OnceLock<Vec<&'static Row>> = OnceLock::new();
    PATTERNS.get_or_init(|| rows().iter().filter(|row| row.path.contains('*')).collect())
}

/// True for a leaf that has no row because its key is free.
pub fn is_free(path: &str) -> bool {
    let normal = normalise(path);
    let open = |keys: &&FreeKeys| !patterns().iter().any(|row| row.path.starts_with(keys.path));
    FREE_KEYS.iter().filter(open).any(|keys| matches_free_keys(keys.path, &normal))
}

/// Rows whose path ends in the given name, for look-ups by short name.
pub fn find_by_suffix(name: &str) -> Vec<&'static Row> {
    let dotted = format!(".{name}");
    rows().iter().filter(|row| row.path.ends_with(&dotted) || row.path == name).collect()
}

fn normalise(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut in_brackets = false;
    for c in path.chars() {
        match c {
            '[' => {
                in_brackets = true;
                out.push('[');
            }
            ']' => {
                in_brackets = false;
                out.push(']');
            }
            c if in_brackets && c.is_ascii_digit() => {}
            c => out.push(c),
        }
    }
    out
}

/// Compares part by part; a `*` takes one part or more, since a key may hold dots.
fn matches_free_keys(pattern: &str, path: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == path };
    let Some(rest) = path.strip_prefix(before) else { return false };
    let ends = rest.match_indices('.').map(|(at, _)| at).chain([rest.len()]);
    ends.filter(|at| *at > 0).any(|at| rest.get(at..).is_some_and(|tail| matches_free_keys(after, tail)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_path_is_declared_once_and_every_row_says_something() {
        let mut paths = BTreeSet::new();
        for row in rows() {
            assert!(paths.insert(row.path.as_str()), "{} is declared twice", row.path);
            assert!(row.field.meaning.len() > 5 && row.field.action.len() > 5, "{} says nothing", row.path);
        }
    }

    #[test]
    fn look_up_knows_list_items_and_free_keys() {
        assert!(find("runtime.native_timeline.samples[17].start_seconds").is_some());
        assert!(find("runtime.state.setup_runtime.vmm_fast_plan_metadata.seconds").is_some());
        assert!(find("runtime.native_timeline.warm_window_summary.union_seconds.upload_batch_window").is_some());
        assert!(find("runtime.vmm.fast_nonsense").is_none());
        assert_eq!(find_by_suffix("fast_faults").len(), 1);
    }

    #[test]
    fn a_structure_in_several_places_is_declared_once() {
        let total = find("runtime.allocation_diagnostics.total_delta.map_calls").expect("declared");
        let step = find("runtime.allocation_diagnostics.steps[3].driver_delta.map_calls").expect("the same");
        assert!(std::ptr::eq(total.field, step.field) && total.path != step.path);
        let state = find("runtime.state.planner_decisions.candidate_weight_gb").expect("declared");
        assert!(std::ptr::eq(state.field, find("setup.planner_decisions.candidate_weight_gb").expect("a copy").field));
        assert!(find("setup.module_count_of_nothing").is_none() && find("setup.pin_cpu_memory").is_some());
        assert_eq!(rows().iter().filter(|row| row.path.ends_with(".process_rss_bytes")).count(), 5);
    }

    #[test]
    fn keys_with_dots_and_items_of_plain_lists_have_rows() {
        let copy = find("runtime.state.copy_runtime.vmm:transformer_blocks.0.attn:bias.calls").expect("a copy path");
        assert_eq!(copy.path, "runtime.state.copy_runtime.*.calls");
        assert_eq!(
            find("runtime.execution_timing.step_seconds[2]").expect("a list").path,
            "runtime.execution_timing.step_seconds"
        );
        assert!(!is_free("runtime.state.copy_runtime.linear_weight.nonsense"), "its rows are declared");
        assert!(is_free("runtime.native_timeline.execution_units.281470681743360"));
        assert!(is_free("tracker.generation_observations[0].ddo_report.runtime.vmm.fast_faults"));
        assert!(!is_free("tracker.generation_observations[0].ddo_report") && !is_free("runtime.vmm.fast_nonsense"));
    }

    #[test]
    fn every_free_key_is_named_with_its_reason() {
        for row in rows().iter().filter(|row| row.path.contains('*')) {
            let named = FREE_KEYS.iter().any(|keys| row.path.starts_with(keys.path));
            assert!(named, "{} has a free key that FREE_KEYS does not name", row.path);
        }
        for keys in FREE_KEYS {
            let holder = keys.path.strip_suffix(".*").expect("a key at the end");
            assert!(rows().iter().any(|row| row.path == holder), "{} has no row", keys.path);
            assert!(keys.reason.len() > 15, "{}", keys.path);
        }
    }
}
