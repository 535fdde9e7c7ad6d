//! Checkpoint headers that people met, each as a small file, and headers at random.
//!
//! Proves: what a checkpoint makes available is sound, unambiguous and the same for every order of its files; a bad
//! file or entry is named and counted; no bytes make the reader panic; it agrees with the format's own library.

use ddo_recorder::plan::checkpoint::{
    CheckpointSet, Dtype, HeaderError, HeaderLimits, LENGTH_BYTES, MissingCause, PREFIX_BYTES, Resolver, ShardFile, check_prefix,
    read_header, read_index,
};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

const LIMITS: HeaderLimits = HeaderLimits { header_bytes: 100_000_000, name_bytes: 4096, rank: 64 };

fn case(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/cases").join(path)
}

/// Reads a whole file's bytes the way the runtime reads a file: the prefix first, then the header it names.
fn shard(name: &str, bytes: &[u8]) -> ShardFile {
    let prefix = &bytes[..bytes.len().min(PREFIX_BYTES)];
    let header = check_prefix(prefix, bytes.len() as u64, &LIMITS).and_then(|length| {
        let end = LENGTH_BYTES + length;
        read_header(&bytes[LENGTH_BYTES as usize..end as usize], bytes.len() as u64 - end, &LIMITS)
    });
    ShardFile { name: name.to_owned(), header }
}

/// The set of every `.safetensors` file of a case, or of one, with the index where there is one.
fn set(path: &str) -> CheckpointSet {
    let path = case(path);
    let mut paths = vec![path.clone()];
    if path.is_dir() {
        paths = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
    }
    let mut index = None;
    let mut files = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = fs::read(&path).unwrap();
        if name.ends_with(".index.json") {
            index = Some(read_index(&bytes, LIMITS.header_bytes));
        } else {
            files.push(shard(&name, &bytes));
        }
    }
    CheckpointSet::assemble(files, index)
}

/// available, invalid files, invalid entries, ambiguous keys.
fn counts(set: &CheckpointSet) -> [u64; 4] {
    let summary = set.summary();
    [summary.available, summary.invalid_files, summary.invalid_entries, summary.ambiguous_key_count]
}

fn keys(set: &CheckpointSet) -> Vec<&str> {
    set.iter().map(|(key, _)| key).collect()
}

fn codes(set: &CheckpointSet) -> Vec<&str> {
    set.summary().notes.iter().map(|note| note.code.as_str()).collect()
}

#[test]
fn c01_a_key_twice_in_one_header_refuses_the_set_and_is_named() {
    let twice = set("C01/dup_in_header.safetensors");
    assert_eq!(counts(&twice), [0, 0, 1, 0]);
    assert!(twice.summary().refused && twice.get("w").is_none());
    let text = &twice.summary().notes[0].text;
    assert!(text.contains("duplicate key") && text.contains("\"w\"") && !text.contains("offset"), "{text}");

    let one = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    let names = ["key01", "key03", "key01", "key04", "key03", "key01"];
    let entries: Vec<String> = names.iter().map(|name| format!("\"{name}\":{one}")).collect();
    let json = format!("{{{}}}", entries.join(","));
    let header = read_header(json.as_bytes(), 1, &LIMITS);
    assert_eq!(header, Err(HeaderError::DuplicateKeys { keys: vec!["key01".into(), "key03".into()] }));
    let many = CheckpointSet::assemble(vec![ShardFile { name: "many".into(), header }], None);
    assert_eq!(counts(&many), [0, 0, 2, 0]);
}

#[test]
fn c02_a_key_in_two_shards_refuses_the_set_in_every_order() {
    let [left, right] = ["C02/order_a", "C02/order_b"].map(set);
    for set in [&left, &right] {
        assert_eq!(counts(set), [0, 0, 0, 1]);
        assert_eq!(codes(set), ["checkpoint_ambiguous_key"]);
        assert!(set.summary().notes[0].text.contains("\"blk.0.w\""));
        assert_eq!(set.resolver(["blk.1.w"]), Resolver::NoValidSourceMetadata);
    }
    let bytes = [&left, &right].map(|set| serde_json::to_vec(set.summary()).unwrap());
    assert_eq!(bytes[0], bytes[1]);
}

#[test]
fn c03_what_the_index_promises_and_no_file_keeps_is_missing_with_its_cause() {
    let set = set("C03");
    assert_eq!(counts(&set), [2, 0, 0, 0]);
    assert_eq!(keys(&set), ["a", "b"]);
    let missing: Vec<_> = set.summary().missing.iter().map(|missing| (missing.key.as_str(), missing.cause)).collect();
    assert_eq!(missing, [("c", MissingCause::NotInShard), ("d", MissingCause::ShardAbsent)]);
    assert!(!set.summary().complete && !set.summary().refused);
    let total = set.summary().notes.iter().find(|note| note.code == "checkpoint_index_total_size").unwrap();
    assert!(total.text.contains("12 bytes") && total.text.ends_with("have 8"), "{}", total.text);
    assert_eq!(total.severity.to_string(), "warning");
}

