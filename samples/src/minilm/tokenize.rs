//! Which tokens does a text become? The checkpoint's own WordPiece vocabulary, cut at 256 tokens.
//!
//! May use: the `tokenizers` crate, this model's extents.
//!
//! Invariants: truncation and padding stored in `tokenizer.json` (128, fixed) are overridden; a batch is padded to its longest text
//! and no further, with token 0 and a false mask.

use super::MAX_TOKENS;
use std::path::{Path, PathBuf};
use tokenizers::{Tokenizer, TruncationParams};

/// Why a text has no tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenizeError {
    /// The vocabulary could not be loaded.
    #[error("{}: the tokenizer cannot be loaded: {what}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What the tokenizer said.
        what: String,
    },
    /// A text could not be encoded.
    #[error("a text of {bytes} bytes cannot be encoded: {what}")]
    Encode {
        /// Length of the text.
        bytes: usize,
        /// What the tokenizer said.
        what: String,
    },
}

/// Loaded vocabulary and rules.
#[derive(Debug)]
pub struct Tokens(Tokenizer);

/// Texts as one padded rectangle of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Texts.
    pub batch: usize,
    /// Tokens of the longest text.
    pub seq: usize,
    /// `[batch, seq]` token ids; 0 is padding.
    pub ids: Vec<u32>,
    /// `[batch, seq]`, true for a token, false for padding.
    pub mask: Vec<bool>,
}

impl Tokens {
    /// Loads `tokenizer.json` and replaces its truncation and padding.
    ///
    /// # Errors
    /// The file cannot be read or is no tokenizer.
    pub fn load(path: &Path) -> Result<Tokens, TokenizeError> {
        let load = |e: tokenizers::Error| TokenizeError::Load { path: path.into(), what: e.to_string() };
        let mut tokenizer = Tokenizer::from_file(path).map_err(load)?;
        let limit = TruncationParams { max_length: MAX_TOKENS, ..Default::default() };
        tokenizer.with_truncation(Some(limit)).map_err(load)?;
        tokenizer.with_padding(None);
        Ok(Tokens(tokenizer))
    }

    /// Token ids of one text, `[CLS]` and `[SEP]` included, at most [`MAX_TOKENS`].
    ///
    /// # Errors
    /// The tokenizer refuses the text.
    pub fn ids(&self, text: &str) -> Result<Vec<u32>, TokenizeError> {
        let encode = |e: tokenizers::Error| TokenizeError::Encode { bytes: text.len(), what: e.to_string() };
        Ok(self.0.encode(text, true).map_err(encode)?.get_ids().to_vec())
    }

    /// Encodes texts and pads them to the longest.
    ///
    /// # Errors
    /// The tokenizer refuses a text.
    pub fn batch(&self, texts: &[impl AsRef<str>]) -> Result<Batch, TokenizeError> {
        let rows: Vec<Vec<u32>> = texts.iter().map(|text| self.ids(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(Batch::padded(&rows))
    }
}

impl Batch {
    /// Pads rows of token ids to the longest.
    pub fn padded(rows: &[Vec<u32>]) -> Batch {
        let seq = rows.iter().map(Vec::len).max().unwrap_or_default();
        let (mut ids, mut mask) = (Vec::new(), Vec::new());
        for row in rows {
            let padding = seq - row.len();
            ids.extend(row.iter().copied().chain(std::iter::repeat_n(0, padding)));
            mask.extend(row.iter().map(|_| true).chain(std::iter::repeat_n(false, padding)));
        }
        Batch { batch: rows.len(), seq, ids, mask }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_padded_to_the_longest() {
        let batch = Batch::padded(&[vec![101, 7, 102], vec![101]]);
        assert_eq!((batch.batch, batch.seq), (2, 3));
        assert_eq!(batch.ids, [101, 7, 102, 101, 0, 0]);
        assert_eq!(batch.mask, [true, true, true, true, false, false]);
        assert_eq!(Batch::padded(&[]), Batch::default());
    }
}
