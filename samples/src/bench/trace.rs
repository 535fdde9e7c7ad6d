//! How fast does the analyzer turn a profiler's trace into its own, and how much memory does that take?
//!
//! May use: the built programs beside this one, `/proc`, Python where it is installed.
//!
//! Invariants: the analyzer is a process of its own, so that its memory is its own; the generated trace has the mix of
//! events, the lengths of names and the number of threads of a recorded one; what was not measured is null.

use super::args::{EncodeArgs, TraceArgs};
use super::line::Machine;
use anyhow::{Context as _, bail};
use serde::Serialize;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Largest file that Python is asked to load, in bytes: it needs about ten times as much memory.
const PYTHON_BYTES: u64 = 512 << 20;

/// Time between two looks at a process.
const LOOK: Duration = Duration::from_millis(2);

/// One conversion.
#[derive(Clone, Debug, Serialize)]
pub struct TraceLine {
    /// `trace`.
    pub bench: &'static str,
    /// `generated`, or `file`.
    pub input: &'static str,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Which of the repeats, from zero.
    pub repeat: u64,
    /// From the start of the process to its end.
    pub seconds: f64,
    /// Megabytes (10^6) of the file a second.
    pub megabytes_per_second: f64,
    /// Processor time of the process, as far as it was seen.
    pub cpu_seconds: Option<f64>,
    /// Megabytes (10^6) of the file a second of processor time: what one undisturbed core does.
    pub megabytes_per_cpu_second: Option<f64>,
    /// Most memory that the process held.
    pub peak_rss_bytes: Option<u64>,
    /// Slices written.
    pub slices: Option<u64>,
    /// Arrows written.
    pub flows: Option<u64>,
    /// Bytes written.
    pub trace_bytes: Option<u64>,
    /// Seconds in which Python's `json` loads the same file.
    pub python_json_seconds: Option<f64>,
    /// Most memory that Python held.
    pub python_peak_rss_bytes: Option<u64>,
    /// Where it was measured.
    pub machine: Machine,
}

/// How a process ended.
pub(super) struct Ended {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) peak_rss_bytes: Option<u64>,
    out: String,
}

