//! Do the timeline's upload windows contain the copies they stand for, and how much wider are they?
//!
//! May use: the workload, the recorder's embeddable interface, the driver's own records of copies (CUPTI's on a cuda device).
//!
//! Invariants: windows and copies are paired by their order on the upload stream and by their bytes, never by their times; the two
//! clocks are aligned by copies of their own, outside the windows, each between two events; what the alignment cannot decide is
//! counted apart; how much wider a window is than its copies needs no alignment at all.

use super::stream::{Setting, WARM_STEPS, attach_settled, close, settings, timed_steps};
use super::workload::{Prepared, Workload};
use super::{Machine, StreamArgs};
use crate::args::DriverKind;
use crate::run::RunError;
use ddo_recorder::driver::activity::{Activity, ActivityFilter, ActivityKind};
use ddo_recorder::driver::{DeviceAddress, DriverResult, EventId, HostAccess, HostBytes};
use ddo_recorder::limits::MAX_ACTIVITY_RECORDS;
use ddo_recorder::{Driver, Error, Offload, SnapshotOptions, StreamId, TimerOptions};
use ddo_schemas::settings::MAX_TIMELINE_CAPACITY;
use ddo_schemas::timeline::{NativeTimeline, Sample, SampleKind};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Copies that align the clocks, before the run and behind it.
const PAIRS: usize = 64;
/// Bytes of each: no upload is so small, so they are told apart by it.
const PAIR_BYTES: u64 = 64;

/// Least, middle and most of a series, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min_us: f64,
    /// The median.
    pub median_us: f64,
    /// Nine tenths are at most this.
    pub p90_us: f64,
    /// 99 of 100 are at most this.
    pub p99_us: f64,
    /// The most.
    pub max_us: f64,
}

/// How the two clocks were aligned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlignmentLine {
    /// Copies between two events, before and behind the run together.
    pub pairs: usize,
    /// How far from the truth an aligned time may be, at most, in microseconds.
    pub uncertainty_us: f64,
    /// How far the clocks moved apart from before the run to behind it, in microseconds.
    pub drift_us: f64,
    /// Step of the events' clock, in microseconds; a part of the uncertainty.
    pub event_resolution_us: f64,
    /// False where no single offset fits all pairs of a side.
    pub consistent: bool,
}

/// One comparison of windows with copies.
#[derive(Clone, Debug, Serialize)]
pub struct WindowsLine {
    /// `windows`.
    pub bench: &'static str,
    /// What was run.
    pub setting: serde_json::Value,
    /// Upload windows compared.
    pub windows: u64,
    /// Copies inside them.
    pub copies: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Windows that contain their copies by more than the alignment's uncertainty, at both ends.
    pub contained: u64,
    /// Windows of which one end is nearer to the copies than the uncertainty.
    pub undecided: u64,
    /// Windows that some copy leaves by more than the uncertainty.
    pub not_contained: u64,
    /// Window less the span of its copies.
    pub wider: Spread,
    /// The same as a share of the window: sums over all.
    pub wider_share: f64,
    /// From the begin of the window to that of its first copy.
    pub before: Spread,
    /// From the end of the last copy to that of the window.
    pub behind: Spread,
    /// Seconds of all windows, of the spans of their copies, and of the copies.
    pub seconds: [f64; 3],
    /// The alignment.
    pub alignment: AlignmentLine,
    /// Where it was measured.
    pub machine: Machine,
}

/// A short copy between two events, in seconds of the timeline.
#[derive(Clone, Copy, Debug)]
struct Pair {
    before: f64,
    behind: f64,
}

/// Which offsets, record's time less timeline's, fit all pairs of one side.
#[derive(Clone, Copy, Debug)]
struct Fit {
    /// The middle of the fitting offsets, in seconds.
    offset: f64,
    /// Half their range.
    half: f64,
    /// When, in seconds of the timeline.
    at: f64,
    consistent: bool,
}

fn fit(pairs: &[Pair], copies: &[(f64, f64)], resolution: f64) -> Option<Fit> {
    let least = pairs.iter().zip(copies).map(|(pair, copy)| copy.1 - pair.behind - resolution).reduce(f64::max)?;
    let most = pairs.iter().zip(copies).map(|(pair, copy)| copy.0 - pair.before + resolution).reduce(f64::min)?;
    let at = pairs.iter().map(|pair| pair.before).sum::<f64>() / pairs.len() as f64;
    Some(Fit { offset: f64::midpoint(least, most), half: (most - least).abs() / 2.0, at, consistent: least <= most })
}

