//! Reconciliation of nested host scopes: "Which time lies in which, and what stays unexplained?"
//!
//! Uses `run`, `delta` and the declared tree of scopes. Invariants: scopes are subtracted from the scope around them and never
//! added to each other; what overlaps is shown and not subtracted; a scope that was not recorded makes the rest unknown, never
//! zero; what is left over has no cause.

mod choice;
mod tree;

pub use choice::{Choice, Unfit, between, choose};
pub use tree::{Row, scopes};

use crate::analysis::delta::{self, Delta};
use crate::run::Values;
use ddo_schemas::field::Kind;
use ddo_schemas::reconciliation::{Headline, Reconciliation, ScopeVerdict};
use ddo_schemas::scope::{Nature, SCOPES, Scope, find};
use ddo_schemas::unit::{Nullable, Ratio, Seconds};
use std::ops::Bound;

/// The scope around all uploads.
pub const BROAD: &str = "fast_dma_enqueue";

/// Scopes beside the broad one on the plain staging path, where filling slots is no part of enqueueing.
const STAGING: [&str; 3] = ["fast_shard_read", "fast_staging_source_copy", "fast_staging_slot_wait"];

/// Counts unit submissions that were queued completely, failures left out.
const SUBMISSIONS: &str = "runtime.vmm.fast_source_cache_batch_submissions";
/// The scope whose calls they are compared with.
const SUBMIT_CALL: &str = "fast_source_cache_batch_bridge_submit_ffi";

/// The field that tells more about a scope without a count of its own.
const NEXT: &[(&str, &str)] = &[
    ("fast_dma_enqueue", "runtime.vmm.fast_dma_enqueue_bytes"),
    ("fast_native_transport_read", "runtime.vmm.fast_native_transport_read_bytes"),
    ("fast_shard_read", "runtime.vmm.fast_shard_read_bytes"),
    ("fast_staging_source_copy", "runtime.vmm.fast_staging_source_copy_bytes"),
    ("fast_source_cache_batch_bridge_submit_lock_wait", "runtime.vmm.fast_source_cache_batch_bridge_submit_total_calls"),
    ("fast_source_cache_batch_submit", SUBMISSIONS),
    ("fast_source_cache_batch_reap", "runtime.vmm.fast_source_cache_live_tickets"),
    ("fast_source_cache_close_total", "runtime.vmm.fast_source_cache_live_tickets"),
    ("fast_source_cache_ticket_close_wait", "runtime.vmm.fast_source_cache_live_tickets"),
    ("fast_source_cache_event_retire", "runtime.vmm.fast_source_cache_pooled_events"),
    ("fast_source_cache_request_total", "runtime.vmm.fast_source_cache_misses"),
    ("fast_source_cache_copy_total", "runtime.vmm.fast_source_cache_dma_bytes"),
    ("fast_source_cache_source_ready", "runtime.vmm.fast_source_cache_source_read_bytes"),
    ("fast_source_cache_event_acquire", "runtime.vmm.fast_source_cache_events_created"),
    ("fast_source_cache_dma_submit", "runtime.vmm.fast_source_cache_dma_bytes"),
    ("fast_source_cache_dma_event", "runtime.vmm.fast_source_cache_events_reused"),
    ("fast_source_cache_registration_schedule", "runtime.vmm.fast_source_cache_registrations"),
];

/// The values that scopes are read from: totals, or what was added between two records.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'a> {
    before: Option<&'a Values>,
    after: &'a Values,
}

impl<'a> Interval<'a> {
    /// Totals since the component was attached.
    pub fn lifetime(values: &'a Values) -> Interval<'a> {
        Interval { before: None, after: values }
    }

    /// What was added between two readings; a counter that started again in between has no value.
    pub fn between(before: &'a Values, after: &'a Values) -> Interval<'a> {
        Interval { before: Some(before), after }
    }

    fn seconds(&self, path: &str) -> Option<f64> {
        let after = self.after.get(path);
        let seconds = match self.before {
            None => after?.as_f64()?,
            Some(before) => match delta::subtract(before.get(path), after) {
                Delta::Whole(whole) => whole as f64,
                Delta::Fraction(fraction) => fraction,
                _ => return None,
            },
        };
        (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
    }

    /// A whole number of the interval; what is declared and no counter has none between two records.
    pub fn count(&self, path: &str) -> Option<u64> {
        match self.before {
            None => self.after.get(path)?.as_u64(),
            Some(before) => match delta::subtract(before.get(path), self.after.get(path)) {
                Delta::Whole(whole) if delta::field(path).is_none_or(|field| field.kind == Kind::Counter) => Some(whole),
                _ => None,
            },
        }
    }

    /// Whether a path has a recorded value above zero at the end: decides the route, whatever the interval added.
    fn ran(&self, path: &str) -> bool {
        self.after.get(path).and_then(|value| value.as_f64()).is_some_and(|value| value > 0.0)
    }

    /// Whether any field of that beginning was recorded.
    fn has_family(&self, prefix: &str) -> bool {
        let start = format!("runtime.vmm.{prefix}");
        let from = (Bound::Included(start.as_str()), Bound::Unbounded);
        self.after.range::<str, _>(from).next().is_some_and(|(path, _)| path.starts_with(&start))
    }
}

/// A reconciliation as it is written, with the rows that people read.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconciled {
    /// The document.
    pub document: Reconciliation,
    /// Its scopes with their place in the tree.
    pub rows: Vec<Row>,
}

