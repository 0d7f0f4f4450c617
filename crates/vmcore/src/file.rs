//! Reading at any place, by as many threads as like.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use flightrec_format::file::{self, OpenError};

use crate::error::VmcoreError;

/// Bytes with places, of a file or of what a file stands for.
pub(crate) trait ReadAt: Send + Sync {
    /// How many there are.
    fn size(&self) -> u64;

    /// Reads at `offset`; fewer bytes than asked for only at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The first stretch at `from` or after in which there may be anything but zeros, from where
    /// to where; `None`: there is none. What a file stands for may be vastly larger than the
    /// file.
    fn data(&self, from: u64) -> Option<(u64, u64)> {
        (from < self.size()).then(|| (from, self.size()))
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Box<T> {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }

    fn data(&self, from: u64) -> Option<(u64, u64)> {
        (**self).data(from)
    }
}

/// A file as it is. Read, not mapped: copying a megabyte out of the page cache takes as long as the
/// page faults of a mapping (both 3.4 GB/s, tried side by side), `/proc/vmcore` copies anyway, and
/// a disk that fails is an error instead of a signal.
pub(crate) struct PlainFile {
    file: File,
    size: u64,
}

impl PlainFile {
    /// Opens it for reading.
    pub(crate) fn open(path: &Path) -> Result<Self, VmcoreError> {
        let mut file = file::open(path).map_err(|e| match e {
            OpenError::Io(e) => VmcoreError::Io(e),
            OpenError::Kind(kind) => VmcoreError::NotAFile(kind),
        })?;
        let metadata = file.metadata()?;
        let size = if metadata.is_file() { metadata.len() } else { file.seek(SeekFrom::End(0))? };
        Ok(Self { file, size })
    }
}

impl ReadAt for PlainFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// Holes, which read as zeros, are passed over: a sparse dump may be vastly larger than what is
    /// in it.
    fn data(&self, from: u64) -> Option<(u64, u64)> {
        file::data(&self.file, from, self.size)
    }
}

/// Exactly `N` bytes at a place; `None` where the file ends before.
pub(crate) fn exact<const N: usize>(file: &dyn ReadAt, offset: u64) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    let n = file.read_at(&mut bytes, offset)?;
    Ok((n == N).then_some(bytes))
}

/// A place in such a file that moves on, for readers that want one.
pub(crate) struct Cursor<'a> {
    pub(crate) file: &'a dyn ReadAt,
    pub(crate) at: u64,
}

impl Read for Cursor<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buf, self.at)?;
        self.at = self.at.saturating_add(n as u64);
        Ok(n)
    }
}

impl Seek for Cursor<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.file.size().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        }
        .ok_or(ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
