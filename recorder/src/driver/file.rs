//! Files as sources of weights: identity, reading a part, mapping the whole.

#![allow(unsafe_code)]

use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What makes a file the same file with the same contents, as far as the file system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Last modification, in nanoseconds.
    pub modified_nanoseconds: u64,
    /// Names that the file has; zero once it was removed or replaced.
    pub links: u64,
}

/// How an open file is not what it was at opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// A property has another value.
    Changed {
        /// Which property.
        what: &'static str,
        /// Its value at opening.
        before: u64,
        /// Its value now.
        now: u64,
    },
    /// It has no name any more: it was removed, or another file was put in its place.
    Vanished,
}

/// Files opened by this process so far.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// An open regular file with the identity it had at opening.
#[derive(Debug)]
pub struct SourceFile {
    path: PathBuf,
    file: File,
    identity: FileIdentity,
    generation: u64,
}

impl SourceFile {
    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// I/O errors; `InvalidInput` for anything that is not a regular file.
    pub fn open(path: &Path) -> io::Result<SourceFile> {
        // O_NONBLOCK so that a FIFO in place of a checkpoint is refused instead of waited for.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let identity = identity_of(&file)?;
        let generation = OPENED.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(SourceFile { path: path.to_path_buf(), file, identity, generation })
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Identity at opening.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Identity now, of the same open file.
    ///
    /// # Errors
    /// I/O errors.
    pub fn identity_now(&self) -> io::Result<FileIdentity> {
        identity_of(&self.file)
    }

    /// Which opening this is, process-wide: contents read through one are never taken for another's.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How the file differs from what it was at opening; `None` when it does not.
    ///
    /// # Errors
    /// I/O errors.
    pub fn change(&self) -> io::Result<Option<FileChange>> {
        let (before, now) = (self.identity, self.identity_now()?);
        if before.links > 0 && now.links == 0 {
            return Ok(Some(FileChange::Vanished));
        }
        let values = [
            ("its length in bytes", before.bytes, now.bytes),
            ("its modification time in nanoseconds", before.modified_nanoseconds, now.modified_nanoseconds),
        ];
        let changed = values.into_iter().find(|(_, before, now)| before != now);
        Ok(changed.map(|(what, before, now)| FileChange::Changed { what, before, now }))
    }

    /// Reads exactly as many bytes from `offset` as there is room for.
    ///
    /// # Errors
    /// I/O errors; `UnexpectedEof` when the file is shorter.
    pub fn read_into(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    /// Reads exactly `bytes` bytes from `offset`.
    ///
    /// # Errors
    /// I/O errors; `UnexpectedEof` when the file is shorter. The length is checked against the file first, so a wrong
    /// one allocates nothing.
    pub fn read(&self, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.identity.bytes) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the range reaches past the end of the file"));
        }
        let length = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let mut buffer = vec![0; length];
        self.file.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }

    /// Maps the whole file, shared and read-only.
    ///
    /// The caller must treat the file as immutable while it is mapped: another process that shortens it makes reads
    /// of the lost part end the process with SIGBUS.
    ///
    /// # Errors
    /// I/O errors.
    pub fn map(&self) -> io::Result<MappedFile> {
        let bytes = usize::try_from(self.identity.bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        if bytes == 0 {
            return Ok(MappedFile { address: 0, bytes: 0 });
        }
        // SAFETY: a new mapping at an address that the kernel chooses aliases no Rust object.
        let pointer =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, self.file.as_fd(), 0) }?;
        Ok(MappedFile { address: pointer as usize, bytes })
    }
}

fn identity_of(file: &File) -> io::Result<FileIdentity> {
    let stat = rustix::fs::fstat(file)?;
    Ok(FileIdentity {
        device: stat.st_dev,
        inode: stat.st_ino,
        bytes: stat.st_size.unsigned_abs(),
        modified_nanoseconds: stat.st_mtime.unsigned_abs().wrapping_mul(1_000_000_000).wrapping_add(stat.st_mtime_nsec),
        links: stat.st_nlink,
    })
}

/// A file mapped shared and read-only; unmapped on drop.
#[derive(Debug)]
pub struct MappedFile {
    address: usize,
    bytes: usize,
}

impl MappedFile {
    /// Mapped bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: the mapping was made by `SourceFile::map` with this length, is readable and lives as long as `self`;
        // whoever maps a file promises that nobody changes it meanwhile.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the range is exactly the mapping that this value owns, and no slice of it outlives `self`.
            let _ = unsafe { rustix::mm::munmap(self.address as *mut _, self.bytes) };
        }
    }
}
