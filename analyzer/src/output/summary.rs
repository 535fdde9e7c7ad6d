//! `summary.json`: "What does the analyzer say, for machines?"
//!
//! Uses `analysis`. Invariants: the declared shape; null where a value does not follow from the run.

use crate::analysis::{floor, steps};
use crate::error::Error;
use crate::run::{Component, Run};
use ddo_schemas::summary::{RunSummary, StepsSummary, Summary};
use ddo_schemas::unit::Nullable;
use ddo_schemas::version;
use ddo_schemas::{Finding, Seconds};
use std::collections::BTreeMap;
use std::io::Write;

/// The summary of a run with its findings.
pub fn of(run: &Run, findings: Vec<Finding>, outputs: BTreeMap<String, String>) -> Summary {
    let manifest = run.manifest.as_ref();
    Summary {
        schema_version: version::SUMMARY,
        run: RunSummary {
            command: Nullable(manifest.map(|manifest| manifest.command.clone())),
            status: status(run),
            duration_seconds: Nullable(run.seal.as_ref().map(|seal| seal.duration_seconds)),
            labels: manifest.map(|manifest| manifest.labels.clone()).unwrap_or_default(),
        },
        steps: steps_of(leading_component(run)),
        findings,
        outputs,
    }
}

/// How the command ended, in one phrase.
pub fn status(run: &Run) -> String {
    match (&run.seal, &run.manifest) {
        (Some(seal), _) => match (seal.status.as_str(), seal.exit_code, seal.signal) {
            ("exited", Some(code), _) => format!("exited {code}"),
            ("signaled", _, Some(signal)) => format!("signal {signal}"),
            (other, _, _) => crate::run::shorten(other),
        },
        (None, Some(_)) => "not sealed".into(),
        (None, None) => "unknown".into(),
    }
}

/// The component that the summary's steps are about: the first that was timed, else the first with steps.
pub fn leading_component(run: &Run) -> Option<&Component> {
    let timed = |component: &&Component| steps::of(component).steady_seconds.is_some();
    let counted = |component: &&Component| steps::of(component).count.is_some();
    run.components.iter().find(timed).or_else(|| run.components.iter().find(counted)).or_else(|| run.components.first())
}

fn steps_of(component: Option<&Component>) -> StepsSummary {
    let Some(component) = component else {
        return StepsSummary {
            count: Nullable(None),
            seconds_per_step: Nullable(None),
            efficiency: Nullable(None),
            floor_seconds: Nullable(None),
            floor_terms: floor::nothing_known(),
        };
    };
    let steps = steps::of(component);
    let floor = floor::of(component, &steps);
    StepsSummary {
        count: Nullable(steps.count),
        seconds_per_step: Nullable(steps.steady_seconds.map(Seconds)),
        efficiency: Nullable(floor.efficiency.map(Seconds)),
        floor_seconds: Nullable(floor.seconds.map(Seconds)),
        floor_terms: floor.terms,
    }
}

/// Writes a summary as indented JSON with a final newline.
///
/// # Errors
/// When it cannot be written.
pub fn write(summary: &Summary, out: &mut dyn Write) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(summary).map_err(|source| Error::Json { what: "the summary", source })?;
    out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).map_err(Error::Output)
}
