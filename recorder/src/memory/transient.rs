//! Memory that lies under a range of addresses for a moment: long enough for a framework to see device memory there.

use super::{MappingBook, map_fresh};
use crate::driver::{DeviceAddress, Driver, DriverResult, PhysicalId};

/// A mapping that somebody has to take away again.
#[derive(Debug)]
#[must_use = "memory stays mapped until it is taken away"]
pub struct Transient {
    address: DeviceAddress,
    bytes: u64,
    memory: PhysicalId,
}

impl Transient {
    /// Puts fresh memory under a range of whole pages, all of it as one piece.
    ///
    /// # Errors
    /// The driver's; memory taken by the failed call is given back first.
    pub fn map(driver: &dyn Driver, address: DeviceAddress, bytes: u64, book: &MappingBook) -> DriverResult<Transient> {
        map_fresh(driver, address, bytes, book).map(|memory| Transient { address, bytes, memory })
    }

    /// Takes the memory away. A step that fails is tried once more, so that the addresses are free even then; what is
    /// left after that is counted as lost.
    ///
    /// # Errors
    /// The first driver error, also where the second try went well.
    pub fn take_away(self, driver: &dyn Driver, book: &MappingBook) -> DriverResult<()> {
        let Transient { address, bytes, memory } = self;
        let twice = |step: &dyn Fn() -> DriverResult<()>| match step() {
            Ok(()) => (true, Ok(())),
            Err(error) => (step().is_ok(), Err(error)),
        };
        let (gone, unmapped) = twice(&|| driver.memory_unmap(address, bytes));
        if !gone {
            book.lost_bytes.add(bytes);
            return unmapped;
        }
        let (gone, released) = twice(&|| driver.memory_release(memory));
        if !gone {
            book.lost_bytes.add(bytes);
        }
        unmapped.and(released)
    }
}
