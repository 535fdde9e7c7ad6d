//! Is there a device, and is its context current? The library is probed before its first call.
//!
//! May use: the driver's error types, `limits`, `cudarc`.
//!
//! Invariants: without a driver library, or with one that lacks a function, opening is an error, never a panic. The primary
//! context is retained once and released on drop. Whatever fails in a destructor is stored here.

#![allow(unsafe_code)]

use super::error::{check, invalid, missing};
use crate::driver::{DriverError, DriverResult};
use crate::limits::{MAX_STORED_ERRORS, MIN_CUDA_DRIVER_VERSION};
use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute};
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, PoisonError};

/// Every function of the library that this driver calls, by the name under which it is looked up.
const FUNCTIONS: [&str; 44] = [
    "cuCtxGetCurrent",
    "cuCtxGetStreamPriorityRange",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemAlloc_v2",
    "cuMemCreate",
    "cuMemFree_v2",
    "cuMemGetAllocationGranularity",
    "cuMemGetInfo_v2",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemMap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyHtoD_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy_v2",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

const OPEN: &str = "cuda_open";

/// A device's primary context.
#[derive(Debug)]
pub(super) struct Context {
    device: CUdevice,
    raw: usize,
    errors: Mutex<Vec<DriverError>>,
}

impl Context {
    /// Probes the library, picks the device and retains its primary context.
    pub(super) fn open(index: u32) -> DriverResult<Context> {
        probe()?;
        // SAFETY: the library is loaded and has the function; the call takes no pointers.
        check(OPEN, "cuInit", unsafe { sys::cuInit(0) })?;
        let mut version = 0;
        // SAFETY: `version` is a valid place for one int.
        check(OPEN, "cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
        if version < MIN_CUDA_DRIVER_VERSION {
            let detail =
                format!("the driver supports CUDA {}; at least {} is needed", dotted(version), dotted(MIN_CUDA_DRIVER_VERSION));
            return Err(missing(OPEN, detail));
        }
        let mut count = 0;
        // SAFETY: `count` is a valid place for one int.
        check(OPEN, "cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
        let ordinal = i32::try_from(index).ok().filter(|ordinal| *ordinal < count);
        let ordinal =
            ordinal.ok_or_else(|| invalid(OPEN, format!("device {index} was asked for; the number of devices is {count}")))?;
        let mut device = 0;
        // SAFETY: `device` is a valid place for one handle; the ordinal is below the count.
        check(OPEN, "cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal) })?;
        let mut raw: CUcontext = std::ptr::null_mut();
        // SAFETY: `raw` is a valid place for one handle; the device is valid. Released once, on drop.
        check(OPEN, "cuDevicePrimaryCtxRetain", unsafe { sys::cuDevicePrimaryCtxRetain(&mut raw, device) })?;
        let context = Context { device, raw: raw as usize, errors: Mutex::default() };
        context.make_current(OPEN)?;
        Ok(context)
    }

    /// The device's handle, which is its ordinal.
    pub(super) fn device(&self) -> CUdevice {
        self.device
    }

    /// Tells contexts apart while they live.
    pub(super) fn id(&self) -> u64 {
        self.raw as u64
    }

    /// Makes the context current on this thread unless it is. The thread's own record is asked, so a host program that
    /// switches contexts between two calls does no harm.
    ///
    /// # Cost
    /// One call of the library that touches thread-local state only; a second one after a switch.
    pub(super) fn make_current(&self, call: &'static str) -> DriverResult<()> {
        let mut current: CUcontext = std::ptr::null_mut();
        // SAFETY: `current` is a valid place for one handle.
        check(call, "cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&mut current) })?;
        if current as usize == self.raw {
            return Ok(());
        }
        // SAFETY: `raw` is the context that `self` has retained.
        check(call, "cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.raw as CUcontext) })
    }

    /// One attribute of the device.
    pub(super) fn attribute(&self, attribute: CUdevice_attribute) -> DriverResult<i32> {
        let mut value = 0;
        // SAFETY: `value` is a valid place for one int; the device is valid.
        check(OPEN, "cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, self.device) })?;
        Ok(value)
    }

    /// The device's name.
    pub(super) fn name(&self) -> DriverResult<String> {
        let mut name: [c_char; 256] = [0; 256];
        // SAFETY: `name` has the length that is passed; the device is valid.
        check(OPEN, "cuDeviceGetName", unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, self.device) })?;
        let bytes: Vec<u8> = name.iter().map(|c| c.cast_unsigned()).collect();
        Ok(CStr::from_bytes_until_nul(&bytes).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
    }

    /// Least and greatest priority of a stream; greater urgency is a smaller number.
    pub(super) fn priorities(&self) -> DriverResult<(i32, i32)> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: both are valid places for one int; the context is current.
        let answer = unsafe { sys::cuCtxGetStreamPriorityRange(&mut least, &mut greatest) };
        check(OPEN, "cuCtxGetStreamPriorityRange", answer).map(|()| (least, greatest))
    }

    /// Keeps a failure that happened in a destructor.
    pub(super) fn store(&self, outcome: DriverResult<()>) {
        if let Err(error) = outcome {
            let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
            if errors.len() < MAX_STORED_ERRORS {
                errors.push(error);
            }
        }
    }

    /// What was stored so far.
    pub(super) fn stored(&self) -> Vec<DriverError> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`; everything made in the context holds an `Arc` of it, so nothing uses it now.
        // There is nobody left to tell of a failure.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Loads the library and looks up every function that is needed.
fn probe() -> DriverResult<()> {
    // SAFETY: loading the vendor's library runs its initialisers, which is what the caller asks for; no symbol is called.
    if !unsafe { sys::is_culib_present() } {
        return Err(missing(OPEN, "no CUDA driver library was found (libcuda)"));
    }
    // SAFETY: the library is present, so this does not panic.
    let library = unsafe { sys::culib() };
    for function in FUNCTIONS {
        // SAFETY: the symbol is looked up as a bare address and never called through it.
        if unsafe { library.get::<*const ()>(function.as_bytes()) }.is_err() {
            return Err(missing(OPEN, format!("the CUDA driver library has no function {function}; a newer driver is needed")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::DriverErrorKind;

    #[test]
    fn without_a_driver_library_opening_is_an_error_and_stays_one() {
        for _ in 0..2 {
            match Context::open(4_000_000_000) {
                // A machine with a driver refuses the index instead.
                Err(error) => {
                    assert_eq!(error.call, "cuda_open");
                    let text = error.to_string();
                    let no_library = text.contains("no CUDA driver library was found") && error.kind == DriverErrorKind::System;
                    let other = text.contains("device 4000000000 was asked for") || text.contains("CUDA_ERROR_");
                    assert!(no_library || other, "{text}");
                }
                Ok(context) => panic!("device 4000000000 of {:?}", context.name()),
            }
        }
        assert_eq!(dotted(12_080), "12.8");
    }

    #[test]
    fn the_functions_are_listed_once_and_in_order() {
        assert!(FUNCTIONS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
