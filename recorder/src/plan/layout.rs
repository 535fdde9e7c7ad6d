//! Where each tensor of a unit lies inside its place.

/// Rounds up to a multiple; `None` when that does not fit 64 bits.
pub fn round_up(value: u64, multiple: u64) -> Option<u64> {
    let multiple = multiple.max(1);
    value.div_ceil(multiple).checked_mul(multiple)
}

/// Offsets of a unit's tensors, in their given order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// First byte of each tensor.
    pub offsets: Vec<u64>,
    /// Bytes from the first to behind the last tensor.
    pub bytes: u64,
}

/// Packs tensors one after another, each at a multiple of `alignment`; `None` when the sizes overflow.
pub fn pack(sizes: impl IntoIterator<Item = u64>, alignment: u64) -> Option<Packed> {
    let mut packed = Packed::default();
    for bytes in sizes {
        let offset = round_up(packed.bytes, alignment)?;
        packed.offsets.push(offset);
        packed.bytes = offset.checked_add(bytes)?;
    }
    Some(packed)
}

/// The layout of all parts of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// First byte of each part in the arena.
    pub arena_starts: Vec<u64>,
    /// Bytes from the arena's start to behind the last part.
    pub arena_bytes: u64,
    /// Tensor offsets inside each part, the same in arena and stream memory.
    pub parts: Vec<Packed>,
}

impl Layout {
    /// Lays out parts given the sizes of their tensors.
    ///
    /// Tensors are packed at `slot_alignment` inside a part, which also satisfies the arena's; parts start at
    /// `arena_alignment` in the arena. `None` when the sizes overflow.
    pub fn new(parts: &[Vec<u64>], slot_alignment: u64, arena_alignment: u64) -> Option<Layout> {
        let alignment = slot_alignment.max(arena_alignment);
        let packed: Option<Vec<Packed>> = parts.iter().map(|sizes| pack(sizes.iter().copied(), alignment)).collect();
        let mut layout = Layout { parts: packed?, ..Layout::default() };
        layout.arena_starts = vec![0; parts.len()];
        layout.place(alignment, |_| true)?;
        Some(layout)
    }

    /// The same with the addresses of some parts in front of all others: pages are not shared with parts that never
    /// get memory.
    #[must_use = "`None` when the sizes overflow"]
    pub fn with_first(mut self, first: &[bool], alignment: u64) -> Option<Layout> {
        let is_first = |index: usize| first.get(index).copied().unwrap_or_default();
        self.arena_bytes = 0;
        self.place(alignment, is_first)?;
        self.place(alignment, |index| !is_first(index))?;
        Some(self)
    }

    fn place(&mut self, alignment: u64, which: impl Fn(usize) -> bool) -> Option<()> {
        for (index, (packed, place)) in self.parts.iter().zip(&mut self.arena_starts).enumerate() {
            if which(index) {
                *place = round_up(self.arena_bytes, alignment)?;
                self.arena_bytes = place.checked_add(packed.bytes)?;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_aligned_and_never_overlap() {
        let packed = pack([1, 512, 513, 0, 7], 512).expect("fits");
        assert_eq!(packed.offsets, [0, 512, 1024, 2048, 2048]);
        assert_eq!(packed.bytes, 2055);
        assert_eq!(pack([u64::MAX, 1], 512), None);
    }

    #[test]
    fn residents_come_first_and_nothing_overlaps() {
        let layout = Layout::new(&[vec![100, 600], vec![10], vec![512]], 512, 256).expect("fits");
        assert_eq!((layout.arena_starts.as_slice(), layout.arena_bytes), (&[0, 1536, 2048][..], 2560));
        let moved = layout.with_first(&[false, true, true], 512).expect("fits");
        assert_eq!((moved.arena_starts.as_slice(), moved.arena_bytes), (&[1024, 0, 512][..], 2136));
        assert_eq!(Layout::new(&[vec![u64::MAX], vec![1]], 512, 256), None);
    }
}
