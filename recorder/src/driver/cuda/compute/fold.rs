//! What is the right answer of the fold? The same arithmetic as the kernel's, on the host. Pure.
//!
//! Invariants: a sum of hashes, each of one word and its index; so the order does not matter, and parts can be folded apart.

/// Spreads every bit over 64 (the finaliser of SplitMix64, Steele et al. 2014); the kernel does the same.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Folds bytes into a number: the wrapping sum over all little-endian 8-byte words of a hash of the word, its index and the seed.
///
/// `first_word` is the index of the first word, for folding a part; only the last part may end in an incomplete word, which
/// counts as filled up with zeros.
pub fn fold_bytes(bytes: &[u8], first_word: u64, seed: u64) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = |word: u64, index: u64| mix(word ^ mix(seed.wrapping_add(index)));
    let whole =
        words.iter().zip(first_word..).fold(0u64, |sum, (word, index)| sum.wrapping_add(hash(u64::from_le_bytes(*word), index)));
    if rest.is_empty() {
        return whole;
    }
    let last = rest.iter().rev().fold(0u64, |word, byte| (word << 8) | u64::from(*byte));
    whole.wrapping_add(hash(last, first_word + words.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_place_and_seed_counts_and_parts_add_up() {
        let mut bytes: Vec<u8> = (0..101u8).collect();
        let right = fold_bytes(&bytes, 0, 7);
        assert_eq!(right, fold_bytes(&bytes[..48], 0, 7).wrapping_add(fold_bytes(&bytes[48..], 6, 7)));
        assert_ne!(right, fold_bytes(&bytes, 0, 8));
        assert_ne!(right, fold_bytes(&bytes, 1, 7));
        for at in [0, 7, 8, 50, 96, 100] {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert_ne!(right, fold_bytes(&bytes, 0, 7), "byte {at}, bit {bit}");
                bytes[at] ^= 1 << bit;
            }
        }
        bytes.rotate_left(8);
        assert_ne!(right, fold_bytes(&bytes, 0, 7));
        assert_eq!(fold_bytes(&[], 0, 7), 0);
    }
}
