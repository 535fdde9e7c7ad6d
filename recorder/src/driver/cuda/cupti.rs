//! What did the device run? CUPTI's activity records, from a library that is opened when somebody asks for the first time.
//!
//! May use: `context`, the records of `activity`, `cudarc`'s raw bindings of CUPTI.
//!
//! Invariants: nothing of CUPTI is touched before the first capture; one capture a process at a time, since CUPTI's buffers are the
//! process's; a record is read field by field, up to the last one that every version of its structure has in the same place;
//! whatever was switched on is switched off again, also on failure; a callback never panics and keeps nothing without a capture.
//! Interface: <https://docs.nvidia.com/cupti/api/group__CUPTI__ACTIVITY__API.html>.

#![allow(unsafe_code)]

use super::context::Context;
use crate::driver::activity::{Activities, Activity, ActivityCall, ActivityFilter, ActivityKind, StreamActivity};
use crate::driver::{DriverError, DriverErrorKind, DriverResult};
use crate::limits::CUPTI_BUFFER_BYTES;
use cudarc::cupti::sys::{self, CUpti_ActivityKind as Kind, CUptiResult};
use cudarc::driver::sys as driver;
use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Every function of the library that is called here.
const FUNCTIONS: [&str; 12] = [
    "cuptiActivityDisable",
    "cuptiActivityEnable",
    "cuptiActivityFlushAll",
    "cuptiActivityGetNextRecord",
    "cuptiActivityGetNumDroppedRecords",
    "cuptiActivityPopExternalCorrelationId",
    "cuptiActivityPushExternalCorrelationId",
    "cuptiActivityRegisterCallbacks",
    "cuptiGetCallbackName",
    "cuptiGetTimestamp",
    "cuptiSubscribe",
    "cuptiUnsubscribe",
];

/// Deliver buffers that are not full, too (`CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`).
const FLUSH_FORCED: u32 = 1;
/// Whose numbers ours are among CUPTI's external ones.
const OURS: sys::CUpti_ExternalCorrelationKind = sys::CUpti_ExternalCorrelationKind::CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
/// Kinds of records of a whole capture.
const ALL: [Kind; 5] = [
    Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    Kind::CUPTI_ACTIVITY_KIND_MEMCPY,
    Kind::CUPTI_ACTIVITY_KIND_MEMSET,
    Kind::CUPTI_ACTIVITY_KIND_DRIVER,
    Kind::CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
];
/// Kinds of records of copies alone.
const COPIES: [Kind; 1] = [Kind::CUPTI_ACTIVITY_KIND_MEMCPY];

/// What a capture has received so far.
#[derive(Debug, Default)]
struct Received {
    most: usize,
    kept: Activities,
    /// Calls with the number of their function, before they have a name.
    calls: Vec<(u32, ActivityCall)>,
    /// Ranges by the number of a call.
    ranges: BTreeMap<u64, u64>,
    /// Whether a range of ours is on the thread's stack.
    pushed: bool,
    subscriber: usize,
}

/// The capture of this process.
static CAPTURE: Mutex<Option<Received>> = Mutex::new(None);

fn capture() -> MutexGuard<'static, Option<Received>> {
    CAPTURE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(call: &'static str, function: &str, answer: CUptiResult) -> DriverResult<()> {
    if answer == CUptiResult::CUPTI_SUCCESS {
        return Ok(());
    }
    let number = answer as u32;
    let kind = DriverErrorKind::Other(i32::try_from(number).unwrap_or(i32::MAX));
    Err(DriverError::new(call, kind, format!("{function} answered {number}, {answer:?}")))
}

/// Opens the library and looks up every function that is needed, once.
fn probe() -> DriverResult<()> {
    static PROBED: OnceLock<Result<(), String>> = OnceLock::new();
    let probe = || {
        // SAFETY: loading the vendor's library runs its initialisers, which is what the caller asks for; no symbol is called.
        if !unsafe { sys::is_culib_present() } {
            let where_to =
                "name its folder in LD_LIBRARY_PATH, such as /usr/local/cuda/lib64 or /usr/local/cuda/extras/CUPTI/lib64";
            return Err(format!("CUPTI (libcupti) was not found; {where_to}"));
        }
        // SAFETY: the library is present, so this does not panic.
        let library = unsafe { sys::culib() };
        // SAFETY: symbols are looked up as bare addresses and never called through them.
        let has = |function: &&str| unsafe { library.get::<*const ()>(function.as_bytes()) }.is_ok();
        match FUNCTIONS.iter().find(|function| !has(function)) {
            Some(function) => Err(format!("CUPTI has no function {function}; a newer one is needed")),
            None => Ok(()),
        }
    };
    let found = PROBED.get_or_init(probe).clone();
    found.map_err(|detail| DriverError::new("activity_start", DriverErrorKind::System, detail))
}

