//! `deltas.json`: "Which rows does a program read?"
//!
//! Uses the declared shape. Invariant: one row a line and never all rows in memory.

use super::cells;
use crate::analysis::delta::{Pair, Row};
use crate::error::Error;
use ddo_schemas::Seconds;
use ddo_schemas::deltas::{DeltaRow, Deltas};
use ddo_schemas::unit::Nullable;
use std::io::Write;

/// Writes the document.
pub(super) fn write(pairs: &[&Pair<'_>], left_out: usize, out: &mut dyn Write) -> Result<(), Error> {
    write!(out, "{{\n\"schema_version\": {},\n", Deltas::VERSION).map_err(Error::Output)?;
    if left_out > 0 {
        writeln!(out, "\"rows_left_out\": {left_out},").map_err(Error::Output)?;
    }
    out.write_all(b"\"rows\": [").map_err(Error::Output)?;
    let mut separator = "\n";
    for pair in pairs {
        for row in pair.rows() {
            let text = serde_json::to_string(&declared(pair, &row)).map_err(|source| Error::Json { what: "a delta", source })?;
            write!(out, "{separator}{text}").map_err(Error::Output)?;
            separator = ",\n";
        }
    }
    out.write_all(b"\n]\n}\n").map_err(Error::Output)
}

fn declared(pair: &Pair<'_>, row: &Row<'_>) -> DeltaRow {
    DeltaRow {
        component: Nullable(pair.component.map(str::to_string)),
        scope: pair.scope,
        from: pair.from.clone(),
        to: pair.to.clone(),
        path: row.column.path.to_string(),
        kind: row.column.kind().into(),
        unit: row.column.unit_name().into(),
        state: row.state,
        before: cells::scalar(row.before),
        after: cells::scalar(row.after),
        delta: cells::difference(row.difference),
        seconds: Nullable(pair.seconds.map(Seconds)),
        rate_bytes_per_second: row.rate.map(|rate| Seconds(rate.bytes_per_second)),
        rate_note: row.rate.and_then(|rate| rate.note()).map(str::to_string),
    }
}
