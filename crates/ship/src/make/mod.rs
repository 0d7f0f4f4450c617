//! The files of an item.
//!
//! Tables and pages of snapshots are made by `flightctl`, as a process of its own: it decodes
//! everything that a file holds, which takes memory and may fail, and neither is to happen to what
//! uploads ([`tool`]). Sums are read here: an hour of them is a few hundred KiB.

pub mod snapshot;
pub mod sums;
pub mod tool;

use thiserror::Error;

use crate::files::FileError;
use tool::ToolError;

/// Why an item is not made.
#[derive(Debug, Error)]
pub enum MakeError {
    /// There is no room for it: on the file system, or in the spool.
    #[error("{0}")]
    Full(String),
    /// What it is made of is not there any more.
    #[error("{0}")]
    Gone(String),
    /// It can't be made of what is there.
    #[error("{0}")]
    Broken(String),
}

impl From<FileError> for MakeError {
    fn from(error: FileError) -> Self {
        let text = error.to_string();
        if error.is_full() { Self::Full(text) } else { Self::Broken(text) }
    }
}

impl From<ToolError> for MakeError {
    fn from(error: ToolError) -> Self {
        let text = error.to_string();
        if error.is_full() { Self::Full(text) } else { Self::Broken(text) }
    }
}
