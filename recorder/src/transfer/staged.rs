//! The plain way to the device: the thread that uploads fills the next staging slot and queues the copy out of it.
//!
//! Bytes come from files or from host memory. A slot is filled again only once the copy out of it is proven complete; that
//! is the one thing waited for, and it is counted apart from the filling.

use super::Stopped;
use super::source_reader::read_unchanged;
use crate::driver::{DeviceAddress, Driver, DriverResult, HostBytes, SourceFile, StreamId};
use crate::error::{Error, Result};
use crate::memory::{Extent, HostRing};
use crate::meter::{Clock, Counter, HostScope};
use std::sync::Arc;

/// What only grows.
#[derive(Debug, Default)]
pub struct StagedBook {
    /// Host time of reading files into slots, failures included.
    pub shard_read: HostScope,
    /// File bytes read into slots.
    pub shard_read_bytes: Counter,
    /// Host time of copying host memory into slots.
    pub source_copy: HostScope,
    /// Bytes copied from host memory into slots.
    pub source_copy_bytes: Counter,
}

/// The staging slots of one component.
#[derive(Debug)]
pub struct Staged {
    driver: Arc<dyn Driver>,
    clock: Arc<dyn Clock>,
    stream: StreamId,
    slots: HostRing,
    files: Arc<Vec<SourceFile>>,
    book: StagedBook,
}

impl Staged {
    /// Slots whose copies are queued on `stream`.
    pub fn new(
        driver: Arc<dyn Driver>,
        clock: Arc<dyn Clock>,
        stream: StreamId,
        slots: HostRing,
        files: Arc<Vec<SourceFile>>,
    ) -> Staged {
        Staged { driver, clock, stream, slots, files, book: StagedBook::default() }
    }

    /// What only grows.
    pub fn book(&self) -> &StagedBook {
        &self.book
    }

    /// The slots.
    pub fn slots(&self) -> &HostRing {
        &self.slots
    }

    /// Host nanoseconds so far of waiting for slots and filling them: time of an upload that is no enqueueing.
    pub fn aside_nanoseconds(&self) -> u64 {
        let scopes = [self.slots.waits(), &self.book.shard_read, &self.book.source_copy];
        scopes.into_iter().map(HostScope::nanoseconds).sum()
    }

    /// Reads a stretch of a file and queues its copies; their number.
    ///
    /// # Errors
    /// The driver's; files that are not what they were; with the number of copies queued before.
    ///
    /// # Cost
    /// Reads the file, and waits for the oldest copy where every slot is busy.
    pub fn send_file(&mut self, extent: Extent, to: DeviceAddress) -> std::result::Result<u64, Stopped> {
        self.send(extent.bytes, to, |staged, from, into| {
            let file = staged.files.get(extent.file).ok_or_else(|| Error::invalid("source bytes", "no such file is open"))?;
            let bytes = into.len() as u64;
            staged.book.shard_read.time(&*staged.clock, || read_unchanged(file, extent.offset + from, into))?;
            staged.book.shard_read_bytes.add(bytes);
            Ok(())
        })
    }

    /// Copies host memory into slots and queues the copies out of them; their number.
    ///
    /// # Errors
    /// The driver's; bytes that are only counted; with the number of copies queued before.
    ///
    /// # Cost
    /// Copies the bytes, and waits for the oldest copy where every slot is busy.
    pub fn send_held(&mut self, bytes: &HostBytes, to: DeviceAddress) -> std::result::Result<u64, Stopped> {
        self.send(bytes.bytes(), to, |staged, from, into| {
            let piece = bytes.stretch(from, into.len() as u64).filter(HostBytes::is_backed);
            let piece = piece.ok_or_else(|| Error::invalid("source bytes", "they are only counted"))?;
            staged.book.source_copy.time(&*staged.clock, || into.copy_from_slice(piece.as_slice()));
            staged.book.source_copy_bytes.add(into.len() as u64);
            Ok(())
        })
    }

    /// Cuts bytes where slots end and sends each piece through the next slot.
    fn send(
        &mut self,
        bytes: u64,
        to: DeviceAddress,
        fill: impl Fn(&Staged, u64, &mut [u8]) -> Result<()>,
    ) -> std::result::Result<u64, Stopped> {
        let (mut queued, mut done) = (0, 0);
        while done < bytes {
            let piece = self.slots.shape().slot_bytes.min(bytes - done);
            let sent = self.send_piece(piece, to.offset(done), |staged, into| fill(staged, done, into));
            sent.map_err(|stopped| Stopped { queued: queued + stopped.queued, ..stopped })?;
            (queued, done) = (queued + 1, done + piece);
        }
        Ok(queued)
    }

    fn send_piece(
        &mut self,
        bytes: u64,
        to: DeviceAddress,
        fill: impl FnOnce(&Staged, &mut [u8]) -> Result<()>,
    ) -> std::result::Result<(), Stopped> {
        let taken = self.slots.wait_take(&*self.clock);
        let (slot, writer) = taken.map_err(|error| Stopped { queued: 0, error: error.into() })?;
        let (mut into, beyond) = writer.split_at(bytes);
        drop(beyond);
        let filled = fill(self, into.as_mut_slice());
        // The right to write ends before the device may read.
        drop(into);
        let queued = filled.and_then(|()| {
            let from = self.slots.lease(slot, 0, bytes)?;
            Ok(self.driver.copy_to_device(to, from, self.stream)?)
        });
        if let Err(error) = queued {
            self.slots.give(slot);
            return Err(Stopped { queued: 0, error });
        }
        // Where the record fails the slot stays out of use: nobody can prove that the copy has ended.
        self.slots.sent(slot, self.stream).map_err(|error| Stopped { queued: 1, error: error.into() })
    }

    /// Gives the slots back; every copy must have been proven complete.
    ///
    /// # Errors
    /// The first driver error; the rest is given back all the same.
    pub fn release(&mut self) -> DriverResult<()> {
        self.slots.release()
    }

    /// Every rule of the books that does not hold, as one sentence each.
    pub fn audit(&self) -> Vec<String> {
        let (levels, slots) = (self.slots.levels(), self.slots.shape().slots);
        let holds = levels.out == 0 && levels.free + levels.copying + levels.quarantined == slots;
        if holds { Vec::new() } else { vec![format!("there are {slots} staging slots and none in hand: {levels:?}")] }
    }
}
