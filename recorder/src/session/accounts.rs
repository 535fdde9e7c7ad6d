//! What the parts of a unit come to: reports count units, stream memory moves parts.

use super::state::{Inner, State};
use crate::plan::Holding;

/// The account of one unit.
#[derive(Debug, Default)]
pub(crate) struct UnitAccount {
    /// Guards and work that hold the unit.
    pub(crate) pins: u64,
    /// Guards alone.
    pub(crate) guards: u64,
    /// Its parts that were uploaded ahead and not asked for yet.
    pub(crate) ahead_parts: u64,
    /// All its streamed parts were uploaded ahead while nobody had it in hand.
    pub(crate) ahead: bool,
    /// Streamed parts uploaded since the unit was counted last.
    uploaded_parts: u64,
    /// Resident parts uploaded so far.
    arrived_parts: u64,
}

impl Inner {
    fn account<T>(&self, state: &mut State, part: usize, change: impl FnOnce(&mut UnitAccount, u64) -> T) -> Option<T> {
        let unit = self.parts.get(part)?.unit;
        let streamed = self.units.get(unit)?.streamed_parts;
        state.accounts.get_mut(unit).map(|account| change(account, streamed))
    }

    /// A resident part was uploaded.
    pub(super) fn note_resident(&self, state: &mut State, part: usize) {
        let parts = self.parts.get(part).and_then(|plan| self.units.get(plan.unit)).map_or(0, |unit| unit.parts.len() as u64);
        let whole = self.account(state, part, |account, streamed| {
            account.arrived_parts += 1;
            account.arrived_parts + streamed == parts
        });
        self.counters.batch_submissions.add(u64::from(whole == Some(true)));
    }

    /// A streamed part was uploaded and is now held as said.
    pub(super) fn note_streamed(&self, state: &mut State, part: usize, holding: Holding) {
        let payload = self.parts.get(part).map_or(0, |plan| plan.payload_bytes);
        self.counters.stream_bytes.add(payload);
        self.counters.part_uploads.add(1);
        self.counters.ahead_parts.add(u64::from(holding.ahead));
        let noted = self.account(state, part, |account, streamed| {
            account.uploaded_parts += 1;
            account.ahead_parts += u64::from(holding.ahead);
            let whole = account.uploaded_parts == streamed;
            if whole {
                account.uploaded_parts = 0;
            }
            (whole, account.completes_ahead(streamed))
        });
        let (whole, ahead) = noted.unwrap_or_default();
        self.counters.stream_uploads.add(u64::from(whole));
        self.counters.batch_submissions.add(u64::from(whole));
        self.counters.ahead_units.add(u64::from(ahead));
    }

    /// A unit is asked for: what is found uploaded ahead is no longer ahead of its consumer.
    pub(super) fn note_request(&self, state: &mut State, unit: usize) {
        let Some(account) = state.accounts.get_mut(unit) else { return };
        account.guards += 1;
        account.pins += 1;
        if std::mem::take(&mut account.ahead) {
            self.counters.ahead_hits.add(1);
        } else if account.ahead_parts > 0 && account.guards == 1 {
            self.counters.ahead_partial_units.add(1);
        }
    }

    /// A guard of the unit has ended.
    pub(super) fn note_let_go(&self, state: &mut State, unit: usize) {
        let streamed = self.units.get(unit).map_or(0, |plan| plan.streamed_parts);
        let Some(account) = state.accounts.get_mut(unit) else { return };
        account.guards = account.guards.saturating_sub(1);
        account.pins = account.pins.saturating_sub(1);
        self.counters.ahead_units.add(u64::from(account.completes_ahead(streamed)));
    }

    /// A part that was uploaded ahead was asked for.
    pub(super) fn note_consumed(&self, state: &mut State, part: usize) {
        self.counters.ahead_part_hits.add(1);
        self.account(state, part, |account, _| account.ahead_parts = account.ahead_parts.saturating_sub(1));
    }

    /// Parts that were uploaded ahead are given up; returns how many units that were wholly ahead no longer are.
    pub(super) fn note_cancelled(&self, state: &mut State, parts: &[usize]) -> u64 {
        let mut units = 0;
        for part in parts {
            self.counters.ahead_cancelled_parts.add(1);
            let lost = self.account(state, *part, |account, _| {
                account.ahead_parts = account.ahead_parts.saturating_sub(1);
                std::mem::take(&mut account.ahead)
            });
            units += u64::from(lost == Some(true));
        }
        self.counters.ahead_cancelled.add(units);
        units
    }
}

impl UnitAccount {
    /// True once, when the last streamed part of a unit that nobody has in hand was uploaded ahead.
    fn completes_ahead(&mut self, streamed: u64) -> bool {
        let completes = !self.ahead && self.guards == 0 && streamed > 0 && self.ahead_parts == streamed;
        self.ahead |= completes;
        completes
    }
}
