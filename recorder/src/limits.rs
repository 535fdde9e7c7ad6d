//! Every bound of the recorder, with its unit and reason.

use std::time::Duration;

/// Alignment of a parameter inside an execution slot, in bytes: the specification's packing.
pub const SLOT_ALIGNMENT_BYTES: u64 = 512;
/// Least alignment of a parameter inside the arena, in bytes.
pub const ARENA_ALIGNMENT_BYTES: u64 = 256;
/// Least bits of an element of what lives as long as its component: a narrower one has no address of its own.
pub const LIFETIME_ELEMENT_BITS: u64 = 8;
/// Fewest execution slots of the classic mode: one computes while one is filled.
pub const MIN_SLOTS: u64 = 2;
/// Most execution slots; more would only shrink what stays resident.
pub const MAX_SLOTS: u64 = 64;
/// Least bytes of a part unless told otherwise: below it the cost of a copy shows (a 1 MiB copy reaches seven eighths
/// of the link's rate, a 64 KiB one a third).
pub const DEFAULT_PART_BYTES: u64 = 1 << 20;
/// Sizes of the stream ring that are tried, in percent of what the largest launch reads.
pub const RING_PERCENTS: [u64; 8] = [100, 106, 112, 125, 150, 200, 250, 300];
/// Sizes of parts that are tried as "all of these stay", the largest first.
pub const MAX_FORCED_SIZES: usize = 6;
/// Passes of a simulation before those that count, and those that count.
pub const FORECAST_PASSES: (u64, u64) = (2, 3);
/// Visits of parts that all simulations of one plan may make: beyond it the plan costs more than it gains.
pub const MAX_FORECAST_VISITS: u64 = 10_000_000;
/// Visits of parts from which on simulations run side by side: below it they take less than starting threads is worth.
pub const MIN_PARALLEL_VISITS: u64 = 100_000;
/// Simulations that run side by side.
pub const MAX_PARALLEL_FORECASTS: usize = 16;
/// Work of a whole pass that is tried while no unit was measured, in percent of the time that the link needs.
pub const ASSUMED_WORK_PERCENTS: [u64; 3] = [5, 25, 100];
/// Rate that stands for a link whose rate is not known, in bytes a second; only its ratio to the work matters then.
pub const ASSUMED_LINK_BYTES_PER_SECOND: u64 = 50_000_000_000;
/// Passes before the one that is timed: one learns the order, one fills the pipeline.
pub const LEARNED_PASS: u64 = 2;
/// Launches and uploads of the timed pass; each holds two events, and a larger pass is not timed.
pub const MAX_LEARNED_SPANS: usize = 8192;
/// Least bytes of a copy that tells of the link's rate; smaller ones tell of its latency.
pub const MIN_LEARNED_COPY_BYTES: u64 = 64 << 10;
/// Parts that may be uploaded ahead: each holds an event, and a deeper queue hides nothing more.
pub const MAX_AHEAD_PARTS: u64 = 256;
/// Idle events that the pool keeps; further ones are destroyed.
pub const MAX_IDLE_EVENTS: usize = 256;
/// Dimensions of a tensor view.
pub const MAX_RANK: usize = 8;
/// Default page size of the host driver, in bytes.
pub const HOST_PAGE_BYTES: u64 = 64 << 10;
/// Default device memory of the host driver, in bytes; address space until it is mapped.
pub const HOST_DEVICE_BYTES: u64 = 64 << 30;
/// Mappings that the host driver leaves to the rest of the process, out of the kernel's limit.
pub const SPARE_MAPPINGS: u64 = 8192;
/// Longest checkpoint header that is read, in bytes; real ones reach 132 MB, a bound keeps garbage from allocating.
pub const MAX_HEADER_BYTES: u64 = 256 << 20;
/// Longest name of a tensor, in bytes.
pub const MAX_TENSOR_NAME_BYTES: usize = 4096;
/// Most dimensions of a tensor in a checkpoint; the same as those of a view.
pub const MAX_TENSOR_RANK: usize = MAX_RANK;
/// Files of one checkpoint.
pub const MAX_CHECKPOINT_FILES: usize = 4096;
/// Longest `model.safetensors.index.json`, in bytes.
pub const MAX_INDEX_BYTES: u64 = 256 << 20;
/// Directories tried for one component name (`NAME`, `NAME.2`, ..).
pub const MAX_NAME_CLAIMS: u32 = 1000;
/// Invocations of a module that one scope of operator diagnostics samples.
pub const MAX_OPERATOR_INVOCATIONS: usize = ddo_schemas::settings::MAX_OPERATOR_INVOCATIONS;
/// Records that one sampled forward keeps, announced ranges apart: some 64 MB of them.
pub const MAX_ACTIVITY_RECORDS: usize = 1 << 19;
/// Size of one buffer of CUPTI's records, in bytes: what NVIDIA's own samples use.
pub const CUPTI_BUFFER_BYTES: usize = 8 << 20;
/// Announced ranges that one sampled forward keeps.
pub const MAX_OPERATOR_RANGES: usize = 1 << 16;
/// Readings of two clocks of which the closest counts.
pub const CLOCK_READINGS: usize = 16;
/// Rows of each table of operators; the trace has the rest.
pub const OPERATOR_ROWS: usize = 40;
/// Longest settings object taken from the environment, in bytes.
pub const MAX_SETTINGS_BYTES: usize = 64 << 10;
/// Job failures kept until the host asks; later ones are counted only.
pub const MAX_JOB_FAILURES: usize = 16;
/// Pause between two completion queries where a driver cannot wait with a deadline, in microseconds.
pub const EVENT_POLL_MICROSECONDS: u64 = 50;
/// Remarks about one checkpoint that are listed; further ones are counted.
pub const MAX_CHECKPOINT_NOTES: usize = 1000;
/// Steps of one scope of allocation diagnostics: each is about a kilobyte of the report, and a diagnosis is short.
pub const MAX_ALLOCATION_STEPS: usize = 8192;
/// Tries of an access call that answers "not ready", each after one synchronisation of the context.
pub const MAX_ACCESS_RETRIES: u32 = 4;
/// Bytes registered at a time: whole segments, so that a refusal loses little.
pub const REGISTRATION_SEGMENT_BYTES: u64 = 64 << 20;
/// Bytes registered at a time beside a pass. A driver registers under a lock that copies need, too: half a millisecond, and
/// 2 ms for whole segments. Smaller pieces cost more in all (4 MiB took 0.4 ms beside copies).
pub const REGISTRATION_PIECE_BYTES: u64 = 16 << 20;
/// Pause after each piece that is registered beside a pass, in percent of the time that it took: whoever waits for the
/// driver's lock, which is not a fair one, has it at least as long.
pub const REGISTRATION_PAUSE_PERCENT: u32 = 100;
/// Least file bytes of a first pass beside which a mapped source is registered unless told otherwise: registering fewer takes
/// less than 30 ms, about what opening the ring costs.
pub const MIN_BACKGROUND_BYTES: u64 = 1 << 30;
/// Fewest threads that fill the ring meanwhile: four read 30 GB/s out of the page cache, with fewer it would take as long as
/// registering first.
pub const MIN_BACKGROUND_READERS: u64 = 4;
/// Least bytes of a tensor in host memory that gets pages of its own, so that it can be registered where it lies; smaller copies
/// are quick from wherever they are.
pub const MIN_PINNED_BYTES: u64 = 1 << 20;
/// Staging memory of the ring unless told otherwise, in bytes. It fits the last-level cache of a large processor: what is
/// read into a slot is copied out of the cache, and memory bandwidth is left to the reading (four times as much was a third
/// slower).
pub const DEFAULT_STAGING_BYTES: u64 = 128 << 20;
/// Bytes of one staging slot unless told otherwise: large enough for the link's rate, small enough for many readers.
pub const DEFAULT_STAGING_SLOT_BYTES: u64 = 4 << 20;
/// Largest ring slot, in bytes: one window of the retained source.
pub const MAX_STAGING_SLOT_BYTES: u64 = 64 << 20;
/// Ring slots are whole system pages of this many bytes.
pub const STAGING_SLOT_ALIGNMENT_BYTES: u64 = 4096;
/// Most ring slots; each holds an event and a registration.
pub const MAX_STAGING_SLOTS: u64 = 4096;
/// Fewest slots of the source `staged`: one is filled while another is copied.
pub const MIN_STAGED_SLOTS: u64 = 2;
/// Most staging memory without retained storage, in bytes.
pub const MAX_STAGING_BYTES: u64 = 2 << 30;
/// Most threads that read files or copy into the ring: more gained nothing on a machine of 16 cores.
pub const MAX_SOURCE_READERS: u64 = 14;
/// Windows of the retained source that are filled at a time: enough for every reader, and the first is still served soon.
pub const MAX_SOURCE_WINDOWS: u64 = 8;
/// Bytes that one reader takes at a time when a window is filled.
pub const FILL_PIECE_BYTES: u64 = 8 << 20;
/// One segment of retained storage in its model-window geometry, in bytes.
pub const RETAINED_SEGMENT_BYTES: u64 = 64 << 20;
/// Most retained storage in the model-window geometry, in bytes.
pub const MAX_RETAINED_BYTES: u64 = 32 << 30;
/// Slots of the micro geometry are multiples of this many bytes.
pub const MICRO_SLOT_ALIGNMENT_BYTES: u64 = 64 << 10;
/// Most retained storage in the micro geometry, in bytes.
pub const MAX_MICRO_RETAINED_BYTES: u64 = 128 << 20;
/// Most host memory of ring and retained storage in the micro geometry, in bytes.
pub const MAX_MICRO_HOST_BYTES: u64 = 1 << 30;
/// Most host memory that rings and retained storage of a process may hold registered together, in bytes.
pub const MAX_PROCESS_REGISTERED_BYTES: u64 = 40 << 30;
/// Host memory that retained storage leaves to others unless told otherwise, in bytes.
pub const DEFAULT_HEADROOM_BYTES: u64 = 1 << 30;
/// Oldest CUDA version that a driver must support, as CUDA writes it (1000 x major + 10 x minor): the first with every function used.
pub const MIN_CUDA_DRIVER_VERSION: i32 = 12_080;
/// Step of the clock behind CUDA's events, in seconds, as the driver interface documents it for `cuEventElapsedTime`.
pub const CUDA_EVENT_RESOLUTION_SECONDS: f64 = 0.5e-6;
/// Failures in destructors that a driver keeps; later ones say nothing new.
pub const MAX_STORED_ERRORS: usize = 64;
/// Workspace of matrix products, in bytes, one a stream: a fixed size keeps the choice of algorithm the same.
pub const GEMM_WORKSPACE_BYTES: u64 = 32 << 20;
/// Alignment that matrix products are told about, in bytes: that of every tensor in arena and slots.
pub const GEMM_ALIGNMENT_BYTES: u64 = ARENA_ALIGNMENT_BYTES;
/// Pause between two memory queries unless told otherwise.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);
/// The shortest pause: below it the looking costs more than it shows.
pub const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// The longest pause: above it a run has no useful samples.
pub const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// Characters of a label's key; it becomes a table header.
pub const MAX_LABEL_KEY_CHARS: usize = 64;
/// Bytes of a label's value; it is a word, not a document.
pub const MAX_LABEL_VALUE_BYTES: usize = 1024;
/// Labels of one run.
pub const MAX_LABELS: usize = 64;
/// Runs of each command of a series; a comparison reads about as many.
pub const MAX_REPEATS: u64 = 1000;
/// Redaction patterns of one run; each is searched for at every byte.
pub const MAX_PATTERNS: usize = 64;
/// A supervisor that signals the process and then its group sends the same signal twice; within this time the two count as one request.
pub const SAME_REQUEST: Duration = Duration::from_millis(250);
/// Longest single wait for an event: a year, in seconds; longer ones overflow the clocks of some systems.
pub const MAX_WAIT_SECONDS: u64 = 365 * 86_400;
/// Longest wait for memory in use before a look at whether the session still lives.
pub const CAPACITY_WAIT_SLICE: Duration = Duration::from_millis(100);
/// Two interrupts by key within this time ask to end a command that has no handler for them.
pub const QUICK_INTERRUPTS: Duration = Duration::from_secs(1);
/// Ancestors looked at to find the shell of a job; deeper process trees are not a shell's.
pub const MAX_ANCESTORS: u32 = 64;
/// Pause between two status lines on a terminal.
pub const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// Pause between two status lines elsewhere, such as in a log file, where each line stays.
pub const STATUS_LOG_INTERVAL: Duration = Duration::from_secs(30);
/// Processes of one command that are watched; each costs one open file of the recorder.
pub const MAX_TREE_PROCESSES: usize = 512;
/// Longest pause between two searches for new descendants.
pub const MAX_TREE_SEARCH_PAUSE: Duration = Duration::from_secs(1);
/// The pause after a search is at least this many times its duration, so that searching stays below 2 % of one thread.
pub const TREE_SEARCH_SHARE: u32 = 50;
/// Longest wait for the GPU's management library before a command is started without a device baseline; a device without
/// persistence takes a second or two to wake up.
pub const GPU_OPEN_PATIENCE: Duration = Duration::from_secs(3);
/// Longest wait for one answer of the GPU's management library; host memory is not sampled meanwhile.
pub const GPU_QUERY_PATIENCE: Duration = Duration::from_millis(500);
/// Phases of one run that are told apart; later ones count as the last.
pub const MAX_PHASES: usize = 1000;
/// Characters of a phase's name; it becomes a table row.
pub const MAX_PHASE_CHARS: usize = 64;
/// Bytes of `host.ndjson` read between two samples; the rest is read after the next.
pub const MAX_HOST_EVENT_BYTES: usize = 64 << 10;
/// Share of a memory limit, in percent, from which the last sample counts as near it.
pub const NEAR_LIMIT_PERCENT: u64 = 90;
/// Characters of a refused word that are repeated to its writer; a line stays a line.
pub const MAX_SHOWN_CHARS: usize = 80;
/// Characters of what is wrong with a command line, hints included.
pub const MAX_USAGE_CHARS: usize = 240;
/// Least disk budget, in bytes: room for the manifest, its seal and some samples.
pub const MIN_DISK_BUDGET_BYTES: u64 = 1 << 20;
/// The pause after measuring the folder is at least this many times the measurement's duration.
pub const FOLDER_MEASURE_SHARE: u32 = 100;
/// Files of a folder that are measured; a larger journal is measured in part.
pub const MAX_MEASURED_FILES: u64 = 1_000_000;
