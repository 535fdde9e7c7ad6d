//! Host memory pressure: "May retained storage grow?"
//!
//! Two thresholds with hysteresis over available memory and the commit allowance. A reading that cannot be had suspends
//! growth; headroom is never made up. Nothing here frees anything: it says how much should be given back.

use std::fmt::Debug;

/// What the system says it has left, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostReading {
    /// Physical memory that can be had, the control group's limit included.
    pub ram_bytes: u64,
    /// Memory that may still be committed; the same where the system sets no limit of its own.
    pub commit_bytes: u64,
}

/// Asks the system; tests answer themselves.
pub trait HostReadings: Send + Sync + Debug {
    /// The reading at this moment; `None` when the system does not tell.
    fn read(&self) -> Option<HostReading>;
}

/// Why growth was suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PressureReason {
    /// It never was.
    #[default]
    None,
    /// Physical memory.
    Ram,
    /// The commit allowance.
    Commit,
    /// Both.
    Both,
    /// No reading.
    Unknown,
}

impl PressureReason {
    /// The number in reports.
    pub fn number(self) -> u64 {
        match self {
            PressureReason::None => 0,
            PressureReason::Ram => 1,
            PressureReason::Commit => 2,
            PressureReason::Both => 3,
            PressureReason::Unknown => 4,
        }
    }
}

/// Version of the observations.
pub const PRESSURE_SCHEMA: u64 = 1;

/// Everything observed so far; the order is that of the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PressureObservations {
    /// Polls that were answered.
    pub valid_observations: u64,
    /// Polls that were not.
    pub failed_observations: u64,
    /// Times that growth was suspended.
    pub entries: u64,
    /// Times that it resumed.
    pub recoveries: u64,
    /// Entries because of physical memory alone.
    pub ram_limited_entries: u64,
    /// Entries because of the commit allowance alone.
    pub commit_limited_entries: u64,
    /// Entries because of both.
    pub both_limited_entries: u64,
    /// Entries without a reading.
    pub unknown_entries: u64,
    /// Why the latest entry was made.
    pub last_reason: PressureReason,
    /// Physical memory at the latest entry.
    pub last_entry_ram_bytes: u64,
    /// Commit allowance at the latest entry.
    pub last_entry_commit_bytes: u64,
    /// What the storage had allocated then.
    pub last_entry_committed_bytes: u64,
    /// Of it, what was registered.
    pub last_entry_registered_bytes: u64,
    /// Physical memory at the latest recovery.
    pub last_recovery_ram_bytes: u64,
    /// Commit allowance at the latest recovery.
    pub last_recovery_commit_bytes: u64,
    /// Least physical memory seen.
    pub min_ram_bytes: u64,
    /// Least commit allowance seen.
    pub min_commit_bytes: u64,
    /// Below it growth is suspended; zero before the first poll.
    pub low_bytes: u64,
    /// From it on growth resumes; zero before the first poll.
    pub high_bytes: u64,
    /// Given back in the latest episode.
    pub last_episode_reclaimed_bytes: u64,
    /// Attempts to give something back that found it in use.
    pub blocked_reclaims: u64,
    /// Attempts that went wrong.
    pub failed_reclaims: u64,
}

/// The state of one storage.
#[derive(Debug)]
pub struct Pressure {
    low_bytes: u64,
    high_bytes: u64,
    suspended: bool,
    seen: PressureObservations,
}

impl Pressure {
    /// Suspends growth below `headroom_bytes`, resumes it a quarter above.
    pub fn new(headroom_bytes: u64) -> Pressure {
        let high_bytes = headroom_bytes.saturating_add(headroom_bytes / 4);
        Pressure { low_bytes: headroom_bytes, high_bytes, suspended: false, seen: PressureObservations::default() }
    }

    /// Whether growth is suspended.
    pub fn suspended(&self) -> bool {
        self.suspended
    }

    /// What was observed.
    pub fn observations(&self) -> PressureObservations {
        self.seen
    }

    /// Takes a reading into account before storage grows by `growth_bytes`; the bytes that should be given back now, and
    /// zero without pressure.
    pub fn poll(&mut self, reading: Option<HostReading>, growth_bytes: u64, committed_bytes: u64, registered_bytes: u64) -> u64 {
        (self.seen.low_bytes, self.seen.high_bytes) = (self.low_bytes, self.high_bytes);
        let Some(HostReading { ram_bytes, commit_bytes }) = reading else {
            self.seen.failed_observations += 1;
            if !self.suspended {
                self.enter(PressureReason::Unknown, HostReading { ram_bytes: 0, commit_bytes: 0 });
                (self.seen.last_entry_committed_bytes, self.seen.last_entry_registered_bytes) =
                    (committed_bytes, registered_bytes);
            }
            return 0;
        };
        let least = |seen: u64, now: u64, first: bool| if first { now } else { seen.min(now) };
        let first = self.seen.valid_observations == 0;
        self.seen.min_ram_bytes = least(self.seen.min_ram_bytes, ram_bytes, first);
        self.seen.min_commit_bytes = least(self.seen.min_commit_bytes, commit_bytes, first);
        self.seen.valid_observations += 1;
        let needed = self.low_bytes.saturating_add(growth_bytes);
        if self.suspended {
            if ram_bytes.min(commit_bytes) < self.high_bytes.saturating_add(growth_bytes) {
                return 0;
            }
            self.suspended = false;
            self.seen.recoveries += 1;
            (self.seen.last_recovery_ram_bytes, self.seen.last_recovery_commit_bytes) = (ram_bytes, commit_bytes);
            return 0;
        }
        let reason = match (ram_bytes < needed, commit_bytes < needed) {
            (false, false) => return 0,
            (true, false) => PressureReason::Ram,
            (false, true) => PressureReason::Commit,
            (true, true) => PressureReason::Both,
        };
        self.enter(reason, HostReading { ram_bytes, commit_bytes });
        (self.seen.last_entry_committed_bytes, self.seen.last_entry_registered_bytes) = (committed_bytes, registered_bytes);
        self.high_bytes.saturating_sub(ram_bytes.min(commit_bytes))
    }

