//! `ddo-analyze delta`: "What changed?"
//!
//! Uses `output::delta`. Invariants: prints only, unless a folder is named; JSON and CSV have every row, people see what changed.

use super::{load, print};
use crate::error::Error;
use crate::limits::TEXT_COLUMNS;
use crate::output::delta::{self, Detail, FILES, Selection};
use crate::output::files::Folder;
use clap::Args;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Delta {
    /// The folder that ddo-record wrote, a bare folder of journal records, or one file of them.
    #[arg(value_name = "DIR")]
    input: PathBuf,
    /// Print JSON alone; every row.
    #[arg(long, conflicts_with_all = ["markdown", "csv"])]
    json: bool,
    /// Print Markdown.
    #[arg(long, conflicts_with = "csv")]
    markdown: bool,
    /// Print CSV; every row.
    #[arg(long)]
    csv: bool,
    /// Only this component.
    #[arg(long, value_name = "NAME")]
    component: Option<String>,
    /// Compare this record or report, such as before_denoise or final, COMPONENT/final or its path ..
    #[arg(long, value_name = "NAME", requires = "to")]
    from: Option<String>,
    /// .. with this one.
    #[arg(long, value_name = "NAME", requires = "from")]
    to: Option<String>,
    /// Show every row of every pair, not only what changed.
    #[arg(long)]
    all: bool,
    /// Also write deltas.json, deltas.csv and deltas.md to this folder. Never inside the journal.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the analyzer's own files in a folder that is not empty.
    #[arg(long)]
    force: bool,
}

/// Prints the tables, and writes them where a folder is named.
pub(super) fn run(arguments: &Delta, out: &mut dyn Write) -> Result<u8, Error> {
    let run = load(&arguments.input)?;
    let between = arguments.from.clone().zip(arguments.to.clone());
    let pairs = delta::select(&run, &Selection { component: arguments.component.clone(), between })?;
    let folder = match &arguments.out {
        Some(folder) => Some(Folder::open(&arguments.input, Some(folder), arguments.force)?),
        None => None,
    };
    if let Some(folder) = &folder {
        delta::write_files(&run, &pairs, folder)?;
    }
    if arguments.json {
        delta::json(&pairs, out)?;
    } else if arguments.csv {
        delta::csv(&pairs, out)?;
    } else if arguments.markdown {
        let detail = if arguments.all { Detail::All } else { Detail::Page };
        print(out, &delta::markdown(&run, &pairs, detail))?;
    } else {
        let detail = if arguments.all { Detail::All } else { Detail::Screen };
        print(out, &delta::terminal(&run, &pairs, detail, columns()))?;
        for (_, name) in folder.iter().flat_map(|_| FILES) {
            let path = folder.as_ref().map(|folder| folder.path.join(name).display().to_string()).unwrap_or_default();
            print(out, &format!("{path}\n"))?;
        }
    }
    Ok(0)
}

/// Columns of the terminal that reads standard output, else those of a printed page.
fn columns() -> u16 {
    let stdout = io::stdout();
    let size = if stdout.is_terminal() { terminal_size::terminal_size_of(&stdout) } else { None };
    size.map_or(TEXT_COLUMNS as u16, |(width, _)| width.0)
}
