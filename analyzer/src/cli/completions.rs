//! `ddo-analyze completions` and `ddo-analyze man`: "How do a shell and a manual learn the words?"
//!
//! Uses the parser's declaration alone. Invariant: nothing is read, nothing is written but standard output.

use super::Cli;
use crate::error::Error;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use std::io::Write;

/// Words of the subcommand.
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints completions for a shell.
pub(super) fn run(arguments: &Completions, out: &mut dyn Write) -> Result<u8, Error> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "ddo-analyze", &mut text);
    out.write_all(&text).map_err(Error::Output)?;
    Ok(0)
}

/// Prints the manual page.
pub(super) fn man(out: &mut dyn Write) -> Result<u8, Error> {
    clap_mangen::Man::new(Cli::command()).render(out).map_err(Error::Output)?;
    Ok(0)
}
