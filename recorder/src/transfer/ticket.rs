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

    /// Event of the oldest upload.
    pub fn oldest(&self) -> Option<EventId> {
        self.live.front().map(|ticket| ticket.event)
    }

    /// Retires tickets from the oldest on while their events have been passed and `may_retire` agrees. Never waits.
    /// Beside the outcome, what was retired until then.
    ///
    /// # Errors
    /// The driver's; a ticket whose event could not be asked stays.
    pub fn reap(
        &mut self,
        driver: &dyn Driver,
        pool: &mut EventPool,
        mut may_retire: impl FnMut(&Ticket) -> bool,
    ) -> (Vec<Ticket>, DriverResult<()>) {
        let mut retired = Vec::new();
        while let Some(ticket) = self.live.front().copied().filter(|ticket| may_retire(ticket)) {
            match driver.event_query(ticket.event) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return (retired, Err(error)),
            }
            self.live.pop_front();
            retired.push(ticket);
            if let Err(error) = pool.give(ticket.event) {
                return (retired, Err(error));
            }
        }
        (retired, Ok(()))
    }
}
