//! Threads that read source files, or copy retained contents, into host memory.
//!
//! Orders are taken in the order in which they were given; one that needs contents which are still being read comes
//! behind their reading, so that threads never wait for each other in a circle. No thread makes a driver call.

use crate::driver::{BlockWriter, FileChange, HostBlock, SourceFile};
use crate::error::Error;
use crate::meter::Counter;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Why bytes are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    /// The file is not what it was at opening.
    Source {
        /// The file.
        path: PathBuf,
        /// How it differs.
        change: FileChange,
    },
    /// Reading failed.
    Io {
        /// The file.
        path: PathBuf,
        /// What kind of failure it was.
        kind: io::ErrorKind,
        /// What the system said.
        detail: String,
    },
    /// The bytes to copy were not readable, or the order was given up.
    Cancelled,
}

impl ReadFailure {
    fn io(path: &Path, error: &io::Error) -> ReadFailure {
        ReadFailure::Io { path: path.to_path_buf(), kind: error.kind(), detail: error.to_string() }
    }
}

impl From<ReadFailure> for Error {
    fn from(failure: ReadFailure) -> Error {
        match failure {
            ReadFailure::Source { path, change } => Error::source(&path, change),
            ReadFailure::Io { path, kind, detail } => Error::io("read", &path, io::Error::new(kind, detail)),
            ReadFailure::Cancelled => Error::invalid("source bytes", "their reading was given up"),
        }
    }
}

/// Reads a stretch of a file; bytes of a file that has changed are never delivered.
pub(super) fn read_unchanged(file: &SourceFile, offset: u64, into: &mut [u8]) -> Result<(), ReadFailure> {
    let read = file.read_into(offset, into);
    // Why a read failed is best told by what has happened to the file.
    let change = file.change().map_err(|error| ReadFailure::io(file.path(), &error))?;
    if let Some(change) = change {
        return Err(ReadFailure::Source { path: file.path().to_path_buf(), change });
    }
    read.map_err(|error| ReadFailure::io(file.path(), &error))
}

#[derive(Debug)]
struct Outcome {
    /// Pieces that are not done.
    left: u64,
    failure: Option<ReadFailure>,
}

/// Bytes on their way: one or several pieces.
#[derive(Clone, Debug)]
pub struct Reading(Arc<(Mutex<Outcome>, Condvar)>);

impl Reading {
    fn of(pieces: u64) -> Reading {
        Reading(Arc::new((Mutex::new(Outcome { left: pieces, failure: None }), Condvar::new())))
    }

    /// Bytes that are there already.
    pub fn done() -> Reading {
        Reading::of(0)
    }

    fn lock(&self) -> MutexGuard<'_, Outcome> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_piece(&self, result: Result<(), ReadFailure>) {
        let mut outcome = self.lock();
        outcome.left = outcome.left.saturating_sub(1);
        if let Err(failure) = result {
            outcome.failure.get_or_insert(failure);
        }
        drop(outcome);
        self.0.1.notify_all();
    }

    /// Blocks until all pieces are there, or none is on its way any more and one failed.
    ///
    /// # Errors
    /// The first failure.
    ///
    /// # Cost
    /// Waits for file reads.
    pub fn wait(&self) -> Result<(), ReadFailure> {
        let waited = self.0.1.wait_while(self.lock(), |outcome| outcome.left > 0);
        let outcome = waited.unwrap_or_else(PoisonError::into_inner);
        outcome.failure.clone().map_or(Ok(()), Err)
    }

    /// Whether nothing is on its way any more.
    pub fn is_done(&self) -> bool {
        self.lock().left == 0
    }
}

/// Where the bytes of an order come from.
#[derive(Clone, Debug)]
pub enum ReadFrom {
    /// A file, from an offset on.
    File {
        /// Which file.
        file: usize,
        /// First byte.
        offset: u64,
    },
    /// Host memory that may still be being read itself.
    Block {
        /// The memory.
        block: Arc<HostBlock>,
        /// First byte.
        offset: u64,
        /// What fills it.
        filled: Reading,
    },
}

#[derive(Debug)]
struct Order {
    from: ReadFrom,
    to: BlockWriter,
    reading: Reading,
    purpose: Purpose,
}

/// What an order is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Contents to keep.
    Fill,
    /// A chunk on its way through the ring, perhaps in vain.
    Pass,
}

#[derive(Debug, Default)]
struct Queue {
    orders: VecDeque<Order>,
    ended: bool,
}

/// Reads of one purpose.
#[derive(Debug, Default)]
pub struct ReadCounts {
    /// Pieces read from files.
    pub chunks: Counter,
    /// File bytes delivered.
    pub bytes: Counter,
    /// Reads that failed.
    pub failures: Counter,
}

