//! Work done before it is asked for: "Did the guess come true?"

use crate::field::Gate;
use crate::section;
use crate::unit::Unit;

section! {
    /// Whole units uploaded ahead, tensors read ahead, and the order that both follow.
    #[derive(Default)]
    pub struct LookAhead at "runtime.vmm" {
        fast_gpu_prefetch_units: Option<u64> = Unit::Count("units"), Counter, Session, "look-ahead",
            "Units whose whole upload was enqueued before their consumer asked.",
            "Hits, cancelled ones and those in flight add up to it.";
        fast_gpu_prefetch_hits: Option<u64> = Unit::Count("units"), Counter, Session, "unit requested",
            "Requests that found their whole unit already on its way.",
            "Streamed requests minus hits were served on demand.";
        fast_gpu_prefetch_capacity_skips: Option<u64> = Unit::Count("attempts"), Counter, Session, "look-ahead",
            "Look-ahead attempts that found no slot to use; skipped, never waited for.",
            "Look-ahead attempts that what is in hand left no place for; skipped, never waited for.",
            { gate: Gate::Informative };
        fast_gpu_prefetch_cancelled_units: Option<u64> = Unit::Count("units"), Counter, Session, "order mismatch, close",
            "Units uploaded ahead and never consumed.",
            "Growing in steady state: the order of units changes between passes.",
            { gate: Gate::Informative };
        fast_gpu_prefetch_in_flight_units: Option<u64> = Unit::Count("units"), Gauge, Session, "snapshot",
            "Units uploaded ahead that nobody has asked for yet.",
            "At most the look-ahead depth where there is one.",
            { gate: Gate::Informative };
        fast_execution_plan_passes: Option<u64> = Unit::Count("passes"), Counter, Session, "step marked",
            "Passes after which the order of units was known.",
            "Look-ahead starts with the second pass.",
            { deterministic: true };
        fast_execution_plan_mismatches: Option<u64> = Unit::Count("mismatches"), Counter, Session, "unit requested",
            "Requests, of units or of their parts, that came in another order than the learned one.",
            "Each one cancels look-ahead; find what changes the order.",
            { gate: Gate::NoIncrease, deterministic: true };
        fast_prefetch_attempts: Option<u64> = Unit::Count("attempts"), Counter, Session, "source look-ahead",
            "Coming tensors for which a read was asked for before their upload; by itself no device upload.",
            "Hits, dropped ones and those in flight add up to it. Some recorded runs count units uploaded ahead here.",
            { gate: Gate::Informative };
        fast_prefetch_hits: Option<u64> = Unit::Count("hits"), Counter, Session, "source look-ahead",
            "Source reads ahead whose bytes their upload took; says nothing about whole units on the device.",
            "Few hits for many attempts: reads come too late or for the wrong tensors.",
            { gate: Gate::Informative };
        fast_prefetch_skips: Option<u64> = Unit::Count("skips"), Counter, Session, "source look-ahead",
            "Tensors that were expected and found no slot or room, residency aside; the demand path reads instead.",
            "Compare with busy ring slots before giving it more staging memory.",
            { gate: Gate::Informative };
        fast_prefetch_resident_skips: Option<u64> = Unit::Count("tensors"), Counter, Session, "source look-ahead",
            "Tensors not read ahead because the arena still held their last upload; no pin, so a later eviction still reads.",
            "Never count it as copies saved; compare with source bytes read.",
            { gate: Gate::Informative };
        fast_prefetch_dropped_tensors: Option<u64> = Unit::Count("tensors"), Counter, Session, "order mismatch, failure, close",
            "Tensors read ahead whose upload did not come as expected; what was read was thrown away.",
            "Growing in steady state: uploads come in another order than reads were made for.",
            { gate: Gate::Informative };
        fast_prefetch_in_flight_tensors: Option<u64> = Unit::Count("tensors"), Gauge, Session, "snapshot",
            "Tensors being read ahead, or read and waiting for their upload.",
            "Bounded by the ring's slots.",
            { gate: Gate::Informative };
    }
}
