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

/// Memory, and the pages that it lies under: one where pages are reused, neighbours that came together otherwise.
#[derive(Clone, Copy, Debug)]
struct Piece {
    memory: PhysicalId,
    pages: usize,
}

/// The arena.
#[derive(Debug)]
pub struct Arena {
    driver: Arc<dyn Driver>,
    base: DeviceAddress,
    rules: ArenaRules,
    pages: Pages,
    /// By the first of the pages that one piece of memory lies under.
    memory: Vec<Option<Piece>>,
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
        let memory: Vec<Option<Piece>> = (0..pages).map(|_| None).collect();
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
        if plan.is_empty() {
            return Ok(());
        }
        if self.rules.reuse {
            self.page_by_page(plan)?
        } else {
            self.stretch_by_stretch(plan)?
        };
        self.levels.faults += 1;
        Ok(())
    }

    /// What may be taken away again alone comes alone.
    fn page_by_page(&mut self, plan: &[Supply]) -> DriverResult<()> {
        let mut last_from = None;
        for supply in plan {
            let given = match *supply {
                Supply::Fresh { page } => self.map_pages(page, 1),
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
            given?;
        }
        Ok(())
    }

    /// Neighbours get one piece of memory: a call for all of them.
    fn stretch_by_stretch(&mut self, plan: &[Supply]) -> DriverResult<()> {
        let mut stretches: Vec<Range<usize>> = Vec::new();
        for supply in plan {
            let Supply::Fresh { page } = *supply else { continue };
            match stretches.last_mut().filter(|last| last.end == page) {
                Some(last) => last.end += 1,
                None => stretches.push(page..page + 1),
            }
        }
        for (done, stretch) in stretches.iter().enumerate() {
            if let Err(error) = self.map_pages(stretch.start, stretch.len()) {
                // What cannot be given back stays in the books, and is found mapped by the next fault.
                let _ = stretches.iter().take(done).try_for_each(|stretch| self.take_back(stretch.clone()));
                return Err(error);
            }
        }
        Ok(())
    }

    fn page_address(&self, page: usize) -> DeviceAddress {
        self.address(page as u64 * self.rules.page_bytes)
    }

    fn bytes_of(&self, pages: usize) -> u64 {
        pages as u64 * self.rules.page_bytes
    }

    fn enter(&mut self, first: usize, piece: Piece) {
        if let Some(entry) = self.memory.get_mut(first) {
            *entry = Some(piece);
        }
        (first..first + piece.pages).for_each(|page| self.pages.gain(page));
        self.levels.materialized_pages += piece.pages as u64;
    }

    fn strike(&mut self, first: usize, pages: usize) {
        if let Some(entry) = self.memory.get_mut(first) {
            *entry = None;
        }
        (first..first + pages).for_each(|page| self.pages.lose(page));
    }

    fn map_pages(&mut self, first: usize, pages: usize) -> DriverResult<()> {
        let memory = map_fresh(&*self.driver, self.page_address(first), self.bytes_of(pages), &self.book)?;
        self.enter(first, Piece { memory, pages });
        Ok(())
    }

    fn move_page(&mut self, from: usize, to: usize) -> DriverResult<()> {
        let nothing = || DriverError::new("memory_map", DriverErrorKind::System, "the page that was chosen has no memory");
        let piece = self.memory.get(from).copied().flatten().ok_or_else(nothing)?;
        let bytes = self.bytes_of(piece.pages);
        self.driver.memory_unmap(self.page_address(from), bytes)?;
        self.strike(from, piece.pages);
        match map_moved(&*self.driver, self.page_address(to), bytes, piece.memory, &self.book) {
            Ok(()) => {
                self.enter(to, piece);
                self.levels.reused_pages += 1;
            }
            Err(failure) => {
                if failure.still_mapped {
                    self.enter(to, piece);
                }
                return Err(failure.error);
            }
        }
        Ok(())
    }

    fn unmap_piece(&mut self, first: usize) -> DriverResult<()> {
        let Some(Piece { memory, pages }) = self.memory.get(first).copied().flatten() else { return Ok(()) };
        let given_back = give_back(&*self.driver, self.page_address(first), self.bytes_of(pages), memory, &self.book);
        if !given_back.as_ref().is_err_and(|failure| failure.still_mapped) {
            self.strike(first, pages);
        }
        given_back.map_err(|failure| failure.error)
    }

    /// Undoes a stretch that a failing call mapped: it never counted.
    fn take_back(&mut self, stretch: Range<usize>) -> DriverResult<()> {
        let taken = self.unmap_piece(stretch.start);
        if !self.pages.has_memory(stretch.start) {
            self.levels.materialized_pages -= stretch.len() as u64;
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
            first = first.and(self.unmap_piece(page));
        }
        first?;
        if self.levels.virtual_bytes > 0 {
            self.driver.address_free(self.base, self.levels.virtual_bytes)?;
            self.levels.virtual_bytes = 0;
        }
        Ok(())
    }
}
