//! Where a line's values come from: "What does the report hold under this path?"
//!
//! Uses `run`. Invariants: a line appears only where one of its values was recorded; what it lacks is named; text of an input is bounded and
//! holds no control characters.

use crate::run::{Component, LoadedReport, Record, Scalar, Values, shorten};
use serde_json::Value;

/// Stands for a value that was not recorded.
pub(super) const UNAVAILABLE: &str = "unavailable";

/// Stands for a value that was recorded as null.
const UNCOLLECTED: &str = "uncollected";

/// Bytes of a GiB.
const GIB: f64 = (1_u64 << 30) as f64;

/// A report, or a record where no report was written.
pub(super) struct Document<'a> {
    /// The component that it is about.
    pub(super) component: &'a Component,
    /// The report; `None` for a record.
    pub(super) report: Option<&'a LoadedReport>,
    /// The file.
    pub(super) file: &'a str,
    values: &'a Values,
    configuration: &'a Value,
    state: &'a Value,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As recorded.
    Plain,
    /// Bytes as GiB with four decimals.
    Gib,
    /// A value in GiB already, with four decimals.
    InGib,
    /// Seconds with six decimals.
    Seconds,
}

impl<'a> Document<'a> {
    pub(super) fn report(component: &'a Component, report: &'a LoadedReport) -> Document<'a> {
        Document {
            component,
            report: Some(report),
            file: &report.file,
            values: &report.values,
            configuration: &report.configuration,
            state: &report.state,
        }
    }

    pub(super) fn record(component: &'a Component, record: &'a Record) -> Document<'a> {
        let (configuration, state) = (&component.configuration, &component.state);
        Document { component, report: None, file: &record.file, values: &record.values, configuration, state }
    }

    /// A value by its path. A record keeps the values of the offload runtime only; its component has the others.
    pub(super) fn get(&self, path: &str) -> Option<Scalar> {
        if let Some(value) = self.values.get(path) {
            return Some(value.clone());
        }
        let (root, rest) = match (path.strip_prefix("configuration."), path.strip_prefix("runtime.state.")) {
            (Some(rest), _) => (self.configuration, rest),
            (_, Some(rest)) => (self.state, rest),
            _ => return None,
        };
        scalar(rest.split('.').try_fold(root, |value, key| value.get(key))?)
    }

    /// A value in words; `None` where it was not recorded.
    pub(super) fn shown(&self, path: &str, form: Form) -> Option<String> {
        self.get(path).map(|value| show(&value, form))
    }

    /// A value in words, also where it was not recorded.
    pub(super) fn told(&self, path: &str, form: Form) -> String {
        self.shown(path, form).unwrap_or_else(|| UNAVAILABLE.into())
    }
}

fn scalar(value: &Value) -> Option<Scalar> {
    match value {
        Value::Null => Some(Scalar::Uncollected),
        Value::Bool(flag) => Some(Scalar::Bool(*flag)),
        Value::String(text) => Some(Scalar::Text(text.clone())),
        Value::Number(number) => {
            let whole = number.as_u64().map(Scalar::U64).or_else(|| number.as_i64().map(Scalar::I64));
            whole.or_else(|| number.as_f64().map(Scalar::F64))
        }
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// A value in the form that was asked for; one that is no number is written as it is.
pub(super) fn show(value: &Scalar, form: Form) -> String {
    match (form, value.as_f64(), value) {
        (_, _, Scalar::Uncollected) => UNCOLLECTED.into(),
        (Form::Gib, Some(bytes), _) => decimals(bytes / GIB, 4),
        (Form::InGib, Some(gib), _) => decimals(gib, 4),
        (Form::Seconds, Some(seconds), _) => decimals(seconds, 6),
        (_, _, Scalar::U64(value)) => value.to_string(),
        (_, _, Scalar::I64(value)) => value.to_string(),
        (_, _, Scalar::F64(value)) => value.to_string(),
        (_, _, Scalar::Bool(flag)) => flag.to_string(),
        (_, _, Scalar::Text(text)) => shorten(text),
    }
}

/// A number with some decimals; what they would round to zero is told apart from zero.
pub(super) fn decimals(value: f64, places: usize) -> String {
    let least = 0.5 * 10_f64.powi(-(places as i32));
    match value {
        value if value > 0.0 && value < least => format!("<{:.places$}", 2.0 * least),
        value if value < 0.0 && value > -least => format!(">-{:.places$}", 2.0 * least),
        value => format!("{value:.places$}"),
    }
}

/// One line under way.
pub(super) struct Line<'d, 'a> {
    document: &'d Document<'a>,
    text: String,
    any: bool,
    fresh: bool,
}

impl<'d, 'a> Line<'d, 'a> {
    /// A line with this name.
    pub(super) fn new(document: &'d Document<'a>, name: &str) -> Self {
        Line { document, text: format!("{name}="), any: false, fresh: true }
    }

    /// Adds words that are known to be there.
    pub(super) fn word(mut self, word: &str) -> Self {
        if !self.fresh {
            self.text.push(' ');
        }
        self.text.push_str(word);
        self.fresh = false;
        self
    }

    /// Adds a value without a name of its own.
    pub(super) fn bare(mut self, path: &str) -> Self {
        let shown = self.document.shown(path, Form::Plain);
        self.any |= shown.is_some();
        self.word(&shown.unwrap_or_else(|| UNAVAILABLE.into()))
    }

    /// Adds a named value, also where it was not recorded.
    pub(super) fn pair(mut self, name: &str, path: &str, form: Form) -> Self {
        let shown = self.document.shown(path, form);
        self.any |= shown.is_some();
        self.word(&format!("{name}={}", shown.unwrap_or_else(|| UNAVAILABLE.into())))
    }

    /// Adds a named value where it was recorded.
    pub(super) fn optional(self, name: &str, path: &str, form: Form) -> Self {
        match self.document.shown(path, form) {
            Some(shown) => {
                let mut line = self.word(&format!("{name}={shown}"));
                line.any = true;
                line
            }
            None => self,
        }
    }

    /// Adds a value without a name of its own, in the given form; a line without it does not count.
    pub(super) fn lead(mut self, path: &str, form: Form) -> Self {
        match self.document.shown(path, form) {
            Some(shown) => {
                self.any = true;
                self.word(&shown)
            }
            None => self,
        }
    }

    /// Ends the line with its caveat; it counts only where a value was recorded.
    pub(super) fn end(mut self, caveat: &str, lines: &mut Vec<String>) {
        if self.any {
            if !caveat.is_empty() {
                self.text.push_str(&format!(" ({caveat})"));
            }
            lines.push(self.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounds_to_zero_is_not_zero() {
        assert_eq!(decimals(0.0, 4), "0.0000");
        assert_eq!(decimals(4096.0 / GIB, 4), "<0.0001");
        assert_eq!(decimals(-4096.0 / GIB, 4), ">-0.0001");
        assert_eq!(decimals(0.000_05, 4), "0.0001");
        assert_eq!(show(&Scalar::U64(750_780_416), Form::Gib), "0.6992");
        assert_eq!(show(&Scalar::U64(u64::MAX), Form::Plain), "18446744073709551615");
        assert_eq!(show(&Scalar::Uncollected, Form::Seconds), "uncollected");
    }
}
