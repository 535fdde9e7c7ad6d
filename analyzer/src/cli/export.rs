//! `ddo-analyze export`: "How do other programs read the deltas?"
//!
//! Uses `output::dataset` and `output::delta`. Invariant: writes beside the input, never into it.

use super::{load, print};
use crate::analysis::delta::pairs;
use crate::error::Error;
use crate::output::files::Folder;
use crate::output::{dataset, delta};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Export {
    /// The folder that ddo-record wrote, a bare folder of journal records, or one file of them.
    #[arg(value_name = "DIR")]
    input: PathBuf,
    /// Folder for dataset/ and deltas.csv [default: DIR.analysis beside DIR]. Never inside the journal.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the analyzer's own files in a folder that is not empty.
    #[arg(long)]
    force: bool,
    /// Print JSON alone.
    #[arg(long)]
    json: bool,
}

/// Writes the dataset and the CSV table; prints their paths.
pub(super) fn run(arguments: &Export, out: &mut dyn Write) -> Result<u8, Error> {
    let run = load(&arguments.input)?;
    let folder = Folder::open(&arguments.input, arguments.out.as_deref(), arguments.force)?;
    let pairs = pairs(&run);
    let [tidy, wide] = dataset::write(&run, &pairs, &folder)?;
    delta::write_csv_file(&pairs, &folder)?;
    let [_, (csv_kind, csv), _] = delta::FILES;
    let rows: usize = pairs.iter().map(|pair| pair.len()).sum();
    let path = |name: &str| folder.path.join(name).display().to_string();
    if arguments.json {
        let line = serde_json::json!({"tidy": path(&tidy), "wide": path(&wide), csv_kind: path(csv), "rows": rows, "pairs": pairs.len()});
        print(out, &format!("{line}\n"))?;
    } else {
        print(out, &format!("{rows} rows of {} pairs of records or reports\n", pairs.len()))?;
        for name in [&*tidy, &*wide, csv] {
            print(out, &format!("{}\n", path(name)))?;
        }
    }
    Ok(0)
}
