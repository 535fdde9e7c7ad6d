//! Registering segments of mapped files ahead of their use, one piece after the other.
//!
//! A step registers one piece; a thread takes steps with pauses in between, or whoever owns the registrar does. What is
//! registered is put down here until somebody takes it over.
//!
//! Invariants: no lock is held during a driver call, so that asking what is new never waits for one; one piece is under way
//! at a time; the process's books are entered before a segment's first piece; a refusal ends registering and is no error;
//! once it has ended nothing begins, and what nobody took over is given back.

use super::registration::give_back;
use super::{HostBudget, RegisteredSegment, Window};
use crate::driver::{Driver, DriverResult, HostAccess, HostBytes, MappedFile, RegistrationId};
use crate::limits::REGISTRATION_PAUSE_PERCENT;
use crate::meter::{Clock, HostScope};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A segment of a mapped file.
#[derive(Clone, Debug)]
pub struct MappedSegment {
    /// Its name.
    pub window: Window,
    /// The file.
    pub file: Arc<MappedFile>,
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// The segment that is under way.
#[derive(Debug)]
struct UnderWay {
    segment: MappedSegment,
    ids: Vec<RegistrationId>,
    registered_bytes: u64,
}

impl UnderWay {
    fn registered(self) -> RegisteredSegment {
        let MappedSegment { window, bytes, .. } = self.segment;
        RegisteredSegment { window, ids: self.ids, bytes, whole: self.registered_bytes == bytes }
    }
}

/// A piece that is being registered.
struct Piece {
    lease: HostBytes,
}

#[derive(Debug, Default)]
struct Book {
    /// The next segment first.
    waiting: VecDeque<MappedSegment>,
    under_way: Option<UnderWay>,
    /// Registered, and not taken over yet.
    ready: Vec<RegisteredSegment>,
    /// A driver call is under way.
    busy: bool,
    ended: bool,
    /// It ended, and nobody waits for the call that was under way then.
    abandoned: bool,
    registered_bytes: u64,
    refused: Option<String>,
}

impl Book {
    fn is_over(&self) -> bool {
        !self.busy && self.under_way.is_none() && self.waiting.is_empty()
    }

    fn refuse(&mut self, reason: &str, asked: u64) {
        let registered = self.registered_bytes;
        self.refused = Some(format!("{reason}; {registered} bytes are registered, {asked} more were asked for"));
        self.waiting.clear();
    }
}

/// How far registering has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegistrarLevels {
    /// Bytes of segments that are still to be registered, the one under way included.
    pub waiting_bytes: u64,
    /// Whether it was declined, by the limit of the process or by the driver.
    pub refused: bool,
}

/// What was left when registering ended.
#[derive(Debug)]
pub struct Ended {
    /// Segments that nobody had taken over.
    pub rest: Vec<RegisteredSegment>,
    /// False when a driver call was still under way; what it registers is given back by itself.
    pub quiet: bool,
}

/// Registers segments in a given order.
#[derive(Debug)]
pub struct Registrar {
    driver: Arc<dyn Driver>,
    clock: Arc<dyn Clock>,
    budget: Arc<HostBudget>,
    limit_bytes: u64,
    piece_bytes: u64,
    book: Mutex<Book>,
    changed: Condvar,
    /// Whether something may be ready.
    news: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    started: AtomicBool,
    scope: HostScope,
}

