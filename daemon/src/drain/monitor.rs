//! What the drain tells of itself: written by its thread, read by whoever answers a request for the status.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flightrec_format::control::StoreStatus;

use crate::clock;

/// The latest status of the files.
#[derive(Debug, Default)]
pub struct Monitor {
    status: Mutex<StoreStatus>,
    /// When its thread last began a turn, ns of `CLOCK_MONOTONIC`; 0: it has not yet, or there is none.
    turned: AtomicU64,
}

impl Monitor {
    /// The status, as the drain's thread gave it last.
    pub fn status(&self) -> StoreStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes it.
    pub(super) fn update(&self, change: impl FnOnce(&mut StoreStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Its thread begins another turn.
    pub(super) fn turn(&self) {
        self.turned.store(clock::mono(), Ordering::Relaxed);
    }

    /// For how long its thread has been in its present turn, sleep included; nothing where there is no thread.
    pub fn silent(&self) -> Duration {
        match self.turned.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            turned => Duration::from_nanos(clock::mono().saturating_sub(turned)),
        }
    }
}
