//! Which kernels are there, and how do they come to be? Compiled at run time for the device in use.
//!
//! Invariants: NVRTC is probed before its first call; the module lives until work that uses it has run.

#![allow(unsafe_code)]

use super::DeviceBuffer;
use crate::driver::cuda::context::Context;
use crate::driver::cuda::error::{check, missing};
use crate::driver::cuda::work::Keep;
use crate::driver::cuda::{CudaContext, CudaDriver};
use crate::driver::{DriverError, DriverErrorKind, DriverResult, JobError, View};
use cudarc::driver::sys::{self, CUdevice_attribute, CUfunction, CUmodule};
use cudarc::nvrtc::{result as nvrtc, sys as nvrtc_sys};
use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::time::Duration;

/// The kernels. `ddo_fold` matches `fold_bytes`.
const SOURCE: &CStr = cr#"
typedef unsigned long long u64;
__device__ __forceinline__ u64 mix(u64 v) {
  v += 0x9e3779b97f4a7c15ull;
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ull;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebull;
  return v ^ (v >> 31);
}
extern "C" __global__ void ddo_fold(const unsigned char* data, u64 bytes, u64 seed, u64* out) {
  const u64 pairs = bytes / 16, stride = (u64)gridDim.x * blockDim.x;
  const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  const ulonglong2* wide = (const ulonglong2*)data;
  u64 sum = 0;
  for (u64 i = first; i < pairs; i += stride) {
    const ulonglong2 two = wide[i];
    sum += mix(two.x ^ mix(seed + 2 * i)) + mix(two.y ^ mix(seed + 2 * i + 1));
  }
  if (first == 0) {
    for (u64 at = pairs * 16; at < bytes; at += 8) {
      u64 word = 0;
      for (u64 k = 0; k < 8 && at + k < bytes; k++) word |= (u64)data[at + k] << (8 * k);
      sum += mix(word ^ mix(seed + at / 8));
    }
  }
  for (int lane = 16; lane > 0; lane >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, lane);
  if ((threadIdx.x & 31) == 0 && sum != 0) atomicAdd(out, sum);
}
extern "C" __global__ void ddo_spin(u64 nanoseconds) {
  u64 start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - start < nanoseconds);
}
extern "C" __global__ void ddo_fill_bf16(unsigned short* out, u64 elements, u64 seed) {
  const u64 stride = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += stride)
    out[i] = (unsigned short)((mix(seed + i) & 0x807full) | 0x3f00ull);
}
"#;

/// Functions of NVRTC that are called.
const FUNCTIONS: [&str; 7] = [
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
];
const CALL: &str = "kernels_compile";
const THREADS: u32 = 256;
/// Blocks at most; more would only queue behind the ones that run.
const MAX_BLOCKS: u64 = 4096;

#[derive(Debug)]
struct Module {
    context: Arc<Context>,
    raw: usize,
}

impl Drop for Module {
    fn drop(&mut self) {
        let current = self.context.make_current("kernels_unload");
        // SAFETY: loaded by `Kernels::compile`, unloaded once; work that uses it owns the module, so none is left.
        let unload = || check("kernels_unload", "cuModuleUnload", unsafe { sys::cuModuleUnload(self.raw as CUmodule) });
        self.context.store(current.and_then(|()| unload()));
    }
}

/// The compiled kernels of one device.
#[derive(Debug)]
pub struct Kernels {
    module: Arc<Module>,
    fold: usize,
    spin: usize,
    fill: usize,
}

impl Kernels {
    /// Compiles the kernels for the driver's device.
    ///
    /// # Errors
    /// No NVRTC library, one without a needed function, its log where it declines, or CUDA's answer.
    ///
    /// # Cost
    /// A few hundred milliseconds of host time.
    pub fn compile(driver: &CudaDriver) -> DriverResult<Kernels> {
        probe()?;
        let context = &driver.context;
        context.make_current(CALL)?;
        let major = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let image = compile(&format!("--gpu-architecture=sm_{major}{minor}"))?;
        let mut raw: CUmodule = std::ptr::null_mut();
        // SAFETY: `raw` is a valid place for one handle; the image is whole and lives through the call.
        check(CALL, "cuModuleLoadData", unsafe { sys::cuModuleLoadData(&mut raw, image.as_ptr().cast()) })?;
        let module = Arc::new(Module { context: Arc::clone(context), raw: raw as usize });
        let (fold, spin, fill) =
            (function(&module, c"ddo_fold")?, function(&module, c"ddo_spin")?, function(&module, c"ddo_fill_bf16")?);
        Ok(Kernels { module, fold, spin, fill })
    }