/// CUPTI's records for one device context.
#[derive(Debug)]
pub(super) struct Cupti {
    context: Arc<Context>,
    /// The kinds that this one has switched on.
    on: Mutex<Vec<Kind>>,
}

impl Cupti {
    pub(super) fn new(context: &Arc<Context>) -> Cupti {
        Cupti { context: Arc::clone(context), on: Mutex::default() }
    }

    fn on(&self) -> MutexGuard<'_, Vec<Kind>> {
        self.on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Becomes CUPTI's subscriber, of which there is one, and switches records on.
    fn switch_on(&self, kinds: &[Kind]) -> DriverResult<()> {
        let call = "activity_start";
        let mut subscriber: sys::CUpti_SubscriberHandle = std::ptr::null_mut();
        // SAFETY: `subscriber` is a valid place for one handle; no callback is given, so none is called.
        check(call, "cuptiSubscribe", unsafe { sys::cuptiSubscribe(&mut subscriber, None, std::ptr::null_mut()) })?;
        if let Some(received) = capture().as_mut() {
            received.subscriber = subscriber as usize;
        }
        // SAFETY: both functions live as long as the process and never panic.
        let answer = unsafe { sys::cuptiActivityRegisterCallbacks(Some(buffer_requested), Some(buffer_completed)) };
        check(call, "cuptiActivityRegisterCallbacks", answer)?;
        for kind in kinds {
            // SAFETY: the kind is one of the constants above.
            check(call, "cuptiActivityEnable", unsafe { sys::cuptiActivityEnable(*kind) })?;
            self.on().push(*kind);
        }
        Ok(())
    }

    /// Switches off what is on, and lets CUPTI go; what was received.
    fn switch_off(&self, flushed: DriverResult<()>) -> DriverResult<Option<Received>> {
        let mut outcome = flushed;
        for kind in self.on().drain(..) {
            // SAFETY: the kind was switched on by `switch_on`.
            let off = check("activity_stop", "cuptiActivityDisable", unsafe { sys::cuptiActivityDisable(kind) });
            outcome = outcome.and(off);
        }
        let received = capture().take();
        let subscriber = received.as_ref().map_or(0, |received| received.subscriber);
        if subscriber != 0 {
            // SAFETY: the handle came from `cuptiSubscribe` and is given back once.
            let answer = unsafe { sys::cuptiUnsubscribe(subscriber as sys::CUpti_SubscriberHandle) };
            outcome = outcome.and(check("activity_stop", "cuptiUnsubscribe", answer));
        }
        outcome.map(|()| received)
    }

    /// Waits for the device and has every record delivered; how many CUPTI left out itself.
    fn flush(&self) -> DriverResult<u64> {
        let call = "activity_stop";
        self.context.make_current(call)?;
        // SAFETY: the context is current on this thread.
        super::error::check(call, "cuCtxSynchronize", unsafe { driver::cuCtxSynchronize() })?;
        // SAFETY: buffers go to `buffer_completed`, which takes the capture's lock; it is not held here.
        check(call, "cuptiActivityFlushAll", unsafe { sys::cuptiActivityFlushAll(FLUSH_FORCED) })?;
        let mut dropped = 0usize;
        // SAFETY: `dropped` is a valid place; no context and stream 0 stand for the process's buffers.
        let answer = unsafe { sys::cuptiActivityGetNumDroppedRecords(std::ptr::null_mut(), 0, &mut dropped) };
        check(call, "cuptiActivityGetNumDroppedRecords", answer)?;
        Ok(dropped as u64)
    }
}

