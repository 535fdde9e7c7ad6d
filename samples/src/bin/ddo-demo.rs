//! From nothing to a trace: builds the programs, fetches a model, records a run under a ceiling, analyses it.
//!
//! Exit codes: 0 the trace is there; 1 a part failed, named on stderr; 2 the command line makes no sense.

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use ddo_samples::args::LinkRate;
use ddo_samples::model::{self, ModelFiles};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Builds the programs, fetches the MiniLM sentence encoder, records it under a ceiling of 40 %, and makes a trace of the run.
#[derive(Debug, Parser)]
#[command(name = "ddo-demo", version)]
struct Args {
    /// Use no network: a model that is missing is replaced by a generated one.
    #[arg(long)]
    offline: bool,
    /// The MiniLM checkpoint: its folder or model.safetensors.
    #[arg(long, value_name = "PATH")]
    model: Option<PathBuf>,
    /// Folder for the results; it must not exist yet. Default: `demo/<UTC time>` in the cargo target folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Forward passes.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    steps: u64,
    /// Rate of the imitated link in 10^9 bytes a second.
    #[arg(long, value_name = "R", default_value = "0.1")]
    link_gb_per_second: LinkRate,
}

/// Where the programs and results are.
struct Places {
    /// Folder of the programs: `debug` or `release`.
    profile: PathBuf,
    /// The cargo target folder.
    target: PathBuf,
    /// Folder for this run's results.
    out: PathBuf,
}

/// The words of the command line. `cargo demo -- --help` passes the separator on as well: it is left out.
fn words() -> Vec<std::ffi::OsString> {
    let mut words: Vec<_> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "--") {
        words.remove(1);
    }
    words
}

fn main() -> ExitCode {
    match demo(&Args::parse_from(words())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ddo-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn demo(args: &Args) -> Result<()> {
    let places = places(args)?;
    println!("1/4  building the programs");
    build(&places).context("part 1, building the programs, failed")?;
    println!("2/4  looking for the model");
    let sample = sample_arguments(args, &places).context("part 2, the model, failed")?;
    println!("3/4  recording {} steps under a ceiling of 40 %", args.steps);
    let journal = record(args, &places, sample).context("part 3, recording, failed")?;
    println!("4/4  analysing");
    let trace = analyse(&places, &journal).context("part 4, analysing, failed")?;
    println!();
    println!("journal  {}", journal.display());
    println!("trace    {} ({} bytes)", trace.display(), std::fs::metadata(&trace).map_or(0, |file| file.len()));
    println!("Open https://ui.perfetto.dev, choose \"Open trace file\", and pick the trace.");
    Ok(())
}

fn places(args: &Args) -> Result<Places> {
    let program = std::env::current_exe().context("the program's own path cannot be found")?;
    let profile = model::profile_dir_of(&program).with_context(|| format!("{} lies in no folder", program.display()))?;
    let target = model::target_dir_of(&program).with_context(|| format!("{} lies in no target folder", program.display()))?;
    let out = match &args.out {
        Some(out) => std::path::absolute(out).with_context(|| format!("--out {}", out.display()))?,
        None => target.join("demo").join(jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()),
    };
    if out.exists() {
        bail!("--out {}: it exists already; choose a new folder", out.display());
    }
    Ok(Places { profile, target, out })
}

/// Builds with the cargo that started this program, in the profile and target folder that it was built in.
fn build(places: &Places) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--bins", "-p", "ddo-recorder", "-p", "ddo-analyzer", "-p", "ddo-samples"]);
    command.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(&places.target);
    let folder = places.profile.file_name().unwrap_or_default();
    if folder == "release" {
        command.arg("--release");
    } else if folder != "debug" {
        bail!("this program lies in {}; its folder must be debug or release", places.profile.display());
    }
    run(&mut command)
}

/// The arguments that name the model: MiniLM, or a generated one with a note where MiniLM cannot be had.
fn sample_arguments(args: &Args, places: &Places) -> Result<Vec<OsString>> {
    let found = match &args.model {
        Some(path) => Ok(ModelFiles::at(path).map_err(flat)?),
        None => model::ensure_minilm(&places.target, args.offline),
    };
    let missing = match found {
        Ok(files) => {
            println!("     MiniLM at {}", files.weights.display());
            return Ok(vec!["minilm".into(), "--model".into(), std::path::absolute(files.weights)?.into()]);
        }
        Err(error @ (model::ModelError::Missing { .. } | model::ModelError::Fetch { .. })) => error,
        Err(broken) => return Err(flat(broken)),
    };
    println!("     note: {missing}");
    println!("     note: the generated model flux_shaped is used instead; its weights mean nothing");
    Ok(vec!["flux_shaped".into()])
}

/// An error of the library, which says its cause itself; the chain would repeat it.
fn flat(error: model::ModelError) -> anyhow::Error {
    anyhow::Error::msg(error.to_string())
}

fn record(args: &Args, places: &Places, sample: Vec<OsString>) -> Result<PathBuf> {
    std::fs::create_dir_all(&places.out).with_context(|| format!("cannot make the folder {}", places.out.display()))?;
    let journal = places.out.join("journal");
    let mut command = program(places, "ddo-record")?;
    command.arg("-o").arg(&journal).args(["--gpu-timing", "--native-timeline", "--"]);
    command.arg(program_path(places, "ddo-sample")?).args(sample);
    let rate = args.link_gb_per_second.0 as f64 / 1e9;
    command.args(["--ceiling", "40%", "--steps", &args.steps.to_string(), "--link-gb-per-second", &rate.to_string()]);
    run(&mut command)?;
    Ok(journal)
}

fn analyse(places: &Places, journal: &Path) -> Result<PathBuf> {
    run(program(places, "ddo-analyze")?.arg(journal))?;
    let trace = places.out.join("journal.analysis").join("run.perfetto-trace");
    if !trace.is_file() {
        bail!("ddo-analyze ended well, but {} is not there", trace.display());
    }
    Ok(trace)
}

/// A program beside this one.
fn program_path(places: &Places, name: &str) -> Result<PathBuf> {
    let path = places.profile.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if path.is_file() { Ok(path) } else { bail!("{name} is not at {}", path.display()) }
}

fn program(places: &Places, name: &str) -> Result<Command> {
    Ok(Command::new(program_path(places, name)?))
}

/// Runs a program to its end; anything but success is an error that names it.
fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("{name} could not be started"))?;
    if status.success() { Ok(()) } else { bail!("{name} ended with {status}") }
}
