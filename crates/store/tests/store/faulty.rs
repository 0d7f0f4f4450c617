//! A disk that fails when it is told to.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use flightrec_store::disk::{Disk, Handle, Syncer, SystemDisk};

/// What fails.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// So many bytes more can be written, then this error comes; a write is cut in the middle.
    pub(crate) write: Option<(u64, i32)>,
    /// No file can be made.
    pub(crate) create: Option<i32>,
    /// Nothing can be brought to the disk.
    pub(crate) sync: Option<i32>,
    /// Bytes of the file system; `None`: as large as need be.
    pub(crate) size: Option<u64>,
    /// Bytes that others take of it.
    pub(crate) others: u64,
    /// Files made, in order.
    pub(crate) made: Vec<PathBuf>,
    /// Files deleted, in order.
    pub(crate) removed: Vec<PathBuf>,
}

/// The system's disk, with faults.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultyDisk(Arc<Mutex<Faults>>);

impl FaultyDisk {
    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.0.lock().unwrap()
    }
}

fn fail(errno: Option<i32>) -> io::Result<()> {
    errno.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
}

/// Bytes of all files below a directory.
pub(crate) fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |path: PathBuf| {
        if path.is_dir() { bytes_below(&path) } else { path.metadata().map_or(0, |m| m.len()) }
    };
    entries.map(|entry| size(entry.path())).sum()
}

impl Disk for FaultyDisk {
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        SystemDisk::default().make_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        fail(self.faults().create)?;
        let inner = SystemDisk::default().create(path)?;
        self.faults().made.push(path.into());
        Ok(Box::new(FaultyHandle { inner, disk: self.clone() }))
    }

    fn dir_syncer(&self, path: &Path) -> io::Result<Box<dyn Syncer>> {
        SystemDisk::default().dir_syncer(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.faults().removed.push(path.into());
        SystemDisk::default().remove(path)
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        let faults = self.faults();
        Ok(faults
            .size
            .map_or(u64::MAX, |size| size.saturating_sub(faults.others + bytes_below(dir))))
    }
}

#[derive(Debug)]
struct FaultyHandle {
    inner: Box<dyn Handle>,
    disk: FaultyDisk,
}

impl Write for FaultyHandle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut faults = self.disk.faults();
        let Some((left, errno)) = &mut faults.write else { return self.inner.write(bytes) };
        if *left == 0 {
            return Err(io::Error::from_raw_os_error(*errno));
        }
        let written = self.inner.write(&bytes[..bytes.len().min(*left as usize)])?;
        *left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl Handle for FaultyHandle {
    fn syncer(&self) -> io::Result<Box<dyn Syncer>> {
        Ok(Box::new(FaultySyncer { inner: self.inner.syncer()?, disk: self.disk.clone() }))
    }

    fn linked(&self) -> io::Result<bool> {
        self.inner.linked()
    }
}

#[derive(Debug)]
struct FaultySyncer {
    inner: Box<dyn Syncer>,
    disk: FaultyDisk,
}

impl Syncer for FaultySyncer {
    fn sync(&self) -> io::Result<()> {
        fail(self.disk.faults().sync)?;
        self.inner.sync()
    }
}
