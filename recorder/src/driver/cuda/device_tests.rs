//! What only a device can prove. Each test says in one line that it is skipped where there is none; `DDO_CUDA=1` makes a
//! missing device a failure.

use super::compute::{DeviceBuffer, Gemm, GemmShape, Kernels, fold_bytes};
use super::*;
use crate::driver::{DriverErrorKind, Grant, JobError, JobFailures, SourceFile, View};
use crate::plan::checkpoint::Dtype;

fn device() -> Option<Arc<CudaDriver>> {
    match CudaDriver::open(CudaOptions::default()) {
        Ok(driver) => Some(driver),
        Err(error) => {
            assert!(std::env::var_os("DDO_CUDA").is_none(), "DDO_CUDA is set: {error}");
            println!("skipped: {error}");
            None
        }
    }
}

fn host_bytes(bytes: Vec<u8>) -> HostBytes {
    let length = bytes.len() as u64;
    HostBytes::new(Arc::new(bytes), 0, length).expect("the whole")
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..bytes).map(|_| rng.u8(..)).collect()
}

/// Mapped device memory that gives itself back.
struct Place<'a> {
    driver: &'a CudaDriver,
    address: DeviceAddress,
    bytes: u64,
    memory: PhysicalId,
}

impl<'a> Place<'a> {
    fn new(driver: &'a CudaDriver, bytes: u64) -> Place<'a> {
        let bytes = bytes.next_multiple_of(driver.facts().page_bytes);
        let address = driver.address_reserve(bytes).expect("addresses");
        let memory = driver.memory_create(bytes).expect("memory");
        driver.memory_map(address, bytes, memory).expect("mapped");
        driver.memory_set_access(address, bytes).expect("accessible");
        Place { driver, address, bytes, memory }
    }

    fn view(&self, dtype: Dtype, shape: &[u64], bytes: u64) -> View {
        View::new(self.address, dtype, shape, bytes).expect("few dimensions")
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let driver = self.driver;
        driver.memory_unmap(self.address, self.bytes).expect("unmapped");
        driver.memory_release(self.memory).expect("released");
        driver.address_free(self.address, self.bytes).expect("freed");
    }
}

#[test]
fn records_name_what_ran_and_who_asked_for_it() {
    use crate::driver::activity::{ActivityFilter, ActivityKind};
    let Some(driver) = device() else { return };
    let records = driver.activity().expect("a source");
    if let Err(error) = records.start(ActivityFilter::All, 1 << 16) {
        assert!(std::env::var_os("DDO_CUPTI").is_none(), "DDO_CUPTI is set: {error}");
        println!("skipped: {error}");
        return;
    }
    assert!(records.start(ActivityFilter::All, 1).is_err(), "one capture at a time");
    let place = Place::new(&driver, 1 << 20);
    let stream = driver.stream_create(Priority::Normal).expect("a stream");
    let before = records.now().expect("a reading");
    // Other tests of the process copy, too: these are told apart by their sizes.
    let sizes = [1_048_371, 1_048_373, 1_031];
    for (range, bytes) in [(7, sizes[0]), (9, sizes[1])] {
        records.enter(range).expect("entered");
        driver.copy_to_device(place.address, host_bytes(noise(bytes as usize, range)), stream).expect("queued");
    }
    records.enter(0).expect("left");
    driver.copy_to_device(place.address, host_bytes(noise(sizes[2] as usize, 3)), stream).expect("queued");
    let found = records.stop().expect("stopped");
    driver.stream_destroy(stream).expect("ended");
    assert_eq!(found.dropped, 0);
    let own = |work: &&crate::driver::activity::Activity| work.bytes.is_some_and(|bytes| sizes.contains(&bytes));
    let copies: Vec<_> = found.works.iter().filter(|work| work.kind == ActivityKind::Copy).filter(own).collect();
    assert_eq!(copies.iter().map(|copy| copy.bytes).collect::<Vec<_>>(), sizes.map(Some));
    assert!(copies.iter().all(|copy| copy.start_ns >= before && copy.end_ns <= found.now_ns), "{before} {found:#?}");
    let range_of = |copy: &crate::driver::activity::Activity| {
        found.calls.iter().find(|call| call.correlation == copy.correlation).map(|call| call.range)
    };
    assert_eq!(copies.iter().map(|copy| range_of(copy)).collect::<Vec<_>>(), [Some(7), Some(9), None]);
    assert!(found.calls.iter().any(|call| call.name.contains("cuMemcpyHtoDAsync")), "{:#?}", found.calls);
    records.start(ActivityFilter::Copies, 16).expect("starts again");
    assert_eq!(records.stop().expect("stopped").works.iter().filter(own).count(), 0, "nothing was copied since");
    assert!(records.stop().is_err(), "no capture is running");
}

fn launch(
    driver: &CudaDriver,
    stream: StreamId,
    place: &Place<'_>,
    work: impl FnOnce(&CudaContext) -> Result<(), JobError> + Send + 'static,
) -> Option<String> {
    let failures = Arc::new(JobFailures::default());
    let grants = vec![Grant::new(place.address, place.bytes)];
    let launch = Launch { job: Job::cuda(work), grants, unit: Arc::from("unit"), failures: Arc::clone(&failures) };
    driver.launch(stream, launch).expect("queued");
    driver.stream_synchronize(stream).expect("run");
    failures.take_first().map(|(_, reason)| reason)
}

fn number(buffer: &DeviceBuffer) -> u64 {
    let mut bytes = [0; 8];
    buffer.download(&mut bytes).expect("read");
    u64::from_le_bytes(bytes)
}

#[test]
fn the_device_says_what_it_is_and_refuses_an_index_beyond_the_count() {
    let Some(driver) = device() else { return };
    let facts = driver.facts();
    println!("{facts:?} {:?}", driver.memory_info());
    assert!(facts.page_bytes.is_power_of_two() && facts.driver == "cuda" && !facts.name.is_empty());
    let error = CudaDriver::open(CudaOptions { device: 4096 }).expect_err("no machine has that many");
    assert!(error.to_string().contains("device 4096 was asked for; the number of devices is "), "{error}");
    assert_eq!(error.kind, DriverErrorKind::InvalidValue);
}

#[test]
fn copies_from_registered_files_and_plain_memory_arrive_whole() {
    let Some(driver) = device() else { return };
    let (kernels, sums) = (Kernels::compile(&driver).expect("kernels"), DeviceBuffer::new(&driver, 24).expect("sums"));
    sums.upload(&[0; 24]).expect("zeros");
    let kernels = Arc::new(kernels);
    let bytes = noise((5 << 20) + 13, 1);
    let path = std::env::temp_dir().join(format!("ddo-cuda-{}", std::process::id()));
    std::fs::write(&path, &bytes).expect("written");
    let mapped: Arc<dyn AsRef<[u8]> + Send + Sync> =
        Arc::new(SourceFile::open(&path).and_then(|file| file.map()).expect("mapped"));
    let half = |at: u64| HostBytes::new(Arc::clone(&mapped), at, (2 << 20).min(bytes.len() as u64 - at)).expect("inside");
    let stream = driver.stream_create(Priority::High).expect("a stream");
    // Registered in two neighbouring parts, with a third left as it is: one copy over all three is cut inside.
    let registrations: Vec<_> =
        [half(0), half(2 << 20)].iter().filter_map(|part| driver.host_register(part, HostAccess::ReadOnly).ok()).collect();
    println!("{} of 2 parts of a read-only mapping were registered", registrations.len());
    assert_eq!(registrations.len() == 2, driver.facts().read_only_registration);
    let place = Place::new(&driver, bytes.len() as u64);
    let view = place.view(Dtype::U8, &[bytes.len() as u64], bytes.len() as u64);
    let event = driver.event_create(false).expect("an event");
    for (index, source) in [HostBytes::new(Arc::clone(&mapped), 0, bytes.len() as u64).expect("whole"), host_bytes(bytes.clone())]
        .into_iter()
        .enumerate()
    {
        driver.copy_to_device(place.address, source, stream).expect("queued");
        driver.event_record(event, stream).expect("recorded");
        assert!(driver.event_wait(event, Duration::from_secs(10)).expect("asked"), "a small copy ends");
        let (kernels, sums) = (Arc::clone(&kernels), sums.clone());
        assert_eq!(launch(&driver, stream, &place, move |context| kernels.fold(context, &view, 9, &sums, index as u64)), None);
    }
    let mut got = [0; 16];
    sums.download(&mut got).expect("read");
    let right = fold_bytes(&bytes, 0, 9).to_le_bytes();
    assert!(got[..8] == right && got[8..] == right, "both copies are whole");
    assert_eq!(Arc::strong_count(&mapped), 1 + registrations.len(), "no lease outlives its copy");
    registrations.into_iter().for_each(|id| driver.host_unregister(id).expect("ended"));
    driver.event_destroy(event).expect("destroyed");
    driver.stream_destroy(stream).expect("destroyed");
    std::fs::remove_file(&path).expect("removed");
    drop(place);
    assert_eq!(driver.stored_errors(), []);
}

#[test]
fn misuse_is_an_error_with_its_call_and_leaves_nothing_sticky() {
    let Some(driver) = device() else { return };
    let page = driver.facts().page_bytes;
    let stream = driver.stream_create(Priority::Normal).expect("a stream");
    let (timed, plain) = (driver.event_create(true).expect("an event"), driver.event_create(false).expect("an event"));
    let small = host_bytes(vec![1; 4096]);
    let registered = driver.host_register(&small, HostAccess::ReadWrite).expect("registered");
    let failures = [
        driver.copy_to_device(DeviceAddress(page), small.clone(), stream).expect_err("not mapped"),
        driver.host_register(&small, HostAccess::ReadWrite).map(|_| ()).expect_err("registered already"),
        driver.host_register(&host_bytes(Vec::new()), HostAccess::ReadOnly).map(|_| ()).expect_err("nothing"),
        driver.memory_unmap(DeviceAddress(page), page).expect_err("not mapped"),
        driver.memory_map(DeviceAddress(page), page, PhysicalId(9999)).expect_err("no memory"),
        driver.memory_create(page + 1).map(|_| ()).expect_err("no whole pages"),
        driver.memory_create(1 << 50).map(|_| ()).expect_err("too much"),
        driver.event_elapsed(plain, timed).map(|_| ()).expect_err("no timing"),
        driver.event_elapsed(timed, timed).map(|_| ()).expect_err("never recorded"),
        driver.event_query(EventId(9999)).map(|_| ()).expect_err("no event"),
        driver.stream_synchronize(StreamId(9999)).expect_err("no stream"),
        driver.host_unregister(RegistrationId(9999)).expect_err("no registration"),
    ];
    for failure in &failures {
        println!("{failure}");
    }
    let kinds: Vec<DriverErrorKind> = failures.iter().map(|failure| failure.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == DriverErrorKind::OutOfMemory).count(), 1, "{kinds:?}");
    // Everything still works.
    driver.host_unregister(registered).expect("ended");
    driver.event_record(timed, stream).expect("recorded");
    driver.event_synchronize(timed).expect("passed");
    assert!(driver.event_query(plain).expect("asked"), "an event that was never recorded counts as passed");
    assert_eq!(driver.event_elapsed(timed, timed).expect("both passed").seconds, 0.0);
    let place = Place::new(&driver, 1);
    driver.copy_to_device(place.address, small, stream).expect("queued");
    let failures = Arc::new(JobFailures::default());
    let host = Launch { job: Job::host(|_| Ok(())), grants: Vec::new(), unit: Arc::from("unit"), failures };
    let error = driver.launch(stream, host).expect_err("host work");
    assert_eq!((error.kind, error.detail.as_str()), (DriverErrorKind::InvalidValue, "host work needs the host driver"));
    driver.context_synchronize().expect("idle");
}

