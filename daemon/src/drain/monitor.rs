//! What the drain tells of itself: written by its thread, read by whoever answers a request for the status.

use std::sync::{Mutex, PoisonError};

use flightrec_format::control::StoreStatus;

/// The latest status of the files.
#[derive(Debug, Default)]
pub struct Monitor(Mutex<StoreStatus>);

impl Monitor {
    /// The status, as the drain's thread gave it last.
    pub fn status(&self) -> StoreStatus {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes it.
    pub(super) fn update(&self, change: impl FnOnce(&mut StoreStatus)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
