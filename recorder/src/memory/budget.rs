//! Host memory of sources, over all components of the process.

use crate::driver::{Driver, DriverResult, HostAccess, HostBytes, RegistrationId};
use crate::error::Refusal;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// What the sources of a process hold, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTotals {
    /// Allocated retained storage.
    pub committed_bytes: u64,
    /// Of it, what is registered.
    pub registered_bytes: u64,
    /// Registered staging memory of rings.
    pub staging_bytes: u64,
}

/// The books of the process. Every component of it writes in the same ones unless it is told otherwise.
#[derive(Debug, Default)]
pub struct HostBudget {
    totals: Mutex<HostTotals>,
    /// Host memory that is registered where it lies, by where it begins and how long it is: several components may read the
    /// same, and the last one ends the registration.
    pinned: Mutex<BTreeMap<PinnedRange, Pin>>,
}

/// First byte and length of host memory.
pub(super) type PinnedRange = (usize, u64);

#[derive(Debug)]
struct Pin {
    driver: Arc<dyn Driver>,
    id: RegistrationId,
    users: u64,
}

/// The books that components share by default.
static PROCESS: LazyLock<Arc<HostBudget>> = LazyLock::new(Arc::default);

impl HostBudget {
    /// The books of this process.
    pub fn process() -> Arc<HostBudget> {
        Arc::clone(&PROCESS)
    }

    fn lock(&self) -> MutexGuard<'_, HostTotals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers host memory, or takes a share in its registration; `None` where the limit or the driver declines.
    pub(super) fn pin(&self, driver: &Arc<dyn Driver>, bytes: &HostBytes, limit_bytes: u64) -> Option<PinnedRange> {
        let range = (bytes.as_slice().as_ptr() as usize, bytes.bytes());
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pin) = pinned.get_mut(&range) {
            pin.users += 1;
            return Some(range);
        }
        self.enter_registered(range.1, limit_bytes).ok()?;
        match driver.host_register(bytes, HostAccess::ReadWrite) {
            Ok(id) => {
                pinned.insert(range, Pin { driver: Arc::clone(driver), id, users: 1 });
                Some(range)
            }
            Err(_) => {
                self.leave_registered(range.1);
                None
            }
        }
    }

    /// Gives a share back; the last one ends the registration.
    ///
    /// # Errors
    /// The driver's; the share stays then.
    pub(super) fn unpin(&self, range: PinnedRange) -> DriverResult<()> {
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pin) = pinned.get_mut(&range) else { return Ok(()) };
        if pin.users > 1 {
            pin.users -= 1;
            return Ok(());
        }
        pin.driver.host_unregister(pin.id)?;
        pinned.remove(&range);
        self.leave_registered(range.1);
        Ok(())
    }

    /// What is held now.
    pub fn totals(&self) -> HostTotals {
        *self.lock()
    }

    fn admit(totals: &HostTotals, bytes: u64, limit_bytes: u64) -> Result<(), Refusal> {
        let after = totals.registered_bytes.saturating_add(totals.staging_bytes).saturating_add(bytes);
        if after <= limit_bytes {
            return Ok(());
        }
        let what = "host memory that the sources of the process hold registered".to_string();
        Err(Refusal { code: "process_registered_limit", what, got: after, limit: limit_bytes, unit: "bytes" })
    }

    /// Enters staging memory that is about to be registered.
    ///
    /// # Errors
    /// A refusal when the process would hold more than the limit.
    pub fn enter_staging(&self, bytes: u64, limit_bytes: u64) -> Result<(), Refusal> {
        let mut totals = self.lock();
        HostBudget::admit(&totals, bytes, limit_bytes)?;
        totals.staging_bytes += bytes;
        Ok(())
    }

    /// Strikes staging memory out.
    pub fn leave_staging(&self, bytes: u64) {
        let mut totals = self.lock();
        totals.staging_bytes = totals.staging_bytes.saturating_sub(bytes);
    }

    /// Enters retained storage that is about to be registered.
    ///
    /// # Errors
    /// A refusal when the process would hold more than the limit.
    pub fn enter_registered(&self, bytes: u64, limit_bytes: u64) -> Result<(), Refusal> {
        let mut totals = self.lock();
        HostBudget::admit(&totals, bytes, limit_bytes)?;
        totals.registered_bytes += bytes;
        Ok(())
    }

    /// Strikes registered storage out.
    pub fn leave_registered(&self, bytes: u64) {
        let mut totals = self.lock();
        totals.registered_bytes = totals.registered_bytes.saturating_sub(bytes);
    }

    /// Enters allocated retained storage.
    pub fn enter_committed(&self, bytes: u64) {
        self.lock().committed_bytes += bytes;
    }

    /// Strikes allocated storage out.
    pub fn leave_committed(&self, bytes: u64) {
        let mut totals = self.lock();
        totals.committed_bytes = totals.committed_bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_shared_by_staging_and_registered_storage() {
        let budget = HostBudget::default();
        budget.enter_staging(60, 100).expect("below");
        let refused = budget.enter_registered(41, 100).expect_err("one above");
        assert_eq!((refused.code, refused.got, refused.limit), ("process_registered_limit", 101, 100));
        budget.enter_registered(40, 100).expect("at it");
        assert!(budget.enter_staging(1, 100).is_err());
        budget.leave_staging(60);
        budget.enter_committed(7);
        assert_eq!(budget.totals(), HostTotals { committed_bytes: 7, registered_bytes: 40, staging_bytes: 0 });
    }
}