#[test]
fn slow_work_is_waited_for_by_events_and_its_time_is_signed() {
    // Not under a tool that makes launches block: then nothing is ever in flight.
    let Some(driver) = device() else { return };
    let kernels = Arc::new(Kernels::compile(&driver).expect("kernels"));
    let (one, two) =
        (driver.stream_create(Priority::Normal).expect("a stream"), driver.stream_create(Priority::High).expect("a stream"));
    let (begin, end, behind) = (
        driver.event_create(true).expect("event"),
        driver.event_create(true).expect("event"),
        driver.event_create(false).expect("event"),
    );
    driver.event_record(begin, one).expect("recorded");
    let failures = Arc::new(JobFailures::default());
    let spin = Arc::clone(&kernels);
    let job = Job::cuda(move |context| spin.spin(context, Duration::from_millis(100)));
    driver
        .launch(one, Launch { job, grants: Vec::new(), unit: Arc::from("unit"), failures: Arc::clone(&failures) })
        .expect("queued");
    driver.event_record(end, one).expect("recorded");
    driver.stream_wait_event(two, end).expect("queued");
    driver.event_record(behind, two).expect("recorded");
    assert!(!driver.event_query(behind).expect("asked"), "it waits on the other stream");
    assert_eq!(driver.event_elapsed(begin, end).expect_err("not passed").kind, DriverErrorKind::NotReady);
    assert!(!driver.event_wait(behind, Duration::from_millis(1)).expect("asked"));
    assert!(driver.event_wait(behind, Duration::from_secs(10)).expect("asked"));
    let (there, back) = (driver.event_elapsed(begin, end).expect("passed"), driver.event_elapsed(end, begin).expect("passed"));
    println!("{there:?} {back:?}");
    assert!(there.seconds > 0.099 && there.seconds < 5.0 && back.seconds == -there.seconds);
    assert_eq!(failures.take_first(), None);
}

