//! Checks on made runs: what is unavailable, exact, folded and said once.

use super::*;
use crate::run::{Record, Scalar, Values};
use std::collections::BTreeSet;

fn values(list: &[(&str, u64)]) -> Values {
    list.iter().map(|(name, value)| (format!("runtime.vmm.{name}").into(), Scalar::U64(*value))).collect()
}

fn run_of(records: Vec<Values>) -> Run {
    let record = |(step, values): (usize, Values)| Record {
        file: format!("step_{step:04}.json"),
        step: Some(step as u64),
        values,
        ..Record::default()
    };
    let records = records.into_iter().enumerate().map(record).collect();
    Run { components: vec![Component { name: "c".into(), records, ..Component::default() }], ..Run::default() }
}

fn outcomes(name: &str, run: &Run) -> Vec<Outcome> {
    of(find(name).expect("a check of the table"), run)
}

#[test]
fn names_and_statements_are_unique() {
    let names: BTreeSet<&str> = CHECKS.iter().map(|check| check.name).collect();
    let statements: BTreeSet<&str> = CHECKS.iter().map(|check| check.asserts).collect();
    assert_eq!((names.len(), statements.len()), (CHECKS.len(), CHECKS.len()));
}

#[test]
fn an_unavailable_value_makes_a_result_unavailable_and_never_a_pass() {
    let found = outcomes("weights_total", &run_of(vec![values(&[("fast_total_weight_resident_bytes", 7)])]));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].ok, &found[0].got), (None, &JsonScalar::Null));
    assert!(shown(&found[0].expected).contains("runtime.vmm.fast_resident_bytes"), "{found:?}");
    let mut null = values(&[("fast_total_weight_resident_bytes", 7), ("fast_resident_bytes", 7)]);
    null.insert("runtime.vmm.fast_execution_buffer_resident_bytes".into(), Scalar::Uncollected);
    assert_eq!(outcomes("weights_total", &run_of(vec![null]))[0].ok, None, "null is no zero");
    let nothing = outcomes("weights_total", &run_of(vec![values(&[("fast_uploads", 1)])]));
    assert_eq!((nothing.len(), nothing[0].ok), (1, None), "every check has an outcome");
}

#[test]
fn sums_are_exact_beyond_what_a_float_holds() {
    let big = 1_u64 << 60;
    let with = |total: u64| {
        values(&[
            ("fast_resident_bytes", big),
            ("fast_execution_buffer_resident_bytes", 1),
            ("fast_total_weight_resident_bytes", total),
        ])
    };
    assert_eq!(outcomes("weights_total", &run_of(vec![with(big + 1)]))[0].ok, Some(true));
    assert_eq!(outcomes("weights_total", &run_of(vec![with(big + 2)]))[0].ok, Some(false));
    let top = [("fast_resident_bytes", u64::MAX), ("fast_execution_buffer_resident_bytes", u64::MAX)];
    let mut over = values(&top);
    over.insert("runtime.vmm.fast_total_weight_resident_bytes".into(), Scalar::U64(u64::MAX));
    assert_eq!(outcomes("weights_total", &run_of(vec![over]))[0].ok, Some(false), "no overflow");
}

#[test]
fn a_buffer_that_lives_as_long_as_the_component_counts_where_it_is_reported() {
    let with = |total: u64, lifetime: &[(&str, u64)]| {
        let common = [
            ("fast_resident_bytes", 10),
            ("fast_execution_buffer_resident_bytes", 4),
            ("fast_fault_ceiling_bytes", 10),
            ("fast_execution_buffer_capacity_bytes", 4),
            ("fast_total_weight_resident_bytes", total),
        ];
        values(&[&common[..], lifetime].concat())
    };
    let buffer = [("fast_component_lifetime_capacity_bytes", 3), ("fast_component_lifetime_resident_bytes", 3)];
    for (total, lifetime, ok) in
        [(14, &[][..], true), (17, &[], false), (17, &buffer, true), (14, &buffer, false), (18, &buffer, false)]
    {
        let run = run_of(vec![with(total, lifetime)]);
        assert_eq!(outcomes("weights_total", &run)[0].ok, Some(ok), "{total} with {lifetime:?}");
        assert_eq!(outcomes("weights_ceiling", &run)[0].ok, Some(ok || total == 14), "{total} with {lifetime:?}");
    }
}

#[test]
fn records_that_agree_are_one_line_and_failures_are_bounded() {
    let sound = || values(&[("fast_resident_bytes", 1), ("fast_fault_ceiling_bytes", 2)]);
    let broken = || values(&[("fast_resident_bytes", 3), ("fast_fault_ceiling_bytes", 2)]);
    let found = outcomes("arena_ceiling", &run_of((0..9).map(|_| sound()).collect()));
    assert_eq!((found.len(), found[0].ok), (1, Some(true)));
    assert_eq!(found[0].place, "9 records of c: runtime.vmm.fast_resident_bytes");
    let mixed = outcomes("arena_ceiling", &run_of(vec![sound(), broken(), sound()]));
    assert_eq!(mixed[0].place, "step_0001.json: runtime.vmm.fast_resident_bytes");
    assert_eq!((mixed[0].ok, shown(&mixed[0].got)), (Some(false), "3".into()));
    let many = outcomes("arena_ceiling", &run_of((0..200).map(|_| broken()).collect()));
    assert_eq!(many.len(), MAX_FINDINGS_PER_CODE + 1);
    assert!(shown(&many[MAX_FINDINGS_PER_CODE].got).starts_with("150 more"), "{many:?}");
}

#[test]
fn a_failure_that_reading_reported_is_not_said_twice() {
    let mut run = run_of(vec![values(&[("fast_uploads", 5)]), values(&[("fast_uploads", 4)])]);
    assert_eq!(outcomes("counters_grow", &run)[0].ok, Some(false));
    assert_eq!(findings(&all(&run)), []);
    run.components[0].records[1].values = values(&[("fast_uploads", 6), ("evictions", 1)]);
    let codes: Vec<String> = findings(&all(&run)).into_iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["check_journal_keys"]);
}
