//! One daemon a directory: a lock on a file in it, with the owner's process id for the error.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use thiserror::Error;

/// Name of the lock file.
const NAME: &str = "flightd.lock";

/// The directory can't be had.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another daemon has it.
    #[error(
        "flightd is already running on {dir}{}; stop it, or give this one another directory",
        .pid.map_or_else(String::new, |p| format!(" (process {p})"))
    )]
    AlreadyRunning {
        /// The directory.
        dir: PathBuf,
        /// The other daemon, if it has written its id yet.
        pid: Option<u32>,
    },
    /// The lock file can't be made or read.
    #[error("{path}: {source}; flightd needs this directory, writable")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A directory that is this process's until the value is dropped, or the process ends however it
/// may. The file stays: removing it would let two daemons lock two files of one name.
#[derive(Debug)]
pub struct DirLock {
    _file: Flock<File>,
}

/// Locks a directory, which must exist.
pub fn lock(dir: &Path) -> Result<DirLock, LockError> {
    let path = dir.join(NAME);
    let failed = |source| LockError::Io { path: path.clone(), source };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false) // the other daemon's id is in it
        .mode(0o600) // whoever may open it may lock it
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .map_err(failed)?;
    let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => file,
        Err((mut file, Errno::EWOULDBLOCK)) => {
            return Err(LockError::AlreadyRunning { dir: dir.into(), pid: owner(&mut file) });
        }
        Err((_, errno)) => return Err(failed(errno.into())),
    };
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(failed)?;
    Ok(DirLock { _file: file })
}

/// Locks several directories; one that is named twice, by whatever path, is locked once.
pub fn lock_all(dirs: &[&Path]) -> Result<Vec<DirLock>, LockError> {
    let mut seen = Vec::new();
    let mut locks = Vec::new();
    for dir in dirs {
        let id = dir.metadata().map(|m| (m.dev(), m.ino()));
        let id = id.map_err(|source| LockError::Io { path: dir.into(), source })?;
        if !seen.contains(&id) {
            seen.push(id);
            locks.push(lock(dir)?);
        }
    }
    Ok(locks)
}

fn owner(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