#[test]
fn a_job_that_fails_panics_or_reaches_outside_its_grants_is_a_failure_of_its_unit() {
    let Some(driver) = device() else { return };
    let stream = driver.stream_create(Priority::Normal).expect("a stream");
    let place = Place::new(&driver, 1);
    let outside = View::new(DeviceAddress(place.address.0 + place.bytes), Dtype::U8, &[1], 1).expect("a view");
    let reach = move |context: &CudaContext| context.pointer(&outside).map(|_| ());
    assert!(launch(&driver, stream, &place, reach).expect("a failure").contains("are not pinned for this work"));
    assert_eq!(launch(&driver, stream, &place, |_| Err(JobError::new("said so"))), Some("said so".into()));
    assert_eq!(launch(&driver, stream, &place, |_| panic!("on purpose")), Some("it panicked".into()));
    assert_eq!(launch(&driver, stream, &place, |_| Ok(())), None);
}

#[test]
fn a_linear_layer_is_right_and_the_same_wherever_its_weights_lie() {
    let Some(driver) = device() else { return };
    let (gemm, kernels) =
        (Arc::new(Gemm::open(&driver).expect("the library")), Arc::new(Kernels::compile(&driver).expect("kernels")));
    let shape = GemmShape { m: 24, n: 96, k: 160 };
    let stream = driver.stream_create(Priority::Normal).expect("a stream");
    let mut rng = fastrand::Rng::with_seed(3);
    let mut random = |count: u64| -> Vec<half::bf16> { (0..count).map(|_| half::bf16::from_f32(rng.f32() - 0.5)).collect() };
    let (x, w) = (random(shape.m * shape.k), random(shape.n * shape.k));
    let buffer = |bytes: u64| DeviceBuffer::new(&driver, bytes).expect("memory");
    let (from, to, sums) = (buffer(shape.m * shape.k * 2), buffer(shape.m * shape.n * 2), buffer(8));
    from.upload(bytemuck::cast_slice(&x)).expect("written");
    let weights: Vec<u8> = bytemuck::cast_slice(&w).to_vec();
    let bytes = weights.len() as u64;
    let mut folds = Vec::new();
    let places: Vec<Place<'_>> = (0..3).map(|_| Place::new(&driver, 4 << 20)).collect();
    for (place, offset) in places.iter().zip([0, 256, 4096 + 512]) {
        let view = View::new(place.address.offset(offset), Dtype::Bf16, &[shape.n, shape.k], bytes).expect("a view");
        driver.copy_to_device(view.pointer, host_bytes(weights.clone()), stream).expect("queued");
        let (gemm, kernels, from, to, zero) = (Arc::clone(&gemm), Arc::clone(&kernels), from.clone(), to.clone(), sums.clone());
        let failed = launch(&driver, stream, place, move |context| {
            zero.zero(context)?;
            gemm.linear_bf16(context, &from, &view, &to, shape, 1.0)?;
            kernels.fold_buffer(context, &to, to.bytes(), 0, &zero, 0)
        });
        assert_eq!(failed, None);
        folds.push(number(&sums));
    }
    assert!(folds.windows(2).all(|pair| pair[0] == pair[1]), "{folds:?}");
    let mut y = vec![half::bf16::ZERO; (shape.m * shape.n) as usize];
    to.download(bytemuck::cast_slice_mut(&mut y)).expect("read");
    for row in 0..shape.m as usize {
        for column in 0..shape.n as usize {
            let (x, w) = (&x[row * 160..(row + 1) * 160], &w[column * 160..(column + 1) * 160]);
            let want: f64 = x.iter().zip(w).map(|(a, b)| a.to_f64() * b.to_f64()).sum();
            let got = y[row * 96 + column].to_f64();
            assert!((got - want).abs() <= 0.01 + want.abs() / 64.0, "row {row}, column {column}: {got}, not {want}");
        }
    }
    let narrow = GemmShape { k: 161, ..shape };
    let (gemm, view) =
        (Arc::clone(&gemm), View::new(places[0].address, Dtype::Bf16, &[shape.n, shape.k], bytes).expect("a view"));
    let refused = launch(&driver, stream, &places[0], move |context| gemm.linear_bf16(context, &from, &view, &to, narrow, 1.0));
    assert_eq!(refused, Some("gemm: the weights are BF16 [96, 160]; BF16 [96, 161] is needed".into()));
}

