//! Headers that people met, as text; the files among them are in `tests/data/cases`.

use super::*;

const LIMITS: HeaderLimits = HeaderLimits { header_bytes: 4096, name_bytes: 20, rank: 8 };

fn read(json: &str, data_bytes: u64) -> Result<HeaderReading, HeaderError> {
    read_header(json.as_bytes(), data_bytes, &LIMITS)
}

fn keys(reading: &HeaderReading) -> Vec<&str> {
    reading.tensors.keys().map(String::as_str).collect()
}

/// The code of every skipped entry, with a good neighbour that must stay.
fn skipped(entry: &str) -> Vec<&'static str> {
    let json = format!(r#"{{"ok":{{"dtype":"U8","shape":[1],"data_offsets":[99,100]}},"bad":{entry}}}"#);
    let reading = read(&json, 100).unwrap();
    assert_eq!(keys(&reading), ["ok"], "{entry}");
    reading.invalid_entries.iter().map(|entry| entry.reason.code()).collect()
}

#[test]
fn lengths_are_judged_before_anything_is_read() {
    let limits = HeaderLimits { header_bytes: 100_000_000, ..HeaderLimits::default() };
    let length = |header: u64, file: u64| check_prefix(&header.to_le_bytes(), file, &limits);
    assert_eq!(length(2, 10), Ok(2));
    assert_eq!(check_prefix(&[], 0, &LIMITS), Err(HeaderError::Empty));
    assert_eq!(check_prefix(&[2, 0, 0, 0, 0, 0, 0], 7, &LIMITS), Err(HeaderError::TooShort { file_bytes: 7 }));
    assert_eq!(length(2, 7).unwrap_err().code(), "checkpoint_file_too_short");
    assert_eq!(length(3, 10).unwrap_err().code(), "checkpoint_header_longer_than_file");
    assert_eq!(length(u64::MAX, 10).unwrap_err().code(), "checkpoint_header_longer_than_file");
    let over = length(132_095_296, 1 << 40).unwrap_err();
    assert_eq!(over, HeaderError::OverLimit { header_bytes: 132_095_296, limit: 100_000_000 });
    assert_eq!(length(100_000_000, 1 << 40), Ok(100_000_000));
}

#[test]
fn a_pointer_file_is_known_even_by_its_first_word() {
    let text = b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n";
    for prefix in [&text[..], &text[..8]] {
        assert_eq!(check_prefix(prefix, 135, &LIMITS), Err(HeaderError::GitLfsPointer { file_bytes: 135 }));
    }
    assert_eq!(check_prefix(b"version 2 of ours", 135, &LIMITS).unwrap_err().code(), "checkpoint_header_longer_than_file");
}

