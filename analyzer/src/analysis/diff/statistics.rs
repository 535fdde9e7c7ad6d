//! Statistics of few runs: "Is the difference larger than chance, and how large is it?"
//!
//! Uses `limits` only. The unit of replication is a run; what is compared here is one number a run. Invariants: no
//! distribution is assumed; small samples are exact, ties included; nothing is returned that is not finite.
//!
//! Sources: Mann and Whitney 1947 (the test), Hodges and Lehmann 1963 (the shift and its interval), Benjamini and
//! Hochberg 1995 (several metrics at once).

use crate::limits::MAX_EXACT_RUNS;
use std::cmp::Ordering;

/// How much two sides differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// Hodges-Lehmann estimate of candidate over base: 1.2 is a fifth more.
    pub ratio: f64,
    /// Lower end of the distribution-free interval; `None` where so few runs give none.
    pub low: Option<f64>,
    /// Upper end of it.
    pub high: Option<f64>,
}

/// Sum of the candidate's doubled mid-ranks, and all doubled mid-ranks in ascending order.
///
/// Doubling keeps ranks of ties whole.
fn doubled_ranks(base: &[f64], candidate: &[f64]) -> (u64, Vec<u64>) {
    let mut all: Vec<(f64, bool)> =
        base.iter().map(|value| (*value, false)).chain(candidate.iter().map(|value| (*value, true))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = Vec::with_capacity(all.len());
    let mut sum = 0;
    let mut rest = all.as_slice();
    while let Some((first, _)) = rest.first() {
        let tied = rest.iter().take_while(|(value, _)| value.total_cmp(first) == Ordering::Equal).count();
        let (group, later) = rest.split_at(tied);
        // Positions p+1 ..= p+t have the mean (2p + t + 1) / 2.
        let doubled = (2 * ranks.len() + tied + 1) as u64;
        sum += doubled * group.iter().filter(|(_, candidate)| *candidate).count() as u64;
        ranks.extend(std::iter::repeat_n(doubled, tied));
        rest = later;
    }
    (sum, ranks)
}

/// For each sum of `chosen` of the ranks: in how many ways it comes about.
fn ways(ranks: &[u64], chosen: usize) -> Vec<f64> {
    let top = ranks.iter().rev().take(chosen).sum::<u64>() as usize;
    // table[k][s]: ways to choose k ranks with the sum s.
    let mut table = vec![vec![0.0_f64; top + 1]; chosen + 1];
    if let Some(start) = table.first_mut().and_then(|row| row.first_mut()) {
        *start = 1.0;
    }
    for rank in ranks.iter().map(|rank| *rank as usize) {
        for k in (1..=chosen).rev() {
            let (fewer, more) = table.split_at_mut(k);
            if let (Some(from), Some(to)) = (fewer.last(), more.first_mut()) {
                to.iter_mut().skip(rank).zip(from).for_each(|(to, from)| *to += from);
            }
        }
    }
    table.pop().unwrap_or_default()
}

/// One-sided p of "the candidate is larger": the chance of ranks at least this high if the sides were alike.
///
/// Exact, ties included, up to [`MAX_EXACT_RUNS`] runs together; above that the normal approximation with ties and
/// continuity corrected. `None` where a side is empty or a value is not finite.
pub fn larger(base: &[f64], candidate: &[f64]) -> Option<f64> {
    if base.is_empty() || candidate.is_empty() || base.iter().chain(candidate).any(|value| !value.is_finite()) {
        return None;
    }
    let (sum, ranks) = doubled_ranks(base, candidate);
    if ranks.len() > MAX_EXACT_RUNS {
        return Some(normal_tail(sum, &ranks, candidate.len()));
    }
    let ways = ways(&ranks, candidate.len());
    let all: f64 = ways.iter().sum();
    let extreme: f64 = ways.iter().skip(sum as usize).sum();
    Some((extreme / all).clamp(0.0, 1.0))
}

/// The upper tail by the normal approximation, for doubled ranks.
fn normal_tail(sum: u64, ranks: &[u64], chosen: usize) -> f64 {
    let (total, chosen) = (ranks.len() as f64, chosen as f64);
    let mean = ranks.iter().sum::<u64>() as f64 / total;
    let spread = ranks.iter().map(|rank| (*rank as f64 - mean).powi(2)).sum::<f64>() / (total - 1.0);
    // Drawing without replacement.
    let variance = chosen * spread * (1.0 - chosen / total);
    if variance <= 0.0 {
        return 1.0;
    }
    // One rank is two doubled ones, so half a rank is one.
    let z = (sum as f64 - chosen * mean - 1.0) / variance.sqrt();
    upper_normal(z)
}

/// Upper tail of the normal distribution.
fn upper_normal(z: f64) -> f64 {
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

/// The smallest p that so many runs can give.
pub fn smallest_p(base: usize, candidate: usize) -> f64 {
    // The number of ways to choose the candidate's runs, each step a whole number.
    1.0 / (0..candidate).fold(1.0, |ways, at| ways * (base + at + 1) as f64 / (at + 1) as f64)
}

/// The fewest runs a side with which a single one of `metrics` metrics can be significant at `level`.
///
/// The step-up procedure asks the smallest p to be at most `level / metrics`. `None` where no number up to
/// [`MAX_EXACT_RUNS`] does.
pub fn runs_needed(level: f64, metrics: usize) -> Option<usize> {
    let bar = level / metrics.max(1) as f64;
    (1..=MAX_EXACT_RUNS).find(|runs| smallest_p(*runs, *runs) <= bar)
}

/// Hodges-Lehmann estimate of candidate over base: the median of all ratios of one run to another, with the interval
/// of the given confidence from the test's own distribution.
///
/// `None` unless every value is finite and above zero. The interval is `None` where even the widest has less
/// confidence.
pub fn ratio(base: &[f64], candidate: &[f64], confidence: f64) -> Option<Effect> {
    let usable = |value: &f64| value.is_finite() && *value > 0.0;
    if base.is_empty() || candidate.is_empty() || !base.iter().chain(candidate).all(usable) {
        return None;
    }
    let mut ratios: Vec<f64> = candidate.iter().flat_map(|after| base.iter().map(move |before| after / before)).collect();
    // Neither too large nor too small for a float, so that exchanged sides give the inverse or nothing.
    if ratios.iter().any(|ratio| !(1e-300..=1e300).contains(ratio)) {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let middle = geometric_median(&ratios)?;
    let ends = interval_rank(base.len(), candidate.len(), confidence).and_then(|rank| {
        let low = ratios.get(rank).copied()?;
        let high = ratios.get(ratios.len().checked_sub(rank + 1)?).copied()?;
        Some((low, high))
    });
    Some(Effect { ratio: middle, low: ends.map(|ends| ends.0), high: ends.map(|ends| ends.1) })
}

/// The median of sorted ratios; between two it is their geometric mean, so that swapping the sides inverts it.
fn geometric_median(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(half.checked_sub(1)?)?;
    Some((lower.ln() / 2.0 + upper.ln() / 2.0).exp())
}

/// Zero-based position of the interval's lower end among the sorted ratios.
fn interval_rank(base: usize, candidate: usize, confidence: f64) -> Option<usize> {
    let tail = (1.0 - confidence) / 2.0;
    let total = base + candidate;
    if total > MAX_EXACT_RUNS {
        let (pairs, total) = ((base * candidate) as f64, total as f64);
        let spread = (pairs * (total + 1.0) / 12.0).sqrt();
        let rank = pairs / 2.0 - normal_quantile(1.0 - tail) * spread - 0.5;
        return (rank >= 0.0).then_some(rank.floor() as usize);
    }
    // Without ties: U = rank sum - n(n+1)/2, in steps of two doubled ranks.
    let ranks: Vec<u64> = (1..=total as u64).map(|rank| 2 * rank).collect();
    let ways = ways(&ranks, candidate);
    let all: f64 = ways.iter().sum();
    let lowest = candidate * (candidate + 1);
    let mut below = 0.0;
    let mut rank = None;
    for (u, count) in ways.iter().skip(lowest).step_by(2).enumerate() {
        below += count / all;
        // P(U <= u) within the tail: the (u+1)-th smallest ratio, position u, is a lower end.
        if below > tail {
            break;
        }
        rank = Some(u);
    }
    rank
}

/// The point that the normal distribution stays below with the given chance, by bisection of its tail.
fn normal_quantile(chance: f64) -> f64 {
    let (mut low, mut high) = (-10.0_f64, 10.0_f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if 1.0 - upper_normal(middle) < chance {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Benjamini-Hochberg: each p adjusted for the number of metrics, in the order given. Significant at a level where the
/// adjusted p does not exceed it.
pub fn adjusted(ps: &[f64]) -> Vec<f64> {
    let count = ps.len() as f64;
    let mut order: Vec<(usize, f64)> = ps.iter().copied().enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut out = vec![1.0; ps.len()];
    let mut least = 1.0_f64;
    for (place, (at, p)) in order.into_iter().enumerate() {
        // The largest p has rank m, the smallest rank 1.
        least = least.min(p * count / (count - place as f64));
        if let Some(slot) = out.get_mut(at) {
            *slot = least;
        }
    }
    out
}

/// The middle value; the mean of the two middle ones of an even number. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*sorted.get(half.checked_sub(1)?)?, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chance by looking at every way to choose the candidate's values.
    fn enumerated(base: &[f64], candidate: &[f64]) -> f64 {
        let all: Vec<f64> = base.iter().chain(candidate).copied().collect();
        let above = |chosen: &[f64], rest: &[f64]| -> f64 {
            let pairs = chosen.iter().flat_map(|a| rest.iter().map(move |b| (a, b)));
            pairs
                .map(|(a, b)| {
                    if a > b {
                        1.0
                    } else if a == b {
                        0.5
                    } else {
                        0.0
                    }
                })
                .sum()
        };
        let seen = above(candidate, base);
        let (mut extreme, mut ways) = (0.0, 0.0);
        for mask in 0_u32..1 << all.len() {
            if mask.count_ones() as usize != candidate.len() {
                continue;
            }
            let (mut chosen, mut rest) = (Vec::new(), Vec::new());
            for (at, value) in all.iter().enumerate() {
                if mask >> at & 1 == 1 { chosen.push(*value) } else { rest.push(*value) }
            }
            ways += 1.0;
            extreme += f64::from(u8::from(above(&chosen, &rest) >= seen));
        }
        extreme / ways
    }

    #[test]
    fn the_chance_is_that_of_every_possible_split() {
        let cases: [(&[f64], &[f64]); 6] = [
            (&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]),
            (&[1.0, 4.0, 6.0, 7.0], &[2.0, 3.0, 5.0, 8.0, 9.0]),
            (&[1.0, 1.0, 2.0, 2.0], &[1.0, 2.0, 2.0, 3.0]),
            (&[5.0, 5.0, 5.0], &[5.0, 5.0, 5.0]),
            (&[3.0], &[1.0, 2.0]),
            (&[0.1, 0.2, 0.2, 0.3, 0.9, 0.4], &[0.2, 0.5, 0.5, 0.9, 1.0]),
        ];
        for (base, candidate) in cases {
            for (base, candidate) in [(base, candidate), (candidate, base)] {
                let p = larger(base, candidate).expect("finite");
                assert!((p - enumerated(base, candidate)).abs() < 1e-12, "{base:?} {candidate:?}: {p}");
            }
        }
        assert_eq!(larger(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]), Some(1.0 / 252.0));
    }

    #[test]
    fn what_is_not_finite_or_empty_has_no_chance_and_no_ratio() {
        for (base, candidate) in [(&[][..], &[1.0][..]), (&[1.0], &[]), (&[f64::NAN], &[1.0]), (&[1.0], &[f64::INFINITY])] {
            assert_eq!(larger(base, candidate), None);
            assert_eq!(ratio(base, candidate, 0.95), None);
        }
        assert_eq!(ratio(&[0.0, 1.0], &[1.0], 0.95), None, "zero has no ratio");
        assert_eq!(ratio(&[1e-300], &[1e300], 0.95), None, "out of range");
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_approximation_meets_the_exact_chance() {
        let base: Vec<f64> = (0..30).map(|at| f64::from(at) * 1.7 % 11.0).collect();
        let candidate: Vec<f64> = (0..30).map(|at| f64::from(at) * 2.3 % 11.0 + 1.0).collect();
        let exact = larger(&base, &candidate).expect("finite");
        let (sum, ranks) = doubled_ranks(&base, &candidate);
        let close = normal_tail(sum, &ranks, candidate.len());
        assert_eq!(ranks.len(), MAX_EXACT_RUNS);
        assert!((exact - close).abs() < 0.005, "{exact} {close}");
    }

    #[test]
    fn the_ratio_is_the_middle_of_all_ratios_and_swaps_into_its_inverse() {
        let (base, candidate) = ([1.0, 1.1, 0.9, 1.05, 0.95], [1.3, 1.25, 1.35, 1.2, 1.28]);
        let there = ratio(&base, &candidate, 0.95).expect("above zero");
        let back = ratio(&candidate, &base, 0.95).expect("above zero");
        assert!((there.ratio * back.ratio - 1.0).abs() < 1e-12);
        let (low, high) = (there.low.expect("five runs"), there.high.expect("five runs"));
        assert!(low < there.ratio && there.ratio < high && low > 1.0, "{there:?}");
        assert!((back.low.expect("five") * high - 1.0).abs() < 1e-12);
        assert_eq!(ratio(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.95).expect("above zero").low, None, "three runs give no interval");
    }

    #[test]
    fn the_fewest_runs_grow_with_the_metrics() {
        let needed: Vec<_> = [1, 3, 5, 12].into_iter().map(|metrics| runs_needed(0.05, metrics)).collect();
        assert_eq!(needed, [Some(3), Some(4), Some(5), Some(5)]);
        assert_eq!(smallest_p(5, 5), 1.0 / 252.0);
        assert_eq!(runs_needed(1e-300, 1), None);
    }

    #[test]
    fn adjusting_keeps_the_order_and_the_largest() {
        let adjusted = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        let wanted = [0.02, 0.04, 0.04, 0.02];
        assert!(adjusted.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-12), "{adjusted:?}");
        assert_eq!(super::adjusted(&[]), [0.0; 0]);
        assert_eq!(super::adjusted(&[0.7]), [0.7]);
    }
}
