//! What a fault costs: the file being written, never what is in it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::progress::Progress;
use super::state::Stats;
use super::sync::Syncing;
use super::{Current, Now, StoreWriter};
use crate::error::StoreError;

/// Why something was not written: a sentence that says what to do.
#[derive(Debug)]
pub(super) struct Fault(String);

impl Fault {
    pub(super) fn at(path: &Path, error: &io::Error) -> Self {
        let path = path.display();
        Self(match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                format!("{path}: {error}: free some space, or lower the store's limits")
            }
            io::ErrorKind::ReadOnlyFilesystem => format!("{path}: {error}: mount it for writing"),
            io::ErrorKind::PermissionDenied => {
                format!("{path}: {error}: make it writable for the recorder's user")
            }
            _ => format!("{path}: {error}"),
        })
    }

    pub(super) fn says(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Io { path, source } => Self::at(&path, &source),
            other => Self(other.to_string()),
        }
    }
}

impl StoreWriter {
    /// Gives up the file being written as it is, and waits.
    pub(super) fn failed(&mut self, fault: Fault, now: Now) {
        note(&mut self.stats, &fault);
        self.health.torn = true;
        self.health.failed(fault.0, now.mono);
        if let Some(current) = self.current.take() {
            self.abandon(current);
        }
        // What is there is looked at again before the next attempt.
        self.stale = true;
    }

    /// Looks whether what was written is still there. What somebody deleted is written again, as
    /// far as the rings still hold it.
    pub(super) fn look(&mut self, now: Now) {
        let gone = |path: &PathBuf| matches!(path.try_exists(), Ok(false));
        let (path, before) = match (&self.current, &self.predecessor) {
            (Some(current), _) => match current.file.out().linked() {
                Ok(true) => return,
                Ok(false) => (current.path.clone(), current.before.clone()),
                Err(e) => {
                    let fault = Fault::at(&current.path, &e);
                    return self.failed(fault, now);
                }
            },
            (None, Some(predecessor)) if gone(predecessor) => {
                (predecessor.clone(), Progress::default())
            }
            (None, _) => return,
        };
        let fault = Fault::at(
            &path,
            &io::Error::new(io::ErrorKind::NotFound, "was deleted, and not by the recorder"),
        );
        note(&mut self.stats, &fault);
        self.health.notice(fault.0, now.mono);
        self.current = None;
        // Where the file before it is gone too, so are probably all; one that is there may go
        // later.
        self.predecessor.take_if(|path| gone(path));
        self.progress = if self.predecessor.is_none() { Progress::default() } else { before };
        self.durable = self.durable.common(&self.progress);
        if self.syncing == Syncing::Running {
            self.syncing = Syncing::Stale;
        }
        self.stale = true;
    }

    /// Leaves a file as it is; one that holds nothing goes.
    fn abandon(&mut self, current: Current) {
        let Current { path, file, pages, .. } = current;
        if pages {
            self.unsynced.extend(file.out().syncer().ok());
            self.predecessor = Some(path);
        } else {
            drop(file);
            // Nothing but what every file begins with: it would only be litter, one more with each
            // attempt.
            let _ = self.disk.remove(&path);
            if let Some(files) = &mut self.files {
                files.retain(|file| file.path != path);
            }
        }
    }
}

fn note(stats: &mut Stats, fault: &Fault) {
    stats.faults += 1;
    stats.last_fault = Some(fault.to_string());
}
