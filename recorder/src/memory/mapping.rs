//! Memory under addresses: create, map, make accessible - and all the way back when a step fails.

use crate::driver::{DeviceAddress, Driver, DriverErrorKind, DriverResult, PhysicalId};
use crate::limits::MAX_ACCESS_RETRIES;
use crate::meter::Counter;

/// What making memory accessible had to repeat.
#[derive(Debug, Default)]
pub struct AccessRetries {
    /// Context synchronisations before another try.
    pub syncs: Counter,
    /// Of those, the ones that failed.
    pub failed_syncs: Counter,
}

/// Puts fresh memory under a range. On failure nothing is left behind, unless giving back fails too.
///
/// An access call that answers "not ready" is tried again after one synchronisation of the context, a bounded number
/// of times.
///
/// # Errors
/// The driver's first error.
pub fn map_fresh(driver: &dyn Driver, address: DeviceAddress, bytes: u64, retries: &AccessRetries) -> DriverResult<PhysicalId> {
    let memory = driver.memory_create(bytes)?;
    if let Err(error) = driver.memory_map(address, bytes, memory) {
        driver.memory_release(memory)?;
        return Err(error);
    }
    if let Err(error) = set_access(driver, address, bytes, retries) {
        driver.memory_unmap(address, bytes)?;
        driver.memory_release(memory)?;
        return Err(error);
    }
    Ok(memory)
}

fn set_access(driver: &dyn Driver, address: DeviceAddress, bytes: u64, retries: &AccessRetries) -> DriverResult<()> {
    let mut tries = 0;
    loop {
        match driver.memory_set_access(address, bytes) {
            Err(error) if error.kind == DriverErrorKind::NotReady && tries < MAX_ACCESS_RETRIES => {
                tries += 1;
                retries.syncs.add(1);
                driver.context_synchronize().inspect_err(|_| retries.failed_syncs.add(1))?;
            }
            answer => return answer,
        }
    }
}
