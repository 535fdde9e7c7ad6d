//! Comparisons of sides with given numbers.

use super::figures::{HOST_STEP, PEAK_MEMORY, PHASE, STEADY_STEP};
use super::*;
use ddo_schemas::{Unit, catalogue};

const FAILURES: &str = "runtime.vmm.fast_fault_failures";
const QUARANTINED: &str = "runtime.vmm.fast_quarantined_bytes";

fn figure(path: &str, value: Number) -> Figure {
    let field = catalogue::find(path).map(|row| row.field);
    let unit = field.map_or(Unit::Seconds, |field| field.unit);
    Figure { value, unit, class: classes::of(path, field), resolution: 0.0 }
}

/// A run with the given numbers; runs of the base start at even minutes, so that sides with equal counts are interleaved.
fn run(name: &str, started: usize, numbers: &[(&str, Number)]) -> Side {
    let figures = numbers.iter().map(|(path, value)| (path.to_string(), figure(path, *value))).collect();
    Side { name: name.into(), started: Some(format!("2026-01-01T00:{started:02}:00Z")), figures, ..Side::default() }
}

fn seconds(side: &str, values: &[f64]) -> Vec<Side> {
    let offset = usize::from(side == "candidate");
    let one = |(at, value): (usize, &f64)| {
        run(&format!("{side}-{at}"), 2 * at + offset, &[(STEADY_STEP, Number::Fraction(*value)), (FAILURES, Number::Whole(0))])
    };
    values.iter().enumerate().map(one).collect()
}

fn judged(base: &[f64], candidate: &[f64]) -> Comparison {
    compare(&seconds("base", base), &seconds("candidate", candidate), &DiffOptions::default())
}

fn metric<'a>(comparison: &'a Comparison, path: &str) -> &'a Metric {
    comparison.metrics.iter().find(|metric| metric.path == path).expect("compared")
}

const FIVE: [f64; 5] = [0.100, 0.104, 0.096, 0.102, 0.098];

fn times(values: &[f64], factor: f64) -> Vec<f64> {
    values.iter().map(|value| value * factor).collect()
}

#[test]
fn a_fifth_more_fails_and_three_percent_do_not() {
    let slower = judged(&FIVE, &times(&FIVE, 1.2));
    assert_eq!((slower.verdict, slower.verdict.exit_code(false)), (Verdict::Regression, 1));
    let step = metric(&slower, STEADY_STEP);
    assert_eq!(step.p, Some(1.0 / 252.0), "exact, one gated time");
    let effect = step.effect.expect("above zero");
    assert!((effect.ratio - 1.2).abs() < 0.01 && effect.low.is_some_and(|low| low > 1.0), "{effect:?}");
    assert!((step.change_percent.expect("a base") - 20.0).abs() < 1e-9);
    let noise = judged(&FIVE, &[0.103, 0.107, 0.099, 0.105, 0.101]);
    assert_eq!((noise.verdict, metric(&noise, STEADY_STEP).verdict), (Verdict::Same, Word::Same));
    let better = judged(&times(&FIVE, 1.2), &FIVE);
    assert_eq!((better.verdict, better.verdict.exit_code(true)), (Verdict::Improved, 0));
}

#[test]
fn two_microseconds_of_three_are_no_regression() {
    let micro = [0.000_002, 0.000_002_1, 0.000_001_9, 0.000_002, 0.000_002_05];
    let comparison = judged(&micro, &times(&micro, 1.5));
    let step = metric(&comparison, STEADY_STEP);
    assert_eq!((step.verdict, step.reason.as_str()), (Word::Same, "the change is within the floor of 1.000 ms"));
}

#[test]
fn one_run_a_side_says_little() {
    let small = judged(&[0.1], &[0.11]);
    assert_eq!((small.verdict, small.verdict.exit_code(false), small.verdict.exit_code(true)), (Verdict::Inconclusive, 0, 4));
    assert!(small.reasons[0].contains("need at least 4 runs a side"), "{:?}", small.reasons);
    assert_eq!(judged(&[0.1], &[0.14]).verdict, Verdict::Regression, "beyond a quarter");
    assert_eq!(judged(&[0.1], &[0.07]).verdict, Verdict::Improved);
    assert_eq!(judged(&[0.0001], &[0.0009]).verdict, Verdict::Inconclusive, "within the floor");
}

#[test]
fn two_and_three_runs_need_complete_separation() {
    assert_eq!(judged(&[0.100, 0.102, 0.101], &[0.120, 0.121, 0.122]).verdict, Verdict::Regression);
    let overlap = judged(&[0.100, 0.102, 0.121], &[0.120, 0.121, 0.122]);
    assert_eq!(overlap.verdict, Verdict::Inconclusive);
    assert!(metric(&overlap, STEADY_STEP).reason.contains("overlap"));
}

