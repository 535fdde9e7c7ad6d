//! The profile of recorded reports, through the program.
//!
//! Proves: what the older recorder's own profile says is in ours, in the same order and with the same numbers; each route has its lines;
//! the default run writes what `profile` prints.

use crate::support::{command, data, ran, scratch};
use std::path::Path;

fn profile(words: &[&str], input: &Path) -> String {
    ran(command("ddo-analyze").arg("profile").arg(input).args(words)).ended(0).out
}

/// A line without its indentation and the caveat in brackets.
fn stripped(line: &str) -> &str {
    let line = line.trim();
    line.split_once(" (").map_or(line, |(line, _)| line)
}

#[test]
fn every_line_of_the_older_profile_is_in_ours_in_the_same_order() {
    for (name, lines) in [("small-cache-full", 12), ("small-ring", 10)] {
        let folder = data("peer-runs").join(name);
        let theirs = std::fs::read_to_string(folder.join("profile.txt")).expect("recorded");
        let ours = profile(&[], &folder);
        let mut rest = ours.lines().map(stripped);
        let wanted: Vec<&str> = theirs.lines().map(stripped).filter(|line| !line.is_empty()).collect();
        assert_eq!(wanted.len(), lines, "{name}");
        for line in wanted {
            assert!(rest.any(|ours| ours == line), "{name}: {line:?} is missing, or not in its place, in\n{ours}");
        }
        // Each caveat of a figure that invites a wrong reading is kept.
        for line in ["native_timeline=", "torch_span_pool="] {
            let own = ours.lines().find(|own| own.trim().starts_with(line)).expect(line);
            assert!(own.ends_with(')'), "{own}");
        }
    }
}

#[test]
fn lines_that_the_older_profile_lacks() {
    let ours = profile(&[], &data("peer-runs/small-cache-full"));
    for wanted in [
        "  source_cache=hits=653 misses=40 bypasses=0 (",
        "  gpu_prefetch=units=30 hits=30 capacity_skips=0 cancelled=0",
        "  source_prefetch=attempts=30 hits=30 skips=0 resident_skips=0 (",
        "  live_tickets=source_cache=0 (",
        "window geometry, a lower bound, not a DMA rate)\n",
        "  floor_seconds_per_step=unavailable (",
        "  floor_upload=unavailable (",
    ] {
        assert!(ours.contains(wanted), "{wanted}: {ours}");
    }
    let ring = profile(&[], &data("peer-runs/small-ring"));
    assert!(!ring.contains("source_cache"), "what a ring has not is absent, not zero: {ring}");
}

#[test]
fn every_recorded_route_has_its_lines() {
    let folder = data("peer-runs/small-cache-full");
    for (report, wanted) in [
        ("host_cache_release", "host_cache_release=unsupported phase=after_run allocator_bytes_delta=unavailable ("),
        (
            "inspect_host_memory",
            "host_memory=observed phase=after_load private_bytes=unavailable rss_bytes=878252032 cpu_storage_bytes=2599850112 (",
        ),
        ("inspect_vmm_component", "component_capacity=metadata_only (sizes from metadata; nothing was allocated or admitted)"),
        (
            "inspect_vmm_component",
            "selected_modules=60 aligned_payload_gib=2.4213 nonselected_gib=<0.0001 shared_owner_gib=0.0000",
        ),
        ("model_load", "weight_source=exact_names bound=136 available=136 rejected=0 missing=0 ("),
        (
            "preflight",
            "component_preflight=loaded_source_preflight parameters=136 units=14 payload_gib=2.4213 slots=2 slots_total_gib=1.2660 (",
        ),
        ("operators", "operator_invocation=1 forward_host_s=0.012382 profiler_stop_s=0.008737 operators=83 device_events=93"),
        ("operators", "top_host=cudaDeviceSynchronize calls=1 self_s=0.004876 total_s=0.004876"),
        ("step_wait", "diagnostic_step_wait=calls=2 host_s=0.012253 (the host waited at every step; not a benchmark)"),
        ("truncated_timeline", "native_timeline=truncated samples=64 dropped=90 (stream windows, not engine activity)"),
        ("step_0002", "vmm=resident_gb="),
    ] {
        let ours = profile(&["--report", report], &folder);
        assert!(ours.contains(wanted), "{report}: {wanted}: {ours}");
        assert!(ours.starts_with("DDO profile\n  schema="), "{ours}");
    }
    let linear = profile(&[], &data("peer-runs/big-linear-auto"));
    for wanted in ["mode=linear_runtime\n", "modules=216 patched=170 total_gb=9.3840\n"] {
        assert!(linear.contains(wanted), "{wanted}: {linear}");
    }
    assert!(!linear.contains("vmm=") && !linear.contains("torch_"), "{linear}");
    let refused = ran(command("ddo-analyze").arg("profile").arg(&folder).args(["--report", "nothing"])).ended(2);
    assert!(refused.err.contains("no record or report is called \"nothing\""), "{}", refused.err);
}

#[test]
fn the_default_run_writes_what_profile_prints() {
    let at = scratch("profile");
    let input = data("peer-runs/small-ring");
    ran(command("ddo-analyze").arg(&input).arg("--out").arg(at.path().join("out"))).ended(0);
    let written = std::fs::read_to_string(at.path().join("out/profile.txt")).expect("written");
    assert_eq!(written, profile(&[], &input));
}
