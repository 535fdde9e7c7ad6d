//! The verdict of a comparison: "What does a pipeline read?"
//!
//! Uses `analysis::diff`. Invariants: every form is made from the one declared document, so that no two of them disagree; what is
//! worse comes first; Markdown, SARIF, JUnit and annotations hold no command line and no host name; text of an input is escaped
//! for the form that it stands in.

mod annotations;
mod document;
mod junit;
mod markdown;
mod sarif;
mod text;
mod words;

pub use annotations::annotations;
pub use document::document;
pub use junit::junit;
pub use markdown::markdown;
pub use sarif::sarif;
pub use text::text;

use super::files::Folder;
use crate::error::Error;
use ddo_schemas::verdict::VerdictDocument;

/// File names of the forms that are written to a folder.
pub const FILES: [&str; 4] = ["verdict.json", "verdict.md", "verdict.junit.xml", "verdict.sarif"];

/// The document as indented JSON with a final newline.
///
/// # Errors
/// When a number in it is not finite.
pub fn json(verdict: &VerdictDocument) -> Result<String, Error> {
    pretty("the verdict", verdict)
}

fn pretty(what: &'static str, value: &impl serde::Serialize) -> Result<String, Error> {
    let mut text = serde_json::to_string_pretty(value).map_err(|source| Error::Json { what, source })?;
    text.push('\n');
    Ok(text)
}

/// Writes every form into a folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write_files(verdict: &VerdictDocument, folder: &Folder) -> Result<(), Error> {
    let forms = [json(verdict)?, markdown(verdict), junit(verdict), sarif(verdict)?];
    for (name, form) in FILES.into_iter().zip(forms) {
        folder.write(name, |out| out.write_all(form.as_bytes()).map_err(Error::Output))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
