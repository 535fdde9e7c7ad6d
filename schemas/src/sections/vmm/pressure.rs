//! Host memory pressure as the retained source saw it: "Why did the cache stop growing?"

use crate::field::{Condition, Gate};
use crate::section;
use crate::unit::Unit;

const VALID: Condition = Condition::SiblingNonZero("fast_source_cache_pressure_observation_valid_observations");
const ENTERED: Condition = Condition::SiblingNonZero("fast_source_cache_pressure_observation_entries");
const RECOVERED: Condition = Condition::SiblingNonZero("fast_source_cache_pressure_observation_recoveries");

section! {
    /// Polls, episodes and thresholds; counts run over the life of the cache, "last" fields are overwritten.
    #[derive(Default)]
    pub struct Pressure at "runtime.vmm" {
        fast_source_cache_pressure_observation_schema_version: Option<u64> = Unit::Version, Version, Cache, "snapshot",
            "Version of the pressure fields alone; reports and cache statistics have their own.",
            "A reader that knows only version 1 should not read a newer one.";
        fast_source_cache_pressure_observation_valid_observations: Option<u64> = Unit::Count("polls"), Counter, Cache,
            "pressure poll",
            "Polls in which the system told how much memory was available.",
            "Zero: the minima and thresholds say nothing.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_observation_failed_observations: Option<u64> = Unit::Count("polls"), Counter, Cache,
            "pressure poll",
            "Polls that got no answer; growth is suspended then, headroom is never assumed.",
            "Not zero: see whether the process may read the system's and its group's memory limits.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_observation_entries: Option<u64> = Unit::Count("episodes"), Counter, Cache, "pressure poll",
            "Times that growth was suspended; a cache that grows again at the end keeps its earlier entries.",
            "Not zero: read the causes, then what else used the host's memory.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_observation_recoveries: Option<u64> = Unit::Count("episodes"), Counter, Cache, "pressure poll",
            "Times that growth resumed.",
            "One fewer than entries: an episode is still open.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_observation_ram_limited_entries: Option<u64> = Unit::Count("episodes"), Counter, Cache,
            "pressure entry",
            "Entries where only available physical memory was too low.",
            "Lower the retained capacity or stop other users of memory.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_observation_commit_limited_entries: Option<u64> = Unit::Count("episodes"), Counter, Cache,
            "pressure entry",
            "Entries where only the allowance for committed memory was too low.",
            "Raise the commit limit or page file; more physical memory alone does not help.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_observation_both_limited_entries: Option<u64> = Unit::Count("episodes"), Counter, Cache,
            "pressure entry",
            "Entries where physical memory and commit were too low together.",
            "The host is too full for this capacity.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_observation_unknown_entries: Option<u64> = Unit::Count("episodes"), Counter, Cache,
            "pressure entry",
            "Entries caused by a poll without an answer.",
            "With the other three causes it adds up to the entries; look at failed polls.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_observation_last_reason: Option<u64> = Unit::Label, Label, Cache, "pressure entry",
            "Cause of the latest entry: 0 none so far, 1 physical memory, 2 commit, 3 both, 4 no answer. It names no process.",
            "Compare with the counts: the latest need not be the usual one.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_observation_last_entry_ram_bytes: Option<u64> = Unit::Bytes, Gauge, Cache, "pressure entry",
            "Physical memory available when the latest episode began; zero stands for no episode or no answer.",
            "Compare with the suspend threshold.",
            { gate: Gate::Informative, meaningful_if: Condition::NonZero };
        fast_source_cache_pressure_observation_last_entry_commit_bytes: Option<u64> = Unit::Bytes, Gauge, Cache, "pressure entry",
            "Commit allowance left when the latest episode began; not free disk space, and zero stands for no answer.",
            "Far below physical memory: the commit limit is what binds.",
            { gate: Gate::Informative, meaningful_if: Condition::NonZero };
        fast_source_cache_pressure_observation_last_entry_committed_bytes: Option<u64> = Unit::Bytes, Gauge, Cache,
            "pressure entry",
            "What the cache itself had allocated when the latest episode began, before anything was given back; not the process.",
            "Small beside the shortage: something else fills the host.",
            { gate: Gate::Informative, meaningful_if: ENTERED };
        fast_source_cache_pressure_observation_last_entry_registered_bytes: Option<u64> = Unit::Bytes, Gauge, Cache,
            "pressure entry",
            "Of the cache's allocation at that moment, the registered part, which cannot be paged out.",
            "Near the allocation: little could be given back quickly.",
            { gate: Gate::Informative, meaningful_if: ENTERED };
        fast_source_cache_pressure_observation_last_recovery_ram_bytes: Option<u64> = Unit::Bytes, Gauge, Cache,
            "pressure recovery",
            "Physical memory available when growth last resumed.",
            "Just above the resume threshold: the next episode is near.",
            { gate: Gate::Informative, meaningful_if: RECOVERED };
        fast_source_cache_pressure_observation_last_recovery_commit_bytes: Option<u64> = Unit::Bytes, Gauge, Cache,
            "pressure recovery",
            "Commit allowance left when growth last resumed.",
            "Compare with physical memory at that moment: the smaller one decided.",
            { gate: Gate::Informative, meaningful_if: RECOVERED };
        fast_source_cache_pressure_observation_min_ram_bytes: Option<u64> = Unit::Bytes, Gauge, Cache, "pressure poll",
            "Lowest available physical memory that a poll saw; between polls it may have been lower.",
            "Its distance to the suspend threshold is the reserve that was left.",
            { gate: Gate::Informative, meaningful_if: VALID };
        fast_source_cache_pressure_observation_min_commit_bytes: Option<u64> = Unit::Bytes, Gauge, Cache, "pressure poll",
            "Lowest commit allowance that a poll saw.",
            "Equal to the physical one where the system sets no separate limit.",
            { gate: Gate::Informative, meaningful_if: VALID };
        fast_source_cache_pressure_observation_low_bytes: Option<u64> = Unit::Bytes, Gauge, Cache, "pressure poll",
            "Available memory below which growth is suspended; zero before the first poll.",
            "It explains an entry; do not tune budgets by it automatically.",
            { gate: Gate::Informative, meaningful_if: Condition::NonZero };
        fast_source_cache_pressure_observation_high_bytes: Option<u64> = Unit::Bytes, Gauge, Cache, "pressure poll",
            "Available memory above which growth resumes; higher than the suspend threshold so that it does not flap.",
            "Entries and recoveries in quick turns: the gap between the two is too small for this host.",
            { gate: Gate::Informative, meaningful_if: Condition::NonZero };
        fast_source_cache_pressure_observation_last_episode_reclaimed_bytes: Option<u64> = Unit::Bytes, Gauge, Cache,
            "pressure reclaim",
            "Allocation given back in the latest episode so far, an episode still open included.",
            "Zero after an entry: leases blocked it, see the blocked attempts.",
            { gate: Gate::Informative, meaningful_if: ENTERED };
        fast_source_cache_pressure_observation_blocked_reclaims: Option<u64> = Unit::Count("attempts"), Counter, Cache,
            "pressure reclaim",
            "Attempts to give storage back that found it in use; data in use is never freed.",
            "Many: tickets stay open too long for the host's pressure.",
            { gate: Gate::Informative };
        fast_source_cache_pressure_observation_failed_reclaims: Option<u64> = Unit::Count("attempts"), Counter, Cache,
            "pressure reclaim",
            "Attempts to give storage back that went wrong, use by others aside.",
            "Any growth: read the library's error text.",
            { gate: Gate::NoIncrease };
    }
}
