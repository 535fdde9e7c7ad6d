//! Would the comparison notice a missing wait? A device run with one kind of wait taken out must be found wrong.
//!
//! Skipped with a plain line where there is no device; `DDO_CUDA=1` makes a missing device a failure.

use super::device_work::{DeviceWork, Pass};
use super::expected::expected_folds;
use super::{RunError, flux_device};
use crate::flux::{Dtype, make_checkpoint};
use ddo_recorder::driver::*;
use ddo_recorder::{Ceiling, LaunchScope, OffloadConfig, ResidencyMode, enable_offload};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Which waits are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Without {
    Nothing,
    WaitsOfUploads,
    WaitsOfCompute,
}

/// Passes everything on, but leaves out waits of one stream.
#[derive(Debug)]
struct Broken {
    inner: Arc<CudaDriver>,
    without: Without,
    uploads: Mutex<Option<StreamId>>,
    left_out: AtomicU64,
}

macro_rules! pass_on {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $ty),*) -> DriverResult<$result> {
            self.inner.$name($($argument),*)
        })*
    };
}

impl Driver for Broken {
    fn facts(&self) -> DeviceFacts {
        self.inner.facts()
    }

    fn stream_create(&self, priority: Priority) -> DriverResult<StreamId> {
        let stream = self.inner.stream_create(priority)?;
        if priority == Priority::High {
            *self.uploads.lock().expect("not poisoned") = Some(stream);
        }
        Ok(stream)
    }

    fn stream_wait_event(&self, stream: StreamId, event: EventId) -> DriverResult<()> {
        let upload = *self.uploads.lock().expect("not poisoned") == Some(stream);
        let leave_out = match self.without {
            Without::Nothing => false,
            Without::WaitsOfUploads => upload,
            Without::WaitsOfCompute => !upload,
        };
        if leave_out {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        self.inner.stream_wait_event(stream, event)
    }

    pass_on! {
        memory_info() -> MemoryInfo;
        address_reserve(bytes: u64) -> DeviceAddress;
        address_free(address: DeviceAddress, bytes: u64) -> ();
        memory_create(bytes: u64) -> PhysicalId;
        memory_map(address: DeviceAddress, bytes: u64, memory: PhysicalId) -> ();
        memory_set_access(address: DeviceAddress, bytes: u64) -> ();
        memory_unmap(address: DeviceAddress, bytes: u64) -> ();
        memory_release(memory: PhysicalId) -> ();
        host_register(bytes: &HostBytes, access: HostAccess) -> RegistrationId;
        host_unregister(registration: RegistrationId) -> ();
        context_synchronize() -> ();
        stream_destroy(stream: StreamId) -> ();
        stream_synchronize(stream: StreamId) -> ();
        event_create(timing: bool) -> EventId;
        event_record(event: EventId, stream: StreamId) -> ();
        event_query(event: EventId) -> bool;
        event_elapsed(from: EventId, to: EventId) -> Elapsed;
        event_synchronize(event: EventId) -> ();
        event_wait(event: EventId, at_most: Duration) -> bool;
        event_destroy(event: EventId) -> ();
        copy_to_device(to: DeviceAddress, from: HostBytes, stream: StreamId) -> ();
        read_device(from: DeviceAddress, bytes: u64) -> Vec<u8>;
        launch(stream: StreamId, launch: Launch) -> ();
    }
}

#[test]
fn a_missing_wait_is_found_within_a_few_steps() {
    let device = match CudaDriver::open(CudaOptions::default()) {
        Ok(device) => device,
        Err(error) => {
            assert!(std::env::var_os("DDO_CUDA").is_none(), "DDO_CUDA is set: {error}");
            return println!("skipped: {error}");
        }
    };
    let path = std::env::temp_dir().join(format!("ddo-broken-{}.safetensors", std::process::id()));
    let made = make_checkpoint(&path, 0.05, Dtype::Bf16, 1).expect("made");
    let want = expected_folds(&path, made.width).expect("folded");
    let modes = [(ResidencyMode::Classic, LaunchScope::Units), (ResidencyMode::Parts, LaunchScope::Parts)];
    for (residency, launches) in modes {
        for without in [Without::Nothing, Without::WaitsOfUploads, Without::WaitsOfCompute] {
            let work = DeviceWork::new(&device, made.width, 0, 1).expect("kernels");
            let driver =
                Arc::new(Broken { inner: Arc::clone(&device), without, uploads: Mutex::default(), left_out: AtomicU64::new(0) });
            let config = OffloadConfig::new(Arc::clone(&driver) as Arc<dyn Driver>);
            let config = OffloadConfig { ceiling: Ceiling::Percent(40.0), residency, launches, ..config };
            let offload = enable_offload(flux_device::component(&path).expect("a component"), config).expect("attached");
            let units = work.units(&offload).expect("all units");
            // Slow kernels for uploads that come too early; none for compute that comes too early.
            let slow = if without == Without::WaitsOfCompute { Duration::ZERO } else { Duration::from_millis(4) };
            let wrong = (0..4u64).filter(|step| {
                work.reset().expect("cleared");
                work.submit(&offload, &units, Pass { index: 0, slow, launches }, || Ok(())).expect("submitted");
                offload.mark_step().expect("marked");
                offload.wait_stream(offload.compute_stream()).expect("run");
                matches!(work.compare(0, *step, &want), Err(RunError::OtherBits { .. }))
            });
            let wrong = wrong.count();
            offload.close(Duration::from_secs(10)).expect("closed");
            let left_out = driver.left_out.load(Ordering::Relaxed);
            println!("{residency:?}, {without:?}: {wrong} of 4 steps are found wrong, {left_out} waits were left out");
            assert_eq!(wrong > 0, without != Without::Nothing);
            assert_eq!(left_out > 0, without != Without::Nothing);
        }
    }
    std::fs::remove_file(&path).expect("removed");
}