#[test]
fn c04_a_stated_length_is_never_believed() {
    let cases = [
        ("empty", "checkpoint_file_empty"),
        ("seven_bytes", "checkpoint_file_too_short"),
        ("len_gt_file", "checkpoint_header_longer_than_file"),
        ("len_u64max", "checkpoint_header_longer_than_file"),
        ("len_132MB", "checkpoint_header_longer_than_file"),
    ];
    for (name, code) in cases {
        let set = set(&format!("C04/{name}.safetensors"));
        assert_eq!(counts(&set), [0, 1, 0, 0], "{name}");
        assert_eq!(codes(&set), [code], "{name}");
        let both = set.summary().notes[0].text.contains("over our limit");
        assert_eq!(both, matches!(name, "len_u64max" | "len_132MB"), "{name}");
    }
    // The same length in a file that can hold it is our limit, not the file's fault.
    let legitimate = check_prefix(&132_095_296_u64.to_le_bytes(), 1 << 33, &LIMITS).unwrap_err();
    assert_eq!(legitimate.to_string(), "the header of 132095296 bytes is over our limit of 100000000 bytes");
}

#[test]
fn c05_a_git_lfs_pointer_is_called_one() {
    let set = set("C05/model.safetensors");
    assert_eq!(counts(&set), [0, 1, 0, 0]);
    assert!(set.summary().notes[0].text.contains("looks like a Git LFS pointer"));
}

#[test]
fn c06_empty_tensors_are_tensors_and_empty_types_are_not() {
    let zero = set("C06/zero_dim.safetensors");
    assert_eq!(counts(&zero), [3, 0, 0, 0]);
    let sizes = ["scaled", "w", "e2"].map(|key| {
        let place = zero.get(key).unwrap();
        (place.dtype, place.range.end - place.range.start)
    });
    assert_eq!(sizes, [(Dtype::F8E4m3, 0), (Dtype::F16, 12), (Dtype::F32, 0)]);
    let scalar = set("C06/scalar_ok.safetensors");
    assert_eq!((counts(&scalar), scalar.get("s").unwrap().range.clone()), ([1, 0, 0, 0], 64..68));
    assert_eq!(counts(&set("C06/shape1_zero_bytes.safetensors")), [0, 0, 1, 0]);
    let empty = set("C06/empty_dtype.safetensors");
    assert_eq!((counts(&empty), keys(&empty)), ([1, 0, 1, 0], vec!["w"]));
}

#[test]
fn c07_a_shape_larger_than_its_bytes_costs_that_entry_only() {
    let set = set("C07");
    assert_eq!((counts(&set), keys(&set)), ([1, 0, 1, 0], vec!["ok"]));
    assert_eq!(set.get("ok").unwrap().range, 132..140);
    assert!(set.summary().notes[0].text.contains("need 4000000 bytes, data_offsets span 4"));
}

#[test]
fn c08_packed_types_are_sized_exactly_and_refused_when_bound() {
    let even = set("C08/f4_even.safetensors");
    assert_eq!(counts(&even), [2, 0, 0, 0]);
    let sizes = ["q", "s"].map(|key| even.get(key).map(|place| place.range.end - place.range.start));
    assert_eq!(sizes, [Some(8), Some(2)]);
    for key in ["q", "s"] {
        assert_eq!(even.resolver([key]).label(), "unsupported_quantized_payload");
    }
    assert_eq!(counts(&set("C08/f4_odd.safetensors")), [0, 0, 1, 0]);
}

#[test]
fn c09_bytes_with_two_names_belong_to_neither() {
    for name in ["same_range_two_names", "partial_overlap"] {
        let set = set(&format!("C09/{name}.safetensors"));
        assert_eq!(counts(&set), [0, 0, 2, 0], "{name}");
        assert_eq!(codes(&set), ["checkpoint_entry_overlap"; 2], "{name}");
    }
}

#[test]
fn c10_aliases_in_metadata_are_text_not_tensors() {
    let set = set("C10");
    assert_eq!((counts(&set), keys(&set)), ([1, 0, 0, 0], vec!["model.dec.weight"]));
    assert_eq!(set.metadata(0).unwrap()["model.shared.weight"], "model.dec.weight");
    assert!(set.get("model.shared.weight").is_none());
    assert_eq!(set.resolver(["model.dec.weight", "model.shared.weight"]).label(), "exact_names");
}

#[test]
fn c11_the_reserved_name_is_no_tensor() {
    let set = set("C11");
    assert_eq!(counts(&set), [0, 0, 1, 0]);
    assert_eq!(codes(&set)[0], "checkpoint_entry_metadata");
}

#[test]
fn c12_unclaimed_bytes_are_a_note() {
    for (name, available, code, text) in
        [("hole", 2, "checkpoint_hole", "2 bytes"), ("trailing", 1, "checkpoint_trailing_bytes", "16 bytes")]
    {
        let set = set(&format!("C12/{name}.safetensors"));
        assert_eq!((counts(&set), set.summary().complete), ([available, 0, 0, 0], true), "{name}");
        assert_eq!(codes(&set), [code]);
        let note = &set.summary().notes[0];
        assert!(note.text.starts_with(text) && note.severity.to_string() == "note", "{note}");
    }
}

