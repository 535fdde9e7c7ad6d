//! Stream memory: where streamed contents take turns, whatever its shape. Whole units take turns in fixed slots, parts
//! of units in one ring.

use super::{SlotPool, StreamRing};
use crate::driver::{DeviceAddress, DriverResult, EventId, StreamId};

/// What a place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Whose contents they are.
    pub owner: usize,
    /// Uploaded ahead and not asked for yet.
    pub ahead: bool,
}

/// Names a place inside stream memory while it is not displaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlaceKey(pub(super) u64);

/// The latest work of one stream that reads a place and whose end is not proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// The stream.
    pub stream: StreamId,
    /// The event behind the work.
    pub event: EventId,
}

/// A consumer that an upload must wait for before it writes from a byte of its place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// First byte of the new place that the consumer may still read.
    pub from: u64,
    /// Who reads there.
    pub consumer: Consumer,
}

/// A place that may be taken: nobody has it in hand. Nothing has changed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub(super) key: PlaceKey,
    pub(super) bytes: u64,
    /// Places that lose their contents.
    pub(super) displaced: Vec<PlaceKey>,
    pub(super) fences: Vec<Fence>,
}

impl Claim {
    /// The place.
    pub fn key(&self) -> PlaceKey {
        self.key
    }

    /// What the upload must wait for, by the first byte that it matters for.
    pub fn fences(&self) -> &[Fence] {
        &self.fences
    }
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Everything else is wanted: uploaded ahead, or to be kept.
    Wanted,
    /// What is in hand leaves no place.
    InHand,
}

/// How a place is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    /// Bytes that it must hold.
    pub bytes: u64,
    /// Owners whose contents must not be displaced.
    pub keep: &'a [usize],
    /// Whether the search goes on behind contents that were uploaded ahead; look-ahead ends there, since what comes
    /// first must also arrive first.
    pub past_ahead: bool,
}

/// The stream memory of a session.
#[derive(Debug)]
pub enum StreamMemory {
    /// Fixed slots for whole units.
    Slots(SlotPool),
    /// A ring for parts of units.
    Ring(StreamRing),
}

macro_rules! either {
    ($self:expr, $memory:ident => $call:expr) => {
        match $self {
            StreamMemory::Slots($memory) => $call,
            StreamMemory::Ring($memory) => $call,
        }
    };
}

impl StreamMemory {
    /// First byte of a place.
    pub fn address(&self, key: PlaceKey) -> DeviceAddress {
        either!(self, memory => memory.address(key))
    }

    /// All bytes, as settled at attach.
    pub fn capacity_bytes(&self) -> u64 {
        either!(self, memory => memory.capacity_bytes())
    }

    /// Bytes of memory mapped.
    pub fn resident_bytes(&self) -> u64 {
        either!(self, memory => memory.resident_bytes())
    }

    /// Bytes that may never be used again.
    pub fn quarantined_bytes(&self) -> u64 {
        either!(self, memory => memory.quarantined_bytes())
    }

    /// The place that holds an owner's contents.
    pub fn find(&self, owner: usize) -> Option<(PlaceKey, Holding)> {
        either!(self, memory => memory.find(owner))
    }

    /// Looks for the place to fill next. Changes nothing.
    ///
    /// # Errors
    /// Why there is none.
    pub fn survey(&self, want: &Want<'_>) -> Result<Claim, Blocked> {
        either!(self, memory => memory.survey(want))
    }

    /// Takes a place: what was there is gone. The fences that have not been waited for yet are the caller's: see
    /// [`StreamMemory::owe`].
    pub fn commit(&mut self, claim: &Claim) {
        either!(self, memory => memory.commit(claim));
    }

    /// Takes fences back that no upload waits for after all.
    pub fn owe(&mut self, key: PlaceKey, consumers: impl IntoIterator<Item = Consumer>) {
        either!(self, memory => memory.owe(key, consumers));
    }

    /// Says what a place now holds.
    pub fn hold(&mut self, key: PlaceKey, holding: Holding) {
        either!(self, memory => memory.hold(key, holding));
    }

    /// Notes that contents uploaded ahead were asked for.
    pub fn consume(&mut self, key: PlaceKey) {
        either!(self, memory => memory.consume(key));
    }

    /// Takes the contents into hand.
    pub fn guard(&mut self, key: PlaceKey) {
        either!(self, memory => memory.guard(key));
    }

    /// Notes work that reads the contents; it replaces earlier work of the same stream.
    pub fn note_consumer(&mut self, key: PlaceKey, consumer: Consumer) {
        either!(self, memory => memory.note_consumer(key, consumer));
    }

    /// Lets the contents go.
    pub fn unguard(&mut self, key: PlaceKey) {
        either!(self, memory => memory.unguard(key));
    }

    /// Forgets a consumer whose completion is proven.
    pub fn consumer_done(&mut self, keys: &[PlaceKey], event: EventId) {
        either!(self, memory => memory.consumer_done(keys, event));
    }

    /// Owners whose contents were uploaded ahead and not asked for.
    pub fn ahead(&self) -> Vec<usize> {
        either!(self, memory => memory.ahead())
    }

    /// Gives up contents uploaded ahead, except where `keep` agrees with the owner; returns the owners. The next
    /// upload into such a place runs on the same stream, behind the one that filled it.
    pub fn cancel_ahead(&mut self, keep: impl Fn(usize) -> bool) -> Vec<usize> {
        either!(self, memory => memory.cancel_ahead(keep))
    }

    /// Keeps a place out of use for good.
    pub fn quarantine(&mut self, key: PlaceKey) {
        either!(self, memory => memory.quarantine(key));
    }

    /// Gives everything back that is not quarantined; every use must have been proven complete.
    ///
    /// # Errors
    /// The first driver error. What could not be given back stays counted.
    pub fn release(&mut self) -> DriverResult<()> {
        either!(self, memory => memory.release())
    }
}

/// Replaces the consumer of the same stream: streams run in order, so the later work ends later.
pub(super) fn replace_consumer(consumers: &mut Vec<Consumer>, consumer: Consumer) {
    consumers.retain(|other| other.stream != consumer.stream);
    consumers.push(consumer);
}