/// Offset at any time of the timeline, between two fits.
#[derive(Clone, Copy, Debug)]
struct Aligned {
    first: Fit,
    last: Fit,
}

impl Aligned {
    /// A record's seconds on the timeline.
    fn timeline(&self, record: f64) -> f64 {
        let (first, last) = (self.first, self.last);
        let share = ((record - first.offset - first.at) / (last.at - first.at).max(1e-9)).clamp(0.0, 1.0);
        record - (first.offset + (last.offset - first.offset) * share)
    }

    fn line(&self, pairs: usize, resolution: f64) -> AlignmentLine {
        AlignmentLine {
            pairs,
            uncertainty_us: self.first.half.max(self.last.half) * 1e6,
            drift_us: (self.last.offset - self.first.offset) * 1e6,
            event_resolution_us: resolution * 1e6,
            consistent: self.first.consistent && self.last.consistent,
        }
    }
}

/// Device memory and registered host bytes for the pairs.
struct Spare<'a> {
    driver: &'a dyn Driver,
    address: DeviceAddress,
    bytes: HostBytes,
}

/// Makes a place for the pairs, works with it, and gives it back, also on failure.
fn with_spare<T>(driver: &dyn Driver, work: impl FnOnce(&Spare<'_>) -> Result<T, RunError>) -> Result<T, RunError> {
    let runtime = |error| RunError::Runtime(Error::Driver(error));
    let page = driver.facts().page_bytes;
    let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(vec![0u8; PAIR_BYTES as usize]);
    let none = || RunError::Runtime(Error::Invalid { what: "the aligning copies".into(), reason: "they have no bytes".into() });
    let bytes = HostBytes::new(owner, 0, PAIR_BYTES).ok_or_else(none)?;
    let registered = driver.host_register(&bytes, HostAccess::ReadWrite).map_err(runtime)?;
    let mapped = || -> DriverResult<_> {
        let address = driver.address_reserve(page)?;
        let memory = driver.memory_create(page)?;
        driver.memory_map(address, page, memory)?;
        driver.memory_set_access(address, page)?;
        Ok((address, memory))
    };
    let worked = mapped().map_err(runtime).and_then(|(address, memory)| {
        let worked = work(&Spare { driver, address, bytes: bytes.clone() });
        let given_back = driver.memory_unmap(address, page).and(driver.memory_release(memory));
        given_back.and(driver.address_free(address, page)).map_err(runtime).and(worked)
    });
    driver.host_unregister(registered).map_err(runtime).and(worked)
}

impl Spare<'_> {
    /// Queues the pairs on an idle stream, waits for each, and reads the events against the timeline's epoch.
    fn pairs(&self, stream: StreamId, epoch: EventId) -> DriverResult<Vec<Pair>> {
        let driver = self.driver;
        let (before, behind) = (driver.event_create(true)?, driver.event_create(true)?);
        let one = |_| {
            driver.event_record(before, stream)?;
            driver.copy_to_device(self.address, self.bytes.clone(), stream)?;
            driver.event_record(behind, stream)?;
            // The epoch lies on another stream.
            driver.event_synchronize(epoch)?;
            driver.event_synchronize(behind)?;
            let at = |event| driver.event_elapsed(epoch, event).map(|elapsed| elapsed.seconds);
            Ok(Pair { before: at(before)?, behind: at(behind)? })
        };
        let pairs: DriverResult<Vec<Pair>> = (0..PAIRS).map(one).collect();
        driver.event_destroy(before).and(driver.event_destroy(behind)).and(pairs)
    }
}

/// Everything that one run gave.
struct Watched {
    timeline: NativeTimeline,
    records: Vec<Activity>,
    pairs: [Vec<Pair>; 2],
}

/// Runs the benchmark; `print` is called with each line.
///
/// # Errors
/// See [`RunError`]; a wrong result is one of them, and records that do not match the windows another.
///
/// # Cost
/// For each setting runs the workload 2 + steps times, under the timeline and the driver's records.
pub fn windows(args: &StreamArgs, target_dir: &Path, mut print: impl FnMut(&WindowsLine)) -> Result<(), RunError> {
    let driver = if args.driver == DriverKind::Cuda { "cuda" } else { "host" };
    if let Some((option, reason)) = args.refusal() {
        return Err(RunError::NotWithDriver { option, driver, reason });
    }
    let prepared = Prepared::new(args, target_dir)?;
    let machine = Machine::of(&*prepared.driver());
    for setting in settings(args) {
        let mut workload = prepared.workload(args, setting.tokens)?;
        let offload = attach_settled(&prepared, &setting, None)?;
        let watched = watch(&prepared, &mut workload, &setting, &offload)?;
        let managed: u64 = offload.units().iter().map(|unit| unit.bytes).sum();
        let shown = setting.shown(setting.ceiling.resolve(managed)?, managed, &offload, serde_json::Value::Null);
        print(&compare(&watched, shown, machine.clone()).map_err(mismatch)?);
        close(&offload)?;
    }
    Ok(())
}