/// Header-like text: pieces of real headers in any order, so that the parser gets past the first byte.
fn header_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "\"dtype\"",
            "\"shape\"",
            "\"data_offsets\"",
            "\"F4\"",
            "\"U8\"",
            "0",
            "1",
            "-1",
            "1e999",
            "18446744073709551616",
            "null",
            "\"__metadata__\"",
            "\"\\ud800\"",
            "\\",
            "\n",
            r#""a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#,
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Name, element type and shape of tensors that take few bytes; packed types get a multiple of four elements.
fn tensors() -> impl Strategy<Value = Vec<(String, safetensors::Dtype, Vec<usize>)>> {
    use safetensors::Dtype as D;
    let dtypes = vec![
        D::BOOL,
        D::F4,
        D::F6_E2M3,
        D::F6_E3M2,
        D::U8,
        D::I8,
        D::F8_E5M2,
        D::F8_E4M3,
        D::F8_E8M0,
        D::F8_E4M3FNUZ,
        D::F8_E5M2FNUZ,
        D::I16,
        D::U16,
        D::F16,
        D::BF16,
        D::I32,
        D::U32,
        D::F32,
        D::C64,
        D::F64,
        D::I64,
        D::U64,
    ];
    let shape = prop::collection::vec(0_usize..4, 0..4);
    let tensor = (any::<String>(), prop::sample::select(dtypes), shape).prop_map(|(name, dtype, mut shape)| {
        if dtype.bitsize() < 8 {
            shape.push(4);
        }
        (name, dtype, shape)
    });
    prop::collection::vec(tensor, 0..8).prop_map(|mut tensors| {
        tensors.retain(|(name, ..)| name != "__metadata__");
        tensors.sort_by(|left, right| left.0.cmp(&right.0));
        tensors.dedup_by(|left, right| left.0 == right.0);
        tensors
    })
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), data_bytes: u64) {
        let _ = shard("any", &bytes).header;
        let _ = read_header(&bytes, data_bytes, &LIMITS);
        let _ = read_index(&bytes, 100);
    }

    #[test]
    fn nothing_like_a_header_leaves_the_file_or_overlaps(bytes in header_like(), data_bytes in 0_u64..4) {
        let _ = read_index(&bytes, 10_000);
        if let Ok(reading) = read_header(&bytes, data_bytes, &LIMITS) {
            let mut reached = 0;
            let mut ranges: Vec<_> = reading.tensors.values().map(|tensor| tensor.range.clone()).collect();
            ranges.sort_by_key(|range| (range.start, range.end));
            for range in ranges.into_iter().filter(|range| !range.is_empty()) {
                prop_assert!(reached <= range.start && range.end <= data_bytes);
                reached = range.end;
            }
            let header = Ok(reading);
            let set = CheckpointSet::assemble(vec![ShardFile { name: "any".into(), header }], None);
            prop_assert_eq!(set.summary().available, set.iter().count() as u64);
        }
    }

    #[test]
    fn the_reader_agrees_with_the_formats_own_library(tensors in tensors(), note in prop::option::of(any::<String>())) {
        let data = vec![0_u8; 64 * 64];
        let bytes_of = |dtype: safetensors::Dtype, shape: &[usize]| shape.iter().product::<usize>() * dtype.bitsize() / 8;
        let views: Vec<_> = tensors.iter().map(|(name, dtype, shape)| {
            let slice = &data[..bytes_of(*dtype, shape)];
            (name.clone(), safetensors::tensor::TensorView::new(*dtype, shape.clone(), slice).unwrap())
        }).collect();
        let metadata = note.map(|note| std::collections::HashMap::from([("note".to_owned(), note)]));
        let bytes = safetensors::serialize(views, metadata.clone()).unwrap();
        let (header_bytes, theirs) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();

        let set = CheckpointSet::assemble(vec![shard("one", &bytes)], None);
        prop_assert!(set.summary().complete && set.summary().notes.is_empty(), "{:?}", set.summary());
        prop_assert_eq!(set.iter().count(), theirs.tensors().len());
        for (key, info) in theirs.tensors() {
            let ours = set.get(&key).unwrap();
            prop_assert_eq!(ours.dtype.name(), info.dtype.to_string());
            prop_assert_eq!(&ours.shape, &info.shape.iter().map(|dim| *dim as u64).collect::<Vec<_>>());
            let data_begin = 8 + header_bytes;
            let range = (data_begin + info.data_offsets.0) as u64..(data_begin + info.data_offsets.1) as u64;
            prop_assert_eq!(&ours.range, &range);
        }
        let ours = set.metadata(0).unwrap().get("note");
        prop_assert_eq!(ours, metadata.as_ref().and_then(|metadata| metadata.get("note")));
    }
}