    /// Queues a fold of a pinned tensor's bytes: adds what `fold_bytes` gives to the `index`-th 64-bit number of `sums`.
    ///
    /// # Errors
    /// A view that is not pinned or not aligned to 16 bytes, an index outside the buffer, or CUDA's answer.
    pub fn fold(&self, context: &CudaContext, view: &View, seed: u64, sums: &DeviceBuffer, index: u64) -> Result<(), JobError> {
        self.fold_at(context, context.pointer(view)?, view.bytes, seed, (sums, index), None)
    }

    /// Queues the same over the first bytes of a buffer.
    ///
    /// # Errors
    /// More bytes than the buffer has, an index outside `sums`, or CUDA's answer.
    pub fn fold_buffer(
        &self,
        context: &CudaContext,
        buffer: &DeviceBuffer,
        bytes: u64,
        seed: u64,
        sums: &DeviceBuffer,
        index: u64,
    ) -> Result<(), JobError> {
        if bytes > buffer.bytes() {
            return Err(JobError::new(format!("fold: {bytes} bytes were asked for; the buffer has {}", buffer.bytes())));
        }
        buffer.is_usable_in(context)?;
        self.fold_at(context, buffer.pointer(), bytes, seed, (sums, index), Some(buffer))
    }

    fn fold_at(
        &self,
        context: &CudaContext,
        data: u64,
        bytes: u64,
        seed: u64,
        (sums, index): (&DeviceBuffer, u64),
        from: Option<&DeviceBuffer>,
    ) -> Result<(), JobError> {
        if !data.is_multiple_of(16) {
            return Err(JobError::new(format!("fold: the bytes start at {data:#x}; they must be aligned to 16")));
        }
        if index >= sums.bytes() / 8 {
            return Err(JobError::new(format!("fold: number {index} was asked for; the buffer has {}", sums.bytes() / 8)));
        }
        sums.is_usable_in(context)?;
        let (mut data, mut length, mut seed, mut out) = (data, bytes, seed, sums.pointer() + index * 8);
        let parameters = [pointer(&mut data), pointer(&mut length), pointer(&mut seed), pointer(&mut out)];
        self.launch(context, self.fold, bytes.div_ceil(16), parameters, from.into_iter().chain([sums]))
    }

    /// Queues a pause of the stream: one thread that watches the device's clock.
    ///
    /// # Errors
    /// CUDA's answer.
    pub fn spin(&self, context: &CudaContext, duration: Duration) -> Result<(), JobError> {
        let mut nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.launch(context, self.spin, 1, [pointer(&mut nanoseconds)], [])
    }

    /// Queues brain floats between 1/2 and 1 in size, either sign, decided by seed and index, over the whole buffer.
    ///
    /// # Errors
    /// A buffer of another context, or CUDA's answer.
    pub fn fill_bf16(&self, context: &CudaContext, buffer: &DeviceBuffer, seed: u64) -> Result<(), JobError> {
        buffer.is_usable_in(context)?;
        let (mut out, mut elements, mut seed) = (buffer.pointer(), buffer.bytes() / 2, seed);
        let parameters = [pointer(&mut out), pointer(&mut elements), pointer(&mut seed)];
        self.launch(context, self.fill, elements, parameters, [buffer])
    }

