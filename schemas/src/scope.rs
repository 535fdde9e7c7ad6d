//! The tree of nested host scopes, as data: "Which time lies inside which?"
//!
//! Uses nothing but text; the catalogue tests that every path named here has a row. Invariants: a scope has one place in
//! [`SCOPES`], parents come before their children, there are no cycles. Nothing here adds times up: a reader may subtract
//! [`Nature::Contains`] children from their parent, and no others.

use serde::Serialize;

/// How a scope lies in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    /// All of its time is also time of the parent.
    Contains,
    /// It belongs to the parent but also runs elsewhere (collection, preparation, cleanup); exceeding the parent is no
    /// defect.
    PartlyOutside,
    /// Both share time that cannot be told apart; neither is ever subtracted from the other.
    Overlaps,
    /// It lies inside, beside children that already account for its time: shown, never added or subtracted.
    ShownOnly,
}

/// When a relation holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// Whenever both times are there.
    Always,
    /// Units are uploaded as batches: from a retained source, or from mapped files.
    Batched,
    /// Uploads go through the native ring without batches.
    Ring,
    /// Only uploads into the admitted model arena pass through; those into slots do not.
    ArenaUploads,
    /// Sources of a unit are prepared ahead by a call of their own.
    SourcePrepared,
    /// Sources are first touched by the upload itself.
    NotSourcePrepared,
    /// Uploads pass through the ring inside submissions of a retained source.
    SourceThroughRing,
    /// Uploads pass through the ring as batches, without a retained source.
    BatchThroughRing,
}

/// One relation of a scope to a scope around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Inside {
    /// Name of the scope around.
    pub parent: &'static str,
    /// How this scope lies in it.
    pub nature: Nature,
    /// When that holds.
    pub route: Route,
    /// True where each call of the parent makes one call here, unless an earlier part of it failed.
    pub one_to_one: bool,
}

/// A timed scope of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The JSON field without its path and `_seconds`.
    pub name: &'static str,
    /// Path of the seconds.
    pub seconds: &'static str,
    /// Path of the count that belongs to the seconds, `None` where there is none. A `_calls` twin includes failures.
    pub calls: Option<&'static str>,
    /// The scopes around it; none for a root.
    pub inside: &'static [Inside],
}

const BATCH_TOTAL_SECONDS: &str = "runtime.vmm.fast_native_transport_batch_transport_total_seconds";
const RING_READ_SECONDS: &str = "runtime.vmm.fast_native_transport_read_seconds";
const RING_TOTAL_SECONDS: &str = "runtime.vmm.fast_native_transport_ring_total_seconds";
const NATIVE_SUBMIT_SECONDS: &str = "runtime.vmm.fast_source_cache_batch_submit_seconds";
const STREAM_CALLS: &str = "runtime.vmm.fast_upload_stream_scope_calls";
const SOURCE_PREPARE_SECONDS: &str = "runtime.vmm.fast_native_transport_source_prepare_seconds";

impl Route {
    /// Whether a report took this route; `ran` says whether a path has a recorded value above zero.
    pub fn applies(self, ran: impl Fn(&str) -> bool) -> bool {
        match self {
            Route::Always => true,
            Route::Batched => ran(BATCH_TOTAL_SECONDS),
            Route::Ring => !ran(BATCH_TOTAL_SECONDS) && ran(RING_READ_SECONDS),
            Route::ArenaUploads => ran(STREAM_CALLS),
            Route::SourcePrepared => ran(SOURCE_PREPARE_SECONDS),
            Route::NotSourcePrepared => !ran(SOURCE_PREPARE_SECONDS),
            Route::SourceThroughRing => ran(RING_TOTAL_SECONDS) && ran(NATIVE_SUBMIT_SECONDS),
            Route::BatchThroughRing => ran(RING_TOTAL_SECONDS) && !ran(NATIVE_SUBMIT_SECONDS),
        }
    }

