//! `ddo-analyze operators`: "What cost the most in the operator traces?"
//!
//! Uses the tables of operators. Invariant: prints and writes nothing.

use super::{EXIT_DATA_QUALITY, load, print};
use crate::analysis;
use crate::error::Error;
use crate::limits::{MAX_PRINTED_FINDINGS, TEXT_COLUMNS, TOP_ROWS};
use crate::output::operators::{Form, json, scopes, tables};
use crate::run::shorten_to;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Options of `operators`.
#[derive(Debug, Args)]
pub(super) struct Operators {
    /// A folder with operator traces, or one trace in Chrome's format, packed or not.
    #[arg(value_name = "DIR|FILE")]
    input: PathBuf,
    /// Rows of each table.
    #[arg(long, value_name = "N", default_value_t = TOP_ROWS)]
    top: usize,
    /// Print JSON alone.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown.
    #[arg(long)]
    markdown: bool,
    /// Exit with 5 when a finding is a warning or an error.
    #[arg(long)]
    strict: bool,
}

/// Prints the tables; returns the exit code.
pub(super) fn run(arguments: &Operators, out: &mut dyn Write) -> Result<u8, Error> {
    let run = load(&arguments.input)?;
    if run.operators.is_empty() && scopes(&run).next().is_none() {
        let reason = "no operator trace is in it, and no report with operators; the trace subcommand reads the rest".into();
        return Err(Error::NothingUsable { path: arguments.input.clone(), reason });
    }
    let findings = analysis::findings(&run);
    if arguments.json {
        print(out, &format!("{}\n", json(&run, arguments.top)))?;
    } else {
        let form = if arguments.markdown { Form::Markdown } else { Form::Text };
        for finding in findings.iter().filter(|finding| analysis::is_serious(finding)).take(MAX_PRINTED_FINDINGS) {
            let text = shorten_to(&finding.to_string(), 2 * TEXT_COLUMNS);
            let line = if arguments.markdown { format!("- {text}\n") } else { format!("{text}\n") };
            print(out, &line)?;
        }
        print(out, &tables(&run, arguments.top, form))?;
    }
    let serious = arguments.strict && findings.iter().any(analysis::is_serious);
    Ok(if serious { EXIT_DATA_QUALITY } else { 0 })
}
