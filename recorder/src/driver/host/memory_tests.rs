//! Tests of the host driver's memory.

use super::*;

const PAGE: u64 = 64 << 10;

fn memory(limit: u64) -> HostMemory {
    HostMemory::new(PAGE, 1 << 30, limit).expect("memory file")
}

fn kernel_mappings(from: u64, to: u64) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let start = |line: &str| u64::from_str_radix(line.split('-').next().expect("range"), 16).expect("hex");
    maps.lines().filter(|line| line.contains("ddo-device") && (from..to).contains(&start(line))).count()
}

fn map_page(memory: &HostMemory, base: DeviceAddress, page: u64) -> PhysicalId {
    let id = memory.create(PAGE).expect("create");
    memory.map(base.offset(page * PAGE), PAGE, id).expect("map");
    memory.set_access(base.offset(page * PAGE), PAGE).expect("access");
    id
}

#[test]
fn neighbours_merge_in_any_order_and_holes_split() {
    let memory = memory(10_000);
    let base = memory.reserve(64 * PAGE).expect("reserve");
    let ids: Vec<_> = (0..64).rev().map(|page| map_page(&memory, base, page)).collect();
    assert_eq!(memory.mapping_runs(), 1);
    assert_eq!(kernel_mappings(base.0, base.0 + 64 * PAGE), 1, "the kernel sees one mapping");
    memory.unmap(base.offset(10 * PAGE), PAGE).expect("unmap");
    memory.release(ids[53]).expect("release");
    assert_eq!(memory.mapping_runs(), 2);
    assert_eq!(kernel_mappings(base.0, base.0 + 64 * PAGE), 2);
    memory.unmap(base, 10 * PAGE).expect("unmap a run");
    assert_eq!(memory.mapping_runs(), 1);
}

#[test]
fn released_memory_is_given_back_and_reads_zero_again() {
    let memory = memory(10_000);
    let base = memory.reserve(PAGE).expect("reserve");
    let id = map_page(&memory, base, 0);
    memory.write(base, &[7; 100]);
    let context = HostContext::new(Vec::new());
    assert_eq!(slice(base, 100, &context), &[7; 100]);
    memory.unmap(base, PAGE).expect("unmap");
    memory.release(id).expect("release");
    assert_eq!(memory.info().free_bytes, memory.info().total_bytes);
    assert_eq!(rustix::fs::fstat(memory.file.as_ref().expect("backed")).expect("fstat").st_blocks, 0, "the hole is punched");
    let again = map_page(&memory, base, 0);
    assert_eq!(slice(base, 100, &context), &[0; 100]);
    memory.unmap(base, PAGE).expect("unmap");
    memory.release(again).expect("release");
    memory.free(base, PAGE).expect("free");
}

#[test]
fn memory_keeps_its_contents_when_it_moves() {
    let memory = memory(10_000);
    let base = memory.reserve(4 * PAGE).expect("reserve");
    let moved = map_page(&memory, base, 0);
    memory.write(base, &[9; 8]);
    memory.unmap(base, PAGE).expect("unmap");
    map_page(&memory, base, 0);
    memory.map(base.offset(2 * PAGE), PAGE, moved).expect("map elsewhere");
    memory.set_access(base.offset(2 * PAGE), PAGE).expect("access");
    let context = HostContext::new(Vec::new());
    assert_eq!(slice(base.offset(2 * PAGE), 8, &context), &[9; 8]);
    assert_eq!(slice(base, 8, &context), &[0; 8]);
}

#[test]
fn memory_at_two_places_is_the_same_memory_and_counts_once() {
    let memory = memory(10_000);
    let base = memory.reserve(4 * PAGE).expect("reserve");
    let id = memory.create(2 * PAGE).expect("create");
    for start in [base, base.offset(2 * PAGE)] {
        memory.map(start, 2 * PAGE, id).expect("map");
        memory.set_access(start, 2 * PAGE).expect("access");
    }
    assert_eq!(memory.info().total_bytes - memory.info().free_bytes, 2 * PAGE);
    memory.write(base.offset(2 * PAGE - 4), &[1, 2, 3, 4, 5, 6, 7, 8]);
    let context = HostContext::new(Vec::new());
    assert_eq!(slice(base, 4, &context), [5, 6, 7, 8], "what runs over the first end is at the begin");
    memory.release(id).expect("release while mapped waits for the unmaps");
    memory.unmap(base.offset(2 * PAGE), 2 * PAGE).expect("unmap");
    assert_eq!(slice(base, 4, &context), [5, 6, 7, 8]);
    memory.unmap(base, 2 * PAGE).expect("unmap");
    assert_eq!(memory.info().free_bytes, memory.info().total_bytes);
    memory.free(base, 4 * PAGE).expect("free");
}

#[test]
fn the_mapping_limit_is_refused_by_name() {
    let memory = memory(9);
    let base = memory.reserve(64 * PAGE).expect("reserve");
    for page in [0, 2, 4] {
        map_page(&memory, base, page);
    }
    let id = memory.create(PAGE).expect("create");
    map_page(&memory, base, 6);
    let error = memory.map(base.offset(8 * PAGE), PAGE, id).expect_err("limit");
    assert_eq!(error.kind, DriverErrorKind::MappingLimit);
    assert!(error.detail.contains("vm.max_map_count"), "{error}");
}

#[test]
fn misuse_is_an_error_with_the_call_and_the_numbers() {
    let memory = memory(10_000);
    let base = memory.reserve(4 * PAGE).expect("reserve");
    assert_eq!(memory.create(PAGE + 1).expect_err("partial page").call, "memory_create");
    assert_eq!(memory.create(2 << 30).expect_err("too much").kind, DriverErrorKind::OutOfMemory);
    let id = map_page(&memory, base, 0);
    assert!(memory.map(base, PAGE, id).is_err(), "mapped twice");
    assert!(memory.map(base.offset(4 * PAGE), PAGE, id).is_err(), "outside");
    assert!(memory.unmap(base.offset(PAGE), PAGE).is_err(), "not mapped");
    assert!(memory.free(base, 4 * PAGE).is_err(), "still mapped");
    assert!(memory.check_accessible("copy_to_device", base, 2 * PAGE).is_err(), "second page is not mapped");
    memory.release(id).expect("release while mapped waits for the unmap");
    assert!(memory.release(id).is_err(), "released twice");
    memory.unmap(base, PAGE).expect("unmap");
    assert_eq!(memory.info().free_bytes, memory.info().total_bytes);
}
