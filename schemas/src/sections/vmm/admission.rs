//! Requests for arena memory that were not granted: "What was declined, and what was done instead?"

use crate::field::Gate;
use crate::section;
use crate::unit::Unit;

section! {
    /// Declined requests by cause, and what stood in for them.
    #[derive(Default)]
    pub struct Admission at "runtime.vmm" {
        fast_fault_failures: Option<u64> = Unit::Count("failures"), Counter, Session, "unit requested",
            "Requests for arena memory that were declined or failed.",
            "Read the admission failures for the cause.",
            { gate: Gate::NoIncrease };
        fast_guard_admission_failures: Option<u64> = Unit::Count("refusals"), Counter, Session, "unit requested",
            "Requests declined by the guard that keeps a reserve of device and system memory free.",
            "Lower the reserve or free memory elsewhere; the weight ceiling is not the cause.",
            { gate: Gate::NoIncrease };
        fast_capacity_admission_failures: Option<u64> = Unit::Count("refusals"), Counter, Session, "unit requested",
            "Requests declined because the weight ceiling leaves no page.",
            "Raise the ceiling or keep fewer residents.",
            { gate: Gate::NoIncrease };
        fast_cuda_admission_failures: Option<u64> = Unit::Count("refusals"), Counter, Session, "unit requested",
            "Requests declined because the device had no memory left.",
            "Other users of the device hold it; lower the ceiling.",
            { gate: Gate::NoIncrease };
        fast_temporary_tensors: Option<u64> = Unit::Count("tensors"), Counter, Session, "declined request",
            "Short-lived device tensors that stood in for declined arena memory; managed uploads are not among them.",
            "Not zero: the run worked, outside its ceiling and more slowly. Find the cause among the refusals.",
            { gate: Gate::NoIncrease };
        fast_temporary_bytes: Option<u64> = Unit::Bytes, Counter, Session, "declined request",
            "Volume that went through these stand-ins, summed over their whole life; not memory held at one time.",
            "Beside many capacity waits it says that the active range is larger than what can be reused safely.",
            { gate: Gate::NoIncrease };
        fast_temporary_resident_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Device memory that these stand-ins hold now, in whole pages, beside the weight ceiling and not under it.",
            "Add it to the resident weights for what the component occupies.",
            { gate: Gate::NoIncrease };
        fast_temporary_peak_bytes: Option<u64> = Unit::Bytes, Peak, Session, "declined request",
            "The most device memory that stand-ins held at one time.",
            "By so much the ceiling was passed at the worst moment.",
            { gate: Gate::NoIncrease };
        fast_capacity_event_waits: Option<u64> = Unit::Count("waits"), Counter, Session, "unit requested",
            "Host waits for the oldest protected range when every page under the ceiling still served submitted work; never the \
             whole device.",
            "Growth alone is normal under a tight ceiling; growth with stand-in tensors is not.",
            { gate: Gate::Informative };
    }
}
