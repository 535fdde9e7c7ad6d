//! Generations with one loaded model.
//!
//! Proves: a generation lasts from its preparation to its readback and no longer; its report waits for nothing and collects nothing;
//! without a timer it is null; what was published is never overwritten.

use crate::support::ledger::Ledger;
use crate::support::{scratch, tiny};
use ddo_recorder::meter::FakeClock;
use ddo_recorder::{Ceiling, Error, Generations, HostOptions, Offload, OffloadConfig, RecordRun, TimerOptions, enable_offload};
use ddo_schemas::settings::MAX_GENERATIONS;
use ddo_schemas::tracker::Tracker;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn attach(clock: &Arc<FakeClock>) -> (Arc<Ledger>, Offload) {
    let ledger = Ledger::new(HostOptions { page_bytes: 4096, ..HostOptions::default() }, u64::MAX);
    let (ceiling, clock) = (Ceiling::Bytes(2 * tiny::UNIT_BYTES), Arc::<FakeClock>::clone(clock));
    let config = OffloadConfig { ceiling, clock, ..OffloadConfig::new(Arc::<Ledger>::clone(&ledger)) };
    (ledger, enable_offload(tiny::component(4), config).expect("attached"))
}

fn pass(offload: &Offload) {
    let state = Arc::new(Mutex::new(1));
    (0..4).for_each(|unit| tiny::submit(offload, unit, &state, Duration::ZERO).expect("submitted"));
    offload.mark_step().expect("a step");
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("published")).expect("whole")
}

#[test]
fn a_generation_lasts_from_preparation_to_readback() {
    let at = scratch("generations");
    let clock = Arc::new(FakeClock::default());
    let (ledger, offload) = attach(&clock);
    let run = RecordRun::new(at.path().to_path_buf(), None).expect("usable");
    let mut generations = Generations::new(run, &offload);
    assert_eq!(std::fs::read_dir(at.path()).expect("there").count(), 0, "nothing is made before the first one is recorded");
    let mut files = Vec::new();
    for (index, milliseconds) in [(0, 1500), (1, 250)] {
        let timer = offload.execution_timer(TimerOptions { enabled: index == 1, ..TimerOptions::default() }).expect("starts");
        let generation = generations.begin().expect("one of many");
        clock.advance(milliseconds * 1_000_000);
        pass(&offload);
        let timing = timer.finish().expect("finishes");
        offload.wait_idle().expect("read back");
        let observed = generations.end(&generation);
        // Decoding and cleaning up are no part of it.
        clock.advance(9_000_000_000);
        let before = ledger.seen().calls;
        files.push(generations.record(observed, (index == 1).then_some(&timing)).expect("published"));
        let added: Vec<&str> =
            ledger.seen().calls.into_iter().filter(|(call, n)| before.get(call) != Some(n)).map(|(call, _)| call).collect();
        let wanted: &[&str] = if index == 1 { &["event_destroy", "event_elapsed", "event_query"] } else { &[] };
        assert_eq!(added, wanted, "no wait, no collection");
    }
    let folder = at.path().join("generations/tiny");
    assert_eq!(files, [folder.join("generation_0000.json"), folder.join("generation_0001.json")]);
    let (cold, warm) = (read(&files[0]), read(&files[1]));
    assert_eq!(cold, json!({"generation_observations": [{"repeat_index": 0, "elapsed_seconds": 1.5, "ddo_report": null}]}));
    let warm = &warm["generation_observations"][0];
    assert_eq!((&warm["repeat_index"], &warm["elapsed_seconds"]), (&json!(1), &json!(0.25)));
    let runtime = &warm["ddo_report"]["runtime"];
    assert_eq!((&runtime["execution_timing"]["status"], &runtime["completion_collection"]), (&json!("complete"), &Value::Null));
    let typed: Tracker = serde_json::from_value(read(&files[1])).expect("a part of a tracker's report");
    assert_eq!(typed.generation_observations.map(|all| all.len()), Some(1));
    let events = std::fs::read_to_string(at.path().join("host.ndjson")).expect("told");
    assert!(events.lines().count() == 2 && events.contains(r#""folder":"generations/tiny/generation_0001.json""#), "{events}");
}

#[test]
fn nothing_is_overwritten_and_bad_places_are_named() {
    let at = scratch("generations-twice");
    let clock = Arc::new(FakeClock::default());
    let (_, offload) = attach(&clock);
    let run = || RecordRun::new(at.path().to_path_buf(), None).expect("usable");
    let mut first = Generations::new(run(), &offload);
    let generation = first.begin().expect("one");
    let observed = first.end(&generation);
    first.record(observed, None).expect("published");
    let again = first.record(observed, None).expect_err("published before");
    assert_eq!(again.code(), "publish_exists");
    assert!(again.to_string().contains("generation_0000.json"), "{again}");
    // A second session of the same name has a folder of its own.
    let mut second = Generations::new(run(), &offload);
    let generation = second.begin().expect("one");
    let path = second.record(second.end(&generation), None).expect("published");
    assert_eq!(path, at.path().join("generations/tiny.2/generation_0000.json"));

    let file = at.path().join("a-file");
    std::fs::write(&file, "no folder").expect("written");
    let mut nowhere = Generations::new(RecordRun::new(file.clone(), None).expect("absolute"), &offload);
    let generation = nowhere.begin().expect("one");
    let error = nowhere.record(nowhere.end(&generation), None).expect_err("no folder");
    assert!(matches!(&error, Error::Io { path, .. } if path.starts_with(&file)), "{error}");
}

#[test]
fn generations_are_bounded() {
    let at = scratch("generations-many");
    let (_, offload) = attach(&Arc::new(FakeClock::default()));
    let mut generations = Generations::new(RecordRun::new(at.path().to_path_buf(), None).expect("usable"), &offload);
    for index in 0..MAX_GENERATIONS {
        let generation = generations.begin().expect("within the limit");
        assert_eq!(generations.end(&generation).index, index);
    }
    let Err(Error::Refused(refusal)) = generations.begin() else { panic!("one too many") };
    assert_eq!((refusal.code, refusal.got, refusal.limit), ("generations_full", MAX_GENERATIONS + 1, MAX_GENERATIONS));
}
