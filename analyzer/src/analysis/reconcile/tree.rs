//! One tree of scopes: "What does each scope contain, and what is left of it?"
//!
//! Uses the declared scopes. Invariants: a scope is subtracted in at most one place; an excess of a scope that also runs
//! elsewhere is named so and is no defect.

use super::{BROAD, Interval};
use crate::limits::{RESIDUAL_DOMINATES, SCOPE_TOLERANCE, SCOPE_TOLERANCE_SECONDS};
use ddo_schemas::reconciliation::{ReconciledScope, ScopeVerdict};
use ddo_schemas::scope::{Inside, Nature, SCOPES, Scope, find};
use ddo_schemas::unit::{Nullable, Ratio, Seconds};

/// Beginnings of scopes that belong to one part of a runtime: where none of a part's fields is recorded, the part does not
/// exist on that route, so that none of its scopes is missing.
const FAMILIES: &[&str] =
    &["fast_source_cache_", "fast_native_transport_batch_", "fast_native_transport_ring_", "fast_view_", "fast_torch_allocator_"];

/// A scope with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The scope as it is written.
    pub scope: ReconciledScope,
    /// How it lies in the parent that is named; `None` for a root.
    pub nature: Option<Nature>,
    /// Whether its time is subtracted from that parent.
    pub counted: bool,
    /// How many scopes are around it.
    pub depth: usize,
    /// Whether it lies in the broad upload scope, or is it.
    pub below_broad: bool,
    /// Time of the scopes that were subtracted.
    pub inside_seconds: f64,
    /// Mean of a call.
    pub seconds_per_call: Option<f64>,
    /// Whether a contained scope also runs elsewhere, so that the residual is a lower bound.
    pub at_least: bool,
    /// Whether the residual spans levels that were not recorded.
    pub spans_levels: bool,
}

impl Row {
    /// The path of its seconds.
    pub fn path(&self) -> &'static str {
        find(&self.scope.scope).map_or("", |scope| scope.seconds)
    }
}

/// Where a scope stands on the route of an interval.
#[derive(Clone, Copy)]
struct Place {
    inside: Option<&'static Inside>,
    counted: bool,
}

/// Every scope, parents first, in the order of the declaration.
pub fn scopes(interval: &Interval<'_>) -> Vec<Row> {
    let tree = Tree::of(interval);
    let mut rows = Vec::new();
    for (scope, place) in tree.all().filter(|(_, place)| place.inside.is_none()) {
        tree.walk(scope, place, 0, false, &mut rows);
    }
    rows
}

struct Tree<'a> {
    interval: &'a Interval<'a>,
    places: Vec<Place>,
    absent_families: Vec<&'static str>,
}

