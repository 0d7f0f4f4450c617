//! What can go wrong between a reader and a live recording.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::meta::MetaError;

/// A live recording that can't be read.
#[derive(Debug, Error)]
pub enum LiveError {
    /// There is no such directory, or it is empty of recordings: flightd never ran, or removed its
    /// rings.
    #[error("no recording in {}: start flightd, or give its --bpffs-dir", .0.display())]
    NoRecording(PathBuf),
    /// The directory is on another kind of file system, so nothing can be pinned in it.
    #[error(
        "{} is not on a bpffs: give flightd's --bpffs-dir, or mount one with \
         `mount -t bpf bpf DIR`",
        .0.display()
    )]
    NotBpffs(PathBuf),
    /// The kernel lets only root (`CAP_BPF`) open pinned maps.
    #[error("{}: permission denied: run as root", .0.display())]
    Permission(PathBuf),
    /// A pinned object can't be opened or mapped.
    #[error("{}: {source}", .path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A map has another shape than this release gives it.
    #[error(
        "map `{map}` is not as this release makes it ({what}): use the release of the flightd \
         that records"
    )]
    Layout {
        /// Which.
        map: &'static str,
        /// What differs.
        what: String,
    },
    /// Its metadata is not readable.
    #[error(transparent)]
    Meta(#[from] MetaError),
}

impl LiveError {
    /// An I/O error at a path.
    pub(super) fn at(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission(path.into()),
            _ => Self::Open { path: path.into(), source },
        }
    }
}
