//! `deltas.csv`: "Which rows does a spreadsheet read?"
//!
//! RFC 4180: a header, CRLF, quotes where a field needs them. Invariants: digits are exact; an empty field is a value that is not
//! there, and `state` says why.

use super::cells;
use crate::analysis::delta::Pair;
use crate::error::Error;
use ddo_schemas::scalar::JsonScalar;
use std::borrow::Cow;
use std::io::Write;

const HEADER: [&str; 14] = [
    "component",
    "scope",
    "from",
    "to",
    "path",
    "kind",
    "unit",
    "state",
    "before",
    "after",
    "delta",
    "seconds",
    "rate_bytes_per_second",
    "rate_note",
];

/// Writes the table.
pub(super) fn write(pairs: &[&Pair<'_>], out: &mut dyn Write) -> Result<(), Error> {
    line(out, &HEADER.map(Cow::Borrowed))?;
    for pair in pairs {
        for row in pair.rows() {
            let fields = [
                Cow::Borrowed(pair.component.unwrap_or_default()),
                pair.scope.name().into(),
                pair.from.as_str().into(),
                pair.to.as_str().into(),
                Cow::Borrowed(&*row.column.path),
                row.column.kind().into(),
                row.column.unit_name().into(),
                row.state.name().into(),
                digits(cells::scalar(row.before)).into(),
                digits(cells::scalar(row.after)).into(),
                digits(cells::difference(row.difference)).into(),
                pair.seconds.map(real).unwrap_or_default().into(),
                row.rate.map(|rate| real(rate.bytes_per_second)).unwrap_or_default().into(),
                row.rate.and_then(|rate| rate.note()).unwrap_or_default().into(),
            ];
            line(out, &fields)?;
        }
    }
    Ok(())
}

fn digits(value: JsonScalar) -> String {
    match value {
        JsonScalar::Null => String::new(),
        JsonScalar::Flag(value) => value.to_string(),
        JsonScalar::Integer(value) => value.to_string(),
        JsonScalar::Real(value) => real(value),
        JsonScalar::Text(value) => value,
    }
}

/// The shortest digits that read back as the same number.
fn real(value: f64) -> String {
    format!("{value:?}")
}

fn line(out: &mut dyn Write, fields: &[Cow<'_, str>]) -> Result<(), Error> {
    let text = fields.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(",");
    write!(out, "{text}\r\n").map_err(Error::Output)
}

fn quoted(field: &str) -> Cow<'_, str> {
    let edge = |c: Option<char>| c.is_some_and(char::is_whitespace);
    let plain = !field.contains([',', '"', '\r', '\n']) && !edge(field.chars().next()) && !edge(field.chars().next_back());
    if plain { Cow::Borrowed(field) } else { Cow::Owned(format!("\"{}\"", field.replace('"', "\"\""))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_only_where_they_must_be() {
        let mut out = Vec::new();
        let fields = ["plain", "a,b", "say \"x\"", "two\nlines", " edge", ""].map(Cow::Borrowed);
        line(&mut out, &fields).expect("memory");
        assert_eq!(String::from_utf8(out).expect("text"), "plain,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",\" edge\",\r\n");
    }

    #[test]
    fn numbers_read_back_as_they_were() {
        for value in [0.1 + 0.2, 1e300, -5e-324, 0.0, 134.78] {
            assert_eq!(real(value).parse::<f64>().expect("a number").to_bits(), value.to_bits());
        }
        assert_eq!(digits(JsonScalar::Integer(i128::from(u64::MAX) + 1)), "18446744073709551616");
    }
}
