//! Device memory of the host driver: a memory file, mapped page by page into reserved addresses.
//!
//! Each reservation owns a stretch of the file as long as itself, and memory mapped at an offset of the reservation
//! takes the same offset of that stretch. Neighbouring mappings therefore continue each other in the file and the
//! kernel merges them into one. Released memory is punched out of the file.

#![allow(unsafe_code)]

use crate::driver::{DeviceAddress, DriverError, DriverErrorKind, DriverResult, HostContext, MemoryInfo, PhysicalId};
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The kernel's limit on mappings of one process; its usual default where it cannot be read.
pub(super) fn kernel_mapping_limit() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(65_530)
}

#[derive(Debug)]
struct Reservation {
    bytes: u64,
    file_offset: u64,
}

#[derive(Debug)]
struct Physical {
    bytes: u64,
    file_offset: Option<u64>,
    mappings: u32,
    released: bool,
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    bytes: u64,
    file_offset: u64,
    physical: PhysicalId,
    accessible: bool,
}

#[derive(Debug, Default)]
struct State {
    reservations: BTreeMap<u64, Reservation>,
    physical: BTreeMap<PhysicalId, Physical>,
    mappings: BTreeMap<u64, Mapping>,
    /// File stretches in use, by offset; keeps a stretch from being taken twice.
    taken: BTreeMap<u64, u64>,
    runs: u64,
    file_bytes: u64,
    used_bytes: u64,
    next: u64,
}

/// Device memory.
#[derive(Debug)]
pub(super) struct HostMemory {
    /// `None` when memory is only counted.
    file: Option<OwnedFd>,
    page_bytes: u64,
    total_bytes: u64,
    mapping_limit: u64,
    state: Mutex<State>,
}

/// First address of memory that is only counted: outside what a process can map.
const UNBACKED_BASE: u64 = 1 << 48;

/// Reserves addresses and makes the file long enough for them.
fn reserve_backed(file: &OwnedFd, length: usize, file_end: u64) -> DriverResult<u64> {
    // SAFETY: a new inaccessible mapping at an address that the kernel chooses aliases no Rust object.
    let address = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
    }
    .map_err(system("address_reserve"))?;
    if let Err(errno) = rustix::fs::ftruncate(file, file_end) {
        // SAFETY: the range was mapped just above and nothing refers to it yet.
        let _ = unsafe { rustix::mm::munmap(address, length) };
        return Err(system("address_reserve")(errno));
    }
    Ok(address as usize as u64)
}

fn invalid(call: &'static str, detail: impl Display) -> DriverError {
    DriverError::new(call, DriverErrorKind::InvalidValue, detail)
}

fn system(call: &'static str) -> impl Fn(rustix::io::Errno) -> DriverError {
    move |errno| {
        let kind = if errno == rustix::io::Errno::NOMEM { DriverErrorKind::OutOfMemory } else { DriverErrorKind::System };
        DriverError::new(call, kind, errno)
    }
}

fn pointer(address: u64) -> *mut c_void {
    address as usize as *mut c_void
}

impl State {
    /// True when the mapping at `left` continues into the one at `right`, in addresses, file and access.
    fn continues(&self, left: u64, right: u64) -> bool {
        let (Some(a), Some(b)) = (self.mappings.get(&left), self.mappings.get(&right)) else { return false };
        left + a.bytes == right && a.file_offset + a.bytes == b.file_offset && a.accessible == b.accessible
    }

    fn joins(&self, address: u64) -> u64 {
        let left = self.mappings.range(..address).next_back().map(|(at, _)| *at);
        let right = self.mappings.range(address + 1..).next().map(|(at, _)| *at);
        u64::from(left.is_some_and(|left| self.continues(left, address)))
            + u64::from(right.is_some_and(|right| self.continues(address, right)))
    }

    fn insert(&mut self, address: u64, mapping: Mapping) {
        self.mappings.insert(address, mapping);
        self.runs = (self.runs + 1).saturating_sub(self.joins(address));
    }

    fn remove(&mut self, address: u64) -> Option<Mapping> {
        let joins = self.joins(address);
        let mapping = self.mappings.remove(&address)?;
        self.runs = (self.runs + joins).saturating_sub(1);
        Some(mapping)
    }

