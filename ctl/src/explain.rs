//! `--explain`: how much of a recording was read for an answer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use flightrec_format::human::{bytes, counted};
use rustc_hash::FxHashSet;

/// What is read; `None`: nobody asks.
static READ: Mutex<Option<Read>> = Mutex::new(None);

/// What was read so far.
#[derive(Debug, Default)]
struct Read {
    files: BTreeMap<PathBuf, File>,
    /// Bytes of blocks that were read for their checksums alone.
    checked: u64,
}

/// A file of a recording.
#[derive(Debug, Default)]
struct File {
    /// Blocks of pages in it, and their bytes.
    blocks: u64,
    bytes: u64,
    /// Where the blocks begin that were decoded, and the bytes of these.
    decoded: FxHashSet<u64>,
    decoded_bytes: u64,
}

/// An answer that is being made.
#[derive(Debug)]
pub(crate) struct Explain {
    start: Instant,
}

/// From now on, counts what is read.
pub(crate) fn begin() -> Explain {
    *READ.lock().unwrap_or_else(PoisonError::into_inner) = Some(Read::default());
    Explain { start: Instant::now() }
}

impl Explain {
    /// What was read since, in a line.
    pub(crate) fn line(&self) -> String {
        let took = self.start.elapsed().as_secs_f64();
        let read = READ.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        format!("read: {}; {took:.3} s", read.line())
    }
}

/// A file is open, with so many blocks of pages, which take so many bytes.
pub(crate) fn opens(file: &Path, blocks: u64, bytes: u64) {
    with(|read| {
        let of = read.files.entry(file.into()).or_default();
        (of.blocks, of.bytes) = (blocks, bytes);
    });
}

/// All blocks of a file are read.
pub(crate) fn reads_all(file: &Path, blocks: u64, bytes: u64) {
    opens(file, blocks, bytes);
    with(|read| {
        if let Some(of) = read.files.get_mut(file) {
            (of.decoded, of.decoded_bytes) = ((0..blocks).collect(), bytes);
        }
    });
}

/// The block at an offset of a file is decoded, of so many bytes.
pub(crate) fn decodes(file: &Path, offset: u64, bytes: u64) {
    with(|read| {
        if let Some(of) = read.files.get_mut(file)
            && of.decoded.insert(offset)
        {
            of.decoded_bytes += bytes;
        }
    });
}

/// So many bytes of blocks are read for their checksums alone.
pub(crate) fn checks(bytes: u64) {
    with(|read| read.checked += bytes);
}

fn with(add: impl FnOnce(&mut Read)) {
    if let Some(read) = &mut *READ.lock().unwrap_or_else(PoisonError::into_inner) {
        add(read);
    }
}

impl Read {
    fn line(&self) -> String {
        if self.files.is_empty() {
            return "no block of a file".into();
        }
        let sum = |of: fn(&File) -> u64| self.files.values().map(of).sum::<u64>();
        let (there, all) = (sum(|of| of.blocks), sum(|of| of.bytes));
        let (decoded, read) = (sum(|of| of.decoded.len() as u64), sum(|of| of.decoded_bytes));
        let (blocks, files) = (counted(there, "block"), counted(self.files.len() as u64, "file"));
        let checked = match self.checked {
            0 => String::new(),
            checked => format!("; the checksums of {}", bytes(checked)),
        };
        format!("{decoded} of {blocks} ({} of {}) in {files}{checked}", bytes(read), bytes(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_counts_once() {
        let file = |decoded: &[u64]| File {
            blocks: 2000,
            bytes: 8 << 20,
            decoded: decoded.iter().copied().collect(),
            decoded_bytes: 4096 * decoded.len() as u64,
        };
        let files = [("a".into(), file(&[96])), ("b".into(), file(&[96, 4096]))].into();
        let read = Read { files, checked: 0 };
        assert_eq!(read.line(), "3 of 4000 blocks (12 KiB of 16 MiB) in 2 files");
        assert_eq!(
            Read { checked: 1 << 20, ..read }.line().split_once("; ").unwrap().1,
            "the checksums of 1 MiB"
        );
        assert_eq!(Read::default().line(), "no block of a file");
    }
}