    /// The condition in words, empty where there is none.
    pub const fn words(self) -> &'static str {
        match self {
            Route::Always => "",
            Route::Batched => "with unit batches",
            Route::Ring => "on the ring route",
            Route::ArenaUploads => "for uploads into the arena",
            Route::SourcePrepared => "where sources are prepared ahead",
            Route::NotSourcePrepared => "where sources are not prepared ahead",
            Route::SourceThroughRing => "inside submissions of a retained source",
            Route::BatchThroughRing => "inside batches without a retained source",
        }
    }
}

/// A scope of `runtime.vmm`: name, whether it has the usual twin `_calls` (or which other count), and what is around it.
macro_rules! vmm {
    ($name:literal, calls, $inside:expr) => {
        vmm!($name, Some(concat!("runtime.vmm.", $name, "_calls")), $inside)
    };
    ($name:literal, $calls:expr, $inside:expr) => {
        Scope { name: $name, seconds: concat!("runtime.vmm.", $name, "_seconds"), calls: $calls, inside: $inside }
    };
}

/// A scope of the allocation diagnostics, by the first part of its fields.
macro_rules! driver {
    ($name:literal, $inside:expr) => {
        Scope {
            name: concat!($name, "_host"),
            seconds: concat!("runtime.allocation_diagnostics.total_delta.", $name, "_host_seconds"),
            calls: Some(concat!("runtime.allocation_diagnostics.total_delta.", $name, "_calls")),
            inside: $inside,
        }
    };
}

const fn within(parent: &'static str, nature: Nature, route: Route) -> Inside {
    Inside { parent, nature, route, one_to_one: false }
}

/// Contained on every route, one call each.
const fn part_of(parent: &'static str) -> Inside {
    Inside { parent, nature: Nature::Contains, route: Route::Always, one_to_one: true }
}

/// Contained on every route; calls do not pair.
const fn contained(parent: &'static str) -> Inside {
    within(parent, Nature::Contains, Route::Always)
}

const fn partly(parent: &'static str) -> Inside {
    within(parent, Nature::PartlyOutside, Route::Always)
}

const UPLOAD: &str = "fast_dma_enqueue";
const BODY: &str = "fast_upload_stream_body";
const TRANSPORT: &str = "fast_native_transport_batch_transport_total";
const PREPARE: &str = "fast_native_transport_batch_transport_prepare";
const CREATE: &str = "fast_native_transport_batch_transport_create";
const SUBMIT: &str = "fast_native_transport_batch_transport_submit";
const SOURCE_PREPARE: &str = "fast_native_transport_source_prepare";
const BRIDGE_CREATE: &str = "fast_source_cache_batch_bridge_create_total";
const BRIDGE_SUBMIT: &str = "fast_source_cache_batch_bridge_submit_total";
const BRIDGE_FFI: &str = "fast_source_cache_batch_bridge_submit_ffi";
const NATIVE_SUBMIT: &str = "fast_source_cache_batch_submit";
const RING_TOTAL: &str = "fast_native_transport_ring_total";
const REAP: &str = "fast_source_cache_batch_reap";
const CLOSE: &str = "fast_source_cache_close_total";
const COPY: &str = "fast_source_cache_copy_total";
const SCHEDULE: &str = "fast_source_cache_registration_schedule";
const ATTACH: &str = "vmm_fast_attach_native_model_arena";
const FAULT: Inside = within("fault_range_host", Nature::Overlaps, Route::Always);

