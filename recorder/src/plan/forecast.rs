//! "How long will a pass take?" A pass, simulated from bytes, compute times and the link's rate.
//!
//! The rules are those of a session whose host is far ahead of the device: parts are asked for in their order, uploads
//! run one after another on one link, work on one stream, each behind what it needs. A session on the stepped driver
//! takes exactly these times.

use super::copies::{BatchTensor, cut_at_fences, merged};
use super::places::{Claim, Holding, PlaceKey, Places, Reader, RingPlaces, SlotPlaces, Want};
use super::{LaunchScope, PassOrder};
use crate::limits::MAX_AHEAD_PARTS;

/// The link as it is imitated and predicted: one copy after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkModel {
    /// Bytes a second; `None` when copies take no time.
    pub bytes_per_second: Option<u64>,
    /// Nanoseconds of each copy on top.
    pub latency_ns: u64,
}

impl LinkModel {
    /// Nanoseconds of one copy, rounded up.
    pub fn copy_ns(&self, bytes: u64) -> u64 {
        let moving =
            self.bytes_per_second.map_or(0, |rate| (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.max(1))));
        self.latency_ns.saturating_add(u64::try_from(moving).unwrap_or(u64::MAX))
    }
}

/// What a part costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartCost {
    /// Index of the unit; parts of a unit follow each other.
    pub unit: usize,
    /// Bytes of its place.
    pub bytes: u64,
    /// Its copies: offset in the place and bytes.
    pub copies: Vec<(u64, u64)>,
    /// Nanoseconds of work for each of its tensors, in the order of their use. A launch of a whole unit takes the sum.
    pub work_ns: Vec<u64>,
}

impl PartCost {
    /// The cost of a part whose tensors are copied as one batch.
    pub fn of_batch(unit: usize, bytes: u64, batch: &[BatchTensor], work_ns: Vec<u64>) -> PartCost {
        let copies = merged(batch).iter().map(|copy| (copy.offset, copy.bytes)).collect();
        PartCost { unit, bytes, copies, work_ns }
    }
}

/// What a pass costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// In the order of the pass.
    pub parts: Vec<PartCost>,
    /// The link.
    pub link: LinkModel,
    /// What one launch reads.
    pub launches: LaunchScope,
    /// Least bytes of a copy that starts before the rest of its place is free.
    pub least_stage_bytes: u64,
    /// Whether what comes next is uploaded ahead.
    pub look_ahead: bool,
}

/// Stream memory as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPlan {
    /// Fixed slots for whole units.
    Slots {
        /// How many.
        count: u64,
        /// Bytes of one.
        bytes: u64,
    },
    /// One ring for parts.
    Ring {
        /// Its bytes.
        bytes: u64,
    },
    /// None: what does not stay comes and goes in the arena. Such passes are not simulated.
    Arena,
}

/// The moment when work on the one compute stream ends, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End(u64);

impl Reader for End {
    fn outlasts(&self, _: &End) -> bool {
        true
    }
}

/// A simulated component.
#[derive(Clone, Debug)]
pub struct Forecast<'a> {
    costs: &'a Costs,
    resident: &'a [bool],
    places: Places<End>,
    depth: u64,
    order: PassOrder,
    /// When each part's latest upload ends.
    arrives: Vec<u64>,
    in_arena: Vec<bool>,
    upload_ns: u64,
    compute_ns: u64,
}

/// A part in hand: its place in stream memory, `None` in the arena.
type Held = (usize, Option<PlaceKey>);

