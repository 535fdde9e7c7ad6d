//! `verdict.json`: whether a change made runs slower, bigger or less safe, for machines.
//!
//! May use: units, scalars and the declaring macro. Invariant: what a run lacks is null in its place, never zero and never left
//! out; a percentage stands only where the base is not zero.

use crate::scalar::JsonScalar;
use crate::section::labels;
use crate::unit::{Nullable, Ratio, Unit};
use crate::{section, version};

labels! {
    /// The answer of a whole comparison.
    pub enum Answer {
        /// No gated number is worse, none is better.
        Same = "same",
        /// No gated number is worse, at least one is better.
        Improved = "improved",
        /// A gated number is worse.
        Regression = "regression",
        /// A gated number cannot be judged.
        Inconclusive = "inconclusive",
        /// The runs are not the same experiment.
        NotComparable = "not_comparable",
    }
}

section! {
    /// A field that keeps the runs from being one experiment.
    pub struct DifferingField at "verdict.differences[]" {
        field: String = Unit::Text, Identity, Scope, "analysis",
            "The setting, label or fact that is not equal, as `--allow` takes it.",
            "Record both sides alike, or allow it and read the result as an experiment.";
        text: String = Unit::Text, Text, Scope, "analysis",
            "Both values, and a run that has each.",
            "See which side is the intended one.";
        allowed: bool = Unit::Flag, Flag, Scope, "analysis",
            "Whether the command line waived this one.",
            "A waived one still makes the comparison an incomparable one.";
    }
}

section! {
    /// The runs of both sides.
    pub struct ComparedRuns at "verdict.runs" {
        base: Vec<String> = Unit::Text, Identity, Scope, "analysis",
            "Folder names of the runs before the change, in the order of their values.",
            "Their number bounds what can be shown.";
        candidate: Vec<String> = Unit::Text, Identity, Scope, "analysis",
            "Folder names of the runs with the change, in the order of their values.",
            "As many as before the change show most.";
        left_out: Vec<String> = Unit::Text, Text, Scope, "analysis",
            "Folders that could not be used and were passed over because that was allowed, with the reason.",
            "Record these again.";
        interleaved: bool = Unit::Flag, Flag, Scope, "analysis",
            "Whether both sides alternate in time, so that a drift of the machine meets both.",
            "False: record with `--interleave`; smaller changes then count.";
    }
}

section! {
    /// How large a difference is.
    pub struct EffectSize at "verdict.metrics[].effect" {
        ratio: Ratio = Unit::Ratio, Measure, Scope, "analysis",
            "Hodges-Lehmann estimate of candidate over base: 1.2 is a fifth more.",
            "Read it with its interval.";
        low: Nullable<Ratio> = Unit::Ratio, Measure, Scope, "analysis",
            "Lower end of the distribution-free 95 % interval; null where so few runs give none.",
            "Above one: the increase is no accident.";
        high: Nullable<Ratio> = Unit::Ratio, Measure, Scope, "analysis",
            "Upper end of the same interval; null with the lower one.",
            "Below one: the decrease is no accident.";
    }
}

section! {
    /// One compared number.
    pub struct ComparedMetric at "verdict.metrics[]" {
        path: String = Unit::Text, Identity, Scope, "analysis",
            "Where the number stands in a report, behind the component where there are several.",
            "`explain` says what it counts.";
        class: String = Unit::Label, Label, Scope, "analysis",
            "`must_be_zero`, `no_increase`, `deterministic`, `time`, `gauge`, `informative` or `planned`.",
            "It follows from the catalogue.";
        rule: String = Unit::Label, Label, Scope, "analysis",
            "`statistical`, `exact`, `must_be_zero`, `no_increase` or `off`: how both sides were held against each other.",
            "Change it in the gates file.";
        unit: String = Unit::Label, Label, Scope, "analysis",
            "What the values and their difference are counted in.",
            "Bytes stay bytes.";
        base: Vec<JsonScalar> = Unit::Unspecified, Measure, Scope, "analysis",
            "One value a run before the change; null where that run lacks it. Integers above 2^53 are strings.",
            "Null is not zero.";
        candidate: Vec<JsonScalar> = Unit::Unspecified, Measure, Scope, "analysis",
            "One value a run with the change, written like those before it.",
            "Look for a single run that stands apart.";
        change: JsonScalar = Unit::Unspecified, Measure, Scope, "analysis",
            "Median with the change minus median before it; null where a side has no values.",
            "Compare with the floor.";
        change_percent: Nullable<Ratio> = Unit::Ratio, Measure, Scope, "analysis",
            "That difference as hundredths of the base's median; null for a base of zero.",
            "Null says nothing about its size.";
        p: Nullable<Ratio> = Unit::Ratio, Measure, Scope, "analysis",
            "One-sided exact Mann-Whitney chance, adjusted for all gated times and sizes; null where no test was made.",
            "Small and a small effect: real, and too little to matter.";
        effect: Nullable<EffectSize> = Unit::Structure, Structure, Scope, "analysis",
            "Size of the difference as a ratio; null unless every value is above zero.",
            "See its rows.";
        threshold_percent: Nullable<Ratio> = Unit::Ratio, Limit, Scope, "analysis",
            "Smallest relative difference that counts; null for rules without one.",
            "Measure it with `--calibrate`.";
        floor: Nullable<Ratio> = Unit::Unspecified, Limit, Scope, "analysis",
            "Absolute difference that has to be exceeded, in the metric's unit; null for rules without one.",
            "Raise it for numbers that jitter.";
        verdict: String = Unit::Label, Label, Scope, "analysis",
            "`regression`, `inconclusive`, `missing`, `new`, `changed`, `improved` or `same`.",
            "Read the reason beside it.";
        reason: String = Unit::Text, Text, Scope, "analysis",
            "Why this answer and no other; empty where the values speak.",
            "It names what would settle an open one.";
        gated: bool = Unit::Flag, Flag, Scope, "analysis",
            "Whether this number decides over the exit code.",
            "Name it in a gates file to gate it.";
        owner: Nullable<String> = Unit::Text, Text, Scope, "analysis",
            "Who answers for it by the gates file; null where nobody is named.",
            "Ask them first.";
    }
}

