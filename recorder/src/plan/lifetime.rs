//! What lives on the device as long as its component: the tensors of the root module, and the room that they take.
//!
//! Tensors of the root with the same bytes are one group and lie there once. Bytes that another module refers to, too,
//! would live under two rules at once: they are refused.

use super::checkpoint::Dtype;
use super::layout::{pack, round_up};
use super::tree::Parameter;
use crate::error::Refusal;
use crate::limits::{ARENA_ALIGNMENT_BYTES, LIFETIME_ELEMENT_BITS, MAX_RANK};
use std::collections::BTreeMap;
use std::ops::Range;

/// What the offsets of a tensor's bytes count in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceSpace {
    /// A file of the checkpoint.
    File(usize),
    /// Addresses of this process.
    Host,
    /// A tensor whose bytes are only counted.
    Counted(usize),
}

/// A tensor with the place of its bytes at the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceTensor<'a> {
    /// Full name.
    pub name: String,
    /// The tensor.
    pub parameter: &'a Parameter,
    /// Where its bytes begin.
    pub start: (SourceSpace, u64),
}

impl SourceTensor<'_> {
    fn range(&self) -> (SourceSpace, Range<u64>) {
        let (space, start) = self.start;
        (space, start..start.saturating_add(self.parameter.bytes))
    }
}

/// A tensor of the root and its place in the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifetimeTensor {
    /// Name, the same as its full name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Elements in each dimension.
    pub shape: Vec<u64>,
    /// Payload in bytes.
    pub bytes: u64,
    /// First byte in the buffer.
    pub offset: u64,
}

/// The buffer of a component's root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifetimePlan {
    /// All tensors of the root; those of one group share their place.
    pub tensors: Vec<LifetimeTensor>,
    /// The first tensor of each group, with its offset.
    pub groups: Vec<(Parameter, u64)>,
    /// Payload of the groups, without padding.
    pub payload_bytes: u64,
    /// Bytes of the buffer, whole pages: what the weight ceiling is charged with.
    pub capacity_bytes: u64,
}