/// Every timed host scope, each after the scopes around it.
pub const SCOPES: &[Scope] = &[
    vmm!("fast_dma_enqueue", None, &[]),
    vmm!("fast_upload_stream_enter", Some(STREAM_CALLS), &[within(UPLOAD, Nature::Contains, Route::ArenaUploads)]),
    vmm!(
        "fast_upload_stream_body",
        Some(STREAM_CALLS),
        &[within(UPLOAD, Nature::ShownOnly, Route::Batched), within(UPLOAD, Nature::Contains, Route::Ring)]
    ),
    vmm!("fast_upload_stream_exit", Some(STREAM_CALLS), &[within(UPLOAD, Nature::Contains, Route::ArenaUploads)]),
    vmm!(
        "fast_native_transport_batch_transport_total",
        calls,
        &[contained(UPLOAD), within(BODY, Nature::Overlaps, Route::ArenaUploads)]
    ),
    vmm!("fast_native_transport_batch_transport_prepare", calls, &[part_of(TRANSPORT)]),
    vmm!("fast_native_transport_source_prepare", calls, &[]),
    vmm!(
        "fast_native_transport_batch_transport_create",
        calls,
        &[
            within(PREPARE, Nature::Contains, Route::NotSourcePrepared),
            within(PREPARE, Nature::PartlyOutside, Route::SourcePrepared),
            within(SOURCE_PREPARE, Nature::PartlyOutside, Route::SourcePrepared),
        ]
    ),
    vmm!("fast_source_cache_batch_bridge_create_total", calls, &[part_of(CREATE)]),
    vmm!("fast_source_cache_batch_bridge_create_ffi", calls, &[part_of(BRIDGE_CREATE)]),
    vmm!("fast_source_cache_batch_bridge_source_prepare_total", calls, &[contained(SOURCE_PREPARE)]),
    vmm!("fast_native_transport_batch_transport_submit", calls, &[part_of(TRANSPORT)]),
    vmm!("fast_source_cache_batch_bridge_submit_total", calls, &[part_of(SUBMIT)]),
    vmm!("fast_source_cache_batch_bridge_submit_lock_wait", None, &[contained(BRIDGE_SUBMIT)]),
    vmm!("fast_source_cache_batch_bridge_submit_prepare", calls, &[part_of(BRIDGE_SUBMIT)]),
    vmm!("fast_source_cache_batch_bridge_submit_ffi", calls, &[part_of(BRIDGE_SUBMIT)]),
    vmm!("fast_source_cache_batch_bridge_submit_result", calls, &[part_of(BRIDGE_SUBMIT)]),
    vmm!("fast_source_cache_batch_submit", None, &[contained(BRIDGE_FFI)]),
    vmm!(
        "fast_native_transport_ring_total",
        calls,
        &[
            within(NATIVE_SUBMIT, Nature::Contains, Route::SourceThroughRing),
            within(SUBMIT, Nature::Contains, Route::BatchThroughRing)
        ]
    ),
    vmm!(
        "fast_native_transport_read",
        None,
        &[
            within(BODY, Nature::PartlyOutside, Route::Ring),
            within(RING_TOTAL, Nature::Contains, Route::SourceThroughRing),
            within(RING_TOTAL, Nature::Contains, Route::BatchThroughRing),
        ]
    ),
    vmm!(
        "fast_native_transport_slot_wait",
        Some("runtime.vmm.fast_native_transport_slot_waits"),
        &[
            within(BODY, Nature::Contains, Route::Ring),
            within(RING_TOTAL, Nature::Contains, Route::SourceThroughRing),
            within(RING_TOTAL, Nature::Contains, Route::BatchThroughRing),
        ]
    ),
    vmm!("fast_source_cache_batch_reap", None, &[partly(NATIVE_SUBMIT)]),
    vmm!("fast_source_cache_close_total", None, &[partly(REAP)]),
    vmm!("fast_source_cache_ticket_close_wait", None, &[partly(CLOSE)]),
    vmm!("fast_source_cache_event_retire", None, &[contained(CLOSE)]),
    vmm!("fast_source_cache_request_total", None, &[partly(NATIVE_SUBMIT)]),
    vmm!("fast_source_cache_copy_total", None, &[contained(NATIVE_SUBMIT)]),
    vmm!("fast_source_cache_source_ready", None, &[contained(COPY)]),
    vmm!("fast_source_cache_event_acquire", None, &[contained(COPY)]),
    vmm!("fast_source_cache_dma_submit", None, &[contained(COPY)]),
    vmm!("fast_source_cache_dma_event", None, &[contained(COPY)]),
    vmm!("fast_source_cache_registration_schedule", None, &[contained(COPY)]),
    vmm!("fast_source_cache_registration", Some("runtime.vmm.fast_source_cache_registrations"), &[partly(SCHEDULE)]),
    vmm!("fast_source_cache_unregistration", Some("runtime.vmm.fast_source_cache_unregistrations"), &[partly(SCHEDULE)]),
    vmm!("fast_source_cache_registration_wait", Some("runtime.vmm.fast_source_cache_registration_waits"), &[partly(SCHEDULE)]),
    vmm!("fast_mapped_source_registration", calls, &[]),
    vmm!("fast_shard_read", None, &[]),
    vmm!("fast_staging_source_copy", None, &[]),
    vmm!("fast_staging_slot_wait", Some("runtime.vmm.fast_staging_slot_waits"), &[]),
    Scope {
        name: ATTACH,
        seconds: "runtime.state.setup_runtime.vmm_fast_attach_native_model_arena.seconds",
        calls: None,
        inside: &[],
    },
    vmm!("fast_view_prepare", calls, &[contained(ATTACH)]),
    vmm!("fast_view_create", calls, &[contained(ATTACH)]),
    vmm!("fast_view_release", calls, &[contained(ATTACH)]),
    vmm!("fast_torch_allocator_reset_sync", calls, &[]),
    vmm!("fast_torch_allocator_cache_eviction_sync", None, &[contained("fast_torch_allocator_reset_sync")]),
    vmm!("fast_torch_allocator_pool_eviction_wait", None, &[]),
    driver!("fault_range", &[]),
    driver!("create", &[FAULT]),
    driver!("map", &[FAULT]),
    driver!("access", &[FAULT]),
    driver!("access_retry_sync", &[FAULT]),
    driver!("unmap", &[FAULT]),
    driver!("release", &[FAULT]),
    driver!("reserve", &[FAULT]),
    driver!("address_free", &[FAULT]),
];

