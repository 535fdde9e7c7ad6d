//! What must be equal before two runs are compared: "Are these the same experiment?"
//!
//! Uses `run`. Invariants: everything here is compared as text, so that nothing is rounded; what a run does not say is
//! "absent", which differs from every value; a failed or diagnostic run is never comparable.

use crate::run::{Component, Run};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Word for what a run does not say.
pub const ABSENT: &str = "absent";

/// Settings that may differ: the emulated link is the experiment itself on the host driver.
const EXEMPT: [&str; 1] = ["link_bytes_per_second"];

/// Scopes that change what they measure.
const DIAGNOSTIC: [&str; 3] =
    ["runtime.allocation_diagnostics", "runtime.operator_diagnostics", "runtime.execution_timing.diagnostic_step_wait"];

/// Facts about a run by field name.
pub type Identity = BTreeMap<String, String>;

/// Collects what must be equal.
pub fn of(run: &Run) -> Identity {
    let mut facts = Identity::new();
    if let Some(manifest) = &run.manifest {
        let settings = serde_json::to_value(&manifest.settings).unwrap_or(Value::Null);
        leaves("settings", &settings, &mut facts);
        facts.insert("memory_monitor".into(), manifest.memory_monitor.clone());
        // By name in the document, so that what older recorders lack is absent.
        let document = serde_json::to_value(manifest).unwrap_or(Value::Null);
        for key in ["ram_metric", "gpu_metric"] {
            leaves(key, document.get(key).unwrap_or(&Value::Null), &mut facts);
        }
        let machine = document.get("machine").unwrap_or(&Value::Null);
        for key in ["gpu_driver", "cpu", "logical_cpus"] {
            leaves(&format!("machine.{key}"), machine.get(key).unwrap_or(&Value::Null), &mut facts);
        }
        // Models, not identities: another device of the same model is the same experiment.
        if let Some(gpus) = machine.get("gpus").and_then(Value::as_array) {
            let names: Vec<&str> = gpus.iter().filter_map(|gpu| gpu.get("name")?.as_str()).collect();
            facts.insert("machine.gpus".into(), names.join(", "));
        }
        // How many devices, not which: another index of the same device is harmless.
        if let Some(devices) = manifest.environment.get("CUDA_VISIBLE_DEVICES") {
            let count = devices.split(',').filter(|device| !device.trim().is_empty()).count();
            facts.insert("visible_devices".into(), count.to_string());
        }
        for (key, value) in &manifest.labels {
            facts.insert(format!("labels.{key}"), value.clone());
        }
    }
    let names: BTreeSet<&str> = run.components.iter().map(|component| component.name.as_str()).collect();
    facts.insert("component".into(), names.into_iter().collect::<Vec<_>>().join(", "));
    let single = run.components.len() <= 1;
    for component in &run.components {
        let prefix = if single { String::new() } else { format!("{}/", component.name) };
        of_component(component, &prefix, &mut facts);
    }
    facts
}

fn of_component(component: &Component, prefix: &str, facts: &mut Identity) {
    let report = Run::leading_report(component);
    let configuration = report.map(|report| &report.configuration).filter(|value| value.is_object());
    let mut configured = Identity::new();
    leaves("configuration", configuration.unwrap_or(&component.configuration), &mut configured);
    configured.retain(|path, _| !EXEMPT.iter().any(|exempt| path.strip_prefix("configuration.") == Some(exempt)));
    facts.extend(configured.into_iter().map(|(path, value)| (format!("{prefix}{path}"), value)));
    if let Some(route) = report.and_then(|report| report.route.as_ref()) {
        facts.insert(format!("{prefix}route"), route.clone());
    }
    let timing = report.and_then(|report| report.timing.as_ref());
    if let Some(timing) = timing {
        facts.insert(format!("{prefix}runtime.execution_timing.clock"), timing.clock.clone());
    }
    let timed = timing.and_then(|timing| timing.step_seconds.as_ref()).map(Vec::len);
    let recorded = component.records.iter().filter(|record| record.step.is_some()).count();
    if let Some(steps) = timed.or((recorded > 0).then_some(recorded)) {
        facts.insert(format!("{prefix}steps"), steps.to_string());
    }
    // Differences and levels are comparable only between the same records and the same report.
    if let (Some(first), Some(last)) = (component.records.first(), component.records.last()) {
        let step = |step: Option<u64>| step.map_or_else(|| "before the first step".into(), |step| format!("step {step}"));
        facts.insert(format!("{prefix}journal.records"), format!("{} to {}", step(first.step), step(last.step)));
    }
    if let Some(report) = report {
        facts.insert(format!("{prefix}report"), crate::run::shorten(report.short_name()));
    }
}

/// Why a run cannot be compared with any other; empty for a sound one.
pub fn unsound(run: &Run) -> Vec<(String, String)> {
    let mut reasons = Vec::new();
    if let Some(seal) = &run.seal {
        match (seal.status.as_str(), seal.exit_code, seal.signal) {
            ("exited", Some(0), _) => {}
            ("exited", Some(code), _) => reasons.push(("failed".into(), format!("the command exited with {code}"))),
            (status, _, Some(signal)) => reasons.push(("failed".into(), format!("the command was {status} by signal {signal}"))),
            (status, _, None) => reasons.push(("failed".into(), format!("the command's status is {status}"))),
        }
    } else if run.manifest.is_some() {
        reasons.push(("failed".into(), "the recorder did not finish: there is no seal".into()));
    }
    for component in &run.components {
        for report in &component.reports {
            if report.timing.as_ref().is_some_and(|timing| timing.failed) {
                reasons.push(("runtime.execution_timing.failed".into(), format!("{}: the timed phase failed", report.file)));
            }
        }
        let Some(report) = Run::leading_report(component) else { continue };
        for scope in DIAGNOSTIC {
            let status = report.values.get(format!("{scope}.status").as_str());
            let enabled = report.values.get(format!("{scope}.enabled").as_str());
            let off = matches!(status, Some(crate::run::Scalar::Text(word)) if word == "disabled")
                || enabled == Some(&crate::run::Scalar::Bool(false));
            if (status.is_some() || enabled.is_some()) && !off {
                let text = format!("{}: {scope} was on; such a run is not a benchmark", report.file);
                reasons.push(("benchmark_eligible".into(), text));
            }
        }
        if report.is_diagnostic() && !reasons.iter().any(|(field, _)| field == "benchmark_eligible") {
            reasons.push(("benchmark_eligible".into(), format!("{} says that it is no benchmark", report.file)));
        }
    }
    reasons
}

fn leaves(path: &str, value: &Value, out: &mut Identity) {
    match value {
        Value::Null => {}
        Value::Object(map) => map.iter().for_each(|(key, inner)| leaves(&format!("{path}.{key}"), inner, out)),
        Value::String(text) => {
            out.insert(path.into(), text.clone());
        }
        other => {
            out.insert(path.into(), other.to_string());
        }
    }
}

/// The first field in which `other` differs from `one`, every one of them, in the order of their names.
pub fn differences<'a>(one: &'a Identity, other: &'a Identity) -> Vec<(&'a str, &'a str, &'a str)> {
    let names: BTreeSet<&str> = one.keys().chain(other.keys()).map(String::as_str).collect();
    let get = |facts: &'a Identity, name: &str| facts.get(name).map_or(ABSENT, String::as_str);
    names.into_iter().map(|name| (name, get(one, name), get(other, name))).filter(|(_, one, other)| one != other).collect()
}
