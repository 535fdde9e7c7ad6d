//! What lives on the device as long as the component.
//!
//! Proves: the root's tensors are uploaded exactly once, whatever the ceiling, mode and source, and read without a pin; what is
//! reported about them are independent counts; the ceiling is charged with whole pages; limits admit what equals them; one identity
//! in two scopes, packed elements and too many dimensions are refused before anything is taken; off, nothing changes.

use crate::support::ledger::Ledger;
use crate::support::mosaic::Mosaic;
use crate::support::rooted::{Rooted, root_name};
use crate::support::{command, ran, scratch};
use ddo_recorder::plan::checkpoint::Dtype;
use ddo_recorder::{
    Ceiling, Component, Error, HostBudget, HostOptions, HostTensor, Offload, OffloadConfig, Refusal, ResidencyMode,
    SnapshotOptions, SourceChoice, enable_offload,
};
use ddo_schemas::Report;
use std::sync::Arc;
use std::time::Duration;

const PAGE: u64 = 4096;

/// Four units of 12,288 bytes; 6,001 bytes of root in four tensors.
fn model() -> Rooted {
    Rooted { mosaic: Mosaic::even(4, 3, PAGE), root: vec![5000, 700, 1, 300] }
}

fn config(ledger: &Arc<Ledger>, ceiling: u64, residency: ResidencyMode) -> OffloadConfig {
    let config = OffloadConfig::new(Arc::<Ledger>::clone(ledger));
    OffloadConfig { ceiling: Ceiling::Bytes(ceiling), residency, part_bytes: 1, lifetime_limit_bytes: 1 << 20, ..config }
}

fn ledger(ceiling: u64) -> Arc<Ledger> {
    Ledger::new(HostOptions { page_bytes: PAGE, ..HostOptions::default() }, ceiling)
}

fn report(offload: &Offload) -> Report {
    offload.metrics_snapshot(SnapshotOptions { collect_completed: true, ..SnapshotOptions::default() }).expect("a report")
}

fn close(ledger: &Ledger, offload: &Offload) {
    let closed = offload.close(Duration::from_secs(10)).expect("closes");
    assert_eq!((closed.quarantined_bytes, closed.errors.len()), (0, 0), "{closed:?}");
    ledger.seen().assert_balanced();
}

/// Attaches, runs passes, and compares every row with a count of its own.
fn holds(model: &Rooted, component: Component, config: OffloadConfig, ledger: &Ledger, from_files: bool) {
    let Ceiling::Bytes(ceiling) = config.ceiling else { panic!("bytes") };
    let offload = enable_offload(component, config).expect("attached");
    let (capacity, payload) = (model.capacity_bytes(PAGE), model.payload_bytes());
    assert_eq!(ledger.seen().copied_bytes, payload, "the root is there before the first unit is asked for");
    assert_eq!(offload.lifetime_names().count(), model.root.len());
    let order: Vec<usize> = (0..model.mosaic.sizes.len()).collect();
    for step in 0..4 {
        assert_eq!(model.pass(&offload, &order).expect("a pass"), model.reference(&order), "step {step} under {ceiling}");
        assert_eq!(offload.audit(), [""; 0]);
    }
    offload.wait_idle().expect("idle");
    let seen = ledger.seen();
    let Report { runtime, configuration, .. } = report(&offload);
    let vmm = runtime.vmm.expect("attached");
    assert_eq!(seen.copied_bytes, payload + vmm.uploads.fast_upload_bytes.expect("counted"), "the root is never uploaded again");
    assert_eq!(vmm.buffers.fast_component_lifetime_capacity_bytes, Some(capacity));
    assert_eq!(vmm.buffers.fast_component_lifetime_resident_bytes, Some(capacity));
    assert_eq!(vmm.arena.fast_total_weight_resident_bytes, Some(seen.mapped_bytes), "every mapped byte holds weights");
    assert!(seen.peak_mapped_bytes <= ceiling);
    let room =
        vmm.arena.fast_fault_ceiling_bytes.expect("a limit") + vmm.buffers.fast_execution_buffer_capacity_bytes.expect("one");
    assert!(room + capacity <= ceiling, "{room} for units, {capacity} for the root, {ceiling} in all");
    let all = model.root.len() as u64 + model.mosaic.sizes.iter().map(Vec::len).sum::<usize>() as u64;
    let (count, bytes) = match from_files {
        true => (vmm.sources.fast_file_backed_bindings, vmm.sources.fast_file_backed_bytes),
        false => (vmm.sources.fast_cpu_source_bindings, vmm.sources.fast_cpu_source_bytes),
    };
    assert_eq!((count, bytes), (Some(all), Some(payload + model.mosaic.total_bytes())));
    let decisions = &runtime.state.planner_decisions;
    assert_eq!((decisions.vmm_component_lifetime_bytes, decisions.vmm_host_bytes), (Some(payload), 0));
    assert_eq!(configuration.component_lifetime_limit_bytes, Some(1 << 20));
    assert!(runtime.state.setup_runtime.contains_key("vmm_fast_component_lifetime_to_device"));
    let closed = offload.close(Duration::from_secs(10)).expect("closes");
    assert_eq!((closed.released_bytes, closed.quarantined_bytes), (seen.mapped_bytes, 0), "{closed:?}");
    ledger.seen().assert_balanced();
    let after = report(&offload).runtime.vmm.expect("still told").buffers;
    assert_eq!((after.fast_component_lifetime_capacity_bytes, after.fast_component_lifetime_resident_bytes), (Some(0), Some(0)));
    assert_eq!(offload.lifetime_view(&root_name(0)).expect_err("closed").code(), "closed");
}

