//! Files that are there whole, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Longest file of state that is read: far more than any is.
const STATE_MAX: u64 = 64 << 20;

/// A file of flight-ship's own that can't be read or written.
#[derive(Debug, Error)]
#[error("{path}: {source}")]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Why not.
    pub source: io::Error,
}

impl FileError {
    /// Of a file.
    pub fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self { path, source }
    }

    /// Whether there is no room for it.
    pub fn is_full(&self) -> bool {
        is_full(&self.source)
    }
}

/// Whether an error says that a file system, or a quota, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Writes a file in place of what is there: a crash at any moment leaves one of the two.
///
/// # Errors
/// The file system's; what was there is there then.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.new"));
    let written = write_new(&new, bytes).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // What is wrong is told already.
        drop(fs::remove_file(&new));
    }
    written
        .and_then(|()| sync_dir(path.parent().unwrap_or(Path::new("/"))))
        .map_err(FileError::of(path))
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o640).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the names in a directory last.
///
/// # Errors
/// The file system's.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Reads a file of state; `None`: it is not there.
///
/// # Errors
/// The file system's, or that it is too long to be one.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(FileError::of(path)(e)),
        Ok(file) => {
            file.take(STATE_MAX + 1).read_to_end(&mut bytes).map_err(FileError::of(path))?
        }
    };
    if bytes.len() as u64 > STATE_MAX {
        return Err(FileError::of(path)(io::Error::other(
            "it is longer than flight-ship writes it",
        )));
    }
    Ok(Some(bytes))
}

/// Makes a directory, if it is not there, for its owner and group.
///
/// # Errors
/// The file system's.
pub fn make_dir(path: &Path) -> Result<(), FileError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = fs::DirBuilder::new().recursive(true).mode(0o750).create(path);
    made.map_err(FileError::of(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_replaced_is_there_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        assert!(read(&path).unwrap().is_none());
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let error = replace(&dir.path().join("none/a"), b"").unwrap_err();
        assert!(error.to_string().contains("none/a: No such file"), "{error}");
        assert!(!error.is_full());
    }

    #[test]
    fn a_full_file_system_is_told_apart() {
        assert!(is_full(&io::Error::from_raw_os_error(libc::ENOSPC)));
        assert!(is_full(&io::Error::from_raw_os_error(libc::EDQUOT)));
        assert!(!is_full(&io::Error::from_raw_os_error(libc::EACCES)));
    }
}