#[test]
fn the_same_runs_are_neutral() {
    let runs = seconds("base", &FIVE);
    let comparison = compare(&runs, &runs, &DiffOptions::default());
    assert_eq!((comparison.verdict, comparison.reasons[0].as_str()), (Verdict::Same, "both sides are the same runs"));
    let one = compare(&runs[..1], &runs[..1], &DiffOptions::default());
    assert_eq!(one.verdict, Verdict::Same);
}

fn with(side: &str, path: &str, values: &[Option<u64>]) -> Vec<Side> {
    let mut sides = seconds(side, &FIVE[..values.len()]);
    for (side, value) in sides.iter_mut().zip(values) {
        side.figures.remove(path);
        if let Some(value) = value {
            side.figures.insert(path.into(), figure(path, Number::Whole(*value)));
        }
    }
    sides
}

#[test]
fn a_failure_or_quarantined_bytes_fail_whatever_the_times() {
    for (path, class) in [(FAILURES, Class::NoIncrease), (QUARANTINED, Class::MustBeZero)] {
        let clean = with("base", path, &[Some(0); 5]);
        let once = with("candidate", path, &[Some(0), Some(0), Some(1), Some(0), Some(0)]);
        let comparison = compare(&clean, &once, &DiffOptions::default());
        assert_eq!((comparison.verdict, &*comparison.metrics[0].path), (Verdict::Regression, path));
        let first = &comparison.metrics[0];
        assert_eq!((first.class, first.change_percent), (class, None), "no percentage of zero");
    }
    let always = with("base", QUARANTINED, &[Some(4096); 2]);
    let comparison = compare(&always, &with("candidate", QUARANTINED, &[Some(4096); 2]), &DiffOptions::default());
    assert_eq!(comparison.verdict, Verdict::Regression, "the base's own does not excuse it");
    let fewer =
        compare(&with("base", FAILURES, &[Some(3); 2]), &with("candidate", FAILURES, &[Some(0); 2]), &DiffOptions::default());
    assert_eq!(metric(&fewer, FAILURES).verdict, Word::Improved);
}

#[test]
fn what_one_side_lacks_is_missing_and_never_zero() {
    let base = with("base", FAILURES, &[Some(0); 2]);
    let comparison = compare(&base, &with("candidate", FAILURES, &[None, Some(0)]), &DiffOptions::default());
    let row = metric(&comparison, FAILURES);
    assert_eq!((row.verdict, row.candidate[0]), (Word::Inconclusive, None));
    assert_eq!(row.reason, "unavailable in 0 of 2 base and 1 of 2 candidate runs");
    assert_eq!(comparison.verdict, Verdict::Inconclusive);
    let uploads = "runtime.vmm.fast_gpu_prefetch_hits";
    let only_there =
        compare(&with("base", uploads, &[None; 2]), &with("candidate", uploads, &[Some(7); 2]), &DiffOptions::default());
    let row = metric(&only_there, uploads);
    assert_eq!((row.verdict, row.change, row.change_percent), (Word::Missing, None, None));
    let lost =
        compare(&with("base", QUARANTINED, &[None; 2]), &with("candidate", QUARANTINED, &[Some(0); 2]), &DiffOptions::default());
    assert_eq!(metric(&lost, QUARANTINED).verdict, Word::Same, "zero in the candidate is all that is asked");
}

#[test]
fn a_base_of_zero_has_no_percentage() {
    let zeros = with("base", PEAK_MEMORY, &[Some(0); 5]);
    let grown = with("candidate", PEAK_MEMORY, &[Some(5 << 20), Some(6 << 20), Some(7 << 20), Some(8 << 20), Some(9 << 20)]);
    let comparison = compare(&zeros, &grown, &DiffOptions::default());
    let row = metric(&comparison, PEAK_MEMORY);
    assert_eq!((row.verdict, row.change_percent, row.effect), (Word::New, None, None));
    assert_eq!(comparison.verdict, Verdict::Regression);
    assert!(comparison.reasons[0].contains("no percentage"), "{:?}", comparison.reasons);
    let back = compare(&grown, &zeros, &DiffOptions::default());
    assert_eq!((back.verdict, metric(&back, PEAK_MEMORY).change_percent), (Verdict::Improved, Some(-100.0)));
}

