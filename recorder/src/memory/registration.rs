//! Registering mapped source bytes for direct copies, in whole segments, under the limit of the process.

use super::{HostBudget, Sources, Window};
use crate::driver::{Driver, DriverResult, HostAccess, HostBytes, RegistrationId};
use crate::limits::REGISTRATION_SEGMENT_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Registered stretches of mapped files.
#[derive(Debug)]
pub struct Registrations {
    driver: Arc<dyn Driver>,
    budget: Arc<HostBudget>,
    limit_bytes: u64,
    live: BTreeMap<Window, (RegistrationId, u64)>,
    refused: Option<String>,
}

impl Registrations {
    /// Nothing registered yet; with it, the sources of the process may hold at most `limit_bytes` registered.
    pub fn new(driver: Arc<dyn Driver>, budget: Arc<HostBudget>, limit_bytes: u64) -> Registrations {
        Registrations { driver, budget, limit_bytes, live: BTreeMap::new(), refused: None }
    }

    /// Registers the managed stretch of each mapped file, segment by segment, as far as the driver and the process's
    /// limit go along; with `chosen`, only those segments. A refusal is no error: the rest stays unregistered. A stretch
    /// without bytes is left alone.
    pub fn register(&mut self, sources: &Sources, managed: &[Range<u64>], chosen: Option<&BTreeSet<Window>>) {
        for (file, range) in managed.iter().enumerate().filter(|(_, range)| !range.is_empty()) {
            for index in range.start / REGISTRATION_SEGMENT_BYTES..range.end.div_ceil(REGISTRATION_SEGMENT_BYTES) {
                let window = Window { file, index };
                if chosen.is_some_and(|chosen| !chosen.contains(&window)) {
                    continue;
                }
                let start = index * REGISTRATION_SEGMENT_BYTES;
                let Some(bytes) = sources.mapped_stretch(file, start, REGISTRATION_SEGMENT_BYTES) else { break };
                if let Err(reason) = self.add(window, &bytes) {
                    let registered = self.registered_bytes();
                    let asked = bytes.bytes();
                    self.refused = Some(format!("{reason}; {registered} bytes are registered, {asked} more were asked for"));
                    return;
                }
            }
        }
    }

    fn add(&mut self, window: Window, bytes: &HostBytes) -> Result<(), String> {
        self.budget.enter_registered(bytes.bytes(), self.limit_bytes).map_err(|refusal| refusal.to_string())?;
        match self.driver.host_register(bytes, HostAccess::ReadOnly) {
            Ok(id) => {
                self.live.insert(window, (id, bytes.bytes()));
                Ok(())
            }
            Err(error) => {
                self.budget.leave_registered(bytes.bytes());
                Err(error.to_string())
            }
        }
    }

    /// Bytes registered now.
    pub fn registered_bytes(&self) -> u64 {
        self.live.values().map(|(_, bytes)| bytes).sum()
    }

    /// The segments that are registered.
    pub fn windows(&self) -> BTreeSet<Window> {
        self.live.keys().copied().collect()
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
        while let Some((window, (id, bytes))) = self.live.last_key_value().map(|(window, live)| (*window, *live)) {
            self.driver.host_unregister(id)?;
            self.budget.leave_registered(bytes);
            self.live.remove(&window);
        }
        Ok(())
    }
}
