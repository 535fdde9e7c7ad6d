//! Sets of several files, without files.

use super::*;
use std::collections::BTreeMap;

fn file(name: &str, tensors: &[(&str, &str)]) -> ShardFile {
    let entries: Vec<String> = tensors.iter().map(|(key, entry)| format!("\"{key}\":{entry}")).collect();
    let json = format!("{{{}}}", entries.join(","));
    ShardFile { name: name.to_owned(), header: read_header(json.as_bytes(), 4, &HeaderLimits::default()) }
}

const ONE: &str = r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
const BAD: &str = r#"{"dtype":"F32","shape":[2],"data_offsets":[0,4]}"#;

fn index(pairs: &[(&str, &str)], total_size: Option<u64>) -> Option<Result<ShardIndex, IndexError>> {
    let weight_map = pairs.iter().map(|(key, shard)| ((*key).to_owned(), (*shard).to_owned()));
    Some(Ok(ShardIndex { weight_map: weight_map.collect(), total_size }))
}

fn codes(set: &CheckpointSet) -> Vec<&str> {
    set.summary().notes.iter().map(|note| note.code.as_str()).collect()
}

#[test]
fn a_sound_pair_is_complete_with_absolute_ranges() {
    let set = CheckpointSet::assemble(
        vec![file("2", &[("b", ONE)]), file("1", &[("a", ONE)])],
        index(&[("a", "1"), ("b", "2")], Some(8)),
    );
    assert!(set.summary().complete && set.summary().notes.is_empty(), "{:?}", set.summary());
    let place = set.get("b").unwrap();
    assert_eq!(place.file, 0);
    let header = format!("{{\"b\":{ONE}}}").len() as u64;
    assert_eq!(place.range, 8 + header..12 + header);
    assert_eq!(set.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(set.resolver(["a", "b", "alias"]), Resolver::ExactNames);
}

#[test]
fn a_key_in_two_files_refuses_all_even_if_one_entry_is_malformed() {
    for twin in [ONE, BAD] {
        let files = [file("1", &[("a", ONE)]), file("2", &[("a", twin)]), file("3", &[("c", ONE)])];
        let set = CheckpointSet::assemble(files.to_vec(), None);
        let summary = set.summary();
        assert_eq!((summary.available, summary.ambiguous_key_count, summary.refused), (0, 1, true));
        assert!(!summary.complete && set.get("c").is_none());
        assert_eq!(set.resolver(["c"]), Resolver::NoValidSourceMetadata);
        let mut turned = files.to_vec();
        turned.reverse();
        assert_eq!(CheckpointSet::assemble(turned, None).summary(), summary);
    }
}

#[test]
fn metadata_in_every_file_is_no_duplicate() {
    let metadata = ("__metadata__", r#"{"format":"pt"}"#);
    let set = CheckpointSet::assemble(vec![file("1", &[metadata, ("a", ONE)]), file("2", &[metadata, ("b", ONE)])], None);
    assert_eq!((set.summary().available, set.summary().complete), (2, true));
    assert_eq!(set.metadata(1), Some(&BTreeMap::from([("format".to_owned(), "pt".to_owned())])));
    let bad = ("__metadata__", "7");
    let set = CheckpointSet::assemble(vec![file("1", &[bad, ("a", ONE)]), file("2", &[bad, ("b", ONE)])], None);
    assert_eq!((set.summary().available, set.summary().invalid_entries, set.summary().ambiguous_key_count), (2, 2, 0));
}

#[test]
fn four_causes_of_a_missing_key_are_told_apart() {
    let files = vec![file("1", &[("a", ONE), ("bad", BAD)]), ShardFile { name: "2".into(), header: Err(HeaderError::Empty) }];
    let wanted = index(&[("a", "1"), ("bad", "1"), ("none", "1"), ("broken", "2"), ("gone", "3")], None);
    let set = CheckpointSet::assemble(files, wanted);
    let causes: Vec<_> = set.summary().missing.iter().map(|missing| (missing.key.as_str(), missing.cause)).collect();
    assert_eq!(
        causes,
        [
            ("bad", MissingCause::EntryInvalid),
            ("broken", MissingCause::ShardInvalid),
            ("gone", MissingCause::ShardAbsent),
            ("none", MissingCause::NotInShard),
        ]
    );
    assert_eq!((set.summary().available, set.summary().complete), (1, false));
}

#[test]
fn an_index_that_disagrees_is_never_complete_and_never_chooses() {
    let set = CheckpointSet::assemble(vec![file("1", &[("a", ONE)]), file("2", &[("b", ONE)])], index(&[("a", "2")], None));
    assert_eq!(codes(&set), ["checkpoint_index_other_shard", "checkpoint_index_unlisted_keys"]);
    assert_eq!((set.summary().available, set.summary().complete), (2, false));
    let refused = Some(Err(IndexError::PathRefused { key: "a".into(), path: "../1".into() }));
    let set = CheckpointSet::assemble(vec![file("1", &[("a", ONE)])], refused);
    assert_eq!(codes(&set), ["checkpoint_index_path_refused"]);
    assert_eq!((set.summary().available, set.summary().complete), (1, false));
}

#[test]
fn a_repeated_key_in_one_header_is_counted_as_entry_and_refuses_all() {
    let set = CheckpointSet::assemble(vec![file("1", &[("w", ONE), ("w", ONE)]), file("2", &[("b", ONE)])], None);
    let summary = set.summary();
    assert_eq!((summary.available, summary.invalid_entries, summary.invalid_files), (0, 1, 0));
    assert!(summary.refused && summary.notes[0].text.contains("duplicate key in one header: \"w\""));
}

#[test]
fn remarks_are_bounded_and_the_rest_is_counted() {
    let entries: Vec<(String, &str)> = (0..1200).map(|number| (format!("k{number}"), "7")).collect();
    let entries: Vec<(&str, &str)> = entries.iter().map(|(key, entry)| (key.as_str(), *entry)).collect();
    let set = CheckpointSet::assemble(vec![file("1", &entries)], None);
    assert_eq!((set.summary().invalid_entries, set.summary().notes.len()), (1200, 1001));
    assert_eq!(set.summary().notes[1000].text, "201 more remarks are counted but not listed");
}

#[test]
fn an_empty_set_is_nothing_and_not_complete() {
    let set = CheckpointSet::assemble(Vec::new(), None);
    assert_eq!((set.summary().available, set.summary().complete), (0, false));
    assert_eq!(set.resolver([]).label(), "no_valid_source_metadata");
}