    fn reservation(&self, call: &'static str, address: u64, bytes: u64) -> DriverResult<(u64, &Reservation)> {
        let found = self.reservations.range(..=address).next_back();
        let inside = found.filter(|(base, r)| address.checked_add(bytes).is_some_and(|end| end <= **base + r.bytes));
        let (base, reservation) =
            inside.ok_or_else(|| invalid(call, format!("{bytes} bytes at {address:#x} lie in no reserved range")))?;
        Ok((*base, reservation))
    }

    fn overlaps(&self, address: u64, bytes: u64) -> bool {
        self.mappings.range(..address + bytes).next_back().is_some_and(|(at, mapping)| at + mapping.bytes > address)
    }

    fn is_taken(&self, offset: u64, bytes: u64) -> bool {
        self.taken.range(..offset + bytes).next_back().is_some_and(|(at, length)| at + length > offset)
    }

    /// Start addresses of the mappings that make up exactly the given range.
    fn covering(&self, call: &'static str, address: u64, bytes: u64) -> DriverResult<Vec<u64>> {
        let mut at = address;
        let mut starts = Vec::new();
        while at < address + bytes {
            let Some(mapping) = self.mappings.get(&at) else {
                return Err(invalid(call, format!("{bytes} bytes at {address:#x} are not whole mappings")));
            };
            starts.push(at);
            at += mapping.bytes;
        }
        if at == address + bytes && !starts.is_empty() {
            Ok(starts)
        } else {
            Err(invalid(call, format!("{bytes} bytes at {address:#x} end inside a mapping")))
        }
    }
}

impl HostMemory {
    pub(super) fn new(page_bytes: u64, total_bytes: u64, mapping_limit: u64) -> DriverResult<HostMemory> {
        let file = rustix::fs::memfd_create("ddo-device", MemfdFlags::CLOEXEC).map_err(system("host_open"))?;
        Ok(HostMemory { file: Some(file), page_bytes, total_bytes, mapping_limit, state: Mutex::default() })
    }

    /// Memory that is only counted: every rule holds, no byte exists.
    pub(super) fn unbacked(page_bytes: u64, total_bytes: u64) -> HostMemory {
        HostMemory { file: None, page_bytes, total_bytes, mapping_limit: u64::MAX, state: Mutex::default() }
    }