/// Measures conversions; each is handed to `print`.
///
/// # Errors
/// When the input cannot be made or read, or the analyzer fails.
pub fn trace(args: &TraceArgs, target_dir: &Path, mut print: impl FnMut(&TraceLine)) -> anyhow::Result<()> {
    let analyzer = analyzer(args.analyzer.as_deref())?;
    let (path, input) = match &args.file {
        Some(path) => (path.clone(), "file"),
        None => (generated(target_dir, args.megabytes)?, "generated"),
    };
    let file_bytes = fs::metadata(&path).with_context(|| path.display().to_string())?.len();
    let plain = path.extension().is_some_and(|extension| extension == "json");
    let python = if plain && file_bytes <= PYTHON_BYTES { python(&path) } else { None };
    let out = target_dir.join("bench-trace");
    for repeat in 0..args.repeats {
        let mut command = Command::new(&analyzer);
        command.arg("trace").arg(&path).arg("--json").arg("--force").arg("--out").arg(&out);
        let ended = run(&mut command)?;
        let said: Value = serde_json::from_str(&ended.out).context("what the analyzer printed")?;
        let number = |key: &str| said.get(key).and_then(Value::as_u64);
        print(&TraceLine {
            bench: "trace",
            input,
            file_bytes,
            repeat,
            seconds: ended.seconds,
            megabytes_per_second: file_bytes as f64 / 1e6 / ended.seconds,
            cpu_seconds: ended.cpu_seconds,
            megabytes_per_cpu_second: ended.cpu_seconds.map(|seconds| file_bytes as f64 / 1e6 / seconds),
            peak_rss_bytes: ended.peak_rss_bytes,
            slices: number("slices"),
            flows: number("flows"),
            trace_bytes: number("bytes"),
            python_json_seconds: python.as_ref().map(|python| python.0),
            python_peak_rss_bytes: python.as_ref().map(|python| python.1),
            machine: Machine::host(),
        });
    }
    fs::remove_dir_all(&out).with_context(|| out.display().to_string())?;
    if args.file.is_none() {
        fs::remove_file(&path).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// One encoding.
#[derive(Clone, Debug, Serialize)]
pub struct EncodeLine {
    /// `encode`.
    pub bench: &'static str,
    /// Which of the repeats, from zero.
    pub repeat: u64,
    /// Slices encoded; each is two events.
    pub slices: u64,
    /// Events a second.
    pub events_per_second: Option<f64>,
    /// Bytes a slice.
    pub bytes_per_slice: Option<f64>,
    /// Where it was measured.
    pub machine: Machine,
}

/// Measures how fast slices are encoded to memory; each repeat is handed to `print`.
///
/// # Errors
/// When the analyzer fails.
pub fn encode(args: &EncodeArgs, mut print: impl FnMut(&EncodeLine)) -> anyhow::Result<()> {
    let analyzer = analyzer(args.analyzer.as_deref())?;
    for repeat in 0..args.repeats {
        let ended = run(Command::new(&analyzer).arg("bench-encode").arg(args.slices.to_string()))?;
        let said: Value = serde_json::from_str(&ended.out).context("what the analyzer printed")?;
        let number = |key: &str| said.get(key).and_then(Value::as_f64);
        print(&EncodeLine {
            bench: "encode",
            repeat,
            slices: args.slices,
            events_per_second: number("events_per_second"),
            bytes_per_slice: number("bytes_per_slice"),
            machine: Machine::host(),
        });
    }
    Ok(())
}

/// The analyzer that was built beside this program.
pub(super) fn analyzer(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match given {
        Some(path) => path.to_path_buf(),
        None => {
            let own = std::env::current_exe().context("the program's own path")?;
            own.with_file_name(format!("ddo-analyze{}", std::env::consts::EXE_SUFFIX))
        }
    };
    if !path.is_file() {
        bail!("{} is not there; build it, or name it with --analyzer", path.display());
    }
    Ok(path)
}

pub(super) fn run(command: &mut Command) -> anyhow::Result<Ended> {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("the analyzer does not start")?;
    let (mut peak_rss_bytes, mut cpu_seconds) = (None, None);
    let status = loop {
        peak_rss_bytes = peak_of(&child).or(peak_rss_bytes);
        cpu_seconds = cpu_of(&child).or(cpu_seconds);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(LOOK);
    };
    let seconds = start.elapsed().as_secs_f64();
    // At most a screen, far below what a pipe holds.
    let out = std::io::read_to_string(child.stdout.take().context("the pipe")?)?;
    if !status.success() {
        bail!("the analyzer ended with {status}");
    }
    Ok(Ended { seconds, cpu_seconds, peak_rss_bytes, out })
}

/// The most memory that a running process has held so far.
fn peak_of(child: &Child) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Processor time of a process, its kernel's included, in the hundredths of seconds that Linux counts in.
fn cpu_of(child: &Child) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // The name, in brackets, may hold anything.
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let seconds = (ticks(11)? + ticks(12)?) as f64 / 100.0;
    (seconds > 0.0).then_some(seconds)
}

/// Seconds and memory in which Python loads a file; `None` without Python.
fn python(path: &Path) -> Option<(f64, u64)> {
    let script = "import json,resource,sys,time\nt=time.perf_counter()\nd=json.load(open(sys.argv[1]))\n\
        print(time.perf_counter()-t, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss*1024)";
    let output = Command::new("python3").arg("-c").arg(script).arg(path).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (seconds, bytes) = text.trim().split_once(' ')?;
    Some((seconds.parse().ok()?, bytes.parse().ok()?))
}

/// Makes a trace of about so many megabytes (10^6 bytes).
fn generated(target_dir: &Path, megabytes: u64) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(target_dir)?;
    let path = target_dir.join(format!("bench-trace-{megabytes}.json"));
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    let mut out = Counting { out: BufWriter::with_capacity(1 << 20, file), bytes: 0 };
    write_trace(&mut out, megabytes.saturating_mul(1_000_000)).with_context(|| path.display().to_string())?;
    out.out.flush()?;
    Ok(path)
}

struct Counting<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Operators as a profiler names them.
const OPERATORS: [&str; 8] =
    ["aten::linear", "aten::addmm", "aten::t", "aten::transpose", "aten::as_strided", "aten::mul", "aten::to", "aten::copy_"];