    fn enter(&mut self, reason: PressureReason, reading: HostReading) {
        self.suspended = true;
        self.seen.entries += 1;
        let counted = match reason {
            PressureReason::Ram => &mut self.seen.ram_limited_entries,
            PressureReason::Commit => &mut self.seen.commit_limited_entries,
            PressureReason::Both => &mut self.seen.both_limited_entries,
            PressureReason::None | PressureReason::Unknown => &mut self.seen.unknown_entries,
        };
        *counted += 1;
        self.seen.last_reason = reason;
        (self.seen.last_entry_ram_bytes, self.seen.last_entry_commit_bytes) = (reading.ram_bytes, reading.commit_bytes);
        self.seen.last_episode_reclaimed_bytes = 0;
    }

    /// Notes storage that was given back.
    pub fn note_reclaimed(&mut self, bytes: u64) {
        self.seen.last_episode_reclaimed_bytes += bytes;
    }

    /// Notes an attempt that found storage in use.
    pub fn note_blocked(&mut self) {
        self.seen.blocked_reclaims += 1;
    }

    /// Notes an attempt that went wrong.
    pub fn note_failed(&mut self) {
        self.seen.failed_reclaims += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn reading(ram_bytes: u64, commit_bytes: u64) -> Option<HostReading> {
        Some(HostReading { ram_bytes, commit_bytes })
    }

    #[test]
    fn growth_stops_below_one_threshold_and_resumes_above_another() {
        let mut pressure = Pressure::new(100);
        assert_eq!(pressure.observations(), PressureObservations::default(), "no poll, no threshold");
        assert_eq!(pressure.poll(reading(110, 110), 10, 0, 0), 0, "at the threshold");
        assert!(!pressure.suspended());
        assert_eq!(pressure.poll(reading(109, 200), 10, 64, 32), 125 - 109, "up to where growth resumes");
        assert!(pressure.suspended());
        pressure.note_reclaimed(16);
        assert_eq!(pressure.poll(reading(134, 200), 10, 0, 0), 0, "above the lower, below the higher: nothing flaps");
        assert!(pressure.suspended());
        assert_eq!(pressure.poll(reading(135, 180), 10, 0, 0), 0);
        assert!(!pressure.suspended());
        let seen = pressure.observations();
        assert_eq!((seen.valid_observations, seen.entries, seen.recoveries, seen.ram_limited_entries), (4, 1, 1, 1));
        assert_eq!((seen.min_ram_bytes, seen.min_commit_bytes, seen.low_bytes, seen.high_bytes), (109, 110, 100, 125));
        assert_eq!((seen.last_entry_ram_bytes, seen.last_entry_commit_bytes), (109, 200));
        assert_eq!((seen.last_entry_committed_bytes, seen.last_entry_registered_bytes), (64, 32));
        assert_eq!((seen.last_recovery_ram_bytes, seen.last_recovery_commit_bytes), (135, 180));
        assert_eq!((seen.last_episode_reclaimed_bytes, seen.last_reason), (16, PressureReason::Ram));
    }

    #[test]
    fn every_entry_has_one_cause_and_a_missing_reading_is_one() {
        let mut pressure = Pressure::new(100);
        for (bad, reason) in [
            (reading(1, 500), PressureReason::Ram),
            (reading(500, 1), PressureReason::Commit),
            (reading(1, 1), PressureReason::Both),
            (None, PressureReason::Unknown),
        ] {
            pressure.poll(bad, 0, 0, 0);
            assert_eq!((pressure.suspended(), pressure.observations().last_reason), (true, reason));
            pressure.poll(None, 0, 0, 0);
            assert!(pressure.suspended(), "an episode goes on without readings");
            pressure.poll(reading(500, 500), 0, 0, 0);
            assert!(!pressure.suspended());
        }
        let seen = pressure.observations();
        let causes = [seen.ram_limited_entries, seen.commit_limited_entries, seen.both_limited_entries, seen.unknown_entries];
        assert_eq!((causes, seen.entries, seen.recoveries, seen.failed_observations), ([1; 4], 4, 4, 5));
        assert_eq!((seen.last_entry_ram_bytes, seen.last_entry_commit_bytes, seen.last_reason.number()), (0, 0, 4));
    }
}
