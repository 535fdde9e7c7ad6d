//! The host memory of a component's source: slots of the ring or of the plain staging path, and segments of retained storage.
//!
//! Capacities are rounded up to whole slots or segments once, for the total. Everything that cannot be is refused with
//! what was asked for and the limit, before anything is taken.

use super::timing::RegistrationTiming;
use crate::error::Refusal;
use crate::limits::{
    DEFAULT_HEADROOM_BYTES, DEFAULT_STAGING_BYTES, DEFAULT_STAGING_SLOT_BYTES, MAX_MICRO_HOST_BYTES, MAX_MICRO_RETAINED_BYTES,
    MAX_PROCESS_REGISTERED_BYTES, MAX_RETAINED_BYTES, MAX_SOURCE_READERS, MAX_STAGING_BYTES, MAX_STAGING_SLOT_BYTES,
    MAX_STAGING_SLOTS, MICRO_SLOT_ALIGNMENT_BYTES, MIN_STAGED_SLOTS, RETAINED_SEGMENT_BYTES, STAGING_SLOT_ALIGNMENT_BYTES,
};

/// Which segments are registered when not all may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistrationPolicy {
    /// The same ones always, spread evenly; the rest passes through the ring.
    #[default]
    StableSubset,
    /// The one that is needed, in place of the one whose use lies longest ago.
    Recycle,
}

impl RegistrationPolicy {
    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            RegistrationPolicy::StableSubset => "stable_subset",
            RegistrationPolicy::Recycle => "recycle",
        }
    }
}

impl std::str::FromStr for RegistrationPolicy {
    type Err = crate::error::Error;

    fn from_str(text: &str) -> Result<RegistrationPolicy, Self::Err> {
        let all = [RegistrationPolicy::StableSubset, RegistrationPolicy::Recycle];
        let unknown =
            || crate::error::Error::invalid("registration policy", format!("{text:?} is none of stable_subset, recycle"));
        all.into_iter().find(|policy| policy.name() == text).ok_or_else(unknown)
    }
}

/// Host memory that the sources `ring`, `retained` and `staged` may take, and `mapped` where not all of it is registered at attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemorySettings {
    /// Registered staging memory in all, in bytes: the ring's, or the slots of the source `staged`.
    pub staging_bytes: u64,
    /// Bytes of one slot.
    pub staging_slot_bytes: u64,
    /// Threads that read files and copy into the ring; 0 for two fewer than there are processors. The source `staged` has
    /// none.
    pub readers: u64,
    /// Ceiling of retained storage in bytes, in segments of 64 MiB; 0 for none.
    pub retained_bytes: u64,
    /// Micro geometry in place of a ceiling: bytes of a slot. Only together with a number of slots.
    pub retained_slot_bytes: u64,
    /// Micro geometry: number of slots. Only together with their size.
    pub retained_slots: u64,
    /// Ceiling of registered source bytes (retained storage, or the mapped file), in whole segments; 0 for all of them.
    pub registered_bytes: u64,
    /// Which segments are registered below that ceiling.
    pub registration: RegistrationPolicy,
    /// When the segments of a mapped file are registered.
    pub registration_timing: RegistrationTiming,
    /// The most that rings and retained storage of the whole process may hold registered when this component adds to it.
    pub process_limit_bytes: u64,
    /// Available host memory below which retained storage stops to grow, in bytes.
    pub headroom_bytes: u64,
}

impl Default for HostMemorySettings {
    fn default() -> HostMemorySettings {
        HostMemorySettings {
            staging_bytes: DEFAULT_STAGING_BYTES,
            staging_slot_bytes: DEFAULT_STAGING_SLOT_BYTES,
            readers: 0,
            retained_bytes: 0,
            retained_slot_bytes: 0,
            retained_slots: 0,
            registered_bytes: 0,
            registration: RegistrationPolicy::StableSubset,
            registration_timing: RegistrationTiming::Auto,
            process_limit_bytes: MAX_PROCESS_REGISTERED_BYTES,
            headroom_bytes: DEFAULT_HEADROOM_BYTES,
        }
    }
}