fn mismatch(reason: String) -> RunError {
    RunError::Runtime(Error::Invalid { what: "upload windows and copies".into(), reason })
}

/// Runs the steps under the timeline and the records of copies.
fn watch(prepared: &Prepared, workload: &mut Workload, setting: &Setting<'_>, offload: &Offload) -> Result<Watched, RunError> {
    let runtime = |error| RunError::Runtime(Error::Driver(error));
    let (driver, launches) = (prepared.driver(), setting.mode.1);
    let units = workload.units(offload)?;
    timed_steps(workload, offload, &units, WARM_STEPS, launches)?;
    offload.wait_idle()?;
    let none = || Error::Unsupported { what: "records of copies".into(), reason: "the driver keeps none".into() };
    let source = driver.activity().ok_or_else(none)?;
    source.start(ActivityFilter::Copies, MAX_ACTIVITY_RECORDS).map_err(runtime)?;
    let run = with_spare(&*driver, |spare| {
        let options =
            TimerOptions { enabled: true, native_units: true, native_capacity: MAX_TIMELINE_CAPACITY, ..TimerOptions::default() };
        let timer = offload.execution_timer(options)?;
        let epoch = timer.timeline_epoch().ok_or_else(|| mismatch("the timeline has no epoch".into()))?;
        let first = spare.pairs(offload.upload_stream(), epoch).map_err(runtime)?;
        timed_steps(workload, offload, &units, setting.args.steps, launches)?;
        offload.wait_idle()?;
        let last = spare.pairs(offload.upload_stream(), epoch).map_err(runtime)?;
        let timing = timer.finish()?;
        offload.wait_idle()?;
        let report = offload.metrics_snapshot(SnapshotOptions {
            collect_completed: true,
            timing: Some(&timing),
            ..SnapshotOptions::default()
        })?;
        let timeline = report.runtime.native_timeline.ok_or_else(|| mismatch("there is no timeline".into()))?;
        Ok((timeline, [first, last]))
    });
    // The capture ends, whatever happened in it.
    let stopped = source.stop().map_err(runtime);
    let (timeline, pairs) = run?;
    let found = stopped?;
    if found.dropped > 0 {
        return Err(mismatch(format!("{} records were dropped; take fewer --steps", found.dropped)));
    }
    let records = found.works.into_iter().filter(|work| work.kind == ActivityKind::Copy).collect();
    Ok(Watched { timeline, records, pairs })
}

/// Copies of one window.
struct Span {
    start: f64,
    end: f64,
    busy: f64,
    copies: u64,
}

fn seconds(record: &Activity, origin: u64) -> (f64, f64) {
    // Counted from the first record, so that a double keeps fractions of a nanosecond.
    let at = |ns: u64| ns.saturating_sub(origin) as f64 / 1e9;
    (at(record.start_ns), at(record.end_ns))
}

/// Gives each window its copies, in order.
fn pair_up<'a>(windows: &[&'a Sample], copies: &[((f64, f64), u64)]) -> Result<Vec<(&'a Sample, Span)>, String> {
    let mut rest = copies.iter();
    let mut paired = Vec::new();
    for window in windows {
        let want = window.bytes.0.unwrap_or_default();
        let mut span: Option<Span> = None;
        let mut have = 0;
        while have < want {
            let Some(((start, end), bytes)) = rest.next() else {
                return Err(format!("window {} has {want} bytes; copies of {have} are left", window.sequence));
            };
            have += bytes;
            let known = span.get_or_insert(Span { start: *start, end: *end, busy: 0.0, copies: 0 });
            known.end = known.end.max(*end);
            known.busy += end - start;
            known.copies += 1;
        }
        if have != want {
            return Err(format!("window {} has {want} bytes; its copies have {have}", window.sequence));
        }
        paired.extend(span.map(|span| (*window, span)));
    }
    match rest.count() {
        0 => Ok(paired),
        more => Err(format!("{more} copies lie behind the last window")),
    }
}

