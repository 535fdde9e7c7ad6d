//! Which tensors get memory together while views of them are made.

use std::ops::Range;

/// Consecutive tensors and the pages that they touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewGroup {
    /// Which tensors.
    pub tensors: Range<usize>,
    /// Bytes from the first to behind the last page; empty where no tensor has bytes.
    pub bytes: Range<u64>,
}

/// Groups tensors, given their byte ranges in ascending order: as many in each as whole pages of at most `most` bytes
/// cover. A tensor that alone needs more is a group of its own.
pub fn view_groups(tensors: &[Range<u64>], page: u64, most: u64) -> Vec<ViewGroup> {
    let mut groups: Vec<ViewGroup> = Vec::new();
    for (index, tensor) in tensors.iter().enumerate() {
        let own = whole_pages(tensor, page);
        if let Some(group) = groups.last_mut() {
            let both = match (group.bytes.is_empty(), own.is_empty()) {
                (_, true) => group.bytes.clone(),
                (true, false) => own.clone(),
                (false, false) => group.bytes.start.min(own.start)..group.bytes.end.max(own.end),
            };
            if own.is_empty() || both.end - both.start <= most {
                group.bytes = both;
                group.tensors.end = index + 1;
                continue;
            }
        }
        groups.push(ViewGroup { tensors: index..index + 1, bytes: own });
    }
    groups
}

/// The whole pages around a range.
pub fn whole_pages(range: &Range<u64>, page: u64) -> Range<u64> {
    if range.is_empty() {
        return range.start..range.start;
    }
    range.start / page * page..range.end.div_ceil(page).saturating_mul(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_takes_what_fits_and_a_gap_counts() {
        let tensors = [0..100, 256..300, 600..700, 4096..4100, 4100..4100];
        let group = |tensors: Range<usize>, bytes: Range<u64>| ViewGroup { tensors, bytes };
        assert_eq!(view_groups(&tensors, 512, 4608), [group(0..5, 0..4608)]);
        assert_eq!(view_groups(&tensors, 512, 4607), [group(0..3, 0..1024), group(3..5, 4096..4608)]);
        assert_eq!(view_groups(&tensors, 512, 512), [group(0..2, 0..512), group(2..3, 512..1024), group(3..5, 4096..4608)]);
        assert_eq!(view_groups(&tensors, 512, 0).len(), 4, "what has no bytes needs no group");
        assert_eq!(view_groups(&[], 512, 512), []);
    }

    #[test]
    fn every_tensor_is_in_one_group_that_covers_it_and_no_group_could_take_the_next() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..3000 {
            let (page, mut end, most) = (512, 0, rng.u64(0..20_000));
            let mut tensor = || {
                let start = end + rng.u64(0..3000);
                end = start + if rng.u8(0..8) == 0 { 0 } else { rng.u64(1..5000) };
                start..end
            };
            let tensors: Vec<Range<u64>> = (0..20).map(|_| tensor()).collect();
            let mut next = 0;
            for group in view_groups(&tensors, page, most) {
                assert_eq!(group.tensors.start, next);
                next = group.tensors.end;
                let own: Vec<&Range<u64>> = tensors[group.tensors.clone()].iter().filter(|tensor| !tensor.is_empty()).collect();
                assert!(own.iter().all(|tensor| group.bytes.start <= tensor.start && tensor.end <= group.bytes.end));
                assert!(group.bytes.end - group.bytes.start <= most || own.len() == 1, "{tensors:?} under {most}");
                if let Some(more) = tensors.get(next).filter(|_| !own.is_empty()) {
                    assert!(
                        whole_pages(more, page).end - group.bytes.start > most,
                        "the next one fits, too: {tensors:?} under {most}"
                    );
                }
            }
            assert_eq!(next, tensors.len());
        }
    }
}
