//! The state machine of streams and events: "What may run next?"
//!
//! Pure: no threads, no clocks, no memory. An executor asks which stream is ready, starts its next operation, runs it,
//! and says when it is finished. A threaded executor uses one worker a stream; a stepped one can pick any ready
//! stream and give virtual times.

use crate::driver::{DeviceAddress, DriverError, DriverErrorKind, DriverResult, EventId, HostBytes, Launch, StreamId};
use std::collections::{BTreeMap, VecDeque};

/// One operation of a stream.
#[derive(Debug)]
pub(super) enum Op {
    /// Copies host bytes to device memory.
    Copy {
        /// Destination.
        to: DeviceAddress,
        /// Source with its lease.
        from: HostBytes,
        /// Number of its call in a capture; 0 for none.
        number: u64,
    },
    /// Runs host-supplied work.
    Work {
        /// The work.
        launch: Launch,
        /// Number of its call in a capture; 0 for none.
        number: u64,
    },
    /// Passes an event; the number is that of its record.
    Record {
        /// The event.
        event: EventId,
        /// Which of the event's records this is.
        number: u64,
    },
    /// Waits until the event's record of that number has been passed.
    Wait {
        /// The event.
        event: EventId,
        /// Which of its records.
        number: u64,
    },
}

#[derive(Debug, Default)]
struct Stream {
    queue: VecDeque<Op>,
    running: bool,
    closing: bool,
    enqueued: u64,
    finished: u64,
}

#[derive(Debug, Default)]
struct Event {
    timing: bool,
    recorded: u64,
    passed: u64,
    passed_at: Option<u64>,
    destroyed: bool,
}

/// All streams and events of one device.
#[derive(Debug, Default)]
pub(super) struct Machine {
    streams: BTreeMap<StreamId, Stream>,
    events: BTreeMap<EventId, Event>,
    next: u64,
}

fn unknown(call: &'static str, what: &str, id: u64) -> DriverError {
    DriverError::new(call, DriverErrorKind::InvalidValue, format!("{what} {id} does not exist"))
}

impl Machine {
    pub(super) fn stream_create(&mut self) -> StreamId {
        self.next += 1;
        let id = StreamId(self.next);
        self.streams.insert(id, Stream::default());
        id
    }

    /// Lets the stream end after its queue.
    pub(super) fn stream_close(&mut self, id: StreamId) -> DriverResult<()> {
        let stream = self.streams.get_mut(&id).filter(|stream| !stream.closing);
        stream.ok_or_else(|| unknown("stream_destroy", "stream", id.0))?.closing = true;
        Ok(())
    }

    /// Removes a stream that has ended.
    pub(super) fn stream_remove(&mut self, id: StreamId) {
        self.streams.remove(&id);
    }

    /// True when a closing stream has nothing left to run, or the stream is gone.
    pub(super) fn ended(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_none_or(|stream| stream.closing && stream.queue.is_empty() && !stream.running)
    }

    pub(super) fn event_create(&mut self, timing: bool) -> EventId {
        self.next += 1;
        let id = EventId(self.next);
        self.events.insert(id, Event { timing, ..Event::default() });
        id
    }

    pub(super) fn event_destroy(&mut self, id: EventId) -> DriverResult<()> {
        let event = self.live_event("event_destroy", id)?;
        event.destroyed = true;
        if event.passed == event.recorded {
            self.events.remove(&id);
        }
        Ok(())
    }

    fn live_event(&mut self, call: &'static str, id: EventId) -> DriverResult<&mut Event> {
        self.events.get_mut(&id).filter(|event| !event.destroyed).ok_or_else(|| unknown(call, "event", id.0))
    }

    pub(super) fn enqueue(&mut self, call: &'static str, id: StreamId, op: Op) -> DriverResult<()> {
        let stream = self.streams.get_mut(&id).filter(|stream| !stream.closing).ok_or_else(|| unknown(call, "stream", id.0))?;
        stream.queue.push_back(op);
        stream.enqueued += 1;
        Ok(())
    }

    pub(super) fn record(&mut self, event: EventId, stream: StreamId) -> DriverResult<()> {
        let number = self.live_event("event_record", event)?.recorded + 1;
        self.enqueue("event_record", stream, Op::Record { event, number })?;
        self.live_event("event_record", event)?.recorded = number;
        Ok(())
    }

    pub(super) fn wait_event(&mut self, stream: StreamId, event: EventId) -> DriverResult<()> {
        let number = self.live_event("stream_wait_event", event)?.recorded;
        self.enqueue("stream_wait_event", stream, Op::Wait { event, number })
    }

    pub(super) fn passed(&mut self, id: EventId, call: &'static str) -> DriverResult<bool> {
        let event = self.live_event(call, id)?;
        Ok(event.passed == event.recorded)
    }

    /// Number of the event's latest record, to be waited for.
    pub(super) fn recorded(&mut self, id: EventId, call: &'static str) -> DriverResult<u64> {
        Ok(self.live_event(call, id)?.recorded)
    }

    /// True when that record has been passed, or the event is gone.
    pub(super) fn passed_record(&self, id: EventId, number: u64) -> bool {
        self.events.get(&id).is_none_or(|event| event.passed >= number)
    }

