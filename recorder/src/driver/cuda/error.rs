//! What did CUDA answer, in our words? Pure: no call of the library.
//!
//! May use: the driver's error types, `limits`.
//!
//! Invariants: every failure names our call, CUDA's function, its number and its name.

use crate::driver::{DriverError, DriverErrorKind, DriverResult, Elapsed};
use crate::limits::CUDA_EVENT_RESOLUTION_SECONDS;
use cudarc::driver::sys::CUresult;

/// Success, or a failure of `call` with what `function` answered.
pub(super) fn check(call: &'static str, function: &'static str, answer: CUresult) -> DriverResult<()> {
    if answer == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(failure(call, function, answer)) }
}

/// A failure of `call` with what `function` answered.
pub(super) fn failure(call: &'static str, function: &'static str, answer: CUresult) -> DriverError {
    let number = answer as u32;
    let kind = match answer {
        CUresult::CUDA_ERROR_NOT_READY => DriverErrorKind::NotReady,
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => DriverErrorKind::OutOfMemory,
        CUresult::CUDA_ERROR_INVALID_VALUE => DriverErrorKind::InvalidValue,
        _ => DriverErrorKind::Other(i32::try_from(number).unwrap_or(i32::MAX)),
    };
    DriverError::new(call, kind, format!("{function} answered {number}, {answer:?}"))
}

/// An argument that was refused before CUDA saw it.
pub(super) fn invalid(call: &'static str, detail: impl ToString) -> DriverError {
    DriverError::new(call, DriverErrorKind::InvalidValue, detail.to_string())
}

/// Something that is not part of this installation.
pub(super) fn missing(call: &'static str, detail: impl ToString) -> DriverError {
    DriverError::new(call, DriverErrorKind::System, detail.to_string())
}

/// CUDA's 32-bit milliseconds as seconds, with the step that such a number can show at this distance.
///
/// Near zero the step of the number is finer than the clock behind it, so it is never below the clock's.
pub(super) fn elapsed(milliseconds: f32) -> Elapsed {
    let step = f64::from(spacing(milliseconds)) / 1e3;
    Elapsed { seconds: f64::from(milliseconds) / 1e3, resolution_seconds: step.max(CUDA_EVENT_RESOLUTION_SECONDS) }
}

/// Distance to the next larger 32-bit number in size.
fn spacing(value: f32) -> f32 {
    let size = value.abs();
    size.next_up() - size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_kinds_with_all_names() {
        let kinds = [
            (CUresult::CUDA_ERROR_NOT_READY, DriverErrorKind::NotReady),
            (CUresult::CUDA_ERROR_OUT_OF_MEMORY, DriverErrorKind::OutOfMemory),
            (CUresult::CUDA_ERROR_INVALID_VALUE, DriverErrorKind::InvalidValue),
            (CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, DriverErrorKind::Other(700)),
            (CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, DriverErrorKind::Other(712)),
        ];
        for (answer, kind) in kinds {
            assert_eq!(failure("memory_map", "cuMemMap", answer).kind, kind);
        }
        assert!(check("memory_map", "cuMemMap", CUresult::CUDA_SUCCESS).is_ok());
        let error = check("memory_map", "cuMemMap", CUresult::CUDA_ERROR_INVALID_VALUE).expect_err("no success");
        let text = "memory_map failed (driver_invalid_value): cuMemMap answered 1, CUDA_ERROR_INVALID_VALUE";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn the_resolution_grows_with_the_distance_and_ends_at_the_clocks_own() {
        assert_eq!(spacing(1.0), f32::EPSILON);
        assert_eq!(spacing(-1024.0), 1024.0 * f32::EPSILON);
        assert_eq!(elapsed(0.0).resolution_seconds, CUDA_EVENT_RESOLUTION_SECONDS);
        assert_eq!(elapsed(-1.5), Elapsed { seconds: -0.0015, resolution_seconds: CUDA_EVENT_RESOLUTION_SECONDS });
        // An hour: 3.6 million milliseconds lie between 2^21 and 2^22, where neighbours are 0.25 apart.
        let hour = elapsed(3_600_000.0);
        assert_eq!((hour.seconds, hour.resolution_seconds), (3600.0, 0.25e-3));
    }
}
