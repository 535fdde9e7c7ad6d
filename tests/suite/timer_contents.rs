//! What each timer includes and what it leaves out.
//!
//! Two ways. One call of the driver, or one question to the host, costs time and nothing else does: exactly the timers that
//! include it grow, by as much as was called inside. And for every stretch between two looks at the clock: time that goes by
//! there lands in one chain of nested scopes of the declared tree, and in the broad scope only together with one of its parts.

use crate::support::mosaic::Mosaic;
use crate::support::scratch;
use crate::support::streamed::{Streamed, WINDOW, report, rows, staging};
use ddo_recorder::meter::{Clock, Nanos};
use ddo_recorder::{
    HostMemorySettings, LaunchScope, Offload, OffloadConfig, RegistrationPolicy, ResidencyMode, SourceChoice, enable_offload,
};
use ddo_schemas::scope::{Nature, SCOPES, find};
use ddo_schemas::sections::Vmm;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the costly thing costs, in nanoseconds.
const COST: u64 = 1_000;

/// Every timer of a report in nanoseconds, by its field without `fast_` and `_seconds`.
type Timers = BTreeMap<String, u64>;

fn timers(vmm: &Vmm) -> Timers {
    let Value::Object(map) = serde_json::to_value(vmm).expect("JSON") else { panic!("no object") };
    let timer = |(name, value): (String, Value)| {
        let name = name.strip_prefix("fast_")?.strip_suffix("_seconds")?;
        Some((name.to_owned(), (value.as_f64()? * 1e9).round() as u64))
    };
    map.into_iter().filter_map(timer).collect()
}

/// A way to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Five windows, two of them registered.
    Subset,
    /// Five windows, of which one is registered at a time.
    Recycle,
    Ring,
    Staged,
    Mapped,
}

const WAYS: [Way; 5] = [Way::Subset, Way::Recycle, Way::Ring, Way::Staged, Way::Mapped];

impl Way {
    fn settings(self) -> (SourceChoice, HostMemorySettings) {
        let kept = |registered: u64, registration| HostMemorySettings {
            retained_slot_bytes: WINDOW,
            retained_slots: 5,
            registered_bytes: registered * WINDOW,
            registration,
            ..staging(2)
        };
        match self {
            Way::Subset => (SourceChoice::Retained, kept(2, RegistrationPolicy::StableSubset)),
            Way::Recycle => (SourceChoice::Retained, kept(1, RegistrationPolicy::Recycle)),
            Way::Ring => (SourceChoice::Ring, staging(2)),
            Way::Staged => (SourceChoice::Staged, staging(2)),
            Way::Mapped => (SourceChoice::Mapped, HostMemorySettings::default()),
        }
    }
}

/// What a life came to.
struct Facts {
    vmm: Vmm,
    timers: Timers,
    /// Driver calls while the component was attached.
    calls: BTreeMap<&'static str, u64>,
    /// Registrations before.
    attaching: u64,
}

impl Facts {
    fn of(&self, call: &str) -> u64 {
        self.calls.get(call).copied().unwrap_or_default()
    }

    fn timer(&self, name: &str) -> u64 {
        self.timers.get(name).copied().unwrap_or_default() / COST
    }

    /// Uploads of parts, each of one tensor.
    fn uploads(&self) -> u64 {
        self.vmm.uploads.fast_uploads.expect("counted")
    }

    /// Copies straight out of retained storage.
    fn direct(&self) -> u64 {
        let events = &self.vmm.source_events;
        events.fast_source_cache_events_created.unwrap_or_default() + events.fast_source_cache_events_reused.unwrap_or_default()
    }

    /// Slots whose copies were queued.
    fn slots_sent(&self) -> u64 {
        self.of("event_record") - self.of("launch") - self.uploads() - self.direct()
    }
}

