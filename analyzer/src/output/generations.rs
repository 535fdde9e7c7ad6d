//! Generations in words: "How do repeats with one model compare?"
//!
//! Uses `analysis`. Invariants: the first generation is called cold and stands apart; host time is called host time; generations are
//! numbered from one, as people count, in the profile.

use super::text::seconds;
use crate::analysis::generations::{Row, of};
use crate::limits::PROFILE_GENERATIONS;
use crate::run::{Run, shorten};

/// A line a component for the one screen.
pub(super) fn lines(run: &Run) -> Vec<String> {
    of(run).iter().map(|(component, rows)| line(component, rows)).collect()
}

fn line(component: &str, rows: &[Row]) -> String {
    let warm: Vec<f64> = rows.iter().filter(|row| row.index > 0).map(|row| row.elapsed_seconds).collect();
    let cold = rows.iter().find(|row| row.index == 0);
    let mut words = vec![format!("{}: {} with the model loaded once", shorten(component), rows.len())];
    words.extend(cold.map(|row| format!("first {} (cold)", seconds(row.elapsed_seconds))));
    let (least, most) = (warm.iter().copied().reduce(f64::min), warm.iter().copied().reduce(f64::max));
    words.extend(least.zip(most).map(|(least, most)| match warm.len() {
        1 => format!("then {}", seconds(least)),
        _ => format!("then {} to {}", seconds(least), seconds(most)),
    }));
    format!("{}; host time from preparation to readback", words.join(", "))
}

/// The lines of the profile; empty where nothing was observed.
pub(super) fn profile(run: &Run) -> String {
    let mut out = String::new();
    for (component, rows) in of(run) {
        out.push_str(&format!(
            "DDO generations {} (host time from preparation to readback; the first is cold)\n",
            shorten(&component)
        ));
        for row in rows.iter().take(PROFILE_GENERATIONS) {
            let time = |value: Option<f64>| value.map_or_else(|| "unavailable".into(), |value| format!("{value:.6}"));
            let count = |value: Option<u64>| value.map_or_else(|| "unavailable".into(), |value| value.to_string());
            out.push_str(&format!(
                "  generation={} elapsed_s={:.6} timing={} phase_s={} steady_s_per_step={} uploaded_bytes={} faults={}\n",
                row.index.saturating_add(1),
                row.elapsed_seconds,
                row.timing.as_deref().map_or_else(|| "none".into(), shorten),
                time(row.phase_seconds),
                time(row.steady_seconds),
                count(row.uploaded_bytes),
                count(row.faults),
            ));
        }
        let rest = rows.len().saturating_sub(PROFILE_GENERATIONS);
        if rest > 0 {
            out.push_str(&format!("  generations_left_out={rest}\n"));
        }
    }
    out
}
