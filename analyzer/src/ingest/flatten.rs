//! Leaves of a document: "Which numbers does it hold, and are they declared?"
//!
//! Uses the catalogue. Invariants: a path is stored once however many records repeat it; list positions are written
//! `[]`; null is no value and is left out.

use super::notes::Notes;
use crate::run::{Scalar, Values};
use crate::text::shorten;
use ddo_schemas::{Finding, Unit, catalogue};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Whose document it is: decides how undeclared fields are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Written by this product.
    Own,
    /// Written by another recorder with the same report version.
    Foreign,
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
    unknown_own: BTreeMap<Arc<str>, u64>,
    unknown_foreign: BTreeMap<Arc<str>, u64>,
}

impl Paths {
    /// Notes every leaf below `value`, and keeps those below `keep` in `out`.
    pub(super) fn leaves(&mut self, value: &Value, path: &mut String, origin: Origin, keep: &str, out: &mut Values) {
        let length = path.len();
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                    self.leaves(inner, path, origin, keep, out);
                    path.truncate(length);
                }
            }
            Value::Array(list) => {
                path.push_str("[]");
                for inner in list {
                    self.leaves(inner, path, origin, keep, out);
                }
                path.truncate(length);
            }
            leaf => {
                let shared = self.note(path, origin);
                if path.starts_with(keep)
                    && let Some(scalar) = scalar(leaf)
                {
                    out.insert(shared, scalar);
                }
            }
        }
    }

    fn note(&mut self, path: &str, origin: Origin) -> Arc<str> {
        let (shared, declared) = match self.known.get_key_value(path) {
            Some((shared, declared)) => (shared.clone(), *declared),
            None => {
                let shared: Arc<str> = path.into();
                let declared = is_declared(path);
                self.known.insert(shared.clone(), declared);
                (shared, declared)
            }
        };
        if !declared {
            let list = match origin {
                Origin::Own => &mut self.unknown_own,
                Origin::Foreign => &mut self.unknown_foreign,
            };
            *list.entry(shared.clone()).or_insert(0) += 1;
        }
        shared
    }

    /// Reports undeclared fields: each of our own, the foreign ones in one line.
    pub(super) fn report_unknown(&self, notes: &mut Notes) {
        for (path, count) in &self.unknown_own {
            let text = format!("this field has no catalogue row; seen {count} time(s)");
            notes.add(Finding::note("unknown_field", shorten(path), text));
        }
        if let Some(first) = self.unknown_foreign.keys().next() {
            let text = format!(
                "{} fields of another recorder are not in this catalogue yet, such as {}",
                self.unknown_foreign.len(),
                shorten(first)
            );
            notes.add(Finding::note("unknown_fields", ".", text));
        }
    }
}

/// True where the leaf, or a list or free-form map that contains it, has a row.
fn is_declared(path: &str) -> bool {
    if catalogue::find(path).is_some() {
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
            return row.field.unit != Unit::Structure || rest == "setup";
        }
    }
}

fn scalar(value: &Value) -> Option<Scalar> {
    match value {
        Value::Bool(flag) => Some(Scalar::Bool(*flag)),
        Value::String(text) => Some(Scalar::Text(text.clone())),
        Value::Number(number) => number
            .as_u64()
            .map(Scalar::U64)
            .or_else(|| number.as_i64().map(Scalar::I64))
            .or_else(|| number.as_f64().map(Scalar::F64)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
