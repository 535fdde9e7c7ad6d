//! Rows of declared and undeclared fields.

use super::*;
use crate::run::LoadedReport;
use ddo_schemas::field::{Condition, Rate, RateScope};

fn values(pairs: &[(&str, Scalar)]) -> Values {
    pairs.iter().map(|(path, value)| (Arc::from(*path), value.clone())).collect()
}

fn record(step: Option<u64>, elapsed: i64, leaves: &[(&str, Scalar)]) -> Record {
    let file = step.map_or("before_denoise.json".into(), |step| format!("step_{step:04}.json"));
    Record { file, step, host_elapsed_ns: Some(elapsed), observed_ns: None, values: values(leaves) }
}

const COUNTER: &str = "runtime.vmm.fast_faults";
const GAUGE: &str = "runtime.vmm.resident_bytes";
const LIMIT: &str = "runtime.vmm.fast_execution_buffer_slots";

fn journal(readings: &[(Option<u64>, Scalar)]) -> Run {
    let records = readings
        .iter()
        .enumerate()
        .map(|(at, (step, value))| record(*step, at as i64 * 1_000_000_000, &[(COUNTER, value.clone())]));
    let component = Component { name: "c".into(), records: records.collect(), ..Component::default() };
    Run { name: "r".into(), components: vec![component], ..Run::default() }
}

/// Scope, state and difference of every row.
fn told(run: &Run) -> Vec<(Scope, State, Option<Difference>)> {
    pairs(run)
        .iter()
        .flat_map(|pair| pair.rows().map(|row| (pair.scope, row.state, row.difference)).collect::<Vec<_>>())
        .collect()
}

#[test]
fn a_reset_stays_a_reset_from_first_to_last() {
    let steps = [None, Some(0), Some(1), Some(2)].into_iter();
    let run = journal(&steps.zip([100, 300, 50, 250].map(Scalar::U64)).collect::<Vec<_>>());
    let whole = |difference| Some(Difference::Whole(difference));
    let wanted = [
        (Scope::Step, State::Value, whole(200)),
        (Scope::Step, State::Reset, None),
        (Scope::Step, State::Value, whole(200)),
        (Scope::FirstToLast, State::Reset, None),
    ];
    assert_eq!(told(&run), wanted);
    assert_eq!(pairs(&run)[0].seconds, Some(1.0));
}

#[test]
fn a_reset_behind_a_record_without_the_counter_is_seen() {
    let run = journal(&[
        (None, Scalar::U64(10)),
        (Some(0), Scalar::U64(90)),
        (Some(1), Scalar::Uncollected),
        (Some(2), Scalar::U64(40)),
    ]);
    let states: Vec<State> = told(&run).into_iter().map(|(_, state, _)| state).collect();
    assert_eq!(states, [State::Value, State::Uncollected, State::Uncollected, State::Reset]);
}

#[test]
fn a_missing_step_marks_its_delta_and_the_whole() {
    let run = journal(&[(Some(0), Scalar::U64(1)), (Some(1), Scalar::U64(2)), (Some(4), Scalar::U64(9))]);
    let whole = |difference| Some(Difference::Whole(difference));
    let wanted = [
        (Scope::Step, State::Value, whole(1)),
        (Scope::Step, State::SpansGap, whole(7)),
        (Scope::FirstToLast, State::SpansGap, whole(8)),
    ];
    assert_eq!(told(&run), wanted);
}

#[test]
fn differences_are_exact_at_the_ends_of_64_bits() {
    let wide = [(9_007_199_254_740_993, u64::MAX, 18_437_736_874_454_810_622), (0, u64::MAX, i128::from(u64::MAX))];
    for (before, after, wanted) in wide {
        let run = journal(&[(None, Scalar::U64(before)), (Some(0), Scalar::U64(after))]);
        assert_eq!(told(&run)[0], (Scope::Step, State::Value, Some(Difference::Whole(wanted))));
    }
    let down = compare::difference(&Scalar::U64(u64::MAX), &Scalar::I64(i64::MIN));
    assert_eq!(down, Some(Difference::Whole(i128::from(i64::MIN) - i128::from(u64::MAX))));
}

#[test]
fn every_kind_says_only_what_it_may() {
    let before = values(&[
        (GAUGE, Scalar::U64(70)),
        (LIMIT, Scalar::U64(2)),
        ("route", Scalar::Text("a".into())),
        ("schema_version", Scalar::U64(1)),
        ("runtime.vmm.new_in_another_recorder", Scalar::U64(5)),
    ]);
    let after = values(&[
        (GAUGE, Scalar::U64(50)),
        (LIMIT, Scalar::U64(3)),
        ("route", Scalar::Text("b".into())),
        ("schema_version", Scalar::U64(2)),
        ("runtime.vmm.new_in_another_recorder", Scalar::U64(9)),
    ]);
    let said = |path: &str| {
        let column = Column::new(path.into(), field(path));
        let row = compare(&column, &before, &after, Interval::default());
        (column.kind(), row.state, row.difference, row.is_change())
    };
    assert_eq!(said(GAUGE), ("gauge", State::Value, Some(Difference::Whole(-20)), true));
    assert_eq!(said(LIMIT), ("limit", State::Changed, None, true));
    assert_eq!(said("route"), ("label", State::Changed, None, true));
    assert_eq!(said("schema_version"), ("version", State::Value, None, false), "never compared");
    assert_eq!(said("runtime.vmm.new_in_another_recorder"), ("unspecified", State::Value, None, true), "levels only");
    assert_eq!(said("runtime.vmm.resident_peak"), ("unspecified", State::Unavailable, None, false));
}