section! {
    /// A number of two sides that nothing but a diagnosis keeps apart.
    pub struct DiagnosticChange at "verdict.diagnostic_changes[]" {
        path: String = Unit::Text, Identity, Scope, "analysis",
            "Which number it is, by its place in a report; the scope's own counts stand here too.",
            "Read those of the windows before those of whole runs.";
        unit: String = Unit::Label, Label, Scope, "analysis",
            "What both medians are counted in.",
            "Seconds of windows are geometry, not engine time.";
        base: Nullable<Ratio> = Unit::Unspecified, Measure, Scope, "analysis",
            "Median before; null where a run of that side has no such number.",
            "Null beside a value: only the other side was diagnosed this way.";
        candidate: Nullable<Ratio> = Unit::Unspecified, Measure, Scope, "analysis",
            "Median after, as the one before.",
            "Hold it against the base, never against a benchmark.";
        change_percent: Nullable<Ratio> = Unit::Ratio, Measure, Scope, "analysis",
            "Hundredths of the base by which it moved; null without both or for a base of zero.",
            "A rhythm that changed, no speed that was gained; less is as valid a finding as more.";
    }
}

section! {
    /// The answer of one comparison.
    pub struct VerdictDocument at "verdict" {
        schema_version: u32 = Unit::Version, Version, Scope, "analysis",
            "Version of the document of a comparison.",
            "A reader refuses a newer version.";
        verdict: Answer = Unit::Label, Label, Scope, "analysis",
            "`same`, `improved`, `regression`, `inconclusive` or `not_comparable`.",
            "Inconclusive is no pass: record more runs.";
        exit_code: u32 = Unit::Count("exit code"), Measure, Scope, "analysis",
            "What the program ends with: 0, 1 for a regression, 3 for incomparable runs, 4 for an open answer where that is to fail.",
            "Let the pipeline decide by it.";
        reasons: Vec<String> = Unit::Text, Text, Scope, "analysis",
            "What led to the answer in words, the gravest first.",
            "Start with the first.";
        comparable: bool = Unit::Flag, Flag, Scope, "analysis",
            "False where the two sides are not one experiment, waived or not.",
            "Do not compare it with other verdicts.";
        differences: Vec<DifferingField> = Unit::Structure, Structure, Scope, "analysis",
            "Everything that should be equal on both sides and is not.",
            "See its rows.";
        runs: ComparedRuns = Unit::Structure, Structure, Scope, "analysis",
            "Which folders were compared.",
            "See its rows.";
        confirmed: Option<bool> = Unit::Flag, Flag, Scope, "analysis",
            "Whether a second batch of runs showed a regression again; left out where there was none or nothing to confirm.",
            "False: the first batch was an accident.";
        diagnostic_changes: Option<Vec<DiagnosticChange>> = Unit::Structure, Structure, Scope, "analysis",
            "What a diagnostic switch changed between runs that differ in nothing else; left out elsewhere. No verdict.",
            "Such runs are no benchmarks: see its rows.";
        metrics: Vec<ComparedMetric> = Unit::Structure, Structure, Scope, "analysis",
            "All numbers, gated ones first and worse ones before others.",
            "See its rows.";
    }
}

impl VerdictDocument {
    /// The version that this crate writes.
    pub const VERSION: u32 = version::VERDICT;
}
