//! "What does a host tell the wrapper?" Appends lines to `host.ndjson` of a run folder.
//!
//! May use: std, rustix and schemas.
//!
//! Invariants: a line is appended by one call, so several processes can write; ranks come from the environment and are
//! absent where it has none or no numbers.

use super::journal::to_json_line;
use crate::error::{Error, Result};
use ddo_schemas::manifest::Ranks;
use ddo_schemas::memory::HostEvent;
use ddo_schemas::{Seconds, version};
use rustix::time::{ClockId, clock_gettime};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// File name of what hosts tell.
pub const HOST_EVENTS_FILE: &str = "host.ndjson";
/// While this file is in a run folder, no more records are written.
pub const DISK_STOP_FILE: &str = "disk_budget_reached.json";

/// `RANK`, `LOCAL_RANK` and `WORLD_SIZE`; `None` where the environment has none of them.
pub fn ranks_of_environment() -> Option<Ranks> {
    ranks(|name| std::env::var(name).ok())
}

fn ranks(variable: impl Fn(&str) -> Option<String>) -> Option<Ranks> {
    let number = |name| variable(name).and_then(|text| text.parse().ok());
    let ranks = Ranks { rank: number("RANK"), local_rank: number("LOCAL_RANK"), world_size: number("WORLD_SIZE") };
    (ranks.rank.is_some() || ranks.local_rank.is_some() || ranks.world_size.is_some()).then_some(ranks)
}

/// An event of this process, now.
pub(super) fn event(kind: &str) -> HostEvent {
    let now = clock_gettime(ClockId::Monotonic);
    let ranks = ranks_of_environment();
    HostEvent {
        schema_version: version::HOST_EVENT,
        event: kind.into(),
        monotonic_seconds: Seconds(now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9),
        pid: u64::from(std::process::id()),
        phase: None,
        component: None,
        folder: None,
        rank: ranks.as_ref().and_then(|ranks| ranks.rank),
        local_rank: ranks.as_ref().and_then(|ranks| ranks.local_rank),
        world_size: ranks.as_ref().and_then(|ranks| ranks.world_size),
    }
}

/// Appends one event.
pub(super) fn append(folder: &Path, event: &HostEvent) -> Result<()> {
    let path = folder.join(HOST_EVENTS_FILE);
    let line = to_json_line(HOST_EVENTS_FILE, event)?;
    let file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| file.write_all(&line));
    written.map_err(|error| Error::io("append to", &path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_numbers_or_absent() {
        let of = |all: &'static [(&str, &str)]| {
            ranks(move |name| all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("RANK", "first")]), None);
        let some = of(&[("RANK", "3"), ("WORLD_SIZE", "8"), ("LOCAL_RANK", "-1")]).expect("ranks");
        assert_eq!((some.rank, some.local_rank, some.world_size), (Some(3), None, Some(8)));
    }
}