fn compare(watched: &Watched, setting: serde_json::Value, machine: Machine) -> Result<WindowsLine, String> {
    let timeline = &watched.timeline;
    if timeline.status != "complete" {
        return Err(format!("the timeline is {}, {} dropped; take fewer --steps", timeline.status, timeline.dropped));
    }
    let mut records: Vec<&Activity> = watched.records.iter().collect();
    records.sort_by_key(|record| (record.start_ns, record.end_ns));
    let first = records.iter().find(|record| record.bytes == Some(PAIR_BYTES)).ok_or("no aligning copy was recorded")?;
    let (stream, origin) = (first.stream, records.first().map_or(0, |record| record.start_ns));
    records.retain(|record| record.stream == stream);
    let (aligning, uploads): (Vec<&Activity>, Vec<&Activity>) =
        records.into_iter().partition(|record| record.bytes == Some(PAIR_BYTES));
    let aligning: Vec<(f64, f64)> = aligning.iter().map(|record| seconds(record, origin)).collect();
    let [before, behind] = &watched.pairs;
    if aligning.len() != before.len() + behind.len() {
        return Err(format!("{} aligning copies were recorded, {} were made", aligning.len(), before.len() + behind.len()));
    }
    let resolution = timeline.resolution_seconds.map_or(0.0, |resolution| resolution.0);
    let (early, late) = aligning.split_at(before.len());
    let none = "no pair aligns the clocks";
    let aligned =
        Aligned { first: fit(before, early, resolution).ok_or(none)?, last: fit(behind, late, resolution).ok_or(none)? };
    let windows: Vec<&Sample> = timeline.samples.iter().filter(|sample| sample.kind == SampleKind::UploadBatchWindow).collect();
    let copies: Vec<_> = uploads.iter().map(|record| (seconds(record, origin), record.bytes.unwrap_or_default())).collect();
    let paired = pair_up(&windows, &copies)?;
    line(&paired, &aligned, aligned.line(aligning.len(), resolution), setting, machine)
}

fn line(
    paired: &[(&Sample, Span)],
    aligned: &Aligned,
    alignment: AlignmentLine,
    setting: serde_json::Value,
    machine: Machine,
) -> Result<WindowsLine, String> {
    let (mut wider, mut before, mut behind, mut sums) = (Vec::new(), Vec::new(), Vec::new(), [0.0; 3]);
    let (mut contained, mut not_contained) = (0, 0);
    let unsure = alignment.uncertainty_us / 1e6;
    for (window, span) in paired {
        let (Some(start), Some(end)) = (window.start_seconds, window.end_seconds) else { continue };
        let (ahead, after) = (aligned.timeline(span.start) - start.0, end.0 - aligned.timeline(span.end));
        contained += u64::from(ahead.min(after) >= unsure);
        not_contained += u64::from(ahead.min(after) < -unsure);
        let width = end.0 - start.0;
        wider.push(width - (span.end - span.start));
        before.push(ahead);
        behind.push(after);
        for (sum, part) in sums.iter_mut().zip([width, span.end - span.start, span.busy]) {
            *sum += part;
        }
    }
    let [windows_seconds, spans_seconds, _] = sums;
    let none = || "the run has no upload window; a smaller ceiling makes some".to_string();
    Ok(WindowsLine {
        bench: "windows",
        setting,
        windows: paired.len() as u64,
        copies: paired.iter().map(|(_, span)| span.copies).sum(),
        bytes: paired.iter().filter_map(|(window, _)| window.bytes.0).sum(),
        contained,
        undecided: paired.len() as u64 - contained - not_contained,
        not_contained,
        wider: spread(wider).ok_or_else(none)?,
        wider_share: (windows_seconds - spans_seconds) / windows_seconds.max(1e-9),
        before: spread(before).ok_or_else(none)?,
        behind: spread(behind).ok_or_else(none)?,
        seconds: sums,
        alignment,
        machine,
    })
}

