//! How is a linear layer computed? By cuBLASLt, with one algorithm a shape.
//!
//! Invariants: the library is probed before its first call. The algorithm is chosen once a shape, from the shape, a fixed
//! workspace and a declared alignment, never from an address: resident and streamed weights go through the same instructions.
//! Each stream has a workspace of its own.

#![allow(unsafe_code)]

use super::DeviceBuffer;
use crate::driver::cuda::context::Context;
use crate::driver::cuda::error::missing;
use crate::driver::cuda::handle::Stream;
use crate::driver::cuda::{CudaContext, CudaDriver};
use crate::driver::{DriverError, DriverErrorKind, DriverResult, JobError, View};
use crate::limits::{GEMM_ALIGNMENT_BYTES, GEMM_WORKSPACE_BYTES};
use crate::plan::checkpoint::Dtype;
use cudarc::cublaslt::result::{self as lt, CublasError};
use cudarc::cublaslt::sys::{self, cublasLtMatmulPreferenceAttributes_t as Preference};
use cudarc::driver::sys::CUresult;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError, Weak};

const CALL: &str = "gemm";
/// `CUBLAS_OP_T` of `cublasOperation_t`, which the bindings of this library leave out.
const TRANSPOSED: i32 = 1;
/// Functions of cuBLASLt that are called.
const FUNCTIONS: [&str; 12] = [
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtMatmul",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
];

/// Extents of `y[m, n] = x[m, k] * w[n, k]^T`, all row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GemmShape {
    /// Rows of input and output: tokens.
    pub m: u64,
    /// Outputs of the layer.
    pub n: u64,
    /// Inputs of the layer.
    pub k: u64,
}

/// What is settled about a shape: descriptors and the algorithm.
struct Plan {
    operation: usize,
    weights: usize,
    input: usize,
    output: usize,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

struct Library {
    context: Arc<Context>,
    raw: usize,
    plans: Mutex<BTreeMap<GemmShape, Arc<Plan>>>,
    /// One a stream; an ended stream's goes when another one is made.
    workspaces: Mutex<Vec<(Weak<Stream>, DeviceBuffer)>>,
}

/// Matrix products on one device.
pub struct Gemm {
    library: Library,
}

impl std::fmt::Debug for Gemm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gemm({:#x})", self.library.raw)
    }
}

fn failed(function: &str, error: CublasError) -> DriverError {
    DriverError::new(CALL, DriverErrorKind::Other(error.0 as i32), format!("{function} answered {:?}", error.0))
}

impl Gemm {
    /// Opens the library for the driver's device.
    ///
    /// # Errors
    /// No cuBLASLt library, one without a needed function, or its answer.
    pub fn open(driver: &CudaDriver) -> DriverResult<Gemm> {
        probe()?;
        driver.context.make_current(CALL)?;
        let raw = lt::create_handle().map_err(|error| failed("cublasLtCreate", error))?;
        let context = Arc::clone(&driver.context);
        Ok(Gemm { library: Library { context, raw: raw as usize, plans: Mutex::default(), workspaces: Mutex::default() } })
    }

