//! Wall time that is not fooled by a clock that is set wrong and right again: for the age of files,
//! which are gone when they were deleted.

use super::Now;

/// A step of the wall clock that is no drift, ns.
const STEP: i64 = 3_600_000_000_000;
/// How long a step forward must last until it is believed, ns.
const TRUST: u64 = 3_600_000_000_000;

/// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, as it is believed.
#[derive(Debug, Default)]
pub(super) struct Clock {
    offset: Option<i64>,
    /// Since when it has been further ahead (ns of `CLOCK_MONOTONIC`).
    ahead: Option<u64>,
}

impl Clock {
    /// Looks at the clocks.
    pub(super) fn look(&mut self, now: Now) {
        let offset = now.wall.saturating_sub(now.mono as i64);
        match self.offset {
            // Files only seem younger by a step back.
            Some(old) if offset.saturating_sub(old) > STEP => {
                let since = *self.ahead.get_or_insert(now.mono);
                if now.mono.saturating_sub(since) < TRUST {
                    return;
                }
            }
            _ => {}
        }
        (self.offset, self.ahead) = (Some(offset), None);
    }

    /// Wall time, ns since 1970.
    pub(super) fn wall(&self, now: Now) -> i64 {
        self.offset.map_or(now.wall, |offset| offset.saturating_add(now.mono as i64))
    }
}
