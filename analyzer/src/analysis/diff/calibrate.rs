//! Runs of one state: "How far apart do equal runs lie?"
//!
//! Uses the statistics. Invariants: only runs that are one experiment are measured; the splits are drawn from a fixed seed, so that the
//! same runs give the same numbers; a threshold is never below what interleaved runs are asked for.

use super::classes::{Class, GATED_BY_DEFAULT, plain};
use super::{Side, THRESHOLD_INTERLEAVED, differences, statistics};
use crate::limits::{CALIBRATION_SPLITS, MAX_THRESHOLD_PERCENT, MIN_CALIBRATION_RUNS};
use std::collections::{BTreeMap, BTreeSet};

/// Share of splits whose ratio stays within the threshold.
const QUANTILE: f64 = 0.95;

/// The noise of every time and size of equal runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// How many runs it rests on.
    pub runs: usize,
    /// Threshold in percent by metric path.
    pub thresholds: BTreeMap<String, f64>,
}

/// Why nothing could be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCalibration {
    /// Halves of fewer runs say nothing.
    #[error("a calibration needs at least {least} runs of one state; there are {got}")]
    TooFew {
        /// How many were given.
        got: usize,
        /// The fewest.
        least: usize,
    },
    /// They are not one experiment.
    #[error("the runs for a calibration are not of one state: {field}: {text}")]
    Differ {
        /// The first field that differs.
        field: String,
        /// Both values.
        text: String,
    },
}

/// Measures how far two halves of equal runs lie apart, over many random splits.
///
/// # Errors
/// With too few runs, or runs that differ.
pub fn calibrate(runs: &[Side], allow: &BTreeSet<String>) -> Result<Calibration, BadCalibration> {
    if runs.len() < MIN_CALIBRATION_RUNS {
        return Err(BadCalibration::TooFew { got: runs.len(), least: MIN_CALIBRATION_RUNS });
    }
    if let Some(first) = differences(runs, &[], allow).into_iter().find(|one| !one.allowed) {
        return Err(BadCalibration::Differ { field: first.field, text: first.text });
    }
    let splits = splits(runs.len());
    let mut thresholds = BTreeMap::new();
    let first = runs.first().map(|side| &side.figures).into_iter().flatten();
    for (path, _) in first.filter(|(path, figure)| figure.class == Class::Time || GATED_BY_DEFAULT.contains(&plain(path))) {
        let values: Option<Vec<f64>> = runs.iter().map(|run| run.figures.get(path).map(|figure| figure.value.as_f64())).collect();
        if let Some(threshold) = values.and_then(|values| threshold(&values, &splits)) {
            thresholds.insert(path.clone(), threshold);
        }
    }
    Ok(Calibration { runs: runs.len(), thresholds })
}

/// The threshold of one metric in percent; `None` unless every value is above zero.
fn threshold(values: &[f64], splits: &[Vec<bool>]) -> Option<f64> {
    let mut apart = Vec::with_capacity(splits.len());
    for split in splits {
        let half = |side: bool| -> Vec<f64> {
            values.iter().zip(split).filter(|(_, at)| **at == side).map(|(value, _)| *value).collect()
        };
        let effect = statistics::ratio(&half(false), &half(true), super::CONFIDENCE)?;
        apart.push(effect.ratio.max(1.0 / effect.ratio) - 1.0);
    }
    apart.sort_by(f64::total_cmp);
    let at = ((apart.len() as f64 * QUANTILE).ceil() as usize).saturating_sub(1);
    let noise = apart.get(at).copied()?;
    let percent = noise.max(THRESHOLD_INTERLEAVED) * 100.0;
    // Two digits are more than is known; rounded up, so that the noise stays within.
    Some(((percent * 100.0 - 1e-6).ceil() / 100.0).min(MAX_THRESHOLD_PERCENT))
}

/// Random halves: true is one side, false the other.
fn splits(runs: usize) -> Vec<Vec<bool>> {
    let mut random = SplitMix(0x00dd_0ca1_1b4a_7e00);
    let mut order: Vec<usize> = (0..runs).collect();
    (0..CALIBRATION_SPLITS)
        .map(|_| {
            for at in (1..runs).rev() {
                order.swap(at, (random.next() % (at as u64 + 1)) as usize);
            }
            let mut side = vec![false; runs];
            for chosen in order.iter().take(runs / 2) {
                if let Some(slot) = side.get_mut(*chosen) {
                    *slot = true;
                }
            }
            side
        })
        .collect()
}

/// SplitMix64 (Steele, Lea and Flood 2014): a fixed sequence from a seed.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
