//! `ddo-analyze memory`: "How much memory, of which kind, and when?"
//!
//! Uses `ingest` through the parser's loader and the outputs about memory. Invariant: nothing is written without `--out`.

use super::{load, print};
use crate::error::Error;
use crate::output::{self, memory_table};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Words of the subcommand.
#[derive(Debug, Args)]
pub(super) struct Memory {
    /// The folder that ddo-record wrote.
    #[arg(value_name = "DIR")]
    input: PathBuf,
    /// Write the plots, as SVG and PNG, into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the analyzer's own files in a folder that is not empty.
    #[arg(long)]
    force: bool,
    /// Print JSON alone.
    #[arg(long)]
    json: bool,
}

/// Prints the tables, and writes the plots where told to.
pub(super) fn run(arguments: &Memory, out: &mut dyn Write) -> Result<u8, Error> {
    let run = load(&arguments.input)?;
    if let Some(folder) = &arguments.out {
        output::write_plots(&run, &arguments.input, folder, arguments.force)?;
    }
    if arguments.json {
        let json = serde_json::to_string_pretty(&memory_table::json(&run));
        let json = json.map_err(|source| Error::Json { what: "the memory tables", source })?;
        print(out, &format!("{json}\n"))?;
    } else {
        print(out, &memory_table::text(&run))?;
    }
    Ok(0)
}
