//! Names of rows: "Which text is it, and was it seen before?"
//!
//! Uses `cursor` and `limits`. Invariants: each text is kept once; the bytes of all are bounded, and texts beyond the
//! bound share one name and are counted.

use super::cursor::Text;
use super::repairs::{Loss, Repairs, Tally};
use crate::limits::MAX_OPERATOR_NAME_BYTES;
use std::collections::HashMap;
use std::sync::Arc;

/// Texts by position.
#[derive(Debug, Default)]
pub(super) struct Names {
    ids: HashMap<Arc<str>, u32>,
    pub(super) list: Vec<Arc<str>>,
    bytes: usize,
}

/// Stands for every name beyond the limit.
const BEYOND: &str = "(name beyond the limit)";

impl Names {
    /// The position of a string of the file.
    #[inline]
    pub(super) fn of(&mut self, text: Option<Text<'_>>, repairs: &mut Repairs, tally: &mut Tally) -> u32 {
        match text {
            Some(text) => {
                let text = text.decode(repairs);
                self.id(&text, tally)
            }
            None => self.id("(no name)", tally),
        }
    }

    /// The position of a text.
    #[inline]
    pub(super) fn id(&mut self, text: &str, tally: &mut Tally) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        if self.bytes + text.len() > MAX_OPERATOR_NAME_BYTES && text != BEYOND {
            tally.lost(Loss::TooManyNames);
            return self.id(BEYOND, tally);
        }
        // An entry costs more than its letters.
        self.bytes += text.len() + 64;
        let text: Arc<str> = text.into();
        let id = self.list.len() as u32;
        self.list.push(text.clone());
        self.ids.insert(text, id);
        id
    }

    /// A text by its position.
    pub(super) fn text(&self, id: u32) -> &str {
        self.list.get(id as usize).map_or("", |text| text)
    }
}
