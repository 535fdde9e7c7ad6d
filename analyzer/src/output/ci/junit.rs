//! JUnit XML in the dialect of Jenkins: "Which gate failed, as a test?"
//!
//! Uses the declared document. Invariants: a gate is a test case, worse ones are failures, open ones are skipped with their reason,
//! incomparable sides are an error; no character that XML forbids.

use super::words::{change, headline, is_open, is_worse, side};
use ddo_schemas::verdict::{Answer, ComparedMetric, VerdictDocument};
use std::fmt::Write;

/// The verdict as JUnit XML.
pub fn junit(verdict: &VerdictDocument) -> String {
    let gated: Vec<&ComparedMetric> = verdict.metrics.iter().filter(|metric| metric.gated).collect();
    let refused = verdict.verdict == Answer::NotComparable;
    let failures = gated.iter().filter(|metric| is_worse(metric)).count();
    let skipped = gated.iter().filter(|metric| is_open(metric)).count();
    let (tests, errors) = (gated.len() + 1, usize::from(refused));
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"");
    let _ = writeln!(out, "<testsuites name=\"ddo-analyze diff\" {counts}>");
    let _ = writeln!(out, "  <testsuite name=\"ddo-analyze diff\" {counts} skipped=\"{skipped}\">");
    let _ = write!(out, "    <testcase classname=\"ddo.diff\" name=\"comparable\"");
    if refused {
        let text = verdict.reasons.join("\n");
        let _ = writeln!(
            out,
            ">\n      <error message=\"{}\" type=\"not_comparable\">{}</error>",
            escaped(&headline(verdict)),
            escaped(&text)
        );
        out.push_str("    </testcase>\n");
    } else {
        out.push_str("/>\n");
    }
    for metric in gated {
        case(&mut out, metric);
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn case(out: &mut String, metric: &ComparedMetric) {
    let _ = write!(out, "    <testcase classname=\"ddo.diff.{}\" name=\"{}\"", metric.class, escaped(&metric.path));
    let (base, candidate) = (side(metric, &metric.base), side(metric, &metric.candidate));
    let said = escaped(&format!("{base} to {candidate} ({}) {}", change(metric), metric.reason));
    let said = said.trim_end();
    if is_worse(metric) {
        let owner = metric.owner.0.as_ref().map_or_else(String::new, |owner| escaped(&format!("owner: {owner}")));
        let _ =
            writeln!(out, ">\n      <failure message=\"{said}\" type=\"{}\">{owner}</failure>\n    </testcase>", metric.verdict);
    } else if is_open(metric) {
        let _ = writeln!(out, ">\n      <skipped message=\"{said}\"/>\n    </testcase>");
    } else {
        out.push_str("/>\n");
    }
}

/// Text for an element or a quoted attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push(' '),
            // XML 1.0 has no other control characters and no non-characters, not even escaped.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
