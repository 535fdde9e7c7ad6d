//! Workflow annotations: "What stands beside the change in a review?"
//!
//! Uses the declared document. Invariants: one command a line; what would end a command or a property is escaped as the runner
//! unescapes it (percent first); worse numbers come first, and what is beyond the runner's limit is counted.
//!
//! Source: GitHub's documentation of workflow commands, and `command.ts` of its toolkit for the escapes.

use super::words::{change, headline, is_open, is_worse, side};
use crate::limits::MAX_ANNOTATIONS;
use ddo_schemas::verdict::{Answer, ComparedMetric, VerdictDocument};

/// The verdict as workflow commands.
pub fn annotations(verdict: &VerdictDocument) -> String {
    let level = match verdict.verdict {
        Answer::Regression | Answer::NotComparable => "error",
        Answer::Inconclusive => "warning",
        Answer::Same | Answer::Improved => "notice",
    };
    let mut out = command(level, "Comparison", &headline(verdict));
    let refused: Vec<String> = verdict
        .differences
        .iter()
        .map(|one| command(if one.allowed { "warning" } else { "error" }, &one.field, &format!("not comparable: {}", one.text)))
        .collect();
    push(&mut out, "differences", &refused);
    let gated = |of: fn(&ComparedMetric) -> bool| verdict.metrics.iter().filter(move |metric| metric.gated && of(metric));
    let worse: Vec<String> = gated(is_worse).map(|metric| command("error", &metric.path, &message(metric))).collect();
    push(&mut out, "worse numbers", &worse);
    let open: Vec<String> = gated(is_open).map(|metric| command("warning", &metric.path, &message(metric))).collect();
    push(&mut out, "numbers that cannot be judged", &open);
    out
}

/// The first ones, one less than the runner shows, because the answer itself is one; the rest is counted.
fn push(out: &mut String, what: &str, commands: &[String]) {
    let room = MAX_ANNOTATIONS - 2;
    commands.iter().take(room).for_each(|command| out.push_str(command));
    let more = commands.len().saturating_sub(room);
    if more > 0 {
        out.push_str(&command("notice", "Comparison", &format!("{more} more {what} are in verdict.json")));
    }
}

fn message(metric: &ComparedMetric) -> String {
    let reason = if metric.reason.is_empty() { String::new() } else { format!("; {}", metric.reason) };
    let (base, candidate) = (side(metric, &metric.base), side(metric, &metric.candidate));
    format!("{}: {base} to {candidate} ({}){reason}", metric.verdict, change(metric))
}

fn command(level: &str, title: &str, message: &str) -> String {
    format!("::{level} title={}::{}\n", property(title), data(message))
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
