//! Completion collection: reaping upload tickets whose work is already done.

use crate::field::Gate;
use crate::section;
use crate::unit::Unit;

section! {
    /// What one explicit, never blocking collection found and gave back.
    pub struct CompletionCollection at "runtime.completion_collection" {
        status: String = Unit::Label, Label, Scope, "explicit phase boundary",
            "`collected` when the ledger was visited, `not_applicable` when the component owns no upload tickets.",
            "Collect after a completed readback to see what remains.";
        blocking: bool = Unit::Flag, Flag, Scope, "explicit phase boundary",
            "Always false: work still in flight is kept and never waited for.",
            "To wait, wait for the phase's own end, then collect.";
        tickets_before: Option<u64> = Unit::Count("tickets"), Gauge, Scope, "before the query",
            "Upload tickets owned by batches when the collection began.",
            "Compare with `tickets_after`; a growing number means that nobody collects.", { gate: Gate::Informative };
        tickets_after: Option<u64> = Unit::Count("tickets"), Gauge, Scope, "after the query",
            "Upload tickets still owned after ready ones were retired.",
            "After a completed readback this should be zero; what remains deserves a look.", { gate: Gate::Informative };
        tickets_retired: Option<u64> = Unit::Count("tickets"), Measure, Scope, "explicit phase boundary",
            "Tickets whose completion was proven and whose events went back to the pool; before minus retired equals after.",
            "Fewer tickets prove nothing about faster copies.", { gate: Gate::Informative };
    }
}
