//! The copies of one upload: which tensors travel together, and where a copy must be cut.

use super::ParameterSource;
use super::places::Fence;
use std::ops::Range;

/// One tensor of a part, as its upload sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchTensor {
    /// Where its bytes lie.
    pub source: ParameterSource,
    /// Where they go, relative to the part's place.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
}

impl BatchTensor {
    /// Extends the copy by a tensor that continues it at the source and at the destination.
    fn merge(&mut self, next: &BatchTensor) -> bool {
        let continues = match (self.source, next.source) {
            (ParameterSource::File { file: a, offset: from }, ParameterSource::File { file: b, offset: to }) => {
                a == b && from + self.bytes == to
            }
            _ => false,
        };
        if !continues || self.offset + self.bytes != next.offset {
            return false;
        }
        self.bytes += next.bytes;
        true
    }
}

/// Merges neighbours in source and place; empty tensors need no copy.
pub fn merged(tensors: &[BatchTensor]) -> Vec<BatchTensor> {
    let mut merged: Vec<BatchTensor> = Vec::new();
    for tensor in tensors.iter().filter(|tensor| tensor.bytes > 0) {
        if !merged.last_mut().is_some_and(|last| last.merge(tensor)) {
            merged.push(*tensor);
        }
    }
    merged
}

/// A stretch of a place whose copies may start together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut<C> {
    /// Who must have read before.
    pub consumers: Vec<C>,
    /// Bytes of the place.
    pub bytes: Range<u64>,
}

impl<C> Cut<C> {
    /// What the stretch holds of a copy to `offset`: first byte and length in the place.
    pub fn of_copy(&self, offset: u64, bytes: u64) -> Option<(u64, u64)> {
        let first = self.bytes.start.max(offset);
        let last = self.bytes.end.min(offset.saturating_add(bytes));
        let length = last.checked_sub(first).filter(|length| *length > 0)?;
        Some((first, length))
    }
}

/// Cuts a place at its fences: what is behind a fence waits for it, what is before it does not. A stretch of fewer
/// than `least` bytes is not worth a copy of its own: its successor's fences are waited for with its own. `end` is
/// the last byte that is copied to.
pub fn cut_at_fences<C: Copy + PartialEq>(end: u64, fences: &[Fence<C>], least: u64) -> Vec<Cut<C>> {
    let mut starts: Vec<u64> = vec![0];
    let mut ordered = fences.to_vec();
    ordered.sort_by_key(|fence| fence.from);
    for fence in &ordered {
        let apart = starts.last().is_some_and(|start| fence.from >= start.saturating_add(least.max(1)));
        if apart && end >= fence.from.saturating_add(least.max(1)) {
            starts.push(fence.from);
        }
    }
    let ends = starts.iter().skip(1).copied().chain([u64::MAX]);
    let mut cuts: Vec<Cut<C>> =
        starts.iter().zip(ends).map(|(start, end)| Cut { consumers: Vec::new(), bytes: *start..end }).collect();
    for fence in ordered {
        // The last stretch that starts at or before the fenced byte.
        let index = starts.partition_point(|start| *start <= fence.from).saturating_sub(1);
        let consumers = cuts.get_mut(index).map(|cut| &mut cut.consumers);
        if let Some(consumers) = consumers.filter(|consumers| !consumers.contains(&fence.consumer)) {
            consumers.push(fence.consumer);
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(file: usize, from: u64, to: u64, bytes: u64) -> BatchTensor {
        BatchTensor { source: ParameterSource::File { file, offset: from }, offset: to, bytes }
    }

    #[test]
    fn only_neighbours_in_source_and_place_merge() {
        let first = tensor(0, 100, 0, 512);
        assert!(first.clone().merge(&tensor(0, 612, 512, 8)));
        assert!(!first.clone().merge(&tensor(1, 612, 512, 8)), "another file");
        assert!(!first.clone().merge(&tensor(0, 620, 512, 8)), "a gap at the source");
        assert!(!first.clone().merge(&tensor(0, 612, 1024, 8)), "a gap at the place");
    }
}