impl<'a> Tree<'a> {
    fn of(interval: &'a Interval<'a>) -> Tree<'a> {
        let places = SCOPES.iter().map(|scope| place(scope, interval)).collect();
        let mut absent_families: Vec<&str> = FAMILIES.iter().copied().filter(|family| !interval.has_family(family)).collect();
        // A retained source works in batches, so with it their scopes are missing and not out of place.
        if !absent_families.contains(&"fast_source_cache_") {
            absent_families.retain(|family| *family != "fast_native_transport_batch_");
        }
        Tree { interval, places, absent_families }
    }

    fn seconds(&self, scope: &Scope) -> Option<f64> {
        self.interval.seconds(scope.seconds)
    }

    /// Whether a scope exists on this route, recorded or not.
    fn exists(&self, scope: &Scope) -> bool {
        self.seconds(scope).is_some() || !self.absent_families.iter().any(|family| scope.name.starts_with(family))
    }

    /// Every scope with its place.
    fn all(&self) -> impl Iterator<Item = (&'static Scope, Place)> {
        SCOPES.iter().zip(self.places.iter().copied())
    }

    /// The scopes placed in one, counted or not.
    fn placed_in(&self, parent: &str) -> impl Iterator<Item = (&'static Scope, Place)> {
        self.all().filter(move |(_, place)| place.inside.is_some_and(|inside| inside.parent == parent))
    }

    /// The scopes whose time is subtracted from one, recorded or missing.
    fn counted_in(&self, parent: &str) -> impl Iterator<Item = (&'static Scope, Nature)> {
        let counted = self.placed_in(parent).filter(|(scope, place)| place.counted && self.exists(scope));
        counted.filter_map(|(scope, place)| Some((scope, place.inside?.nature)))
    }

    fn walk(&self, scope: &'static Scope, place: Place, depth: usize, below_broad: bool, rows: &mut Vec<Row>) {
        let below_broad = below_broad || scope.name == BROAD;
        rows.push(self.row(scope, place, depth, below_broad));
        for (child, place) in self.placed_in(scope.name) {
            self.walk(child, place, depth + 1, below_broad, rows);
        }
    }

    fn row(&self, scope: &'static Scope, place: Place, depth: usize, below_broad: bool) -> Row {
        let total = self.seconds(scope);
        let calls = scope.calls.and_then(|path| self.interval.count(path));
        let parent = place.inside.map(|inside| inside.parent);
        let around = parent.and_then(find).and_then(|parent| self.seconds(parent)).filter(|seconds| *seconds > 0.0);
        let share = total.zip(around).map(|(own, around)| own / around).filter(|share| share.is_finite()).map(Ratio);
        let parts = total.map_or_else(Parts::default, |total| self.parts(scope, total));
        let mean = total.zip(calls).filter(|(_, calls)| *calls > 0).map(|(total, calls)| total / calls as f64);
        Row {
            nature: place.inside.map(|inside| inside.nature),
            counted: place.counted,
            depth,
            below_broad,
            inside_seconds: parts.seconds,
            seconds_per_call: mean,
            at_least: parts.at_least,
            spans_levels: parts.spans_levels,
            scope: ReconciledScope {
                scope: scope.name.to_string(),
                parent: Nullable(parent.map(str::to_string)),
                total_seconds: Nullable(total.map(Seconds)),
                calls: Nullable(calls),
                children: names(&parts.recorded),
                residual_seconds: Nullable(parts.residual.filter(|left| left.is_finite()).map(Seconds)),
                share_of_parent: Nullable(share),
                verdict: parts.verdict,
                unavailable: names(&parts.missing),
            },
        }
    }

    /// What a recorded scope contains.
    fn parts(&self, scope: &Scope, total: f64) -> Parts {
        let all: Vec<(&'static Scope, Nature)> = self.counted_in(scope.name).collect();
        let (mut recorded, mut missing): (Vec<_>, Vec<_>) = all.into_iter().partition(|(child, _)| self.seconds(child).is_some());
        let shared = self.shared_with(scope.name);
        let mut spans_levels = false;
        if recorded.is_empty() && shared.is_empty() && !missing.is_empty() {
            let mut levels = Vec::new();
            let nearest = self.nearest(&missing, &mut levels);
            if let [one] = nearest.as_slice() {
                recorded = vec![*one];
                missing = levels;
                spans_levels = true;
            }
        }
        missing.extend(shared.into_iter().map(|scope| (scope, Nature::PartlyOutside)));
        let mut parts = Parts { recorded, missing, spans_levels, ..Parts::default() };
        let sum = |of: Nature| -> f64 {
            parts.recorded.iter().filter(|(_, nature)| *nature == of).filter_map(|(child, _)| self.seconds(child)).sum()
        };
        let (contained, partly) = (sum(Nature::Contains), sum(Nature::PartlyOutside));
        parts.at_least = parts.recorded.iter().any(|(_, nature)| *nature == Nature::PartlyOutside);
        parts.seconds = contained + partly;
        let residual = total - contained - partly;
        let tolerance = SCOPE_TOLERANCE_SECONDS + SCOPE_TOLERANCE * total;
        (parts.verdict, parts.residual) = if parts.recorded.is_empty() && parts.missing.is_empty() {
            (ScopeVerdict::Leaf, None)
        } else if contained > total + tolerance {
            (ScopeVerdict::ChildExceedsParent, Some(residual))
        } else if !parts.missing.is_empty() && !spans_levels {
            (ScopeVerdict::ChildUnavailable, None)
        } else if residual < -tolerance {
            (ScopeVerdict::ChildPartlyOutside, None)
        } else if residual > RESIDUAL_DOMINATES * total {
            (ScopeVerdict::ResidualDominates, Some(residual))
        } else {
            (ScopeVerdict::Reconciles, Some(residual))
        };
        parts
    }

    /// Recorded scopes that lie partly in this scope and partly in another, in shares that are not recorded.
    fn shared_with(&self, parent: &str) -> Vec<&'static Scope> {
        let shares = |(scope, place): &(&'static Scope, Place)| {
            !place.counted
                && place.inside.is_some_and(|inside| inside.nature == Nature::PartlyOutside)
                && applicable(scope, self.interval).any(|inside| inside.parent == parent)
        };
        let recorded = |scope: &&Scope| self.seconds(scope).is_some_and(|seconds| seconds > 0.0);
        self.all().filter(shares).map(|(scope, _)| scope).filter(recorded).collect()
    }

    /// The nearest recorded scopes below missing ones; `levels` collects what was passed.
    fn nearest(
        &self,
        missing: &[(&'static Scope, Nature)],
        levels: &mut Vec<(&'static Scope, Nature)>,
    ) -> Vec<(&'static Scope, Nature)> {
        let mut found = Vec::new();
        for (scope, nature) in missing {
            levels.push((scope, *nature));
            let all: Vec<_> = self.counted_in(scope.name).collect();
            let (recorded, deeper): (Vec<_>, Vec<_>) = all.into_iter().partition(|(child, _)| self.seconds(child).is_some());
            found.extend(recorded);
            found.extend(self.nearest(&deeper, levels));
        }
        found
    }
}

fn names(scopes: &[(&'static Scope, Nature)]) -> Vec<String> {
    scopes.iter().map(|(scope, _)| scope.name.to_string()).collect()
}

struct Parts {
    recorded: Vec<(&'static Scope, Nature)>,
    missing: Vec<(&'static Scope, Nature)>,
    seconds: f64,
    residual: Option<f64>,
    verdict: ScopeVerdict,
    at_least: bool,
    spans_levels: bool,
}

impl Default for Parts {
    fn default() -> Parts {
        let verdict = ScopeVerdict::Unavailable;
        Parts {
            recorded: Vec::new(),
            missing: Vec::new(),
            seconds: 0.0,
            residual: None,
            verdict,
            at_least: false,
            spans_levels: false,
        }
    }
}

/// The relations of a scope that hold on the route of an interval, overlaps left out.
fn applicable(scope: &Scope, interval: &Interval<'_>) -> impl Iterator<Item = &'static Inside> {
    let holds = |inside: &&'static Inside| inside.nature != Nature::Overlaps && inside.route.applies(|path| interval.ran(path));
    scope.inside.iter().filter(holds).collect::<Vec<_>>().into_iter()
}

/// A scope stands in the scope that contains it. One that lies partly in several stands in the first and is subtracted from
/// none; where no relation holds it stands where it would be on another route.
fn place(scope: &Scope, interval: &Interval<'_>) -> Place {
    let holds: Vec<&'static Inside> = applicable(scope, interval).collect();
    let of = |nature: Nature| holds.iter().copied().filter(move |inside| inside.nature == nature);
    if let Some(inside) = of(Nature::Contains).next() {
        return Place { inside: Some(inside), counted: true };
    }
    if let Some(inside) = of(Nature::PartlyOutside).next() {
        return Place { inside: Some(inside), counted: of(Nature::PartlyOutside).count() == 1 };
    }
    let shown = of(Nature::ShownOnly).next();
    let elsewhere = || scope.inside.iter().find(|inside| inside.nature != Nature::Overlaps);
    Place { inside: shown.or_else(elsewhere), counted: false }
}