/// What the threads have done.
#[derive(Debug, Default)]
pub struct ReadBook {
    /// Reads into ring slots.
    pub passed: ReadCounts,
    /// Reads into retained storage.
    pub filled: ReadCounts,
    /// Bytes copied from host memory.
    pub copied_bytes: Counter,
}

#[derive(Debug)]
struct Shared {
    files: Arc<Vec<SourceFile>>,
    queue: Mutex<Queue>,
    changed: Condvar,
    book: ReadBook,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        loop {
            let idle = self.changed.wait_while(self.lock(), |queue| queue.orders.is_empty() && !queue.ended);
            let mut queue = idle.unwrap_or_else(PoisonError::into_inner);
            let Some(order) = queue.orders.pop_front() else { return };
            drop(queue);
            let Order { from, mut to, reading, purpose } = order;
            let result = self.execute(purpose, &from, to.as_mut_slice());
            // The right to write ends before anybody hears of it.
            drop(to);
            reading.end_piece(result);
        }
    }

    fn execute(&self, purpose: Purpose, from: &ReadFrom, to: &mut [u8]) -> Result<(), ReadFailure> {
        match from {
            ReadFrom::File { file, offset } => {
                let file = self.files.get(*file).ok_or(ReadFailure::Cancelled)?;
                let counts = match purpose {
                    Purpose::Pass => &self.book.passed,
                    Purpose::Fill => &self.book.filled,
                };
                read_unchanged(file, *offset, to).inspect_err(|_| counts.failures.add(1))?;
                counts.chunks.add(1);
                counts.bytes.add(to.len() as u64);
            }
            ReadFrom::Block { block, offset, filled } => {
                filled.wait()?;
                let lease = block.lease(*offset, to.len() as u64).ok_or(ReadFailure::Cancelled)?;
                if lease.bytes() != to.len() as u64 {
                    return Err(ReadFailure::Cancelled);
                }
                to.copy_from_slice(lease.as_slice());
                self.book.copied_bytes.add(to.len() as u64);
            }
        }
        Ok(())
    }
}

/// The threads.
#[derive(Debug)]
pub struct SourceReaders {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl SourceReaders {
    /// Starts `count` threads over the files.
    ///
    /// # Errors
    /// I/O errors when a thread cannot be started; those started before end again.
    pub fn start(files: Arc<Vec<SourceFile>>, count: u64) -> io::Result<SourceReaders> {
        let (queue, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { files, queue, changed, book: ReadBook::default() });
        let mut readers = SourceReaders { shared, threads: Vec::new() };
        for index in 0..count {
            let shared = Arc::clone(&readers.shared);
            let thread = std::thread::Builder::new().name(format!("ddo-source-{index}")).spawn(move || shared.work());
            readers.threads.push(thread?);
        }
        Ok(readers)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.threads.len() as u64
    }

    /// What they have done.
    pub fn book(&self) -> &ReadBook {
        &self.shared.book
    }

    /// Orders bytes; `piece` is the most that one thread takes at a time.
    pub fn order(&self, purpose: Purpose, from: &ReadFrom, to: BlockWriter, piece: u64) -> Reading {
        let pieces = to.bytes().div_ceil(piece.max(1)).max(1);
        let reading = Reading::of(pieces);
        let mut queue = self.shared.lock();
        let (mut rest, mut done) = (Some(to), 0u64);
        for _ in 0..pieces {
            let Some(to) = rest.take() else { break };
            let (first, further) = to.split_at(piece.max(1));
            let from = match from {
                ReadFrom::File { file, offset } => ReadFrom::File { file: *file, offset: offset + done },
                ReadFrom::Block { block, offset, filled } => {
                    ReadFrom::Block { block: Arc::clone(block), offset: offset + done, filled: filled.clone() }
                }
            };
            done += first.bytes();
            rest = Some(further);
            queue.orders.push_back(Order { from, to: first, reading: reading.clone(), purpose });
        }
        // What is left of the writer is empty; it must not outlive the pieces.
        drop(rest);
        drop(queue);
        self.shared.changed.notify_all();
        reading
    }

    /// Takes back the orders of a purpose that no thread has begun.
    pub fn cancel(&self, purpose: Purpose) {
        let mut queue = self.shared.lock();
        let orders = std::mem::take(&mut queue.orders);
        let (stay, go): (VecDeque<Order>, VecDeque<Order>) = orders.into_iter().partition(|order| order.purpose != purpose);
        queue.orders = stay;
        drop(queue);
        for Order { to, reading, .. } in go {
            drop(to);
            reading.end_piece(Err(ReadFailure::Cancelled));
        }
    }

