//! Registered host bytes: accounting only, with the refusals that a device gives, and its time where a rate is imitated.

use crate::driver::{DriverError, DriverErrorKind, DriverResult, HostBytes, RegistrationId};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
struct State {
    /// By id: first address and length.
    live: BTreeMap<RegistrationId, (usize, u64)>,
    bytes: u64,
    next: u64,
}

/// What is registered.
#[derive(Debug)]
pub(super) struct Registered {
    limit_bytes: Option<u64>,
    bytes_per_second: Option<u64>,
    /// Held while a registration takes its time.
    turn: Mutex<()>,
    state: Mutex<State>,
}

impl Registered {
    pub(super) fn new(limit_bytes: Option<u64>, bytes_per_second: Option<u64>) -> Registered {
        Registered { limit_bytes, bytes_per_second, turn: Mutex::new(()), state: Mutex::default() }
    }

    pub(super) fn takes_time(&self) -> bool {
        self.bytes_per_second.is_some()
    }

    /// Waits for the registration under way, where registering takes time: a device's copies are queued under the same lock.
    pub(super) fn give_way(&self) {
        if self.takes_time() {
            drop(self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    pub(super) fn register(&self, bytes: &HostBytes) -> DriverResult<RegistrationId> {
        let call = "host_register";
        let (start, length) = (bytes.as_slice().as_ptr() as usize, bytes.bytes());
        if length == 0 {
            return Err(DriverError::new(call, DriverErrorKind::InvalidValue, "0 bytes"));
        }
        if let Some(rate) = self.bytes_per_second {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            std::thread::sleep(Duration::from_secs_f64(length as f64 / rate as f64));
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let overlaps = |(at, other): &&(usize, u64)| *at < start + length as usize && start < *at + *other as usize;
        if let Some((at, other)) = state.live.values().find(overlaps) {
            let detail = format!("{length} bytes at {start:#x} overlap the {other} registered at {at:#x}");
            return Err(DriverError::new(call, DriverErrorKind::InvalidValue, detail));
        }
        let after = state.bytes + length;
        if let Some(limit) = self.limit_bytes.filter(|limit| after > *limit) {
            let detail = format!("{length} bytes asked for, {} of {limit} registered", state.bytes);
            return Err(DriverError::new(call, DriverErrorKind::OutOfMemory, detail));
        }
        state.bytes = after;
        state.next += 1;
        let id = RegistrationId(state.next);
        state.live.insert(id, (start, length));
        Ok(id)
    }

    pub(super) fn unregister(&self, id: RegistrationId) -> DriverResult<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let removed = state.live.remove(&id);
        let missing = || {
            DriverError::new("host_unregister", DriverErrorKind::InvalidValue, format!("registration {} does not exist", id.0))
        };
        state.bytes -= removed.ok_or_else(missing)?.1;
        Ok(())
    }
}
