//! One screen for people: "What should I know first?"
//!
//! Uses `analysis`. Invariants: findings come first; at most about 40 lines of 100 columns without colours; every
//! figure names its unit and, where it could be mistaken, its label; what is unknown says why.

use crate::analysis::{self, floor, lookahead, memory, steps, windows};
use crate::limits::{MAX_PRINTED_FINDINGS, TEXT_COLUMNS};
use crate::output::summary::{leading_component, status};
use crate::run::{Component, Run, Timeline};
use crate::text::{shorten, shorten_to};
use ddo_schemas::summary::FloorTerm;
use ddo_schemas::timeline::SampleKind;
use ddo_schemas::unit::human_bytes;
use ddo_schemas::{Finding, Severity};
use std::path::Path;

/// Lines that one entry may take.
const MAX_WRAPPED: usize = 3;

/// Collects lines under a label column.
#[derive(Default)]
struct Screen {
    lines: Vec<String>,
}

impl Screen {
    fn line(&mut self, text: &str) {
        self.lines.push(shorten_to(text, TEXT_COLUMNS));
    }

    fn item(&mut self, label: &str, text: &str) {
        self.wrapped(&format!("{label:<14}"), 14, text, MAX_WRAPPED);
    }

    /// Breaks text between words into at most `lines` lines; later ones are indented.
    fn wrapped(&mut self, first: &str, indent: usize, text: &str, lines: usize) {
        let mut line = first.to_string();
        let mut used = 0;
        let mut fresh = true;
        for word in text.split(' ') {
            let full = line.chars().count() + 1 + word.chars().count() > TEXT_COLUMNS;
            if full && !fresh && used + 1 < lines {
                self.line(&line);
                used += 1;
                line = " ".repeat(indent);
                fresh = true;
            }
            if !fresh {
                line.push(' ');
            }
            line.push_str(word);
            fresh = false;
        }
        self.line(&line);
    }

    fn more(&mut self, text: &str) {
        self.item("", text);
    }
}

/// The screen for a run; `folder` is where the outputs were written.
pub fn screen(run: &Run, folder: Option<&Path>) -> String {
    let mut screen = Screen::default();
    findings(&mut screen, run);
    head(&mut screen, run);
    match leading_component(run) {
        Some(component) => about(&mut screen, run, component),
        None => screen.item("component", "none recorded: the command attached nothing to a recorder"),
    }
    process_memory(&mut screen, run);
    if let Some(folder) = folder {
        screen.item("outputs", &folder.display().to_string());
        screen.more(&format!("{}: open it in https://ui.perfetto.dev", super::TRACE_FILE));
        screen.more(&format!("{}: the same for machines", super::SUMMARY_FILE));
    }
    screen.lines.push(String::new());
    screen.lines.join("\n")
}

fn findings(screen: &mut Screen, run: &Run) {
    let all = analysis::findings(run);
    let serious: Vec<&Finding> = all.iter().filter(|finding| analysis::is_serious(finding)).collect();
    for finding in serious.iter().take(MAX_PRINTED_FINDINGS) {
        let word = if finding.severity == Severity::Error { "ERROR" } else { "WARNING" };
        screen.wrapped(&format!("{word:<8}"), 8, &format!("{}: {}", shorten(&finding.place), finding.text), 2);
    }
    let notes = all.len() - serious.len();
    let hidden = serious.len().saturating_sub(MAX_PRINTED_FINDINGS);
    let mut rest = Vec::new();
    if hidden > 0 {
        rest.push(format!("{hidden} more finding(s)"));
    }
    if notes > 0 {
        rest.push(format!("{notes} note(s)"));
    }
    match (serious.is_empty(), rest.is_empty()) {
        (true, true) => screen.item("findings", "none"),
        (true, false) => screen.item("findings", &format!("none; {} in {}", rest.join(", "), super::SUMMARY_FILE)),
        (false, true) => {}
        (false, false) => screen.line(&format!("        and {} in {}", rest.join(", "), super::SUMMARY_FILE)),
    }
}

