//! Where an export, or a page, goes: there only when it is whole.
//!
//! A directory is replaced (`--force`) only if an export made all that is in it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{OutputError, replaceable};

/// A file, or a directory, that gets its name when it is whole; without that it is removed.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    /// Where it is until then.
    part: PathBuf,
    /// Which files an export may have in a directory; `None`: it is a file.
    files: Option<fn(&str) -> bool>,
    is_kept: bool,
}

/// Where an export is until it is whole.
pub(crate) fn part(path: &Path) -> Result<PathBuf, OutputError> {
    let mut name = path.file_name().ok_or_else(|| OutputError::Name(path.into()))?.to_os_string();
    name.push(format!(".part-{}", std::process::id()));
    Ok(path.with_file_name(name))
}

impl Partial {
    /// Begins a file. What is there is replaced with `force` only; a new one is for its owner and
    /// group only, as what is recorded is sensitive.
    pub(crate) fn file(path: &Path, force: bool) -> Result<(Self, File), OutputError> {
        let partial = Self::new(path, force, None)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o640);
        let file = options
            .open(&partial.part)
            .map_err(|source| OutputError::Io { path: partial.part.clone(), source })?;
        Ok((partial, file))
    }

    /// Begins a directory, as [`Self::file`], and makes those that it is in. `files` says of a
    /// file's name whether an export of this format may have made it, `/` being after the name of
    /// a directory.
    pub(crate) fn directory(
        path: &Path,
        force: bool,
        files: fn(&str) -> bool,
    ) -> Result<Self, OutputError> {
        let partial = Self::new(path, force, Some(files))?;
        if force && path.symlink_metadata().is_ok() {
            is_export(path, files)?;
        }
        let mut builder = DirBuilder::new();
        builder.mode(0o750);
        builder
            .create(&partial.part)
            .or_else(|error| match partial.part.parent() {
                Some(parent) if error.kind() == io::ErrorKind::NotFound => {
                    DirBuilder::new().mode(0o750).recursive(true).create(parent)?;
                    builder.create(&partial.part)
                }
                _ => Err(error),
            })
            .map_err(|source| OutputError::Io { path: partial.part.clone(), source })?;
        Ok(partial)
    }

    fn new(path: &Path, force: bool, files: Option<fn(&str) -> bool>) -> Result<Self, OutputError> {
        replaceable(path, force)?;
        Ok(Self { path: path.into(), part: part(path)?, files, is_kept: false })
    }

    /// It is whole: gives it its name.
    pub(crate) fn keep(mut self) -> Result<(), OutputError> {
        let failed = |source| OutputError::Io { path: self.path.clone(), source };
        if let Some(files) = self.files
            && self.path.symlink_metadata().is_ok()
        {
            is_export(&self.path, files)?;
            fs::remove_dir_all(&self.path).map_err(failed)?;
        }
        fs::rename(&self.part, &self.path).map_err(failed)?;
        self.is_kept = true;
        Ok(())
    }
}

/// Refuses a directory with anything in it that is no export's.
fn is_export(path: &Path, files: fn(&str) -> bool) -> Result<(), OutputError> {
    let failed = |source| OutputError::Io { path: path.into(), source };
    let foreign = |name: String| OutputError::Foreign { path: path.into(), name };
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_dir = entry.file_type().map_err(failed)?.is_dir();
        let name = entry.file_name().to_string_lossy().into_owned();
        if !files(&if is_dir { format!("{name}/") } else { name.clone() }) {
            return Err(foreign(name));
        }
        if is_dir {
            is_export(&entry.path(), files)?;
        }
    }
    Ok(())
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_kept {
            // The error that led here is what is told.
            let _ = match self.files {
                Some(_) => fs::remove_dir_all(&self.part),
                None => fs::remove_file(&self.part),
            };
        }
    }
}