    /// Ends the threads behind what they are at; orders that none has begun are given up.
    ///
    /// # Cost
    /// Waits for the reads in progress.
    pub fn stop(&mut self) {
        self.end();
        for thread in self.threads.drain(..) {
            // A thread that panicked has let go of everything already.
            let _ = thread.join();
        }
    }

    fn end(&self) {
        self.cancel(Purpose::Pass);
        self.cancel(Purpose::Fill);
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for SourceReaders {
    /// Lets the threads end by themselves.
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Source(PathBuf);

    impl Source {
        fn new(bytes: &[u8]) -> (Source, Arc<Vec<SourceFile>>) {
            let path = std::env::temp_dir().join(format!("ddo-reader-{:032x}", fastrand::u128(..)));
            std::fs::write(&path, bytes).expect("written");
            let files = Arc::new(vec![SourceFile::open(&path).expect("opens")]);
            (Source(path), files)
        }
    }

    impl Drop for Source {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).ok();
        }
    }

    fn whole(block: &Arc<HostBlock>) -> BlockWriter {
        block.writer().expect("idle")
    }

    const FROM_START: ReadFrom = ReadFrom::File { file: 0, offset: 0 };

    #[test]
    fn a_file_is_read_in_pieces_and_copied_behind_its_reading() {
        let bytes: Vec<u8> = (0..10_000u32).map(|index| (index % 251) as u8).collect();
        let (_source, files) = Source::new(&bytes);
        let mut readers = SourceReaders::start(files, 2).expect("threads");
        let (kept, passing) = (HostBlock::map(10_000).expect("mapped"), HostBlock::map(500).expect("mapped"));
        let filled = readers.order(Purpose::Fill, &FROM_START, whole(&kept), 3000);
        let from = ReadFrom::Block { block: Arc::clone(&kept), offset: 9000, filled };
        let reading = readers.order(Purpose::Pass, &from, whole(&passing), u64::MAX);
        reading.wait().expect("copied");
        assert_eq!(passing.lease(0, 500).expect("idle").as_slice(), &bytes[9000..9500]);
        assert_eq!(kept.lease(0, 10_000).expect("idle").as_slice(), bytes);
        let book = readers.book();
        assert_eq!((book.filled.chunks.get(), book.filled.bytes.get(), book.copied_bytes.get()), (4, 10_000, 500));
        assert_eq!((book.passed.chunks.get(), book.passed.failures.get()), (0, 0));
        readers.stop();
    }

    #[test]
    fn a_failed_piece_fails_the_reading_and_what_depends_on_it() {
        let (source, files) = Source::new(&[1; 4000]);
        let mut readers = SourceReaders::start(files, 1).expect("threads");
        let (kept, passing) = (HostBlock::map(8000).expect("mapped"), HostBlock::map(10).expect("mapped"));
        let filled = readers.order(Purpose::Fill, &FROM_START, whole(&kept), 4000);
        let from = ReadFrom::Block { block: Arc::clone(&kept), offset: 0, filled: filled.clone() };
        let copied = readers.order(Purpose::Pass, &from, whole(&passing), u64::MAX);
        let past_the_end = filled.wait().expect_err("4000 bytes too many");
        assert!(matches!(&past_the_end, ReadFailure::Io { kind: io::ErrorKind::UnexpectedEof, .. }), "{past_the_end:?}");
        assert_eq!(copied.wait(), Err(past_the_end));
        assert!(kept.is_idle() && passing.is_idle(), "nobody writes any more");
        std::fs::remove_file(&source.0).expect("removed");
        let vanished = readers.order(Purpose::Pass, &FROM_START, whole(&passing), u64::MAX).wait().expect_err("gone");
        assert_eq!(Error::from(vanished).code(), "source_vanished");
        assert_eq!((readers.book().filled.failures.get(), readers.book().passed.failures.get()), (1, 1));
        readers.stop();
    }

    #[test]
    fn what_no_thread_has_begun_can_be_taken_back() {
        let (_source, files) = Source::new(&[1; 10]);
        let readers = SourceReaders::start(files, 0).expect("no thread at all");
        let (kept, passing) = (HostBlock::map(10).expect("mapped"), HostBlock::map(10).expect("mapped"));
        let filled = readers.order(Purpose::Fill, &FROM_START, whole(&kept), u64::MAX);
        let passed = readers.order(Purpose::Pass, &FROM_START, whole(&passing), u64::MAX);
        readers.cancel(Purpose::Pass);
        assert_eq!((passed.wait(), passing.is_idle()), (Err(ReadFailure::Cancelled), true));
        assert!(!filled.is_done() && !kept.is_idle(), "another purpose");
        drop(readers);
        assert_eq!(filled.wait(), Err(ReadFailure::Cancelled));
    }
}
