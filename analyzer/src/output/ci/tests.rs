//! The forms of given verdicts: what they escape, count and leave out.

use super::*;
use ddo_schemas::Ratio;
use ddo_schemas::scalar::JsonScalar;
use ddo_schemas::unit::Nullable;
use ddo_schemas::verdict::{Answer, ComparedMetric, ComparedRuns, DifferingField};

fn metric(path: &str, verdict: &str, gated: bool) -> ComparedMetric {
    ComparedMetric {
        path: path.into(),
        class: "time".into(),
        rule: "statistical".into(),
        unit: "seconds".into(),
        base: vec![JsonScalar::Real(0.1), JsonScalar::Null],
        candidate: vec![JsonScalar::Real(0.12)],
        change: JsonScalar::Real(0.02),
        change_percent: Nullable(Some(Ratio(20.0))),
        p: Nullable(None),
        effect: Nullable(None),
        threshold_percent: Nullable(Some(Ratio(5.0))),
        floor: Nullable(Some(Ratio(0.001))),
        verdict: verdict.into(),
        reason: String::new(),
        gated,
        owner: Nullable(None),
    }
}

fn verdict(answer: Answer, metrics: Vec<ComparedMetric>) -> VerdictDocument {
    VerdictDocument {
        schema_version: 1,
        verdict: answer,
        exit_code: 1,
        reasons: vec!["because\nof | <b>this</b>".into()],
        comparable: true,
        differences: Vec::new(),
        runs: ComparedRuns {
            base: vec!["a".into(), "b".into()],
            candidate: vec!["c".into()],
            left_out: Vec::new(),
            interleaved: false,
        },
        diagnostic_changes: None,
        confirmed: None,
        metrics,
    }
}

#[test]
fn annotations_escape_what_ends_a_command_or_a_property() {
    let mut bad = metric("a,b:c%d\r\ne", "regression", true);
    bad.reason = "100% :: of\nit, yes".into();
    let text = annotations(&verdict(Answer::Regression, vec![bad]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "one command a line: {text}");
    assert!(lines[0].starts_with("::error title=Comparison::regression: 1 of 1"), "{text}");
    assert_eq!(
        lines[1],
        "::error title=a%2Cb%3Ac%25d%0D%0Ae::regression: 100.000 ms to 120.000 ms (+20.0 %25); 100%25 :: of%0Ait, yes"
    );
}

#[test]
fn annotations_beyond_the_limit_are_counted() {
    let many = (0..30).map(|at| metric(&format!("m{at:02}"), "regression", true)).collect();
    let text = annotations(&verdict(Answer::Regression, many));
    assert_eq!(text.lines().filter(|line| line.starts_with("::error ")).count(), 9);
    assert!(text.contains("22 more worse numbers"), "{text}");
}

#[test]
fn nothing_of_an_input_becomes_markup() {
    let mut bad = metric("x`|<script>", "regression", true);
    bad.owner = Nullable(Some("<img>|*us*".into()));
    let page = markdown(&verdict(Answer::Regression, vec![bad, metric("quiet", "same", false)]));
    assert!(!page.contains("<b>") && !page.contains("<img>"), "{page}");
    assert!(page.contains("- because\u{fffd}of \\| &lt;b&gt;this&lt;/b&gt;"), "{page}");
    let row = page.lines().find(|line| line.contains("script")).expect("the row");
    let bars = row.replace("\\|", "").matches('|').count();
    assert_eq!(bars, 7, "six cells: {row}");
    assert!(row.contains("`x'\\|<script>`") && row.contains("**regression**"), "{row}");
    assert!(!page.contains("quiet"), "what did not change is not shown");
}

#[test]
fn worse_numbers_lead_every_form() {
    let metrics = vec![metric("worse", "regression", true), metric("open", "inconclusive", true), metric("fine", "same", true)];
    let verdict = verdict(Answer::Regression, metrics);
    for form in [markdown(&verdict), annotations(&verdict), junit(&verdict), sarif(&verdict).expect("JSON"), text(&verdict)] {
        let at = |word: &str| form.find(word);
        let (worse, open) = (at("worse").expect("there"), form.rfind("open").expect("there"));
        assert!(worse < open, "{form}");
    }
}

#[test]
fn xml_holds_no_character_that_it_forbids() {
    let mut bad = metric("a\u{0}\u{1b}\"<&>\u{ffff}", "new", true);
    bad.change_percent = Nullable(None);
    let xml = junit(&verdict(Answer::Regression, vec![bad, metric("open", "missing", true)]));
    assert!(xml.contains("name=\"a\u{fffd}\u{fffd}&quot;&lt;&amp;&gt;\u{fffd}\""), "{xml}");
    assert!(xml.contains("type=\"new\"") && xml.contains("<skipped message="), "{xml}");
    assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{xml}");
}

#[test]
fn incomparable_sides_are_an_error_everywhere() {
    let mut refused = verdict(Answer::NotComparable, Vec::new());
    refused.comparable = false;
    refused.differences = vec![DifferingField { field: "machine.gpu".into(), text: "A in a, B in c".into(), allowed: false }];
    refused.reasons = vec!["machine.gpu: A in a, B in c".into()];
    assert!(junit(&refused).contains("errors=\"1\"") && junit(&refused).contains("<error message=\"not comparable"));
    assert!(annotations(&refused).contains("::error title=machine.gpu::not comparable: A in a, B in c"));
    assert!(sarif(&refused).expect("JSON").contains("\"ruleId\": \"diff_not_comparable\""));
    assert!(markdown(&refused).contains("- `machine.gpu`: A in a, B in c"));
    assert!(text(&refused).starts_with("not comparable; 2 base and 1 candidate runs"));
}

#[test]
fn a_number_that_is_not_finite_is_refused() {
    let mut bad = metric("x", "same", true);
    bad.change = JsonScalar::Real(f64::NAN);
    assert!(json(&verdict(Answer::Same, vec![bad])).is_err());
}
