//! Which calls stand behind memory and registration?
//!
//! May use: the context, the ledger, the raw bindings. Invariants: a copy goes only to addresses that are mapped with access by
//! this driver; registered bytes are leased until they are unregistered; one library call never crosses a registration's end.

#![allow(unsafe_code)]

use super::context::Context;
use super::error::{check, invalid};
use super::handle::Stream;
use super::ledger::{Ledger, Registered};
use crate::driver::job::Keeper;
use crate::driver::{
    DeviceAddress, DriverError, DriverErrorKind, DriverResult, HostAccess, HostBytes, MemoryInfo, PhysicalId, RegistrationId,
};
use cudarc::driver::sys::{self, CUmemAccessDesc, CUmemAllocationProp, CUmemLocation};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By id: CUDA's handle and the size in bytes.
    physical: BTreeMap<PhysicalId, (u64, u64)>,
    ledger: Ledger,
    registered: Registered,
    leases: BTreeMap<RegistrationId, Keeper>,
}

/// Device memory and registrations of one driver.
#[derive(Debug)]
pub(super) struct Memory {
    context: Arc<Context>,
    page_bytes: u64,
    state: Mutex<State>,
}

fn location(context: &Context) -> CUmemLocation {
    CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: context.device() }
}

fn properties(context: &Context) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(context),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

fn size(call: &'static str, bytes: u64) -> DriverResult<usize> {
    usize::try_from(bytes).map_err(|_| invalid(call, format!("{bytes} bytes exceed the address space")))
}

impl Memory {
    pub(super) fn new(context: &Arc<Context>) -> DriverResult<Memory> {
        use sys::CUmemAllocationGranularity_flags as Flags;
        let properties = properties(context);
        let mut page = 0;
        for flag in [Flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM, Flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED] {
            let mut granularity = 0;
            // SAFETY: both pointers are to live values of the right type; the context is current.
            let answer = unsafe { sys::cuMemGetAllocationGranularity(&mut granularity, &properties, flag) };
            check("cuda_open", "cuMemGetAllocationGranularity", answer)?;
            page = page.max(granularity);
        }
        if !page.is_power_of_two() {
            let detail = format!("the granularity of device memory is {page} bytes, which is no power of two");
            return Err(DriverError::new("cuda_open", DriverErrorKind::System, detail));
        }
        Ok(Memory { context: Arc::clone(context), page_bytes: page as u64, state: Mutex::default() })
    }