#[test]
fn the_root_is_uploaded_once_and_read_without_a_pin_under_any_ceiling() {
    let model = model();
    let unit = 3 * PAGE;
    for residency in [ResidencyMode::Classic, ResidencyMode::Parts, ResidencyMode::Demand, ResidencyMode::Auto] {
        for extra in [0, 1, PAGE - 1, unit, 2 * unit + 5, 9 * unit] {
            let ceiling = model.capacity_bytes(PAGE) + 2 * unit + extra;
            let ledger = ledger(ceiling);
            holds(&model, model.component(), config(&ledger, ceiling, residency), &ledger, false);
        }
    }
}

#[test]
fn every_source_of_files_serves_the_root_and_counts_it() {
    let model = model();
    let folder = scratch("lifetime-sources");
    let ceiling = model.capacity_bytes(PAGE) + 7 * PAGE;
    for source in [SourceChoice::Mapped, SourceChoice::Cpu, SourceChoice::Ring, SourceChoice::Retained] {
        let ledger = ledger(ceiling);
        let mut config = OffloadConfig { source, ..config(&ledger, ceiling, ResidencyMode::Classic) };
        config.host_budget = Arc::new(HostBudget::default());
        if matches!(source, SourceChoice::Ring | SourceChoice::Retained) {
            (config.host.staging_bytes, config.host.staging_slot_bytes) = (8 * PAGE, 2 * PAGE);
        }
        if source == SourceChoice::Retained {
            (config.host.retained_slot_bytes, config.host.retained_slots) = (64 << 10, 2);
        }
        holds(&model, model.written_component(folder.path()), config, &ledger, true);
    }
}

