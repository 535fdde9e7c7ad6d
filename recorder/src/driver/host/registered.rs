//! Registered host bytes: accounting only, with the refusals that a device gives.

use crate::driver::{DriverError, DriverErrorKind, DriverResult, HostBytes, RegistrationId};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

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
    state: Mutex<State>,
}

impl Registered {
    pub(super) fn new(limit_bytes: Option<u64>) -> Registered {
        Registered { limit_bytes, state: Mutex::default() }
    }

    pub(super) fn register(&self, bytes: &HostBytes) -> DriverResult<RegistrationId> {
        let call = "host_register";
        let (start, length) = (bytes.as_slice().as_ptr() as usize, bytes.bytes());
        if length == 0 {
            return Err(DriverError::new(call, DriverErrorKind::InvalidValue, "0 bytes"));
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