/// The scope of that name.
pub fn find(name: &str) -> Option<&'static Scope> {
    SCOPES.iter().find(|scope| scope.name == name)
}

/// The scope whose seconds a path holds, at any place where reports repeat it.
pub fn of_seconds(path: &str) -> Option<&'static Scope> {
    let path = common_place(path);
    SCOPES.iter().find(|scope| scope.seconds == path)
}

/// The scopes that a path counts the calls of, at any place where reports repeat it.
pub fn of_calls(path: &str) -> impl Iterator<Item = &'static Scope> {
    let path = common_place(path);
    SCOPES.iter().filter(move |scope| scope.calls == Some(path.as_str()))
}

/// One path for the places where reports repeat a value.
fn common_place(path: &str) -> String {
    let path = path.replace("steps[].driver_delta", "total_delta");
    path.strip_prefix("setup.setup_runtime").map_or(path.clone(), |rest| format!("runtime.state.setup_runtime{rest}"))
}

/// The scopes inside one, with their relation to it, in the order of [`SCOPES`].
///
/// A child appears once for each route on which its relation differs.
pub fn children(parent: &str) -> impl Iterator<Item = (&'static Scope, &'static Inside)> {
    SCOPES
        .iter()
        .flat_map(move |scope| scope.inside.iter().filter(move |inside| inside.parent == parent).map(move |i| (scope, i)))
}

