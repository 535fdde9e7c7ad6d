//! The program `ddo-analyze`: a thin door to the library.

use std::io::{self, BufWriter};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("DDO_LOG").unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let mut out = BufWriter::new(io::stdout().lock());
    ExitCode::from(ddo_analyzer::cli::main(std::env::args_os(), &mut out))
}
