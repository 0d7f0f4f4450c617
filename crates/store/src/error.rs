//! What can't be opened at all.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a file, or a directory of files, can't be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was to be opened.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something else than a recording, or nothing of it is left.
    #[error("{}: no recording: neither a header nor a block of one is in it", path.display())]
    NoRecording {
        /// The file.
        path: PathBuf,
    },
    /// Written by a newer release in a way that this one would misread.
    #[error(
        "{}: needs features that this release does not have (incompatible bits {bits}): use the \
         flightctl of the release that recorded it, or a later one",
        path.display()
    )]
    Features {
        /// The file.
        path: PathBuf,
        /// Numbers of the unknown bits.
        bits: String,
    },
}

impl StoreError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| StoreError::Io { path: path.to_owned(), source }
    }
}
