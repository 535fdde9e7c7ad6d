//! Pictures: "How does it look in a document?"
//!
//! Uses `analysis`, `run` and `limits`. Invariants: the same run gives the same bytes, whatever fonts the machine has: text is
//! measured and drawn with a font inside the program; every curve is named by what was read; thinning keeps peaks.

pub mod memory;
mod png;

use crate::error::Error;
use plotters::style::{FontStyle, register_font};
use std::sync::OnceLock;

/// Family name of the font inside the program.
const FONT: &str = "sans-serif";
/// Width and height of a picture, in pixels.
const SIZE: (u32, u32) = (1200, 640);

/// A finished picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Scalable.
    pub svg: String,
    /// Pixels.
    pub png: Vec<u8>,
}

/// Makes the font known, once.
fn font() -> Result<(), Error> {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let known = *KNOWN.get_or_init(|| register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok());
    if known { Ok(()) } else { Err(failed("the font inside the program cannot be read")) }
}

fn failed(reason: impl std::fmt::Display) -> Error {
    Error::Plot { reason: reason.to_string() }
}