#[test]
fn a_driver_dropped_with_work_in_flight_leaves_the_bytes_alone() {
    let Some(driver) = device() else { return };
    let kernels = Kernels::compile(&driver).expect("kernels");
    let stream = driver.stream_create(Priority::Normal).expect("a stream");
    let owner = Arc::new(vec![7u8; 1 << 20]);
    let bytes = HostBytes::new(Arc::<Vec<u8>>::clone(&owner), 0, 1 << 20).expect("the whole");
    driver.host_register(&bytes, HostAccess::ReadWrite).expect("registered");
    let address = driver.address_reserve(driver.facts().page_bytes).expect("addresses");
    let memory = driver.memory_create(driver.facts().page_bytes).expect("memory");
    driver.memory_map(address, driver.facts().page_bytes, memory).expect("mapped");
    driver.memory_set_access(address, driver.facts().page_bytes).expect("accessible");
    let job = Job::cuda(move |context| kernels.spin(context, Duration::from_millis(200)));
    driver.launch(stream, Launch { job, grants: Vec::new(), unit: Arc::from("unit"), failures: Arc::default() }).expect("queued");
    driver.copy_to_device(address, bytes, stream).expect("queued behind it");
    drop(driver);
    assert!(Arc::strong_count(&owner) > 1, "the copy has not run yet");
    let again = device().expect("a device");
    again.context_synchronize().expect("the context survives");
}
