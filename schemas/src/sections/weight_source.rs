//! Association of loaded weights with checkpoint ranges: "Which weights can be read from the file again?"
//!
//! May use: units and the declaring macro. Invariant: collected once after loading; no device is asked.

use crate::field::Gate;
use crate::section;
use crate::unit::Unit;

section! {
    /// What reading the checkpoint headers met.
    pub struct WeightSourceHeader at "setup.weight_source.header" {
        invalid_files: Option<u64> = Unit::Count("files"), Measure, Scope, "header discovery",
            "Checkpoint files whose header could not be read.",
            "Check the files on disk.", { gate: Gate::NoIncrease, deterministic: true };
        invalid_entries: Option<u64> = Unit::Count("entries"), Measure, Scope, "header discovery",
            "Header entries skipped because their range, shape or type is impossible.",
            "A cut download is the usual cause.", { gate: Gate::NoIncrease, deterministic: true };
        ambiguous_key_count: Option<u64> = Unit::Count("keys"), Measure, Scope, "header discovery",
            "Names that two shards define differently; one is enough to refuse the whole set, in whatever order it is read.",
            "Remove the stray shard.", { gate: Gate::NoIncrease, deterministic: true };
    }
}

section! {
    /// Weights of a loaded component and the ranges that they came from.
    pub struct WeightSource at "setup.weight_source" {
        bound: Option<u64> = Unit::Count("storage groups"), Measure, Scope, "after loading",
            "Host storages with a known checkpoint range; parameters that share one count once.",
            "It is neither the number of modules nor a proof of full coverage.", { deterministic: true };
        available: Option<u64> = Unit::Count("keys"), Measure, Scope, "header discovery",
            "Valid checkpoint names before the loader renames them; zero when the set was refused.",
            "Zero: look at the ambiguous names first.", { deterministic: true };
        resolver: Option<String> = Unit::Label, Label, Scope, "after loading",
            "How names were matched: `exact_names`, `transformers_name_mapping`, `torchao_physical_payloads`, or why not: \
             `unsupported_loader_mapping`, `unsupported_payload_transform`, `unsupported_quantized_payload`, \
             `no_valid_source_metadata`.",
            "With an unsupported word keep the loader's own copies; never guess offsets.";
        rejected_storage_groups: Option<u64> = Unit::Count("storage groups"), Measure, Scope, "after loading",
            "Storages refused because aliases conflict or shape, type or size differ from the file.",
            "Look where the weights were changed; a larger cache does not help.", { gate: Gate::NoIncrease, deterministic: true };
        missing_storage_groups: Option<u64> = Unit::Count("storage groups"), Measure, Scope, "after loading",
            "Suitable host storages for which no checkpoint range was found.",
            "Check for renamed or generated weights.", { gate: Gate::NoIncrease, deterministic: true };
        ineligible_parameter_aliases: Option<u64> = Unit::Count("names"), Measure, Scope, "after loading",
            "Parameter names left out because the tensor is empty, not contiguous or not on the host.",
            "Expected for lazily created tensors.", { deterministic: true };
        header: Option<WeightSourceHeader> = Unit::Structure, Structure, Scope, "header discovery",
            "What reading the headers met.",
            "See its rows.";
        diagnostic: Option<String> = Unit::Text, Text, Scope, "after loading",
            "Why the installed loader's name mapping cannot be used; absent when it can.",
            "A matter of versions, not of drivers.";
    }
}
