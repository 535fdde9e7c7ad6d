//! One event of a trace: "Which of its members matter?"
//!
//! Uses `cursor` and `decimal`. Invariants: members come in any order and unknown ones are passed over; of the
//! arguments only what is used is looked at; identifiers are exact.

use super::cursor::{Cursor, Role, Step, Text, Value};
use super::decimal::Number;
use super::repairs::Repairs;

/// The members of an event as they stand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event<'a> {
    pub(super) phase: u8,
    pub(super) name: Option<Text<'a>>,
    pub(super) category: Option<Text<'a>>,
    pub(super) pid: Option<Value<'a>>,
    pub(super) tid: Option<Value<'a>>,
    pub(super) ts: Option<Value<'a>>,
    pub(super) dur: Option<Value<'a>>,
    pub(super) id: Option<Value<'a>>,
    /// True where an arrow ends at the slice around it.
    pub(super) around: bool,
    pub(super) correlation: Option<u64>,
    pub(super) bytes: Option<u64>,
    /// All arguments, for the phases that need more of them.
    pub(super) args: &'a [u8],
}

impl<'a> Event<'a> {
    /// Reads one event.
    #[inline]
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Step<Event<'a>> {
        let mut event = Event::default();
        cursor.object(|cursor, key| event.member(cursor, key.raw))?;
        Ok(event)
    }

    #[inline]
    fn member(&mut self, cursor: &mut Cursor<'a>, key: &[u8]) -> Step<()> {
        if key == b"args" && cursor.next()? == b'{' {
            return self.arguments(cursor);
        }
        let value = cursor.value(Role::Value)?;
        match (key, value) {
            (b"ph", Value::Text(text)) => self.phase = if let [phase] = text.raw { *phase } else { 0 },
            (b"name", Value::Text(text)) => self.name = Some(text),
            (b"cat", Value::Text(text)) => self.category = Some(text),
            (b"pid", value) => self.pid = Some(value),
            (b"tid", value) => self.tid = Some(value),
            (b"ts", value) => self.ts = Some(value),
            (b"dur", value) => self.dur = Some(value),
            (b"id" | b"id2", value) => self.id = Some(value),
            (b"bp", Value::Text(text)) => self.around = text.raw == b"e",
            _ => {}
        }
        Ok(())
    }

    fn arguments(&mut self, cursor: &mut Cursor<'a>) -> Step<()> {
        let from = cursor.at;
        let (mut correlation, mut bytes) = (None, None);
        cursor.object(|cursor, key| {
            let value = cursor.value(Role::Value)?;
            match key.raw {
                b"correlation" => correlation = unsigned(&value),
                b"bytes" | b"Bytes" => bytes = unsigned(&value),
                _ => {}
            }
            Ok(())
        })?;
        (self.correlation, self.bytes) = (correlation, bytes);
        self.args = cursor.between(from, cursor.at);
        Ok(())
    }

    /// Calls for each argument; they were read before, so nothing is missing.
    pub(super) fn each_argument(&self, lenient: bool, mut call: impl FnMut(Text<'a>, Value<'a>)) {
        if self.args.is_empty() {
            return;
        }
        let mut cursor = Cursor::new(self.args, true);
        cursor.lenient = lenient;
        // The same bytes were read before; should they stop anyway, what was found so far counts.
        let _ = cursor.object(|cursor, key| {
            let value = cursor.value(Role::Value)?;
            call(key, value);
            Ok(())
        });
    }
}

fn unsigned(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::Text(text) => Number::whole(text.raw)?.as_u64(),
        _ => None,
    }
}

/// A number, also one in quotes, which is counted.
#[inline]
pub(super) fn number<'a>(value: Option<Value<'a>>, repairs: &mut Repairs) -> Option<Number<'a>> {
    match value? {
        Value::Number(number) => Some(number),
        Value::Text(text) => {
            let number = Number::whole(text.raw)?;
            repairs.text_numbers += 1;
            Some(number)
        }
        Value::NonFinite | Value::Word | Value::Nested(_) => None,
    }
}
