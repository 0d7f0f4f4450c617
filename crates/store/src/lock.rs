//! One writer a directory: it holds a lock, which goes with it, or with the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Name of the file that is locked. Only its owner may open it, so that no reader can keep the
/// writer out.
const NAME: &str = "lock";
const MODE: u32 = 0o600;

/// The lock, held.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of a directory; fails where another process holds it.
    pub(crate) fn take(state_dir: &Path) -> io::Result<Self> {
        let path = state_dir.join(NAME);
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(MODE).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => {
                let what = "another flightd writes here: stop it, or give this one a state \
                            directory of its own";
                Err(io::Error::new(io::ErrorKind::ResourceBusy, what))
            }
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    /// Whether it is still the directory's: not, where that was deleted and made anew.
    pub(crate) fn holds(&self, state_dir: &Path) -> bool {
        let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let there = std::fs::metadata(state_dir.join(NAME)).map(id);
        matches!((there, self.file.metadata().map(id)), (Ok(there), Ok(held)) if there == held)
    }
}

impl Drop for Lock {
    /// To close the file is not enough: a process that another thread is just starting has a copy
    /// of the descriptor until it runs its program, and with it the lock, which the next writer
    /// would find taken.
    fn drop(&mut self) {
        // What can't be unlocked goes when the last copy is closed.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::Lock;

    #[test]
    fn it_goes_with_its_owner_though_a_starting_process_has_a_copy() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(dir.path()).unwrap();
        let copy = lock.file.try_clone().unwrap();
        assert!(Lock::take(dir.path()).is_err());
        drop(lock);
        let next = Lock::take(dir.path()).unwrap();
        // The end of the copy takes nothing from the next owner.
        drop(copy);
        assert!(next.holds(dir.path()) && Lock::take(dir.path()).is_err());
    }
}
