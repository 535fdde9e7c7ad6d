//! "Why was it killed?" Puts together what is known when a command ended for lack of memory.
//!
//! May use: schemas and the other modules of this room.
//!
//! Invariants: a kill by the kernel's out-of-memory killer is named only where the kernel counted one in the command's
//! control group; a kill that only the machine counted, and a limit that was only near, are told as possible.

use super::child::Outcome;
use super::memory::Watched;
use crate::limits::NEAR_LIMIT_PERCENT;
use ddo_schemas::Finding;
use ddo_schemas::manifest::Limits;
use ddo_schemas::memory::MemorySample;
use ddo_schemas::unit::human_bytes;

const SIGKILL: i32 = 9;

/// What is known at the end.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// How the command ended.
    pub outcome: &'a Outcome,
    /// Kills in the command's control groups, and the last group with its limit.
    pub kills: Option<u64>,
    /// Kills that the whole machine counted.
    pub machine_kills: Option<u64>,
    /// The limits of the manifest.
    pub limits: &'a Limits,
    /// What the monitor saw.
    pub watched: &'a Watched,
}

/// The findings about memory.
pub fn tell(evidence: &Evidence<'_>) -> Vec<Finding> {
    let killed = *evidence.outcome == Outcome::Signaled(SIGKILL);
    let failed = !matches!(evidence.outcome, Outcome::Exited(0) | Outcome::NotStarted(_));
    let mut findings = Vec::new();
    let words = |what: &str, sample: Option<&MemorySample>| {
        sample.map_or_else(String::new, |sample| format!("; {what} sample {}", words_of(sample)))
    };
    // The kernel takes a dying process apart piece by piece, so the last sample may be small.
    let (largest, last) = (evidence.watched.largest.as_ref(), evidence.watched.last.as_ref());
    let largest = words("largest", largest.filter(|largest| Some(*largest) != last));
    let last = format!("{largest}{}", words("last", last));
    if let Some(kills) = evidence.kills.filter(|kills| *kills > 0) {
        let who = if killed { "ended the command".to_owned() } else { format!("ended {kills} of the command's processes") };
        let (name, limit) = evidence.watched.group.last.clone().unwrap_or_default();
        let limit = limit.map_or_else(|| "without a limit of its own".into(), |bytes| format!("limit {}", human_bytes(bytes)));
        let text = format!("the kernel's out-of-memory killer {who} in control group {name} ({limit}){last}");
        findings.push(Finding::error("out_of_memory_kill", "command", text));
    } else if let Some(kills) = evidence.machine_kills.filter(|kills| *kills > 0 && killed) {
        let text = format!(
            "SIGKILL ended the command, and the kernel's out-of-memory killer acted {kills} times on this machine meanwhile{last}"
        );
        findings.push(Finding::warning("out_of_memory_kill_possible", "command", text));
    }
    if failed && findings.is_empty() {
        findings.extend(near_limits(evidence, &last));
    }
    findings
}

/// Limits that make allocations fail, where the last sample was near them.
fn near_limits(evidence: &Evidence<'_>, last: &str) -> Option<Finding> {
    let sample = evidence.watched.last.as_ref()?;
    let near = |limit: Option<u64>, held: Option<u64>| {
        let (limit, held) = limit.zip(held)?;
        (held.saturating_mul(100) >= limit.saturating_mul(NEAR_LIMIT_PERCENT)).then_some((limit, held))
    };
    let (what, (limit, held)) =
        near(evidence.watched.address_space_limit.or(evidence.limits.address_space_bytes), sample.virtual_bytes)
            .map(|near| ("address space", near))
            .or_else(|| near(evidence.limits.data_bytes, sample.anonymous_bytes).map(|near| ("private memory", near)))?;
    let text = format!(
        "the command failed with {} of {what}, near its limit of {}: allocations may have failed{last}",
        human_bytes(held),
        human_bytes(limit)
    );
    Some(Finding::warning("memory_limit_near", "command", text))
}

/// A sample in one phrase.
fn words_of(sample: &MemorySample) -> String {
    let mut words = format!("at {:.1} s:", sample.elapsed_seconds.0);
    let mut say = |what: &str, bytes: Option<u64>| {
        if let Some(bytes) = bytes {
            words.push_str(&format!(" {what} {},", human_bytes(bytes)));
        }
    };
    say(sample.ram_metric.as_deref().unwrap_or("memory"), sample.ram_bytes);
    say("anonymous", sample.anonymous_bytes);
    say("files and shared", sample.shared_bytes);
    say("control group", sample.control_group_bytes);
    words.trim_end_matches(',').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddo_schemas::{Seconds, version};

    fn limits() -> Limits {
        Limits {
            control_group: None,
            control_group_bytes: None,
            address_space_bytes: Some(512 << 20),
            data_bytes: None,
            locked_memory_bytes: None,
            file_size_bytes: None,
            open_files: None,
        }
    }

    fn watched(address_space: u64) -> Watched {
        let sample = serde_json::json!({
            "schema_version": version::MEMORY_SAMPLE, "elapsed_seconds": Seconds(2.5), "query_seconds": 0.0,
            "ram_metric": "rss_process_tree", "ram_bytes": 400_u64 << 20, "virtual_bytes": address_space,
        });
        let mut watched = Watched { last: Some(serde_json::from_value(sample).expect("a sample")), ..Watched::default() };
        watched.group.last = Some(("/job".into(), Some(512 << 20)));
        watched
    }

    fn codes(outcome: Outcome, kills: Option<u64>, machine_kills: Option<u64>, address_space: u64) -> Vec<(String, String)> {
        let (limits, watched) = (limits(), watched(address_space));
        let told = tell(&Evidence { outcome: &outcome, kills, machine_kills, limits: &limits, watched: &watched });
        told.into_iter().map(|finding| (finding.code, finding.text)).collect()
    }

    #[test]
    fn a_kill_is_named_only_with_the_kernels_count() {
        let killed = || Outcome::Signaled(9);
        let told = codes(killed(), Some(1), Some(1), 0);
        let [(code, text)] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(code, "out_of_memory_kill");
        assert!(text.contains("ended the command in control group /job (limit 512.00 MiB)"), "{text}");
        assert!(text.ends_with("last sample at 2.5 s: rss_process_tree 400.00 MiB"), "{text}");
        let told = codes(Outcome::Exited(1), Some(2), Some(2), 0);
        assert!(told.iter().any(|(code, text)| code == "out_of_memory_kill" && text.contains("2 of the command's processes")));
        assert_eq!(codes(killed(), Some(0), Some(1), 0).first().expect("told").0, "out_of_memory_kill_possible");
        assert_eq!(codes(killed(), Some(0), Some(0), 0), []);
        assert_eq!(codes(Outcome::Exited(1), Some(0), Some(5), 0), []);
    }

    #[test]
    fn a_near_limit_is_told_after_a_failure_only() {
        for (outcome, held, told) in [
            (Outcome::Exited(1), 500 << 20, 1),
            (Outcome::Signaled(6), 500 << 20, 1),
            (Outcome::Exited(1), 100 << 20, 0),
            (Outcome::Exited(0), 500 << 20, 0),
        ] {
            assert_eq!(codes(outcome, None, None, held).len(), told);
        }
    }
}
