//! Files of programs, read in bounded pieces: they may be anybody's.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use object::{ReadCache, ReadRef};

/// Most bytes that are read at once: a table of symbols, or of their names.
const PIECE_MAX: u64 = 64 << 20;
/// Most bytes that are read of a file in all.
pub(super) const FILE_MAX: u64 = 96 << 20;

/// A file that is read in bounded pieces, and not beyond what is left.
#[derive(Clone, Copy)]
pub(super) struct Bounded<'a> {
    pub(super) file: &'a ReadCache<File>,
    pub(super) left: &'a Cell<u64>,
}

impl Bounded<'_> {
    /// Counts what is to be read; an error where that is too much.
    fn take(self, size: u64) -> Result<(), ()> {
        let left = self.left.get().checked_sub(size).ok_or(())?;
        self.left.set(left);
        if size > PIECE_MAX { Err(()) } else { Ok(()) }
    }
}

impl<'a> ReadRef<'a> for Bounded<'a> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.take(size)?;
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.take(range.end.saturating_sub(range.start))?;
        self.file.read_bytes_at_until(range, delimiter)
    }
}

/// Opens a regular file; nothing else, which opening might change.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    let held = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    if !held.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let name = format!("/proc/self/fd/{}", held.as_raw_fd());
    OpenOptions::new().read(true).open(OsStr::from_bytes(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_a_limit() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 30).unwrap();
        let (cache, left) = (ReadCache::new(file), Cell::new(FILE_MAX));
        let data = Bounded { file: &cache, left: &left };
        assert!(data.read_bytes_at(0, 40 << 20).is_ok());
        assert!(data.read_bytes_at(1, 40 << 20).is_ok());
        assert!(data.read_bytes_at(2, 40 << 20).is_err(), "in all");
        assert!(data.read_bytes_at_until(0..u64::MAX, 1).is_err());
        assert!(data.read_bytes_at(2, 1 << 20).is_ok());
        left.set(u64::MAX);
        assert!(data.read_bytes_at(0, PIECE_MAX + 1).is_err(), "at once");
    }
}
