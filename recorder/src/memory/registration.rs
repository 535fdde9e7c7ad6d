//! Registering mapped source bytes for direct copies, in whole segments.

use super::Sources;
use crate::driver::{Driver, DriverResult, HostAccess, RegistrationId};
use crate::limits::REGISTRATION_SEGMENT_BYTES;
use std::ops::Range;
use std::sync::Arc;

/// Registered stretches of mapped files.
#[derive(Debug)]
pub struct Registrations {
    driver: Arc<dyn Driver>,
    live: Vec<(RegistrationId, u64)>,
    refused: Option<String>,
}

impl Registrations {
    /// Nothing registered yet.
    pub fn new(driver: Arc<dyn Driver>) -> Registrations {
        Registrations { driver, live: Vec::new(), refused: None }
    }

    /// Registers the managed stretch of each mapped file, segment by segment, as far as the driver goes along. A
    /// refusal is no error: the rest is copied unregistered. A stretch without bytes is left alone.
    pub fn register(&mut self, sources: &Sources, managed: &[Range<u64>]) {
        for (file, range) in managed.iter().enumerate().filter(|(_, range)| !range.is_empty()) {
            let mut start = range.start / REGISTRATION_SEGMENT_BYTES * REGISTRATION_SEGMENT_BYTES;
            while start < range.end {
                let Some(bytes) = sources.mapped_stretch(file, start, REGISTRATION_SEGMENT_BYTES) else { break };
                match self.driver.host_register(&bytes, HostAccess::ReadOnly) {
                    Ok(id) => self.live.push((id, bytes.bytes())),
                    Err(error) => {
                        let registered = self.registered_bytes();
                        self.refused =
                            Some(format!("{error}; {registered} bytes are registered, {} more were asked for", bytes.bytes()));
                        return;
                    }
                }
                start += bytes.bytes();
            }
        }
    }

    /// Bytes registered now.
    pub fn registered_bytes(&self) -> u64 {
        self.live.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Why registration stopped, where it did.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Ends every registration; no copy may still read the bytes.
    ///
    /// # Errors
    /// The first driver error; what could not be ended stays counted.
    pub fn release(&mut self) -> DriverResult<()> {
        while let Some((id, _)) = self.live.last() {
            self.driver.host_unregister(*id)?;
            self.live.pop();
        }
        Ok(())
    }
}
