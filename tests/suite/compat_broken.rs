//! Recorded files after an accident: bytes flipped, ends cut, keys exchanged.
//!
//! Proves: no such file panics; each gives values or a finding; whatever loads can be drawn, and the trace breaks no rule.

use crate::support::trace::sound;
use crate::support::{data, scratch};
use ddo_analyzer::analysis;
use ddo_analyzer::ingest::load;
use ddo_analyzer::output::perfetto::{Align, TraceOptions, write};
use proptest::prelude::*;
use std::path::Path;
use std::sync::OnceLock;

/// Short documents of every kind, so that an accident meets structure and not only one long list.
const FILES: [&str; 11] = [
    "../../samples/journals/flux-h200/manifest.json",
    "../../samples/journals/flux-h200/manifest.end.json",
    "../../samples/journals/flux-h200/memory.ndjson",
    "peer-runs/small-ring/final.json",
    "peer-runs/small-cache-full/truncated_timeline.json",
    "peer-runs/small-ring/denoise_snapshots/step_0001.json",
    "peer-runs/small-cache-full/operators.json",
    "peer-runs/small-cache-full/inspect_host_memory.json",
    "peer-runs/small-cache-full/preflight.json",
    "peer-runs/small-cache-full/model_load.json",
    "cases/C41/big/step_0000.json",
];

/// Bytes that mean something to a parser.
const BYTES: &[u8] = b"{}[]\",:-+.0123456789eEnulltruefalseN\\\0\xff \n";

fn originals() -> &'static [Vec<u8>] {
    static READ: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    READ.get_or_init(|| FILES.iter().map(|file| std::fs::read(data(file)).expect("recorded")).collect())
}

#[derive(Clone, Debug)]
enum Accident {
    Flip(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index, usize),
    Cut(prop::sample::Index),
    Exchange(prop::sample::Index, prop::sample::Index),
    Number(prop::sample::Index, &'static str),
}

fn accident() -> impl Strategy<Value = Accident> {
    let index = any::<prop::sample::Index>;
    let byte = || prop::sample::select(BYTES);
    let numbers = vec!["-1", "1e308", "18446744073709551615", "1e-320", "null", "true", "[]", "\"x\"", "{\"schema_version\":7}"];
    prop_oneof![
        4 => (index(), byte()).prop_map(|(at, byte)| Accident::Flip(at, byte)),
        2 => (index(), byte()).prop_map(|(at, byte)| Accident::Insert(at, byte)),
        2 => (index(), 1_usize..2_000).prop_map(|(at, count)| Accident::Remove(at, count)),
        1 => index().prop_map(Accident::Cut),
        4 => (index(), index()).prop_map(|(a, b)| Accident::Exchange(a, b)),
        6 => (index(), prop::sample::select(numbers)).prop_map(|(at, number)| Accident::Number(at, number)),
    ]
}

/// Where keys stand: from one quote to the next, before a colon.
fn keys(bytes: &[u8]) -> Vec<(usize, usize)> {
    let ends = bytes.windows(2).enumerate().filter(|(_, pair)| *pair == b"\":").map(|(at, _)| at);
    ends.filter_map(|end| bytes[..end].iter().rposition(|byte| *byte == b'"').map(|start| (start, end + 1))).collect()
}

/// Where the values of keys stand that are numbers.
fn numbers(bytes: &[u8]) -> Vec<(usize, usize)> {
    let is_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let after = |(_, end): (usize, usize)| {
        let start = end + bytes[end..].iter().position(|byte| *byte != b':' && *byte != b' ')?;
        let length = bytes[start..].iter().take_while(|byte| is_number(byte)).count();
        (length > 0).then_some((start, start + length))
    };
    keys(bytes).into_iter().filter_map(after).collect()
}

fn apply(bytes: &mut Vec<u8>, accident: &Accident) {
    if bytes.is_empty() {
        return;
    }
    match accident {
        Accident::Flip(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Accident::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
        Accident::Remove(at, count) => {
            let at = at.index(bytes.len());
            let end = (at + count).min(bytes.len());
            bytes.drain(at..end);
        }
        Accident::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Accident::Exchange(a, b) => {
            let keys = keys(bytes);
            if keys.is_empty() {
                return;
            }
            let (a, b) = (keys[a.index(keys.len())], keys[b.index(keys.len())]);
            let (first, second) = if a <= b { (a, b) } else { (b, a) };
            if first.1 <= second.0 {
                let (left, right) = (bytes[first.0..first.1].to_vec(), bytes[second.0..second.1].to_vec());
                bytes.splice(second.0..second.1, left);
                bytes.splice(first.0..first.1, right);
            }
        }
        Accident::Number(at, number) => {
            let numbers = numbers(bytes);
            if !numbers.is_empty() {
                let (start, end) = numbers[at.index(numbers.len())];
                bytes.splice(start..end, number.bytes());
            }
        }
    }
}

/// Reads a file as the analyzer does and draws what it holds.
fn read_and_draw(path: &Path) -> Result<(), TestCaseError> {
    match load(path) {
        Ok(run) => {
            let empty = run.components.is_empty() && run.manifest.is_none() && run.seal.is_none() && run.memory.is_empty();
            prop_assert!(!empty, "what loads holds something");
            let findings = analysis::findings(&run);
            prop_assert!(findings.iter().all(|finding| !finding.code.is_empty() && !finding.text.contains('\n')));
            for align in [Align::Recorded, Align::Steps] {
                let mut bytes = Vec::new();
                write(&run, &TraceOptions { align, annotate: true }, &mut bytes).expect("memory takes everything");
                sound(&bytes);
            }
        }
        Err(error) => prop_assert!(error.to_string().contains("nothing usable in"), "{error}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_accident_gives_values_or_a_finding(
        file in 0..FILES.len(),
        accidents in prop::collection::vec(accident(), 1..6),
    ) {
        let mut bytes = originals()[file].clone();
        for accident in &accidents {
            apply(&mut bytes, accident);
        }
        let at = scratch("compat-broken");
        let name = if FILES[file].ends_with(".ndjson") { "memory.ndjson" } else { "step_0001.json" };
        let path = at.path().join(name);
        std::fs::write(&path, &bytes).expect("written");
        read_and_draw(&path)?;
    }
}
