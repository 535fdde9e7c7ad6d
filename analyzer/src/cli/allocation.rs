//! `ddo-analyze allocation`: "Which driver calls did memory cost, step by step?"
//!
//! Uses `output::driver_calls`. Invariant: prints only.

use super::{load, print};
use crate::error::Error;
use crate::output::driver_calls;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Words of the subcommand.
#[derive(Debug, Args)]
pub(super) struct Allocation {
    /// The folder that ddo-record wrote, or one report of it.
    #[arg(value_name = "DIR")]
    input: PathBuf,
    /// Print JSON alone.
    #[arg(long)]
    json: bool,
}

/// Prints the tables.
pub(super) fn run(arguments: &Allocation, out: &mut dyn Write) -> Result<u8, Error> {
    let run = load(&arguments.input)?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&driver_calls::json(&run));
        let json = json.map_err(|source| Error::Json { what: "the tables of driver calls", source })?;
        print(out, &format!("{json}\n"))?;
    } else {
        print(out, &driver_calls::text(&run))?;
    }
    Ok(0)
}
