//! Broken input of every kind: the committed corpus, and seeded changes of it.
//!
//! Proves: no input stops a reader, gives a result that is no JSON, or gives two results. `DDO_FUZZ_ROUNDS=N` makes more changes of each
//! file, `DDO_FUZZ_SEED=N` other ones; what fails is printed with the path where it was kept.

use crate::support::mutate::mutate;
use crate::support::{data, files, root};
use fastrand::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Changes of each file without a wish for more.
const ROUNDS: u64 = 4;

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().map_or(usual, |text| text.parse().expect("a number"))
}

/// Gives the first document to the reader of its kind, the others beside it. Two of one name would be one file.
fn read(kind: &str, documents: &[(&str, &[u8])]) -> Result<(), String> {
    let first = documents[0];
    if kind == "checkpoint" {
        return ddo_recorder::fuzz::checkpoint(first.1);
    }
    let mut folder = vec![first];
    folder.extend(documents[1..].iter().filter(|(name, _)| *name != first.0));
    ddo_analyzer::fuzz::documents(&folder)
}

/// The result, or what went wrong; a panic is also one.
fn judged(kind: &str, documents: &[(&str, &[u8])]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| read(kind, documents))).unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        Err(text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).into())).unwrap_or_else(|| "a panic".into()))
    })
}

fn keep(kind: &str, name: &str, bytes: &[u8]) -> PathBuf {
    let folder = root().join("target/fuzz").join(kind);
    std::fs::create_dir_all(&folder).expect("made");
    let path = folder.join(format!("{}-{name}", Rng::new().u32(..)));
    std::fs::write(&path, bytes).expect("written");
    path
}

#[test]
fn nothing_stops_a_reader() {
    let corpus: Vec<(PathBuf, Vec<u8>)> = files(&data("fuzz")).into_iter().collect();
    let total: usize = corpus.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(total < 300 << 10, "the corpus has {total} bytes");
    let (rounds, seed) = (number("DDO_FUZZ_ROUNDS", ROUNDS), number("DDO_FUZZ_SEED", 1));
    let mut failed = Vec::new();
    let mut kinds = std::collections::BTreeSet::new();
    let kind_of = |path: &Path| path.parent().and_then(Path::to_str).expect("a folder a kind").to_string();
    let name_of = |path: &Path| path.file_name().and_then(|name| name.to_str()).expect("a name").to_string();
    let all: Vec<(String, String, Vec<u8>)> = corpus.into_iter().map(|(path, b)| (kind_of(&path), name_of(&path), b)).collect();
    let folder: Vec<&(String, String, Vec<u8>)> = all.iter().filter(|(kind, ..)| kind != "checkpoint").collect();
    for (at, (kind, name, bytes)) in all.iter().enumerate() {
        kinds.insert(kind.as_str());
        judged(kind, &[(name, bytes)]).unwrap_or_else(|error| failed.push(format!("{kind}/{name}: {error}")));
        let mut rng = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(at as u64));
        let alike: Vec<&Vec<u8>> = all.iter().filter(|(other, ..)| other == kind).map(|(.., bytes)| bytes).collect();
        for _ in 0..rounds {
            let other = alike[rng.usize(0..alike.len())];
            let broken = mutate(&mut rng, bytes, other);
            // Alone, or in a folder with a good document: what is read together is also judged together.
            let beside = folder[rng.usize(0..folder.len())];
            let documents = [(name.as_str(), broken.as_slice()), (beside.1.as_str(), beside.2.as_slice())];
            let documents = if rng.bool() { &documents[..1] } else { &documents[..] };
            if let Err(error) = judged(kind, documents) {
                let kept = keep(kind, name, &broken);
                failed.push(format!("{} with {:?}: {error}", kept.display(), documents.get(1).map(|(name, _)| name)));
            }
        }
    }
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        ["checkpoint", "manifest", "memory", "operators", "record", "report", "structure"]
    );
    assert!(failed.is_empty(), "{} input(s) failed:\n{}", failed.len(), failed.join("\n"));
}
