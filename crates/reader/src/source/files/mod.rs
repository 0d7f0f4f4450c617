//! Recordings in files: what flightd wrote into its state directory, copies of it, and saved
//! windows.
//!
//! [`catalog`] finds the files and sorts them by boot and session from their headers alone;
//! [`session`] reads a window of one session; [`history`](super::history) puts boots, sessions and
//! the live rings together in the order of time.

pub mod catalog;
mod checkpoints;
mod decoded;
mod edge_pages;
mod load;
pub mod name_index;
mod named;
mod names;
pub mod narrow;
pub mod pages;
pub mod pick;
mod proof;
mod select;
pub mod session;
mod stretch;
mod tables;
mod times_of_day;

use std::io;
use std::path::{Path, PathBuf};

use flightrec_store::StoreError;
use thiserror::Error;

use crate::boots::BootError;

/// Files that can't be read.
#[derive(Debug, Error)]
pub enum FilesError {
    /// Not for us.
    #[error(
        "no access to {}: join the group flightrec (and log in again), or run as root",
        .0.display()
    )]
    Permission(PathBuf),
    /// Not there.
    #[error(
        "{} does not exist: give the state directory of flightd, or a copy of it, with --store, \
         or files with --file",
        .0.display()
    )]
    Absent(PathBuf),
    /// A directory in which there is nothing.
    #[error(
        "no recording in {}: flightd writes files there while it runs (`flightctl status` says \
         whether, and where)",
        .0.display()
    )]
    Empty(PathBuf),
    /// Any other failure of the system.
    #[error("{}: {source}", .path.display())]
    Io {
        /// What could not be read.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of something else, of another release, or with nothing in it.
    #[error(transparent)]
    Store(StoreError),
    /// A boot of which there is nothing.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// More blocks than memory should hold.
    #[error(
        "the files have more than {0} blocks in all: give fewer with --file, or select less time \
         with --since and --until"
    )]
    TooManyBlocks(usize),
    /// No description of the recording, without which its pages mean nothing.
    #[error("no complete metadata are left in {}: its events can't be decoded; `flightctl verify` \
             says what is damaged", .0.display())]
    NoMeta(PathBuf),
    /// More than memory should hold.
    #[error(
        "more than {} of pages belong to one moment: the files are damaged (check them with \
         flightctl verify), or from a far larger machine; select less time with --since and \
         --until, or allow more with --memory 4GiB ({}=4GiB in the environment)",
        flightrec_format::human::bytes(*.0), crate::memory::VARIABLE
    )]
    TooMuch(u64),
}

impl FilesError {
    /// From a failure at a path.
    pub fn io(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission(path.into()),
            io::ErrorKind::NotFound => Self::Absent(path.into()),
            _ => Self::Io { path: path.into(), source },
        }
    }
}

impl From<StoreError> for FilesError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Io { path, source } => Self::io(&path, source),
            other => Self::Store(other),
        }
    }
}
