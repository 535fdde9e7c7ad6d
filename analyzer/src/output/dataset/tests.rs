//! The tables read back by the reader of the same library.

use super::*;
use crate::analysis::delta::pairs;
use crate::run::{Component, Record, Scalar};
use ddo_schemas::manifest::Manifest;
use polars_io::SerReader;
use polars_io::parquet::read::ParquetReader;
use serde_json::json;
use std::io::Cursor;

fn run(steps: u64) -> Run {
    let records = (0..=steps).map(|at| Record {
        file: format!("step_{at:04}.json"),
        step: at.checked_sub(1),
        host_elapsed_ns: Some(at as i64 * 500_000_000),
        observed_ns: None,
        values: [
            ("runtime.vmm.fast_faults", Scalar::U64(at * (u64::MAX / steps))),
            ("runtime.vmm.resident_bytes", Scalar::U64(9_007_199_254_740_993 - at)),
            ("runtime.vmm.fast_dma_enqueue_seconds", Scalar::F64(at as f64 * 0.25)),
            ("runtime.vmm.of_another_recorder", Scalar::Bool(at == 0)),
        ]
        .map(|(path, value)| (path.into(), value))
        .into(),
    });
    let component = Component { name: "c".into(), records: records.collect(), ..Component::default() };
    Run { name: "r".into(), components: vec![component], ..Run::default() }
}

fn read(bytes: Vec<u8>) -> DataFrame {
    ParquetReader::new(Cursor::new(bytes)).finish().expect("polars reads what it wrote")
}

fn written(run: &Run) -> [Vec<u8>; 2] {
    let pairs = pairs(run);
    let (mut long, mut broad) = (Vec::new(), Vec::new());
    tidy::write(&pairs, 100, &mut long).expect("memory");
    wide::write(&pairs, 100, &mut broad).expect("memory");
    [long, broad]
}

#[test]
fn whole_numbers_read_back_exactly_in_both_tables() {
    let [long, broad] = written(&run(1)).map(read);
    assert_eq!(long.height(), 2 * 4, "a step and the whole, of four fields each");
    let text = |name: &str, at: usize| long.column(name).expect(name).get(at).expect("a row").to_string();
    assert_eq!(text("path", 0), "\"runtime.vmm.resident_bytes\"");
    assert_eq!(text("value_i64", 0), "-1", "a gauge has a sign");
    assert_eq!(text("before_u64", 0), "9007199254740993");
    assert_eq!((text("path", 1), text("value_u64", 1)), ("\"runtime.vmm.fast_faults\"".into(), u64::MAX.to_string()));
    assert_eq!((text("kind", 3), text("after_text", 3)), ("\"unspecified\"".into(), "\"false\"".into()));
    assert_eq!(text("value_text", 3), "null", "levels only");
    let cell = |name: &str| broad.column(name).expect(name).get(0).expect("a row").to_string();
    assert_eq!(cell("runtime.vmm.fast_faults"), u64::MAX.to_string());
    assert_eq!(cell("runtime.vmm.resident_bytes:after"), "9007199254740992");
    assert_eq!(cell("runtime.vmm.fast_dma_enqueue_seconds"), "0.25");
    assert!(broad.column("runtime.vmm.of_another_recorder").is_err(), "not declared");
}

#[test]
fn many_steps_are_several_row_groups_and_the_same_bytes_again() {
    let run = run(60);
    let first = written(&run);
    assert!(first == written(&run));
    let groups = |bytes: &[u8]| ParquetReader::new(Cursor::new(bytes)).get_metadata().expect("readable").row_groups.len();
    assert_eq!(first.each_ref().map(|bytes| groups(bytes)), [3, 3], "244 rows by 100; 61 rows of 4 cells by 100 cells");
    let [long, broad] = first.map(read);
    assert_eq!((long.height(), broad.height()), (4 * 61, 61));
}

#[test]
fn a_run_without_pairs_is_an_empty_table() {
    let [long, broad] = written(&Run::default()).map(read);
    assert_eq!((long.height(), broad.height()), (0, 0));
    assert!(long.column("state").is_ok() && broad.column("scope").is_ok());
}

#[test]
fn partitions_are_safe_folder_names() {
    assert_eq!(partition_name("flux-h200_1.5"), "flux-h200_1.5");
    assert_eq!(partition_name("a b/c=d%é"), "a%20b%2Fc%3Dd%25%C3%A9");
    let (one, two) = (partition_name(&"x".repeat(300)), partition_name(&format!("{}y", "x".repeat(300))));
    assert!(one != two && one.len() < 255, "{one} {two}");
    assert!(!partition_name("").is_empty());
    let mut run = Run::default();
    assert_eq!(rank(&run), 0);
    let manifest = json!({"schema_version": 1, "tool": "t", "command": [], "environment": {"RANK": "2"}, "labels": {},
        "settings": {"schema_version": 1, "journal": "steps", "gpu_timing": true, "native_timeline": true,
            "native_timeline_capacity": 8}, "settings_origin": {}, "memory_monitor": "rss", "memory_interval_seconds": 0.1,
        "clocks": {"monotonic_seconds": 50.0, "wall_utc": "x"}, "machine": {}});
    let mut manifest: Manifest = serde_json::from_value(manifest).expect("a manifest");
    run.manifest = Some(manifest.clone());
    assert_eq!(rank(&run), 2);
    manifest.labels.insert("rank".into(), "3".into());
    run.manifest = Some(manifest);
    assert_eq!(rank(&run), 3, "the label comes first");
}
