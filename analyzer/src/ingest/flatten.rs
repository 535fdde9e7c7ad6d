//! Leaves of a document: "Which numbers does it hold, and are they declared?"
//!
//! Uses the catalogue. Invariants: a path is stored once however many records repeat it; list positions are written
//! `[]`; paths are bounded in length and number; null is kept as uncollected; items of lists are not kept.

use super::notes::Notes;
use crate::limits::{MAX_KNOWN_PATHS, MAX_PATH_BYTES, MAX_TEXT_BYTES, MAX_UNKNOWN_PATHS};
use crate::run::shorten;
use crate::run::{Scalar, Values};
use ddo_schemas::{Finding, Unit, catalogue};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Leaves of a journal record that are kept: those of the offload runtime. The rest repeats in every record.
const KEPT_OF_RECORDS: &str = "runtime.vmm.";

/// Whose document it is: decides how undeclared fields are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Written by this product.
    Own,
    /// Written by another recorder with the same report version.
    Foreign,
    /// The manifest, its seal or a line of memory samples.
    Beside,
}

impl Origin {
    /// Our own reports state the weight ceiling in their configuration, the older recorder's do not.
    pub(super) fn of(report: &Value) -> Origin {
        match report.get("configuration").and_then(|configuration| configuration.get("weight_ceiling_bytes")) {
            Some(_) => Origin::Own,
            None => Origin::Foreign,
        }
    }
}

/// Paths seen so far.
#[derive(Debug, Default)]
pub(super) struct Paths {
    known: HashMap<Arc<str>, bool>,
    /// Paths of the documents before by their place: most documents repeat them, and comparing is cheaper than hashing.
    order: Vec<(Arc<str>, bool)>,
    /// The place in the current document.
    at: usize,
    unknown_own: BTreeMap<Arc<str>, u64>,
    unknown_foreign: BTreeMap<Arc<str>, u64>,
    unknown_beside: BTreeMap<Arc<str>, u64>,
    unknown: usize,
    too_long: u64,
    too_many: u64,
    long_texts: u64,
}

impl Paths {
    /// Notes every leaf of a report and returns those outside lists.
    pub(super) fn report(&mut self, report: &Value) -> Values {
        let mut values = Vec::new();
        self.at = 0;
        self.leaves(report, &mut String::new(), Origin::of(report), "", &mut values);
        // In one go: a map that is built value by value leaves its nodes half empty.
        values.into_iter().collect()
    }

    /// Notes every leaf of a record's report and returns those of the offload runtime.
    pub(super) fn record(&mut self, report: &Value) -> Values {
        let mut values = Vec::new();
        self.at = 0;
        self.leaves(report, &mut String::new(), Origin::of(report), KEPT_OF_RECORDS, &mut values);
        values.into_iter().collect()
    }

    /// Notes every leaf of a document whose rows begin with `root`.
    pub(super) fn document(&mut self, value: &Value, root: &str) {
        self.at = 0;
        self.leaves(value, &mut root.to_string(), Origin::Beside, "", &mut Vec::new());
    }