impl Reconciled {
    /// The longest residual below the broad scope, with its scope; `None` where none is known.
    pub fn unexplained(&self) -> Option<(&Row, f64)> {
        let known = self.rows.iter().filter(|row| row.below_broad).filter_map(|row| Some((row, row.scope.residual_seconds.0?.0)));
        known.filter(|(_, seconds)| *seconds > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The row of a scope.
    pub fn row(&self, scope: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.scope.scope == scope)
    }
}

/// Reconciles what was chosen of a component.
pub fn of(component: &str, choice: &Choice<'_>) -> Reconciled {
    let rows = scopes(&choice.interval);
    let document = Reconciliation {
        schema_version: Reconciliation::VERSION,
        component: Nullable(Some(component.to_string())),
        interval: choice.words.clone(),
        scopes: rows.iter().map(|row| row.scope.clone()).collect(),
        headline: Nullable(headline(&rows)),
        notes: call_notes(&choice.interval),
    };
    Reconciled { document, rows }
}

/// The longest scope of uploads that nothing recorded divides: below the broad one, or beside it on the plain staging path.
fn headline(rows: &[Row]) -> Option<Headline> {
    let beside = |row: &Row| STAGING.contains(&row.scope.scope.as_str());
    let staged = rows.iter().any(|row| beside(row) && row.scope.total_seconds.0.is_some());
    let of_uploads = |row: &Row| row.below_broad && row.counted || staged && (beside(row) || row.scope.scope == BROAD);
    let undivided = |row: &&Row| of_uploads(row) && row.scope.children.is_empty();
    let known = rows.iter().filter(undivided).filter_map(|row| Some((row, row.scope.total_seconds.0?)));
    // The first of equals, so that the same input gives the same answer.
    let mut longest: Option<(&Row, Seconds)> = None;
    for (row, seconds) in known.filter(|(_, seconds)| seconds.0 > 0.0) {
        if longest.is_none_or(|(_, most)| seconds.0 > most.0) {
            longest = Some((row, seconds));
        }
    }
    let (row, seconds) = longest?;
    let broad = rows.iter().find(|row| row.scope.scope == BROAD).and_then(|row| row.scope.total_seconds.0);
    // Scopes beside the broad one are no share of it.
    let share = broad.filter(|_| row.counted).map(|broad| seconds.0 / broad.0).filter(|share| share.is_finite()).map(Ratio);
    let named = NEXT.iter().find(|(scope, _)| *scope == row.scope.scope).map(|(_, field)| *field);
    let next = find(&row.scope.scope).and_then(|scope| scope.calls).or(named).map(str::to_string);
    Some(Headline { scope: row.scope.scope.clone(), seconds, share: Nullable(share), next_field: Nullable(next) })
}

/// Where calls that belong together differ, with the field that would show why.
fn call_notes(interval: &Interval<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let calls = |scope: &Scope| scope.calls.and_then(|path| interval.count(path));
    for scope in SCOPES {
        for inside in scope.inside.iter().filter(|inside| inside.one_to_one && inside.nature == Nature::Contains) {
            let around = find(inside.parent).and_then(calls);
            if let (Some(own), Some(around)) = (calls(scope), around)
                && own != around
            {
                notes.push(format!(
                    "{} was entered {own} times, {} around it {around} times; failed operations would explain it, and {SUBMISSIONS} \
                     counts only those that succeeded",
                    scope.name, inside.parent
                ));
            }
        }
    }
    if let (Some(calls), Some(submitted)) = (find(SUBMIT_CALL).and_then(calls), interval.count(SUBMISSIONS))
        && calls != submitted
    {
        notes.push(format!(
            "{SUBMIT_CALL} was entered {calls} times, {SUBMISSIONS} is {submitted}; it leaves out failed and partial submissions"
        ));
    }
    notes
}

/// True where a verdict is a defect of the data.
pub fn is_defect(verdict: ScopeVerdict) -> bool {
    verdict == ScopeVerdict::ChildExceedsParent
}

#[cfg(test)]
mod tests;
