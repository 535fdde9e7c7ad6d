//! One row of the catalogue.

use crate::unit::Unit;
use serde::Serialize;

/// What a field's values mean when two of them are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Grows only; two readings subtract. A decrease is a reset.
    Counter,
    /// The level at one moment.
    Gauge,
    /// The highest level seen so far.
    Peak,
    /// A limit or a size that was settled once.
    Limit,
    /// Measured once for one scope; not subtracted.
    Measure,
    /// One of a closed set of words.
    Label,
    /// True or false.
    Flag,
    /// Names a thing; never compared as a number.
    Identity,
    /// The version of a structure.
    Version,
    /// Free text.
    Text,
    /// A structure, list or map with rows of its own.
    Structure,
}

/// How long a value lives before it starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// As long as the process.
    Process,
    /// As long as one source of weights.
    Cache,
    /// As long as one attached component.
    Session,
    /// As long as one explicit scope, record or file.
    Scope,
}

/// A declared field: everything the product says about one number, once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// JSON path from the root of its document; `[]` is a list item, `*` a free key.
    pub path: &'static str,
    /// The unit that the value is counted in.
    pub unit: Unit,
    /// How two readings compare.
    pub kind: Kind,
    /// When the value starts again.
    pub lifetime: Lifetime,
    /// Where and when it is collected.
    pub boundary: &'static str,
    /// What it says, and what it does not say.
    pub meaning: &'static str,
    /// What to look at or do next.
    pub action: &'static str,
    /// False where the field may be left out because it is unavailable.
    pub required: bool,
}