/// The ring, or the slots of the source `staged`, settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// Number of slots.
    pub slots: u64,
    /// Bytes of one.
    pub slot_bytes: u64,
    /// Threads that fill them; none where the uploading thread does.
    pub readers: u64,
}

impl RingShape {
    /// All of it, in bytes.
    pub fn bytes(&self) -> u64 {
        self.slots * self.slot_bytes
    }
}

/// Retained storage, settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetainedShape {
    /// Number of segments.
    pub segments: u64,
    /// Bytes of one: also of the file window that it holds.
    pub segment_bytes: u64,
    /// Segments that may be registered at a time.
    pub registered_segments: u64,
    /// Which they are.
    pub registration: RegistrationPolicy,
    /// True for segments of 64 MiB under a ceiling, false for the micro geometry.
    pub model_windows: bool,
}

impl RetainedShape {
    /// All of it, in bytes.
    pub fn bytes(&self) -> u64 {
        self.segments * self.segment_bytes
    }
}

type Outcome<T> = Result<T, Refusal>;

fn refuse<T>(code: &'static str, what: &str, got: u64, limit: u64) -> Outcome<T> {
    Err(Refusal { code, what: what.to_string(), got, limit, unit: "bytes" })
}

fn at_most(code: &'static str, what: &str, got: u64, limit: u64) -> Outcome<()> {
    if got > limit { refuse(code, what, got, limit) } else { Ok(()) }
}

fn whole(code: &'static str, what: &str, got: u64, step: u64) -> Outcome<()> {
    if got == 0 || !got.is_multiple_of(step) { refuse(code, what, got, step) } else { Ok(()) }
}

/// The ring that the settings describe, on a machine with so many processors.
///
/// # Errors
/// What cannot be, with the limit.
pub fn ring_shape(settings: &HostMemorySettings, processors: u64) -> Outcome<RingShape> {
    let readers = settings.readers;
    check_slot(settings.staging_slot_bytes)?;
    if settings.staging_bytes < STAGING_SLOT_ALIGNMENT_BYTES {
        let what = "staging memory, of at least one page";
        return refuse("staging_too_small", what, settings.staging_bytes, STAGING_SLOT_ALIGNMENT_BYTES);
    }
    // A ring smaller than one slot is one smaller slot.
    let slot_bytes = settings.staging_slot_bytes.min(settings.staging_bytes.next_multiple_of(STAGING_SLOT_ALIGNMENT_BYTES));
    let slots = slots_of(settings.staging_bytes, slot_bytes)?;
    if settings.retained_bytes == 0 && settings.retained_slots == 0 {
        at_most("staging_too_large", "staging memory without retained storage", slots * slot_bytes, MAX_STAGING_BYTES)?;
    }
    let automatic = processors.saturating_sub(2).clamp(1, MAX_SOURCE_READERS);
    if readers > MAX_SOURCE_READERS {
        let what = "threads that read the source".to_string();
        return Err(Refusal { code: "too_many_source_readers", what, got: readers, limit: MAX_SOURCE_READERS, unit: "threads" });
    }
    let readers = if readers == 0 { automatic } else { readers };
    let shape = RingShape { slots, slot_bytes, readers: readers.min(slots) };
    at_most("process_registered_limit", "the ring beside the limit of the process", shape.bytes(), settings.process_limit_bytes)?;
    Ok(shape)
}

fn check_slot(bytes: u64) -> Outcome<()> {
    whole("staging_slot_not_whole", "a staging slot, in whole pages", bytes, STAGING_SLOT_ALIGNMENT_BYTES)?;
    at_most("staging_slot_too_large", "a staging slot", bytes, MAX_STAGING_SLOT_BYTES)
}

/// Whole slots of the total, rounded up; few enough that their bytes do not overflow.
fn slots_of(bytes: u64, slot_bytes: u64) -> Outcome<u64> {
    let slots = bytes.div_ceil(slot_bytes);
    if slots > MAX_STAGING_SLOTS {
        let what = "staging slots".to_string();
        return Err(Refusal { code: "staging_too_many_slots", what, got: slots, limit: MAX_STAGING_SLOTS, unit: "slots" });
    }
    Ok(slots)
}

