//! Repairs: "What was not as it should be, and was anything lost?"
//!
//! Uses the shared finding. Invariant: each kind of departure has its own code and count; it is a warning where data
//! was lost or guessed or the result is incomplete, else a note.

use ddo_schemas::{Finding, Severity};

/// What reading one event repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Repairs {
    /// Words for numbers that are none.
    pub(super) non_finite: u64,
    /// Strings with control characters.
    pub(super) control: u64,
    /// Strings with escapes that JSON does not have.
    pub(super) escapes: u64,
    /// Strings that are not UTF-8.
    pub(super) non_utf8: u64,
    /// Numbers given as text.
    pub(super) text_numbers: u64,
    /// True where quotes inside a string were not escaped.
    pub(super) quotes: bool,
}

/// Counts over a whole file.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    repairs: Repairs,
    quoted: u64,
    counts: std::collections::BTreeMap<Loss, u64>,
}

/// What can happen to a whole event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    NegativeDuration,
    MissingDuration,
    NoTime,
    BadCounter,
    Unpaired,
    NotAnEvent,
    TooManyTracks,
    TooManyNames,
    TooManyCounters,
    BadFlow,
}

impl Tally {
    /// Adds what one event needed.
    #[inline]
    pub(super) fn add(&mut self, more: &Repairs) {
        if *more == Repairs::default() {
            return;
        }
        let sum = &mut self.repairs;
        sum.non_finite += more.non_finite;
        sum.control += more.control;
        sum.escapes += more.escapes;
        sum.non_utf8 += more.non_utf8;
        sum.text_numbers += more.text_numbers;
        self.quoted += u64::from(more.quotes);
    }

    /// Counts one loss.
    pub(super) fn lost(&mut self, loss: Loss) {
        *self.counts.entry(loss).or_default() += 1;
    }

    /// One finding for each kind.
    pub(super) fn findings(&self, place: &str) -> Vec<Finding> {
        use Severity::{Note, Warning};
        let repairs = &self.repairs;
        let kinds = [
            (repairs.non_finite, Note, "operator_non_finite", "number(s) are not finite; JSON has none, and they were dropped"),
            (repairs.control, Note, "operator_control_characters", "text(s) held control characters, which were replaced"),
            (repairs.escapes, Note, "operator_bad_escape", "text(s) held a backslash that begins no escape; it was kept"),
            (repairs.non_utf8, Note, "operator_not_utf8", "text(s) were not UTF-8; the wrong bytes were replaced"),
            (repairs.text_numbers, Note, "operator_text_number", "number(s) stood in quotes and were read exactly"),
            (
                self.quoted,
                Warning,
                "operator_unescaped_quotes",
                "event(s) held quotes that were not escaped; where their text ends was guessed from what follows",
            ),
        ];
        let mut found: Vec<Finding> = kinds
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, severity, code, words)| Finding::new(severity, code, place, format!("{count} {words}")))
            .collect();
        for (loss, count) in &self.counts {
            let (severity, code, words) = loss.words();
            found.push(Finding::new(severity, code, place, format!("{count} {words}")));
        }
        found
    }
}

impl Loss {
    fn words(self) -> (Severity, &'static str, &'static str) {
        use Severity::Warning;
        match self {
            Loss::NegativeDuration => {
                (Warning, "operator_negative_duration", "event(s) end before they start; they are moments and add no time")
            }
            Loss::MissingDuration => {
                (Warning, "operator_missing_duration", "event(s) say no duration; they are moments and add no time")
            }
            Loss::NoTime => (Warning, "operator_no_time", "event(s) have no usable time and were left out"),
            Loss::BadCounter => (Warning, "operator_counter_value", "counter value(s) are no numbers and were left out"),
            Loss::Unpaired => (Warning, "operator_unpaired", "begin(s) or end(s) have no counterpart; they are moments"),
            Loss::NotAnEvent => (Warning, "operator_not_an_event", "item(s) of the list of events are no events"),
            Loss::TooManyTracks => (Warning, "operator_too_many_tracks", "event(s) are on threads beyond the limit"),
            Loss::TooManyNames => (Warning, "operator_too_many_names", "event(s) have names beyond the limit and share one"),
            Loss::TooManyCounters => (Warning, "operator_too_many_counters", "value(s) are of counters beyond the limit"),
            Loss::BadFlow => (Warning, "operator_flow_without_id", "end(s) of arrows have no identifier"),
        }
    }
}
