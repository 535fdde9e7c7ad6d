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

/// The layout of all units of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// First byte of each unit in the arena.
    pub arena_starts: Vec<u64>,
    /// Bytes from the arena's start to behind the last unit.
    pub arena_bytes: u64,
    /// Tensor offsets inside each unit, the same in arena and slot.
    pub units: Vec<Packed>,
}

impl Layout {
    /// Lays out units given the sizes of their tensors.
    ///
    /// Tensors are packed at `slot_alignment` inside a unit, which also satisfies the arena's; units start at
    /// `arena_alignment` in the arena. `None` when the sizes overflow.
    pub fn new(units: &[Vec<u64>], slot_alignment: u64, arena_alignment: u64) -> Option<Layout> {
        let alignment = slot_alignment.max(arena_alignment);
        let mut layout = Layout::default();
        for sizes in units {
            let packed = pack(sizes.iter().copied(), alignment)?;
            let start = round_up(layout.arena_bytes, alignment)?;
            layout.arena_bytes = start.checked_add(packed.bytes)?;
            layout.arena_starts.push(start);
            layout.units.push(packed);
        }
        Some(layout)
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
}
