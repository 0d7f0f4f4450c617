//! The incident: a thread waits for a lock that another one holds while it writes to a disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

/// Name of the thread that holds the lock.
pub(super) const HOLDER: &str = "drill-holder";
/// Name of the thread that waits for it.
pub(super) const WAITER: &str = "drill-waiter";
/// Bytes that are written before each fsync.
const BLOCK: usize = 64 << 10;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Incident {
    /// Thread id of the one that held the lock.
    pub(super) holder: u32,
    /// Thread id of the one that waited.
    pub(super) waiter: u32,
    /// How long it waited.
    pub(super) waited: Duration,
    /// How often the other one wrote and called fsync meanwhile.
    pub(super) writes: u32,
}

/// A directory of its own, removed with all that is in it when it is dropped.
#[derive(Debug)]
pub(super) struct Place(PathBuf);

impl Place {
    /// In a directory.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        let dir = parent.join(format!("flightctl-drill-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&dir)?;
        Ok(Self(dir))
    }

    /// The file that is written.
    pub(super) fn file(&self) -> PathBuf {
        self.0.join("journal")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Id of the calling thread.
fn tid() -> u32 {
    nix::unistd::gettid().as_raw().unsigned_abs()
}

/// Writes a block and waits for the disk, until so much time has passed; how often.
fn write(file: &File, hold: Duration) -> io::Result<u32> {
    let (begin, mut writes) = (Instant::now(), 0u32);
    let block = vec![0x66; BLOCK];
    while begin.elapsed() < hold {
        file.write_all_at(&block, 0)?;
        file.sync_all()?;
        writes = writes.saturating_add(1);
    }
    Ok(writes)
}

/// Has it happen: the lock is held for so long.
///
/// # Errors
/// A thread can't be started, or the file can't be written.
pub(super) fn happen(place: &Place, hold: Duration) -> io::Result<Incident> {
    let file = &File::create_new(place.file())?;
    let lock = &Mutex::new(());
    let (say, held) = channel();
    thread::scope(|scope| {
        let holder = Builder::new().name(HOLDER.into()).spawn_scoped(scope, move || {
            let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
            // Who waits may have ended: then nobody does.
            let _ = say.send(());
            let writes = write(file, hold);
            drop(guard);
            (tid(), writes)
        })?;
        let waiter = Builder::new().name(WAITER.into()).spawn_scoped(scope, move || {
            let _ = held.recv();
            let begin = Instant::now();
            drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
            (tid(), begin.elapsed())
        })?;
        let ended = || io::Error::other("a thread ended early");
        let (waiter, waited) = waiter.join().map_err(|_| ended())?;
        let (holder, writes) = holder.join().map_err(|_| ended())?;
        Ok(Incident { holder, waiter, waited, writes: writes? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_waits_for_the_other_and_nothing_stays() {
        let parent = tempfile::tempdir().unwrap();
        let place = Place::new(parent.path()).unwrap();
        let hold = Duration::from_millis(30);
        let of = happen(&place, hold).unwrap();
        assert!(of.holder != of.waiter && of.writes > 0, "{of:?}");
        // It asked for the lock a moment after the other one had it.
        assert!(of.waited > hold / 2, "{of:?}");
        assert!(happen(&place, hold).is_err(), "the file is there");
        drop(place);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
