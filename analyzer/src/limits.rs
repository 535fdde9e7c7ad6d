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

/// Most generations that one report of a host tracker may hold; a recorder writes at most a thousand.
pub const MAX_GENERATION_OBSERVATIONS: usize = 10_000;

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

/// Bytes of a file that are looked at to recognise an operator trace before parsing it; the properties of eight devices
/// come before the events in some.
pub const PEEK_BYTES: usize = 16 << 10;

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
/// Share of a scope above which what its parts leave over is the story: more than they explain together.
pub const RESIDUAL_DOMINATES: f64 = 0.5;

/// By how much parts may exceed the scope around them, relative to it: sums of many clock readings, rounded each.
pub const SCOPE_TOLERANCE: f64 = 1e-6;

/// The same in seconds, for scopes that are hardly longer than a reading of the clock.
pub const SCOPE_TOLERANCE_SECONDS: f64 = 1e-6;

/// Columns of the bar that shows a share.
pub const BAR_COLUMNS: usize = 10;

/// Longest string of an operator trace, in bytes; real names have at most a few thousand.
pub const MAX_TRACE_STRING_BYTES: usize = 1 << 20;

/// Largest single event of an operator trace, in bytes: the window that is held in memory never grows beyond it.
pub const MAX_TRACE_EVENT_BYTES: usize = 16 << 20;

/// Deepest nesting of one event's arguments; real ones have three levels.
pub const MAX_TRACE_DEPTH: usize = 64;

/// Digits after the point of a microsecond that count; yoctoseconds are finer than any clock.
pub const MAX_FRACTION_DIGITS: u32 = 18;

/// Largest size of an unpacked trace over its packed size; real traces reach 30, made-up ones 1000.
pub const MAX_GZ_RATIO: u64 = 200;

/// Unpacked bytes from which the ratio is looked at.
pub const GZ_RATIO_FROM_BYTES: u64 = 16 << 20;

/// Most events kept of one operator trace; they take 2 GiB of memory.
pub const MAX_OPERATOR_EVENTS: u64 = 1 << 26;

/// Most bytes of different names kept of one operator trace.
pub const MAX_OPERATOR_NAME_BYTES: usize = 64 << 20;

/// Longest name of an operator or kernel that is shown in a trace, in characters; template arguments come late.
pub const MAX_OPERATOR_NAME_CHARS: usize = 1_000;

/// Most different categories of one operator trace; real ones have about ten.
pub const MAX_OPERATOR_CATEGORIES: usize = 1_000;

/// Most threads, streams and asynchronous groups of one operator trace.
pub const MAX_OPERATOR_TRACKS: usize = 100_000;

/// Most counters of one operator trace.
pub const MAX_OPERATOR_COUNTERS: usize = 10_000;

/// Most events that are skipped because they cannot be read; after these the rest of a trace is given up.
pub const MAX_BROKEN_EVENTS: u64 = 1_000;

/// Deepest nesting of slices on one track; readers of the written format stop at 512.
pub const MAX_NESTING: usize = 256;

/// Most lanes of one track; slices that straddle more others at once are counted and not drawn.
pub const MAX_LANES: usize = 1_024;

/// How many times longer than the distance to the next start on its stream a row must be to be called impossible.
pub const IMPOSSIBLE_FACTOR: i64 = 100;

/// How far past the next start it must end, in nanoseconds: less is explained by kernels that start early.
pub const IMPOSSIBLE_OVERSHOOT_NS: i64 = 1_000_000;

/// Rows of a top table.
pub const TOP_ROWS: usize = 40;

/// Operator traces that the one screen names.
pub const SCREEN_OPERATOR_TRACES: usize = 4;

/// Largest trace that a browser opens, in bytes: its address space has 32 bits.
pub const MAX_BROWSER_TRACE_BYTES: u64 = 4 << 30;

/// Points of one curve of a picture; more would fall on the same pixels.
pub const MAX_PLOT_POINTS: usize = 2000;
/// Step lines of a picture; more would hide the curves.
pub const MAX_PLOT_MARKS: usize = 100;
/// Steps of a table on a screen, half from each end of the run.
pub const MAX_TABLE_STEPS: usize = 40;

/// Operators of one profiled forward in the profile, on each side.
pub const PROFILE_OPERATOR_ROWS: usize = 3;

/// Steps of an allocation scope that get a line each in the profile; longer phases belong into the trace.
pub const PROFILE_ALLOCATION_STEPS: usize = 200;

/// Generations shown in a profile; a run has at most a thousand.
pub const PROFILE_GENERATIONS: usize = 200;

/// Most files that are parsed ahead of those that are taken in.
pub const AHEAD_FILES: usize = 64;

/// Most bytes of them, unless one file alone has more; parsed they take several times as much memory.
pub const AHEAD_BYTES: u64 = 8 << 20;

/// Most threads that parse; taking in what they found keeps up with four.
pub const AHEAD_THREADS: usize = 4;

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