fn head(screen: &mut Screen, run: &Run) {
    match &run.manifest {
        Some(manifest) => screen.item("command", &shorten_to(&manifest.command.join(" "), TEXT_COLUMNS - 14)),
        None => screen.item("run", &format!("{} (no manifest: not made by ddo-record)", shorten(&run.name))),
    }
    let mut words = vec![status(run)];
    if let Some(seal) = &run.seal {
        words.push(format!("after {}", seconds(seal.duration_seconds.0)));
    }
    if run.manifest.is_some() || run.seal.is_some() {
        screen.item("status", &words.join(" "));
    }
    let labels: Vec<String> = run.manifest.iter().flat_map(|m| &m.labels).map(|(key, value)| format!("{key}={value}")).collect();
    if !labels.is_empty() {
        screen.item("labels", &labels.join(", "));
    }
}

fn about(screen: &mut Screen, run: &Run, component: &Component) {
    let others = run.components.len() - 1;
    let more = if others > 0 { format!(" (and {others} other(s), in the trace)") } else { String::new() };
    let reports: Vec<&str> = component.reports.iter().map(|report| report.short_name()).collect();
    let named = if reports.is_empty() { String::new() } else { format!(": {}", reports.join(", ")) };
    let records = component.records.len();
    screen
        .item("component", &format!("{}{more}, {records} journal record(s), {} report(s){named}", component.name, reports.len()));
    step_lines(screen, component);
    let report = Run::leading_report(component);
    if let Some(timeline) = report.and_then(|report| report.timeline.as_ref()) {
        upload_lines(screen, timeline);
        window_lines(screen, timeline);
    }
    look_ahead_lines(screen, component);
    weight_lines(screen, component);
}

fn step_lines(screen: &mut Screen, component: &Component) {
    let steps = steps::of(component);
    let mut words = Vec::new();
    match steps.count {
        Some(count) => words.push(format!("{count} (by {})", steps.counted_by)),
        None => words.push("not known".into()),
    }
    if let Some(first) = steps.first_seconds {
        words.push(format!("first {} (cold)", seconds(first)));
    }
    match steps.steady_seconds {
        Some(steady) => words.push(format!("then {} a step", seconds(steady))),
        None => words.push(steps.reason.to_string()),
    }
    if let Some(clock) = &steps.clock {
        words.push(format!("clock {clock}"));
    }
    screen.item("steps", &words.join(", "));
    let floor = floor::of(component, &steps);
    let head = match (floor.seconds, floor.efficiency) {
        (Some(floor), Some(efficiency)) => format!("{}, efficiency {:.1} %", seconds(floor), efficiency * 100.0),
        (Some(floor), None) => seconds(floor),
        _ => "unknown (needs the compute and the upload term)".into(),
    };
    screen.item("floor", &head);
    for (name, term) in [("compute", &floor.terms.compute), ("upload", &floor.terms.upload), ("disk", &floor.terms.disk)] {
        screen.wrapped(&format!("{:<14}{name:<9}", ""), 23, &term_text(term), MAX_WRAPPED);
    }
}

fn term_text(term: &FloorTerm) -> String {
    match term.seconds.0 {
        Some(value) => format!("{} ({}: {})", seconds(value.0), term.origin, term.basis),
        None => format!("unknown: {}", term.basis),
    }
}

fn upload_lines(screen: &mut Screen, timeline: &Timeline) {
    let Some(uploads) = windows::warm_uploads(timeline) else {
        let any = windows::by_kind(timeline).iter().any(|figures| figures.kind == SampleKind::UploadBatchWindow);
        let why =
            if any { "no upload windows between complete markers of warm steps" } else { "no upload windows were recorded" };
        return screen.item("uploads", why);
    };
    let mut words = vec![format!("{} windows in the warm steps", uploads.windows)];
    match (uploads.bytes, uploads.steps) {
        (Some(bytes), Some(steps)) => words.push(format!("{} a step", human_bytes(bytes / steps))),
        (Some(bytes), None) => words.push(human_bytes(bytes)),
        (None, _) => words.push("bytes not collected".into()),
    }
    words.push(format!("open for {} of {}", ns(uploads.union_ns), ns(uploads.span_ns)));
    screen.item("uploads", &words.join(", "));
    screen.more(&format!("no upload window open for {}", ns(uploads.idle_ns)));
    if let Some(rate) = uploads.rate {
        screen.more(&format!("upload_window_rate {}/s: {}", human_bytes(rate as u64), windows::RATE_LABEL));
    }
}

