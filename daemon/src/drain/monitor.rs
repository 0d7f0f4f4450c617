//! What the drain tells of itself: written by its thread, read by whoever answers a request for the status.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use flightrec_format::control::StoreStatus;

/// The latest status of the files.
#[derive(Debug, Default)]
pub struct Monitor {
    status: Mutex<StoreStatus>,
    beats: AtomicU64,
}

impl Monitor {
    /// The status, as the drain's thread gave it last.
    pub fn status(&self) -> StoreStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says that the drain gets on.
    pub(super) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes whenever the drain gets on.
    pub(super) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Changes it.
    pub(super) fn update(&self, change: impl FnOnce(&mut StoreStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