    /// Queues `y = scale * x * w^T` for brain floats, summed in 32 bits.
    ///
    /// # Errors
    /// A view that is not pinned, not BF16 or not of the shape; a buffer that is too small; an address without the declared
    /// alignment; the library's answer.
    pub fn linear_bf16(
        &self,
        context: &CudaContext,
        x: &DeviceBuffer,
        w: &View,
        y: &DeviceBuffer,
        shape: GemmShape,
        scale: f32,
    ) -> Result<(), JobError> {
        let GemmShape { m, n, k } = shape;
        let weights = context.pointer(w)?;
        context.is_in(&self.library.context)?;
        x.is_usable_in(context)?;
        y.is_usable_in(context)?;
        if w.dtype != Dtype::Bf16 || w.shape() != [n, k] {
            return Err(JobError::new(format!(
                "gemm: the weights are {} {:?}; BF16 [{n}, {k}] is needed",
                w.dtype.name(),
                w.shape()
            )));
        }
        for (what, buffer, elements) in [("x", x, m.checked_mul(k)), ("y", y, m.checked_mul(n))] {
            let needed = elements.and_then(|elements| elements.checked_mul(2));
            if needed.is_none_or(|needed| needed > buffer.bytes()) {
                return Err(JobError::new(format!("gemm: {what} has {} bytes; {needed:?} are needed", buffer.bytes())));
            }
        }
        if let Some(address) =
            [weights, x.pointer(), y.pointer()].iter().find(|address| !address.is_multiple_of(GEMM_ALIGNMENT_BYTES))
        {
            return Err(JobError::new(format!("gemm: {address:#x} is not aligned to {GEMM_ALIGNMENT_BYTES} bytes")));
        }
        let plan = self.library.plan(shape)?;
        let workspace = self.library.workspace(context.stream_owner())?;
        let keep = [x.keep(), y.keep(), workspace.keep()];
        let beta = 0f32;
        let mut answer = Ok(());
        context.enqueue("cublasLtMatmul", keep, |stream| {
            // SAFETY: handle, descriptors and algorithm live as long as `self`; lengths were checked against the shape above;
            // buffers are kept by the stream's leases, weights by the job's grants; alpha and beta are read before the call
            // returns, since the scale pointers are host pointers by default.
            answer = unsafe {
                lt::matmul(
                    self.library.raw as sys::cublasLtHandle_t,
                    plan.operation as sys::cublasLtMatmulDesc_t,
                    std::ptr::from_ref(&scale).cast(),
                    std::ptr::from_ref(&beta).cast(),
                    weights as *const c_void,
                    plan.weights as sys::cublasLtMatrixLayout_t,
                    x.pointer() as *const c_void,
                    plan.input as sys::cublasLtMatrixLayout_t,
                    y.pointer() as *const c_void,
                    plan.output as sys::cublasLtMatrixLayout_t,
                    y.pointer() as *mut c_void,
                    plan.output as sys::cublasLtMatrixLayout_t,
                    &plan.algorithm,
                    workspace.pointer() as *mut c_void,
                    GEMM_WORKSPACE_BYTES as usize,
                    stream.cast(),
                )
            };
            CUresult::CUDA_SUCCESS
        })?;
        Ok(answer.map_err(|error| failed("cublasLtMatmul", error))?)
    }
}

impl Library {
    fn workspace(&self, stream: &Arc<Stream>) -> DriverResult<DeviceBuffer> {
        let mut workspaces = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, workspace)) = workspaces.iter().find(|(owner, _)| owner.as_ptr() == Arc::as_ptr(stream)) {
            return Ok(workspace.clone());
        }
        workspaces.retain(|(owner, _)| owner.strong_count() > 0);
        let workspace = DeviceBuffer::in_context(&self.context, GEMM_WORKSPACE_BYTES)?;
        workspaces.push((Arc::downgrade(stream), workspace.clone()));
        Ok(workspace)
    }

    fn plan(&self, shape: GemmShape) -> DriverResult<Arc<Plan>> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(&shape) {
            return Ok(Arc::clone(plan));
        }
        let plan = Arc::new(self.make_plan(shape)?);
        plans.insert(shape, Arc::clone(&plan));
        Ok(plan)
    }

    /// Descriptors and algorithm of a shape. The library counts columns first, so it computes `y^T = w * x^T`.
    fn make_plan(&self, GemmShape { m, n, k }: GemmShape) -> DriverResult<Plan> {
        let bf16 = sys::cudaDataType::CUDA_R_16BF;
        let layout = |rows: u64, columns: u64| {
            let created = lt::create_matrix_layout(bf16, rows, columns, rows.cast_signed());
            created.map(|layout| layout as usize).map_err(|error| failed("cublasLtMatrixLayoutCreate", error))
        };
        let operation = lt::create_matmul_desc(sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, sys::cudaDataType::CUDA_R_32F);
        let operation = operation.map_err(|error| failed("cublasLtMatmulDescCreate", error))?;
        let mut plan = Plan {
            operation: operation as usize,
            weights: 0,
            input: 0,
            output: 0,
            algorithm: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
        };
        plan.weights = layout(k, n)?;
        plan.input = layout(k, m)?;
        plan.output = layout(n, m)?;
        let transposed = TRANSPOSED;
        // SAFETY: the descriptor was created above; the attribute is one value of this type, read during the call.
        let set = unsafe {
            let attribute = sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA;
            lt::set_matmul_desc_attribute(operation, attribute, std::ptr::from_ref(&transposed).cast(), size_of_val(&transposed))
        };
        set.map_err(|error| failed("cublasLtMatmulDescSetAttribute", error))?;
        plan.algorithm = self.choose(&plan)?;
        Ok(plan)
    }

    /// The library's first choice under the fixed workspace and alignment.
    fn choose(&self, plan: &Plan) -> DriverResult<sys::cublasLtMatmulAlgo_t> {
        let preference = lt::create_matmul_pref().map_err(|error| failed("cublasLtMatmulPreferenceCreate", error))?;
        let alignment = GEMM_ALIGNMENT_BYTES as u32;
        let set = |attribute, value: *const c_void, bytes| {
            // SAFETY: the preference was created above; the value has the size that is passed and is read during the call.
            let set = unsafe { lt::set_matmul_pref_attribute(preference, attribute, value, bytes) };
            set.map_err(|error| failed("cublasLtMatmulPreferenceSetAttribute", error))
        };
        let workspace = GEMM_WORKSPACE_BYTES as usize;
        let set_all = || {
            let bytes = std::ptr::from_ref(&workspace).cast();
            set(Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes, size_of_val(&workspace))?;
            for attribute in [
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
            ] {
                set(attribute, std::ptr::from_ref(&alignment).cast(), size_of_val(&alignment))?;
            }
            Ok(())
        };
        let chosen = set_all().and_then(|()| {
            let (weights, input) = (plan.weights as sys::cublasLtMatrixLayout_t, plan.input as sys::cublasLtMatrixLayout_t);
            let output = plan.output as sys::cublasLtMatrixLayout_t;
            let (handle, operation) = (self.raw as sys::cublasLtHandle_t, plan.operation as sys::cublasLtMatmulDesc_t);
            // SAFETY: handle, descriptors and preference were created and not destroyed.
            let chosen = unsafe { lt::get_matmul_algo_heuristic(handle, operation, weights, input, output, output, preference) };
            chosen.map(|chosen| chosen.algo).map_err(|error| failed("cublasLtMatmulAlgoGetHeuristic", error))
        });
        // SAFETY: created above, not used again. A failure would leave only host memory behind.
        let _ = unsafe { lt::destroy_matmul_pref(preference) };
        chosen
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        for layout in [self.weights, self.input, self.output].into_iter().filter(|layout| *layout != 0) {
            // SAFETY: created by `make_plan`, destroyed once. A failure would leave only host memory behind.
            let _ = unsafe { lt::destroy_matrix_layout(layout as sys::cublasLtMatrixLayout_t) };
        }
        // SAFETY: as above.
        let _ = unsafe { lt::destroy_matmul_desc(self.operation as sys::cublasLtMatmulDesc_t) };
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let current = self.context.make_current(CALL);
        // SAFETY: created by `Gemm::open`, destroyed once. It frees no memory that queued work uses: the workspaces are ours.
        let destroy =
            || unsafe { lt::destroy_handle(self.raw as sys::cublasLtHandle_t) }.map_err(|error| failed("cublasLtDestroy", error));
        self.context.store(current.and_then(|()| destroy()));
    }
}

/// Loads cuBLASLt and looks up every function that is needed.
fn probe() -> DriverResult<()> {
    // SAFETY: loading the vendor's library runs its initialisers, which is what the caller asks for; no symbol is called.
    if !unsafe { sys::is_culib_present() } {
        return Err(missing(CALL, "no cuBLASLt library was found (libcublasLt); it comes with the CUDA toolkit"));
    }
    // SAFETY: the library is present, so this does not panic.
    let library = unsafe { sys::culib() };
    for function in FUNCTIONS {
        // SAFETY: the symbol is looked up as a bare address and never called through it.
        if unsafe { library.get::<*const ()>(function.as_bytes()) }.is_err() {
            return Err(missing(CALL, format!("the cuBLASLt library has no function {function}")));
        }
    }
    Ok(())
}