/// The slots of the source `staged` that the settings describe: at least two, so that one is filled while another is copied.
///
/// # Errors
/// What cannot be, with the limit.
pub fn staging_shape(settings: &HostMemorySettings) -> Outcome<RingShape> {
    let slot_bytes = settings.staging_slot_bytes;
    check_slot(slot_bytes)?;
    let slots = slots_of(settings.staging_bytes, slot_bytes)?;
    if slots < MIN_STAGED_SLOTS {
        let what = "slots of the source \"staged\"".to_string();
        return Err(Refusal { code: "staging_too_few_slots", what, got: slots, limit: MIN_STAGED_SLOTS, unit: "slots" });
    }
    let shape = RingShape { slots, slot_bytes, readers: 0 };
    at_most("staging_too_large", "staging memory without retained storage", shape.bytes(), MAX_STAGING_BYTES)?;
    let what = "staging slots beside the limit of the process";
    at_most("process_registered_limit", what, shape.bytes(), settings.process_limit_bytes)?;
    Ok(shape)
}

/// The retained storage that the settings describe; `None` when they describe none.
///
/// # Errors
/// What cannot be, with the limit.
pub fn retained_shape(settings: &HostMemorySettings, ring: &RingShape) -> Outcome<Option<RetainedShape>> {
    let HostMemorySettings { retained_bytes, retained_slot_bytes, retained_slots, registered_bytes, .. } = *settings;
    if (retained_slot_bytes == 0) != (retained_slots == 0) {
        let what = "size and number of retained slots, only together";
        return refuse("retained_slots_incomplete", what, retained_slot_bytes, retained_slots);
    }
    if retained_bytes > 0 && retained_slots > 0 {
        return refuse("retained_geometry_twice", "a retained ceiling beside retained slots", retained_bytes, 0);
    }
    let (segment_bytes, segments, model_windows) = match (retained_bytes, retained_slots) {
        (0, 0) => {
            at_most(
                "registered_without_retained",
                "a ceiling of registered storage without retained storage",
                registered_bytes,
                0,
            )?;
            return Ok(None);
        }
        (0, slots) => (micro_slot(retained_slot_bytes, slots)?, slots, false),
        (bytes, _) => {
            at_most("retained_too_large", "retained storage", bytes, MAX_RETAINED_BYTES)?;
            (RETAINED_SEGMENT_BYTES, bytes.div_ceil(RETAINED_SEGMENT_BYTES), true)
        }
    };
    let capacity = segments * segment_bytes;
    let host_limit = if model_windows { MAX_PROCESS_REGISTERED_BYTES } else { MAX_MICRO_HOST_BYTES };
    at_most(
        "host_memory_too_large",
        "the ring and retained storage together",
        ring.bytes().saturating_add(capacity),
        host_limit,
    )?;
    let registered = if registered_bytes == 0 { capacity } else { registered_bytes };
    whole("registered_not_whole", "registered retained storage, in whole segments", registered, segment_bytes)?;
    at_most("registered_above_retained", "registered retained storage beside the retained ceiling", registered, capacity)?;
    Ok(Some(RetainedShape {
        segments,
        segment_bytes,
        registered_segments: registered / segment_bytes,
        registration: settings.registration,
        model_windows,
    }))
}

fn micro_slot(bytes: u64, slots: u64) -> Outcome<u64> {
    whole("retained_slot_not_whole", "a retained slot, in steps of 64 KiB", bytes, MICRO_SLOT_ALIGNMENT_BYTES)?;
    at_most("retained_slot_too_large", "a retained slot", bytes, RETAINED_SEGMENT_BYTES)?;
    at_most("retained_slots_too_large", "retained slots together", bytes.saturating_mul(slots), MAX_MICRO_RETAINED_BYTES)?;
    Ok(bytes)
}

