//! How fast does the runtime stream, against what the machine could do? Each measurement is one JSON object a line.
//!
//! | file | its question |
//! |---|---|
//! | `journal` | how long does the analyzer take for a long journal, and how much memory? |
//! | `args` | what did the command line of `ddo-bench` ask for? |
//! | `line` | what does a measurement look like, and on which machine was it taken? |
//! | `rate` | how fast do registered file bytes reach the device? |
//! | `workload` | what is run: the generated model on either driver? |
//! | `scale` | what does a unit cost the host, from a few units to ten thousand? |
//! | `windows` | do upload windows contain their copies, and how much wider are they? |
//! | `trace` | how fast is a profiler's trace converted, how fast are slices encoded? |
//! | `overhead` | what does each scope of observation cost a step? |
//! | `cold` | how long does the first step of a fresh attachment take? |
//! | `stream` | how long does a step take, and what is its floor? |
//!
//! May use: the recorder's embeddable interface, the samples' workload.
//!
//! Invariants: the floor's terms are measured in the same process before the run, or supplied and labelled so; a result that is
//! not the right one ends the benchmark; nothing here is ever a test with a time limit.

mod args;
mod cold;
mod journal;
mod line;
mod overhead;
mod rate;
mod scale;
mod stream;
mod trace;
mod windows;
mod workload;

pub use args::{
    Bench, BenchArgs, BenchMode, BenchSource, EncodeArgs, JournalArgs, OverheadArgs, ScaleArgs, StreamArgs, TraceArgs,
};
pub use cold::cold;
pub use journal::{JournalLine, journal};
pub use line::{Line, Machine, Terms};
pub use overhead::{MedianRatio, OverheadLine, overhead};
pub use scale::{ScaleLine, scale};
use stream::WARM_STEPS;
pub use stream::{Floor, stream};
pub use trace::{EncodeLine, TraceLine, encode, trace};
pub use windows::{AlignmentLine, Spread, WindowsLine, windows};
