//! "Which place comes next?" Places in stream memory: who is where, who still reads there, what may be displaced.
//!
//! Pure and generic over what a reader is: the session's readers are events, those of a simulated pass are times. So
//! the plan is made with the rules that the session follows.

mod ring;
mod slots;

pub use ring::RingPlaces;
pub use slots::SlotPlaces;

/// Somebody who reads a place and whose end is not proven.
pub trait Reader: Copy + PartialEq {
    /// True where the end of this one proves the end of the other: later work of the same stream.
    fn outlasts(&self, other: &Self) -> bool;
}

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
pub struct PlaceKey(pub(crate) u64);

/// A reader that an upload must wait for before it writes from a byte of its place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence<C> {
    /// First byte of the new place that the reader may still read.
    pub from: u64,
    /// Who reads there.
    pub consumer: C,
}

/// A place that may be taken: nobody has it in hand. Nothing has changed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim<C> {
    key: PlaceKey,
    bytes: u64,
    /// Places that lose their contents.
    displaced: Vec<PlaceKey>,
    fences: Vec<Fence<C>>,
}

impl<C> Claim<C> {
    /// The place.
    pub fn key(&self) -> PlaceKey {
        self.key
    }

    /// What the upload must wait for, by the first byte that it matters for.
    pub fn fences(&self) -> &[Fence<C>] {
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

/// All places of a session.
#[derive(Clone, Debug)]
pub enum Places<C> {
    /// Fixed slots for whole units.
    Slots(SlotPlaces<C>),
    /// A ring for parts of units.
    Ring(RingPlaces<C>),
}

macro_rules! either {
    ($self:expr, $places:ident => $call:expr) => {
        match $self {
            Places::Slots($places) => $call,
            Places::Ring($places) => $call,
        }
    };
}

impl<C: Reader> Places<C> {
    /// Offset of a place's first byte.
    pub fn offset(&self, key: PlaceKey) -> u64 {
        either!(self, places => places.offset(key))
    }

    /// All bytes.
    pub fn capacity_bytes(&self) -> u64 {
        either!(self, places => places.capacity_bytes())
    }

    /// The place that holds an owner's contents.
    pub fn find(&self, owner: usize) -> Option<(PlaceKey, Holding)> {
        either!(self, places => places.find(owner))
    }

    /// Looks for the place to fill next. Changes nothing.
    ///
    /// # Errors
    /// Why there is none.
    pub fn survey(&self, want: &Want<'_>) -> Result<Claim<C>, Blocked> {
        either!(self, places => places.survey(want))
    }

    /// Takes a place: what was there is gone. The fences that have not been waited for yet are the caller's: see
    /// [`Places::owe`].
    pub fn commit(&mut self, claim: &Claim<C>) {
        either!(self, places => places.commit(claim));
    }

    /// Takes fences back that no upload waits for after all.
    pub fn owe(&mut self, key: PlaceKey, consumers: impl IntoIterator<Item = C>) {
        either!(self, places => places.owe(key, consumers));
    }

    /// Says what a place now holds.
    pub fn hold(&mut self, key: PlaceKey, holding: Holding) {
        either!(self, places => places.hold(key, holding));
    }

    /// Notes that contents uploaded ahead were asked for.
    pub fn consume(&mut self, key: PlaceKey) {
        either!(self, places => places.consume(key));
    }

    /// Takes the contents into hand.
    pub fn guard(&mut self, key: PlaceKey) {
        either!(self, places => places.guard(key));
    }

    /// Notes work that reads the contents; it replaces whatever it outlasts.
    pub fn note_consumer(&mut self, key: PlaceKey, consumer: C) {
        either!(self, places => places.note_consumer(key, consumer));
    }

    /// Lets the contents go.
    pub fn unguard(&mut self, key: PlaceKey) {
        either!(self, places => places.unguard(key));
    }

    /// Forgets readers whose end is proven.
    pub fn consumer_done(&mut self, keys: &[PlaceKey], done: impl Fn(&C) -> bool) {
        either!(self, places => places.consumer_done(keys, done));
    }

    /// Owners whose contents were uploaded ahead and not asked for.
    pub fn ahead(&self) -> Vec<usize> {
        either!(self, places => places.ahead())
    }

    /// Gives up contents uploaded ahead, except where `keep` agrees with the owner; returns the owners. The next
    /// upload into such a place runs on the same stream, behind the one that filled it.
    pub fn cancel_ahead(&mut self, keep: impl Fn(usize) -> bool) -> Vec<usize> {
        either!(self, places => places.cancel_ahead(keep))
    }

    /// Keeps a place out of use for good.
    pub fn quarantine(&mut self, key: PlaceKey) {
        either!(self, places => places.quarantine(key));
    }
}

/// Replaces what the new reader outlasts.
fn replace_reader<C: Reader>(readers: &mut Vec<C>, reader: C) {
    readers.retain(|other| !reader.outlasts(other));
    readers.push(reader);
}
