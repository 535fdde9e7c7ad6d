//! "Which way is the fastest?" Ways to place a component, compared by simulating passes.

use super::forecast::{Costs, Forecast, StreamPlan};
use crate::limits::{FORECAST_PASSES, MAX_AHEAD_PARTS, MAX_FORECAST_VISITS, MAX_PARALLEL_FORECASTS, MIN_PARALLEL_VISITS};

/// A way, as the simulation sees it.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// For each part, whether it stays.
    pub resident: &'a [bool],
    /// Stream memory.
    pub stream: StreamPlan,
}

/// One assumption about work and link.
#[derive(Clone, Debug)]
pub struct Scene {
    /// What a pass costs then.
    pub costs: Costs,
    /// The least time that a pass could take under the ceiling, in nanoseconds: times are compared as ratios to it.
    pub floor_ns: u64,
}

/// What was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Index of the way.
    pub way: usize,
    /// The largest ratio of a pass to its floor, over all scenes.
    pub worst_ratio: f64,
}

/// The way with the smallest worst ratio over the scenes; the earlier one where two are equal, so ways are given in the
/// order of preference. `None` when none of them runs, or the simulations would cost too much.
pub fn choose(scenes: &[Scene], ways: &[Way<'_>]) -> Option<Choice> {
    // What streams least is tried first: once a bound is above the best ratio, so are all behind it.
    let mut order: Vec<(usize, f64)> = ways.iter().enumerate().map(|(index, way)| (index, bound(scenes, way))).collect();
    order.sort_by(|(a, x), (b, y)| x.total_cmp(y).then(a.cmp(b)));
    let (mut best, mut visits): (Option<Choice>, u64) = (None, 0);
    let mut left = order.as_slice();
    while let Some((_, bound)) = left.first() {
        if best.is_some_and(|best| *bound > best.worst_ratio) {
            break;
        }
        let (batch, further) = left.split_at(left.len().min(side_by_side(visits)));
        left = further;
        let mut affordable: Vec<(usize, &Way<'_>)> = Vec::new();
        for (index, way) in batch.iter().filter_map(|(index, _)| ways.get(*index).map(|way| (*index, way))) {
            visits = visits.saturating_add(scenes.iter().map(|scene| cost(&scene.costs, way)).sum());
            if visits > MAX_FORECAST_VISITS {
                left = &[];
                break;
            }
            affordable.push((index, way));
        }
        let limit = best.map_or(f64::INFINITY, |best| best.worst_ratio);
        for (index, worst_ratio) in worst_of_each(scenes, &affordable, limit) {
            let better =
                best.is_none_or(|best| worst_ratio < best.worst_ratio || (worst_ratio == best.worst_ratio && index < best.way));
            if better {
                best = Some(Choice { way: index, worst_ratio });
            }
        }
    }
    best
}

/// How many ways are simulated at a time: one while all is done in a moment, later one on each processor. Which way wins does
/// not depend on it.
fn side_by_side(visits: u64) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if visits < MIN_PARALLEL_VISITS { 1 } else { processors().min(MAX_PARALLEL_FORECASTS) }
}

/// The worst ratio of each way that runs and is not worse than the limit.
fn worst_of_each(scenes: &[Scene], ways: &[(usize, &Way<'_>)], limit: f64) -> Vec<(usize, f64)> {
    if let [(index, way)] = ways {
        return worst(scenes, way, limit).map(|ratio| (*index, ratio)).into_iter().collect();
    }
    std::thread::scope(|scope| {
        let started: Vec<_> = ways
            .iter()
            .map(|(index, way)| {
                let thread = std::thread::Builder::new().spawn_scoped(scope, move || worst(scenes, way, limit));
                (*index, *way, thread.ok())
            })
            .collect();
        let ended = started.into_iter().map(|(index, way, thread)| {
            // One that has no thread of its own runs here.
            let ratio = thread.and_then(|thread| thread.join().ok()).unwrap_or_else(|| worst(scenes, way, limit));
            ratio.map(|ratio| (index, ratio))
        });
        ended.flatten().collect()
    })
}

/// The worst ratio; `None` when the way does not run or is worse than the limit.
fn worst(scenes: &[Scene], way: &Way<'_>, limit: f64) -> Option<f64> {
    let mut worst: f64 = 0.0;
    for scene in scenes {
        worst = worst.max(ratio(scene, steady(&scene.costs, way)?));
        if worst > limit {
            return None;
        }
    }
    Some(worst)
}

/// Nanoseconds of a steady pass.
pub fn steady(costs: &Costs, way: &Way<'_>) -> Option<u64> {
    let (warm, counted) = FORECAST_PASSES;
    Forecast::new(costs, way.resident, way.stream).steady(warm, counted)
}

fn ratio(scene: &Scene, pass_ns: u64) -> f64 {
    pass_ns as f64 / scene.floor_ns.max(1) as f64
}

/// No pass can be faster than its copies or its work.
fn bound(scenes: &[Scene], way: &Way<'_>) -> f64 {
    let least = |scene: &Scene| {
        let parts = scene.costs.parts.iter().zip(way.resident);
        let copied = |bytes: &(u64, u64)| scene.costs.link.copy_ns(bytes.1);
        let copies: u64 = parts.filter(|(_, stays)| !**stays).flat_map(|(part, _)| &part.copies).map(copied).sum();
        let work: u64 = scene.costs.parts.iter().flat_map(|part| &part.work_ns).sum();
        ratio(scene, copies.max(work))
    };
    scenes.iter().map(least).fold(0.0, f64::max)
}

/// Visits of parts that a simulation makes: each launch looks at the parts that may be ahead.
fn cost(costs: &Costs, way: &Way<'_>) -> u64 {
    let parts = costs.parts.len() as u64;
    let bytes: u64 = costs.parts.iter().map(|part| part.bytes).sum();
    let ahead = match way.stream {
        StreamPlan::Slots { count, .. } => count,
        StreamPlan::Ring { bytes: ring } => ring / (bytes / parts.max(1)).max(1),
        StreamPlan::Arena => 0,
    };
    let (warm, counted) = FORECAST_PASSES;
    parts * (warm + counted) * 2 * (ahead.min(MAX_AHEAD_PARTS) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{
        Baseline, LaunchScope, LinkModel, PartCost, PartSize, least_recently_used, resident_prefix, ways_to_place_parts,
    };

    const PAGE: u64 = 2 << 20;

    /// Bytes of the matrices of a Flux-shaped transformer, by block.
    fn flux() -> Vec<Vec<u64>> {
        let square = 3072 * 3072 * 2;
        let block = |factors: &[u64]| factors.iter().map(|factor| factor * square).collect::<Vec<u64>>();
        let double = block(&[6, 6, 3, 3, 1, 1, 4, 4, 4, 4]);
        let single = block(&[3, 4, 3, 5]);
        [vec![double; 8], vec![single; 16]].concat()
    }

    fn costs(units: &[Vec<u64>], parts: bool, work_ns: u64, look_ahead: bool) -> Costs {
        let all: u64 = units.iter().flatten().sum();
        let work = |bytes: u64| (u128::from(work_ns) * u128::from(bytes) / u128::from(all)) as u64;
        let cost = |(unit, sizes): (usize, &Vec<u64>)| {
            let whole = PartCost {
                unit,
                bytes: sizes.iter().sum(),
                copies: vec![(0, sizes.iter().sum())],
                work_ns: sizes.iter().map(|bytes| work(*bytes)).collect(),
            };
            let each = |bytes: &u64| PartCost { unit, bytes: *bytes, copies: vec![(0, *bytes)], work_ns: vec![work(*bytes)] };
            if parts { sizes.iter().map(each).collect() } else { vec![whole] }
        };
        Costs {
            parts: units.iter().enumerate().flat_map(cost).collect(),
            link: LinkModel { bytes_per_second: Some(55_300_000_000), latency_ns: 2000 },
            launches: if parts { LaunchScope::Parts } else { LaunchScope::Units },
            least_stage_bytes: 1 << 20,
            look_ahead,
        }
    }

    fn baseline(units: &[Vec<u64>], work_ns: u64, make: fn(&[u64], u64) -> Baseline, ceiling: u64) -> u64 {
        let sizes: Vec<u64> = units.iter().map(|unit| unit.iter().sum()).collect();
        let Baseline { resident, stream, look_ahead } = make(&sizes, ceiling);
        steady(&costs(units, false, work_ns, look_ahead), &Way { resident: &resident, stream }).expect("it runs")
    }

    #[test]
    fn the_plan_is_close_to_the_floor_and_beats_prefix_and_least_recently_used() {
        let units = flux();
        let total: u64 = units.iter().flatten().sum();
        for (gib, work_ns) in [4, 2].into_iter().flat_map(|gib| [6_900_000, 24_000_000, 125_000_000].map(|work| (gib, work))) {
            let ceiling = gib << 30;
            let measured = costs(&units, true, work_ns, true);
            let floor_ns = work_ns.max(measured.link.copy_ns(total - ceiling));
            let sizes: Vec<PartSize> =
                measured.parts.iter().map(|part| PartSize { unit: part.unit, bytes: part.bytes }).collect();
            let ways = ways_to_place_parts(&sizes, PAGE, ceiling, LaunchScope::Parts).expect("it fits");
            let seen: Vec<Way<'_>> = ways
                .iter()
                .map(|way| Way { resident: &way.resident, stream: StreamPlan::Ring { bytes: way.ring_bytes } })
                .collect();
            let choice = choose(&[Scene { costs: measured, floor_ns }], &seen).expect("one runs");
            let prefix = baseline(&units, work_ns, resident_prefix, ceiling) as f64 / floor_ns as f64;
            let least_recent = baseline(&units, work_ns, least_recently_used, ceiling) as f64 / floor_ns as f64;
            assert!(choice.worst_ratio < 1.04, "{gib} GiB, {work_ns} ns of work: {}", choice.worst_ratio);
            assert!(choice.worst_ratio < prefix && choice.worst_ratio < least_recent);
        }
    }
}
