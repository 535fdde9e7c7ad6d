//! The program `ddo-record`: runs a command and records it. See `ddo_recorder::wrap`.

mod cli;

use clap::Parser as _;
use ddo_recorder::wrap::{self, child::EXIT_RECORDER};

fn main() {
    start_logging();
    let code = match cli::Cli::try_parse() {
        Ok(cli) => match (cli.print_documents(&mut std::io::stdout().lock()), cli.series()) {
            (Ok(false), Some(series)) => wrap::repeat::series(&cli.into(), &series),
            (Ok(false), None) => wrap::run(cli.into()),
            // The reader of the documents may be gone.
            (Ok(true) | Err(_), _) => 0,
        },
        Err(error) if error.use_stderr() => {
            wrap::say::line(&format!("error: {}", cli::in_one_line(&error)));
            EXIT_RECORDER
        }
        Err(help) => {
            // The reader of help may be gone.
            help.print().ok();
            0
        }
    };
    std::process::exit(code);
}

/// Diagnostics of the recorder itself, off unless `DDO_LOG` has a filter.
fn start_logging() {
    let Ok(filter) = std::env::var("DDO_LOG") else { return };
    let filter = tracing_subscriber::EnvFilter::try_new(filter).unwrap_or_default();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