fn now(call: &'static str) -> DriverResult<u64> {
    let mut reading = 0u64;
    // SAFETY: `reading` is a valid place for one number.
    check(call, "cuptiGetTimestamp", unsafe { sys::cuptiGetTimestamp(&mut reading) })?;
    Ok(reading)
}

impl StreamActivity for Cupti {
    fn start(&self, filter: ActivityFilter, most: usize) -> DriverResult<()> {
        probe()?;
        let mut slot = capture();
        if slot.is_some() {
            let detail = "a capture is running; the number of captures of a process at a time is 1";
            return Err(DriverError::new("activity_start", DriverErrorKind::InvalidValue, detail));
        }
        *slot = Some(Received { most, ..Received::default() });
        drop(slot);
        let kinds: &[Kind] = if filter == ActivityFilter::All { &ALL } else { &COPIES };
        self.switch_on(kinds).inspect_err(|_| {
            let _ = self.switch_off(Ok(()));
        })
    }

    fn now(&self) -> DriverResult<u64> {
        now("activity_now")
    }

    fn enter(&self, range: u64) -> DriverResult<()> {
        let call = "activity_enter";
        let pushed = capture().as_mut().map(|received| std::mem::replace(&mut received.pushed, range != 0));
        let Some(pushed) = pushed else { return Err(not_running(call)) };
        if pushed {
            let mut last = 0u64;
            // SAFETY: `last` is a valid place; this thread has pushed a number of this kind.
            let answer = unsafe { sys::cuptiActivityPopExternalCorrelationId(OURS, &mut last) };
            check(call, "cuptiActivityPopExternalCorrelationId", answer)?;
        }
        if range != 0 {
            // SAFETY: plain values.
            let answer = unsafe { sys::cuptiActivityPushExternalCorrelationId(OURS, range) };
            check(call, "cuptiActivityPushExternalCorrelationId", answer)?;
        }
        Ok(())
    }

    fn stop(&self) -> DriverResult<Activities> {
        if capture().is_none() {
            return Err(not_running("activity_stop"));
        }
        let left = self.enter(0);
        let flushed = self.flush();
        let now_ns = now("activity_stop");
        let dropped = *flushed.as_ref().unwrap_or(&0);
        let received = self.switch_off(left.and(flushed.map(|_| ())))?;
        let mut received = received.unwrap_or_default();
        received.kept.dropped += dropped;
        Ok(Activities { now_ns: now_ns?, ..received.finish() })
    }
}

fn not_running(call: &'static str) -> DriverError {
    DriverError::new(call, DriverErrorKind::InvalidValue, "no capture is running")
}

impl Drop for Cupti {
    /// Leaves nothing switched on.
    fn drop(&mut self) {
        if !self.on().is_empty() {
            let _ = self.switch_off(Ok(()));
        }
    }
}

impl Received {
    fn has_room(&mut self) -> bool {
        let room = self.kept.works.len() + self.calls.len() < self.most;
        self.kept.dropped += u64::from(!room);
        room
    }

    fn work(&mut self, kind: ActivityKind, name: String, stream: u32, times: (u64, u64), bytes: Option<u64>, correlation: u32) {
        let (start_ns, end_ns) = times;
        // CUPTI writes 0 for a time that it does not know; no time is made up from it.
        if start_ns == 0 || end_ns < start_ns {
            self.kept.dropped += 1;
        } else if self.has_room() {
            let (stream, correlation) = (stream.into(), correlation.into());
            self.kept.works.push(Activity { kind, name, stream, start_ns, end_ns, bytes, correlation });
        }
    }

    /// Names calls and gives them their ranges; calls outside every range are left out.
    fn finish(mut self) -> Activities {
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        for (function, mut call) in std::mem::take(&mut self.calls) {
            let Some(range) = self.ranges.get(&call.correlation) else { continue };
            call.range = *range;
            call.name.clone_from(names.entry(function).or_insert_with(|| function_name(function)));
            self.kept.calls.push(call);
        }
        self.kept
    }
}

/// Name of a function of the driver library.
fn function_name(function: u32) -> String {
    let mut name: *const c_char = std::ptr::null();
    let domain = sys::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_DRIVER_API;
    // SAFETY: `name` is a valid place; the text belongs to the library and stays.
    let answer = unsafe { sys::cuptiGetCallbackName(domain, function, &mut name) };
    if answer == CUptiResult::CUPTI_SUCCESS { text(name) } else { format!("driver function {function}") }
}

