//! "What does a process hold, by kind?" One reading of one process.
//!
//! May use: procfs only.
//!
//! Invariants: a reading opens no file of the process's own and changes nothing; what was read is what is named; a kind that
//! the system does not tell is `None`.

use procfs::process::{LimitValue, Process};
use procfs::{ProcError, ProcResult};

/// Bytes of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Resident pages of every kind.
    pub resident: u64,
    /// Address space.
    pub address_space: u64,
    /// Resident pages without a file behind them.
    pub anonymous: Option<u64>,
    /// Resident pages of files and shared memory.
    pub shared: Option<u64>,
    /// Resident pages that no other process holds; read only where asked for.
    pub unique: Option<u64>,
}

/// Reads the cheap counters: one small file, no walk over the mappings.
///
/// # Errors
/// The process has ended or may not be looked at.
pub fn counters(process: &Process) -> ProcResult<Held> {
    let pages = process.statm()?;
    let bytes = |pages: u64| pages.saturating_mul(procfs::page_size());
    Ok(Held {
        resident: bytes(pages.resident),
        address_space: bytes(pages.size),
        anonymous: Some(bytes(pages.resident.saturating_sub(pages.shared))),
        shared: Some(bytes(pages.shared)),
        unique: None,
    })
}

/// Reads the kernel's own split into anonymous pages and others.
///
/// # Errors
/// As [`counters`].
pub fn kinds(process: &Process) -> ProcResult<Held> {
    let status = process.status()?;
    let bytes = |kilobytes: Option<u64>| kilobytes.map(|k| k.saturating_mul(1024));
    // A process that is ending has given its memory back and has no such lines.
    let (Some(resident), Some(address_space)) = (bytes(status.vmrss), bytes(status.vmsize)) else {
        return Ok(Held::default());
    };
    let shared = bytes(status.rssfile).zip(bytes(status.rssshmem));
    Ok(Held {
        resident,
        address_space,
        anonymous: bytes(status.rssanon),
        shared: shared.map(|(files, memory)| files.saturating_add(memory)),
        unique: None,
    })
}

/// Reads the kinds and the unique set, which walks over all mappings of the process.
///
/// # Errors
/// As [`counters`]; also where the kernel has no summary of mappings.
pub fn unique(process: &Process) -> ProcResult<Held> {
    let held = kinds(process)?;
    if held.resident == 0 {
        return Ok(Held { unique: Some(0), ..held });
    }
    let rollup = process.smaps_rollup()?;
    let summary = rollup.memory_map_rollup.into_iter().next().map(|map| map.extension.map).ok_or_else(no_summary)?;
    let part = |name: &str| summary.get(name).copied();
    let unique = part("Private_Clean").zip(part("Private_Dirty")).map(|(clean, dirty)| clean.saturating_add(dirty));
    Ok(Held { unique: Some(unique.ok_or_else(no_summary)?), ..held })
}

/// The address space limit of a process; `None` when it has none or it cannot be read.
pub fn address_space_limit(process: &Process) -> Option<u64> {
    match process.limits().ok()?.max_address_space.soft_limit {
        LimitValue::Value(bytes) => Some(bytes),
        LimitValue::Unlimited => None,
    }
}

fn no_summary() -> ProcError {
    ProcError::Other("the summary of mappings has no private pages".into())
}

/// A stable word for a failed reading.
pub fn error_type(error: &ProcError) -> &'static str {
    match error {
        ProcError::PermissionDenied(_) => "permission_denied",
        ProcError::NotFound(_) => "not_found",
        ProcError::Incomplete(_) => "incomplete",
        ProcError::Io(..) => "io",
        ProcError::Other(_) | ProcError::InternalError(_) => "unreadable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_reading_sees_a_grown_heap() {
        let me = Process::myself().expect("this process");
        let before = counters(&me).expect("read");
        let block = vec![1_u8; 64 << 20];
        for held in [counters(&me), kinds(&me), unique(&me)].map(|held| held.expect("read")) {
            assert!(held.resident > before.resident + (48 << 20), "{held:?} {before:?}");
            assert!(held.anonymous.expect("split") >= 60 << 20, "{held:?}");
            assert!(held.address_space >= held.resident);
            assert!(held.unique.is_none_or(|unique| unique >= 60 << 20 && unique <= held.resident + (8 << 20)), "{held:?}");
        }
        assert_eq!(block.iter().map(|b| u64::from(*b)).sum::<u64>(), 64 << 20);
    }
}
