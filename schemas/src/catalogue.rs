//! All field rows: "What is this number?"

use crate::field::Field;
use crate::section::Section;
use crate::{journal, manifest, memory, report, sections, settings, summary, timeline};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// One expanded row: a concrete path and its declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Path from the root of the document; `[]` is a list item, `*` a free key.
    pub path: String,
    /// The declaration.
    pub field: &'static Field,
}

/// A section with its title, for tables.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Heading.
    pub title: &'static str,
    /// The rows, as declared.
    pub fields: &'static [Field],
}

/// Sections in the order in which a reader meets them.
pub const TABLES: &[Table] = &[
    Table { title: "Report", fields: report::Report::FIELDS },
    Table { title: "Configuration", fields: sections::Configuration::FIELDS },
    Table { title: "Runtime", fields: report::Runtime::FIELDS },
    Table { title: "State", fields: sections::State::FIELDS },
    Table { title: "Setup actions", fields: sections::SetupAction::FIELDS },
    Table { title: "Planner decisions", fields: sections::PlannerDecisions::FIELDS },
    Table { title: "Offload runtime", fields: sections::Vmm::FIELDS },
    Table { title: "Offload runtime, parts", fields: sections::VmmParts::FIELDS },
    Table { title: "Completion collection", fields: sections::CompletionCollection::FIELDS },
    Table { title: "Execution timing", fields: sections::ExecutionTiming::FIELDS },
    Table { title: "Native timeline", fields: timeline::NativeTimeline::FIELDS },
    Table { title: "Timeline samples", fields: timeline::Sample::FIELDS },
    Table { title: "Window summaries", fields: timeline::WindowSummary::FIELDS },
    Table { title: "Window unions", fields: timeline::UnionSeconds::FIELDS },
    Table { title: "Journal record", fields: journal::JournalRecord::FIELDS },
    Table { title: "Settings", fields: settings::Settings::FIELDS },
    Table { title: "Manifest", fields: manifest::Manifest::FIELDS },
    Table { title: "Manifest: clocks", fields: manifest::Clocks::FIELDS },
    Table { title: "Manifest: machine", fields: manifest::Machine::FIELDS },
    Table { title: "Manifest seal", fields: manifest::ManifestEnd::FIELDS },
    Table { title: "Memory sample", fields: memory::MemorySample::FIELDS },
    Table { title: "Summary", fields: summary::Summary::FIELDS },
    Table { title: "Summary: run", fields: summary::RunSummary::FIELDS },
    Table { title: "Summary: steps", fields: summary::StepsSummary::FIELDS },
    Table { title: "Summary: floor", fields: summary::FloorTerms::FIELDS },
];

/// Keys that stand for the `*` of a declaration with a closed set of names.
const CLOSED_KEYS: &[(&str, &[&str])] = &[("runtime.native_timeline.*", &["window_summary", "warm_window_summary"])];

/// Every row, in the order of [`TABLES`].
pub fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| TABLES.iter().flat_map(|table| table.fields).flat_map(expand).collect())
}

fn expand(field: &'static Field) -> Vec<Row> {
    for (prefix, keys) in CLOSED_KEYS {
        if let Some(rest) = field.path.strip_prefix(prefix) {
            let base = prefix.trim_end_matches('*');
            return keys.iter().map(|key| Row { path: format!("{base}{key}{rest}"), field }).collect();
        }
    }
    vec![Row { path: field.path.to_string(), field }]
}

/// Finds a row by the path of a leaf in a document.
///
/// List positions are written `[]` or `[3]`; keys under a free key match its `*`.
pub fn find(path: &str) -> Option<&'static Row> {
    static INDEX: OnceLock<BTreeMap<&'static str, &'static Row>> = OnceLock::new();
    let index = INDEX.get_or_init(|| rows().iter().map(|row| (row.path.as_str(), row)).collect());
    let normal = normalise(path);
    index.get(normal.as_str()).copied().or_else(|| rows().iter().find(|row| matches_free_keys(&row.path, &normal)))
}

/// Rows whose path ends in the given name, for look-ups by short name.
pub fn find_by_suffix(name: &str) -> Vec<&'static Row> {
    let dotted = format!(".{name}");
    rows().iter().filter(|row| row.path.ends_with(&dotted) || row.path == name).collect()
}

fn normalise(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut in_brackets = false;
    for c in path.chars() {
        match c {
            '[' => {
                in_brackets = true;
                out.push('[');
            }
            ']' => {
                in_brackets = false;
                out.push(']');
            }
            c if in_brackets && c.is_ascii_digit() => {}
            c => out.push(c),
        }
    }
    out
}

fn matches_free_keys(pattern: &str, path: &str) -> bool {
    if !pattern.contains('*') {
        return false;
    }
    let mut wanted = pattern.split('.');
    let mut given = path.split('.');
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(a), Some(b)) if a == b => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_path_is_declared_once_and_every_row_says_something() {
        let mut paths = BTreeSet::new();
        for row in rows() {
            assert!(paths.insert(row.path.as_str()), "{} is declared twice", row.path);
            assert!(row.field.meaning.len() > 5 && row.field.action.len() > 5, "{} says nothing", row.path);
        }
    }

    #[test]
    fn look_up_knows_list_items_and_free_keys() {
        assert!(find("runtime.native_timeline.samples[17].start_seconds").is_some());
        assert!(find("runtime.state.setup_runtime.vmm_fast_plan_metadata.seconds").is_some());
        assert!(find("runtime.native_timeline.warm_window_summary.union_seconds.upload_batch_window").is_some());
        assert!(find("runtime.vmm.fast_nonsense").is_none());
        assert_eq!(find_by_suffix("fast_faults").len(), 1);
    }
}
