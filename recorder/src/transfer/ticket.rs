//! Tickets: proof that an upload has ended.

use super::EventPool;
use crate::driver::{Driver, DriverResult, EventId};
use std::collections::VecDeque;

/// One upload in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Event behind the last copy.
    pub event: EventId,
    /// Whose contents were uploaded.
    pub owner: usize,
}

/// Tickets of one upload stream, in order of submission.
#[derive(Debug, Default)]
pub struct TicketLedger {
    live: VecDeque<Ticket>,
}

impl TicketLedger {
    /// Notes an upload.
    pub fn push(&mut self, ticket: Ticket) {
        self.live.push_back(ticket);
    }

    /// Uploads whose end is not proven.
    pub fn live(&self) -> u64 {
        self.live.len() as u64
    }

    /// Retires tickets from the oldest on while their events have been passed and `may_retire` agrees. Never waits.
    ///
    /// # Errors
    /// The driver's; the ticket asked about stays.
    pub fn reap(
        &mut self,
        driver: &dyn Driver,
        pool: &mut EventPool,
        mut may_retire: impl FnMut(&Ticket) -> bool,
    ) -> DriverResult<Vec<Ticket>> {
        let mut retired = Vec::new();
        while let Some(ticket) = self.live.front().copied() {
            if !may_retire(&ticket) || !driver.event_query(ticket.event)? {
                break;
            }
            self.live.pop_front();
            pool.give(ticket.event)?;
            retired.push(ticket);
        }
        Ok(retired)
    }
}
