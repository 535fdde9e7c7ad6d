//! `ddo-analyze profile`: "What did one report say, in a few lines?"
//!
//! Uses `output::profile`. Invariant: prints only.

use super::{load, print};
use crate::error::Error;
use crate::output::profile;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Profile {
    /// The folder that ddo-record wrote, a bare folder of journal records, or one file of them.
    #[arg(value_name = "DIR")]
    input: PathBuf,
    /// This report or record, such as model_load, COMPONENT/final or its path [default: the report that speaks
    /// for each component].
    #[arg(long, value_name = "NAME")]
    report: Option<String>,
    /// Look for the report in this component only.
    #[arg(long, value_name = "NAME", requires = "report")]
    component: Option<String>,
}

/// Prints the profile of each component, or of the report that was named.
pub(super) fn run(arguments: &Profile, out: &mut dyn Write) -> Result<u8, Error> {
    let run = load(&arguments.input)?;
    let text = match &arguments.report {
        Some(name) => profile::named(&run, arguments.component.as_deref(), name)?,
        None => profile::of(&run),
    };
    print(out, &text)?;
    Ok(0)
}