fn refusal(component: Component, config: OffloadConfig) -> Refusal {
    match enable_offload(component, config).map(|_| ()) {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn limits_admit_what_equals_them_and_refuse_one_byte_less_before_anything_is_taken() {
    let model = model();
    let (payload, capacity) = (model.payload_bytes(), model.capacity_bytes(PAGE));
    assert_eq!((payload, capacity), (6001, 2 * PAGE));
    let attach = |limit: u64, ceiling: u64| {
        let ledger = ledger(ceiling);
        let config = OffloadConfig { lifetime_limit_bytes: limit, ..config(&ledger, ceiling, ResidencyMode::Classic) };
        (ledger, config)
    };
    let least = capacity + 2 * 3 * PAGE;
    let (ledger, config) = attach(payload, least);
    let offload = enable_offload(model.component(), config).expect("both at their limits");
    assert_eq!(model.pass(&offload, &[3, 1]).expect("a pass"), model.reference(&[3, 1]));
    close(&ledger, &offload);
    for (limit, ceiling, code, got, most) in [
        (payload - 1, least, "component_lifetime_above_limit", payload, payload - 1),
        (payload, capacity - 1, "component_lifetime_above_ceiling", capacity, capacity - 1),
        (payload, least - 1, "weight_ceiling_below_slots", least - 1 - capacity, least - capacity),
    ] {
        let (ledger, config) = attach(limit, ceiling);
        let refusal = refusal(model.component(), config);
        assert_eq!((refusal.code, refusal.got, refusal.limit, refusal.unit), (code, got, most, "bytes"));
        assert!(ledger.seen().calls.is_empty(), "{:?}", ledger.seen().calls);
    }
}

#[test]
fn one_identity_in_two_scopes_is_refused_and_in_the_root_alone_it_lies_there_once() {
    let model = model();
    let of = |tensors: Vec<(String, HostTensor)>| Component::from_tensors("aliased", tensors, |_| None).expect("a component");
    let mut tensors = model.host_tensors();
    let (root, of_unit) = (tensors[0].1.clone(), tensors[4].1.clone());
    for (name, alias, bytes) in [("blocks.2.extra", &root, 5000), ("extra", &of_unit, PAGE), ("norm.extra", &root, 5000)] {
        let ledger = ledger(1 << 20);
        let aliased = of([tensors.clone(), vec![(name.into(), alias.clone())]].concat());
        let refusal = refusal(aliased, config(&ledger, 1 << 20, ResidencyMode::Auto));
        assert_eq!((refusal.code, refusal.got, refusal.limit), ("component_lifetime_alias", bytes, 0), "{name}: {refusal}");
        assert!(ledger.seen().calls.is_empty());
    }
    tensors.push(("again".into(), root));
    let ledger = ledger(1 << 20);
    let offload = enable_offload(of(tensors), config(&ledger, 1 << 20, ResidencyMode::Auto)).expect("one scope");
    assert_eq!(offload.lifetime_view("again").expect("there"), offload.lifetime_view(&root_name(0)).expect("there"));
    assert_eq!(ledger.seen().copied_bytes, model.payload_bytes(), "its bytes went there once");
    let decisions = report(&offload).runtime.state.planner_decisions;
    assert_eq!(decisions.vmm_component_lifetime_bytes, Some(model.payload_bytes()));
    close(&ledger, &offload);
}

#[test]
fn what_has_no_view_is_refused() {
    for (dtype, shape, code) in
        [(Dtype::F4, vec![8], "component_lifetime_dtype"), (Dtype::F8E4m3, vec![1; 9], "component_lifetime_rank")]
    {
        let ledger = ledger(1 << 20);
        let weight = HostTensor::unbacked(Dtype::U8, &[PAGE]).expect("a size");
        let tensors =
            vec![("scale".into(), HostTensor::unbacked(dtype, &shape).expect("a size")), ("blocks.0.weight".into(), weight)];
        let component = Component::from_tensors("odd", tensors, |_| None).expect("a component");
        assert_eq!(refusal(component, config(&ledger, 1 << 20, ResidencyMode::Auto)).code, code);
        assert!(ledger.seen().calls.is_empty());
    }
}

#[test]
fn off_it_stays_on_the_host_and_nothing_is_said_and_an_empty_root_is_a_measured_zero() {
    let model = model();
    let ceiling = 7 * PAGE;
    let off = ledger(ceiling);
    let config_off = OffloadConfig { lifetime_limit_bytes: 0, ..config(&off, ceiling, ResidencyMode::Classic) };
    let offload = enable_offload(model.component(), config_off).expect("attached");
    assert_eq!(offload.host_tensor(&root_name(1)).expect("on the host").payload_bytes(), 700);
    assert_eq!(offload.lifetime_view(&root_name(1)).expect_err("not there").code(), "unknown_name");
    let told = report(&offload);
    let text = serde_json::to_string(&told).expect("JSON");
    assert!(!text.contains("lifetime"), "{text}");
    assert_eq!(told.runtime.state.planner_decisions.vmm_host_bytes, model.payload_bytes());
    close(&off, &offload);

    let none = ledger(ceiling);
    let offload = enable_offload(model.mosaic.component(), config(&none, ceiling, ResidencyMode::Classic)).expect("attached");
    let buffers = report(&offload).runtime.vmm.expect("attached").buffers;
    assert_eq!(
        (buffers.fast_component_lifetime_capacity_bytes, buffers.fast_component_lifetime_resident_bytes),
        (Some(0), Some(0))
    );
    close(&none, &offload);
}

#[test]
fn the_analyzer_finds_the_total_and_the_ceiling_sound() {
    let model = model();
    let ceiling = model.capacity_bytes(PAGE) + 6 * PAGE;
    let ledger = ledger(ceiling);
    let offload = enable_offload(model.component(), config(&ledger, ceiling, ResidencyMode::Classic)).expect("attached");
    model.pass(&offload, &[0, 1, 2, 3]).expect("a pass");
    let at = scratch("lifetime-check");
    let told = report(&offload);
    std::fs::write(at.path().join("final.json"), serde_json::to_vec(&told).expect("JSON")).expect("written");
    let checked = ran(command("ddo-analyze").arg("check").arg(at.path())).ended(0);
    assert!(!checked.out.contains("does not hold"), "{}", checked.out);
    let mut broken = told;
    let vmm = broken.runtime.vmm.as_mut().expect("attached");
    vmm.buffers.fast_component_lifetime_resident_bytes = Some(PAGE);
    std::fs::write(at.path().join("final.json"), serde_json::to_vec(&broken).expect("JSON")).expect("written");
    let checked = ran(command("ddo-analyze").arg("check").arg(at.path())).ended(5);
    assert!(checked.out.contains("weights_total") || checked.err.contains("weights_total"), "{} {}", checked.out, checked.err);
    close(&ledger, &offload);
}
