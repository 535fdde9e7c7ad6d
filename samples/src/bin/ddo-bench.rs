//! Measures the runtime and the analyzer, and prints one JSON object a line.
//!
//! Exit codes: 0 measured; 1 something failed or a result was wrong; 2 the command line asks for what is not there.

use anyhow::Context as _;
use clap::Parser as _;
use ddo_samples::bench::{Bench, BenchArgs, cold, encode, journal, overhead, scale, stream, trace, windows};
use ddo_samples::model::target_dir_of;
use ddo_samples::run::RunError;
use serde::Serialize;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = BenchArgs::parse();
    match bench(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ddo-bench: {error}");
            let refused = error.downcast_ref::<RunError>().is_some_and(RunError::is_refusal);
            ExitCode::from(if refused { 2 } else { 1 })
        }
    }
}

fn bench(args: &BenchArgs) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("the program's own path")?;
    let target_dir = target_dir_of(&program).context("the program lies in no folder")?;
    let mut unprintable = None;
    match &args.bench {
        Bench::Stream(args) => stream(args, &target_dir, |line| print(line, &mut unprintable))?,
        Bench::Cold(args) => cold(args, &target_dir, |line| print(line, &mut unprintable))?,
        Bench::Overhead(args) => overhead(args, &target_dir, |line| print(line, &mut unprintable))?,
        Bench::Windows(args) => windows(args, &target_dir, |line| print(line, &mut unprintable))?,
        Bench::Journal(args) => journal(args, |line| print(line, &mut unprintable))?,
        Bench::Scale(args) => scale(args, |line| print(line, &mut unprintable))?,
        Bench::Trace(args) => trace(args, &target_dir, |line| print(line, &mut unprintable))?,
        Bench::Encode(args) => encode(args, |line| print(line, &mut unprintable))?,
    }
    unprintable.map_or(Ok(()), |error| Err(error).context("a line as JSON"))
}

fn print(line: &impl Serialize, unprintable: &mut Option<serde_json::Error>) {
    match serde_json::to_string(line) {
        Ok(line) => println!("{line}"),
        Err(error) => *unprintable = Some(error),
    }
}
