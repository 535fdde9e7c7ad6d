//! Open files of this process that other libraries opened: which there are, and that a started program inherits none of them.

#![allow(unsafe_code)]

use rustix::io::FdFlags;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;

/// Numbers of the files that are open now; empty where the system does not list them.
pub fn open_descriptors() -> BTreeSet<i32> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return BTreeSet::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Keeps an open file from programs that are started later.
///
/// # Errors
/// The number is not open any more.
pub fn close_on_exec(descriptor: i32) -> io::Result<()> {
    if descriptor < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is not -1; it is borrowed for this one call, which changes a flag and neither reads, writes nor
    // closes. Where its owner has closed it meanwhile, the call fails or marks a file that std had marked already.
    let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
    Ok(rustix::io::fcntl_setfd(file, FdFlags::CLOEXEC)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_marked_file_is_not_inherited() {
        let file = std::fs::File::open("/dev/null").expect("there");
        // What a careless library leaves behind.
        rustix::io::fcntl_setfd(&file, FdFlags::empty()).expect("open");
        let number = file.as_raw_fd();
        assert!(open_descriptors().contains(&number));
        close_on_exec(number).expect("open");
        assert_eq!(rustix::io::fcntl_getfd(&file).expect("open"), FdFlags::CLOEXEC);
        assert!(close_on_exec(-1).is_err() && close_on_exec(i32::MAX).is_err());
    }
}