static PEAK: Field = Field { path: "o.peak", unit: Unit::Bytes, kind: Kind::Peak, ..Field::PLAIN };
static LOWEST: Field =
    Field { path: "o.lowest", unit: Unit::Bytes, kind: Kind::Gauge, meaningful_if: Condition::NonZero, ..Field::PLAIN };
static RECOVERED: Field = Field {
    path: "o.recovered",
    unit: Unit::Seconds,
    kind: Kind::Counter,
    meaningful_if: Condition::SiblingNonZero("recoveries"),
    ..Field::PLAIN
};

fn one<'a>(column: &'a Column, before: &'a Values, after: &'a Values) -> Row<'a> {
    compare(column, before, after, Interval::default())
}

#[test]
fn zeros_that_mean_nothing_was_seen_are_unavailable() {
    let none = values(&[("o.lowest", Scalar::U64(0)), ("o.recovered", Scalar::F64(0.0)), ("o.recoveries", Scalar::U64(0))]);
    let some = values(&[("o.lowest", Scalar::U64(7)), ("o.recovered", Scalar::F64(0.5)), ("o.recoveries", Scalar::U64(1))]);
    for field in [&LOWEST, &RECOVERED] {
        let column = Column::new(field.path.into(), Some(field));
        let row = one(&column, &none, &some);
        assert_eq!((row.state, row.before, row.after.is_some()), (State::Unavailable, None, true), "{}", field.path);
        assert_eq!(one(&column, &some, &some).state, State::Value);
    }
}

#[test]
fn a_peak_needs_its_later_value_only() {
    let column = Column::new(PEAK.path.into(), Some(&PEAK));
    let (none, some) = (Values::new(), values(&[("o.peak", Scalar::U64(7))]));
    let row = one(&column, &none, &some);
    assert_eq!((row.state, row.difference, row.after), (State::Value, None, Some(&Scalar::U64(7))));
    assert_eq!(one(&column, &some, &none).state, State::Unavailable);
}

#[test]
fn what_was_pending_or_failed_gives_no_numbers() {
    let column = Column::new(PEAK.path.into(), Some(&PEAK));
    let with = |more: (&str, Scalar)| values(&[("o.peak", Scalar::U64(7)), more]);
    let good = with(("o.status", Scalar::Text("complete".into())));
    for (more, state) in [
        (("o.status", Scalar::Text("pending".into())), State::Pending),
        (("o.status", Scalar::Text("failed".into())), State::Failed),
        (("o.failed", Scalar::Bool(true)), State::Failed),
    ] {
        let bad = with(more);
        let row = one(&column, &good, &bad);
        assert_eq!((row.state, row.after), (state, None));
    }
    assert_eq!(one(&column, &good, &good).state, State::Value);
}

const fn moved(path: &'static str, scope: RateScope) -> Field {
    Field { path, unit: Unit::Bytes, kind: Kind::Counter, rate: Some(Rate { seconds: "seconds", scope }), ..Field::PLAIN }
}
static WORK: Field = moved("o.read_bytes", RateScope::Work);
static ENQUEUE: Field = moved("o.handed_over_bytes", RateScope::Enqueue);

#[test]
fn bytes_over_enqueue_time_are_no_transfer_rate() {
    let read = |bytes: u64, seconds: f64| {
        let leaf = Scalar::U64(bytes);
        values(&[(WORK.path, leaf.clone()), (ENQUEUE.path, leaf), ("o.seconds", Scalar::F64(seconds))])
    };
    let rate = |field: &'static Field, bytes: u64, link: Option<u64>| {
        let column = Column::new(field.path.into(), Some(field));
        let (before, after) = (read(0, 1.0), read(bytes, 1.5));
        let row = compare(&column, &before, &after, Interval { link, ..Interval::default() });
        row.rate.map(|rate| (rate.bytes_per_second, rate.note()))
    };
    assert_eq!(rate(&WORK, 10_000, None), Some((20_000.0, None)));
    assert_eq!(rate(&WORK, 10_000, Some(20_000)), Some((20_000.0, None)), "as fast as the link");
    assert_eq!(rate(&WORK, 10_000, Some(19_999)), Some((20_000.0, Some(ENQUEUE_NOTE))), "faster than the link");
    assert_eq!(rate(&WORK, 33_000_000_000, None), Some((66e9, Some(ENQUEUE_NOTE))), "faster than any link");
    assert_eq!(rate(&ENQUEUE, 10_000, None), Some((20_000.0, Some(ENQUEUE_NOTE))));
    assert_eq!(rate(&WORK, 0, None), None, "nothing moved");
    let column = Column::new(WORK.path.into(), Some(&WORK));
    let (still, bare) = (read(5, 1.0), values(&[(WORK.path, Scalar::U64(9))]));
    assert_eq!(one(&column, &still, &still).rate, None, "no time passed");
    assert_eq!(one(&column, &still, &bare).rate, None, "the seconds are not there");
}