#[test]
fn every_repeated_key_is_named_once_and_sorted() {
    let one = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    let names = ["key03", "key01", "key04", "key01", "key03", "key01"];
    let entries: Vec<String> = names.iter().map(|name| format!("\"{name}\":{one}")).collect();
    let error = read(&format!("{{{}}}", entries.join(",")), 1).unwrap_err();
    assert_eq!(error, HeaderError::DuplicateKeys { keys: vec!["key01".into(), "key03".into()] });
    assert_eq!(error.to_string(), "duplicate key in one header: \"key01\", \"key03\"");
    // The same name by an escape, and with a malformed twin.
    let error = read(&format!(r#"{{"a":{one},"\u0061":7}}"#), 1).unwrap_err();
    assert_eq!(error, HeaderError::DuplicateKeys { keys: vec!["a".into()] });
    let error = read(r#"{"__metadata__":{},"__metadata__":{}}"#, 0).unwrap_err();
    assert_eq!(error, HeaderError::DuplicateKeys { keys: vec!["__metadata__".into()] });
}

#[test]
fn text_that_is_no_header_says_where() {
    assert_eq!(read("", 0).unwrap_err().code(), "checkpoint_header_not_json");
    let Err(HeaderError::NotJson { offset, reason }) = read("{\"a\":\n{\"dtype\";1}}", 0) else { panic!("read") };
    assert_eq!((offset, reason.as_str()), (14, "expected `:`"));
    let Err(HeaderError::NotJson { offset, .. }) = read_header(b"{\"a\xff\":1}", 0, &LIMITS) else { panic!("read") };
    assert_eq!(offset, 3);
    assert_eq!(read("{} {}", 0).unwrap_err().code(), "checkpoint_header_not_json");
    assert_eq!(read("[1]", 0).unwrap_err(), HeaderError::NotAnObject { found: "a list" });
    assert_eq!(read(" 7", 0).unwrap_err(), HeaderError::NotAnObject { found: "a number" });
    assert_eq!(read_header(&[b' '; 5000], 0, &LIMITS).unwrap_err().code(), "checkpoint_header_over_limit");
    assert_eq!(read(" {}  \n", 0).unwrap().tensors.len(), 0);
}

#[test]
fn each_malformed_entry_costs_itself_alone() {
    let cases = [
        ("7", "checkpoint_entry_not_object"),
        ("[[[[]]]]", "checkpoint_entry_not_object"),
        ("{}", "checkpoint_entry_field_absent"),
        (r#"{"deeper":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#, "checkpoint_entry_field_absent"),
        (r#"{"dtype":"","shape":[],"data_offsets":[0,0]}"#, "checkpoint_entry_unknown_dtype"),
        (r#"{"dtype":"U9","shape":[],"data_offsets":[0,1]}"#, "checkpoint_entry_unknown_dtype"),
        (r#"{"dtype":{"U8":1},"shape":[],"data_offsets":[0,1]}"#, "checkpoint_entry_field_kind"),
        (r#"{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}"#, "checkpoint_entry_field_repeated"),
        (r#"{"dtype":"U8","shape":1,"data_offsets":[0,1]}"#, "checkpoint_entry_field_kind"),
        (r#"{"dtype":"U8","shape":[true],"data_offsets":[0,1]}"#, "checkpoint_entry_field_kind"),
        (r#"{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}"#, "checkpoint_entry_field_kind"),
        (r#"{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}"#, "checkpoint_entry_bad_number"),
        (r#"{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}"#, "checkpoint_entry_bad_number"),
        (r#"{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551616]}"#, "checkpoint_entry_bad_number"),
        (r#"{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}"#, "checkpoint_entry_bad_count"),
        (r#"{"dtype":"U8","shape":[1],"data_offsets":[0]}"#, "checkpoint_entry_bad_count"),
        (r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}"#, "checkpoint_entry_bad_count"),
        (r#"{"dtype":"U8","shape":[1],"data_offsets":[1,0]}"#, "checkpoint_entry_range_reversed"),
        (r#"{"dtype":"U8","shape":[2],"data_offsets":[99,101]}"#, "checkpoint_entry_outside_file"),
        (r#"{"dtype":"U8","shape":[0],"data_offsets":[101,101]}"#, "checkpoint_entry_outside_file"),
        (r#"{"dtype":"F32","shape":[1],"data_offsets":[0,0]}"#, "checkpoint_entry_size_mismatch"),
        (r#"{"dtype":"F4","shape":[1,3],"data_offsets":[0,2]}"#, "checkpoint_entry_partial_byte"),
        (r#"{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}"#, "checkpoint_entry_size_overflow"),
    ];
    for (entry, code) in cases {
        assert_eq!(skipped(entry), [code], "{entry}");
    }
    let deep = format!("{}{}", "[".repeat(1500), "]".repeat(1500));
    assert_eq!(skipped(&deep), ["checkpoint_entry_not_object"]);
    let long = format!(r#"{{"{}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#, "n".repeat(21));
    assert_eq!(read(&long, 1).unwrap().invalid_entries[0].reason.code(), "checkpoint_entry_name_too_long");
}

#[test]
fn metadata_is_a_map_of_strings_or_a_skipped_entry() {
    let reading = read(r#"{"__metadata__":{"format":"pt"}}"#, 0).unwrap();
    assert_eq!(reading.metadata["format"], "pt");
    assert!(reading.tensors.is_empty() && reading.invalid_entries.is_empty());
    for bad in ["[]", "7", r#"{"a":1}"#, r#"{"a":"x","a":"x"}"#, r#"{"dtype":"I32","shape":[2],"data_offsets":[0,8]}"#] {
        let reading = read(&format!(r#"{{"__metadata__":{bad}}}"#), 8).unwrap();
        assert_eq!(reading.invalid_entries[0].reason.code(), "checkpoint_entry_metadata", "{bad}");
        assert!(reading.metadata.is_empty() && reading.tensors.is_empty());
    }
}

#[test]
fn overlaps_are_refused_on_every_name_and_touching_is_none() {
    let json = |ranges: &[(&str, u64, u64)]| {
        let entry = |(name, begin, end): &(&str, u64, u64)| {
            format!(r#""{name}":{{"dtype":"U8","shape":[{}],"data_offsets":[{begin},{end}]}}"#, end - begin)
        };
        format!("{{{}}}", ranges.iter().map(entry).collect::<Vec<_>>().join(","))
    };
    let reading = read(&json(&[("a", 0, 4), ("b", 4, 8), ("zero", 2, 2)]), 8).unwrap();
    assert_eq!(keys(&reading), ["a", "b", "zero"]);
    // "all" covers every other; "in" and "last" do not touch each other.
    let reading = read(&json(&[("in", 1, 2), ("all", 0, 8), ("last", 7, 9), ("free", 9, 10)]), 10).unwrap();
    assert_eq!(keys(&reading), ["free"]);
    let names: Vec<&str> = reading.invalid_entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(names, ["all", "in", "last"]);
    assert!(reading.invalid_entries.iter().all(|entry| entry.reason.code() == "checkpoint_entry_overlap"));
    assert_eq!((reading.hole_bytes, reading.trailing_bytes), (0, 0));
}

#[test]
fn unclaimed_bytes_are_counted() {
    let json = r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[5,7]}}"#;
    let reading = read(json, 17).unwrap();
    assert_eq!((reading.hole_bytes, reading.trailing_bytes), (3, 10));
    let empty = read("{}", 5).unwrap();
    assert_eq!((empty.hole_bytes, empty.trailing_bytes), (0, 5));
}
