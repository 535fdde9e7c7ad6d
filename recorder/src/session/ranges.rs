//! What a host announces: the forwards of its modules, and the operators inside.
//!
//! Invariants: announcing never fails and never waits unless a diagnostic scope is open; ranges nest, since an inner one borrows its
//! outer one; they begin and end on one thread; without a scope an announcement is one relaxed load and allocates nothing.

use super::slot::Slot;
use super::state::Offload;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

/// What a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeKind {
    /// The forward of a module, by its full path.
    Forward,
    /// The forward of a child of the module around it, by its name there.
    Child,
    /// Anything that a module does.
    Operator,
}

/// An observer of ranges. Its failures never become the host's.
pub trait Ranges: Send + Sync + Debug {
    /// A range begins; the number under which it ends.
    fn enter(&self, kind: RangeKind, name: &str) -> u64;
    /// A range ends.
    fn leave(&self, number: u64);
}

pub(crate) type RangesSlot = Slot<dyn Ranges>;

/// An announced range; it ends when it is dropped. Stays on its thread.
#[derive(Debug)]
#[must_use = "a range ends when it is dropped"]
pub struct Range<'a> {
    open: Option<(Arc<dyn Ranges>, u64)>,
    around: PhantomData<(&'a (), *const ())>,
}

impl Range<'_> {
    fn enter(observer: Option<Arc<dyn Ranges>>, kind: RangeKind, name: &str) -> Range<'static> {
        let open = observer.map(|observer| {
            let number = observer.enter(kind, name);
            (observer, number)
        });
        Range { open, around: PhantomData }
    }

    fn inner(&self, kind: RangeKind, name: &str) -> Range<'_> {
        Range::enter(self.open.as_ref().map(|(observer, _)| Arc::clone(observer)), kind, name)
    }

    /// Begins the forward of a child of this module, by its name there (`attn`).
    pub fn child(&self, name: &str) -> Range<'_> {
        self.inner(RangeKind::Child, name)
    }

    /// Begins an operator inside this range.
    pub fn operator(&self, name: &str) -> Range<'_> {
        self.inner(RangeKind::Operator, name)
    }
}

impl Drop for Range<'_> {
    fn drop(&mut self) {
        if let Some((observer, number)) = self.open.take() {
            observer.leave(number);
        }
    }
}

impl Offload {
    /// Announces the forward of a module, by its full path, until the value is dropped.
    ///
    /// # Cost
    /// One relaxed load, unless a scope of operator diagnostics is open.
    pub fn forward(&self, module: &str) -> Range<'_> {
        Range::enter(self.inner.ranges.get(), RangeKind::Forward, module)
    }

    /// True where a module of this path has weights, or has children that have some.
    pub(crate) fn has_module(&self, path: &str) -> bool {
        let inside = |name: &str| name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let below = |unit: &super::state::UnitPlan| {
            let rest = path.strip_prefix(&*unit.name).and_then(|rest| rest.strip_prefix('.'));
            let tensor =
                |rest: &str| unit.tensors.keys().any(|name| name.strip_prefix(rest).is_some_and(|end| end.starts_with('.')));
            rest.is_some_and(tensor)
        };
        let module = |name: &String| name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        !path.is_empty()
            && (self.inner.units.iter().any(|unit| inside(&unit.name) || below(unit)) || self.inner.host.keys().any(module))
    }
}