fn two_components() -> Run {
    let component = |name: &str, path: &str| Component {
        name: name.into(),
        records: vec![record(None, 0, &[(path, Scalar::U64(0))]), record(Some(0), 9, &[(path, Scalar::U64(0))])],
        reports: vec![
            LoadedReport { file: format!("{name}/final.json"), ..LoadedReport::default() },
            LoadedReport { file: format!("{name}/old/final.json"), ..LoadedReport::default() },
        ],
        ..Component::default()
    };
    let mut run = Run { components: vec![component("base", COUNTER), component("new", GAUGE)], ..Run::default() };
    for component in &mut run.components {
        for record in &mut component.records {
            record.file = format!("{}/{}", component.name, record.file);
        }
    }
    run
}

#[test]
fn what_another_component_records_is_unavailable_here() {
    let run = two_components();
    let rows: Vec<(Option<&str>, String, State)> = pairs(&run)
        .iter()
        .filter(|pair| pair.scope == Scope::Step)
        .flat_map(|pair| pair.rows().map(|row| (pair.component, row.column.path.to_string(), row.state)).collect::<Vec<_>>())
        .collect();
    assert!(rows.contains(&(Some("new"), COUNTER.into(), State::Unavailable)), "{rows:?}");
    assert!(rows.contains(&(Some("base"), COUNTER.into(), State::Value)));
}

#[test]
fn chosen_records_know_what_lies_between_them() {
    let readings = [(None, 100), (Some(0), 300), (Some(1), 50), (Some(2), 350), (Some(4), 360)];
    let run = journal(&readings.map(|(step, value)| (step, Scalar::U64(value))));
    let state = |from: &str, to: &str| {
        let pair = between(&run, None, from, to).expect("both exist");
        pair.rows().map(|row| row.state).collect::<Vec<_>>()
    };
    assert_eq!(state("before_denoise", "step_0002"), [State::Reset]);
    assert_eq!(state("step_0001", "step_0002"), [State::Value]);
    assert_eq!(state("step_0001", "step_0004"), [State::SpansGap]);
}

#[test]
fn reports_pair_with_the_next_of_their_own_route() {
    let report = |file: &str, route: &str, at: f64| LoadedReport {
        file: file.into(),
        route: Some(route.into()),
        values: values(&[("runtime.observed_monotonic_seconds", Scalar::F64(at))]),
        ..LoadedReport::default()
    };
    let reports = vec![report("a.json", "run", 1.0), report("b.json", "load", 2.0), report("c.json", "run", 3.5)];
    let run = Run { components: vec![Component { reports, ..Component::default() }], ..Run::default() };
    let pairs = pairs(&run);
    let told: Vec<_> = pairs.iter().map(|pair| (pair.scope, pair.from.as_str(), pair.to.as_str(), pair.seconds)).collect();
    assert_eq!(told, [(Scope::Reports, "a", "c", Some(2.5))]);
}

#[test]
fn documents_are_found_by_name_component_or_path() {
    let run = two_components();
    let pair = between(&run, None, "base/step_0000", "new/step_0000").expect("both exist");
    assert_eq!((pair.component, pair.from.as_str(), pair.seconds), (None, "base/step_0000", None));
    let rows: Vec<_> = pair.rows().map(|row| (row.column.path.to_string(), row.state)).collect();
    assert!(rows.contains(&(COUNTER.into(), State::Unavailable)), "{rows:?}");
    let inside = between(&run, Some("new"), "before_denoise", "step_0000.json").expect("both exist");
    assert_eq!((inside.component, inside.seconds), (Some("new"), Some(9e-9)));
    let twice = between(&run, None, "step_0000", "step_0000").expect_err("two components have it");
    assert!(matches!(&twice, Unmatched::Several { files, .. } if files.len() == 2), "{twice:?}");
    let none = between(&run, Some("base"), "nothing", "step_0000").expect_err("nobody has it");
    assert!(matches!(&none, Unmatched::Nothing { files, .. } if files.len() == 4), "{none:?}");
    let back = between(&run, Some("new"), "step_0000", "before_denoise").expect_err("the later one first");
    assert!(matches!(back, Unmatched::Backwards { .. }), "{back:?}");
    assert_eq!(names(&run.components[0]).reports, ["base/final", "base/old/final"], "the short name is taken twice");
    assert!(between(&run, Some("base"), "base/old/final", "base/final.json").is_ok());
}
