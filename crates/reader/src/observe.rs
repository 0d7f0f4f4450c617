//! Progress and notes while a recording is read.
//!
//! The functions that read report here, as they would to a log: that something takes a while, how
//! far it is, and what they left out. A program that wants these reports registers an [`Observer`]
//! once, with [`listen`]. Without an observer they are dropped. Nothing is ever printed.

use std::path::Path;
use std::sync::OnceLock;

use flightrec_store::{BlockRef, FileReader, Kind};

/// Receives the reports.
pub trait Observer: Sync {
    /// Something begins that may take a while. `what` names it, as in `reading the recording`. It
    /// has ended when the returned meter is dropped.
    fn begins(&self, what: &'static str) -> Box<dyn Meter>;

    /// A note for the user, one line: something was left out, or something else was used instead.
    fn note(&self, line: &str);

    /// From now on files are read, which may be of any size.
    fn reads_files(&self) {}

    /// A recording's file is open, with so many blocks of pages, which take so many bytes.
    fn opens(&self, _file: &Path, _blocks: u64, _bytes: u64) {}

    /// The block at an offset of a file is decoded, of so many bytes.
    fn decodes(&self, _file: &Path, _offset: u64, _bytes: u64) {}

    /// So many bytes of blocks that are not needed are read for their checksums.
    fn checks(&self, _bytes: u64) {}
}

/// Counts the progress of one thing that takes a while.
pub trait Meter: Send + Sync {
    /// Adds `bytes` to what is done.
    fn add(&self, bytes: u64);
}

static OBSERVER: OnceLock<&'static dyn Observer> = OnceLock::new();

/// Sends all reports to `observer` from now on. Returns `false` if an observer is registered
/// already. That one stays.
pub fn listen(observer: &'static dyn Observer) -> bool {
    OBSERVER.set(observer).is_ok()
}

/// A meter where there is no observer.
struct Nobody;

impl Meter for Nobody {
    fn add(&self, _bytes: u64) {}
}

/// Reports that something begins that may take a while.
pub fn begins(what: &'static str) -> Box<dyn Meter> {
    OBSERVER.get().map_or_else(|| Box::new(Nobody) as Box<dyn Meter>, |told| told.begins(what))
}

/// Reports a note for the user.
pub fn note(line: &str) {
    if let Some(told) = OBSERVER.get() {
        told.note(line);
    }
}

/// Reports that a file is open.
pub(crate) fn opens(reader: &FileReader) {
    if let Some(told) = OBSERVER.get() {
        let pages = || reader.of(Kind::Pages);
        let bytes = pages().map(|block| u64::from(block.header.data_len)).sum();
        told.opens(reader.path(), pages().count() as u64, bytes);
    }
}

/// Reports that a block is decoded.
pub(crate) fn decodes(reader: &FileReader, block: &BlockRef) {
    if let Some(told) = OBSERVER.get() {
        told.decodes(reader.path(), block.offset, block.header.data_len.into());
    }
}

/// Reports that a block is read for its checksum.
pub(crate) fn checks(block: &BlockRef) {
    if let Some(told) = OBSERVER.get() {
        told.checks(block.header.data_len.into());
    }
}

/// Reports that files are read from now on.
pub fn reads_files() {
    if let Some(told) = OBSERVER.get() {
        told.reads_files();
    }
}
