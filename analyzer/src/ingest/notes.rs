//! Findings while they are collected: "What was noticed, without drowning the reader?"
//!
//! Uses the shared finding. Invariant: at most `MAX_FINDINGS_PER_CODE` of one code are kept; the rest are counted.

use crate::limits::MAX_FINDINGS_PER_CODE;
use ddo_schemas::{Finding, Severity};
use std::collections::BTreeMap;

/// Findings by code.
#[derive(Debug, Default)]
pub(super) struct Notes {
    kept: Vec<Finding>,
    seen: BTreeMap<String, (usize, Severity)>,
}

impl Notes {
    /// Adds one finding.
    pub(super) fn add(&mut self, finding: Finding) {
        let entry = self.seen.entry(finding.code.clone()).or_insert((0, finding.severity));
        entry.0 += 1;
        entry.1 = entry.1.max(finding.severity);
        if entry.0 <= MAX_FINDINGS_PER_CODE {
            self.kept.push(finding);
        }
    }

    /// All findings, the gravest first, otherwise in the order in which they were made.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        for (code, (count, severity)) in &self.seen {
            if let Some(more) = count.checked_sub(MAX_FINDINGS_PER_CODE).filter(|more| *more > 0) {
                let text = format!("{more} more findings of this kind are not listed");
                self.kept.push(Finding::new(*severity, code, "(several)", text));
            }
        }
        self.kept.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        self.kept
    }
}