/// A text of the library, copied.
fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return "(no name)".into();
    }
    // SAFETY: not null; the library ends its texts with a zero byte and keeps them.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// Memory of one buffer; both callbacks agree on it.
fn layout() -> Option<Layout> {
    Layout::from_size_align(CUPTI_BUFFER_BYTES, 8).ok()
}

unsafe extern "C" fn buffer_requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let memory = layout().map_or(std::ptr::null_mut(), |layout| {
        // SAFETY: the layout is not empty.
        unsafe { alloc(layout) }
    });
    // SAFETY: CUPTI passes valid places. Without memory the size is 0 and CUPTI counts what it drops.
    unsafe {
        *buffer = memory;
        *size = if memory.is_null() { 0 } else { CUPTI_BUFFER_BYTES };
        *records = 0;
    }
}

unsafe extern "C" fn buffer_completed(_: driver::CUcontext, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    if buffer.is_null() {
        return;
    }
    if let Some(received) = capture().as_mut() {
        let mut record: *mut sys::CUpti_Activity = std::ptr::null_mut();
        // SAFETY: the buffer holds `valid` bytes of records; CUPTI moves `record` from one to the next until there is none.
        while unsafe { sys::cuptiActivityGetNextRecord(buffer, valid, &mut record) } == CUptiResult::CUPTI_SUCCESS {
            // SAFETY: a record that CUPTI has just pointed out, inside the buffer.
            unsafe { take(received, record) };
        }
    }
    if let Some(layout) = layout() {
        // SAFETY: allocated by `buffer_requested` with this layout; CUPTI has given it back.
        unsafe { dealloc(buffer, layout) };
    }
}

/// One field of a record.
macro_rules! field {
    ($record:expr, $structure:ident, $name:ident) => {
        // SAFETY: the record is of the kind that this structure describes, and every version has the field at this place.
        unsafe { std::ptr::addr_of!((*$record.cast::<sys::$structure>()).$name).read_unaligned() }
    };
}

/// Keeps one record.
///
/// # Safety
/// `record` points to a whole record of CUPTI.
unsafe fn take(received: &mut Received, record: *const sys::CUpti_Activity) {
    // Read as a number: a newer library may have kinds that the bindings do not know.
    // SAFETY: every record begins with its kind, four bytes.
    let kind = unsafe { record.cast::<u32>().read_unaligned() };
    match kind {
        kind if kind == Kind::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL as u32 => {
            let times = (field!(record, CUpti_ActivityKernel9, start), field!(record, CUpti_ActivityKernel9, end));
            let stream = field!(record, CUpti_ActivityKernel9, streamId);
            let correlation = field!(record, CUpti_ActivityKernel9, correlationId);
            let name = text(field!(record, CUpti_ActivityKernel9, name));
            received.work(ActivityKind::Work, name, stream, times, None, correlation);
        }
        kind if kind == Kind::CUPTI_ACTIVITY_KIND_MEMCPY as u32 => {
            let times = (field!(record, CUpti_ActivityMemcpy5, start), field!(record, CUpti_ActivityMemcpy5, end));
            let stream = field!(record, CUpti_ActivityMemcpy5, streamId);
            let correlation = field!(record, CUpti_ActivityMemcpy5, correlationId);
            let bytes = field!(record, CUpti_ActivityMemcpy5, bytes);
            let name = copy_name(field!(record, CUpti_ActivityMemcpy5, copyKind));
            received.work(ActivityKind::Copy, name, stream, times, Some(bytes), correlation);
        }
        kind if kind == Kind::CUPTI_ACTIVITY_KIND_MEMSET as u32 => {
            let times = (field!(record, CUpti_ActivityMemset4, start), field!(record, CUpti_ActivityMemset4, end));
            let stream = field!(record, CUpti_ActivityMemset4, streamId);
            let correlation = field!(record, CUpti_ActivityMemset4, correlationId);
            let bytes = field!(record, CUpti_ActivityMemset4, bytes);
            received.work(ActivityKind::Fill, "Memset".into(), stream, times, Some(bytes), correlation);
        }
        kind if kind == Kind::CUPTI_ACTIVITY_KIND_DRIVER as u32 => {
            let (start_ns, end_ns) = (field!(record, CUpti_ActivityAPI, start), field!(record, CUpti_ActivityAPI, end));
            let correlation = u64::from(field!(record, CUpti_ActivityAPI, correlationId));
            let function = field!(record, CUpti_ActivityAPI, cbid);
            if start_ns != 0 && end_ns >= start_ns && received.has_room() {
                let call = ActivityCall { name: String::new(), start_ns, end_ns, correlation, range: 0 };
                received.calls.push((function, call));
            }
        }
        kind if kind == Kind::CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION as u32 => {
            let correlation = u64::from(field!(record, CUpti_ActivityExternalCorrelation, correlationId));
            let range = field!(record, CUpti_ActivityExternalCorrelation, externalId);
            received.ranges.insert(correlation, range);
        }
        _ => {}
    }
}

