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
    (0..candidate).fold(1.0, |p, at| p * (at + 1) as f64 / (base + at + 1) as f64)
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
    if ratios.iter().any(|ratio| !ratio.is_finite()) {
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
