//! The arena: one range of addresses for all units, with memory under those that are in use.

use super::mapping::map_moved;
use super::{MappingBook, give_back, map_fresh};
use crate::driver::{DeviceAddress, Driver, DriverError, DriverErrorKind, DriverResult, PhysicalId};
use crate::error::{Admission, Refusal};
use crate::plan::{Pages, Supply};
use std::ops::Range;
use std::sync::Arc;

/// What the arena holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaLevels {
    /// Bytes of addresses.
    pub virtual_bytes: u64,
    /// Bytes of memory mapped.
    pub resident_bytes: u64,
    /// Bytes that may be mapped.
    pub ceiling_bytes: u64,
    /// Pages that got memory so far.
    pub materialized_pages: u64,
    /// Of those, pages that got the memory of another page.
    pub reused_pages: u64,
    /// Pages that lost their memory to another page so far.
    pub evicted_pages: u64,
    /// Stretches of pages that lost it together.
    pub evictions: u64,
    /// Ranges mapped so far.
    pub faults: u64,
}

/// Code of the refusal by the arena's ceiling.
pub const ARENA_CEILING: &str = "arena_ceiling";
/// Code of the refusal by the reserve of device memory that others are to find.
pub const DEVICE_RESERVE: &str = "device_reserve";
/// Code of the refusal by the device, which has no memory left.
pub const DEVICE_MEMORY: &str = "device_memory";

/// How an arena treats memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaRules {
    /// Bytes of one page.
    pub page_bytes: u64,
    /// Bytes that may be mapped.
    pub ceiling_bytes: u64,
    /// Bytes of device memory that new pages leave free; zero for no such reserve.
    pub reserve_bytes: u64,
    /// Whether pages that nobody holds give their memory to others.
    pub reuse: bool,
}

/// The arena.
#[derive(Debug)]
pub struct Arena {
    driver: Arc<dyn Driver>,
    base: DeviceAddress,
    rules: ArenaRules,
    pages: Pages,
    memory: Vec<Option<PhysicalId>>,
    levels: ArenaLevels,
    book: Arc<MappingBook>,
}

impl Arena {
    /// Reserves addresses for `payload_bytes`.
    ///
    /// # Errors
    /// The driver's.
    pub fn reserve(
        driver: Arc<dyn Driver>,
        book: Arc<MappingBook>,
        payload_bytes: u64,
        rules: ArenaRules,
    ) -> DriverResult<Arena> {
        let page_bytes = rules.page_bytes.max(1);
        let pages = payload_bytes.div_ceil(page_bytes).max(1);
        let virtual_bytes = pages.saturating_mul(page_bytes);
        let base = driver.address_reserve(virtual_bytes)?;
        let levels = ArenaLevels { virtual_bytes, ceiling_bytes: rules.ceiling_bytes, ..ArenaLevels::default() };
        let memory: Vec<Option<PhysicalId>> = (0..pages).map(|_| None).collect();
        let pages = Pages::new(memory.len(), rules.ceiling_bytes / page_bytes);
        Ok(Arena { driver, base, rules: ArenaRules { page_bytes, ..rules }, pages, memory, levels, book })
    }

    /// Address of an offset.
    pub fn address(&self, offset: u64) -> DeviceAddress {
        self.base.offset(offset)
    }

    /// Levels and counters.
    pub fn levels(&self) -> ArenaLevels {
        ArenaLevels { resident_bytes: self.pages.resident() * self.rules.page_bytes, ..self.levels }
    }

    /// Bytes of pages that somebody holds.
    pub fn held_bytes(&self) -> u64 {
        self.pages.held() * self.rules.page_bytes
    }

    fn page_range(&self, range: &Range<u64>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        (range.start / self.rules.page_bytes) as usize..range.end.div_ceil(self.rules.page_bytes) as usize
    }

    /// The generation of a range: another one whenever a page of it got memory anew; `None` while a page has none.
    pub fn generation(&self, range: &Range<u64>) -> Option<u64> {
        self.pages.generation(self.page_range(range))
    }

    /// Holds a range: it keeps its memory.
    pub fn hold(&mut self, range: &Range<u64>) {
        self.pages.hold(self.page_range(range));
    }

    /// Lets a range go once.
    pub fn let_go(&mut self, range: &Range<u64>) {
        self.pages.let_go(self.page_range(range));
    }

