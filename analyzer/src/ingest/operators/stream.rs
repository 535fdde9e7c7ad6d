//! The file as a whole: "Where are the events, and where does it break off?"
//!
//! Uses `window`, `cursor`, `event`, `build`. Invariants: events are read one by one while the bytes pass by; a broken
//! event is read again leniently, else left out and named by its byte, and reading goes on at the next one; a file
//! that ends early keeps what it has.

use super::build::Builder;
use super::cursor::{Cursor, Role, Step, Stop, Value};
use super::event::Event;
use super::repairs::Loss;
use super::window::Window;
use crate::limits::{MAX_BROKEN_EVENTS, MAX_OPERATOR_EVENTS};
use std::io::Read;

/// A place in the file and what is wrong there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) byte: u64,
    pub(super) what: &'static str,
}

/// How reading went.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Events that could not be read, and the first of them.
    pub(super) lost: u64,
    pub(super) first_lost: Option<Broken>,
    /// An event that is cut at the end.
    pub(super) cut: Option<u64>,
    /// True where the closing bracket is missing.
    pub(super) unclosed: bool,
    /// Where reading was given up.
    pub(super) stopped: Option<Broken>,
    /// True where a list of events was found.
    pub(super) has_events: bool,
}

/// Reads a trace; events go to the builder.
pub(super) struct Reader<'a, R> {
    pub(super) window: Window<R>,
    pub(super) builder: &'a mut Builder,
    pub(super) outcome: Outcome,
}

/// Reading ends here; the outcome says why.
struct End;

enum Batch {
    More,
    Closed,
    Full,
    Lost(usize, &'static str),
}

impl<R: Read> Reader<'_, R> {
    /// Reads everything.
    pub(super) fn run(&mut self) {
        // What ends reading is in the outcome.
        let _ = self.document();
    }

    fn document(&mut self) -> Result<(), End> {
        self.window.fill();
        if self.window.view().0.starts_with(b"\xef\xbb\xbf") {
            self.window.consume(3);
        }
        let first = self.step(|cursor| {
            let first = cursor.next()?;
            if !matches!(first, b'{' | b'[') {
                return Err(Stop::Bad(cursor.at, "neither an object nor a list begins here"));
            }
            cursor.at += 1;
            Ok(first)
        })?;
        if first == b'[' {
            return self.events();
        }
        while let Some(key) = self.key()? {
            match key.as_slice() {
                b"traceEvents" => {
                    self.step(|cursor| cursor.expect(b'[', "the events are no list"))?;
                    self.events()?;
                }
                b"baseTimeNanoseconds" => {
                    self.builder.trace.base_time_ns = self.step(|cursor| {
                        Ok(match cursor.value(Role::Value)? {
                            Value::Number(number) => number.as_u64(),
                            _ => None,
                        })
                    })?;
                }
                b"displayTimeUnit" => {
                    self.builder.trace.display_time_unit = self.step(|cursor| {
                        Ok(match cursor.value(Role::Value)? {
                            Value::Text(text) => Some(String::from_utf8_lossy(text.raw).into_owned()),
                            _ => None,
                        })
                    })?;
                }
                b"deviceProperties" => {
                    self.builder.trace.names_devices = true;
                    self.pass_over()?;
                }
                _ => self.pass_over()?,
            }
        }
        Ok(())
    }

    /// The next member's key; `None` at the end of the object.
    fn key(&mut self) -> Result<Option<Vec<u8>>, End> {
        self.step(|cursor| {
            loop {
                match cursor.next()? {
                    b',' => cursor.at += 1,
                    b'}' => {
                        cursor.at += 1;
                        return Ok(None);
                    }
                    _ => {
                        let key = cursor.string(Role::Key)?;
                        cursor.expect(b':', "a colon is missing")?;
                        return Ok(Some(key.raw.to_vec()));
                    }
                }
            }
        })
    }

