//! Memory under addresses: create, map, make accessible - and all the way back when a step fails.

use crate::driver::{DeviceAddress, Driver, DriverError, DriverErrorKind, DriverResult, PhysicalId};
use crate::limits::MAX_ACCESS_RETRIES;
use crate::meter::Counter;

/// What mapping memory had to repeat, and what it could not give back.
#[derive(Debug, Default)]
pub struct MappingBook {
    /// Context synchronisations before another try at making memory accessible.
    pub access_retry_syncs: Counter,
    /// Of those, the ones that failed.
    pub access_retry_failed_syncs: Counter,
    /// Memory that nobody has a record of any more because giving it back failed, in bytes.
    pub lost_bytes: Counter,
}

/// Memory that could not be given back.
#[derive(Debug)]
pub struct GiveBackError {
    /// Whether it is still mapped; the caller keeps its record then. Otherwise the book counts it as lost.
    pub still_mapped: bool,
    /// Why.
    pub error: DriverError,
}

/// Puts fresh memory under a range. On failure it is given back; what cannot be is counted as lost.
///
/// An access call that answers "not ready" is tried again after one synchronisation of the context, a bounded number
/// of times.
///
/// # Errors
/// The driver's first error.
pub fn map_fresh(driver: &dyn Driver, address: DeviceAddress, bytes: u64, book: &MappingBook) -> DriverResult<PhysicalId> {
    let memory = driver.memory_create(bytes)?;
    map_moved(driver, address, bytes, memory, book).map_err(|failure| {
        if failure.still_mapped {
            book.lost_bytes.add(bytes);
        }
        failure.error
    })?;
    Ok(memory)
}

/// Puts memory that is mapped already under a second range.
///
/// # Errors
/// The driver's, and whether the second range is still mapped.
pub(super) fn map_again(
    driver: &dyn Driver,
    address: DeviceAddress,
    bytes: u64,
    memory: PhysicalId,
    book: &MappingBook,
) -> Result<(), GiveBackError> {
    driver.memory_map(address, bytes, memory).map_err(|error| GiveBackError { still_mapped: false, error })?;
    set_access(driver, address, bytes, book).map_err(|error| {
        let still_mapped = driver.memory_unmap(address, bytes).is_err();
        GiveBackError { still_mapped, error }
    })
}

/// Puts memory that is mapped nowhere under a range. On failure it is released; what cannot be is counted as lost.
///
/// # Errors
/// The driver's, and whether the memory is mapped there all the same, without access.
pub(super) fn map_moved(
    driver: &dyn Driver,
    address: DeviceAddress,
    bytes: u64,
    memory: PhysicalId,
    book: &MappingBook,
) -> Result<(), GiveBackError> {
    let Err(failure) = map_again(driver, address, bytes, memory, book) else { return Ok(()) };
    if !failure.still_mapped && driver.memory_release(memory).is_err() {
        book.lost_bytes.add(bytes);
    }
    Err(failure)
}

/// Unmaps memory and releases it.
///
/// # Errors
/// The driver's, and whether the memory is still mapped.
pub fn give_back(
    driver: &dyn Driver,
    address: DeviceAddress,
    bytes: u64,
    memory: PhysicalId,
    book: &MappingBook,
) -> Result<(), GiveBackError> {
    driver.memory_unmap(address, bytes).map_err(|error| GiveBackError { still_mapped: true, error })?;
    driver.memory_release(memory).map_err(|error| {
        book.lost_bytes.add(bytes);
        GiveBackError { still_mapped: false, error }
    })
}

fn set_access(driver: &dyn Driver, address: DeviceAddress, bytes: u64, book: &MappingBook) -> DriverResult<()> {
    let mut tries = 0;
    loop {
        match driver.memory_set_access(address, bytes) {
            Err(error) if error.kind == DriverErrorKind::NotReady && tries < MAX_ACCESS_RETRIES => {
                tries += 1;
                book.access_retry_syncs.add(1);
                driver.context_synchronize().inspect_err(|_| book.access_retry_failed_syncs.add(1))?;
            }
            answer => return answer,
        }
    }
}
