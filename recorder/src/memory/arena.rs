//! The arena: one range of addresses for all units; only residents get memory under theirs.

use super::{MappingBook, give_back, map_fresh};
use crate::driver::{DeviceAddress, Driver, DriverResult, PhysicalId};
use crate::error::{Admission, Refusal};
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
    /// Pages mapped so far.
    pub materialized_pages: u64,
    /// Ranges mapped so far.
    pub faults: u64,
}

/// The arena.
#[derive(Debug)]
pub struct Arena {
    driver: Arc<dyn Driver>,
    base: DeviceAddress,
    page_bytes: u64,
    pages: Vec<Option<PhysicalId>>,
    levels: ArenaLevels,
    book: Arc<MappingBook>,
}

impl Arena {
    /// Reserves addresses for `payload_bytes`, of which `ceiling_bytes` may get memory.
    ///
    /// # Errors
    /// The driver's.
    pub fn reserve(
        driver: Arc<dyn Driver>,
        book: Arc<MappingBook>,
        payload_bytes: u64,
        page_bytes: u64,
        ceiling_bytes: u64,
    ) -> DriverResult<Arena> {
        let pages = payload_bytes.div_ceil(page_bytes).max(1);
        let virtual_bytes = pages.saturating_mul(page_bytes);
        let base = driver.address_reserve(virtual_bytes)?;
        let levels = ArenaLevels { virtual_bytes, ceiling_bytes, ..ArenaLevels::default() };
        let pages = (0..pages).map(|_| None).collect();
        Ok(Arena { driver, base, page_bytes, pages, levels, book })
    }

    /// Address of an offset.
    pub fn address(&self, offset: u64) -> DeviceAddress {
        self.base.offset(offset)
    }

    /// Levels and counters.
    pub fn levels(&self) -> ArenaLevels {
        self.levels
    }

    fn page_range(&self, range: &Range<u64>) -> Range<usize> {
        (range.start / self.page_bytes) as usize..range.end.div_ceil(self.page_bytes) as usize
    }

    /// Puts memory under a range. What is mapped already stays as it is.
    ///
    /// # Errors
    /// The driver's; memory mapped by the failed call is given back first.
    pub fn fault(&mut self, range: Range<u64>) -> DriverResult<Admission> {
        let pages = self.page_range(&range);
        let missing: Vec<usize> = pages.filter(|page| matches!(self.pages.get(*page), Some(None))).collect();
        if missing.is_empty() {
            return Ok(Admission::Granted);
        }
        let after = self.levels.resident_bytes + missing.len() as u64 * self.page_bytes;
        if after > self.levels.ceiling_bytes {
            let what = "memory for the arena under its ceiling".to_string();
            let limit = self.levels.ceiling_bytes;
            return Ok(Admission::Refused(Refusal { code: "arena_ceiling", what, got: after, limit, unit: "bytes" }));
        }
        for (done, page) in missing.iter().enumerate() {
            if let Err(error) = self.map_page(*page) {
                // A page that cannot be given back stays in the books, and is found mapped by the next fault.
                let _ = missing.iter().take(done).try_for_each(|page| self.unmap_page(*page));
                return Err(error);
            }
        }
        self.levels.faults += 1;
        self.levels.materialized_pages += missing.len() as u64;
        Ok(Admission::Granted)
    }

    fn map_page(&mut self, page: usize) -> DriverResult<()> {
        let address = self.address(page as u64 * self.page_bytes);
        let memory = map_fresh(&*self.driver, address, self.page_bytes, &self.book)?;
        if let Some(entry) = self.pages.get_mut(page) {
            *entry = Some(memory);
        }
        self.levels.resident_bytes += self.page_bytes;
        Ok(())
    }

    fn unmap_page(&mut self, page: usize) -> DriverResult<()> {
        let Some(memory) = self.pages.get(page).copied().flatten() else { return Ok(()) };
        let address = self.address(page as u64 * self.page_bytes);
        let given_back = give_back(&*self.driver, address, self.page_bytes, memory, &self.book);
        if !given_back.as_ref().is_err_and(|failure| failure.still_mapped) {
            if let Some(entry) = self.pages.get_mut(page) {
                *entry = None;
            }
            self.levels.resident_bytes -= self.page_bytes;
        }
        given_back.map_err(|failure| failure.error)
    }

    /// Gives everything back; every use must have been proven complete.
    ///
    /// # Errors
    /// The first driver error. What could not be given back stays counted in the levels.
    pub fn release(&mut self) -> DriverResult<()> {
        let mut first = Ok(());
        for page in 0..self.pages.len() {
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
