//! Operator traces of a profiler: "What did each thread and each stream do, by the profiler's own clock?"
//!
//! Uses nothing else. Invariants: times are whole nanoseconds of the trace's clock, so they may be absolute or
//! negative; a slice has both ends, and its end is not before its start; what has no duration is a moment; identifiers
//! are exact; rows of a track are ordered by start, empty ones first, then the longest first.

use std::cmp::Reverse;
use std::sync::{Arc, OnceLock};

/// One file of operators.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorTrace {
    /// The file, relative to the input.
    pub file: String,
    /// Bytes of JSON, unpacked.
    pub json_bytes: u64,
    /// Events of any kind that were read.
    pub events: u64,
    /// False where the file ends early or events were lost.
    pub complete: bool,
    /// What is added to times to get nanoseconds since 1970, where the file says it.
    pub base_time_ns: Option<u64>,
    /// How a viewer should print times, as the file says; it never scales them.
    pub display_time_unit: Option<String>,
    /// True where the file has a list of devices, even an empty one: its profiler could have recorded their activity.
    pub names_devices: bool,
    /// Names of rows; rows hold positions in this list.
    pub names: Vec<Arc<str>>,
    /// Categories of rows.
    pub categories: Vec<Category>,
    /// Processes, in order of first mention.
    pub processes: Vec<Process>,
    /// Threads, streams and asynchronous groups, in order of first mention.
    pub tracks: Vec<Track>,
    /// What ties some slices to others.
    pub links: Vec<Link>,
    /// Moments, by time.
    pub moments: Vec<Moment>,
    /// Counters, in order of first mention.
    pub counters: Vec<Counter>,
    /// Ends of arrows, in file order.
    pub flows: Vec<FlowPoint>,
    /// What the analysis found, kept because it passes over every row.
    pub summary: OnceLock<OperatorSummary>,
}

/// A category and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// As the file says it.
    pub name: Arc<str>,
    /// What rows of it are.
    pub class: Class,
}

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// An operator, an annotation or a function on the host.
    Operator,
    /// A call of a runtime or driver library.
    Runtime,
    /// Anything else on the host.
    OtherHost,
    /// A kernel, copy or fill on a device.
    DeviceWork,
    /// Something drawn on a device's row that is no work of it.
    DeviceMark,
    /// The profiler's own span.
    Span,
}

impl Class {
    /// What a category means.
    pub fn of(category: &str) -> Class {
        let category = category.to_ascii_lowercase();
        match category.as_str() {
            "kernel" | "gpu_memcpy" | "gpu_memset" | "memcpy" | "memset" => Class::DeviceWork,
            "cuda_sync" => Class::DeviceMark,
            "cpu_op" | "operator" | "user_annotation" | "python_function" => Class::Operator,
            "trace" => Class::Span,
            "runtime" | "driver" => Class::Runtime,
            other if other.starts_with("gpu_") => Class::DeviceMark,
            other if other.ends_with("_runtime") || other.ends_with("_driver") => Class::Runtime,
            _ => Class::OtherHost,
        }
    }

    /// True for rows of host threads.
    pub fn is_host(self) -> bool {
        matches!(self, Class::Operator | Class::Runtime | Class::OtherHost)
    }

    /// One word for tables.
    pub fn word(self) -> &'static str {
        match self {
            Class::Operator => "operator",
            Class::Runtime => "runtime",
            Class::OtherHost => "host",
            Class::DeviceWork => "device",
            Class::DeviceMark => "device_mark",
            Class::Span => "span",
        }
    }
}

/// A process, which for device rows is a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its identifier.
    pub id: String,
    /// Its name, where given.
    pub name: Option<String>,
    /// Its labels, where given.
    pub labels: Option<String>,
    /// Where viewers put it.
    pub sort: Option<i64>,
}

/// What a track holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TrackKind {
    /// A thread of a process, or a stream of a device.
    #[default]
    Thread,
    /// Asynchronous pairs of one category.
    Async,
}

/// A thread, stream or asynchronous group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Track {
    /// Position of its process.
    pub process: u32,
    /// What it holds.
    pub kind: TrackKind,
    /// Its identifier, or the category of an asynchronous group.
    pub id: String,
    /// Its name, where given.
    pub name: Option<String>,
    /// Where viewers put it.
    pub sort: Option<i64>,
    /// Its slices, in order.
    pub slices: Vec<OperatorSlice>,
}

/// A row with both ends. Thirty-two bytes, for there are millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorSlice {
    /// First nanosecond.
    pub start: i64,
    /// Last, not before the first.
    pub end: i64,
    /// Position of its name.
    pub name: u32,
    /// Position among the events of the file.
    pub sequence: u32,
    /// Position of its link, or [`NO_LINK`].
    pub link: u32,
    /// Position of its category.
    pub category: u16,
}

/// Stands for a slice without a link.
pub const NO_LINK: u32 = u32::MAX;

impl OperatorSlice {
    /// What slices of a track are ordered by.
    pub fn order(&self) -> (i64, bool, Reverse<i64>, u32) {
        (self.start, self.start < self.end, Reverse(self.end), self.sequence)
    }
}

/// What ties a slice to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Number that a launch and its device work share.
    pub correlation: Option<u64>,
    /// Bytes moved.
    pub bytes: Option<u64>,
}

/// Why a moment is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentKind {
    /// Recorded as a moment.
    Instant,
    /// Its duration is below zero.
    NegativeDuration,
    /// Its duration is missing or no number.
    MissingDuration,
    /// A begin without an end, or an end without a begin.
    Unpaired,
}

