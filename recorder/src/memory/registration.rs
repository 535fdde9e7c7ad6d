//! Which source bytes the device reads directly: whole segments of mapped files, once all of their pieces are registered, and
//! host memory of the component, where it lies.

use super::budget::PinnedRange;
use super::{HostBudget, Window};
use crate::driver::{Driver, DriverResult, HostBytes, RegistrationId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was registered of one segment.
#[derive(Debug)]
pub struct RegisteredSegment {
    /// Which segment.
    pub window: Window,
    /// Its registrations.
    pub ids: Vec<RegistrationId>,
    /// Bytes of the segment, as they stand in the process's books.
    pub bytes: u64,
    /// Whether all of it is registered; if not, it is only there to be given back.
    pub whole: bool,
}

/// Registered stretches of mapped files.
#[derive(Debug)]
pub struct Registrations {
    driver: Arc<dyn Driver>,
    budget: Arc<HostBudget>,
    others_through_ring: bool,
    whole: BTreeMap<Window, RegisteredSegment>,
    torn: Vec<RegisteredSegment>,
    /// Host memory of the component.
    pinned: Vec<PinnedRange>,
}

impl Registrations {
    /// Nothing registered yet. What is not registered is read through a ring, or else copied as it is.
    pub fn new(driver: Arc<dyn Driver>, budget: Arc<HostBudget>, others_through_ring: bool) -> Registrations {
        Registrations { driver, budget, others_through_ring, whole: BTreeMap::new(), torn: Vec::new(), pinned: Vec::new() }
    }

    /// Takes a segment over.
    pub fn adopt(&mut self, segment: RegisteredSegment) {
        // The same segment twice would be a mistake of the registrar; both are given back in the end.
        if segment.whole && !self.whole.contains_key(&segment.window) {
            self.whole.insert(segment.window, segment);
        } else {
            self.torn.push(segment);
        }
    }

    /// Whether copies take a segment's bytes from where they are mapped.
    pub fn are_direct(&self, window: Window) -> bool {
        !self.others_through_ring || self.whole.contains_key(&window)
    }

    /// Whether copies are cut where segments end.
    pub fn cut_copies(&self) -> bool {
        self.others_through_ring
    }

    /// Bytes that copies take directly.
    pub fn registered_bytes(&self) -> u64 {
        self.whole.values().map(|segment| segment.bytes).sum()
    }

    /// Registers host memory, each stretch on pages of its own, as far as the limit of the process and the driver go along.
    /// A refusal is no error: the rest is copied as it is.
    pub fn pin(&mut self, stretches: impl IntoIterator<Item = HostBytes>, limit_bytes: u64) {
        for bytes in stretches {
            let Some(range) = self.budget.pin(&self.driver, &bytes, limit_bytes) else { return };
            self.pinned.push(range);
        }
    }

    /// Bytes of host memory registered where they lie.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Ends every registration; no copy may still read the bytes.
    ///
    /// # Errors
    /// The first driver error; what could not be ended stays counted.
    pub fn release(&mut self) -> DriverResult<()> {
        while let Some(range) = self.pinned.last().copied() {
            self.budget.unpin(range)?;
            self.pinned.pop();
        }
        while let Some(mut segment) = self.torn.pop() {
            if let Err(error) = give_back(&*self.driver, &self.budget, &mut segment) {
                self.torn.push(segment);
                return Err(error);
            }
        }
        while let Some(mut segment) = self.whole.last_entry() {
            give_back(&*self.driver, &self.budget, segment.get_mut())?;
            segment.remove();
        }
        Ok(())
    }
}

/// Ends the registrations of a segment and strikes it out of the process's books.
pub(super) fn give_back(driver: &dyn Driver, budget: &HostBudget, segment: &mut RegisteredSegment) -> DriverResult<()> {
    while let Some(id) = segment.ids.last() {
        driver.host_unregister(*id)?;
        segment.ids.pop();
    }
    budget.leave_registered(std::mem::take(&mut segment.bytes));
    Ok(())
}