impl Registrar {
    /// Nothing registered yet; with it, the sources of the process may hold at most `limit_bytes` registered.
    pub fn new(
        driver: Arc<dyn Driver>,
        clock: Arc<dyn Clock>,
        (budget, limit_bytes): (Arc<HostBudget>, u64),
        segments: Vec<MappedSegment>,
        piece_bytes: u64,
    ) -> Registrar {
        let book = Book { waiting: segments.into_iter().filter(|segment| segment.bytes > 0).collect(), ..Book::default() };
        Registrar {
            driver,
            clock,
            budget,
            limit_bytes,
            piece_bytes: piece_bytes.max(1),
            book: Mutex::new(book),
            changed: Condvar::new(),
            news: AtomicBool::new(false),
            thread: Mutex::new(None),
            started: AtomicBool::new(false),
            scope: HostScope::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the next piece, unless one is under way; whether more is left.
    ///
    /// # Cost
    /// One registration; reads from the file what the page cache lacks.
    pub fn step(&self) -> bool {
        if let Some(piece) = self.begin() {
            let registered = self.scope.time(&*self.clock, || self.driver.host_register(&piece.lease, HostAccess::ReadOnly));
            self.conclude(piece.lease.bytes(), registered);
        }
        !self.lock().is_over()
    }

    fn begin(&self) -> Option<Piece> {
        let mut book = self.lock();
        if book.busy || book.ended {
            return None;
        }
        if book.under_way.is_none() {
            let segment = book.waiting.pop_front()?;
            if let Err(refusal) = self.budget.enter_registered(segment.bytes, self.limit_bytes) {
                book.refuse(&refusal.to_string(), segment.bytes);
                self.changed.notify_all();
                return None;
            }
            book.under_way = Some(UnderWay { segment, ids: Vec::new(), registered_bytes: 0 });
        }
        let UnderWay { segment, registered_bytes, .. } = book.under_way.as_ref()?;
        let offset = segment.offset + registered_bytes;
        let bytes = self.piece_bytes.min(segment.bytes - registered_bytes);
        let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::<MappedFile>::clone(&segment.file);
        let Some(lease) = HostBytes::new(owner, offset, bytes) else {
            book.refuse("the segment lies outside its file", bytes);
            drop(book);
            self.give_up_segment();
            return None;
        };
        book.busy = true;
        Some(Piece { lease })
    }

    fn conclude(&self, bytes: u64, registered: DriverResult<RegistrationId>) {
        let mut book = self.lock();
        let failed = match registered {
            Ok(id) => {
                book.registered_bytes += bytes;
                if let Some(under_way) = &mut book.under_way {
                    under_way.ids.push(id);
                    under_way.registered_bytes += bytes;
                }
                false
            }
            Err(error) => {
                book.refuse(&error.to_string(), bytes);
                true
            }
        };
        if failed || book.abandoned {
            drop(book);
            self.give_up_segment();
            book = self.lock();
        } else if book.under_way.as_ref().is_some_and(|under_way| under_way.registered_bytes == under_way.segment.bytes)
            && let Some(done) = book.under_way.take()
        {
            book.ready.push(done.registered());
            self.news.store(true, Ordering::Release);
        }
        book.busy = false;
        drop(book);
        self.changed.notify_all();
    }

    /// Gives back what is registered of the segment under way; what cannot be is kept to be tried again.
    fn give_up_segment(&self) {
        let Some(under_way) = self.lock().under_way.take() else { return };
        let registered_bytes = under_way.registered_bytes;
        let mut torn = RegisteredSegment { whole: false, ..under_way.registered() };
        let given_back = give_back(&*self.driver, &self.budget, &mut torn);
        let mut book = self.lock();
        book.registered_bytes = book.registered_bytes.saturating_sub(registered_bytes);
        if given_back.is_err() {
            book.ready.push(torn);
            self.news.store(true, Ordering::Release);
        }
    }

    /// Takes over what was registered since the last time. Never waits for a registration; one load where nothing is new.
    pub fn take(&self) -> Vec<RegisteredSegment> {
        if !self.news.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut book = self.lock();
        self.news.store(false, Ordering::Release);
        std::mem::take(&mut book.ready)
    }

    /// Registers nothing, for a reason.
    pub fn decline(&self, reason: &str) {
        let mut book = self.lock();
        let asked = book.waiting.iter().map(|segment| segment.bytes).sum();
        book.refuse(reason, asked);
    }

    /// How far it has come.
    pub fn levels(&self) -> RegistrarLevels {
        let book = self.lock();
        let under_way = book.under_way.as_ref().map_or(0, |under_way| under_way.segment.bytes);
        let waiting_bytes = under_way + book.waiting.iter().map(|segment| segment.bytes).sum::<u64>();
        RegistrarLevels { waiting_bytes, refused: book.refused.is_some() }
    }

    /// Why registering was declined, where it was.
    pub fn refused(&self) -> Option<String> {
        self.lock().refused.clone()
    }

    /// Registrations and their host time, failed ones included.
    pub fn scope(&self) -> &HostScope {
        &self.scope
    }

    /// Blocks until nothing is left to register, at most for the given time; whether nothing is.
    ///
    /// # Cost
    /// Waits for registrations.
    pub fn wait(&self, at_most: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), at_most, |book| !book.is_over());
        let (book, _) = waited.unwrap_or_else(PoisonError::into_inner);
        book.is_over()
    }

