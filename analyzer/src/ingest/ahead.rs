//! Parsing ahead: "What do the next files hold, while the last ones are taken in?"
//!
//! Uses `document`. Invariants: the answers come in the files' order, whatever thread found them, so that the same input gives the same
//! output; what is held ahead is bounded in files and in bytes.

use super::document;
use super::operators;
use super::walk::Entry;
use crate::limits::{AHEAD_BYTES, AHEAD_FILES, AHEAD_THREADS};
use ddo_schemas::Finding;
use serde_json::Value;
use std::panic::resume_unwind;
use std::thread::{Scope, ScopedJoinHandle, available_parallelism};

/// What a file with the ending of JSON holds.
pub(super) enum Parsed {
    /// An operator trace, which is read as a stream.
    Trace,
    /// A document, or why it cannot be used.
    Document(Result<Value, Finding>),
}

/// Files that are parsed together.
struct Batch<'scope> {
    workers: Vec<ScopedJoinHandle<'scope, Vec<Option<Parsed>>>>,
    files: usize,
}

/// Hands every file with its contents to `take`, in order; other files than JSON have none.
pub(super) fn each(entries: &[Entry], mut take: impl FnMut(&Entry, Option<Parsed>)) {
    let threads = available_parallelism().map_or(1, usize::from).min(AHEAD_THREADS);
    std::thread::scope(|scope| {
        let mut rest = entries;
        let mut next = Batch::start(scope, &mut rest, threads);
        let mut at = entries.iter();
        while next.files > 0 {
            let ready = std::mem::replace(&mut next, Batch::start(scope, &mut rest, threads));
            at.by_ref().take(ready.files).zip(ready.finish()).for_each(|(entry, parsed)| take(entry, parsed));
        }
    });
}

impl<'scope> Batch<'scope> {
    /// Starts on the next files and takes them off the rest.
    fn start<'env>(scope: &'scope Scope<'scope, 'env>, rest: &mut &'env [Entry], threads: usize) -> Batch<'scope> {
        let mut bytes = 0_u64;
        let within = |entry: &&Entry| {
            let first = bytes == 0;
            bytes = bytes.saturating_add(entry.bytes.max(1));
            first || bytes <= AHEAD_BYTES
        };
        let files = rest.iter().take(AHEAD_FILES).take_while(within).count();
        let (own, others) = rest.split_at_checked(files).unwrap_or((&[], &[]));
        *rest = others;
        // A lone file, or a few, are not worth a thread each.
        let threads = threads.min(files.div_ceil(2));
        let work = move |worker: usize| move || own.iter().skip(worker).step_by(threads).map(parse).collect::<Vec<_>>();
        Batch { workers: (0..threads).map(|worker| scope.spawn(work(worker))).collect(), files }
    }

    /// Waits for the threads; the contents in the files' order.
    fn finish(self) -> impl Iterator<Item = Option<Parsed>> {
        let join = |worker: ScopedJoinHandle<'_, Vec<Option<Parsed>>>| match worker.join() {
            Ok(found) => found.into_iter(),
            Err(cause) => resume_unwind(cause),
        };
        let mut found: Vec<_> = self.workers.into_iter().map(join).collect();
        let threads = found.len().max(1);
        (0..self.files).map(move |at| found.get_mut(at % threads).and_then(Iterator::next).flatten())
    }
}

/// The contents of one file; `None` for other files than JSON.
pub(super) fn parse(entry: &Entry) -> Option<Parsed> {
    if entry.extension() != Some("json") || entry.is_temporary() {
        return None;
    }
    // A trace may be larger than any other document, and broken in its own ways.
    Some(if operators::recognise(entry) { Parsed::Trace } else { Parsed::Document(document::read(entry)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::walk::held;

    #[test]
    fn files_come_in_their_order_whatever_their_number() {
        for count in [0, 1, 2, 3, AHEAD_FILES, 2 * AHEAD_FILES + 1] {
            let names: Vec<String> = (0..count).map(|at| format!("{at:06}.json")).collect();
            let texts: Vec<String> = (0..count).map(|at| at.to_string()).collect();
            let contents: Vec<(&str, &[u8])> =
                names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
            let mut seen = Vec::new();
            each(&held(&contents), |entry, parsed| match parsed {
                Some(Parsed::Document(Ok(value))) => seen.push((entry.shown.clone(), value.as_u64())),
                _ => seen.push((entry.shown.clone(), None)),
            });
            let wanted: Vec<_> = names.iter().enumerate().map(|(at, name)| (name.clone(), Some(at as u64))).collect();
            assert_eq!(seen, wanted);
        }
    }

    #[test]
    fn large_files_are_batches_of_their_own_and_others_than_json_have_no_contents() {
        let large = vec![b' '; AHEAD_BYTES as usize + 1];
        let contents: [(&str, &[u8]); 4] = [("a.json", &large), ("b.json", b"1"), ("c.txt", b"1"), ("d.tmp", b"1")];
        let mut seen = Vec::new();
        each(&held(&contents), |entry, parsed| {
            let word = match parsed {
                None => "none",
                Some(Parsed::Trace) => "trace",
                Some(Parsed::Document(Ok(_))) => "document",
                Some(Parsed::Document(Err(_))) => "broken",
            };
            seen.push((entry.shown.clone(), word));
        });
        let seen: Vec<(&str, &str)> = seen.iter().map(|(name, word)| (name.as_str(), *word)).collect();
        assert_eq!(seen, [("a.json", "broken"), ("b.json", "document"), ("c.txt", "none"), ("d.tmp", "none")]);
    }
}
