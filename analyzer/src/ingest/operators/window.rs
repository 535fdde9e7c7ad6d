//! The bytes at hand: "Which part of the file is in memory?"
//!
//! Uses `limits`. Invariants: memory is bounded by the largest event, not by the file; a reading that fails ends the
//! bytes and is told; the position in the file is always known; unpacking is stopped where it only blows up.

use crate::limits::{GZ_RATIO_FROM_BYTES, MAX_GZ_RATIO, MAX_TRACE_EVENT_BYTES};
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// A window over a stream of bytes.
pub(super) struct Window<R> {
    source: R,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// Position of the window in the file.
    offset: u64,
    ended: bool,
    /// Why the bytes end, where it was no end of file.
    pub(super) failure: Option<io::Error>,
}

impl<R: Read> Window<R> {
    /// Before the first byte.
    pub(super) fn new(source: R) -> Window<R> {
        Window { source, buffer: vec![0; 2 * CHUNK], from: 0, to: 0, offset: 0, ended: false, failure: None }
    }

    /// The bytes, and whether nothing follows them.
    #[inline]
    pub(super) fn view(&self) -> (&[u8], bool) {
        (self.buffer.get(self.from..self.to).unwrap_or_default(), self.ended)
    }

    /// Position of the first byte of the view in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Lets go of bytes at the front.
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.to - self.from);
        self.from += count;
        self.offset += count as u64;
    }

    /// Adds bytes; false where the window is as large as it may be.
    pub(super) fn fill(&mut self) -> bool {
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        if self.buffer.len() - self.to < CHUNK {
            if self.to >= MAX_TRACE_EVENT_BYTES {
                return false;
            }
            let larger = self.buffer.len() * 2;
            self.buffer.resize(larger, 0);
        }
        while !self.ended && self.to < self.buffer.len() {
            let Some(room) = self.buffer.get_mut(self.to..) else { break };
            match self.source.read(room) {
                Ok(0) => self.ended = true,
                Ok(count) => self.to += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error);
                    self.ended = true;
                }
            }
        }
        true
    }
}

/// Counts the bytes that are read from a packed file.
pub(super) struct Counted<R> {
    source: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(room)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

/// An unpacked file that stops where it grows beyond all proportion.
pub(super) struct Unpacked<R> {
    source: R,
    packed: Rc<Cell<u64>>,
    unpacked: u64,
}

/// Unpacks a stream.
pub(super) fn unpack<R: Read>(source: R) -> Unpacked<flate2::bufread::MultiGzDecoder<io::BufReader<Counted<R>>>> {
    let packed = Rc::new(Cell::new(0));
    let counted = io::BufReader::with_capacity(64 << 10, Counted { source, count: packed.clone() });
    Unpacked { source: flate2::bufread::MultiGzDecoder::new(counted), packed, unpacked: 0 }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(room)?;
        self.unpacked += count as u64;
        if self.unpacked > GZ_RATIO_FROM_BYTES && self.unpacked / self.packed.get().max(1) > MAX_GZ_RATIO {
            let text = format!("it unpacks to more than {MAX_GZ_RATIO} times its size, the limit");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(count)
    }
}
