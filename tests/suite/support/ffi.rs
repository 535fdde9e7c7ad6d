//! The one place of the tests with unsafe code: touching device memory that is not there.

#![allow(unsafe_code)]

/// Reads one byte at an address, whatever is there. Unmapped, it is a fault that ends the process.
pub(crate) fn touch(address: u64) -> u8 {
    // SAFETY: none is claimed; the caller is a child process that is expected to die here.
    unsafe { std::ptr::read_volatile(address as usize as *const u8) }
}
