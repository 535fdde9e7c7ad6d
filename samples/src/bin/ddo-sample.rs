//! Runs one sample model under the offload runtime and compares every step with the resident run.
//!
//! Exit codes: 0 every step is equal; 1 it is not, or something failed; 2 the command line, the checkpoint or a limit cannot be met.

use anyhow::Context as _;
use clap::Parser as _;
use ddo_samples::args::SampleArgs;
use ddo_samples::model::target_dir_of;
use ddo_samples::run::{RunError, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = SampleArgs::parse();
    match sample(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Errors of the library say their causes themselves; the chain would repeat them.
            eprintln!("ddo-sample: {error}");
            let refused = error.downcast_ref().is_some_and(RunError::is_refusal);
            ExitCode::from(if refused { 2 } else { 1 })
        }
    }
}

fn sample(args: &SampleArgs) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("the program's own path")?;
    let target_dir = target_dir_of(&program).context("the program lies in no folder")?;
    println!("{}", run(args, &target_dir)?);
    Ok(())
}