/// A row without a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Nanosecond.
    pub at: i64,
    /// Position of its track.
    pub track: u32,
    /// Position of its name.
    pub name: u32,
    /// Position among the events of the file.
    pub sequence: u32,
    /// Position of its category.
    pub category: u16,
    /// Why it has no duration.
    pub kind: MomentKind,
}

/// One series of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counter {
    /// Position of its process.
    pub process: u32,
    /// Name of the event and, where it has several values, of the value.
    pub name: String,
    /// Its values, by time.
    pub values: Vec<(i64, CounterValue)>,
}

/// A value of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterValue {
    /// A whole number.
    Whole(i64),
    /// Any other finite number.
    Fraction(f64),
}

/// Which end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowStep {
    /// It starts here.
    Start,
    /// It passes through.
    Step,
    /// It ends at the slice around this moment.
    EndAround,
    /// It ends at the next slice.
    EndNext,
}

/// Identifier of an arrow: arrows are joined where category and identifier are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowId {
    /// A number, exactly.
    Number(u64),
    /// A text, by its position among the names.
    Text(u32),
}

/// One end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPoint {
    /// Identifier.
    pub id: FlowId,
    /// Nanosecond.
    pub at: i64,
    /// Position of its track.
    pub track: u32,
    /// Position among the events of the file.
    pub sequence: u32,
    /// Position of its name.
    pub name: u32,
    /// Position of its category.
    pub category: u16,
    /// Which end.
    pub step: FlowStep,
}

impl OperatorTrace {
    /// What a category of a row means.
    pub fn class(&self, category: u16) -> Class {
        self.categories.get(usize::from(category)).map_or(Class::OtherHost, |category| category.class)
    }

    /// A name by its position.
    pub fn name(&self, name: u32) -> &str {
        self.names.get(name as usize).map_or("", |name| name)
    }

    /// The name of a category.
    pub fn category(&self, category: u16) -> &str {
        self.categories.get(usize::from(category)).map_or("", |category| &category.name)
    }

    /// The link of a slice.
    pub fn link(&self, slice: &OperatorSlice) -> Link {
        self.links.get(slice.link as usize).copied().unwrap_or_default()
    }

    /// Slices of all tracks.
    pub fn slice_count(&self) -> u64 {
        self.tracks.iter().map(|track| track.slices.len() as u64).sum()
    }

    /// First nanosecond of anything in the trace; `None` for an empty one.
    pub fn first_ns(&self) -> Option<i64> {
        let slices = self.tracks.iter().filter_map(|track| track.slices.first()).map(|slice| slice.start);
        let moments = self.moments.first().map(|moment| moment.at);
        let values = self.counters.iter().filter_map(|counter| counter.values.first()).map(|(at, _)| *at);
        let flows = self.flows.iter().map(|flow| flow.at).min();
        slices.chain(moments).chain(values).chain(flows).min()
    }

    /// File name without folders and endings.
    pub fn short_name(&self) -> &str {
        let name = self.file.rsplit('/').next().unwrap_or(&self.file);
        let name = name.strip_suffix(".gz").unwrap_or(name);
        name.strip_suffix(".json").unwrap_or(name)
    }
}

/// What follows from all rows of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorSummary {
    /// Host rows by name and category, the largest self time first.
    pub host: Vec<HostRow>,
    /// True where any row is an operator; without one, host operators are unavailable.
    pub has_operators: bool,
    /// Device work by name and category, the longest first; rows that only impossible times have are last.
    pub device: Vec<DeviceRow>,
    /// Device work as a whole; `None` where no device activity was recorded.
    pub busy: Option<DeviceBusy>,
    /// The same by process, which is a device.
    pub busy_by_process: Vec<(u32, DeviceBusy)>,
    /// Rows that are drawn on devices and are no work: how many, and their time.
    pub marks: (u64, u64),
    /// Slices that end after something that they started in.
    pub overlaps: u64,
    /// Slices that found no lane.
    pub not_drawn: u64,
    /// Device work that starts before its launch does: how many, and by how much at most.
    pub before_launch: (u64, u64),
    /// Launches whose correlation no device work has.
    pub launches_without_work: u64,
    /// Device work whose correlation no host call has.
    pub work_without_launch: u64,
    /// Arrows that can be drawn.
    pub arrows: u64,
    /// Ends of arrows without the other end.
    pub flows_unmatched: u64,
    /// Arrows that point backwards in time.
    pub flows_backwards: u64,
}

/// Host time of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRow {
    /// Position of the name.
    pub name: u32,
    /// Position of the category.
    pub category: u16,
    /// Slices.
    pub calls: u64,
    /// Time outside everything nested in them.
    pub self_ns: u64,
    /// Their time; nested slices of the same name count once.
    pub inclusive_ns: u64,
    /// Device work launched outside everything nested in them; `None` without device activity.
    pub self_device_ns: Option<u64>,
    /// Device work launched anywhere in them; `None` without device activity.
    pub device_ns: Option<u64>,
}

/// Device time of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRow {
    /// Position of the name.
    pub name: u32,
    /// Position of the category.
    pub category: u16,
    /// Slices with a possible time.
    pub calls: u64,
    /// Their time.
    pub total_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
    /// Bytes moved, where recorded.
    pub bytes: Option<u64>,
    /// Slices whose time is impossible; it is counted nowhere else.
    pub impossible: u64,
}

/// Device work as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBusy {
    /// Slices.
    pub events: u64,
    /// Their time added up.
    pub sum_ns: u64,
    /// Time in which at least one was running.
    pub union_ns: u64,
    /// Slices whose time is impossible; they are events, and in neither time.
    pub impossible: u64,
    /// The time of those.
    pub impossible_ns: u64,
}
