//! Begins and ends: "Which end closes which begin?"
//!
//! Uses `build` and `run`. Invariants: a slice is made only of a begin and an end of one thread, or of one identifier;
//! at one moment file order counts; what has no counterpart is a moment and counted.

use super::build::Builder;
use super::repairs::Loss;
use crate::run::operators::{Moment, MomentKind, NO_LINK, OperatorSlice, OperatorTrace};

/// A begin or an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Half {
    pub(super) at: i64,
    pub(super) sequence: u32,
    pub(super) name: u32,
    pub(super) category: u16,
    pub(super) begins: bool,
}

/// One of an asynchronous pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsyncHalf {
    pub(super) key: u32,
    pub(super) track: u32,
    pub(super) half: Half,
}

impl Builder {
    /// Pairs what is open, puts everything in order, and hands the trace over.
    pub(super) fn finish(&mut self) -> OperatorTrace {
        for (track, mut halves) in std::mem::take(&mut self.halves) {
            halves.sort_unstable_by_key(|half| (half.at, half.sequence));
            self.pair(track, &halves);
        }
        let mut halves = std::mem::take(&mut self.async_halves);
        halves.sort_unstable_by_key(|half| (half.key, half.half.at, half.half.sequence));
        for group in halves.chunk_by(|a, b| a.key == b.key) {
            let list: Vec<Half> = group.iter().map(|half| half.half).collect();
            if let Some(first) = group.first() {
                self.pair(first.track, &list);
            }
        }
        let mut trace = std::mem::take(&mut self.trace);
        trace.names = std::mem::take(&mut self.names.list);
        for track in &mut trace.tracks {
            track.slices.sort_unstable_by_key(OperatorSlice::order);
        }
        trace.moments.sort_unstable_by_key(|moment| (moment.at, moment.sequence));
        for counter in &mut trace.counters {
            counter.values.sort_by_key(|(at, _)| *at);
        }
        trace
    }

    fn pair(&mut self, track: u32, halves: &[Half]) {
        let mut open: Vec<&Half> = Vec::new();
        let mut alone: Vec<&Half> = Vec::new();
        for half in halves {
            if half.begins {
                open.push(half);
                continue;
            }
            let Some(begin) = open.pop() else {
                alone.push(half);
                continue;
            };
            let Half { at: start, name, sequence, category, .. } = *begin;
            if let Some(track) = self.trace.tracks.get_mut(track as usize) {
                track.slices.push(OperatorSlice { start, end: half.at, name, sequence, link: NO_LINK, category });
            }
        }
        for half in alone.into_iter().chain(open) {
            self.tally.lost(Loss::Unpaired);
            let Half { at, name, sequence, category, .. } = *half;
            self.trace.moments.push(Moment { at, track, name, sequence, category, kind: MomentKind::Unpaired });
        }
    }
}