/// Scopes that lie in no other one.
pub fn roots() -> impl Iterator<Item = &'static Scope> {
    SCOPES.iter().filter(|scope| scope.inside.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_parents_come_first_so_that_there_is_no_cycle() {
        let mut seen = BTreeSet::new();
        for scope in SCOPES {
            for inside in scope.inside {
                assert!(
                    seen.contains(inside.parent),
                    "{} lies in {}, which comes later or not at all",
                    scope.name,
                    inside.parent
                );
            }
            assert!(seen.insert(scope.name), "{} twice", scope.name);
            let last = scope.seconds.trim_end_matches(".seconds").rsplit('.').next();
            assert_eq!(last.map(|field| field.trim_end_matches("_seconds")), Some(scope.name));
        }
    }

    #[test]
    fn on_one_route_a_scope_has_one_relation_to_a_parent() {
        for scope in SCOPES {
            let mut seen = BTreeSet::new();
            for inside in scope.inside {
                assert!(seen.insert((inside.parent, format!("{:?}", inside.route))), "{}", scope.name);
            }
            let always = scope.inside.iter().filter(|inside| inside.route == Route::Always).map(|inside| inside.parent);
            for parent in always {
                assert_eq!(scope.inside.iter().filter(|inside| inside.parent == parent).count(), 1, "{}", scope.name);
            }
        }
    }

    #[test]
    fn calls_pair_only_where_both_scopes_count_them() {
        for scope in SCOPES {
            for inside in scope.inside.iter().filter(|inside| inside.one_to_one) {
                let parent = find(inside.parent).expect("a scope");
                assert!(scope.calls.is_some() && parent.calls.is_some(), "{} in {}", scope.name, parent.name);
            }
        }
    }

    #[test]
    fn the_broad_upload_splits_by_route() {
        let parts = |ran: &[&str]| -> Vec<(&str, Nature)> {
            children(UPLOAD)
                .filter(|(_, inside)| inside.route.applies(|path| ran.contains(&path)))
                .map(|(scope, inside)| (scope.name, inside.nature))
                .collect()
        };
        let (enter, exit) = ("fast_upload_stream_enter", "fast_upload_stream_exit");
        assert_eq!(
            parts(&[BATCH_TOTAL_SECONDS, RING_READ_SECONDS, STREAM_CALLS]),
            [(enter, Nature::Contains), (BODY, Nature::ShownOnly), (exit, Nature::Contains), (TRANSPORT, Nature::Contains)]
        );
        assert_eq!(
            parts(&[RING_READ_SECONDS, STREAM_CALLS]),
            [(enter, Nature::Contains), (BODY, Nature::Contains), (exit, Nature::Contains), (TRANSPORT, Nature::Contains)]
        );
        let ring = children(BODY).filter(|(_, inside)| inside.route == Route::Ring).map(|(scope, _)| scope.name);
        assert_eq!(ring.collect::<Vec<_>>(), ["fast_native_transport_read", "fast_native_transport_slot_wait"]);
    }

    #[test]
    fn source_preparation_is_a_root_and_shares_the_first_creation() {
        assert!(roots().any(|scope| scope.name == SOURCE_PREPARE));
        let create = find(CREATE).expect("a scope");
        let relations = |ran: bool| -> Vec<(&str, Nature)> {
            let applies = |inside: &&Inside| inside.route.applies(|_| ran);
            create.inside.iter().filter(applies).map(|inside| (inside.parent, inside.nature)).collect()
        };
        assert_eq!(relations(false), [(PREPARE, Nature::Contains)]);
        assert_eq!(relations(true), [(PREPARE, Nature::PartlyOutside), (SOURCE_PREPARE, Nature::PartlyOutside)]);
    }

    #[test]
    fn repeated_places_of_a_time_find_its_scope() {
        let name = |path: &str| of_seconds(path).map(|scope| scope.name);
        assert_eq!(name("runtime.vmm.fast_dma_enqueue_seconds"), Some(UPLOAD));
        assert_eq!(name("setup.setup_runtime.vmm_fast_attach_native_model_arena.seconds"), Some(ATTACH));
        assert_eq!(name("runtime.allocation_diagnostics.steps[].driver_delta.map_host_seconds"), Some("map_host"));
        assert_eq!(name("runtime.vmm.fast_faults"), None);
    }
}
