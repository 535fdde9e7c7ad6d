//! Who registers mapped segments, against a model too small to be wrong: each segment once, in order, piece by piece, under the
//! limit of the process, whatever fails and whenever it ends.

use crate::support::ledger::Ledger;
use crate::support::scratch;
use ddo_recorder::driver::{Driver, Faulty, Script, SourceFile};
use ddo_recorder::memory::{HostTotals, MappedSegment, Registrar, Registrations, Window};
use ddo_recorder::meter::SystemClock;
use ddo_recorder::{DriverErrorKind, HostBudget, HostDriver, HostOptions};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const PAGE: u64 = 4096;

/// Segments of the model below, in pages; the last one ends inside a page.
const PAGES: [u64; 4] = [3, 1, 4, 2];
const PIECE_PAGES: u64 = 2;

/// What somebody does with a registrar.
#[derive(Clone, Debug)]
enum Act {
    /// Registers a piece.
    Step,
    /// The same, and the driver fails.
    FailingStep,
    /// Takes over what is registered.
    Take,
    /// Others in the process register or give back so many pages.
    Others(u64),
    /// Registering ends.
    End,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => Just(Act::Step),
        1 => Just(Act::FailingStep),
        4 => Just(Act::Take),
        2 => (0..8u64).prop_map(Act::Others),
        1 => Just(Act::End),
    ]
}

fn segment_bytes(index: usize) -> u64 {
    PAGES[index] * PAGE - if index + 1 == PAGES.len() { 100 } else { 0 }
}

fn piece_bytes(index: usize, done: u64) -> u64 {
    (PIECE_PAGES * PAGE).min(segment_bytes(index) - done)
}

/// Everything that the registrar should know.
#[derive(Default)]
struct Model {
    /// Segments registered, and bytes of the next.
    whole: usize,
    part: u64,
    /// Segments that somebody took over.
    taken: usize,
    others: u64,
    over: bool,
}

impl Model {
    fn held(&self) -> u64 {
        (0..self.whole).map(segment_bytes).sum::<u64>() + self.part
    }

    /// In the books a segment stands from its first piece on.
    fn entered(&self) -> u64 {
        (0..self.whole).map(segment_bytes).sum::<u64>() + if self.part > 0 { segment_bytes(self.whole) } else { 0 }
    }

    fn step(&mut self, fails: bool, limit: u64) {
        if self.over || self.whole == PAGES.len() {
            return;
        }
        let declined = self.part == 0 && self.entered() + self.others + segment_bytes(self.whole) > limit;
        if declined || fails {
            (self.part, self.over) = (0, true);
            return;
        }
        self.part += piece_bytes(self.whole, self.part);
        if self.part == segment_bytes(self.whole) {
            (self.whole, self.part) = (self.whole + 1, 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_segment_is_registered_once_and_all_books_agree(acts in prop::collection::vec(act(), 1..40), limit in 0..16u64) {
        let folder = scratch("registrar");
        let path = folder.path().join("file");
        let length = (0..PAGES.len()).map(segment_bytes).sum::<u64>();
        std::fs::write(&path, vec![7; length as usize]).expect("written");
        let file = Arc::new(SourceFile::open(&path).and_then(|file| file.map()).expect("mapped"));
        let mut offset = 0;
        let segments: Vec<MappedSegment> = (0..PAGES.len()).map(|index| {
            let (window, bytes) = (Window { file: 0, index: index as u64 }, segment_bytes(index));
            offset += bytes;
            MappedSegment { window, file: Arc::clone(&file), offset: offset - bytes, bytes }
        }).collect();
        let limit = limit * PAGE;
        let faulty = Faulty::new(HostDriver::new(HostOptions::default()).expect("a host driver"), Script::default());
        let ledger = Ledger::over(Arc::<Faulty>::clone(&faulty), 0);
        let budget = Arc::new(HostBudget::default());
        let driver: Arc<dyn Driver> = Arc::<Ledger>::clone(&ledger);
        let books = (Arc::clone(&budget), limit);
        let registrar = Registrar::new(Arc::clone(&driver), Arc::new(SystemClock), books, segments, PIECE_PAGES * PAGE);
        let mut registrations = Registrations::new(driver, Arc::clone(&budget), true);
        let mut model = Model::default();
        for act in acts {
            match act {
                Act::Step | Act::FailingStep => {
                    let fails = matches!(act, Act::FailingStep);
                    let answer = Some(DriverErrorKind::OutOfMemory).filter(|_| fails);
                    let by_name = [("host_register", [answer].into())].into();
                    faulty.follow(Script { by_name, ..Script::default() });
                    model.step(fails, limit);
                    let more = registrar.step();
                    faulty.follow(Script::default());
                    prop_assert_eq!(more, !model.over && model.whole < PAGES.len());
                }
                Act::Take => {
                    for segment in registrar.take() {
                        prop_assert!(segment.whole);
                        prop_assert_eq!(segment.window.index, model.taken as u64, "in the given order, once");
                        registrations.adopt(segment);
                        model.taken += 1;
                    }
                    prop_assert_eq!(model.taken, model.whole);
                }
                Act::Others(pages) => {
                    budget.leave_staging(model.others);
                    model.others = pages * PAGE;
                    if budget.enter_staging(model.others, limit).is_err() {
                        model.others = 0;
                    }
                }
                Act::End => {
                    let ended = registrar.end(Duration::ZERO);
                    prop_assert!(ended.quiet, "no call is under way");
                    ended.rest.into_iter().for_each(|segment| registrations.adopt(segment));
                    (model.taken, model.over) = (model.whole, true);
                }
            }
            let seen = ledger.seen();
            prop_assert_eq!(seen.registered_bytes, model.held());
            let HostTotals { registered_bytes, staging_bytes, .. } = budget.totals();
            prop_assert_eq!((registered_bytes, staging_bytes), (model.entered(), model.others));
            prop_assert!(model.entered() + model.others <= limit, "the limit of the process");
            prop_assert_eq!(registrations.registered_bytes(), (0..model.taken).map(segment_bytes).sum::<u64>());
            for index in 0..PAGES.len() {
                prop_assert_eq!(registrations.are_direct(Window { file: 0, index: index as u64 }), index < model.taken);
            }
            let waiting = if model.over { 0 } else { (model.whole..PAGES.len()).map(segment_bytes).sum::<u64>() };
            prop_assert_eq!(registrar.levels().waiting_bytes, waiting);
        }
        registrar.end(Duration::ZERO).rest.into_iter().for_each(|segment| registrations.adopt(segment));
        registrations.release().expect("given back");
        ledger.seen().assert_balanced();
        prop_assert_eq!(budget.totals().registered_bytes, 0);
    }
}
