//! Bytes that are almost right: seeded changes of a good document.
//!
//! Half of the changes know JSON (they exchange numbers, words, keys and whole values), the others know nothing.

use fastrand::Rng;

/// Longest result; larger inputs only repeat what smaller ones show.
const MAX_BYTES: usize = 256 << 10;

/// Values that readers like to get wrong.
const VALUES: [&str; 34] = [
    "0",
    "-0",
    "-1",
    "1",
    "1e308",
    "-1e308",
    "1e309",
    "1e-320",
    "0.1",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "4611686018427387904",
    "9007199254740993",
    "4294967296",
    "1e18",
    "-1e18",
    "9.3e9",
    "null",
    "true",
    "false",
    "NaN",
    "-Infinity",
    "\"\"",
    "\"\\u0000\\u001b[31m\"",
    "\"18446744073709551615\"",
    "\"../../etc/passwd\"",
    "[]",
    "{}",
    "[null]",
    "{\"\":{}}",
];

/// Changes a document in one to eight places.
pub(crate) fn mutate(rng: &mut Rng, good: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..rng.usize(1..=8) {
        match rng.u8(0..12) {
            0..=4 => {
                let value = VALUES[rng.usize(0..VALUES.len())];
                exchange(rng, &mut bytes, value.as_bytes());
            }
            5 => {
                let (from, to) = token(rng, other);
                let word = other[from..to].to_vec();
                exchange(rng, &mut bytes, &word);
            }
            6 => {
                let (from, to) = span(rng, &bytes);
                bytes.drain(from..to);
            }
            7 => {
                let (from, to) = span(rng, &bytes);
                let copy = bytes[from..to].to_vec();
                let at = rng.usize(0..=bytes.len());
                bytes.splice(at..at, copy);
            }
            8 => {
                let (from, to) = span(rng, other);
                let at = rng.usize(0..=bytes.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            9 => bytes.truncate(rng.usize(0..=bytes.len())),
            _ => flip(rng, &mut bytes),
        }
    }
    bytes.truncate(MAX_BYTES);
    bytes
}

fn flip(rng: &mut Rng, bytes: &mut [u8]) {
    if !bytes.is_empty() {
        let at = rng.usize(0..bytes.len());
        bytes[at] = if rng.bool() { rng.u8(..) } else { bytes[at] ^ (1 << rng.u8(0..8)) };
    }
}

/// A short part.
fn span(rng: &mut Rng, bytes: &[u8]) -> (usize, usize) {
    let from = rng.usize(0..=bytes.len());
    let longest = if rng.u8(0..8) == 0 { 4096 } else { 64 };
    (from, (from + rng.usize(0..=longest)).min(bytes.len()))
}

/// A number or word near a random place; an empty part where there is none.
fn token(rng: &mut Rng, bytes: &[u8]) -> (usize, usize) {
    let start = rng.usize(0..=bytes.len());
    let stops = |byte: &u8| matches!(byte, b':' | b',' | b'[' | b'{' | b'}' | b']' | b'\n');
    let Some(before) = bytes[start..].iter().position(stops) else { return (start, start) };
    let from = start + before + 1;
    let to = bytes[from.min(bytes.len())..].iter().position(stops).map_or(bytes.len(), |length| from + length);
    (from.min(to), to)
}

fn exchange(rng: &mut Rng, bytes: &mut Vec<u8>, word: &[u8]) {
    let (from, to) = token(rng, bytes);
    bytes.splice(from..to, word.iter().copied());
}
