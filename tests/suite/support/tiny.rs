//! Units of one page, for thousands of simulated runs, and a driver that leaves waits out.

use ddo_recorder::driver::{
    DeviceAddress, DeviceFacts, Driver, DriverResult, Elapsed, EventId, HostAccess, HostBytes, Launch, MemoryInfo, PhysicalId,
    Priority, RegistrationId, StreamId,
};
use ddo_recorder::{Component, HostTensor, Job, Offload, UnitId};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Payload of one unit: a page, so that slots hold nothing else.
pub(crate) const UNIT_BYTES: u64 = 4096;

fn weights(unit: u64) -> Vec<i64> {
    (0..UNIT_BYTES as i64 / 8).map(|index| (unit as i64 + 1) * 1_000_003 + index * 7).collect()
}

/// A component of `count` units.
pub(crate) fn component(count: u64) -> Component {
    let tensors = (0..count).map(|unit| {
        let bytes: Vec<u8> = weights(unit).iter().flat_map(|word| word.to_le_bytes()).collect();
        let tensor = HostTensor::from_elements(&[UNIT_BYTES], &bytes).expect("shape fits");
        (format!("blocks.{unit}.weight"), tensor)
    });
    Component::from_tensors("tiny", tensors.collect(), |_| None).expect("a component")
}

fn fold(state: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(state, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// What a pass over the units gives, straight from the weights.
pub(crate) fn reference(order: &[u64]) -> u64 {
    order.iter().fold(1, |state, unit| fold(state, weights(*unit).into_iter().flat_map(i64::to_le_bytes)))
}

/// The id of a unit.
pub(crate) fn id(offload: &Offload, unit: u64) -> UnitId {
    offload.unit_named(&format!("blocks.{unit}")).expect("the unit exists")
}

/// Submits one unit's work of a declared duration.
pub(crate) fn submit(offload: &Offload, unit: u64, state: &Arc<Mutex<u64>>, lasting: Duration) -> ddo_recorder::Result<()> {
    let guard = offload.unit(id(offload, unit))?;
    let view = guard.view("weight")?;
    let state = Arc::clone(state);
    let job = Job::host(move |context| {
        let mut state = state.lock().expect("jobs do not panic");
        *state = fold(*state, context.slice::<u8>(&view)?.iter().copied());
        Ok(())
    });
    offload.launch(offload.compute_stream(), guard, job.lasting(lasting))
}

/// Submits work on any stream that fails unless it reads exactly the unit's weights.
pub(crate) fn check_on(offload: &Offload, stream: StreamId, unit: u64, lasting: Duration) -> ddo_recorder::Result<()> {
    let guard = offload.unit(id(offload, unit))?;
    let view = guard.view("weight")?;
    let job = Job::host(move |context| {
        let right = weights(unit).into_iter().flat_map(i64::to_le_bytes).eq(context.slice::<u8>(&view)?.iter().copied());
        right.then_some(()).ok_or_else(|| ddo_recorder::JobError::new("other weights than the unit's"))
    });
    offload.launch(stream, guard, job.lasting(lasting))
}

/// Which wait is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    /// Compute does not wait for uploads.
    ComputeForUpload,
    /// Uploads do not wait for the last consumer of a slot.
    UploadForConsumer,
    /// Of several waits of an upload in a row, only the first is made.
    UploadForFurtherConsumers,
    /// An upload waits before its first copy only.
    UploadBetweenCopies,
}

/// Leaves one kind of stream wait out; the rest goes through.
#[derive(Debug)]
pub(crate) struct SkipWaits {
    inner: Arc<dyn Driver>,
    skip: Skip,
    high: Mutex<Vec<StreamId>>,
    last: Mutex<Last>,
}

/// The last thing queued on the upload stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Record,
    Wait,
    Copy,
}

impl SkipWaits {
    pub(crate) fn new(inner: Arc<dyn Driver>, skip: Skip) -> Arc<SkipWaits> {
        Arc::new(SkipWaits { inner, skip, high: Mutex::default(), last: Mutex::default() })
    }
}

