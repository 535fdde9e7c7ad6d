//! One screen for people: "What should I know first?"
//!
//! Uses `analysis`. Invariants: findings come first, then one sentence about where the time went, in which only what
//! the run proves is said; at most about 40 lines of 100 columns without colours; every
//! figure names its unit and, where it could be mistaken, its label; what is unknown says why.

use crate::analysis::bound::{self, Bound, Waited};
use crate::analysis::{self, floor, lookahead, memory, steps, windows};
use crate::limits::{MAX_PRINTED_FINDINGS, TEXT_COLUMNS};
use crate::output::summary::{leading_component, status};
use crate::run::{Component, Run, Timeline};
use crate::run::{shorten, shorten_to};
use ddo_schemas::summary::FloorTerm;
use ddo_schemas::timeline::SampleKind;
use ddo_schemas::unit::human_bytes;
use ddo_schemas::{Finding, Severity};
use std::path::Path;

/// Lines that one entry may take.
const MAX_WRAPPED: usize = 3;

/// Scopes and components that one screen tells of; subcommands have all.
const SCREEN_SCOPES: usize = 2;

/// What stands for text that was cut.
const CUT: &str = " ...";

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

    /// Breaks text between words into at most `lines` lines; later ones are indented, and what does not fit is cut
    /// after a word.
    fn wrapped(&mut self, first: &str, indent: usize, text: &str, lines: usize) {
        let mut line = first.to_string();
        let mut used = 0;
        let mut fresh = true;
        let mut words = text.split(' ').peekable();
        while let Some(word) = words.next() {
            // The last line keeps room for the sign that something was cut.
            let last = used + 1 >= lines;
            let room = if last && words.peek().is_some() { TEXT_COLUMNS - CUT.len() } else { TEXT_COLUMNS };
            let full = line.chars().count() + usize::from(!fresh) + word.chars().count() > room;
            if full && !fresh {
                if last {
                    line.push_str(CUT);
                    break;
                }
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

/// The screen for a run with its findings; `folder` is where the outputs were written.
pub fn screen(run: &Run, findings: &[Finding], folder: Option<&Path>) -> String {
    let mut screen = Screen::default();
    first_findings(&mut screen, findings);
    let leading = leading_component(run);
    screen.item("in short", &headline(run, leading));
    head(&mut screen, run);
    diagnosis(&mut screen, leading);
    if let Some(component) = leading {
        about(&mut screen, run, component);
    }
    for (at, line) in super::operators::lines(run).iter().enumerate() {
        screen.item(if at == 0 { "operators" } else { "" }, line);
    }
    for (at, line) in super::driver_calls::lines(run).iter().take(SCREEN_SCOPES).enumerate() {
        screen.item(if at == 0 { "driver calls" } else { "" }, line);
    }
    for (at, line) in super::generations::lines(run).iter().take(SCREEN_SCOPES).enumerate() {
        screen.item(if at == 0 { "generations" } else { "" }, line);
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

fn first_findings(screen: &mut Screen, all: &[Finding]) {
    let serious: Vec<&Finding> = all.iter().filter(|finding| analysis::is_serious(finding)).collect();
    for finding in serious.iter().take(MAX_PRINTED_FINDINGS) {
        let word = if finding.severity == Severity::Error { "ERROR" } else { "WARNING" };
        screen.wrapped(&format!("{word:<8}"), 8, &format!("{}: {}", shorten(&finding.place), finding.text), 2);
    }
    let notes = all.len() - serious.len();
    let hidden = serious.len().saturating_sub(MAX_PRINTED_FINDINGS);
    let mut rest = Vec::new();
    if hidden > 0 {
        rest.push(many(hidden, "more finding"));
    }
    if notes > 0 {
        rest.push(many(notes, "note"));
    }
    match (serious.is_empty(), rest.is_empty()) {
        (true, true) => screen.item("findings", "none"),
        (true, false) => screen.item("findings", &format!("none; {} in {}", rest.join(", "), super::SUMMARY_FILE)),
        (false, true) => {}
        (false, false) => screen.line(&format!("        and {} in {}", rest.join(", "), super::SUMMARY_FILE)),
    }
}

/// One sentence about where the time went.
fn headline(run: &Run, component: Option<&Component>) -> String {
    let Some(component) = component else {
        if run.manifest.is_none() && !run.operators.is_empty() {
            return "operator traces of a profiler and nothing else; `ddo-analyze operators` prints their top tables".into();
        }
        return "the command attached nothing to a recorder: there are no steps, and only how it ended is known".into();
    };
    let steps = steps::of(component);
    match bound::of(component, &steps) {
        Bound::Uploads { step_seconds, upload_seconds, bytes } => format!(
            "{} a step; the link's supplied rate alone needs {} for the {} streamed: uploads bound this run",
            rough(step_seconds),
            rough(upload_seconds),
            human_bytes(bytes)
        ),
        Bound::NearUploads { step_seconds, upload_seconds, bytes, waited } => format!(
            "{} a step, near the {} that the link's supplied rate needs for the {} streamed; but {}",
            rough(step_seconds),
            rough(upload_seconds),
            human_bytes(bytes),
            waited.map_or_else(|| "the timeline holds no waits for uploads".into(), |waited| waited_words(&waited, "only "))
        ),
        Bound::Waits { step_seconds, waited } => {
            let step = step_seconds.map_or(String::new(), |step| format!("{} a step; ", rough(step)));
            format!("{step}{}", waited_words(&waited, ""))
        }
        Bound::Resident { step_seconds } => {
            format!("{} a step with every weight resident: nothing is streamed", rough(step_seconds))
        }
        Bound::Unexplained { step_seconds, upload: Some((upload, bytes)) } => format!(
            "{} a step, of which the link's supplied rate needs {} for the {} streamed; nothing recorded explains the rest",
            rough(step_seconds),
            rough(upload),
            human_bytes(bytes)
        ),
        Bound::Unexplained { step_seconds, upload: None } => format!(
            "{} a step; without the link's rate or waits among stream windows nothing says what bounds it",
            rough(step_seconds)
        ),
        Bound::Untimed => format!("nothing says where the time went: {}", untimed(run, component, &steps)),
    }
}

/// How long compute waited; `only` stands before what is complete.
fn waited_words(waited: &Waited, only: &str) -> String {
    let least = if waited.at_least { "at least " } else { only };
    let span = waited.span_ns.map_or_else(
        || " in all steps, the cold one included,".into(),
        |span| format!(" of the {} of the warm steps{}", rough(span as f64 / 1e9), percent(waited.waited_ns, span)),
    );
    format!("compute waited {least}{}{span} for uploads (window geometry)", rough(waited.waited_ns as f64 / 1e9))
}

/// Why there are no step times; the recorder's switches are named only to those who used the recorder.
fn untimed(run: &Run, component: &Component, steps: &steps::Steps) -> String {
    let timed = Run::leading_report(component).is_some_and(|report| report.timing.is_some());
    match run.manifest.as_ref().map(|manifest| manifest.settings.gpu_timing) {
        Some(false) => "the steps were not timed; record with --gpu-timing --native-timeline".into(),
        Some(true) if component.reports.is_empty() => "the run ended before a report with step times was written".into(),
        _ if !timed => "no report holds step times".into(),
        _ => steps.reason.into(),
    }
}

/// A share in brackets, where it can be given.
fn percent(part: i64, whole: i64) -> String {
    if whole > 0 { format!(" ({:.1} %)", 100.0 * part as f64 / whole as f64) } else { String::new() }
}

/// A number of things in words.
fn many(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

fn head(screen: &mut Screen, run: &Run) {
    match &run.manifest {
        Some(manifest) => screen.wrapped(&format!("{:<14}", "command"), 14, &command(&manifest.command), 2),
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

/// That the run is no benchmark, where scopes that change what they measure were open, and what a step wait did.
fn diagnosis(screen: &mut Screen, component: Option<&Component>) {
    let Some(report) = component.and_then(Run::leading_report) else { return };
    let scopes = report.diagnostic_scopes();
    if scopes.is_empty() {
        return;
    }
    let names: Vec<&str> = scopes.iter().map(|scope| scope.rsplit('.').next().unwrap_or(scope)).collect();
    let were = if names.len() == 1 { "was" } else { "were" };
    screen.item("diagnosis", &format!("NOT A BENCHMARK: {} {were} on", names.join(" and ")));
    let wait = report.timing.as_ref().and_then(|timing| timing.diagnostic_step_wait.as_ref());
    if let Some((calls, waited)) = wait.and_then(|wait| wait.calls.zip(wait.host_seconds)) {
        screen.more(&format!(
            "the host waited {} in {} at the ends of steps; the rhythm is another one",
            seconds(waited.0),
            many(usize::try_from(calls).unwrap_or(usize::MAX), "wait")
        ));
    }
}

/// The program without its folders, then the arguments, each as one word.
fn command(words: &[String]) -> String {
    let shown = |(at, word): (usize, &String)| {
        let word = if at == 0 { word.rsplit('/').next().unwrap_or(word) } else { word };
        if word.is_empty() || word.contains(char::is_whitespace) { format!("'{word}'") } else { word.to_string() }
    };
    let words: Vec<String> = words.iter().enumerate().map(shown).collect();
    if words.is_empty() { "not recorded".into() } else { words.join(" ") }
}

fn about(screen: &mut Screen, run: &Run, component: &Component) {
    let others = run.components.len() - 1;
    let more = if others > 0 { format!(" (and {}, in the trace)", many(others, "other")) } else { String::new() };
    let reports: Vec<&str> = component.reports.iter().map(|report| report.short_name()).collect();
    let named = if reports.is_empty() { String::new() } else { format!(": {}", reports.join(", ")) };
    let (records, written) = (component.records.len(), reports.len());
    screen.item("component", &format!("{}{more}, {records} journal record(s), {written} report(s){named}", component.name));
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
    let mut words =
        vec![steps.count.map_or_else(|| "number unknown".into(), |count| format!("{count}, by {}", steps.counted_by))];
    if let Some(first) = steps.first_seconds {
        words.push(format!("first {} (cold)", seconds(first)));
    }
    match steps.steady_seconds {
        Some(steady) => words.push(format!("then {} a step", seconds(steady))),
        None if steps.first_seconds.is_some() => words.push(steps.reason.into()),
        None => words.push("not timed".into()),
    }
    if let Some(tail) = Run::leading_report(component).and_then(|report| windows::tail(report.timeline.as_ref()?)) {
        words.push(format!("{} after the last step", ns(tail)));
    }
    if let Some(clock) = &steps.clock {
        words.push(format!("clock {clock}"));
    }
    screen.item("steps", &words.join("; "));
    let floor = floor::of(component, &steps);
    let terms = [("compute", &floor.terms.compute), ("upload", &floor.terms.upload), ("disk", &floor.terms.disk)];
    let floor_is_of_a_diagnosis = floor.diagnostic;
    let head = match (floor.seconds, floor.efficiency) {
        (Some(floor), Some(efficiency)) => format!("{}, efficiency {:.1} %", seconds(floor), efficiency * 100.0),
        (Some(floor), None) if floor_is_of_a_diagnosis => format!("{}, no efficiency: a diagnostic run", seconds(floor)),
        (Some(floor), None) => seconds(floor),
        _ => "unknown: it is the larger of the compute and the upload term, and both must be known".into(),
    };
    screen.item("floor", &head);
    if let Some(predicted) = floor::predicted_step(component) {
        screen.more(&format!("predicted step {}: this plan, simulated from the measured work and link", seconds(predicted)));
    }
    for (name, term) in terms {
        screen.wrapped(&format!("{:<14}{name:<8}", ""), 23, &format!(" {}", term_text(term)), MAX_WRAPPED);
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
    let bytes = uploads.bytes.map_or_else(|| "bytes not collected".into(), human_bytes);
    let steps = uploads.steps.map_or_else(String::new, |steps| format!("{steps} "));
    let windows = uploads.windows;
    let (open, idle) = (ns(uploads.union_ns), ns(uploads.idle_ns));
    // Windows may cross the edges of the warm steps.
    let crossing = if uploads.ended == windows { String::new() } else { format!(" in the {} that ended there", uploads.ended) };
    let text = format!(
        "{windows} windows in the {steps}warm steps, {bytes}{crossing}; open for {open}, no upload window open for {idle}"
    );
    screen.item("uploads", &text);
    if let Some(rate) = uploads.rate {
        screen.more(&format!("upload_window_rate {}: {}", floor::human_rate(rate), windows::RATE_LABEL));
    }
}

fn window_lines(screen: &mut Screen, timeline: &Timeline) {
    let mut words = Vec::new();
    for figures in windows::by_kind(timeline) {
        let who = match figures.kind {
            SampleKind::ComputeUploadDependency => "compute for uploads",
            SampleKind::UploadSlotDependency => "uploads for a free slot",
            _ => continue,
        };
        words.push(format!("{who} {} ({} windows)", ns(figures.union_ns), figures.count));
    }
    if !words.is_empty() {
        screen.item("waits", &format!("in all steps, launch gaps included: {}", words.join(", ")));
    }
    let slowest = windows::slowest_units(timeline);
    if !slowest.is_empty() {
        screen.item("slowest units", "forward windows: mean, longest, how many");
    }
    for unit in slowest {
        screen.more(&format!("{:>11} {:>11} {:>5}  {}", ns(unit.mean_ns), ns(unit.max_ns), unit.count, unit.name));
    }
}

fn look_ahead_lines(screen: &mut Screen, component: &Component) {
    let parts = lookahead::of_parts(component);
    let ahead = if parts.is_some() { "parts ahead" } else { "ahead" };
    let Some(found) = parts.or_else(|| lookahead::of(component)) else { return };
    let mut words = Vec::new();
    for (value, word) in [
        (found.units, ahead),
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
    let peaks = memory::peaks(run);
    // Sums over all processes first; anonymous and file pages are parts of them and have their own page.
    let shown = ["memory.ram_bytes", "memory.rss_bytes", "memory.control_group_bytes", "memory.gpu_used_bytes"];
    let words: Vec<String> = shown
        .iter()
        .flat_map(|path| peaks.iter().filter(move |peak| peak.path == *path))
        .map(|peak| format!("{} {}", peak.name, human_bytes(peak.bytes)))
        .collect();
    if !words.is_empty() {
        screen.item("memory", &format!("sampled peaks: {}; short ones can be missed", words.join(", ")));
    }
}

fn ns(value: i64) -> String {
    seconds(value as f64 / 1e9)
}

/// Seconds with a unit that keeps about four figures.
pub(super) fn seconds(value: f64) -> String {
    match value.abs() {
        size if size >= 1.0 || value == 0.0 => format!("{value:.3} s"),
        size if size >= 1e-3 => format!("{:.3} ms", value * 1e3),
        _ => format!("{:.1} us", value * 1e6),
    }
}

/// Seconds with about three figures, for a sentence.
fn rough(value: f64) -> String {
    match value.abs() {
        size if size >= 10.0 => format!("{value:.0} s"),
        size if size >= 1.0 => format!("{value:.2} s"),
        size if size >= 0.1 => format!("{:.0} ms", value * 1e3),
        size if size >= 1e-3 => format!("{:.1} ms", value * 1e3),
        _ => format!("{:.0} us", value * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_cut_at_their_end_after_a_word() {
        let words: Vec<String> = ["/opt/tools/bin/host", "--name", "a b", "--out", "x/y"].map(String::from).to_vec();
        assert_eq!(command(&words), "host --name 'a b' --out x/y");
        let mut screen = Screen::default();
        screen.wrapped("command       ", 14, &format!("host {}", vec!["--argument"; 40].join(" ")), 2);
        assert_eq!(screen.lines.len(), 2);
        assert!(screen.lines.iter().all(|line| line.chars().count() <= TEXT_COLUMNS), "{:?}", screen.lines);
        assert!(screen.lines[0].starts_with("command       host --argument") && screen.lines[1].ends_with("--argument ..."));
    }

    #[test]
    fn one_screen_findings_first_and_no_control_characters() {
        let finding =
            |at: usize| Finding::error("code", format!("file{at}\u{1b}[31m"), "a long sentence that goes on ".repeat(20));
        let run = Run { name: "r".into(), findings: (0..50).map(finding).collect(), ..Run::default() };
        let text = screen(&run, &analysis::findings(&run), Some(Path::new("out")));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() <= 40, "{} lines", lines.len());
        assert!(lines.iter().all(|line| line.chars().count() <= TEXT_COLUMNS));
        assert!(lines[0].starts_with("ERROR") && text.contains("44 more findings"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}
