//! How fast do registered file bytes reach the device? Timed by the device's own events.
//!
//! May use: the recorder's driver interface.
//!
//! Invariants: the same kind of bytes and the same calls as in the run; everything taken is given back, also on failure.

use ddo_recorder::driver::{DriverResult, HostAccess, HostBytes, PhysicalId, Priority, RegistrationId, SourceFile};
use ddo_recorder::limits::REGISTRATION_SEGMENT_BYTES;
use ddo_recorder::{Driver, Error, StreamId};
use std::path::Path;
use std::sync::Arc;

/// Segments that are copied, at most.
const SEGMENTS: u64 = 32;
/// Times that they are copied; the fastest counts, since nothing makes a link faster than it is.
const ROUNDS: u64 = 10;

/// Bytes a second of copies from the registered file.
///
/// # Errors
/// The driver's, or the file cannot be mapped.
///
/// # Cost
/// Copies at most 20 GiB.
pub(super) fn link_rate(driver: &dyn Driver, path: &Path) -> Result<f64, Error> {
    let io = |source| Error::Io { action: "map", path: path.to_path_buf(), source };
    let mapped = SourceFile::open(path).and_then(|file| file.map()).map_err(io)?;
    let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(mapped);
    let segment = |index: u64| HostBytes::new(Arc::clone(&owner), index * REGISTRATION_SEGMENT_BYTES, REGISTRATION_SEGMENT_BYTES);
    let mut segments: Vec<HostBytes> = (0..SEGMENTS).map_while(segment).collect();
    if segments.is_empty() {
        let length = (*owner).as_ref().len() as u64;
        segments.extend(HostBytes::new(Arc::clone(&owner), 0, length));
    }
    let mut registered = Vec::new();
    let rate = register(driver, &segments, &mut registered).and_then(|()| with_memory(driver, &segments));
    let ended = registered.into_iter().try_for_each(|id| driver.host_unregister(id));
    let rate = rate?;
    ended?;
    Ok(rate)
}

fn register(driver: &dyn Driver, segments: &[HostBytes], registered: &mut Vec<RegistrationId>) -> DriverResult<()> {
    segments.iter().try_for_each(|segment| {
        registered.push(driver.host_register(segment, HostAccess::ReadOnly)?);
        Ok(())
    })
}

/// Maps a place for one segment, measures, and gives the place back.
fn with_memory(driver: &dyn Driver, segments: &[HostBytes]) -> DriverResult<f64> {
    let page = driver.facts().page_bytes;
    let bytes = segments.iter().map(HostBytes::bytes).max().unwrap_or_default().next_multiple_of(page);
    let address = driver.address_reserve(bytes)?;
    let memory: DriverResult<PhysicalId> = driver.memory_create(bytes);
    let measured = memory.and_then(|memory| {
        driver.memory_map(address, bytes, memory)?;
        let measured = driver.memory_set_access(address, bytes).and_then(|()| {
            let stream = driver.stream_create(Priority::High)?;
            let measured = best_round(driver, segments, address, stream);
            driver.stream_destroy(stream).and(measured)
        });
        driver.memory_unmap(address, bytes).and(driver.memory_release(memory)).and(measured)
    });
    driver.address_free(address, bytes).and(measured)
}

fn best_round(
    driver: &dyn Driver,
    segments: &[HostBytes],
    address: ddo_recorder::driver::DeviceAddress,
    stream: StreamId,
) -> DriverResult<f64> {
    let (begin, end) = (driver.event_create(true)?, driver.event_create(true)?);
    let total: u64 = segments.iter().map(HostBytes::bytes).sum();
    let mut best = 0f64;
    for _ in 0..ROUNDS {
        driver.event_record(begin, stream)?;
        segments.iter().try_for_each(|segment| driver.copy_to_device(address, segment.clone(), stream))?;
        driver.event_record(end, stream)?;
        driver.event_synchronize(end)?;
        let seconds = driver.event_elapsed(begin, end)?.seconds;
        best = best.max(total as f64 / seconds.max(1e-9));
    }
    driver.event_destroy(begin).and(driver.event_destroy(end))?;
    Ok(best)
}
