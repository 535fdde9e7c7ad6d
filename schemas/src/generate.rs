//! The generated files, as text: `FIELDS.md` and the JSON Schemas.

use crate::catalogue::TABLES;
use crate::section::JsonShape;
use crate::{journal, manifest, memory, report, settings, summary};
use serde_json::{Value, json};
use std::fmt::Write;

/// `FIELDS.md`, the catalogue for people.
pub fn fields_markdown() -> String {
    let mut out = String::from(
        "# Fields\n\nGenerated from the declarations in `schemas/src`; do not edit. A field that is unavailable is left out of \
         JSON. `[]` is a list item, `*` a free key. \"may be absent\" marks fields that are left out when unavailable.\n",
    );
    for table in TABLES {
        let _ = write!(
            out,
            "\n## {}\n\n| path | unit | kind · lifetime | collected | meaning | what to do |\n|---|---|---|---|---|---|\n",
            table.title
        );
        for field in table.fields {
            let absent = if field.required { "" } else { " · may be absent" };
            let kind = format!("{:?} · {:?}", field.kind, field.lifetime).to_lowercase();
            let _ = writeln!(
                out,
                "| `{}` | {} | {kind}{absent} | {} | {} | {} |",
                field.path, field.unit, field.boundary, field.meaning, field.action
            );
        }
    }
    out
}

/// File name and contents of every JSON Schema.
pub fn json_schemas() -> Vec<(&'static str, String)> {
    let documents: [(&str, &str, Value); 7] = [
        ("report.schema.json", "Report", report::Report::schema()),
        ("journal.schema.json", "Journal record", journal::JournalRecord::schema()),
        ("manifest.schema.json", "Run manifest", manifest::Manifest::schema()),
        ("manifest-end.schema.json", "Run manifest seal", manifest::ManifestEnd::schema()),
        ("memory.schema.json", "Memory sample", memory::MemorySample::schema()),
        ("host-event.schema.json", "Host event", memory::HostEvent::schema()),
        ("summary.schema.json", "Analysis summary", summary::Summary::schema()),
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
