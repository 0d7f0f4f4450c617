//! What there is to tell of the snapshots.

use std::sync::{Mutex, MutexGuard, PoisonError};

use flightrec_format::control::SnapshotStatus;
use flightrec_store::snapshots::Entry;

/// The status, shared by who fires, who saves and who is asked.
#[derive(Debug, Default)]
pub struct Tally(Mutex<SnapshotStatus>);

impl Tally {
    /// Nothing taken yet. `enabled`: whether any will be.
    pub fn new(enabled: bool) -> Self {
        Self(Mutex::new(SnapshotStatus { enabled, ..SnapshotStatus::default() }))
    }

    /// As it is now.
    pub fn status(&self) -> SnapshotStatus {
        self.lock().clone()
    }

    /// Changes it.
    pub fn update(&self, change: impl FnOnce(&mut SnapshotStatus)) {
        change(&mut self.lock());
    }

    /// What the directory holds now.
    pub fn held(&self, held: &[Entry]) {
        let bytes = held.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.bytes));
        self.update(|status| {
            status.kept = u32::try_from(held.len()).unwrap_or(u32::MAX);
            status.bytes = bytes;
        });
    }

    fn lock(&self) -> MutexGuard<'_, SnapshotStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
