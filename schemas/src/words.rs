//! The rules of a row as people read them: "What may a reader do with this number?"
//!
//! Uses fields and scopes. Invariants: every rule is said once, here; a row without rules gets no words.

use crate::field::{Condition, Field, Gate, RateScope};
use crate::scope::{self, Inside, Nature, Route};

/// Gate, exactness, condition and rate of a row, each as one phrase; nothing for what is not special.
pub fn rules(field: &Field) -> Vec<String> {
    let gate = match field.gate {
        Gate::MustBeZero => Some("must be zero"),
        Gate::NoIncrease => Some("must not increase"),
        Gate::Informative => Some("shown, never a reason to fail"),
        Gate::Unrated => None,
    };
    let condition = match field.meaningful_if {
        Condition::Always => None,
        Condition::NonZero => Some("zero means that nothing was observed".to_owned()),
        Condition::SiblingNonZero(name) => Some(format!("says nothing while `{name}` is zero")),
    };
    let rate = field.rate.map(|rate| match rate.scope {
        RateScope::Work => format!("divided by `{}` it is a rate", rate.seconds),
        RateScope::Enqueue => format!("divided by `{}` it is the pace of handing over, no transfer rate", rate.seconds),
    });
    let exact = field.deterministic.then(|| "equal runs give equal values".to_owned());
    [gate.map(str::to_owned), exact, condition, rate].into_iter().flatten().collect()
}

/// Where the time of a path lies, and what lies in it; `None` where it is no scope and counts none.
pub fn nesting(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(scope) = scope::of_seconds(path) {
        for (nature, words) in [
            (Nature::Contains, "inside"),
            (Nature::PartlyOutside, "inside, partly outside"),
            (Nature::Overlaps, "overlaps"),
            (Nature::ShownOnly, "inside, shown only,"),
        ] {
            let around = scope.inside.iter().filter(|inside| inside.nature == nature);
            parts.extend(list(words, around.map(|inside| named(inside.parent, inside))));
        }
        for (nature, words) in [
            (Nature::Contains, "contains"),
            (Nature::PartlyOutside, "contains partly"),
            (Nature::Overlaps, "overlaps"),
            (Nature::ShownOnly, "contains, shown only,"),
        ] {
            let within = scope::children(scope.name).filter(|(_, inside)| inside.nature == nature);
            parts.extend(list(words, within.map(|(child, inside)| named(child.name, inside))));
        }
        if parts.is_empty() {
            parts.push("a scope of its own".to_owned());
        }
    }
    parts.extend(list("counts", scope::of_calls(path).map(|scope| format!("`{}`", scope.name))));
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn named(name: &str, inside: &Inside) -> String {
    match inside.route {
        Route::Always => format!("`{name}`"),
        route => format!("`{name}` ({})", route.words()),
    }
}

fn list(words: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| format!("{words} {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    fn rules_of(name: &str) -> Vec<String> {
        rules(catalogue::find(&format!("runtime.vmm.{name}")).expect("declared").field)
    }

    #[test]
    fn each_rule_has_its_words_and_no_rule_has_none() {
        assert_eq!(rules_of("fast_quarantined_bytes"), ["must be zero"]);
        assert_eq!(rules_of("fast_torch_allocator_reset_failures"), ["must not increase"]);
        assert_eq!(rules_of("fast_compute_wait_events"), ["shown, never a reason to fail"]);
        assert_eq!(rules_of("fast_page_bytes"), ["equal runs give equal values"]);
        let enqueue = "divided by `fast_dma_enqueue_seconds` it is the pace of handing over, no transfer rate";
        assert_eq!(rules_of("fast_dma_enqueue_bytes"), [enqueue]);
        assert_eq!(rules_of("fast_shard_read_bytes"), ["divided by `fast_shard_read_seconds` it is a rate"]);
        assert_eq!(rules_of("fast_source_cache_registration_seconds"), ["zero means that nothing was observed"]);
        let minimum = rules_of("fast_source_cache_pressure_observation_min_ram_bytes");
        assert!(minimum[1].ends_with("valid_observations` is zero"), "{minimum:?}");
        assert_eq!(rules_of("copied_bytes"), [""; 0]);
    }

    #[test]
    fn nesting_names_both_directions_and_the_route() {
        let text = |name: &str| nesting(&format!("runtime.vmm.{name}")).unwrap_or_default();
        assert_eq!(
            text("fast_native_transport_batch_transport_prepare_seconds"),
            "inside `fast_native_transport_batch_transport_total`; contains `fast_native_transport_batch_transport_create` \
             (where sources are not prepared ahead); contains partly `fast_native_transport_batch_transport_create` (where sources \
             are prepared ahead)"
        );
        assert_eq!(text("fast_shard_read_seconds"), "a scope of its own");
        assert!(
            text("fast_source_cache_close_total_seconds").starts_with("inside, partly outside `fast_source_cache_batch_reap`;")
        );
        assert!(text("fast_dma_enqueue_seconds").contains("shown only, `fast_upload_stream_body` (with unit batches)"));
        assert_eq!(
            text("fast_upload_stream_scope_calls"),
            "counts `fast_upload_stream_enter`, `fast_upload_stream_body`, `fast_upload_stream_exit`"
        );
        assert_eq!(nesting("runtime.vmm.fast_faults"), None);
    }
}