    pub(super) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn info(&self) -> DriverResult<MemoryInfo> {
        self.context.make_current("memory_info")?;
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: both are valid places for one size; the context is current.
        check("memory_info", "cuMemGetInfo_v2", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok(MemoryInfo { free_bytes: free as u64, total_bytes: total as u64 })
    }

    pub(super) fn reserve(&self, bytes: u64) -> DriverResult<DeviceAddress> {
        self.context.make_current("address_reserve")?;
        let bytes = size("address_reserve", bytes)?;
        let mut pointer = 0;
        // SAFETY: `pointer` is a valid place for one address; CUDA chooses it.
        let answer = unsafe { sys::cuMemAddressReserve(&mut pointer, bytes, 0, 0, 0) };
        check("address_reserve", "cuMemAddressReserve", answer)?;
        Ok(DeviceAddress(pointer))
    }

    pub(super) fn free(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        self.context.make_current("address_free")?;
        let bytes = size("address_free", bytes)?;
        // SAFETY: takes numbers only; CUDA refuses a range that is not a whole reservation or still mapped.
        check("address_free", "cuMemAddressFree", unsafe { sys::cuMemAddressFree(address.0, bytes) })
    }

    pub(super) fn create(&self, bytes: u64) -> DriverResult<PhysicalId> {
        self.context.make_current("memory_create")?;
        let (whole, properties) = (size("memory_create", bytes)?, properties(&self.context));
        let mut handle = 0;
        // SAFETY: both pointers are to live values of the right type; the context is current.
        let answer = unsafe { sys::cuMemCreate(&mut handle, whole, &properties, 0) };
        check("memory_create", "cuMemCreate", answer)?;
        let mut state = self.state();
        state.next += 1;
        let id = PhysicalId(state.next);
        state.physical.insert(id, (handle, bytes));
        Ok(id)
    }

    fn physical(&self, call: &'static str, id: PhysicalId) -> DriverResult<(u64, u64)> {
        let handle = self.state().physical.get(&id).copied();
        handle.ok_or_else(|| invalid(call, format!("memory {} does not exist", id.0)))
    }

    pub(super) fn map(&self, address: DeviceAddress, bytes: u64, memory: PhysicalId) -> DriverResult<()> {
        let (handle, there) = self.physical("memory_map", memory)?;
        if bytes > there {
            // CUDA calls this "not supported", which says less.
            return Err(invalid("memory_map", format!("{bytes} bytes asked for; memory {} has {there}", memory.0)));
        }
        self.context.make_current("memory_map")?;
        let whole = size("memory_map", bytes)?;
        // SAFETY: the handle was created by this driver and not released; CUDA refuses addresses that are not reserved.
        check("memory_map", "cuMemMap", unsafe { sys::cuMemMap(address.0, whole, 0, handle, 0) })?;
        self.state().ledger.map(address.0, bytes);
        Ok(())
    }

    pub(super) fn set_access(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        self.context.make_current("memory_set_access")?;
        let whole = size("memory_set_access", bytes)?;
        let access = CUmemAccessDesc {
            location: location(&self.context),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: `access` is one live descriptor, as the count says; CUDA refuses addresses that are not mapped.
        let answer = unsafe { sys::cuMemSetAccess(address.0, whole, &access, 1) };
        check("memory_set_access", "cuMemSetAccess", answer)?;
        self.state().ledger.set_access(address.0, bytes);
        Ok(())
    }

    pub(super) fn unmap(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        self.context.make_current("memory_unmap")?;
        let whole = size("memory_unmap", bytes)?;
        // SAFETY: takes numbers only; the caller has proof that no work uses the range, CUDA refuses one that is not mapped.
        check("memory_unmap", "cuMemUnmap", unsafe { sys::cuMemUnmap(address.0, whole) })?;
        self.state().ledger.unmap(address.0, bytes);
        Ok(())
    }

    pub(super) fn release(&self, memory: PhysicalId) -> DriverResult<()> {
        let (handle, _) = self.physical("memory_release", memory)?;
        self.context.make_current("memory_release")?;
        // SAFETY: the handle was created by this driver and is released once: it leaves the table on success.
        check("memory_release", "cuMemRelease", unsafe { sys::cuMemRelease(handle) })?;
        self.state().physical.remove(&memory);
        Ok(())
    }

    pub(super) fn register(&self, bytes: &HostBytes, access: HostAccess) -> DriverResult<RegistrationId> {
        let call = "host_register";
        let slice = bytes.as_slice();
        if slice.is_empty() {
            return Err(invalid(call, "0 bytes"));
        }
        self.context.make_current(call)?;
        let read_only = if access == HostAccess::ReadOnly { sys::CU_MEMHOSTREGISTER_READ_ONLY } else { 0 };
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | read_only;
        let start = slice.as_ptr();
        // SAFETY: the slice is readable for its whole length; its owner is leased below until the registration ends.
        let answer = unsafe { sys::cuMemHostRegister_v2(start.cast_mut().cast(), slice.len(), flags) };
        check(call, "cuMemHostRegister_v2", answer)?;
        let mut state = self.state();
        state.next += 1;
        let id = RegistrationId(state.next);
        state.registered.insert(start as usize, slice.len());
        state.leases.insert(id, bytes.keeper());
        Ok(id)
    }

    pub(super) fn unregister(&self, id: RegistrationId) -> DriverResult<()> {
        let call = "host_unregister";
        let lease = self.state().leases.get(&id).cloned();
        let lease = lease.ok_or_else(|| invalid(call, format!("registration {} does not exist", id.0)))?;
        self.context.make_current(call)?;
        let start = lease.start as *mut std::ffi::c_void;
        // SAFETY: registered by `register` at this address and still leased; the caller has proof that no copy reads it.
        check(call, "cuMemHostUnregister", unsafe { sys::cuMemHostUnregister(start) })?;
        let mut state = self.state();
        state.registered.remove(lease.start);
        let kept = state.leases.remove(&id);
        drop(state);
        drop(kept);
        Ok(())
    }

    /// Queues the copy, cut at registrations. A piece outside them is staged by CUDA, which blocks the caller.
    pub(super) fn copy(&self, to: DeviceAddress, from: HostBytes, stream: &Stream) -> DriverResult<()> {
        let call = "copy_to_device";
        let (start, bytes) = (from.as_slice().as_ptr() as usize, from.bytes());
        let owner =
            from.owner_address().ok_or_else(|| invalid(call, format!("{bytes} source bytes are only counted, not there")))?;
        let pieces = {
            let state = self.state();
            if !state.ledger.accessible(to.0, bytes) {
                return Err(invalid(call, format!("{bytes} bytes at {:#x} are not mapped with access", to.0)));
            }
            state.registered.pieces(start, from.as_slice().len())
        };
        // Held until everything is queued, so that a point recorded by another thread lies before or behind all of it.
        let mut leases = stream.leases();
        leases.hold(owner, || Box::new(from));
        for (at, length) in pieces {
            let target = to.0 + (at - start) as u64;
            // SAFETY: source bytes lie inside `from`, whose owner the stream's leases keep until the copy has run; the target
            // lies inside a range that is mapped with access; the stream lives as long as its borrow; the context is current.
            let answer = unsafe { sys::cuMemcpyHtoDAsync_v2(target, at as *const _, length, stream.raw()) };
            check(call, "cuMemcpyHtoDAsync_v2", answer)?;
        }
        Ok(())
    }

    /// Copies device memory out; the caller has synchronised the context.
    pub(super) fn read(&self, from: DeviceAddress, bytes: u64) -> DriverResult<Vec<u8>> {
        let call = "read_device";
        if !self.state().ledger.accessible(from.0, bytes) {
            return Err(invalid(call, format!("{bytes} bytes at {:#x} are not mapped with access", from.0)));
        }
        self.context.make_current(call)?;
        let mut read = vec![0u8; size(call, bytes)?];
        if bytes > 0 {
            // SAFETY: the target has this length; the source is mapped with access; the call returns when the bytes are there.
            let answer = unsafe { sys::cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), from.0, read.len()) };
            check(call, "cuMemcpyDtoH_v2", answer)?;
        }
        Ok(read)
    }

    /// Ends every registration of an idle device; leaves their bytes alone for good otherwise.
    pub(super) fn end(&mut self, idle: bool) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for lease in std::mem::take(&mut state.leases).into_values() {
            let start = lease.start as *mut std::ffi::c_void;
            // SAFETY: registered at this address and still leased; an idle device reads nothing.
            let ended = idle && unsafe { sys::cuMemHostUnregister(start) } == sys::CUresult::CUDA_SUCCESS;
            if !ended {
                std::mem::forget(lease);
            }
        }
    }
}