/// Lays out the root's tensors.
///
/// # Errors
/// A refusal for an element type or rank that has no view, for bytes that `others` refer to as well, and for more payload
/// than `limit`.
pub fn plan_lifetime(
    root: &[SourceTensor<'_>],
    others: &[SourceTensor<'_>],
    limit: u64,
    page: u64,
) -> Result<LifetimePlan, Refusal> {
    root.iter().try_for_each(check_viewable)?;
    refuse_alias(root, others)?;
    let mut groups: Vec<&Parameter> = Vec::new();
    let mut by_place: BTreeMap<(SourceSpace, u64, u64), usize> = BTreeMap::new();
    let mut group_of = Vec::new();
    for tensor in root {
        let (space, start) = tensor.start;
        let next = groups.len();
        let group = *by_place.entry((space, start, tensor.parameter.bytes)).or_insert(next);
        if group == next {
            groups.push(tensor.parameter);
        }
        group_of.push(group);
    }
    let payload_bytes = groups.iter().try_fold(0u64, |sum, group| sum.checked_add(group.bytes));
    let above = |got: u64| {
        let what = "payload of the component's root module, which lives as long as the component".to_string();
        Refusal { code: "component_lifetime_above_limit", what, got, limit, unit: "bytes" }
    };
    let payload_bytes = payload_bytes.filter(|bytes| *bytes <= limit).ok_or_else(|| above(payload_bytes.unwrap_or(u64::MAX)))?;
    let packed = pack(groups.iter().map(|group| group.bytes), ARENA_ALIGNMENT_BYTES);
    let placed = packed.and_then(|packed| round_up(packed.bytes, page).map(|capacity| (packed.offsets, capacity)));
    let (offsets, capacity_bytes) = placed.ok_or_else(|| above(u64::MAX))?;
    let tensors = root.iter().zip(&group_of).map(|(tensor, group)| LifetimeTensor {
        name: tensor.name.clone(),
        dtype: tensor.parameter.dtype,
        shape: tensor.parameter.shape.clone(),
        bytes: tensor.parameter.bytes,
        offset: offsets.get(*group).copied().unwrap_or_default(),
    });
    let tensors = tensors.collect();
    let groups = groups.into_iter().cloned().zip(offsets).collect();
    Ok(LifetimePlan { tensors, groups, payload_bytes, capacity_bytes })
}

fn check_viewable(tensor: &SourceTensor<'_>) -> Result<(), Refusal> {
    let Parameter { dtype, shape, .. } = tensor.parameter;
    let refuse = |code, what, got, limit, unit| Err(Refusal { code, what, got, limit, unit });
    if dtype.bits() < LIFETIME_ELEMENT_BITS {
        let what =
            format!("an element of root tensor {:?}, which is {dtype}, as the smallest thing with an address", tensor.name);
        return refuse("component_lifetime_dtype", what, dtype.bits(), LIFETIME_ELEMENT_BITS, "bits");
    }
    if shape.len() > MAX_RANK {
        let what = format!("dimensions of root tensor {:?}", tensor.name);
        return refuse("component_lifetime_rank", what, shape.len() as u64, MAX_RANK as u64, "dimensions");
    }
    Ok(())
}

/// Refuses bytes of the root that lie under another tensor as well.
fn refuse_alias(root: &[SourceTensor<'_>], others: &[SourceTensor<'_>]) -> Result<(), Refusal> {
    let with_bytes = |tensor: &&SourceTensor<'_>| tensor.parameter.bytes > 0;
    let of_root = root.iter().filter(with_bytes).map(|tensor| (tensor.range(), true, tensor));
    let of_others = others.iter().filter(with_bytes).map(|tensor| (tensor.range(), false, tensor));
    let mut all: Vec<_> = of_root.chain(of_others).collect();
    all.sort_by(|((a_space, a), ..), ((b_space, b), ..)| (a_space, a.start, a.end).cmp(&(b_space, b.start, b.end)));
    // Of either side, the tensor so far that reaches furthest.
    let mut furthest: [Option<(SourceSpace, u64, &str)>; 2] = [None, None];
    for ((space, range), is_root, tensor) in all {
        let [mine, theirs] = if is_root { [0, 1] } else { [1, 0] };
        if let Some((_, end, other)) =
            furthest.get(theirs).copied().flatten().filter(|(at, end, _)| *at == space && *end > range.start)
        {
            let (inside, outside) = if is_root { (tensor.name.as_str(), other) } else { (other, tensor.name.as_str()) };
            let what = format!("bytes of root tensor {inside:?} that {outside:?} refers to as well");
            let got = end.min(range.end) - range.start;
            return Err(Refusal { code: "component_lifetime_alias", what, got, limit: 0, unit: "bytes" });
        }
        if let Some(furthest) = furthest.get_mut(mine)
            && furthest.is_none_or(|(at, end, _)| at != space || range.end > end)
        {
            *furthest = Some((space, range.end, &tensor.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ParameterSource;

    fn parameter(dtype: Dtype, shape: &[u64], bytes: u64) -> Parameter {
        let source = ParameterSource::Memory { tensor: 0 };
        Parameter { name: "p".into(), dtype, shape: shape.to_vec(), bytes, source }
    }

    fn named(name: &str, parameter: &Parameter, start: (SourceSpace, u64)) -> SourceTensor<'static> {
        let parameter: &'static Parameter = Box::leak(Box::new(parameter.clone()));
        SourceTensor { name: name.into(), parameter, start }
    }

    fn bytes(name: &str, start: u64, bytes: u64) -> SourceTensor<'static> {
        named(name, &parameter(Dtype::U8, &[bytes], bytes), (SourceSpace::File(0), start))
    }

    #[test]
    fn tensors_with_the_same_bytes_lie_there_once_and_whole_pages_are_charged() {
        let root = [bytes("a", 0, 100), bytes("b", 200, 300), bytes("also_a", 0, 100), bytes("empty", 0, 0)];
        let plan = plan_lifetime(&root, &[bytes("blocks.0.w", 100, 100)], 400, 512).expect("at the limit");
        assert_eq!((plan.payload_bytes, plan.capacity_bytes, plan.groups.len()), (400, 1024, 3));
        let offsets: Vec<(&str, u64)> = plan.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.offset)).collect();
        assert_eq!(offsets, [("a", 0), ("b", 256), ("also_a", 0), ("empty", 768)]);
        let refusal = plan_lifetime(&root, &[], 399, 512).expect_err("one byte above");
        assert_eq!((refusal.code, refusal.got, refusal.limit), ("component_lifetime_above_limit", 400, 399));
        assert_eq!(plan_lifetime(&[], &[], 0, 512), Ok(LifetimePlan::default()));
    }

    #[test]
    fn sizes_that_overflow_are_above_every_limit() {
        let huge = u64::MAX - 10;
        for root in [vec![bytes("a", 0, huge), bytes("b", 5, huge)], vec![bytes("a", 0, huge)]] {
            let refusal = plan_lifetime(&root, &[], u64::MAX, 4096).expect_err("no buffer");
            assert_eq!((refusal.code, refusal.got), ("component_lifetime_above_limit", u64::MAX));
        }
    }

    #[test]
    fn packed_elements_and_too_many_dimensions_are_refused_with_both_numbers() {
        let packed = named("scale", &parameter(Dtype::F4, &[2], 1), (SourceSpace::File(0), 0));
        let refusal = plan_lifetime(&[packed], &[], 100, 512).expect_err("no address of its own");
        assert_eq!((refusal.code, refusal.got, refusal.limit), ("component_lifetime_dtype", 4, 8));
        let deep = named("deep", &parameter(Dtype::F8E4m3, &[1; MAX_RANK + 1], 1), (SourceSpace::Host, 7));
        let refusal = plan_lifetime(std::slice::from_ref(&deep), &[], 100, 512).expect_err("no view");
        assert_eq!((refusal.code, refusal.got, refusal.limit), ("component_lifetime_rank", 9, 8));
        let flat = named("flat", &parameter(Dtype::F8E4m3, &[1; MAX_RANK], 1), (SourceSpace::Host, 7));
        assert!(plan_lifetime(&[flat], &[deep], 100, 512).is_err_and(|refusal| refusal.code == "component_lifetime_alias"));
    }

    #[test]
    fn an_alias_across_scopes_is_found_exactly_when_two_ranges_share_a_byte() {
        let mut rng = fastrand::Rng::with_seed(11);
        let mut found = 0;
        for _ in 0..4000 {
            let mut ranges = || -> Vec<(usize, u64, u64)> {
                (0..rng.usize(0..6)).map(|_| (rng.usize(0..2), rng.u64(0..60), rng.u64(0..8))).collect()
            };
            let (root, others) = (ranges(), ranges());
            let tensor = |(file, start, length): &(usize, u64, u64)| SourceTensor {
                start: (SourceSpace::File(*file), *start),
                ..bytes("t", *start, *length)
            };
            let tensors = |ranges: &[(usize, u64, u64)]| ranges.iter().map(tensor).collect::<Vec<_>>();
            let shares = |a: &(usize, u64, u64), b: &(usize, u64, u64)| {
                a.0 == b.0 && (a.1..a.1 + a.2).any(|byte| (b.1..b.1 + b.2).contains(&byte))
            };
            let expected = root.iter().any(|a| others.iter().any(|b| shares(a, b)));
            let got = plan_lifetime(&tensors(&root), &tensors(&others), u64::MAX, 64);
            assert_eq!(
                got.is_err_and(|refusal| refusal.code == "component_lifetime_alias" && refusal.got > 0),
                expected,
                "{root:?} {others:?}"
            );
            found += u64::from(expected);
        }
        assert!((400..3600).contains(&found), "{found} aliases");
    }
}
