//! "Who may mark the windows of a context?" One owner of timing markers in a context at a time.
//!
//! Invariants: an owner that goes while the device has not passed all of its markers leaves them here, and the context
//! stays taken until every one has been passed and given back; nothing here waits.

use super::{DeviceFacts, Driver, EventId};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// A context of this process.
type Context = (&'static str, u64);

#[derive(Debug)]
enum Owner {
    Live,
    /// Gone, with markers left behind.
    Abandoned {
        driver: Arc<dyn Driver>,
        markers: Vec<EventId>,
    },
}

type Owners = BTreeMap<Context, Owner>;

fn owners() -> MutexGuard<'static, Owners> {
    static OWNERS: LazyLock<Mutex<Owners>> = LazyLock::new(Mutex::default);
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a context cannot be marked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkersBusy {
    /// Somebody marks it.
    Live,
    /// Somebody who marked it left markers behind: how many.
    Abandoned(u64),
}

/// Gives back the markers that the device has passed; what is left.
fn give_back(driver: &dyn Driver, markers: &mut Vec<EventId>) -> u64 {
    let passed = |marker: EventId| driver.event_query(marker).is_ok_and(|passed| passed);
    markers.retain(|marker| !(passed(*marker) && driver.event_destroy(*marker).is_ok()));
    markers.len() as u64
}

/// Gives back what abandoned owners left in a context, as far as the device has passed it. Never waits. Without such
/// markers no driver call is made.
pub(crate) fn collect_abandoned(facts: &DeviceFacts) -> u64 {
    let mut owners = owners();
    let context = (facts.driver, facts.context);
    let Some(Owner::Abandoned { driver, markers }) = owners.get_mut(&context) else { return 0 };
    let left = give_back(&**driver, markers);
    if left == 0 {
        owners.remove(&context);
    }
    left
}

/// The right to mark one context.
#[derive(Debug)]
pub(crate) struct MarkerClaim {
    context: Context,
}

impl MarkerClaim {
    /// Takes the context, after giving back what an abandoned owner left, where the device has passed it.
    pub(crate) fn new(facts: &DeviceFacts) -> Result<MarkerClaim, MarkersBusy> {
        let left = collect_abandoned(facts);
        if left > 0 {
            return Err(MarkersBusy::Abandoned(left));
        }
        let context = (facts.driver, facts.context);
        match owners().entry(context) {
            std::collections::btree_map::Entry::Occupied(_) => Err(MarkersBusy::Live),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Owner::Live);
                Ok(MarkerClaim { context })
            }
        }
    }

    /// Goes and leaves these markers behind; without any, the context is free.
    pub(crate) fn abandon(self, driver: Arc<dyn Driver>, markers: Vec<EventId>) {
        if !markers.is_empty() {
            owners().insert(self.context, Owner::Abandoned { driver, markers });
        }
    }
}

impl Drop for MarkerClaim {
    fn drop(&mut self) {
        let mut owners = owners();
        if matches!(owners.get(&self.context), Some(Owner::Live)) {
            owners.remove(&self.context);
        }
    }
}
