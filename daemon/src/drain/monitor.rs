//! What the drain tells of itself: written by its thread, read by whoever answers a request for the
//! status.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flightrec_format::control::StoreStatus;

use crate::clock;

/// The latest status of the files.
#[derive(Debug, Default)]
pub struct Monitor {
    status: Mutex<StoreStatus>,
    /// When it last got on, ns of `CLOCK_MONOTONIC`; 0: it has not yet, or there is no drain.
    beat: AtomicU64,
    /// Up to when somebody wants everything to be in the files soon, with a checkpoint after it,
    /// ns of `CLOCK_MONOTONIC`.
    wanted: AtomicU64,
}

impl Monitor {
    /// The status, as the drain's thread gave it last.
    pub fn status(&self) -> StoreStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks that everything up to a moment (ns of `CLOCK_MONOTONIC`) be in the files soon, with a
    /// checkpoint after it: within some seconds, as the status then tells.
    pub fn want(&self, until: u64) {
        self.wanted.fetch_max(until, Ordering::Relaxed);
    }

    /// What was asked for.
    pub(super) fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Changes it.
    pub(super) fn update(&self, change: impl FnOnce(&mut StoreStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Says that the drain gets on.
    pub(super) fn beat(&self) {
        self.beat.store(clock::mono(), Ordering::Relaxed);
    }

    /// When the drain last got on, ns of `CLOCK_MONOTONIC`.
    pub(super) fn last_beat(&self) -> u64 {
        self.beat.load(Ordering::Relaxed)
    }

    /// For how long the drain has not got on; nothing where there is none.
    pub fn silent(&self) -> Duration {
        match self.last_beat() {
            0 => Duration::ZERO,
            beat => Duration::from_nanos(clock::mono().saturating_sub(beat)),
        }
    }
}