    /// Puts memory under a range. What is mapped already stays as it is.
    ///
    /// Where pages may be reused, a device without memory left is answered with the memory of idle pages.
    ///
    /// # Errors
    /// The driver's. Without reuse, memory mapped by the failed call is given back first; with it, it stays as idle pages.
    pub fn fault(&mut self, range: &Range<u64>) -> DriverResult<Admission> {
        let pages = self.page_range(range);
        let (mut fresh, mut by) = (u64::MAX, ARENA_CEILING);
        loop {
            let plan = match self.pages.plan(pages.clone(), fresh, self.rules.reuse) {
                Ok(plan) => plan,
                Err(_) => return Ok(self.refused(by, &pages)),
            };
            let wanted = plan.iter().filter(|supply| matches!(supply, Supply::Fresh { .. })).count() as u64;
            if let Some(allowed) = self.left_by_reserve(wanted)?.filter(|allowed| *allowed < wanted) {
                (fresh, by) = (allowed, DEVICE_RESERVE);
                continue;
            }
            match self.carry_out(&plan) {
                Ok(()) => return Ok(Admission::Granted),
                Err(error) if error.kind == DriverErrorKind::OutOfMemory && self.rules.reuse && fresh > 0 => {
                    (fresh, by) = (0, DEVICE_MEMORY);
                }
                Err(error) if error.kind == DriverErrorKind::OutOfMemory => {
                    return Ok(self.refused(DEVICE_MEMORY, &pages));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// How many new pages the reserve allows; `None` without one, or when no page is wanted.
    fn left_by_reserve(&self, wanted: u64) -> DriverResult<Option<u64>> {
        if wanted == 0 || self.rules.reserve_bytes == 0 {
            return Ok(None);
        }
        let free = self.driver.memory_info()?.free_bytes;
        Ok(Some(free.saturating_sub(self.rules.reserve_bytes) / self.rules.page_bytes))
    }

    /// Whether a refused range could have memory once ranges in use are let go.
    pub fn waits_for_others(&self, range: &Range<u64>) -> bool {
        let fits = self.page_range(range).len() as u64 <= self.pages.capacity();
        self.rules.reuse && fits && self.pages.held() > 0
    }

    fn refused(&self, code: &'static str, pages: &Range<usize>) -> Admission {
        let missing = pages.clone().filter(|page| !self.pages.has_memory(*page)).count() as u64 * self.rules.page_bytes;
        let free = || self.driver.memory_info().map_or(0, |info| info.free_bytes);
        let (what, got, limit) = match code {
            DEVICE_RESERVE => {
                let what = "memory for the arena beside the reserve of device memory";
                (what, missing, free().saturating_sub(self.rules.reserve_bytes))
            }
            DEVICE_MEMORY => ("memory for the arena on the device", missing, free()),
            _ => {
                let after = self.levels().resident_bytes + missing;
                ("memory for the arena under its ceiling", after, self.rules.ceiling_bytes)
            }
        };
        Admission::Refused(Refusal { code, what: what.to_string(), got, limit, unit: "bytes" })
    }

    /// Gives pages memory in turn.
    fn carry_out(&mut self, plan: &[Supply]) -> DriverResult<()> {
        let mut last_from = None;
        for (done, supply) in plan.iter().enumerate() {
            let given = match *supply {
                Supply::Fresh { page } => self.map_page(page),
                Supply::Moved { from, to } => {
                    let moved = self.move_page(from, to);
                    if !self.pages.has_memory(from) {
                        self.levels.evicted_pages += 1;
                        self.levels.evictions += u64::from(last_from.is_none_or(|last: usize| last + 1 != from));
                        last_from = Some(from);
                    }
                    moved
                }
            };
            if let Err(error) = given {
                if !self.rules.reuse {
                    // A page that cannot be given back stays in the books, and is found mapped by the next fault.
                    let fresh = |supply: &Supply| if let Supply::Fresh { page } = supply { Some(*page) } else { None };
                    let _ = plan.iter().take(done).filter_map(fresh).try_for_each(|page| self.take_back(page));
                }
                return Err(error);
            }
        }
        if !plan.is_empty() {
            self.levels.faults += 1;
        }
        Ok(())
    }

    fn page_address(&self, page: usize) -> DeviceAddress {
        self.address(page as u64 * self.rules.page_bytes)
    }

    fn enter(&mut self, page: usize, memory: PhysicalId) {
        if let Some(entry) = self.memory.get_mut(page) {
            *entry = Some(memory);
        }
        self.pages.gain(page);
        self.levels.materialized_pages += 1;
    }

    fn strike(&mut self, page: usize) {
        if let Some(entry) = self.memory.get_mut(page) {
            *entry = None;
        }
        self.pages.lose(page);
    }

    fn map_page(&mut self, page: usize) -> DriverResult<()> {
        let memory = map_fresh(&*self.driver, self.page_address(page), self.rules.page_bytes, &self.book)?;
        self.enter(page, memory);
        Ok(())
    }

    fn move_page(&mut self, from: usize, to: usize) -> DriverResult<()> {
        let nothing = || DriverError::new("memory_map", DriverErrorKind::System, "the page that was chosen has no memory");
        let memory = self.memory.get(from).copied().flatten().ok_or_else(nothing)?;
        let bytes = self.rules.page_bytes;
        self.driver.memory_unmap(self.page_address(from), bytes)?;
        self.strike(from);
        match map_moved(&*self.driver, self.page_address(to), bytes, memory, &self.book) {
            Ok(()) => {
                self.enter(to, memory);
                self.levels.reused_pages += 1;
            }
            Err(failure) => {
                if failure.still_mapped {
                    self.enter(to, memory);
                }
                return Err(failure.error);
            }
        }
        Ok(())
    }

    fn unmap_page(&mut self, page: usize) -> DriverResult<()> {
        let Some(memory) = self.memory.get(page).copied().flatten() else { return Ok(()) };
        let given_back = give_back(&*self.driver, self.page_address(page), self.rules.page_bytes, memory, &self.book);
        if !given_back.as_ref().is_err_and(|failure| failure.still_mapped) {
            self.strike(page);
        }
        given_back.map_err(|failure| failure.error)
    }

    /// Undoes a page that a failing call mapped: it never counted.
    fn take_back(&mut self, page: usize) -> DriverResult<()> {
        let taken = self.unmap_page(page);
        if !self.pages.has_memory(page) {
            self.levels.materialized_pages -= 1;
        }
        taken
    }

    /// Gives everything back; every use must have been proven complete.
    ///
    /// # Errors
    /// The first driver error. What could not be given back stays counted in the levels.
    pub fn release(&mut self) -> DriverResult<()> {
        let mut first = Ok(());
        for page in 0..self.memory.len() {
            first = first.and(self.unmap_page(page));
        }
        first?;
        if self.levels.virtual_bytes > 0 {
            self.driver.address_free(self.base, self.levels.virtual_bytes)?;
            self.levels.virtual_bytes = 0;
        }
        Ok(())
    }
}