impl SkipWaits {
    fn uploads(&self, stream: StreamId) -> bool {
        self.high.lock().expect("no test panics here").contains(&stream)
    }

    fn last(&self) -> Last {
        *self.last.lock().expect("no test panics here")
    }

    fn note(&self, last: Last) {
        *self.last.lock().expect("no test panics here") = last;
    }
}

macro_rules! pass_on {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $ty),*) -> DriverResult<$result> {
            self.inner.$name($($argument),*)
        })*
    };
}

impl Driver for SkipWaits {
    fn facts(&self) -> DeviceFacts {
        self.inner.facts()
    }

    fn stream_create(&self, priority: Priority) -> DriverResult<StreamId> {
        let stream = self.inner.stream_create(priority)?;
        if priority == Priority::High {
            self.high.lock().expect("no test panics here").push(stream);
        }
        Ok(stream)
    }

    fn stream_wait_event(&self, stream: StreamId, event: EventId) -> DriverResult<()> {
        let upload = self.uploads(stream);
        let last = self.last();
        let skipped = match self.skip {
            Skip::ComputeForUpload => !upload,
            Skip::UploadForConsumer => upload,
            Skip::UploadForFurtherConsumers => upload && last == Last::Wait,
            Skip::UploadBetweenCopies => upload && last == Last::Copy,
        };
        if upload && last != Last::Copy {
            self.note(Last::Wait);
        }
        if skipped {
            return Ok(());
        }
        self.inner.stream_wait_event(stream, event)
    }

    fn copy_to_device(&self, to: DeviceAddress, from: HostBytes, stream: StreamId) -> DriverResult<()> {
        self.note(Last::Copy);
        self.inner.copy_to_device(to, from, stream)
    }

    fn event_record(&self, event: EventId, stream: StreamId) -> DriverResult<()> {
        if self.uploads(stream) {
            self.note(Last::Record);
        }
        self.inner.event_record(event, stream)
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
        event_query(event: EventId) -> bool;
        event_elapsed(from: EventId, to: EventId) -> Elapsed;
        event_synchronize(event: EventId) -> ();
        event_wait(event: EventId, at_most: Duration) -> bool;
        event_destroy(event: EventId) -> ();
        read_device(from: DeviceAddress, bytes: u64) -> Vec<u8>;
        launch(stream: StreamId, launch: Launch) -> ();
    }
}

/// Writes a checkpoint with the same units and says where.
pub(crate) fn checkpoint(folder: &std::path::Path, count: u64) -> std::path::PathBuf {
    let bytes: Vec<Vec<u8>> = (0..count).map(|unit| weights(unit).into_iter().flat_map(i64::to_le_bytes).collect()).collect();
    let tensors = bytes.iter().enumerate().map(|(unit, bytes)| {
        let view = safetensors::tensor::TensorView::new(safetensors::Dtype::U8, vec![bytes.len()], bytes).expect("shape fits");
        (format!("blocks.{unit}.weight"), view)
    });
    let file = safetensors::serialize(tensors, None).expect("a checkpoint");
    let path = folder.join("model.safetensors");
    std::fs::write(&path, file).expect("written");
    path
}

/// The component of such a checkpoint.
pub(crate) fn component_of(path: &std::path::Path) -> Component {
    let checkpoint = ddo_recorder::Checkpoint::open(path).expect("a checkpoint");
    Component::from_checkpoint("tiny", &checkpoint, |_| None).expect("a component")
}

/// A component of `count` units whose bytes are only counted.
pub(crate) fn unbacked(count: u64, unit_bytes: u64) -> Component {
    let tensor = |unit: u64| {
        let tensor = HostTensor::unbacked(ddo_recorder::plan::checkpoint::Dtype::U8, &[unit_bytes]).expect("a size");
        (format!("blocks.{unit}.weight"), tensor)
    };
    Component::from_tensors("unbacked", (0..count).map(tensor).collect(), |_| None).expect("a component")
}
