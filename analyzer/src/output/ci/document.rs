//! `verdict.json`: "What is the verdict, for machines?"
//!
//! Uses `analysis::diff`. Invariants: the declared shape; null where a run lacks a number; no number that is not finite.

use crate::analysis::diff::{Change, Comparison, Metric, Number, Rule, Verdict};
use ddo_schemas::Ratio;
use ddo_schemas::scalar::JsonScalar;
use ddo_schemas::unit::Nullable;
use ddo_schemas::verdict::{Answer, ComparedMetric, ComparedRuns, DiagnosticChange, DifferingField, EffectSize, VerdictDocument};

/// The declared document of a comparison; with `strict` an open answer has an exit code of its own.
pub fn document(comparison: &Comparison, strict: bool) -> VerdictDocument {
    VerdictDocument {
        schema_version: VerdictDocument::VERSION,
        verdict: match comparison.verdict {
            Verdict::Same => Answer::Same,
            Verdict::Improved => Answer::Improved,
            Verdict::Regression => Answer::Regression,
            Verdict::Inconclusive => Answer::Inconclusive,
            Verdict::NotComparable => Answer::NotComparable,
        },
        exit_code: comparison.verdict.exit_code(strict).into(),
        reasons: comparison.reasons.clone(),
        comparable: comparison.comparable,
        differences: comparison
            .differences
            .iter()
            .map(|one| DifferingField { field: one.field.clone(), text: one.text.clone(), allowed: one.allowed })
            .collect(),
        runs: ComparedRuns {
            base: comparison.base.clone(),
            candidate: comparison.candidate.clone(),
            left_out: comparison.left_out.clone(),
            interleaved: comparison.interleaved,
        },
        confirmed: comparison.confirmed,
        diagnostic_changes: match comparison.diagnostic_changes.as_slice() {
            [] => None,
            changes => Some(changes.iter().map(changed).collect()),
        },
        metrics: comparison.metrics.iter().map(metric).collect(),
    }
}

fn changed(change: &Change) -> DiagnosticChange {
    let ratio = |value: Option<f64>| Nullable(value.filter(|value| value.is_finite()).map(Ratio));
    DiagnosticChange {
        path: change.path.clone(),
        unit: change.unit.name().into(),
        base: ratio(change.base),
        candidate: ratio(change.candidate),
        change_percent: ratio(change.change_percent),
    }
}

fn metric(metric: &Metric) -> ComparedMetric {
    let values = |side: &[Option<Number>]| -> Vec<JsonScalar> {
        side.iter().map(|value| value.map_or(JsonScalar::Null, Number::json)).collect()
    };
    let ratio = |value: f64| Nullable(value.is_finite().then_some(Ratio(value)));
    let statistical = matches!(metric.rule, Rule::Statistical | Rule::Off);
    let limit = |value: f64| if statistical { ratio(value) } else { Nullable(None) };
    ComparedMetric {
        path: metric.path.clone(),
        class: metric.class.word().into(),
        rule: metric.rule.word().into(),
        unit: metric.unit.name().into(),
        base: values(&metric.base),
        candidate: values(&metric.candidate),
        change: metric.change.filter(|value| value.is_finite()).map_or(JsonScalar::Null, JsonScalar::Real),
        change_percent: Nullable(metric.change_percent.filter(|value| value.is_finite()).map(Ratio)),
        p: Nullable(metric.p.map(Ratio)),
        effect: Nullable(metric.effect.map(|effect| EffectSize {
            ratio: Ratio(effect.ratio),
            low: Nullable(effect.low.map(Ratio)),
            high: Nullable(effect.high.map(Ratio)),
        })),
        // Rounded: a percentage of 5 is not 5.000000000000001.
        threshold_percent: limit((metric.threshold * 1e6).round() / 1e4),
        floor: limit(metric.floor),
        verdict: metric.verdict.word().into(),
        reason: metric.reason.clone(),
        gated: metric.gated,
        owner: Nullable(metric.owner.clone()),
    }
}