    /// Signed nanoseconds between two passed events.
    pub(super) fn elapsed(&mut self, from: EventId, to: EventId) -> DriverResult<i128> {
        let mut at = |id: EventId| -> DriverResult<u64> {
            let event = self.live_event("event_elapsed", id)?;
            let error = |kind, detail: &str| DriverError::new("event_elapsed", kind, format!("event {} {detail}", id.0));
            if !event.timing {
                return Err(error(DriverErrorKind::InvalidValue, "was created without timing"));
            }
            if event.recorded == 0 {
                return Err(error(DriverErrorKind::InvalidValue, "was never recorded"));
            }
            let passed = event.passed_at.filter(|_| event.passed == event.recorded);
            passed.ok_or_else(|| error(DriverErrorKind::NotReady, "has not been passed yet"))
        };
        Ok(i128::from(at(to)?) - i128::from(at(from)?))
    }

    /// Operations queued so far, to be waited for.
    pub(super) fn enqueued(&self, call: &'static str, id: StreamId) -> DriverResult<u64> {
        self.streams.get(&id).map(|stream| stream.enqueued).ok_or_else(|| unknown(call, "stream", id.0))
    }

    /// True when the first `count` operations of the stream are done.
    pub(super) fn finished(&self, id: StreamId, count: u64) -> bool {
        self.streams.get(&id).is_none_or(|stream| stream.finished >= count)
    }

    /// True when the stream could start its next operation now.
    pub(super) fn ready(&self, id: StreamId) -> bool {
        let Some(stream) = self.streams.get(&id) else { return false };
        match stream.queue.front() {
            _ if stream.running => false,
            None => false,
            Some(Op::Wait { event, number }) => self.events.get(event).is_none_or(|event| event.passed >= *number),
            Some(_) => true,
        }
    }

    /// Streams that could start an operation now, oldest first.
    pub(super) fn ready_streams(&self) -> Vec<StreamId> {
        self.streams.keys().copied().filter(|stream| self.ready(*stream)).collect()
    }

    /// Operations queued so far on every stream.
    pub(super) fn all_enqueued(&self) -> Vec<(StreamId, u64)> {
        self.streams.iter().map(|(id, stream)| (*id, stream.enqueued)).collect()
    }

    /// Takes the next operation of a ready stream.
    pub(super) fn start(&mut self, id: StreamId) -> Option<Op> {
        if !self.ready(id) {
            return None;
        }
        let stream = self.streams.get_mut(&id)?;
        stream.running = true;
        stream.queue.pop_front()
    }

    /// Ends the running operation at the given time; `record` is the event that it passed.
    pub(super) fn finish(&mut self, id: StreamId, record: Option<(EventId, u64)>, now: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.running = false;
            stream.finished += 1;
        }
        if let Some((event_id, number)) = record
            && let Some(event) = self.events.get_mut(&event_id)
        {
            if number > event.passed {
                event.passed = number;
                event.passed_at = Some(now);
            }
            if event.destroyed && event.passed == event.recorded {
                self.events.remove(&event_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(machine: &mut Machine, stream: StreamId, now: u64) -> bool {
        match machine.start(stream) {
            Some(Op::Record { event, number }) => machine.finish(stream, Some((event, number)), now),
            Some(_) => machine.finish(stream, None, now),
            None => return false,
        }
        true
    }

    #[test]
    fn a_wait_holds_the_stream_until_the_record_it_saw() {
        let mut m = Machine::default();
        let (a, b) = (m.stream_create(), m.stream_create());
        let event = m.event_create(true);
        m.record(event, a).expect("record");
        m.wait_event(b, event).expect("wait");
        m.record(event, a).expect("record again");
        assert!(!run(&mut m, b, 1), "the wait must hold");
        assert!(run(&mut m, a, 2));
        assert!(run(&mut m, b, 3), "the first record is enough for this wait");
        assert!(!m.passed(event, "event_query").expect("query"), "the second record is still queued");
        assert!(run(&mut m, a, 4));
        assert!(m.passed(event, "event_query").expect("query"));
    }

    #[test]
    fn a_destroyed_event_still_releases_its_waiter() {
        let mut m = Machine::default();
        let (a, b) = (m.stream_create(), m.stream_create());
        let event = m.event_create(false);
        m.record(event, a).expect("record");
        m.wait_event(b, event).expect("wait");
        m.event_destroy(event).expect("destroy");
        assert!(m.event_destroy(event).is_err(), "twice is an error");
        assert!(!run(&mut m, b, 1));
        assert!(run(&mut m, a, 2));
        assert!(run(&mut m, b, 3));
    }

    #[test]
    fn elapsed_is_signed_and_needs_both_events() {
        let mut m = Machine::default();
        let s = m.stream_create();
        let (first, second, plain) = (m.event_create(true), m.event_create(true), m.event_create(false));
        m.record(first, s).expect("record");
        m.record(second, s).expect("record");
        m.record(plain, s).expect("record");
        assert_eq!(m.elapsed(first, second).expect_err("pending").kind, DriverErrorKind::NotReady);
        for now in [10, 25, 30] {
            assert!(run(&mut m, s, now));
        }
        assert_eq!(m.elapsed(first, second), Ok(15));
        assert_eq!(m.elapsed(second, first), Ok(-15));
        assert_eq!(m.elapsed(first, plain).expect_err("no timing").kind, DriverErrorKind::InvalidValue);
    }
}
