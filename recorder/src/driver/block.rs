//! Host memory that files are read into and copies read from: "Who may touch these bytes now?"
//!
//! May use: `job` for leases. Invariants: a block is written by those who hold a share of its one writer, or read by
//! those who hold a lease, never both; its pages stay mapped as long as anybody refers to them, a registration
//! included.

#![allow(unsafe_code)]

use super::job::HostBytes;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Alignment of a block, in bytes: that of a huge page.
const ALIGNMENT: usize = 2 << 20;
/// The value of `users` while a writer exists.
const WRITING: usize = usize::MAX;

/// Anonymous pages of a fixed length.
#[derive(Debug)]
pub struct HostBlock {
    /// Where the mapping begins and how long it is.
    mapping: Range<usize>,
    start: usize,
    bytes: usize,
    /// Leases in existence, or [`WRITING`].
    users: AtomicUsize,
}

impl HostBlock {
    /// Maps a block; its pages take memory when they are first written. Huge pages are asked for.
    ///
    /// # Errors
    /// I/O errors; `OutOfMemory` for a length that the machine cannot address.
    pub fn map(bytes: u64) -> io::Result<Arc<HostBlock>> {
        let too_long = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = usize::try_from(bytes).map_err(|_| too_long())?;
        let length = bytes.checked_add(ALIGNMENT).ok_or_else(too_long)?;
        // SAFETY: a new anonymous mapping at an address that the kernel chooses aliases no Rust object.
        let pointer = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let base = pointer as usize;
        let start = base.next_multiple_of(ALIGNMENT);
        if bytes >= ALIGNMENT {
            // SAFETY: the range lies inside the new mapping; advice changes no contents. Declined advice is no failure.
            let _ = unsafe { rustix::mm::madvise(start as *mut _, bytes, Advice::LinuxHugepage) };
        }
        Ok(Arc::new(HostBlock { mapping: base..base + length, start, bytes, users: AtomicUsize::new(0) }))
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The one writer; `None` while there is another one or a lease.
    pub fn writer(self: &Arc<Self>) -> Option<BlockWriter> {
        self.users.compare_exchange(0, WRITING, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let writing = Arc::new(Writing(Arc::clone(self)));
        Some(BlockWriter { writing, range: 0..self.bytes })
    }

    /// A lease on some of the bytes; `None` while there is a writer, or when they lie outside.
    pub fn lease(self: &Arc<Self>, offset: u64, bytes: u64) -> Option<HostBytes> {
        let more = |users: usize| if users >= WRITING - 1 { None } else { Some(users + 1) };
        self.users.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).ok()?;
        let reader = Arc::new(Reader(Arc::clone(self)));
        HostBytes::of_block(reader, Arc::clone(self), offset, bytes)
    }

    /// Whether nobody writes or reads.
    pub fn is_idle(&self) -> bool {
        self.users.load(Ordering::Acquire) == 0
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the mapping that this value owns, and nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.mapping.start as *mut _, self.mapping.len()) };
    }
}

/// Counts as one lease for as long as it lives.
struct Reader(Arc<HostBlock>);

impl AsRef<[u8]> for Reader {
    fn as_ref(&self) -> &[u8] {
        let block = &*self.0;
        if block.bytes == 0 {
            return &[];
        }
        // SAFETY: the bytes are mapped readable as long as the block lives, and this lease keeps writers away.
        unsafe { std::slice::from_raw_parts(block.start as *const u8, block.bytes) }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::Release);
    }
}

/// The right to write, shared by the pieces of one writer.
#[derive(Debug)]
struct Writing(Arc<HostBlock>);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.users.store(0, Ordering::Release);
    }
}

/// The right to write a stretch of a block. Nobody else writes it, and nobody reads any of the block meanwhile.
#[derive(Debug)]
pub struct BlockWriter {
    writing: Arc<Writing>,
    range: Range<usize>,
}

impl BlockWriter {
    /// Length of the stretch in bytes.
    pub fn bytes(&self) -> u64 {
        self.range.len() as u64
    }

    /// Cuts the stretch in two; the first is at most `bytes` long.
    pub fn split_at(self, bytes: u64) -> (BlockWriter, BlockWriter) {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.range.len());
        let middle = self.range.start + length;
        let first = BlockWriter { writing: Arc::clone(&self.writing), range: self.range.start..middle };
        (first, BlockWriter { writing: self.writing, range: middle..self.range.end })
    }

    /// The bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        if self.range.is_empty() {
            return &mut [];
        }
        let start = self.writing.0.start + self.range.start;
        // SAFETY: the range lies inside the block's writable mapping; writers of one block have disjoint ranges (they
        // come from splitting one), and no lease exists while one of them does.
        unsafe { std::slice::from_raw_parts_mut(start as *mut u8, self.range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_written_or_read_never_both() {
        let block = HostBlock::map(10_000).expect("mapped");
        let (mut first, mut second) = block.writer().expect("idle").split_at(4000);
        assert!(block.writer().is_none() && block.lease(0, 1).is_none(), "somebody writes");
        first.as_mut_slice().fill(1);
        second.as_mut_slice().fill(2);
        assert_eq!((first.bytes(), second.bytes()), (4000, 6000));
        drop(first);
        assert!(block.lease(0, 1).is_none(), "the other half is still being written");
        drop(second);
        let lease = block.lease(3999, 2).expect("nobody writes");
        assert_eq!(lease.as_slice(), [1, 2]);
        assert!(block.writer().is_none() && block.lease(0, 10_000).is_some() && block.lease(1, 10_000).is_none());
        drop(lease);
        assert!(block.is_idle() && block.writer().is_some());
    }

    #[test]
    fn bytes_outlive_their_block_and_cuts_past_the_end_are_empty() {
        let block = HostBlock::map(3 << 20).expect("mapped");
        let (whole, nothing) = block.writer().expect("idle").split_at(u64::MAX);
        assert_eq!((whole.bytes(), nothing.bytes()), (3 << 20, 0));
        drop((whole, nothing));
        let lease = block.lease(0, 3 << 20).expect("idle");
        assert_eq!(lease.as_slice().as_ptr() as usize % ALIGNMENT, 0, "on a huge page");
        drop(block);
        assert!(lease.as_slice().iter().all(|byte| *byte == 0));
        assert!(HostBlock::map(u64::MAX).is_err());
    }
}
