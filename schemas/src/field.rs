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

/// What a pipeline does by default when a field differs between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Any value above zero in the candidate fails, whatever the base says.
    MustBeZero,
    /// More than in the base fails.
    NoIncrease,
    /// Shown, never a reason to fail.
    Informative,
    /// A time or size that statistics may compare; gated only where it is named.
    Unrated,
}

/// When a value says something; a reader shows it as unavailable otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Always.
    Always,
    /// Only while the field itself is above zero: zero means that nothing was observed.
    NonZero,
    /// Only while another field of the same object, named by its last part, is above zero.
    SiblingNonZero(&'static str),
}

/// What the seconds of a rate enclose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RateScope {
    /// The work itself was waited for, so bytes over seconds is a rate.
    Work,
    /// Handing the work over was timed, not the work: bytes over seconds may exceed any link.
    Enqueue,
}

/// Which seconds belong to a count of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// Last part of the path of the seconds, in the same object.
    pub seconds: &'static str,
    /// What these seconds enclose.
    pub scope: RateScope,
}

impl Rate {
    /// The seconds of the work itself.
    pub const fn work(seconds: &'static str) -> Rate {
        Rate { seconds, scope: RateScope::Work }
    }

    /// The seconds of handing the work over.
    pub const fn enqueue(seconds: &'static str) -> Rate {
        Rate { seconds, scope: RateScope::Enqueue }
    }
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
    /// What a pipeline does by default when two runs differ here.
    pub gate: Gate,
    /// True where equal runs give equal values, so that values compare exactly.
    pub deterministic: bool,
    /// When the value says something.
    pub meaningful_if: Condition,
    /// For bytes: the seconds that belong to them.
    pub rate: Option<Rate>,
}

impl Field {
    /// A row without rules of its own; a declaration states what differs.
    pub const PLAIN: Field = Field {
        path: "",
        unit: Unit::Structure,
        kind: Kind::Structure,
        lifetime: Lifetime::Scope,
        boundary: "",
        meaning: "",
        action: "",
        required: false,
        gate: Gate::Unrated,
        deterministic: false,
        meaningful_if: Condition::Always,
        rate: None,
    };
}
