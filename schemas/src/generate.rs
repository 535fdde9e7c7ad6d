//! The generated files, as text: `FIELDS.md` and the JSON Schemas.

use crate::catalogue::{COPIES, FREE_KEYS, PLACES, TABLES};
use crate::section::JsonShape;
use crate::{check, deltas, journal, manifest, memory, reconciliation, report, settings, summary, tracker, verdict, words};
use serde_json::{Value, json};
use std::fmt::Write;

/// `FIELDS.md`, the catalogue for people.
pub fn fields_markdown() -> String {
    let mut out = String::from(
        "# Fields\n\nGenerated from the declarations in `schemas/src`; do not edit. A field that is unavailable is left out of \
         JSON. `[]` is a list item, `*` a free key. \"may be absent\" marks fields that are left out when unavailable. Rules say \
         what a pipeline does with a difference, when a value says nothing, and which host times lie inside which; times that are \
         nested are never added up.\n",
    );
    for table in TABLES {
        let _ = write!(
            out,
            "\n## {}\n\n| path | unit | kind · lifetime | collected | meaning | what to do | rules |\n|---|---|---|---|---|---|---|\n",
            table.title
        );
        for field in table.fields {
            let absent = if field.required { "" } else { " · may be absent" };
            let rules = words::rules(field).into_iter().chain(words::nesting(field.path)).collect::<Vec<_>>().join("; ");
            let kind = format!("{:?} · {:?}", field.kind, field.lifetime).to_lowercase();
            let _ = writeln!(
                out,
                "| `{}` | {} | {kind}{absent} | {} | {} | {} | {rules} |",
                field.path, field.unit, field.boundary, field.meaning, field.action
            );
        }
    }
    other_places(&mut out);
    out
}

/// Where declared structures stand as well, and which keys are free.
fn other_places(out: &mut String) {
    out.push_str("\n## Other places\n\nThe same fields, declared once.\n\n| declared at | also at |\n|---|---|\n");
    let places = PLACES.iter().flat_map(|(declared, places)| places.iter().map(move |place| (*declared, *place)));
    for (declared, place) in places.chain(COPIES.iter().copied()).filter(|(declared, place)| declared != place) {
        let _ = writeln!(out, "| `{declared}` | `{place}` |");
    }
    out.push_str("\n## Free keys\n\n| path | why no declaration can list the key |\n|---|---|\n");
    for keys in FREE_KEYS {
        let _ = writeln!(out, "| `{}` | {} |", keys.path, keys.reason);
    }
}

/// File name and contents of every JSON Schema.
pub fn json_schemas() -> Vec<(&'static str, String)> {
    let documents: [(&str, &str, Value); 12] = [
        ("report.schema.json", "Report", report::Report::schema()),
        ("journal.schema.json", "Journal record", journal::JournalRecord::schema()),
        ("manifest.schema.json", "Run manifest", manifest::Manifest::schema()),
        ("manifest-end.schema.json", "Run manifest seal", manifest::ManifestEnd::schema()),
        ("memory.schema.json", "Memory sample", memory::MemorySample::schema()),
        ("host-event.schema.json", "Host event", memory::HostEvent::schema()),
        ("summary.schema.json", "Analysis summary", summary::Summary::schema()),
        ("reconciliation.schema.json", "Reconciliation of nested host scopes", reconciliation::Reconciliation::schema()),
        ("deltas.schema.json", "Differences between records and reports", deltas::Deltas::schema()),
        ("tracker.schema.json", "Run tracker of a host", tracker::Tracker::schema()),
        ("check.schema.json", "Conservation checks", check::Check::schema()),
        ("verdict.schema.json", "Verdict of a comparison", verdict::VerdictDocument::schema()),
    ];
    let settings = ("settings.schema.json", "Recorder settings", settings::Settings::schema());
    documents.into_iter().chain([settings]).map(|(file, title, schema)| (file, document(title, schema))).collect()
}

fn document(title: &str, mut schema: Value) -> String {
    if let Value::Object(object) = &mut schema {
        object.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        object.insert("title".into(), json!(title));
    }
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
    text.push('\n');
    text
}