/// Of `count` things in their order, whether the one at `index` belongs to `chosen` evenly spread ones.
pub fn is_spread(index: u64, chosen: u64, count: u64) -> bool {
    // The middle of each stretch: the last window of a file is often not full.
    let count = u128::from(count.max(1));
    let before = |index: u64| (u128::from(index) * u128::from(chosen).min(count) + count / 2) / count;
    before(index + 1) > before(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn settings() -> HostMemorySettings {
        HostMemorySettings::default()
    }

    fn ring(change: impl FnOnce(&mut HostMemorySettings)) -> Result<RingShape, &'static str> {
        let mut settings = settings();
        change(&mut settings);
        ring_shape(&settings, 16).map_err(|refusal| refusal.code)
    }

    fn retained(change: impl FnOnce(&mut HostMemorySettings)) -> Result<Option<RetainedShape>, &'static str> {
        let mut settings = settings();
        change(&mut settings);
        let ring = RingShape { slots: 64, slot_bytes: 8 * MIB, readers: 14 };
        retained_shape(&settings, &ring).map_err(|refusal| refusal.code)
    }

    #[test]
    fn the_ring_is_rounded_up_once_for_the_total() {
        assert_eq!(ring(|_| ()), Ok(RingShape { slots: 32, slot_bytes: 4 * MIB, readers: 14 }));
        assert_eq!(ring(|s| s.staging_bytes = 512 * MIB + 1).map(|ring| ring.bytes()), Ok(516 * MIB));
        let one = ring(|s| s.staging_bytes = 5000);
        assert_eq!(one, Ok(RingShape { slots: 1, slot_bytes: 8192, readers: 1 }), "smaller than one slot");
        assert_eq!(ring_shape(&settings(), 1).map(|ring| ring.readers), Ok(1));
        assert_eq!(ring(|s| s.readers = 3).map(|ring| ring.readers), Ok(3));
    }

    #[test]
    fn each_limit_of_the_ring_admits_itself_and_refuses_one_more() {
        assert!(ring(|s| s.staging_bytes = 2 * GIB).is_ok());
        assert_eq!(ring(|s| s.staging_bytes = 2 * GIB + 1), Err("staging_too_large"));
        assert!(ring(|s| s.staging_bytes = 4096).is_ok());
        assert_eq!(ring(|s| s.staging_bytes = 4095), Err("staging_too_small"));
        assert!(ring(|s| s.staging_slot_bytes = 64 * MIB).is_ok());
        assert_eq!(ring(|s| s.staging_slot_bytes = 64 * MIB + 4096), Err("staging_slot_too_large"));
        assert_eq!(ring(|s| s.staging_slot_bytes = 4097), Err("staging_slot_not_whole"));
        assert_eq!(ring(|s| s.staging_slot_bytes = 0), Err("staging_slot_not_whole"));
        let slots = |bytes: u64| ring(|s| (s.staging_bytes, s.staging_slot_bytes) = (bytes, 4096));
        assert_eq!(slots(4096 * 4096).map(|ring| ring.slots), Ok(4096));
        assert_eq!(slots(4096 * 4096 + 1), Err("staging_too_many_slots"));
        assert!(ring(|s| s.process_limit_bytes = 128 * MIB).is_ok());
        assert_eq!(ring(|s| s.process_limit_bytes = 128 * MIB - 1), Err("process_registered_limit"));
        assert_eq!((ring(|s| s.readers = 14).is_ok(), ring(|s| s.readers = 15)), (true, Err("too_many_source_readers")));
    }

    #[test]
    fn each_limit_of_staging_slots_admits_itself_and_refuses_one_more() {
        let staged = |change: &dyn Fn(&mut HostMemorySettings)| {
            let mut settings = settings();
            change(&mut settings);
            staging_shape(&settings).map_err(|refusal| refusal.code)
        };
        assert_eq!(staged(&|_| ()), Ok(RingShape { slots: 32, slot_bytes: 4 * MIB, readers: 0 }));
        assert_eq!(staged(&|s| s.staging_bytes = 9 * MIB).map(|shape| (shape.slots, shape.bytes())), Ok((3, 12 * MIB)));
        assert_eq!(staged(&|s| s.staging_bytes = 4 * MIB + 1).map(|shape| shape.slots), Ok(2));
        for bytes in [0, 1, 4 * MIB] {
            assert_eq!(staged(&|s| s.staging_bytes = bytes), Err("staging_too_few_slots"));
        }
        assert_eq!(staged(&|s| s.staging_slot_bytes = 0), Err("staging_slot_not_whole"));
        assert_eq!(staged(&|s| s.staging_slot_bytes = 64 * MIB + 4096), Err("staging_slot_too_large"));
        assert_eq!(staged(&|s| s.staging_bytes = u64::MAX), Err("staging_too_many_slots"));
        assert!(staged(&|s| s.staging_bytes = 2 * GIB).is_ok());
        assert_eq!(staged(&|s| s.staging_bytes = 2 * GIB + 1), Err("staging_too_large"));
        assert!(staged(&|s| s.process_limit_bytes = 128 * MIB).is_ok());
        assert_eq!(staged(&|s| s.process_limit_bytes = 128 * MIB - 1), Err("process_registered_limit"));
    }

    #[test]
    fn retained_storage_comes_in_whole_segments() {
        assert_eq!(retained(|_| ()), Ok(None));
        let shape = retained(|s| s.retained_bytes = 65 * MIB).expect("fits").expect("some");
        assert_eq!((shape.segments, shape.bytes(), shape.registered_segments), (2, 128 * MIB, 2));
        let part = retained(|s| (s.retained_bytes, s.registered_bytes) = (4 * GIB, GIB)).expect("fits").expect("some");
        assert_eq!((part.segments, part.registered_segments, part.model_windows), (64, 16, true));
        let micro = retained(|s| (s.retained_slot_bytes, s.retained_slots) = (64 << 10, 3)).expect("fits").expect("some");
        assert_eq!(
            (micro.segments, micro.segment_bytes, micro.registered_segments, micro.model_windows),
            (3, 64 << 10, 3, false)
        );
    }

    #[test]
    fn each_limit_of_retained_storage_admits_itself_and_refuses_one_more() {
        assert!(retained(|s| s.retained_bytes = 32 * GIB).is_ok());
        assert_eq!(retained(|s| s.retained_bytes = 32 * GIB + 1), Err("retained_too_large"));
        let registered = |bytes: u64| retained(|s| (s.retained_bytes, s.registered_bytes) = (2 * GIB, bytes));
        assert!(registered(2 * GIB).is_ok() && registered(64 * MIB).is_ok());
        assert_eq!(registered(2 * GIB + 64 * MIB), Err("registered_above_retained"));
        assert_eq!(registered(64 * MIB + 1), Err("registered_not_whole"));
        assert_eq!(retained(|s| s.registered_bytes = 1), Err("registered_without_retained"));
        let micro = |bytes: u64, slots: u64| retained(|s| (s.retained_slot_bytes, s.retained_slots) = (bytes, slots));
        assert!(micro(64 * MIB, 2).is_ok());
        assert_eq!(micro(64 * MIB, 3), Err("retained_slots_too_large"));
        assert_eq!(micro(64 * MIB + (64 << 10), 1), Err("retained_slot_too_large"));
        assert_eq!(micro((64 << 10) + 1, 1), Err("retained_slot_not_whole"));
        assert_eq!((micro(0, 2), micro(64 << 10, 0)), (Err("retained_slots_incomplete"), Err("retained_slots_incomplete")));
        let both = retained(|s| (s.retained_bytes, s.retained_slot_bytes, s.retained_slots) = (1, 64 << 10, 1));
        assert_eq!(both, Err("retained_geometry_twice"));
        let beside = |slots: u64| {
            let ring = RingShape { slots, slot_bytes: 64 * MIB, readers: 1 };
            let micro = HostMemorySettings { retained_slot_bytes: 64 * MIB, retained_slots: 1, ..settings() };
            retained_shape(&micro, &ring).map_err(|refusal| refusal.code)
        };
        assert!(beside(15).is_ok());
        assert_eq!(beside(16), Err("host_memory_too_large"));
    }

    #[test]
    fn the_chosen_ones_are_spread_and_exactly_as_many() {
        let chosen = |of: u64, count: u64| (0..count).filter(|index| is_spread(*index, of, count)).collect::<Vec<_>>();
        assert_eq!(chosen(2, 6), [1, 4]);
        assert_eq!((chosen(0, 5).len(), chosen(5, 5).len(), chosen(9, 5).len()), (0, 5, 5));
        for (of, count) in [(1, 7), (3, 7), (64, 151)] {
            assert_eq!(chosen(of, count).len() as u64, of);
        }
    }
}
