//! The Parquet dataset of deltas: "How do other engines read many runs at once?"
//!
//! Two tables, each partitioned by run and rank: `tidy` has one row a field and pair, with values in the column of their own
//! type; `wide` has one row a pair and one column a field. Uses `analysis::delta`; polars only writes. Invariants: the same
//! run gives the same bytes; at most one row group is in memory; null is a value that is not there, and `state` says why.

mod tidy;
mod wide;

use super::files::Folder;
use crate::analysis::delta::Pair;
use crate::error::Error;
use crate::limits::{MAX_PARTITION_BYTES, ROW_GROUP_CELLS, ROW_GROUP_ROWS};
use crate::run::Run;
use polars::prelude::{Column, DataFrame, PolarsError};
use polars_io::parquet::write::{BatchedWriter, ParquetWriter};
use std::io::{self, Write};

/// The folder of the dataset.
pub const FOLDER: &str = "dataset";

/// Writes both tables; returns their file names.
///
/// # Errors
/// When a file cannot be written.
pub fn write(run: &Run, pairs: &[Pair<'_>], folder: &Folder) -> Result<[String; 2], Error> {
    let partition = format!("run={}/rank={}/part-0.parquet", partition_name(&run.name), rank(run));
    let [tidy, wide] = ["tidy", "wide"].map(|table| format!("{FOLDER}/{table}/{partition}"));
    let long = || folder.write(&tidy, |out| tidy::write(pairs, ROW_GROUP_ROWS, out));
    let (long, broad) = super::side_by_side(long, || folder.write(&wide, |out| wide::write(pairs, ROW_GROUP_CELLS, out)));
    long.and(broad)?;
    Ok([tidy, wide])
}

/// The rank of a run: its label, else the variable of distributed launchers; a run without either is its own first rank.
fn rank(run: &Run) -> u64 {
    let manifest = run.manifest.as_ref();
    let label = manifest.and_then(|manifest| manifest.labels.get("rank"));
    let stated = label.or_else(|| manifest.and_then(|manifest| manifest.environment.get("RANK")));
    stated.and_then(|rank| rank.parse().ok()).unwrap_or_default()
}

/// A name as the folder of a partition: bytes that readers may not take literally are written `%XX`; long names are cut and
/// marked with a number that depends on the whole name.
fn partition_name(name: &str) -> String {
    let mut out = String::new();
    let mut cut = name.is_empty();
    for byte in name.bytes() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let piece = if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") };
        if out.len() + piece.len() > MAX_PARTITION_BYTES {
            cut = true;
            break;
        }
        out.push_str(&piece);
    }
    // FNV-1a: stable across versions and machines.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    if cut { format!("{out}-{hash:016x}") } else { out }
}

/// A Parquet file that is written row group by row group.
struct Table<'o> {
    writer: BatchedWriter<Watched<'o>>,
    name: &'static str,
}

impl<'o> Table<'o> {
    /// Begins a file with the columns of an empty first group.
    fn begin(name: &'static str, columns: Vec<Column>, out: &'o mut dyn Write) -> Result<Table<'o>, Error> {
        let empty = DataFrame::new_infer_height(columns).map_err(|error| refused(name, error))?;
        let writer = ParquetWriter::new(Watched(out)).set_parallel(false);
        let writer = writer.batched(empty.schema()).map_err(|error| refused(name, error))?;
        Ok(Table { writer, name })
    }

    /// Writes one row group.
    fn group(&mut self, columns: Vec<Column>) -> Result<(), Error> {
        let frame = DataFrame::new_infer_height(columns).map_err(|error| refused(self.name, error))?;
        if frame.height() == 0 {
            return Ok(());
        }
        self.writer.write_batch(&frame).map_err(|error| refused(self.name, error))
    }

    fn end(self) -> Result<(), Error> {
        self.writer.finish().map(|_| ()).map_err(|error| refused(self.name, error))
    }
}

/// An output that the Parquet writer may own.
struct Watched<'o>(&'o mut dyn Write);

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn refused(table: &'static str, error: PolarsError) -> Error {
    match error {
        PolarsError::IO { error, .. } => Error::Output(io::Error::new(error.kind(), error.to_string())),
        other => Error::Table { table, reason: crate::run::shorten(&other.to_string()) },
    }
}

#[cfg(test)]
mod tests;
