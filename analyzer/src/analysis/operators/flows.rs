//! Arrows: "Which launch started which work, as the profiler drew it?"
//!
//! Uses `run`. Invariants: an arrow has both ends or is none; ends are joined where category, name and identifier are
//! equal, exactly; an arrow never points backwards in time.

use crate::run::operators::{FlowPoint, FlowStep, OperatorTrace};

/// One end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Position of the track.
    pub track: u32,
    /// Position of the slice on it; `None` where there is no slice, so that the end is a moment of its own.
    pub slice: Option<u32>,
    /// Position of the end among the trace's.
    pub point: u32,
}

/// All arrows of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrows {
    /// Both ends of each.
    pub list: Vec<(Place, Place)>,
    /// Ends without the other end.
    pub unmatched: u64,
    /// Arrows that would point backwards.
    pub backwards: u64,
}

/// Joins the ends.
pub fn arrows(trace: &OperatorTrace) -> Arrows {
    let bound = bind(trace);
    let mut order: Vec<u32> = (0..trace.flows.len() as u32).collect();
    let point = |at: u32| trace.flows.get(at as usize);
    let same = |a: &FlowPoint, b: &FlowPoint| (a.category, a.name, a.id) == (b.category, b.name, b.id);
    order.sort_unstable_by_key(|at| point(*at).map(|p| (p.category, p.name, p.id, p.at, p.step, p.sequence)));
    let mut arrows = Arrows::default();
    // The end that is open, and whether anything came of it.
    let mut open: Option<(u32, bool)> = None;
    for at in order {
        let Some(here) = point(at) else { continue };
        let before = open.and_then(|(before, _)| point(before)).is_some_and(|before| same(before, here));
        if !before || here.step == FlowStep::Start {
            arrows.unmatched += u64::from(open.is_some_and(|(_, used)| !used));
            open = (here.step == FlowStep::Start).then_some((at, false));
            arrows.unmatched += u64::from(open.is_none());
            continue;
        }
        let Some((from, used)) = &mut open else { continue };
        *used = true;
        let place = |at: u32| {
            let track = point(at).map(|point| point.track);
            let slice = bound.get(at as usize).copied().flatten();
            track.map(|track| Place { track, slice, point: at })
        };
        if let (Some(from), Some(to)) = (place(*from), place(at)) {
            match key(trace, &from) < key(trace, &to) {
                true => arrows.list.push((from, to)),
                false => arrows.backwards += 1,
            }
        }
        if here.step == FlowStep::Step {
            *from = at;
        }
    }
    arrows.unmatched += u64::from(open.is_some_and(|(_, used)| !used));
    arrows
}

/// Where an end stands in the order in which events are written: time, moments before slices, track, slice.
fn key(trace: &OperatorTrace, place: &Place) -> (i64, bool, u32, u32) {
    let slice = place.slice.and_then(|slice| trace.tracks.get(place.track as usize)?.slices.get(slice as usize));
    match slice {
        Some(found) => (found.start, found.start < found.end, place.track + 1, place.slice.unwrap_or(u32::MAX)),
        None => (trace.flows.get(place.point as usize).map_or(i64::MAX, |flow| flow.at), false, 0, place.point),
    }
}

/// The slice that each end belongs to.
fn bind(trace: &OperatorTrace) -> Vec<Option<u32>> {
    let mut bound = vec![None; trace.flows.len()];
    let mut order: Vec<u32> = (0..trace.flows.len() as u32).collect();
    let point = |at: u32| trace.flows.get(at as usize);
    order.sort_unstable_by_key(|at| point(*at).map(|point| (point.track, point.at, point.sequence)));
    for ends in order.chunk_by(|a, b| point(*a).map(|p| p.track) == point(*b).map(|p| p.track)) {
        let Some(track) = ends.first().and_then(|at| trace.tracks.get(point(*at)?.track as usize)) else { continue };
        let mut open: Vec<(i64, u32)> = Vec::new();
        let mut next = 0;
        for at in ends {
            let Some(end) = point(*at) else { continue };
            while let Some(slice) = track.slices.get(next).filter(|slice| slice.start <= end.at) {
                open.retain_last(slice.start);
                open.push((slice.end, next as u32));
                next += 1;
            }
            open.retain_last(end.at);
            let around = open.last().map(|(_, slice)| *slice);
            let following = || {
                let from = track.slices.partition_point(|slice| slice.start < end.at);
                (from < track.slices.len()).then_some(from as u32)
            };
            let found = match end.step {
                FlowStep::EndNext => following().or(around),
                _ => around,
            };
            if let Some(place) = bound.get_mut(*at as usize) {
                *place = found;
            }
        }
    }
    bound
}

trait RetainLast {
    /// Drops what ended before a moment from the top.
    fn retain_last(&mut self, at: i64);
}

impl RetainLast for Vec<(i64, u32)> {
    fn retain_last(&mut self, at: i64) {
        while self.last().is_some_and(|(end, _)| *end < at) {
            self.pop();
        }
    }
}