    fn launch<'a, const N: usize>(
        &self,
        context: &CudaContext,
        function: usize,
        items: u64,
        mut parameters: [*mut c_void; N],
        buffers: impl IntoIterator<Item = &'a DeviceBuffer>,
    ) -> Result<(), JobError> {
        context.is_in(&self.module.context)?;
        let blocks = items.div_ceil(u64::from(THREADS)).clamp(1, MAX_BLOCKS) as u32;
        let threads = if items == 1 { 1 } else { THREADS };
        let keep = [Keep::new(&self.module)].into_iter().chain(buffers.into_iter().map(DeviceBuffer::keep));
        // SAFETY: the function belongs to the module, which the stream's leases keep as they keep the buffers; weights are
        // pinned by the job's grants; the parameters are those of the kernel, in order and size, and live through the call,
        // which copies them; every kernel stays inside the lengths that it is given.
        context.enqueue("cuLaunchKernel", keep, |stream| unsafe {
            let function = function as CUfunction;
            sys::cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters.as_mut_ptr(), std::ptr::null_mut())
        })
    }
}

fn pointer<T>(value: &mut T) -> *mut c_void {
    std::ptr::from_mut(value).cast()
}

fn function(module: &Module, name: &CStr) -> DriverResult<usize> {
    let mut raw: CUfunction = std::ptr::null_mut();
    // SAFETY: `raw` is a valid place for one handle; the module is loaded; the name ends in a zero byte.
    let answer = unsafe { sys::cuModuleGetFunction(&mut raw, module.raw as CUmodule, name.as_ptr()) };
    check(CALL, "cuModuleGetFunction", answer)?;
    Ok(raw as usize)
}

/// Loads NVRTC and looks up every function that is needed.
fn probe() -> DriverResult<()> {
    // SAFETY: loading the vendor's library runs its initialisers, which is what the caller asks for; no symbol is called.
    if !unsafe { nvrtc_sys::is_culib_present() } {
        return Err(missing(CALL, "no NVRTC library was found (libnvrtc); it comes with the CUDA toolkit"));
    }
    // SAFETY: the library is present, so this does not panic.
    let library = unsafe { nvrtc_sys::culib() };
    for function in FUNCTIONS {
        // SAFETY: the symbol is looked up as a bare address and never called through it.
        if unsafe { library.get::<*const ()>(function.as_bytes()) }.is_err() {
            return Err(missing(CALL, format!("the NVRTC library has no function {function}")));
        }
    }
    Ok(())
}

/// The kernels' machine code for an architecture.
fn compile(architecture: &str) -> DriverResult<Vec<u8>> {
    let failed = |function: &str, answer: nvrtc_sys::nvrtcResult, more: &str| {
        DriverError::new(CALL, DriverErrorKind::Other(answer as i32), format!("{function} answered {answer:?}{more}"))
    };
    let program = nvrtc::create_program(SOURCE, None).map_err(|error| failed("nvrtcCreateProgram", error.0, ""))?;
    // SAFETY: the program was just created.
    let compiled = unsafe { nvrtc::compile_program(program, &[architecture]) };
    let image = compiled.map_err(|error| {
        // SAFETY: the program was created and compiled.
        let log = unsafe { nvrtc::get_program_log(program) }.unwrap_or_default();
        let log: Vec<u8> = log.into_iter().map(|c| c.cast_unsigned()).filter(|byte| *byte != 0).collect();
        failed("nvrtcCompileProgram", error.0, &format!(" for {architecture}: {}", String::from_utf8_lossy(&log).trim()))
    });
    let image = image.and_then(|()| {
        let mut bytes = 0;
        // SAFETY: the program was compiled; `bytes` is a valid place for one size.
        let sized = unsafe { nvrtc_sys::nvrtcGetCUBINSize(program, &mut bytes) };
        sized.result().map_err(|error| failed("nvrtcGetCUBINSize", error.0, ""))?;
        let mut image = vec![0u8; bytes];
        // SAFETY: the program was compiled; the image has the size that was asked for.
        let got = unsafe { nvrtc_sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()) };
        got.result().map_err(|error| failed("nvrtcGetCUBIN", error.0, ""))?;
        Ok(image)
    });
    // SAFETY: the program was created above and is not used again. A failure would leave only host memory behind.
    let _ = unsafe { nvrtc::destroy_program(program) };
    image
}
