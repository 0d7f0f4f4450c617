//! `[history]`: sums of minutes that outlive the events.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Size, Span};

/// Least room that makes sense: some days of a small machine.
const SIZE_LEAST: Size = Size::mib(1);
/// Shortest time that is told by the minute at all.
const KEEP_LEAST: Duration = Duration::from_hours(1);

/// Sums of minutes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct History {
    /// Whether they are made. They are made of files, so `[store]` has to be on as well.
    pub enabled: bool,
    /// Sums that are older are deleted; 0: only for room.
    pub keep: Span,
    /// Most bytes of all of them.
    pub max_size: Size,
    /// Most CPU time that making them takes, in percent of all CPUs.
    pub max_cpu_percent: u8,
}

impl Default for History {
    fn default() -> Self {
        Self {
            enabled: true,
            keep: Span::seconds(30 * 86_400),
            max_size: Size::mib(47),
            max_cpu_percent: 1,
        }
    }
}

impl History {
    /// Refuses what can't work; names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.max_size < SIZE_LEAST {
            return Err((
                "history.max_size",
                format!("{} is too small: give at least {SIZE_LEAST}", self.max_size),
            ));
        }
        if self.keep.limit().is_some_and(|keep| keep < KEEP_LEAST) {
            return Err((
                "history.keep",
                format!("{} is too short: give at least 1h, or 0s for no limit", self.keep),
            ));
        }
        if !(1..=100).contains(&self.max_cpu_percent) {
            let message = format!("{} is not within 1 to 100", self.max_cpu_percent);
            return Err(("history.max_cpu_percent", message));
        }
        Ok(())
    }
}
