//! Where snapshots are, and which one is meant.

use std::path::{Path, PathBuf};
use std::{fs, io};

use flightrec_store::StoreError;
use flightrec_store::snapshots::{self, Entry};
use thiserror::Error;

use super::files::FilesError;
use super::state_dir;
use crate::control::ControlError;

/// Asks for the newest one.
pub const LATEST: &str = "latest";

/// A snapshot that can't be found.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// None has the id.
    #[error(
        "there is no snapshot {id:?} in {}: `flightctl snapshots` lists those that there are",
        dir.display()
    )]
    Unknown {
        /// What was asked for.
        id: String,
        /// Where it should be.
        dir: PathBuf,
    },
    /// It does not say why it is there.
    #[error("{}: it has no reason: it is damaged, or not a snapshot", .0.display())]
    Silent(PathBuf),
    /// There is no such file.
    #[error(
        "there is no snapshot {:?}, nor a file of that name: `flightctl snapshots` lists those \
         that there are",
        .0.display()
    )]
    NoFile(PathBuf),
    /// Not one snapshot.
    #[error("{} is a directory: name a snapshot's file, or its id", .0.display())]
    Directory(PathBuf),
    /// The daemon may not be asked where it is.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The directory can't be read.
    #[error(transparent)]
    Files(#[from] FilesError),
}

impl From<StoreError> for SnapshotError {
    fn from(error: StoreError) -> Self {
        Self::Files(error.into())
    }
}

/// The directory of snapshots: in the state directory as typed, as the daemon says, or the usual
/// one.
///
/// # Errors
/// As of [`state_dir::find`].
pub fn directory(runtime_dir: &Path, state_dir: Option<&Path>) -> Result<PathBuf, SnapshotError> {
    Ok(snapshots::directory(&state_dir::find(runtime_dir, state_dir)?))
}

/// A snapshot by its id in the directory, or by its file wherever that is; and whether it is by its
/// file.
///
/// # Errors
/// There is no such snapshot, or `dir` fails.
pub fn find_any(
    dir: impl FnOnce() -> Result<PathBuf, SnapshotError>,
    asked: &str,
) -> Result<(Entry, bool), SnapshotError> {
    let path = Path::new(asked);
    // No id has a slash or a dot.
    let is_path = asked.contains(['/', '.']);
    if !is_path {
        match dir().and_then(|dir| find(&dir, asked)) {
            Err(_) if path.is_file() => {}
            found => return found.map(|entry| (entry, false)),
        }
    }
    let metadata = fs::metadata(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => SnapshotError::NoFile(path.into()),
        _ => FilesError::io(path, e).into(),
    })?;
    if metadata.is_dir() {
        return Err(SnapshotError::Directory(path.into()));
    }
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok((Entry { id, path: path.into(), bytes: metadata.len(), modified: 0 }, true))
}

/// A snapshot by its id.
///
/// # Errors
/// There is no such snapshot, or the directory can not be read.
pub fn find(dir: &Path, id: &str) -> Result<Entry, SnapshotError> {
    let unknown = || SnapshotError::Unknown { id: id.to_owned(), dir: dir.to_owned() };
    let mut entries = snapshots::list(dir)?.into_iter();
    // The newest that says why it is there.
    let is_sound = |entry: &Entry| matches!(snapshots::about(&entry.path), Ok(Some(_)));
    let found = entries.find(|entry| if id == LATEST { is_sound(entry) } else { entry.id == id });
    found.ok_or_else(unknown)
}
