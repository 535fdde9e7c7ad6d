//! One consistent reading of a session for its observers.

use super::state::Inner;
use crate::memory::{ArenaLevels, TemporaryLevels};
use crate::plan::Places;
use crate::transfer::EventLevels;

/// Gauges and limits, read under the session's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// The arena.
    pub arena: ArenaLevels,
    /// Events of uploads and work.
    pub events: EventLevels,
    /// Number of slots and bytes of one; `None` where parts take turns in a ring.
    pub slots: Option<(u64, u64)>,
    /// Bytes of stream memory: all slots, or the ring.
    pub stream_bytes: u64,
    /// Memory outside the ceiling.
    pub temporaries: TemporaryLevels,
    /// Bytes mapped under stream memory.
    pub stream_resident_bytes: u64,
    /// Capacity of what lives as long as the component, and the bytes mapped under it; `None` where nothing is to.
    pub lifetime: Option<(u64, u64)>,
    /// Units uploaded ahead and not asked for yet.
    pub ahead_in_flight: u64,
    /// Parts uploaded ahead and not asked for yet.
    pub ahead_parts_in_flight: u64,
    /// Upload tickets whose end is not proven.
    pub live_tickets: u64,
    /// Units held by guards or by work.
    pub pinned_units: u64,
    /// Bytes that may never be used again.
    pub quarantined_bytes: u64,
    /// Bytes of host memory registered where they lie.
    pub pinned_bytes: u64,
    /// Source bytes registered for direct copies.
    pub registered_bytes: u64,
    /// Passes that taught an order.
    pub passes: u64,
    /// Passes that left the learned order.
    pub mismatches: u64,
}

impl Inner {
    /// Reads the levels. Never waits for the device.
    pub(crate) fn levels(&self) -> Levels {
        let mut state = self.lock();
        self.take_registered(&mut state);
        Levels {
            arena: state.arena.levels(),
            events: state.events.levels(),
            slots: match &*state.stream {
                Places::Slots(slots) => Some((slots.count(), slots.slot_bytes())),
                Places::Ring(_) => None,
            },
            stream_bytes: state.stream.capacity_bytes(),
            temporaries: state.temporaries.levels(),
            stream_resident_bytes: state.stream.resident_bytes(),
            lifetime: state.lifetime.as_ref().map(|buffer| (buffer.capacity_bytes(), buffer.resident_bytes())),
            ahead_in_flight: state.accounts.iter().filter(|account| account.ahead).count() as u64,
            ahead_parts_in_flight: state.stream.ahead().len() as u64,
            live_tickets: state.tickets.live(),
            pinned_units: state.accounts.iter().filter(|account| account.pins > 0).count() as u64,
            quarantined_bytes: state.quarantined_bytes() + self.book.lost_bytes.get(),
            pinned_bytes: state.registrations.pinned_bytes(),
            registered_bytes: state.registrations.registered_bytes(),
            passes: state.order.passes(),
            mismatches: state.order.mismatches(),
        }
    }
}

impl Levels {
    /// All device memory that holds weights, in bytes.
    pub fn total_weight_resident_bytes(&self) -> u64 {
        self.arena.resident_bytes + self.stream_resident_bytes + self.lifetime.map_or(0, |(_, resident)| resident)
    }
}
