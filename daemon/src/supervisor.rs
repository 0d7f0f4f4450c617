//! What the daemon tells systemd: that it is ready, reloading, stopping, and alive.
//!
//! Without systemd (no `NOTIFY_SOCKET`) every message goes nowhere.

use std::time::Duration;

use sd_notify::NotifyState;
use tracing::warn;

/// The service manager's ear.
#[derive(Debug)]
pub struct Supervisor {
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// Asks the environment what the unit wants (`WatchdogSec=`).
    pub fn find() -> Self {
        Self { watchdog: sd_notify::watchdog_enabled() }
    }

    /// It records, and answers.
    pub fn ready() {
        tell(&[NotifyState::Ready]);
    }

    /// It reads its configuration again; [`Self::ready`] ends that.
    pub fn reloading() {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(e) => warn!("systemd could not be told of the reload: {e}"),
        }
    }

    /// It ends.
    pub fn stopping() {
        tell(&[NotifyState::Stopping]);
    }

    /// Feeds the watchdog, where the stage that has been silent the longest has been so for less
    /// than half the unit's limit. Else the daemon is killed and started anew, which a stalled
    /// stage needs.
    pub fn alive(&self, silent: Duration) {
        if self.watchdog.is_some_and(|limit| silent < limit / 2) {
            tell(&[NotifyState::Watchdog]);
        }
    }
}

fn tell(message: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(message) {
        warn!("systemd could not be told {message:?}: {e}");
    }
}