fn window_lines(screen: &mut Screen, timeline: &Timeline) {
    for figures in windows::by_kind(timeline) {
        let text = match figures.kind {
            SampleKind::ComputeUploadDependency => "compute waited for uploads",
            SampleKind::UploadSlotDependency => "uploads waited for a free slot",
            _ => continue,
        };
        let label = if figures.kind == SampleKind::ComputeUploadDependency { "waits" } else { "" };
        screen.item(label, &format!("{text}: {} windows, {} in all (launch gaps included)", figures.count, ns(figures.union_ns)));
    }
    for (at, unit) in windows::slowest_units(timeline).into_iter().enumerate() {
        let label = if at == 0 { "slowest units" } else { "" };
        let text = format!("{} mean, {} max, {} windows: {}", ns(unit.mean_ns), ns(unit.max_ns), unit.count, unit.name);
        screen.item(label, &text);
    }
}

fn look_ahead_lines(screen: &mut Screen, component: &Component) {
    let Some(found) = lookahead::of(component) else { return };
    let mut words = Vec::new();
    for (value, word) in [
        (found.units, "ahead"),
        (found.hits, "hits"),
        (found.skips, "skipped"),
        (found.cancelled, "cancelled"),
        (found.in_flight, "in flight"),
    ] {
        if let Some(value) = value {
            words.push(format!("{value} {word}"));
        }
    }
    if let (Some(share), Some(requests)) = (found.hit_share(), found.requests) {
        words.push(format!("{:.1} % of {requests} requests hit", share * 100.0));
    }
    screen.item("look-ahead", &words.join(", "));
}

fn weight_lines(screen: &mut Screen, component: &Component) {
    let text = match (memory::weights_resident(component), memory::ceiling(component)) {
        (Some(resident), Some(ceiling)) => {
            format!("{} on the device under a ceiling of {}", human_bytes(resident), human_bytes(ceiling))
        }
        (Some(resident), None) => format!("{} on the device; the ceiling is not recorded", human_bytes(resident)),
        (None, Some(ceiling)) => format!("ceiling {}; the device's share is not recorded", human_bytes(ceiling)),
        (None, None) => return,
    };
    screen.item("weights", &text);
}

fn process_memory(screen: &mut Screen, run: &Run) {
    if let Some(peak) = memory::peak_rss(run) {
        let text = format!("sampled peak rss {} (mapped pages count; short peaks can be missed)", human_bytes(peak));
        screen.item("host memory", &text);
    }
}

fn ns(value: i64) -> String {
    seconds(value as f64 / 1e9)
}

/// Seconds with a unit that keeps about four figures.
fn seconds(value: f64) -> String {
    match value.abs() {
        size if size >= 1.0 || value == 0.0 => format!("{value:.3} s"),
        size if size >= 1e-3 => format!("{:.3} ms", value * 1e3),
        _ => format!("{:.1} us", value * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_screen_findings_first_and_no_control_characters() {
        let finding =
            |at: usize| Finding::error("code", format!("file{at}\u{1b}[31m"), "a long sentence that goes on ".repeat(20));
        let run = Run { name: "r".into(), findings: (0..50).map(finding).collect(), ..Run::default() };
        let text = screen(&run, Some(Path::new("out")));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() <= 40, "{} lines", lines.len());
        assert!(lines.iter().all(|line| line.chars().count() <= TEXT_COLUMNS));
        assert!(lines[0].starts_with("ERROR") && text.contains("44 more finding(s)"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}