    /// Starts a thread that registers everything, once. Where none can be had, that is a refusal.
    pub fn start(self: &Arc<Self>) {
        if self.started.swap(true, Ordering::Relaxed) || self.lock().is_over() {
            return;
        }
        let registrar = Arc::clone(self);
        let thread = std::thread::Builder::new().name("ddo-registrar".into()).spawn(move || registrar.work());
        match thread {
            Ok(thread) => *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread),
            Err(error) => {
                let mut book = self.lock();
                let asked = book.waiting.iter().map(|segment| segment.bytes).sum();
                book.refuse(&format!("no thread could be started: {error}"), asked);
                self.changed.notify_all();
            }
        }
    }

    /// Takes steps until nothing is left, each followed by a pause in which others have the driver's lock.
    fn work(&self) {
        loop {
            let before = self.scope.nanoseconds();
            let more = self.step();
            let held = Duration::from_nanos(self.scope.nanoseconds() - before);
            if !more || self.pause(held * REGISTRATION_PAUSE_PERCENT / 100) {
                return;
            }
        }
    }

    /// Waits; whether registering has ended meanwhile.
    fn pause(&self, lasting: Duration) -> bool {
        let paused = self.changed.wait_timeout_while(self.lock(), lasting, |book| !book.ended);
        let (book, _) = paused.unwrap_or_else(PoisonError::into_inner);
        book.ended
    }

    /// Lets nothing further begin. What is under way goes on.
    pub fn stop(&self) {
        let mut book = self.lock();
        book.ended = true;
        book.waiting.clear();
        drop(book);
        self.changed.notify_all();
    }

    /// Ends registering behind the piece that is under way, waited for at most so long, and joins the thread.
    ///
    /// # Cost
    /// Waits for one registration, at most `at_most`.
    pub fn end(&self, at_most: Duration) -> Ended {
        let ended = self.abandon(at_most);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|_| ended.quiet) {
            // It is pausing or at its end; one that panicked has let go of everything already.
            let _ = thread.join();
        }
        ended
    }

    /// The same, without joining the thread, which ends by itself.
    pub fn abandon(&self, at_most: Duration) -> Ended {
        self.stop();
        let waited = self.changed.wait_timeout_while(self.lock(), at_most, |book| book.busy);
        let (mut book, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut rest = std::mem::take(&mut book.ready);
        self.news.store(false, Ordering::Release);
        if book.busy {
            book.abandoned = true;
        } else {
            self.changed.notify_all();
            rest.extend(book.under_way.take().map(|under_way| RegisteredSegment { whole: false, ..under_way.registered() }));
        }
        Ended { rest, quiet: !book.busy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::activity::StreamActivity;
    use crate::driver::{HostDriver, HostOptions, SourceFile};
    use crate::meter::SystemClock;

    /// Keeps registrations waiting until it is opened.
    #[derive(Debug)]
    struct Gate {
        inner: Arc<dyn Driver>,
        /// Calls that wait, and whether they still do.
        state: Mutex<(u64, bool)>,
        changed: Condvar,
    }

    impl Gate {
        fn records(&self) -> Option<&dyn StreamActivity> {
            None
        }

        fn around<T>(&self, call: &'static str, work: impl FnOnce() -> DriverResult<T>) -> DriverResult<T> {
            if call == "host_register" {
                let mut state = self.state.lock().expect("no test panics here");
                state.0 += 1;
                self.changed.notify_all();
                drop(self.changed.wait_while(state, |(_, open)| !*open).expect("no test panics here"));
            }
            work()
        }
    }

    crate::driver::wrap_driver!(Gate);

    fn file(bytes: u64) -> Arc<MappedFile> {
        let path = std::env::temp_dir().join(format!("ddo-registrar-{:032x}", fastrand::u128(..)));
        std::fs::write(&path, vec![1; bytes as usize]).expect("written");
        let mapped = SourceFile::open(&path).and_then(|file| file.map()).expect("mapped");
        std::fs::remove_file(&path).expect("removed");
        Arc::new(mapped)
    }

    #[test]
    fn a_call_that_outlasts_the_end_gives_back_what_it_registers() {
        let driver: Arc<dyn Driver> = HostDriver::new(HostOptions::default()).expect("a host driver");
        let gate = Arc::new(Gate { inner: Arc::clone(&driver), state: Mutex::new((0, false)), changed: Condvar::new() });
        let (file, budget) = (file(10_000), Arc::new(HostBudget::default()));
        let segment = MappedSegment { window: Window { file: 0, index: 0 }, file: Arc::clone(&file), offset: 0, bytes: 10_000 };
        let shared: Arc<dyn Driver> = Arc::<Gate>::clone(&gate);
        let books = (Arc::clone(&budget), u64::MAX);
        let registrar = Arc::new(Registrar::new(shared, Arc::new(SystemClock), books, vec![segment], 4096));
        registrar.start();
        let state = gate.state.lock().expect("no test panics here");
        drop(gate.changed.wait_while(state, |(calls, _)| *calls == 0).expect("no test panics here"));
        assert!(registrar.step(), "one piece at a time: this one is under way already");
        let ended = registrar.end(Duration::ZERO);
        assert!(!ended.quiet && ended.rest.is_empty());
        assert_eq!(budget.totals().registered_bytes, 10_000);
        gate.state.lock().expect("no test panics here").1 = true;
        gate.changed.notify_all();
        assert!(registrar.wait(Duration::from_secs(60)), "it gives back and ends by itself");
        assert_eq!((budget.totals().registered_bytes, registrar.take().len()), (0, 0));
        let again = HostBytes::new(file, 0, 10_000).expect("inside");
        driver.host_register(&again, HostAccess::ReadOnly).expect("nothing of it is registered");
        assert_eq!(gate.state.lock().expect("no test panics here").0, 1, "no other piece was begun");
    }

    #[test]
    fn a_piece_that_fails_takes_the_rest_of_its_segment_back() {
        let options = HostOptions { registration_limit_bytes: Some(10_000), ..HostOptions::default() };
        let driver: Arc<dyn Driver> = HostDriver::new(options).expect("a host driver");
        let (file, budget) = (file(20_000), Arc::new(HostBudget::default()));
        let segment = |index: u64, offset: u64, bytes: u64| MappedSegment {
            window: Window { file: 0, index },
            file: Arc::clone(&file),
            offset,
            bytes,
        };
        let segments = vec![segment(0, 0, 4096), segment(1, 4096, 0), segment(2, 4096, 12_000), segment(3, 16_384, 3616)];
        let books = (Arc::clone(&budget), u64::MAX);
        let registrar = Registrar::new(driver, Arc::new(SystemClock), books, segments, 4096);
        while registrar.step() {}
        let ready = registrar.take();
        assert_eq!(ready.iter().map(|segment| (segment.window.index, segment.bytes)).collect::<Vec<_>>(), [(0, 4096)]);
        assert_eq!((budget.totals().registered_bytes, registrar.scope().calls()), (4096, 3));
        assert!(registrar.levels().refused);
        let reason = registrar.refused().expect("declined");
        assert!(reason.ends_with("8192 bytes are registered, 4096 more were asked for"), "{reason}");
    }
}
