//! Windows of time in the recording's clock.
//!
//! Events carry `CLOCK_MONOTONIC`; people mean the wall clock. The two drift apart whenever the
//! machine sleeps or its clock is set, so a time of day is looked up in the pages themselves, each
//! of which carries both clocks ([`crate::wall::WallClock`]).

use std::time::{Duration, SystemTime};

/// How far before a window the lanes are read, ns: calls that began there find their entries, and
/// most CPUs were idle at least once.
pub const LEAD_IN_NS: u64 = 2_000_000_000;
/// How far past a window they are read, ns: no wakeup waits longer.
pub const LEAD_OUT_NS: u64 = 1_000_000_000;

/// An edge of a window, once it is known what now is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Where the recording begins or ends.
    Open,
    /// ns before now, on the recording's own clock.
    Ago(u64),
    /// UNIX time in ns.
    Wall(i64),
}

impl From<SystemTime> for Edge {
    fn from(time: SystemTime) -> Self {
        let ns = |length: Duration| i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
        Self::Wall(match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => ns(since),
            Err(before) => -ns(before.duration()),
        })
    }
}

/// A duration in ns, the greatest where it is longer than 584 years.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A window of `CLOCK_MONOTONIC`, ns: from (inclusive), until (exclusive).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First ns of it.
    pub from: u64,
    /// First ns after it.
    pub until: u64,
}

impl Window {
    /// Everything.
    pub const ALL: Self = Self { from: 0, until: u64::MAX };

    /// Whether `time` is inside.
    #[inline]
    pub fn contains(&self, time: u64) -> bool {
        self.from <= time && time < self.until
    }

    /// Whether nothing can be in it.
    pub fn is_empty(&self) -> bool {
        self.from >= self.until
    }

    /// What of it is in another one.
    #[must_use]
    pub fn within(&self, other: Self) -> Self {
        Self { from: self.from.max(other.from), until: self.until.min(other.until) }
    }
}

/// The window with what is read around it.
pub fn with_leads(window: Window) -> Window {
    Window {
        from: window.from.saturating_sub(LEAD_IN_NS),
        until: window.until.saturating_add(LEAD_OUT_NS),
    }
}