fn copy_name(kind: u8) -> String {
    match kind {
        1 => "Memcpy HtoD".into(),
        2 => "Memcpy DtoH".into(),
        8 => "Memcpy DtoD".into(),
        other => format!("Memcpy (kind {other})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn fields_that_are_read_lie_where_the_newest_structures_have_them() {
        macro_rules! same {
            ($old:ident, $new:ident: $($name:ident),+) => {
                $(assert_eq!(offset_of!(sys::$old, $name), offset_of!(sys::$new, $name), stringify!($name));)+
            };
        }
        same!(CUpti_ActivityKernel9, CUpti_ActivityKernel10: kind, start, end, streamId, correlationId, name);
        same!(CUpti_ActivityMemcpy5, CUpti_ActivityMemcpy6: kind, copyKind, bytes, start, end, streamId, correlationId);
        // The documented places, in bytes.
        let kernel = [offset_of!(sys::CUpti_ActivityKernel9, start), offset_of!(sys::CUpti_ActivityKernel9, name)];
        let copy = [offset_of!(sys::CUpti_ActivityMemcpy5, bytes), offset_of!(sys::CUpti_ActivityMemcpy5, correlationId)];
        assert_eq!((kernel, copy, offset_of!(sys::CUpti_ActivityMemset4, correlationId)), ([16, 104], [8, 44], 44));
    }

    #[test]
    fn records_become_values_and_unknown_ones_are_passed_over() {
        // SAFETY: all fields are numbers, pointers that may be null, or enums whose zero is a value.
        let mut copy: sys::CUpti_ActivityMemcpy5 = unsafe { std::mem::zeroed() };
        copy.kind = Kind::CUPTI_ACTIVITY_KIND_MEMCPY;
        (copy.copyKind, copy.bytes, copy.start, copy.end, copy.streamId, copy.correlationId) = (1, 64, 100, 160, 7, 9);
        let mut received = Received { most: 2, ..Received::default() };
        let record = std::ptr::from_ref(&copy).cast();
        // SAFETY: a whole record of its kind.
        unsafe { take(&mut received, record) };
        let want = Activity {
            kind: ActivityKind::Copy,
            name: "Memcpy HtoD".into(),
            stream: 7,
            start_ns: 100,
            end_ns: 160,
            bytes: Some(64),
            correlation: 9,
        };
        assert_eq!(received.kept.works, [want]);
        copy.start = 0;
        // SAFETY: as above.
        unsafe { take(&mut received, std::ptr::from_ref(&copy).cast()) };
        assert_eq!((received.kept.works.len(), received.kept.dropped), (1, 1), "a time that is not known is no time");
        let unknown = [u32::MAX, 0];
        // SAFETY: the kind is read alone.
        unsafe { take(&mut received, unknown.as_ptr().cast()) };
        assert_eq!(received.kept.works.len(), 1);
    }

    #[test]
    fn without_the_library_a_capture_is_an_error_and_stays_one() {
        if probe().is_ok() {
            return;
        }
        for _ in 0..2 {
            let error = probe().expect_err("not there");
            assert_eq!((error.call, error.kind), ("activity_start", DriverErrorKind::System));
            assert!(error.detail.contains("CUPTI"), "{error}");
        }
    }
}
