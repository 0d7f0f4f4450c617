//! Opening what is to be read at any place: a file or a disk, and never a pipe.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use thiserror::Error;

/// Why it can't be read at any place.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Something else.
    #[error("{0}: name a file or a block device (copy the data of a pipe to a file first)")]
    Kind(&'static str),
}

impl OpenError {
    /// As an error of the system, with the same words.
    pub fn into_io(self) -> io::Error {
        match self {
            Self::Io(e) => e,
            kind @ Self::Kind(_) => io::Error::new(io::ErrorKind::InvalidInput, kind.to_string()),
        }
    }
}

/// Opens a regular file (as `/proc/vmcore` is by its mode) or a block device for reading. A pipe
/// that nobody writes to is not waited for.
pub fn open(path: &Path) -> Result<File, OpenError> {
    // Of no meaning for files and disks; a FIFO opens at once, a terminal does not become the
    // process's own.
    let opened =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let file = match opened {
        Ok(file) => file,
        // A socket's name.
        Err(e) if e.raw_os_error() == Some(libc::ENXIO) => {
            return Err(OpenError::Kind("a socket, or no such device"));
        }
        Err(e) => return Err(e.into()),
    };
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() {
        return Ok(file);
    }
    Err(OpenError::Kind(if kind.is_fifo() {
        "a pipe"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else {
        "a socket, or something else"
    }))
}

/// The first stretch of a file of `size` bytes, at `from` or after, that is no hole: from where to
/// where. `None`: there is none. Holes read as zeros, and may be a thousand times what is in the
/// file. Threads may ask at a time.
pub fn data(file: &File, from: u64, size: u64) -> Option<(u64, u64)> {
    let from = Some(from).filter(|from| *from < size)?;
    // A disk, or a file system that does not tell: all of it.
    let Ok(start) = i64::try_from(from) else { return Some((from, size)) };
    match seek(file, start, libc::SEEK_DATA) {
        Ok(begin) => {
            let end = seek(file, begin, libc::SEEK_HOLE).ok().map(|end| end as u64);
            let end = end.filter(|end| *end > begin as u64).unwrap_or(size).min(size);
            Some((begin as u64, end)).filter(|(begin, end)| begin < end)
        }
        Err(e) if e.raw_os_error() == Some(libc::ENXIO) => None,
        Err(_) => Some((from, size)),
    }
}

fn seek(file: &File, to: i64, whence: i32) -> io::Result<i64> {
    // SAFETY: a descriptor that `file` holds open, and plain numbers.
    let at = unsafe { libc::lseek(file.as_raw_fd(), to, whence) };
    if at < 0 { Err(io::Error::last_os_error()) } else { Ok(at) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn files_are_opened_and_pipes_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (file, pipe) = (dir.path().join("file"), dir.path().join("pipe"));
        std::fs::write(&file, "x").unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(open(&file).is_ok());
        let (send, answer) = mpsc::channel();
        std::thread::spawn(move || send.send(open(&pipe).unwrap_err().to_string()));
        let said = answer.recv_timeout(Duration::from_secs(10)).expect("it waits for a writer");
        assert!(said.starts_with("a pipe: name a file"), "{said}");
        for (path, kind) in
            [(dir.path(), "a directory"), (Path::new("/dev/null"), "a character device")]
        {
            assert!(open(path).unwrap_err().to_string().starts_with(kind), "{kind}");
        }
        let none = open(&dir.path().join("none"));
        assert!(matches!(none, Err(OpenError::Io(e)) if e.kind() == io::ErrorKind::NotFound));
    }

    #[test]
    fn holes_are_passed_over() {
        let (first, second) = (1 << 20, 900 << 30);
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        for place in [first, second] {
            file.write_all_at(b"x", place).unwrap();
        }
        let mut found = Vec::new();
        let mut at = 0;
        while let Some((begin, end)) = data(&file, at, 1 << 40) {
            assert!(end - begin <= 1 << 20, "{begin} to {end}");
            found.push(begin);
            at = end;
        }
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0] <= first && found[1] <= second && second - found[1] < 1 << 20,
            "{found:?}"
        );
        assert_eq!(data(&file, second, second + 1), Some((second, second + 1)));
        assert_eq!(data(&file, 1 << 40, 1 << 40), None);
    }
}
