//! `[interrupts]` and `[locks]`: how long something takes that is recorded.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Span;

/// Shortest time that may count as long: a record costs a part of a microsecond.
const LEAST: Duration = Duration::from_micros(1);

/// From when on something counts as long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Long {
    /// How long it must take at least.
    pub longer_than: Span,
}

impl Default for Long {
    fn default() -> Self {
        Self { longer_than: Span::micros(100) }
    }
}

impl Long {
    /// The same, ns, for the probes.
    pub fn ns(&self) -> u64 {
        u64::try_from(self.longer_than.duration().as_nanos()).unwrap_or(u64::MAX)
    }

    /// `key`: that of `longer_than`; `switch`: the one of `[record]` that turns all of it off.
    pub(super) fn check(
        &self,
        key: &'static str,
        switch: &str,
    ) -> Result<(), (&'static str, String)> {
        if self.longer_than.duration() < LEAST {
            let message = format!(
                "{} is too short: give at least {}, or set {switch} = false in [record]",
                self.longer_than,
                humantime::format_duration(LEAST)
            );
            return Err((key, message));
        }
        Ok(())
    }
}
