//! Place for at most one observer of the hot path; empty costs one relaxed load.

use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct Slot<T: ?Sized> {
    active: AtomicBool,
    held: Mutex<Option<Arc<T>>>,
}

impl<T: ?Sized> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot { active: AtomicBool::new(false), held: Mutex::new(None) }
    }
}

impl<T: ?Sized> Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot(active: {})", self.active.load(Ordering::Relaxed))
    }
}

impl<T: ?Sized> Slot<T> {
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        if !self.active.load(Ordering::Relaxed) {
            return None;
        }
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Installs an observer; false when there is one already.
    pub(crate) fn install(&self, observer: Arc<T>) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_some() {
            return false;
        }
        *held = Some(observer);
        self.active.store(true, Ordering::Relaxed);
        true
    }

    pub(crate) fn remove(&self) {
        self.active.store(false, Ordering::Relaxed);
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