/// Nearest ranks of a series of seconds.
fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    let rank =
        |share: f64| values.get(((values.len() as f64 * share).ceil() as usize).saturating_sub(1)).map(|value| value * 1e6);
    Some(Spread { min_us: rank(0.0)?, median_us: rank(0.5)?, p90_us: rank(0.9)?, p99_us: rank(0.99)?, max_us: rank(1.0)? })
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;
    use ddo_schemas::timeline::SampleStatus;
    use ddo_schemas::{Nullable, Seconds};

    fn window(sequence: u64, bytes: u64, start: f64, end: f64) -> Sample {
        let (kind, status) = (SampleKind::UploadBatchWindow, SampleStatus::Complete);
        let (start_seconds, end_seconds) = (Some(Seconds(start)), Some(Seconds(end)));
        Sample { sequence, unit: 0, stream: 2, bytes: Nullable(Some(bytes)), kind, status, start_seconds, end_seconds }
    }

    #[test]
    fn clocks_are_aligned_by_what_every_pair_allows() {
        // The records' clock is 100 s ahead; the true copy lies in the middle of each pair.
        let pair = |at: f64, wide: f64| (Pair { before: at - wide, behind: at + 1e-6 + wide }, (100.0 + at, 100.0 + at + 1e-6));
        let (pairs, copies): (Vec<_>, Vec<_>) = [pair(1.0, 5e-6), pair(2.0, 2e-6), pair(3.0, 9e-6)].into_iter().unzip();
        let found = fit(&pairs, &copies, 0.0).expect("some");
        assert!((found.offset - 100.0).abs() < 1e-9 && (found.half - 2e-6).abs() < 1e-9 && found.consistent, "{found:?}");
        assert!(fit(&[], &[], 0.0).is_none());
        let torn = fit(&pairs[..2], &[copies[0], (150.0, 151.0)], 0.0).expect("some");
        assert!(!torn.consistent);
        // 10 us of drift over two seconds: half of it in the middle.
        let last = Fit { offset: 100.000_01, at: 3.0, ..found };
        let aligned = Aligned { first: Fit { at: 1.0, ..found }, last };
        assert!((aligned.timeline(102.0) - 1.999_995).abs() < 1e-9);
    }

    #[test]
    fn windows_take_their_copies_in_order_and_by_bytes() {
        let windows = [window(1, 30, 0.0, 1.0), window(2, 5, 1.0, 2.0)];
        let windows: Vec<&Sample> = windows.iter().collect();
        let copies = [((0.1, 0.3), 10), ((0.4, 0.9), 20), ((1.1, 1.2), 5)];
        let paired = pair_up(&windows, &copies).expect("they match");
        assert_eq!((paired[0].1.copies, paired[0].1.start, paired[0].1.end), (2, 0.1, 0.9));
        assert!((paired[0].1.busy - 0.7).abs() < 1e-12);
        for (copies, why) in [
            (&copies[..2], "copies of 0 are left"),
            (&[copies[1], copies[1], copies[2]][..], "its copies have 40"),
            (&[copies[0], copies[1], copies[2], copies[2]][..], "behind the last window"),
        ] {
            let error = pair_up(&windows, copies).err().expect("they do not match");
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_copy_outside_its_window_is_said_and_a_close_one_is_undecided() {
        let fit = Fit { offset: 0.0, half: 1e-6, at: 0.0, consistent: true };
        let aligned = Aligned { first: fit, last: Fit { at: 9.0, ..fit } };
        let windows = [window(1, 1, 0.0, 0.001), window(2, 1, 1.0, 1.001), window(3, 1, 2.0, 2.001)];
        let span = |start: f64, end: f64| Span { start, end, busy: end - start, copies: 1 };
        let spans = [span(0.0001, 0.0009), span(1.000_000_5, 1.0009), span(1.9999, 2.0009)];
        let paired: Vec<_> = windows.iter().zip(spans).collect();
        let machine = Machine::host();
        let found = line(&paired, &aligned, aligned.line(2, 0.0), serde_json::Value::Null, machine).expect("windows");
        assert_eq!((found.contained, found.undecided, found.not_contained), (1, 1, 1));
        assert!((found.wider.max_us - 200.0).abs() < 1e-6 && (found.before.min_us + 100.0).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn windows_of_the_host_driver_contain_their_copies() {
        use crate::bench::{Bench, BenchArgs};
        use clap::Parser as _;
        let folder = std::env::temp_dir().join(format!("ddo-windows-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a scratch folder");
        let model = folder.join("model.safetensors");
        let line = ["ddo-bench", "windows", "--scale", "0.00001", "--steps", "3", "--mode", "both", "--model"];
        let line = line.iter().map(std::ffi::OsStr::new).chain([model.as_os_str()]);
        let Bench::Windows(args) = BenchArgs::try_parse_from(line).expect("all known").bench else { panic!("another bench") };
        let mut lines = Vec::new();
        let ran = windows(&args, &folder, |line| lines.push(line.clone()));
        std::fs::remove_dir_all(&folder).expect("ours");
        ran.expect("windows and copies match");
        assert_eq!(lines.len(), 2);
        for line in lines {
            assert!(line.windows > 0 && line.copies >= line.windows, "{line:?}");
            // Both clocks are the same one here, so no window may lose a copy.
            assert_eq!(line.not_contained, 0, "{line:?}");
            assert!(line.alignment.consistent && line.wider.min_us >= 0.0, "{line:?}");
            assert_eq!(line.alignment.pairs, 2 * PAIRS);
        }
    }
}
