//! `ddo-analyze check`: "Do the numbers add up?"
//!
//! Uses every room through its public face. Invariant: 5 when a check fails, 0 when none does.

use super::{EXIT_DATA_QUALITY, load, print};
use crate::analysis;
use crate::error::Error;
use crate::output::{self, check, files::Folder};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A folder of a run, or one file of it.
    #[arg(value_name = "DIR")]
    input: PathBuf,
    /// List every check and where it was made.
    #[arg(long)]
    all: bool,
    /// Print JSON alone.
    #[arg(long, conflicts_with = "all")]
    json: bool,
    /// Also write check.json to this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the analyzer's own files in a folder that is not empty.
    #[arg(long, requires = "out")]
    force: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<u8, Error> {
    let run = load(&arguments.input)?;
    let document = check::document(&analysis::check::all(&run));
    if let Some(folder) = &arguments.out {
        let folder = Folder::open(&arguments.input, Some(folder), arguments.force)?;
        folder.write(output::CHECK_FILE, |file| check::write(&document, file))?;
    }
    if arguments.json {
        check::write(&document, out)?;
    } else {
        print(out, &check::text(&document, arguments.all))?;
    }
    Ok(if document.ok { 0 } else { EXIT_DATA_QUALITY })
}