#[test]
fn a_gate_that_can_never_fire_is_not_green() {
    let strict = Gates { level: Some(0.001), ..Gates::default() };
    let options = DiffOptions { gates: strict, ..DiffOptions::default() };
    let comparison = compare(&seconds("base", &FIVE), &seconds("candidate", &times(&FIVE, 1.01)), &options);
    let row = metric(&comparison, STEADY_STEP);
    assert_eq!((comparison.verdict, row.verdict), (Verdict::Inconclusive, Word::Inconclusive));
    assert!(row.reason.contains("can never show it") && row.reason.contains("need at least 7"), "{}", row.reason);
    let named = Gates::parse(&format!("[gates.\"{PHASE}\"]")).expect("a gate");
    let absent =
        compare(&seconds("base", &FIVE), &seconds("candidate", &FIVE), &DiffOptions { gates: named, ..DiffOptions::default() });
    assert_eq!((absent.verdict, metric(&absent, PHASE).verdict), (Verdict::Inconclusive, Word::Inconclusive));
    let nothing = [run("a", 0, &[("runtime.vmm.fast_gpu_prefetch_hits", Number::Whole(1))])];
    let empty = compare(&nothing, &nothing, &DiffOptions::default());
    assert_eq!(empty.verdict, Verdict::Inconclusive, "{:?}", empty.reasons);
}

#[test]
fn several_times_share_the_level() {
    let sides = |side: &str, step: f64| -> Vec<Side> {
        let offset = usize::from(side == "candidate");
        let numbers = |value: f64| [(STEADY_STEP, value * step), (PHASE, 1.0 + value), (HOST_STEP, 0.2 - value)];
        let one = |(at, value): (usize, &f64)| {
            let numbers: Vec<_> = numbers(*value).into_iter().map(|(path, value)| (path, Number::Fraction(value))).collect();
            run(&format!("{side}-{at}"), 2 * at + offset, &numbers)
        };
        FIVE.iter().enumerate().map(one).collect()
    };
    let comparison = compare(&sides("base", 1.0), &sides("candidate", 1.2), &DiffOptions::default());
    let step = metric(&comparison, STEADY_STEP);
    assert!((step.p.expect("tested") - 3.0 / 252.0).abs() < 1e-12, "three gated times: {:?}", step.p);
    assert_eq!(comparison.metrics[0].path, STEADY_STEP, "the worst leads");
}

#[test]
fn interleaved_runs_and_measured_noise_lower_the_threshold() {
    let (base, candidate) = (seconds("base", &FIVE), seconds("candidate", &times(&FIVE, 1.09)));
    assert!(interleaved(&base, &candidate));
    assert_eq!(compare(&base, &candidate, &DiffOptions::default()).verdict, Verdict::Regression, "9 % of interleaved runs");
    let mut late = candidate;
    for (at, side) in late.iter_mut().enumerate() {
        side.started = Some(format!("2026-01-01T01:{at:02}:00Z"));
    }
    assert!(!interleaved(&base, &late));
    assert_eq!(compare(&base, &late, &DiffOptions::default()).verdict, Verdict::Same, "9 % of a batch after the other");
    let equal = seconds("base", &[0.1000, 0.1004, 0.0996, 0.1002, 0.0998, 0.1001]);
    let measured = calibrate(&equal, &BTreeSet::new()).expect("six runs");
    assert_eq!(measured.thresholds[STEADY_STEP], 5.0, "never below what interleaved runs are asked for");
    let gates = Gates { calibration: measured.thresholds, ..Gates::default() };
    assert_eq!(compare(&base, &late, &DiffOptions { gates, ..DiffOptions::default() }).verdict, Verdict::Regression);
}

#[test]
fn noisy_runs_raise_the_threshold_the_same_every_time() {
    let noisy = seconds("base", &[0.1, 0.2, 0.1, 0.2, 0.15, 0.12, 0.18, 0.16]);
    let first = calibrate(&noisy, &BTreeSet::new()).expect("eight runs");
    assert!(first.thresholds[STEADY_STEP] > 30.0, "{first:?}");
    assert_eq!(first, calibrate(&noisy, &BTreeSet::new()).expect("the same"));
    assert_eq!(calibrate(&noisy[..3], &BTreeSet::new()), Err(BadCalibration::TooFew { got: 3, least: 4 }));
    let mut other = noisy;
    other[2].identity.insert("settings.journal".into(), "off".into());
    assert!(matches!(calibrate(&other, &BTreeSet::new()), Err(BadCalibration::Differ { .. })));
}