    fn leaves(&mut self, value: &Value, path: &mut String, origin: Origin, kept: &str, out: &mut Vec<(Arc<str>, Scalar)>) {
        let length = path.len();
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    if length + 1 + key.len() > MAX_PATH_BYTES {
                        self.too_long += 1;
                        continue;
                    }
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                    self.leaves(inner, path, origin, kept, out);
                    path.truncate(length);
                }
            }
            Value::Array(list) => {
                path.push_str("[]");
                for inner in list {
                    self.leaves(inner, path, origin, kept, out);
                }
                path.truncate(length);
            }
            leaf => {
                let Some(shared) = self.note(path, origin) else { return };
                if path.starts_with(kept)
                    && !path.contains("[]")
                    && let Some(scalar) = scalar(leaf)
                {
                    if matches!(&scalar, Scalar::Text(text) if text.len() > MAX_TEXT_BYTES) {
                        self.long_texts += 1;
                    } else {
                        out.push((shared, scalar));
                    }
                }
            }
        }
    }

    /// A path and whether it is declared; `None` where there are too many different ones to keep it.
    fn look_up(&mut self, path: &str) -> Option<(Arc<str>, bool)> {
        if let Some((shared, declared)) = self.known.get_key_value(path) {
            return Some((shared.clone(), *declared));
        }
        let declared = is_declared(path);
        if self.known.len() >= MAX_KNOWN_PATHS || (!declared && self.unknown >= MAX_UNKNOWN_PATHS) {
            self.too_many += 1;
            return None;
        }
        self.unknown += usize::from(!declared);
        let shared: Arc<str> = path.into();
        self.known.insert(shared.clone(), declared);
        Some((shared, declared))
    }

    /// Counts a leaf; `None` where there are too many different ones to keep it.
    fn note(&mut self, path: &str, origin: Origin) -> Option<Arc<str>> {
        let at = self.at;
        self.at += 1;
        let (shared, declared) = match self.order.get(at) {
            Some(expected) if *expected.0 == *path => expected.clone(),
            _ => {
                let found = self.look_up(path)?;
                let next = self.order.len() == at && at < MAX_KNOWN_PATHS;
                match self.order.get_mut(at) {
                    Some(place) => *place = found.clone(),
                    None if next => self.order.push(found.clone()),
                    None => {}
                }
                found
            }
        };
        if !declared {
            let list = match origin {
                Origin::Own => &mut self.unknown_own,
                Origin::Foreign => &mut self.unknown_foreign,
                Origin::Beside => &mut self.unknown_beside,
            };
            *list.entry(shared.clone()).or_insert(0) += 1;
        }
        Some(shared)
    }

    /// Reports undeclared fields: each of our own reports, the others in one line of their kind; and what was left out.
    pub(super) fn report_unknown(&self, notes: &mut Notes) {
        if self.too_long + self.too_many > 0 {
            let text = format!(
                "fields were left out: {} with a path of more than {MAX_PATH_BYTES} bytes, and {} beyond the first \
                 {MAX_UNKNOWN_PATHS} different undeclared ones or the first {MAX_KNOWN_PATHS} of all",
                self.too_long, self.too_many
            );
            notes.add(Finding::warning("fields_left_out", ".", text));
        }
        if self.long_texts > 0 {
            let text = format!("{} text(s) of more than {MAX_TEXT_BYTES} bytes were left out", self.long_texts);
            notes.add(Finding::warning("texts_left_out", ".", text));
        }
        for (path, count) in &self.unknown_own {
            let text = format!("this field has no catalogue row; seen {count} time(s)");
            notes.add(Finding::note("unknown_field", shorten(path), text));
        }
        let places = [
            (&self.unknown_foreign, "unknown_fields", "of another recorder"),
            (&self.unknown_beside, "unknown_document_fields", "of the manifest, its seal or the memory samples"),
        ];
        for (list, code, whose) in places {
            if let Some(first) = list.keys().next() {
                let count = list.len();
                let text = format!("{count} field(s) {whose} are not in this catalogue, such as {}", shorten(first));
                notes.add(Finding::note(code, ".", text));
            }
        }
    }
}

/// True where the leaf, or a list or free-form map that contains it, has a row.
fn is_declared(path: &str) -> bool {
    // The settings have rows of their own, wherever they stand.
    let path = path.strip_prefix("manifest.").filter(|rest| rest.starts_with("settings.")).unwrap_or(path);
    if catalogue::find(path).is_some() || catalogue::is_free(path) {
        return true;
    }
    let mut rest = path;
    loop {
        rest = match rest.strip_suffix("[]") {
            Some(shorter) => shorter,
            None => match rest.rsplit_once('.') {
                Some((shorter, _)) => shorter,
                None => return false,
            },
        };
        if let Some(row) = catalogue::find(rest) {
            return row.field.unit != Unit::Structure || rest.trim_end_matches("[]") == "manifest_end.findings";
        }
    }
}

/// A leaf as a value; `None` for what has parts.
pub(super) fn scalar(value: &Value) -> Option<Scalar> {
    match value {
        Value::Bool(flag) => Some(Scalar::Bool(*flag)),
        Value::String(text) => Some(Scalar::Text(text.clone())),
        Value::Number(number) => number
            .as_u64()
            .map(Scalar::U64)
            .or_else(|| number.as_i64().map(Scalar::I64))
            .or_else(|| number.as_f64().map(Scalar::F64)),
        Value::Null => Some(Scalar::Uncollected),
        Value::Array(_) | Value::Object(_) => None,
    }
}
