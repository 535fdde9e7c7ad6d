//! Checks of the transfer: "Does every ticket, event, window and scope end where it should?"
//!
//! Uses `facts` and `reconcile`. Invariant: an end state is only asked of a report that says that the end was reached.

use super::facts::{Facts, Found, vmm};
use super::{at_most, sum};
use crate::analysis::reconcile::{self, Interval};
use ddo_schemas::reconciliation::ScopeVerdict;
use ddo_schemas::scope::{Nature, SCOPES, find};

/// Most events that a pool keeps idle.
const POOLED_EVENTS: i128 = 256;
/// Most windows that the source dispatcher ever has in flight.
const SOURCE_WINDOWS: i128 = 8;

const AFTER: &str = "runtime.completion_collection.tickets_after";
const BEFORE: &str = "runtime.completion_collection.tickets_before";
const RETIRED: &str = "runtime.completion_collection.tickets_retired";

/// A route without tickets of its own says `not_applicable` and has no counts.
pub(super) fn collection(facts: &Facts<'_>) -> Vec<Found> {
    sum(facts, BEFORE, &[AFTER, RETIRED]).into_iter().collect()
}

/// Tickets that others own are not collected and keep their events, so nothing is asked while tickets live.
pub(super) fn collected_events(facts: &Facts<'_>) -> Vec<Found> {
    if facts.whole(AFTER) != Some(0) {
        return Vec::new();
    }
    let pairs = [
        (vmm!("fast_source_cache_transfer_owned_events"), vmm!("fast_source_cache_live_tickets")),
        (vmm!("fast_transfer_owned_events"), vmm!("fast_transfer_live_tickets")),
    ];
    let idle = pairs.into_iter().filter(|(_, live)| facts.whole(live).is_none_or(|tickets| tickets == 0));
    idle.filter_map(|(owned, _)| Some(Found::equal(owned, 0, facts.whole(owned)?))).collect()
}

pub(super) fn pooled_events(facts: &Facts<'_>) -> Vec<Found> {
    let pools = [vmm!("fast_source_cache_pooled_events"), vmm!("fast_transfer_pooled_events")];
    let bound = |name| Some(Found::at_most(name, POOLED_EVENTS, "the pool's bound", facts.whole(name)?));
    pools.into_iter().filter_map(bound).collect()
}

/// The limit is zero before the dispatcher starts and after it was cleared; a clear resets the peak, too.
pub(super) fn source_windows(facts: &Facts<'_>) -> Vec<Found> {
    const LIMIT: &str = vmm!("fast_source_cache_source_dispatcher_window_limit");
    const PEAK: &str = vmm!("fast_source_cache_source_dispatcher_peak_windows");
    const OWNED: &str = vmm!("fast_source_cache_source_dispatcher_owned_windows");
    let mut found = at_most(facts, &[&[OWNED], &[PEAK], &[LIMIT]]);
    let Some(limit) = facts.whole(LIMIT) else { return found };
    let slots = facts.whole("runtime.state.planner_decisions.vmm_native_source_cache_slots");
    let workers = facts.whole(vmm!("fast_native_transport_source_workers"));
    let bound = [slots, workers].into_iter().flatten().fold(SOURCE_WINDOWS, i128::min);
    found.push(Found::at_most(LIMIT, bound, "the smallest of slots, workers and 8", limit));
    found
}

/// Recorders that do not count units in flight leave a remainder, which is at least not negative.
pub(super) fn look_ahead(facts: &Facts<'_>) -> Vec<Found> {
    const UNITS: &str = vmm!("fast_gpu_prefetch_units");
    const PARTS: [&str; 3] =
        [vmm!("fast_gpu_prefetch_hits"), vmm!("fast_gpu_prefetch_cancelled_units"), vmm!("fast_gpu_prefetch_in_flight_units")];
    let [hits, cancelled, in_flight] = PARTS;
    if facts.recorded(in_flight) {
        return sum(facts, UNITS, &PARTS).into_iter().collect();
    }
    at_most(facts, &[&[hits, cancelled], &[UNITS]])
}

/// Only counts of calls are held against the time: a count of successes may be zero where failed attempts took time.
pub(super) fn scope_calls(facts: &Facts<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for scope in SCOPES {
        let Some(calls_path) = scope.calls else { continue };
        if calls_path.strip_suffix("_calls") != scope.seconds.strip_suffix("_seconds") {
            continue;
        }
        match (facts.number(scope.seconds), facts.whole(calls_path)) {
            (Some(seconds), Some(calls)) => {
                let got = format!("{seconds} s in {calls} calls");
                let ok = calls > 0 || seconds == 0.0;
                found.push(Found::that(scope.seconds, "no time without a call", got, ok && seconds >= 0.0));
            }
            (Some(_), None) => {
                found.push(Found::that(scope.seconds, format!("{calls_path} beside it"), "no calls", false));
            }
            (None, Some(_)) => {
                found.push(Found::that(calls_path, format!("{} beside it", scope.seconds), "no seconds", false));
            }
            (None, None) => {}
        }
    }
    found
}

/// A failure in an earlier part makes fewer calls of the later ones, never more.
pub(super) fn nested_calls(facts: &Facts<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for scope in SCOPES {
        for inside in scope.inside.iter().filter(|inside| inside.one_to_one && inside.nature == Nature::Contains) {
            let around = find(inside.parent).and_then(|parent| parent.calls);
            let (Some(calls), Some(around)) = (scope.calls, around) else { continue };
            if let (Some(got), Some(bound)) = (facts.whole(calls), facts.whole(around)) {
                found.push(Found::at_most(calls, bound, around, got));
            }
        }
    }
    found
}

/// The tolerance is the one of the reconciliation; an excess of a scope that also runs elsewhere is no failure.
pub(super) fn nested_scopes(facts: &Facts<'_>) -> Vec<Found> {
    let scopes = reconcile::scopes(&Interval::lifetime(facts.values));
    let compared = |verdict| !matches!(verdict, ScopeVerdict::Leaf | ScopeVerdict::Unavailable | ScopeVerdict::ChildUnavailable);
    let mut found = Vec::new();
    for row in scopes.iter().filter(|row| compared(row.scope.verdict)) {
        let Some(total) = row.scope.total_seconds.0 else { continue };
        let inside = row.inside_seconds;
        let ok = row.scope.verdict != ScopeVerdict::ChildExceedsParent;
        let got = format!("{inside} s inside");
        found.push(Found::that(row.path(), format!("at most {} s", total.0), got, ok));
    }
    found
}
