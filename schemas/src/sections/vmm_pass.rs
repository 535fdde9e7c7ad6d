//! What a pass costs and what it should take: measured on one early pass, then forecast.

use crate::section;
use crate::unit::{Nullable, Seconds, Unit};

section! {
    /// The rows of the forecast; all are left out where no pass is to be measured, and `null` until one was.
    #[derive(Default)]
    pub struct VmmPass at "runtime.vmm" {
        fast_pass_work_seconds: Option<Nullable<Seconds>> = Unit::Seconds, Measure, Session, "third pass",
            "Device time between the events around each launch of one early pass, summed: the work alone, no wait for an upload.",
            "Near the measured step: the device's work is the bound, not the link.";
        fast_pass_link_bytes_per_second: Option<Nullable<u64>> = Unit::BytesPerSecond, Measure, Session, "third pass",
            "Bytes of that pass's uploads over the device time between the events around them.",
            "Far below the link's known rate: sources are not registered, or something else uses the link.";
        fast_pass_must_stream_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Managed payload that cannot stay under the weight ceiling: what any plan has to upload in a step.",
            "Raise the ceiling to make it smaller.";
        fast_pass_floor_seconds: Option<Nullable<Seconds>> = Unit::Seconds, Measure, Session, "third pass",
            "The larger of the work and the time that the link needs for what must be streamed; reading from disk is not in it.",
            "Divide by the measured step: that share of it is unavoidable.";
        fast_pass_predicted_step_seconds: Option<Nullable<Seconds>> = Unit::Seconds, Measure, Session, "third pass",
            "A steady step of this session's plan, simulated from the measured work and link.",
            "A longer measured step means that the host is late or that the link is shared.";
    }
}
