//! Every bound of the analyzer, with its unit and its reason: "How much is too much?"

/// Largest JSON file that is read, in bytes. A report of this product has less than a megabyte.
pub const MAX_JSON_BYTES: u64 = 256 << 20;

/// Most files that one input may hold; a journal of 200,000 steps is not a journal any more.
pub const MAX_FILES: usize = 200_000;

/// How many folders deep an input is searched: `snapshots/COMPONENT/` needs two.
pub const MAX_DEPTH: usize = 4;

/// Longest line of `memory.ndjson`, in bytes; real ones have a few hundred.
pub const MAX_LINE_BYTES: u64 = 64 << 10;

/// Most memory samples kept; at ten a second this is more than a day.
pub const MAX_MEMORY_SAMPLES: usize = 1_000_000;

/// Longest text of an input that is repeated to people or copied into a trace, in characters.
pub const MAX_SHOWN_CHARS: usize = 160;

/// Most findings printed on the terminal; `summary.json` has all.
pub const MAX_PRINTED_FINDINGS: usize = 6;

/// Most findings kept of one code; the rest are counted in one line.
pub const MAX_FINDINGS_PER_CODE: usize = 50;

/// Longest path of a field that is kept, in bytes; declared ones have less than a hundred.
pub const MAX_PATH_BYTES: usize = 512;

/// Most different undeclared paths that are kept; another recorder's report has a few hundred.
pub const MAX_UNKNOWN_PATHS: usize = 1_000;

/// Most different paths that are kept altogether: the catalogue, free-form maps such as `setup`, and undeclared ones.
pub const MAX_KNOWN_PATHS: usize = 10_000;

/// Bytes of a file that are looked at to recognise an operator trace before parsing it.
pub const PEEK_BYTES: usize = 4096;

/// Accepted difference between a recorded and a recomputed summary, absolute and relative.
pub const SUMMARY_TOLERANCE: f64 = 1e-12;

/// Windows that straddle by no more than this, in nanoseconds, are timing noise, whatever the clock's resolution.
pub const OVERLAP_TOLERANCE_NS: i64 = 1_000;

/// How far the times of one run may lie after the manifest's clock reading, in nanoseconds: 30 days. What lies
/// further belongs to another clock or another boot.
pub const MAX_CLOCK_LEAD_NS: i64 = 30 * DAY_NS;

/// How far they may lie before it, in nanoseconds: one day, for recorders that were attached to a running program.
pub const MAX_CLOCK_LAG_NS: i64 = DAY_NS;

const DAY_NS: i64 = 86_400_000_000_000;

/// Fewest files for which reading shows its progress; fewer are read in a blink.
pub const PROGRESS_FILES: usize = 200;

/// Largest relative difference between a step and its upload term for which uploads are said to bound the step.
pub const BOUND_TOLERANCE: f64 = 0.10;

/// Smallest share of the warm steps that compute must have waited for uploads, before they are said to bound the step.
pub const WAIT_SHARE: f64 = 0.05;

/// Smallest share of a phase for which the time after its last step is named.
pub const TAIL_SHARE: f64 = 0.01;

/// Columns of the terminal summary.
pub const TEXT_COLUMNS: usize = 100;

/// Units listed as the slowest.
pub const SLOWEST_UNITS: usize = 3;

/// Names suggested for an unknown field.
pub const SUGGESTIONS: usize = 3;
/// Points of one curve of a picture; more would fall on the same pixels.
pub const MAX_PLOT_POINTS: usize = 2000;
/// Step lines of a picture; more would hide the curves.
pub const MAX_PLOT_MARKS: usize = 100;
/// Steps of a table on a screen, half from each end of the run.
pub const MAX_TABLE_STEPS: usize = 40;