/// Kernels with names as long as templates make them.
const KERNELS: [&str; 4] = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<c10::BFloat16>, std::array<char*, 1ul> >(int, \
     at::native::FillFunctor<c10::BFloat16>, std::array<char*, 1ul>)",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x3_tn_align8>(cutlass_80_tensorop::Params)",
    "Memcpy HtoD (Pinned -> Device)",
];

/// Writes a trace: of ten events six are operators on two threads, and a launch, its work and the arrow between them are the rest.
fn write_trace(out: &mut Counting<impl Write>, bytes: u64) -> std::io::Result<()> {
    let mut rng = fastrand::Rng::with_seed(5);
    write!(out, "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {{\"id\": 0, \"name\": \"device\"}}\n  ],\n")?;
    write!(out, "  \"baseTimeNanoseconds\": 1790857026000000000,\n  \"traceEvents\": [")?;
    let mut comma = "";
    let mut group = 0_u64;
    let mut time = 5_102_562_758_925_447_u64;
    while out.bytes < bytes {
        let thread = 616 + group % 2;
        let mut end = time + 90_000 + rng.u64(0..20_000);
        let mut start = time;
        for level in 0..6_u64 {
            let name = OPERATORS.get(rng.usize(0..OPERATORS.len())).copied().unwrap_or_default();
            write!(
                out,
                "{comma}\n  {{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"{name}\", \"pid\": 616, \"tid\": {thread},\n    "
            )?;
            write!(out, "\"ts\": {}, \"dur\": {},\n    ", Micro(start), Micro(end - start))?;
            write!(
                out,
                "\"args\": {{\n      \"External id\": {}, \"Record function id\": 0, \"Ev Idx\": {}\n    }}\n  }}",
                group,
                group * 6 + level
            )?;
            comma = ",";
            start += 1_000 + rng.u64(0..4_000);
            end -= 1_000 + rng.u64(0..4_000);
        }
        let id = group + 1;
        write!(
            out,
            ",\n  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 616, \"tid\": {thread},\n    "
        )?;
        write!(out, "\"ts\": {}, \"dur\": {},\n    ", Micro(start), Micro((end - start) / 2))?;
        write!(out, "\"args\": {{\n      \"External id\": {group}, \"cbid\": 211, \"correlation\": {id}\n    }}\n  }}")?;
        write!(
            out,
            ",\n  {{\n    \"ph\": \"s\", \"id\": {id}, \"pid\": 616, \"tid\": {thread}, \"ts\": {},\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"\n  }}",
            Micro(start)
        )?;
        let work = start + 5_000 + rng.u64(0..3_000);
        let kernel = KERNELS.get(rng.usize(0..KERNELS.len())).copied().unwrap_or_default();
        write!(out, ",\n  {{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{kernel}\", \"pid\": 0, \"tid\": 7,\n    ")?;
        write!(out, "\"ts\": {}, \"dur\": {},\n    \"args\": {{\n      ", Micro(work), Micro(2_000 + rng.u64(0..30_000)))?;
        write!(
            out,
            "\"External id\": {group}, \"queued\": 0, \"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": {id},\n      "
        )?;
        write!(
            out,
            "\"registers per thread\": 32, \"shared memory\": 0, \"blocks per SM\": 1.969697,\n      \"grid\": [260, 1, 1], \"block\": [128, 1, 1]\n    }}\n  }}"
        )?;
        write!(
            out,
            ",\n  {{\n    \"ph\": \"f\", \"id\": {id}, \"pid\": 0, \"tid\": 7, \"ts\": {},\n    \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"\n  }}",
            Micro(work)
        )?;
        time += 60_000;
        group += 1;
    }
    write!(out, "\n  ],\n  \"traceName\": \"generated\"\n}}\n")
}

/// Nanoseconds as microseconds with three digits.
struct Micro(u64);

impl std::fmt::Display for Micro {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_trace_is_json_of_the_size_asked_for() {
        let mut out = Counting { out: Vec::new(), bytes: 0 };
        write_trace(&mut out, 100_000).expect("memory takes everything");
        assert!((100_000..105_000).contains(&out.out.len()), "{}", out.out.len());
        let value: Value = serde_json::from_slice(&out.out).expect("JSON");
        let events = value["traceEvents"].as_array().expect("a list");
        let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
        assert_eq!((count("X"), count("s"), count("f")), (events.len() / 10 * 8, events.len() / 10, events.len() / 10));
    }
}
