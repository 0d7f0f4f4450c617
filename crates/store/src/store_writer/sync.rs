//! Bringing files to the disk, away from the thread that drains the rings.

use std::io;

use super::progress::Progress;
use crate::disk::Syncer;

/// Whether a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syncing {
    /// None does.
    Idle,
    /// One does, or has not been told of yet.
    Running,
    /// One does, and files that it is about were deleted meanwhile: its success tells nothing.
    Stale,
}

/// Everything written so far, to be brought to the disk: by any thread, one at a time.
#[derive(Debug)]
pub struct SyncJob {
    pub(super) what: Vec<Box<dyn Syncer>>,
    pub(super) progress: Progress,
}

/// How it went, for [`super::StoreWriter::synced`].
#[derive(Debug)]
pub struct Synced {
    pub(super) progress: Progress,
    pub(super) result: io::Result<()>,
}

impl SyncJob {
    /// Waits for the disk.
    pub fn run(self) -> Synced {
        let result = self.what.iter().try_for_each(|what| what.sync());
        Synced { progress: self.progress, result }
    }
}