    /// Reads something small, with as many bytes as it needs.
    fn step<T>(&mut self, read: impl Fn(&mut Cursor<'_>) -> Step<T>) -> Result<T, End> {
        loop {
            let (bytes, ended) = self.window.view();
            let mut cursor = Cursor::new(bytes, ended);
            let read = read(&mut cursor);
            let at = cursor.at;
            match read {
                Ok(value) => {
                    self.window.consume(at);
                    return Ok(value);
                }
                Err(Stop::More) if ended => {
                    self.outcome.unclosed = true;
                    return Err(End);
                }
                Err(Stop::More) if self.window.fill() => {}
                Err(Stop::More) => return self.give_up(0, "a value is longer than the limit"),
                Err(Stop::Bad(at, what)) => return self.give_up(at, what),
            }
        }
    }

    fn give_up<T>(&mut self, at: usize, what: &'static str) -> Result<T, End> {
        self.outcome.stopped = Some(Broken { byte: self.window.offset() + at as u64, what });
        Err(End)
    }

    /// Passes over a value of any size.
    fn pass_over(&mut self) -> Result<(), End> {
        let mut passing = Passing::default();
        loop {
            let (bytes, ended) = self.window.view();
            let (count, done) = passing.feed(bytes);
            self.window.consume(count);
            if done {
                return Ok(());
            }
            if ended {
                self.outcome.unclosed = true;
                return Err(End);
            }
            self.window.fill();
        }
    }

    fn events(&mut self) -> Result<(), End> {
        self.outcome.has_events = true;
        loop {
            let (bytes, ended) = self.window.view();
            let (done, batch) = batch(bytes, ended, self.builder);
            self.window.consume(done);
            match batch {
                Batch::Closed => return Ok(()),
                Batch::Full => return self.give_up(0, FULL),
                Batch::More if ended => {
                    let rest = self.window.view().0;
                    self.outcome.unclosed = true;
                    self.outcome.cut = (!rest.is_empty()).then(|| self.window.offset());
                    return Err(End);
                }
                Batch::More if self.window.fill() => {}
                Batch::More => self.skip(0, "an event is larger than the limit")?,
                Batch::Lost(at, what) => self.skip(at, what)?,
            }
        }
    }

    /// Leaves out the event at the front of the window.
    fn skip(&mut self, at: usize, what: &'static str) -> Result<(), End> {
        let byte = self.window.offset() + at as u64;
        self.outcome.lost += 1;
        self.outcome.first_lost.get_or_insert(Broken { byte, what });
        if self.outcome.lost > MAX_BROKEN_EVENTS {
            return self.give_up(at, "too many events are broken; the rest was not read");
        }
        self.window.consume(1);
        loop {
            let (bytes, ended) = self.window.view();
            let (count, found) = next_event(bytes, ended);
            self.window.consume(count);
            if found {
                return Ok(());
            }
            if ended {
                self.outcome.unclosed = true;
                return Err(End);
            }
            self.window.fill();
        }
    }
}

/// Said where the limit of events is reached.
pub(super) const FULL: &str = "more events than the limit; the rest was not read";
const _: () = assert!(MAX_OPERATOR_EVENTS < u32::MAX as u64, "events are numbered with 32 bits");

/// Reads events while there are whole ones; returns the bytes that are done with.
fn batch(bytes: &[u8], ended: bool, builder: &mut Builder) -> (usize, Batch) {
    let mut cursor = Cursor::new(bytes, ended);
    loop {
        let start = match cursor.next() {
            Ok(b',') => {
                cursor.at += 1;
                continue;
            }
            Ok(b']') => return (cursor.at + 1, Batch::Closed),
            Ok(_) => cursor.at,
            Err(_) => return (cursor.at, Batch::More),
        };
        if bytes.get(start) != Some(&b'{') {
            match cursor.value(Role::Item) {
                Ok(_) => builder.tally.lost(Loss::NotAnEvent),
                Err(Stop::More) => return (start, Batch::More),
                Err(Stop::Bad(at, what)) => return (start, Batch::Lost(at - start, what)),
            }
            continue;
        }
        match Event::read(&mut cursor) {
            Ok(event) => {
                if !builder.add(&event, std::mem::take(&mut cursor.repairs), false) {
                    return (start, Batch::Full);
                }
            }
            Err(Stop::More) => return (start, Batch::More),
            Err(Stop::Bad(at, what)) => {
                let mut again = Cursor::new(bytes, ended);
                (again.at, again.lenient) = (start, true);
                match Event::read(&mut again) {
                    Ok(event) if !builder.add(&event, again.repairs, true) => return (start, Batch::Full),
                    Ok(_) => (cursor.at, cursor.repairs) = (again.at, super::repairs::Repairs::default()),
                    Err(Stop::More) if !ended => return (start, Batch::More),
                    Err(_) => return (start, Batch::Lost(at - start, what)),
                }
            }
        }
    }
}

/// Bytes to pass over until an event, or the end of the list, seems to begin; whether one does.
fn next_event(bytes: &[u8], ended: bool) -> (usize, bool) {
    let mut from = 0;
    while let Some(found) = bytes.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == b'}')) {
        let close = from + found;
        let mut ahead = Cursor::new(bytes, ended);
        ahead.at = close + 1;
        match follows(&mut ahead) {
            Ok(Some(at)) => return (at, true),
            Ok(None) => from = close + 1,
            Err(_) if ended => from = close + 1,
            Err(_) => return (close, false),
        }
    }
    (bytes.len(), false)
}

/// After an event: a comma and the next one, or the end of the list.
fn follows(ahead: &mut Cursor<'_>) -> Step<Option<usize>> {
    match ahead.next()? {
        b',' => {
            ahead.at += 1;
            Ok((ahead.next()? == b'{').then_some(ahead.at))
        }
        b']' => {
            let at = ahead.at;
            ahead.at += 1;
            match ahead.next() {
                Ok(b',' | b'}') => Ok(Some(at)),
                Err(Stop::More) if ahead.ended => Ok(Some(at)),
                Err(stop) => Err(stop),
                Ok(_) => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// The state of passing over a value.
#[derive(Default)]
struct Passing {
    depth: usize,
    string: bool,
    escaped: bool,
}

impl Passing {
    /// Bytes that are done with, and whether the value ends there.
    fn feed(&mut self, bytes: &[u8]) -> (usize, bool) {
        for (at, byte) in bytes.iter().enumerate() {
            if self.string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.string = false;
                        if self.depth == 0 {
                            return (at + 1, true);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' | b',' if self.depth == 0 => return (at, true),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return (at + 1, true);
                    }
                }
                _ => {}
            }
        }
        (bytes.len(), false)
    }
}
