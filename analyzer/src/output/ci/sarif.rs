//! SARIF 2.1.0: "Which findings does a code scanner show?"
//!
//! Uses the declared document. Invariants: rule identifiers never change; a result is a gated number that is worse or open, or a field
//! that makes the sides incomparable; neither a command line nor a host name.
//!
//! Source: the OASIS standard sarif-v2.1.0; its JSON Schema is in `tests/data/sarif`.

use super::pretty;
use super::words::{change, is_open, is_worse, side};
use crate::error::Error;
use ddo_schemas::verdict::{ComparedMetric, VerdictDocument};
use serde_json::{Value, json};

/// Identifier, name and text of every rule, in the order of their indexes.
const RULES: [(&str, &str, &str); 3] = [
    ("diff_regression", "Regression", "A gated number is worse than in the base runs."),
    ("diff_inconclusive", "Inconclusive", "A gated number cannot be judged with these runs."),
    ("diff_not_comparable", "NotComparable", "The two sides are not the same experiment."),
];

/// The verdict as SARIF.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn sarif(verdict: &VerdictDocument) -> Result<String, Error> {
    let rules: Vec<Value> = RULES
        .iter()
        .map(|(id, name, text)| json!({"id": id, "name": name, "shortDescription": {"text": text}, "defaultConfiguration": {"level": "error"}}))
        .collect();
    let refused = verdict.differences.iter().map(|one| {
        let level = if one.allowed { "warning" } else { "error" };
        result(2, "fail", level, &one.field, &format!("{}: {}", one.field, one.text))
    });
    let gated = |of: fn(&ComparedMetric) -> bool| verdict.metrics.iter().filter(move |metric| metric.gated && of(metric));
    let worse = gated(is_worse).map(|metric| result(0, "fail", "error", &metric.path, &message(metric)));
    let open = gated(is_open).map(|metric| result(1, "review", "none", &metric.path, &message(metric)));
    let results: Vec<Value> = refused.chain(worse).chain(open).collect();
    let document = json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "ddo-analyze", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "results": results,
            "properties": {"verdict": verdict.verdict.name(), "comparable": verdict.comparable},
        }],
    });
    pretty("the SARIF log", &document)
}

fn result(rule: usize, kind: &str, level: &str, name: &str, text: &str) -> Value {
    let id = RULES.get(rule).map_or("", |(id, _, _)| id);
    json!({
        "ruleId": id, "ruleIndex": rule, "kind": kind, "level": level, "message": {"text": text},
        "locations": [{
            "physicalLocation": {"artifactLocation": {"uri": "verdict.json"}},
            "logicalLocations": [{"fullyQualifiedName": name, "kind": "member"}],
        }],
        "partialFingerprints": {"metric/v1": format!("{id}:{name}")},
    })
}

fn message(metric: &ComparedMetric) -> String {
    let (base, candidate) = (side(metric, &metric.base), side(metric, &metric.candidate));
    let owner = metric.owner.0.as_ref().map_or_else(String::new, |owner| format!(" Owner: {owner}."));
    let reason = if metric.reason.is_empty() { String::new() } else { format!(" {}.", metric.reason) };
    format!("{}: {base} to {candidate} ({}).{reason}{owner}", metric.path, change(metric))
}