impl<'a> Forecast<'a> {
    /// Before the first pass: nothing is uploaded, no order is known.
    pub fn new(costs: &'a Costs, resident: &'a [bool], stream: StreamPlan) -> Forecast<'a> {
        let (places, depth) = match stream {
            StreamPlan::Slots { count, bytes } => (Places::Slots(SlotPlaces::new(count, bytes)), count.saturating_sub(1)),
            StreamPlan::Ring { bytes } => (Places::Ring(RingPlaces::new(bytes)), if bytes > 0 { MAX_AHEAD_PARTS } else { 0 }),
            StreamPlan::Arena => (Places::Slots(SlotPlaces::new(0, 0)), 0),
        };
        Forecast {
            costs,
            resident,
            places,
            depth: if costs.look_ahead { depth } else { 0 },
            order: PassOrder::default(),
            arrives: vec![0; costs.parts.len()],
            in_arena: vec![false; costs.parts.len()],
            upload_ns: 0,
            compute_ns: 0,
        }
    }

    /// Runs one pass; the nanosecond at which its work ends. `None` when stream memory cannot hold what a launch reads.
    pub fn pass(&mut self) -> Option<u64> {
        let costs = self.costs;
        let mut start = 0;
        while let Some(first) = costs.parts.get(start) {
            let own = costs.parts.iter().skip(start).take_while(|part| part.unit == first.unit).count();
            match (costs.launches, &self.places) {
                (LaunchScope::Parts, Places::Ring(_)) => (start..start + own).try_for_each(|part| self.part_by_part(part))?,
                _ => self.whole(start..start + own)?,
            }
            start += own;
        }
        self.order.end_pass();
        self.look_ahead();
        Some(self.compute_ns)
    }

    /// Nanoseconds of one steady pass: the mean over `counted` passes behind `warm` ones.
    pub fn steady(mut self, warm: u64, counted: u64) -> Option<u64> {
        let mut before = 0;
        for _ in 0..warm {
            before = self.pass()?;
        }
        let mut after = before;
        for _ in 0..counted {
            after = self.pass()?;
        }
        Some((after - before) / counted.max(1))
    }

    fn whole(&mut self, parts: std::ops::Range<usize>) -> Option<()> {
        let held = self.take(parts.clone())?;
        let work = self.costs.parts.get(parts)?.iter().flat_map(|part| &part.work_ns).sum();
        self.launch(&held, work);
        self.let_go(&held);
        self.look_ahead();
        Some(())
    }

    fn part_by_part(&mut self, part: usize) -> Option<()> {
        let held = self.take(part..part + 1)?;
        for work in &self.costs.parts.get(part)?.work_ns {
            self.launch(&held, *work);
            self.look_ahead();
        }
        self.let_go(&held);
        self.look_ahead();
        Some(())
    }

    fn launch(&mut self, held: &[Held], work_ns: u64) {
        let arrived = held.iter().filter_map(|(part, _)| self.arrives.get(*part)).max().copied().unwrap_or_default();
        self.compute_ns = self.compute_ns.max(arrived).saturating_add(work_ns);
        for key in held.iter().filter_map(|(_, key)| *key) {
            self.places.note_consumer(key, End(self.compute_ns));
        }
    }

    fn take(&mut self, parts: std::ops::Range<usize>) -> Option<Vec<Held>> {
        let mut held = Vec::new();
        if !self.place_all(parts.clone(), &mut held) {
            self.let_go(&held);
            held.clear();
            if parts.len() < 2 {
                return None;
            }
            self.places.cancel_ahead(|_| false);
            let resident = self.resident;
            if let Places::Ring(ring) = &mut self.places {
                ring.start_over(parts.clone().filter(|part| resident.get(*part) == Some(&false)));
            }
            if !self.place_all(parts.clone(), &mut held) {
                return None;
            }
        }
        for part in parts {
            self.order.arrive(part);
        }
        Some(held)
    }

    fn place_all(&mut self, parts: std::ops::Range<usize>, held: &mut Vec<Held>) -> bool {
        for part in parts {
            let key = if self.is_resident(part) {
                self.bring_to_arena(part);
                None
            } else {
                let Some(key) = self.place(part) else { return false };
                self.places.guard(key);
                Some(key)
            };
            held.push((part, key));
        }
        true
    }

    fn let_go(&mut self, held: &[Held]) {
        held.iter().filter_map(|(_, key)| *key).for_each(|key| self.places.unguard(key));
    }

    fn is_resident(&self, part: usize) -> bool {
        self.resident.get(part).copied().unwrap_or_default()
    }

    fn bytes(&self, part: usize) -> u64 {
        self.costs.parts.get(part).map_or(0, |part| part.bytes)
    }

    fn bring_to_arena(&mut self, part: usize) {
        if self.in_arena.get_mut(part).is_some_and(|there| !std::mem::replace(there, true)) {
            self.copy(part, None);
        }
    }

    fn place(&mut self, part: usize) -> Option<PlaceKey> {
        if let Some((key, holding)) = self.places.find(part) {
            if holding.ahead {
                self.places.consume(key);
            }
            return Some(key);
        }
        let want = Want { bytes: self.bytes(part), keep: &[], past_ahead: true };
        let claim = self.places.survey(&want).or_else(|_| {
            self.places.cancel_ahead(|_| false);
            self.places.survey(&want)
        });
        Some(self.fill(part, &claim.ok()?, false))
    }

    fn fill(&mut self, part: usize, claim: &Claim<End>, ahead: bool) -> PlaceKey {
        self.places.commit(claim);
        self.copy(part, Some(claim));
        self.places.hold(claim.key(), Holding { owner: part, ahead });
        claim.key()
    }

    /// The part's copies, each behind whoever still reads where it goes.
    fn copy(&mut self, part: usize, claim: Option<&Claim<End>>) {
        let Some(cost) = self.costs.parts.get(part) else { return };
        let end = cost.copies.iter().map(|(offset, bytes)| offset + bytes).max().unwrap_or_default();
        let fences = claim.map(Claim::fences).unwrap_or_default();
        for cut in cut_at_fences(end, fences, self.costs.least_stage_bytes) {
            let free = cut.consumers.iter().map(|end| end.0).max().unwrap_or_default();
            self.upload_ns = self.upload_ns.max(free);
            for (_, length) in cost.copies.iter().filter_map(|(offset, bytes)| cut.of_copy(*offset, *bytes)) {
                self.upload_ns = self.upload_ns.saturating_add(self.costs.link.copy_ns(length));
            }
        }
        if let Some(arrives) = self.arrives.get_mut(part) {
            *arrives = self.upload_ns;
        }
    }

    fn look_ahead(&mut self) {
        if self.depth == 0 {
            return;
        }
        let wanted = self.wanted();
        for (index, part) in wanted.iter().enumerate() {
            if self.places.find(*part).is_some() {
                continue;
            }
            let keep = match self.places {
                Places::Slots(_) => wanted.as_slice(),
                Places::Ring(_) => wanted.get(..index).unwrap_or_default(),
            };
            let Ok(claim) = self.places.survey(&Want { bytes: self.bytes(*part), keep, past_ahead: false }) else { return };
            self.fill(*part, &claim, true);
        }
    }

    fn wanted(&self) -> Vec<usize> {
        let (mut wanted, mut bytes) = (Vec::new(), 0u64);
        for part in (0..).map_while(|later| self.order.ahead(later)).filter(|part| !self.is_resident(*part)) {
            bytes = bytes.saturating_add(self.bytes(part));
            if wanted.len() as u64 >= self.depth || (bytes > self.places.capacity_bytes() && !wanted.is_empty()) {
                break;
            }
            wanted.push(part);
        }
        wanted
    }
}