/// The one thing that takes time.
#[derive(Clone, Copy, Debug)]
enum Cost {
    Call(&'static str),
    /// Asking the host how much memory it has.
    HostReading,
}

fn life(way: Way, cost: Cost) -> Facts {
    let mut bench = Streamed::new("timer-contents", Mosaic::even(4, 2, WINDOW / 2), WINDOW);
    bench.ledger.take_time_on(&bench.clock);
    match cost {
        Cost::Call(call) => bench.ledger.only_costs(call, COST),
        Cost::HostReading => {
            bench.ledger.only_costs("none", 0);
            bench.reading_nanoseconds = COST;
        }
    }
    let (source, host) = way.settings();
    let offload = bench.attach(source, host).expect("attached");
    let before = bench.ledger.seen().calls;
    bench.passes(&offload, 3);
    let after = bench.ledger.seen().calls;
    let vmm = rows(&offload);
    let calls = after.iter().map(|(call, count)| (*call, count - before.get(call).copied().unwrap_or_default())).collect();
    let attaching = before.get("host_register").copied().unwrap_or_default();
    let facts = Facts { timers: timers(&vmm), vmm, calls, attaching };
    bench.close(&offload);
    facts
}

/// Timers, and how many times the cost lies in each.
type Cells = Vec<(&'static str, u64)>;

/// The scopes around everything that happens while an upload is submitted.
fn submit(way: Way, count: u64) -> Cells {
    let mut cells = vec![("dma_enqueue", count)];
    if way != Way::Staged {
        cells.extend(
            ["native_transport_batch_transport_total", "native_transport_batch_transport_submit"].map(|name| (name, count)),
        );
    }
    if matches!(way, Way::Subset | Way::Recycle) {
        cells.push(("source_cache_batch_bridge_submit_total", count));
    }
    cells
}

/// The same, with what is inside the call that moves bytes.
fn native(way: Way, in_call: u64, in_ring: u64, beside: u64) -> Cells {
    let mut cells = submit(way, in_call + beside);
    if matches!(way, Way::Subset | Way::Recycle) {
        cells.extend(["source_cache_batch_bridge_submit_ffi", "source_cache_batch_submit"].map(|name| (name, in_call)));
    }
    if matches!(way, Way::Subset | Way::Recycle | Way::Ring) {
        cells.push(("native_transport_ring_total", in_ring));
    }
    cells
}

fn with(mut cells: Cells, more: &[(&'static str, u64)]) -> Cells {
    cells.extend_from_slice(more);
    cells
}

/// The host is polled by requests: of submissions and of preparation.
fn polled(way: Way, facts: &Facts) -> Cells {
    let all = facts.vmm.pressure.fast_source_cache_pressure_observation_valid_observations.unwrap_or_default();
    let ahead = facts.timer("source_cache_batch_bridge_source_prepare_total");
    if !matches!(way, Way::Subset | Way::Recycle) {
        return Vec::new();
    }
    let own = [
        ("source_cache_request_total", all),
        ("source_cache_batch_bridge_source_prepare_total", ahead),
        ("native_transport_source_prepare", ahead),
    ];
    with(native(way, all - ahead, 0, 0), &own)
}

/// The host waits for events of slots and of registrations alone.
fn waited(way: Way, count: u64, facts: &Facts) -> Cells {
    let slots = facts.vmm.ring.fast_native_transport_slot_waits.unwrap_or_default();
    let registrations = facts.vmm.source_cache.fast_source_cache_registration_waits.unwrap_or_default();
    assert_eq!(slots + registrations, count, "nothing else waits for an event");
    let own = [
        ("native_transport_slot_wait", slots),
        ("source_cache_registration_wait", registrations),
        ("source_cache_registration_schedule", registrations),
        ("source_cache_copy_total", registrations),
    ];
    with(native(way, count, slots, 0), &own)
}

/// Every timer that includes the cost. Where calls of one name are made in places that no row counts, the split is taken from
/// timers that have nothing else inside.
fn expected(way: Way, cost: Cost, facts: &Facts) -> Cells {
    let Cost::Call(call) = cost else { return polled(way, facts) };
    let (count, direct) = (facts.of(call), facts.direct());
    let timer = |name: &str| facts.timer(name);
    match call {
        "copy_to_device" => {
            let ringed = count - direct;
            with(native(way, count, ringed, 0), &[("source_cache_dma_submit", direct), ("source_cache_copy_total", direct)])
        }
        "event_record" | "event_create" | "event_synchronize" | "event_query" => of_events(way, call, facts),
        "host_register" if way == Way::Mapped => vec![("mapped_source_registration", facts.attaching)],
        "host_register" | "host_unregister" => {
            let own = if call == "host_register" { "source_cache_registration" } else { "source_cache_unregistration" };
            let nested = [(own, count), ("source_cache_registration_schedule", count), ("source_cache_copy_total", count)];
            with(native(way, count, 0, 0), &nested)
        }
        "stream_wait_event" => {
            let of_uploads = count - facts.vmm.uploads.fast_compute_wait_events.expect("counted");
            let first = timer("source_cache_batch_bridge_submit_prepare");
            let later = if matches!(way, Way::Subset | Way::Recycle) { of_uploads - first } else { of_uploads };
            let beside = of_uploads - later;
            with(native(way, later, 0, beside), &[("source_cache_batch_bridge_submit_prepare", first)])
        }
        _ => Vec::new(),
    }
}

/// The same for what is done with events.
fn of_events(way: Way, call: &str, facts: &Facts) -> Cells {
    let (count, direct) = (facts.of(call), facts.direct());
    let timer = |name: &str| facts.timer(name);
    match call {
        "event_record" => {
            let (sent, uploads) = (facts.slots_sent(), facts.uploads());
            let result = if matches!(way, Way::Subset | Way::Recycle) { uploads } else { 0 };
            let own = [
                ("source_cache_dma_event", direct),
                ("source_cache_copy_total", direct),
                ("source_cache_batch_bridge_submit_result", result),
            ];
            with(native(way, direct + sent, sent, uploads), &own)
        }
        "event_create" => {
            let created = facts.vmm.source_events.fast_source_cache_events_created.unwrap_or_default();
            // Launches and uploads take from one pool.
            let taken = timer("dma_enqueue") - created;
            assert!(taken > 0 && created + taken <= count);
            let prepare = if matches!(way, Way::Subset | Way::Recycle) { taken } else { 0 };
            let own = [
                ("source_cache_event_acquire", created),
                ("source_cache_copy_total", created),
                ("source_cache_batch_bridge_submit_prepare", prepare),
            ];
            with(native(way, created, 0, taken), &own)
        }
        "event_synchronize" if way == Way::Staged => vec![("staging_slot_wait", count)],
        "event_synchronize" => waited(way, count, facts),
        "event_query" => {
            let (reap, ring, schedule) = (
                timer("source_cache_batch_reap"),
                timer("native_transport_ring_total"),
                timer("source_cache_registration_schedule"),
            );
            let ahead = timer("native_transport_source_prepare");
            // Without a ring the slots alone are asked for inside uploads.
            let slots = if way == Way::Staged { timer("dma_enqueue") } else { 0 };
            assert!(reap + ring + schedule + ahead + slots <= count);
            let own = [
                ("source_cache_batch_reap", reap),
                ("source_cache_registration_schedule", schedule),
                ("source_cache_copy_total", schedule),
                ("source_cache_batch_bridge_source_prepare_total", if direct > 0 { ahead } else { 0 }),
                ("native_transport_source_prepare", ahead),
            ];
            with(native(way, reap + ring + schedule + slots, ring, 0), &own)
        }
        _ => Vec::new(),
    }
}

/// Calls that nothing of an upload makes while the component is attached, too.
const CALLS: [&str; 14] = [
    "copy_to_device",
    "event_record",
    "event_create",
    "event_query",
    "event_synchronize",
    "event_destroy",
    "host_register",
    "host_unregister",
    "stream_wait_event",
    "stream_synchronize",
    "launch",
    "memory_create",
    "memory_map",
    "memory_set_access",
];

#[test]
fn exactly_the_timers_that_include_a_cost_grow_and_by_as_much() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for way in WAYS {
        for cost in CALLS.map(Cost::Call).into_iter().chain([Cost::HostReading]) {
            let facts = life(way, cost);
            let cells: BTreeMap<&str, u64> = expected(way, cost, &facts).into_iter().collect();
            for (name, grown) in &facts.timers {
                let right = cells.get(name.as_str()).copied().unwrap_or_default() * COST;
                if *grown != right {
                    wrong.push(format!("{way:?}, {cost:?}: {name} took {grown} ns, expected {right}"));
                }
                if *grown > 0 {
                    seen.insert(name.clone());
                }
            }
            let listed = cells.iter().filter(|(_, count)| **count > 0).map(|(name, _)| *name);
            let missing = listed.filter(|name| !facts.timers.contains_key(*name));
            wrong.extend(missing.map(|name| format!("{way:?}, {cost:?}: there is no timer {name}")));
        }
    }
    assert!(wrong.is_empty(), "{} wrong cells:\n{}", wrong.len(), wrong.join("\n"));
    for name in
        ["source_cache_registration_wait", "native_transport_slot_wait", "staging_slot_wait", "source_cache_request_total"]
    {
        assert!(seen.contains(name), "{name} was never above zero");
    }
}

/// A clock that stands still but for one jump between two looks at it.
#[derive(Debug)]
struct Jump {
    looks: AtomicU64,
    behind: u64,
}

impl Clock for Jump {
    fn now(&self) -> Nanos {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        Nanos(if look >= self.behind { COST } else { 0 })
    }
}

/// Looks at the clock in all, the timers that grew because of the jump behind that many of them, uploads in all, and of these into the arena.
fn jumped(bench: &Streamed, way: Way, residency: ResidencyMode, behind: u64) -> (u64, Vec<String>, u64, u64) {
    let (source, host) = way.settings();
    let clock = Arc::new(Jump { looks: AtomicU64::new(0), behind });
    let launches = if residency == ResidencyMode::Parts { LaunchScope::Parts } else { LaunchScope::Units };
    let config = OffloadConfig { residency, launches, clock: Arc::<Jump>::clone(&clock), ..bench.config(source, host) };
    let offload = enable_offload(bench.component(), config).expect("attached");
    for _ in 0..2 {
        bench.pass(&offload, &[0, 1, 2], launches).expect("a pass");
    }
    let vmm = rows(&offload);
    let grown = timers(&vmm).into_iter().filter(|(_, grown)| *grown > 0).map(|(name, grown)| {
        assert_eq!(grown, COST, "{name}: one jump is counted once");
        format!("fast_{name}")
    });
    let grown = grown.collect();
    // A unit of the classic mode is two tensors.
    let tensors = if residency == ResidencyMode::Parts { 1 } else { 2 };
    let uploads = vmm.uploads.fast_uploads.expect("counted") / tensors;
    bench.close(&offload);
    let into_arena = vmm.uploads.fast_upload_stream_scope_calls.expect("counted");
    (clock.looks.load(Ordering::Relaxed), grown, uploads, into_arena)
}

/// Scopes around a scope, itself included; and whether it, or one around it, also runs elsewhere.
fn around(name: &str) -> (BTreeSet<&'static str>, bool) {
    let scope = find(name).unwrap_or_else(|| panic!("{name} is no scope"));
    let (mut names, mut elsewhere) = (BTreeSet::from([scope.name]), false);
    for inside in scope.inside.iter().filter(|inside| inside.nature != Nature::Overlaps) {
        let (more, too) = around(inside.parent);
        names.extend(more);
        elsewhere |= too || inside.nature == Nature::PartlyOutside;
    }
    (names, elsewhere)
}

/// A scope with time has a scope with time around it, and two scopes with time are one in the other.
fn broken_nesting(grown: &[String]) -> Option<String> {
    // Shown beside the tree: around the transport of arena uploads alone.
    let grown: &[String] = &grown.iter().filter(|name| *name != BODY).cloned().collect::<Vec<_>>();
    for name in grown {
        let scope = find(name).unwrap_or_else(|| panic!("{name} is no scope"));
        let contained = scope.inside.iter().any(|inside| inside.nature == Nature::Contains);
        let has_parent = scope.inside.iter().any(|inside| grown.iter().any(|other| other == inside.parent));
        if contained && !has_parent && !around(name).1 {
            return Some(format!("{name} grew without a scope around it: {grown:?}"));
        }
        for other in grown.iter().filter(|other| *other != name) {
            let ((mine, elsewhere), (theirs, also)) = (around(name), around(other));
            let nested = mine.contains(other.as_str()) || theirs.contains(name.as_str());
            if !nested && !elsewhere && !also {
                return Some(format!("{name} and {other} lie beside each other and grew both"));
            }
        }
    }
    None
}

const ROOT: &str = "fast_dma_enqueue";
const BODY: &str = "fast_upload_stream_body";

#[test]
fn wherever_time_goes_by_it_lands_in_one_chain_of_scopes_and_the_root_explains_it() {
    for (way, residency) in [
        (Way::Subset, ResidencyMode::Parts),
        (Way::Recycle, ResidencyMode::Parts),
        (Way::Ring, ResidencyMode::Parts),
        (Way::Ring, ResidencyMode::Classic),
        (Way::Staged, ResidencyMode::Parts),
        (Way::Staged, ResidencyMode::Classic),
        (Way::Mapped, ResidencyMode::Parts),
    ] {
        let bench = Streamed::new("timer-jumps", Mosaic::even(3, 2, WINDOW / 2), 2 * WINDOW);
        let (looks, none, uploads, into_arena) = jumped(&bench, way, residency, u64::MAX);
        assert_eq!(none, Vec::<String>::new(), "time stands still");
        let (mut inside, mut alone) = (0, 0);
        for behind in 1..looks {
            let (_, grown, ..) = jumped(&bench, way, residency, behind);
            assert_eq!(broken_nesting(&grown), None, "{way:?}, {residency:?}, behind look {behind} of {looks}");
            let in_root = grown.iter().any(|name| name == ROOT);
            inside += u64::from(in_root);
            alone += u64::from(in_root && grown.len() == 1);
        }
        assert!(inside > uploads, "{way:?}: {inside} stretches of {looks} lie in uploads");
        if way != Way::Staged {
            // From the begin of an upload to that of its batch, and from the end of the batch to that of the upload: no call,
            // no look-up, no lock lies there. An upload into the arena begins and ends its proof besides.
            assert_eq!(alone, 2 * (uploads + into_arena), "{way:?}, {residency:?}: nothing else of an upload is unexplained");
        }
    }
}

/// Every driver call takes another time: what a scope does not explain is then exactly the calls that are in none of its parts.
#[test]
fn residuals_are_exact_where_every_call_takes_another_time() {
    for way in WAYS {
        let bench = Streamed::new("timer-residuals", Mosaic::even(4, 2, WINDOW / 2), WINDOW);
        bench.ledger.take_time_on(&bench.clock);
        let (source, host) = way.settings();
        let offload = bench.attach(source, host).expect("attached");
        bench.passes(&offload, 3);
        let vmm = rows(&offload);
        let all = timers(&vmm);
        let timer = |name: &str| all.get(name).copied().unwrap_or_else(|| panic!("{name} is missing"));
        if way != Way::Staged {
            assert!(timer("dma_enqueue") > 0);
            let around = timer("upload_stream_enter") + timer("upload_stream_exit");
            assert_eq!(timer("dma_enqueue"), timer("native_transport_batch_transport_total") + around, "{way:?}: the root");
        }
        if let Way::Subset | Way::Recycle = way {
            let bridge = |part: &str| timer(&format!("source_cache_batch_bridge_submit_{part}"));
            let parts = ["lock_wait", "prepare", "ffi", "result"].map(bridge).into_iter().sum::<u64>();
            assert_eq!(bridge("total"), parts, "{way:?}");
            assert_eq!(bridge("ffi"), timer("source_cache_batch_submit"));
            let inside =
                timer("source_cache_batch_reap") + timer("source_cache_copy_total") + timer("native_transport_ring_total");
            let rest = timer("source_cache_batch_submit") - inside;
            // Stages behind a fence wait for their readers between copies.
            let wait = crate::support::ledger::call_nanoseconds("stream_wait_event");
            assert!(rest.is_multiple_of(wait), "{way:?}: {rest} ns of a submission are no stream waits of {wait} ns");
        }
        analyzed(way, &offload);
        bench.close(&offload);
    }
}

/// The report of such a run through the analyzer: every check holds, no scope exceeds the one around it, the root explains itself.
fn analyzed(way: Way, offload: &Offload) {
    let folder = scratch("timer-analyzed");
    let report = serde_json::to_string(&report(offload)).expect("JSON");
    std::fs::write(folder.path().join("final.json"), report).expect("written");
    let run = |word: &str| -> Value {
        let words = ["ddo-analyze".into(), word.into(), folder.path().into(), "--json".into()];
        let mut out = Vec::new();
        let code = ddo_analyzer::cli::main(words, &mut out);
        let text = String::from_utf8(out).expect("text");
        assert_eq!(code, 0, "{way:?}, {word}: {text}");
        serde_json::from_str(&text).expect("JSON alone")
    };
    assert_eq!(run("check")["ok"], true, "{way:?}");
    let found = run("reconcile");
    let scopes = found["scopes"].as_array().expect("a list");
    for scope in scopes {
        assert_ne!(scope["verdict"], "child_exceeds_parent", "{way:?}: {scope}");
    }
    let root = scopes.iter().find(|scope| scope["scope"] == ROOT).expect("the root");
    let residual = if way == Way::Staged { Value::Null } else { 0.0.into() };
    assert_eq!(root["residual_seconds"], residual, "{way:?}: {root}");
    assert!(found["headline"]["scope"].is_string(), "{way:?}: {found}");
}

#[test]
fn every_scope_of_the_tree_that_a_source_can_have_is_a_timer_of_a_run() {
    let mut named = BTreeSet::new();
    for way in WAYS {
        named.extend(life(way, Cost::Call("none")).timers.into_keys());
    }
    let of_sources = |name: &str| {
        ["dma_enqueue", "native_transport_", "source_cache_", "shard_", "staging_"].iter().any(|begin| name.starts_with(begin))
    };
    let declared = SCOPES.iter().filter_map(|scope| scope.name.strip_prefix("fast_")).filter(|name| of_sources(name));
    let missing: Vec<&str> = declared.filter(|name| !named.contains(*name)).collect();
    assert_eq!(missing, [""; 0]);
}
