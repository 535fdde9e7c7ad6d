//! How does a forward look as a file in Chrome's format?
//!
//! May use: `table`'s values, the driver's facts. Pure. Invariants: every range, call and record of the forward is in it, to the
//! nanosecond; names are the tables' names; device times are on the host's clock, and how sure that is stands in the file.
//! Format: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

use super::table::{Owner, Sampled};
use super::watcher::Alignment;
use crate::driver::DeviceFacts;
use crate::driver::activity::{ActivityCall, ActivityKind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What a file says about itself.
pub(super) struct Header<'a> {
    pub(super) facts: &'a DeviceFacts,
    pub(super) module: &'a str,
    pub(super) invocation: u64,
    pub(super) alignment: Option<Alignment>,
}

/// The device's process; viewers take 0 for it.
const DEVICE: u64 = 0;
/// The thread that announced the ranges, by our own number.
const THREAD: u64 = 1;

/// Microseconds with exactly three decimals: all nanoseconds.
fn micro(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn slice(category: &str, name: &str, (pid, tid): (u64, u64), start: u64, end: u64, args: &Value) -> String {
    let (name, duration) = (Value::from(name), end.saturating_sub(start));
    let (ts, dur) = (micro(start), micro(duration));
    format!(r#"{{"ph":"X","cat":"{category}","name":{name},"pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{args}}}"#)
}

fn named(what: &str, (pid, tid): (u64, u64), name: &str) -> String {
    json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}).to_string()
}

/// Both ends of the arrow from a call to what it queued.
fn arrow(number: u64, host: (u64, u64), call: u64, stream: u64, work: u64) -> [String; 2] {
    let (pid, tid) = host;
    let end = |phase: &str, pid: u64, tid: u64, at: u64, binding: &str| {
        let ts = micro(at);
        format!(r#"{{"ph":"{phase}","cat":"ac2g","name":"ac2g","id":{number},"pid":{pid},"tid":{tid},"ts":{ts}{binding}}}"#)
    };
    [end("s", pid, tid, call, ""), end("f", DEVICE, stream, work, r#","bp":"e""#)]
}

/// The whole file.
pub(super) fn json(sampled: &Sampled<'_>, header: &Header<'_>) -> String {
    let host = (u64::from(std::process::id()), THREAD);
    let at = |record_ns: u64| header.alignment.map_or(record_ns, |alignment| alignment.host(record_ns));
    let mut events = vec![named("process_name", host, "host"), named("thread_name", host, "announcing thread")];
    let streams: BTreeSet<u64> = sampled.works.iter().map(|work| work.record.stream).collect();
    if sampled.with_device {
        events.push(named("process_name", (DEVICE, 0), &header.facts.name));
    }
    events.extend(streams.iter().map(|stream| named("thread_name", (DEVICE, *stream), &format!("stream {stream}"))));
    for range in sampled.ranges {
        let category = if range.owner == Owner::Operator { "cpu_op" } else { "user_annotation" };
        events.push(slice(category, &range.name, host, range.start, range.start + range.length(), &json!({})));
    }
    let call_category = format!("{}_driver", header.facts.driver);
    for call in &sampled.calls {
        let args = json!({"correlation": call.correlation});
        events.push(slice(&call_category, &call.name, host, at(call.start_ns), at(call.end_ns), &args));
    }
    let calls: BTreeMap<u64, &ActivityCall> = sampled.calls.iter().map(|call| (call.correlation, *call)).collect();
    for work in &sampled.works {
        let (record, place) = (work.record, (DEVICE, work.record.stream));
        let mut args = json!({"correlation": record.correlation, "stream": record.stream});
        if let (Some(map), Some(bytes)) = (args.as_object_mut(), record.bytes) {
            map.insert("bytes".into(), bytes.into());
        }
        let category = match record.kind {
            ActivityKind::Work => "kernel",
            ActivityKind::Copy => "gpu_memcpy",
            ActivityKind::Fill => "gpu_memset",
            ActivityKind::Inside => "gpu_user_annotation",
        };
        events.push(slice(category, &work.name, place, at(record.start_ns), at(record.end_ns), &args));
        if let Some(call) = calls.get(&record.correlation).filter(|_| record.kind != ActivityKind::Inside) {
            events.extend(arrow(record.correlation, host, at(call.start_ns), record.stream, at(record.start_ns)));
        }
    }
    // A file that names devices claims that it could have had their records.
    let devices = json!([{"id": DEVICE, "name": header.facts.name}]);
    let devices = if sampled.with_device { format!("\"deviceProperties\":{devices},") } else { String::new() };
    let about = json!({
        "module_path": header.module,
        "invocation_index": header.invocation,
        "host_clock": "session",
        "device_clock": header.facts.clock,
        "device_clock_uncertainty_ns": header.alignment.map(|alignment| alignment.uncertainty_ns),
        "benchmark_eligible": false,
    });
    let events = events.join(",\n");
    format!("{{\"schemaVersion\":1,{devices}\"ddo\":{about},\"traceEvents\":[\n{events}\n]}}\n")
}
