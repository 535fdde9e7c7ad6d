//! Every bound of the analyzer, with its unit and its reason: "How much is too much?"

/// Largest JSON file that is read, in bytes. A report of a thousand tensors has less than a megabyte, and a file
/// that is parsed at once takes many times its size in memory.
pub const MAX_JSON_BYTES: u64 = 64 << 20;

/// Most bytes of JSON that one input may have in all: 64 GiB, a hundred journals of 10,000 long records.
pub const MAX_TOTAL_JSON_BYTES: u64 = 64 << 30;

/// Deepest nesting of a JSON file, in levels: the JSON parser stops at the next one. Reports have eight.
pub const MAX_JSON_DEPTH: usize = 127;

/// Longest text value that is kept, in bytes; longer ones are left out and counted. Real ones are paths and labels.
pub const MAX_TEXT_BYTES: usize = 16 << 10;

/// Longest name of an operator, a module or a counter that is kept, in characters.
pub const MAX_NAME_CHARS: usize = 1_024;

/// Most values of an observation without a time that are written beside it into a trace.
pub const MAX_OBSERVATION_NOTES: usize = 128;

/// Most runs that one input may hold, such as the ranks of a job; more are left out.
pub const MAX_RUNS: usize = 1_024;

/// Most files that one input may hold; a journal of 200,000 steps is not a journal any more.
pub const MAX_FILES: usize = 200_000;

/// How many folders deep an input is searched: `snapshots/COMPONENT/` needs two, machines and ranks above it two more.
pub const MAX_DEPTH: usize = 6;

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

/// The fastest link that is believed without being told, in bytes per second: PCIe 5.0 x16 moves 63 GB/s one way.
pub const MAX_LINK_BYTES_PER_SECOND: u64 = 64_000_000_000;

/// Most rows in `deltas.json` and `deltas.csv`; a journal of a thousand steps fits, and the dataset holds all rows.
pub const MAX_DELTA_ROWS: usize = 250_000;

/// Rows of a Parquet row group of the long table: what is held in memory at a time.
pub const ROW_GROUP_ROWS: usize = 65_536;

/// Cells of a row group of the wide table, for the same reason.
pub const ROW_GROUP_CELLS: usize = 1_000_000;

/// Changed fields of one group that are shown on one screen.
pub const DELTA_GROUP_ROWS: usize = 4;

/// Changed fields of one pair in `deltas.md`.
pub const DELTA_PAGE_ROWS: usize = 400;

/// Steps that get a column each; longer journals show their first and last step and the middle of the others.
pub const STEP_COLUMNS: usize = 5;

/// Fewest and most columns of a table, whatever the width of the terminal.
pub const TABLE_COLUMNS: (u16, u16) = (60, 180);

/// Longest folder name of a partition, in bytes; file systems allow 255.
pub const MAX_PARTITION_BYTES: usize = 200;

/// Names of records or reports that an error lists.
pub const MAX_LISTED_NAMES: usize = 8;

/// Longest word of an input in a cell of a table for people, in characters.
pub const MAX_CELL_CHARS: usize = 40;

/// Most runs of both sides together for which the rank test is exact; above it the normal approximation is as good.
pub const MAX_EXACT_RUNS: usize = 60;

/// Most gates of one file; nobody owns more.
pub const MAX_GATES: usize = 1_000;

/// Largest threshold of a gate, in percent: a gate that lets a run take ten times as long gates nothing.
pub const MAX_THRESHOLD_PERCENT: f64 = 900.0;

/// Fewest equal runs that a calibration is made from: two halves of two.
pub const MIN_CALIBRATION_RUNS: usize = 4;

/// Random halves that a calibration looks at; the 95 % quantile of so many moves by a percent of itself.
pub const CALIBRATION_SPLITS: usize = 1_000;

/// Most runs on one side of a comparison.
pub const MAX_SIDE_RUNS: usize = 1_024;

/// Largest gates file that is read, in bytes; a thousand gates have a tenth of it.
pub const MAX_GATES_BYTES: u64 = 1 << 20;

/// Runs of a comparison from which reading them shows its progress.
pub const PROGRESS_RUNS: usize = 8;

/// Most annotations of one level; GitHub shows ten of a step and drops the others.
pub const MAX_ANNOTATIONS: usize = 10;

/// Ungated numbers that moved most, as shown to people; `verdict.json` has all.
pub const MAX_SHOWN_CHANGES: usize = 20;

/// Reasons that are shown to people; `verdict.json` has all.
pub const MAX_SHOWN_REASONS: usize = 12;

/// Most runs that are read at the same time; each holds its records in memory meanwhile.
pub const MAX_READERS: usize = 8;