    /// True when memory holds bytes.
    pub(super) fn is_backed(&self) -> bool {
        self.file.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn mapping_runs(&self) -> u64 {
        self.lock().runs
    }

    pub(super) fn info(&self) -> MemoryInfo {
        let used = self.lock().used_bytes;
        MemoryInfo { free_bytes: self.total_bytes.saturating_sub(used), total_bytes: self.total_bytes }
    }

    fn whole_pages(&self, call: &'static str, bytes: u64) -> DriverResult<()> {
        if bytes == 0 || !bytes.is_multiple_of(self.page_bytes) {
            return Err(invalid(call, format!("{bytes} bytes are not whole pages of {} bytes", self.page_bytes)));
        }
        Ok(())
    }

    pub(super) fn reserve(&self, bytes: u64) -> DriverResult<DeviceAddress> {
        self.whole_pages("address_reserve", bytes)?;
        let length = usize::try_from(bytes).map_err(|_| invalid("address_reserve", format!("{bytes} bytes do not fit")))?;
        let mut state = self.lock();
        let file_offset = state.file_bytes;
        let file_end = file_offset.checked_add(bytes).ok_or_else(|| invalid("address_reserve", "the file would overflow"))?;
        let address = match &self.file {
            Some(file) => reserve_backed(file, length, file_end)?,
            // Addresses that no mapping of a process ever has, one page apart so that neighbours never merge.
            None => UNBACKED_BASE + file_offset + state.reservations.len() as u64 * self.page_bytes,
        };
        state.file_bytes = file_end;
        state.reservations.insert(address, Reservation { bytes, file_offset });
        Ok(DeviceAddress(address))
    }

    pub(super) fn free(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        let mut state = self.lock();
        let whole = state.reservations.get(&address.0).is_some_and(|reservation| reservation.bytes == bytes);
        if !whole {
            return Err(invalid("address_free", format!("{bytes} bytes at {:#x} are no whole reservation", address.0)));
        }
        if state.overlaps(address.0, bytes) {
            return Err(invalid("address_free", format!("memory is still mapped in {bytes} bytes at {:#x}", address.0)));
        }
        if self.is_backed() {
            // SAFETY: the range is a whole reservation of ours without mappings, so no view into it is alive.
            unsafe { rustix::mm::munmap(pointer(address.0), bytes as usize) }.map_err(system("address_free"))?;
        }
        state.reservations.remove(&address.0);
        Ok(())
    }

    pub(super) fn create(&self, bytes: u64) -> DriverResult<PhysicalId> {
        self.whole_pages("memory_create", bytes)?;
        let mut state = self.lock();
        if state.used_bytes.checked_add(bytes).is_none_or(|used| used > self.total_bytes) {
            let (used, total) = (state.used_bytes, self.total_bytes);
            let detail = format!("{bytes} bytes asked for, {used} of {total} bytes in use");
            return Err(DriverError::new("memory_create", DriverErrorKind::OutOfMemory, detail));
        }
        state.used_bytes += bytes;
        state.next += 1;
        let id = PhysicalId(state.next);
        state.physical.insert(id, Physical { bytes, file_offset: None, mappings: 0, released: false });
        Ok(id)
    }

    pub(super) fn map(&self, address: DeviceAddress, bytes: u64, id: PhysicalId) -> DriverResult<()> {
        let call = "memory_map";
        self.whole_pages(call, bytes)?;
        let mut state = self.lock();
        let (base, reservation) = state.reservation(call, address.0, bytes)?;
        let home = reservation.file_offset + (address.0 - base);
        if !(address.0 - base).is_multiple_of(self.page_bytes) || state.overlaps(address.0, bytes) {
            return Err(invalid(call, format!("{bytes} bytes at {:#x} are mapped already or not on a page", address.0)));
        }
        let physical = state.physical.get(&id).filter(|physical| !physical.released);
        let physical = physical.ok_or_else(|| invalid(call, format!("memory {} does not exist", id.0)))?;
        if physical.bytes != bytes {
            return Err(invalid(call, format!("memory {} has {} bytes, {bytes} are to be mapped", id.0, physical.bytes)));
        }
        let offset = match physical.file_offset {
            Some(offset) => offset,
            None if !state.is_taken(home, bytes) => home,
            None => self.extend_file(&mut state, bytes)?,
        };
        // One more mapping splits the reserved range around it: count it and the gap behind it.
        let after = 2 * (state.runs + 1) + state.reservations.len() as u64;
        if after > self.mapping_limit {
            let detail = format!("{after} mappings would be needed, the limit is {} (vm.max_map_count)", self.mapping_limit);
            return Err(DriverError::new(call, DriverErrorKind::MappingLimit, detail));
        }
        if let Some(file) = &self.file {
            // SAFETY: the range lies inside a reservation of ours and holds no mapping, so replacing its inaccessible
            // placeholder touches no memory that anything refers to.
            unsafe {
                let flags = MapFlags::SHARED | MapFlags::FIXED;
                rustix::mm::mmap(pointer(address.0), bytes as usize, ProtFlags::empty(), flags, file, offset)
            }
            .map_err(system(call))?;
        }
        state.taken.insert(offset, bytes);
        state.insert(address.0, Mapping { bytes, file_offset: offset, physical: id, accessible: false });
        if let Some(physical) = state.physical.get_mut(&id) {
            physical.file_offset = Some(offset);
            physical.mappings += 1;
        }
        Ok(())
    }

    fn extend_file(&self, state: &mut State, bytes: u64) -> DriverResult<u64> {
        let offset = state.file_bytes;
        if let Some(file) = &self.file {
            rustix::fs::ftruncate(file, offset + bytes).map_err(system("memory_map"))?;
        }
        state.file_bytes = offset + bytes;
        Ok(offset)
    }

    pub(super) fn set_access(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        let call = "memory_set_access";
        let mut state = self.lock();
        let starts = state.covering(call, address.0, bytes)?;
        if self.is_backed() {
            // SAFETY: the range consists of whole mappings of ours; making them accessible invalidates nothing.
            unsafe { rustix::mm::mprotect(pointer(address.0), bytes as usize, MprotectFlags::READ | MprotectFlags::WRITE) }
                .map_err(system(call))?;
        }
        for start in starts {
            if let Some(mut mapping) = state.remove(start) {
                mapping.accessible = true;
                state.insert(start, mapping);
            }
        }
        Ok(())
    }

    pub(super) fn unmap(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        let call = "memory_unmap";
        let mut state = self.lock();
        let starts = state.covering(call, address.0, bytes)?;
        if self.is_backed() {
            // SAFETY: the range consists of whole mappings of ours; the session unmaps only what nobody has pinned, and
            // a later touch is a fault by design. The placeholder keeps the addresses reserved.
            unsafe {
                let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
                rustix::mm::mmap_anonymous(pointer(address.0), bytes as usize, ProtFlags::empty(), flags)
            }
            .map_err(system(call))?;
        }
        for start in starts {
            let Some(mapping) = state.remove(start) else { continue };
            if let Some(physical) = state.physical.get_mut(&mapping.physical) {
                physical.mappings -= 1;
                if physical.released && physical.mappings == 0 {
                    self.punch(&mut state, mapping.physical)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn release(&self, id: PhysicalId) -> DriverResult<()> {
        let mut state = self.lock();
        let physical = state.physical.get_mut(&id).filter(|physical| !physical.released);
        let physical = physical.ok_or_else(|| invalid("memory_release", format!("memory {} does not exist", id.0)))?;
        physical.released = true;
        if physical.mappings > 0 { Ok(()) } else { self.punch(&mut state, id) }
    }

    /// Gives the file's pages back and forgets the memory.
    fn punch(&self, state: &mut State, id: PhysicalId) -> DriverResult<()> {
        let Some(physical) = state.physical.remove(&id) else { return Ok(()) };
        state.used_bytes = state.used_bytes.saturating_sub(physical.bytes);
        let Some(offset) = physical.file_offset else { return Ok(()) };
        state.taken.remove(&offset);
        let Some(file) = &self.file else { return Ok(()) };
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(file, flags, offset, physical.bytes).map_err(system("memory_release"))
    }

    /// Refuses a range that is not mapped and accessible at this moment.
    pub(super) fn check_accessible(&self, call: &'static str, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        let state = self.lock();
        let end = address.0.checked_add(bytes).ok_or_else(|| invalid(call, "the range overflows"))?;
        let mut at = address.0;
        while at < end {
            let found = state.mappings.range(..=at).next_back();
            match found.filter(|(start, mapping)| mapping.accessible && at < **start + mapping.bytes) {
                Some((start, mapping)) => at = start + mapping.bytes,
                None => return Err(invalid(call, format!("device memory at {at:#x} is not mapped and accessible"))),
            }
        }
        Ok(())
    }

    /// Copies device memory out; no work may be writing there.
    pub(super) fn read(&self, from: DeviceAddress, bytes: u64) -> DriverResult<Vec<u8>> {
        self.check_accessible("read_device", from, bytes)?;
        if !self.is_backed() {
            return Err(invalid("read_device", "device memory is only counted, it holds no bytes"));
        }
        let quiet = HostContext::new(Vec::new());
        Ok(slice(from, bytes, &quiet).to_vec())
    }

    /// Writes into device memory, as the copy engine would: an unmapped page is a fault.
    pub(super) fn write(&self, to: DeviceAddress, from: &[u8]) {
        if !self.is_backed() {
            return;
        }
        // SAFETY: the destination was mapped and accessible when the copy was queued, and the session keeps it mapped
        // and unread until the copy's event has been passed; source and destination are different mappings.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.0 as usize as *mut u8, from.len()) };
    }
}

impl Drop for HostMemory {
    /// Unmaps what nobody gave back: by now every worker and every session that held this memory is gone.
    fn drop(&mut self) {
        if !self.is_backed() {
            return;
        }
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (address, reservation) in &state.reservations {
            // SAFETY: the range is a reservation of ours, and the last owner of this memory is being dropped.
            let _ = unsafe { rustix::mm::munmap(pointer(*address), reservation.bytes as usize) };
        }
    }
}

/// The bytes of device memory behind a pinned range.
pub(super) fn slice(pointer: DeviceAddress, bytes: u64, _pinned_by: &HostContext) -> &[u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: the context's grants cover the range (checked by the caller); the session made them for pinned memory
    // that stays mapped and unwritten until the work that borrows the context has ended.
    unsafe { std::slice::from_raw_parts(pointer.0 as usize as *const u8, bytes as usize) }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
