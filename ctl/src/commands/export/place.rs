//! Where an export, or a page, goes: there only when it is whole.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::output::OutputError;

/// A file that gets its name when it is whole; without that it is removed.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    /// Where it is until then.
    part: PathBuf,
    is_kept: bool,
}

impl Partial {
    /// Begins a file. What is there is replaced with `force` only; a new one is for its owner and
    /// group only, as what is recorded is sensitive.
    pub(crate) fn file(path: &Path, force: bool) -> Result<(Self, File), OutputError> {
        let partial = Self::new(path, force)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o640);
        let file = options
            .open(&partial.part)
            .map_err(|source| OutputError::Io { path: partial.part.clone(), source })?;
        Ok((partial, file))
    }

    fn new(path: &Path, force: bool) -> Result<Self, OutputError> {
        if !force && path.symlink_metadata().is_ok() {
            return Err(OutputError::Exists(path.into()));
        }
        let mut name =
            path.file_name().ok_or_else(|| OutputError::Name(path.into()))?.to_os_string();
        name.push(format!(".part-{}", std::process::id()));
        Ok(Self { path: path.into(), part: path.with_file_name(name), is_kept: false })
    }

    /// It is whole: gives it its name.
    pub(crate) fn keep(mut self) -> Result<(), OutputError> {
        let failed = |source| OutputError::Io { path: self.path.clone(), source };
        fs::rename(&self.part, &self.path).map_err(failed)?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_kept {
            // The error that led here is what is told.
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Whether nothing can be replaced there, nor given a name: a pipe or a device.
pub(crate) fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| {
        let kind = metadata.file_type();
        kind.is_fifo() || kind.is_char_device() || kind.is_socket()
    })
}

/// Opens such a one.
pub(crate) fn stream(path: &Path) -> Result<File, OutputError> {
    let failed = |source: io::Error| OutputError::Io { path: path.into(), source };
    OpenOptions::new().write(true).open(path).map_err(failed)
}
