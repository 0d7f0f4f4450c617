//! What the thread of sums tells of itself.

use std::sync::{Mutex, PoisonError};

use flightrec_format::control::SumsStatus;

/// The latest status of the sums.
#[derive(Debug, Default)]
pub struct SumsMonitor(Mutex<SumsStatus>);

impl SumsMonitor {
    /// The status, as the thread gave it last.
    pub fn status(&self) -> SumsStatus {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it.
    pub(super) fn tell(&self, status: SumsStatus) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}