#[test]
fn a_difference_is_refused_by_name_and_may_be_allowed() {
    let (base, mut candidate) = (seconds("base", &FIVE), seconds("candidate", &FIVE));
    candidate[3].identity.insert("machine.gpu".into(), "B".into());
    let refused = compare(&base, &candidate, &DiffOptions::default());
    assert_eq!((refused.verdict, refused.metrics.len(), refused.comparable), (Verdict::NotComparable, 0, false));
    assert_eq!(refused.reasons, ["machine.gpu: absent in base-0, B in candidate-3"]);
    let allow = BTreeSet::from(["machine.gpu".to_string()]);
    let allowed = compare(&base, &candidate, &DiffOptions { allow, ..DiffOptions::default() });
    assert_eq!((allowed.verdict, allowed.comparable), (Verdict::Same, false));
    assert!(allowed.reasons.last().is_some_and(|last| last.starts_with("not comparable, allowed: machine.gpu")));
    let mut failed = seconds("candidate", &FIVE);
    failed[0].unsound.push(("failed".into(), "the command exited with 3".into()));
    let refused = compare(&base, &failed, &DiffOptions::default());
    assert_eq!(refused.reasons, ["failed: candidate-0: the command exited with 3"]);
}

#[test]
fn a_second_batch_clears_an_accident_and_confirms_a_change() {
    let options = DiffOptions::default();
    let (base, candidate) = (seconds("base", &FIVE), seconds("candidate", &times(&FIVE, 1.2)));
    let again = |factor: f64| {
        let later = |mut sides: Vec<Side>| {
            sides.iter_mut().for_each(|side| side.started = side.started.take().map(|text| text.replace("T00", "T05")));
            sides
        };
        let fresh = (later(seconds("base", &FIVE)), later(seconds("candidate", &times(&FIVE, factor))));
        confirm(compare(&base, &candidate, &options), (&base, &candidate), (&fresh.0, &fresh.1), &options)
    };
    let confirmed = again(1.2);
    assert_eq!((confirmed.verdict, confirmed.confirmed), (Verdict::Regression, Some(true)));
    assert!(confirmed.reasons[0].contains("confirmed by a second batch: +20.0 %"), "{:?}", confirmed.reasons);
    let cleared = again(1.01);
    assert_eq!((cleared.verdict, cleared.confirmed), (Verdict::Same, Some(false)));
    assert!(metric(&cleared, STEADY_STEP).reason.contains("not confirmed"));
    let repeated = confirm(compare(&base, &candidate, &options), (&base, &candidate), (&base, &candidate), &options);
    assert_eq!(repeated.verdict, Verdict::NotComparable);
    assert!(repeated.reasons[0].contains("is a run of the first batch"), "{:?}", repeated.reasons);
    let broken = with("candidate", FAILURES, &[Some(0), Some(1), Some(0), Some(0), Some(0)]);
    assert!(to_confirm(&compare(&base, &broken, &options)).is_empty(), "a broken rule is no accident");
}

#[test]
fn counts_of_equal_runs_compare_exactly_and_hits_have_their_direction() {
    let uploads = "runtime.vmm.fast_uploads";
    let deterministic = catalogue::find(uploads).is_some_and(|row| row.field.deterministic);
    let (base, more) = (with("base", uploads, &[Some(10); 2]), with("candidate", uploads, &[Some(11); 2]));
    let comparison = compare(&base, &more, &DiffOptions::default());
    let row = metric(&comparison, uploads);
    assert_eq!((row.gated, comparison.verdict), (false, Verdict::Same));
    assert!(!deterministic || row.verdict == Word::Changed, "{row:?}");
    let hits = "runtime.vmm.fast_gpu_prefetch_hits";
    let gates = Gates::parse(&format!("[gates.\"{hits}\"]\nbetter = \"higher\"")).expect("a gate");
    let options = DiffOptions { gates, ..DiffOptions::default() };
    let (few, many) = (with("base", hits, &[Some(10); 5]), with("candidate", hits, &[Some(20); 5]));
    assert_eq!(compare(&few, &many, &options).verdict, Verdict::Improved);
    assert_eq!(compare(&many, &few, &options).verdict, Verdict::Regression);
}

#[test]
fn ranks_of_one_job_are_one_run() {
    let mut ranks = seconds("base", &[0.1, 0.2]);
    assert!(!Side::are_one_job(&ranks), "two runs");
    for (at, side) in ranks.iter_mut().enumerate() {
        side.rank = Some(1 - at as u64);
    }
    assert!(Side::are_one_job(&ranks));
    let job = Side::of_job("job", ranks);
    assert_eq!(job.figures.keys().filter(|path| path.ends_with(STEADY_STEP)).count(), 2);
    let comparison = compare(std::slice::from_ref(&job), std::slice::from_ref(&job), &DiffOptions::default());
    let step = metric(&comparison, &format!("rank-0/{STEADY_STEP}"));
    assert!(step.gated, "a rank's step is gated as a step is");
}
