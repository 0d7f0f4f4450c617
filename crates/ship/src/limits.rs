//! How much may be uploaded: bytes a second, bytes a day; and how long the pauses are after
//! failures. Nothing here has a clock: who asks says what time it is.

use std::time::Duration;

use crate::hour::NS;

/// Bytes a second, on average.
#[derive(Debug, Clone)]
pub struct Bandwidth {
    /// Bytes a second; 0: no limit.
    rate: u64,
    /// When what was sent so far is paid for, ns of a clock that only goes on.
    paid: u64,
}

impl Bandwidth {
    /// So many bytes a second; 0: no limit.
    pub const fn new(rate: u64) -> Self {
        Self { rate, paid: 0 }
    }

    /// So many bytes are to be sent `now` (ns): how long to wait before.
    pub fn take(&mut self, bytes: u64, now: u64) -> Duration {
        if self.rate == 0 {
            return Duration::ZERO;
        }
        let wait = self.paid.saturating_sub(now);
        let takes = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
        let takes = u64::try_from(takes).unwrap_or(u64::MAX);
        self.paid = self.paid.max(now).saturating_add(takes);
        Duration::from_nanos(wait)
    }
}

/// Whether so many bytes more may be sent on a day of which `sent` are gone; 0 is no limit.
pub const fn fits(limit: u64, sent: u64, bytes: u64) -> bool {
    limit == 0 || sent.saturating_add(bytes) <= limit
}

/// How long it is from a moment (ns since 1970) to the next day, UTC.
pub fn until_tomorrow(wall: i64) -> Duration {
    let day = 24 * NS;
    Duration::from_nanos((day - wall.rem_euclid(day)) as u64)
}

/// Pauses after failures.
#[derive(Debug, Clone)]
pub struct Backoff {
    least: Duration,
    most: Duration,
    failures: u32,
}

impl Backoff {
    /// From the first pause to the longest.
    pub const fn new(least: Duration, most: Duration) -> Self {
        Self { least, most, failures: 0 }
    }

    /// It failed again: how long to wait. `random`: a number from 0 to 1, so that many machines do
    /// not come back together.
    pub fn fail(&mut self, random: f64) -> Duration {
        let doubled = self.least.saturating_mul(1 << self.failures.min(20));
        self.failures = self.failures.saturating_add(1);
        doubled.min(self.most).mul_f64(0.5 + random.clamp(0.0, 1.0))
    }

    /// It went well.
    pub const fn succeed(&mut self) {
        self.failures = 0;
    }

    /// How often it failed since it went well.
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_rate_is_kept_on_average() {
        let mut limit = Bandwidth::new(1000);
        let mut now = 5 * SECOND;
        let begun = now;
        for _ in 0..100 {
            now += limit.take(500, now).as_nanos() as u64;
        }
        // The last one is sent, and not waited for.
        assert_eq!(now - begun, 99 * SECOND / 2);
        // What was not used is not saved up.
        now += 1000 * SECOND;
        assert_eq!(limit.take(5000, now), Duration::ZERO);
        assert_eq!(limit.take(1, now), Duration::from_secs(5));
        assert_eq!(Bandwidth::new(0).take(u64::MAX, 0), Duration::ZERO);
    }

    #[test]
    fn a_day_has_so_many_bytes() {
        assert!(fits(100, 60, 40) && !fits(100, 60, 41) && fits(0, u64::MAX, u64::MAX));
        assert_eq!(until_tomorrow(0), Duration::from_hours(24));
        assert_eq!(until_tomorrow(24 * NS - 1), Duration::from_nanos(1));
        assert_eq!(until_tomorrow(25 * NS), Duration::from_hours(23));
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        let pauses: Vec<u64> = (0..8).map(|_| backoff.fail(0.5).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.failures(), 8);
        backoff.succeed();
        assert_eq!(backoff.fail(0.0), Duration::from_millis(500));
        assert_eq!(backoff.fail(1.0), Duration::from_secs(3));
    }

    proptest! {
        #[test]
        fn no_pause_is_without_bounds(random: f64, failures in 0_u32..100) {
            let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));
            let mut pause = Duration::ZERO;
            for _ in 0..=failures {
                pause = backoff.fail(if random.is_nan() { 0.0 } else { random });
            }
            prop_assert!(pause >= Duration::from_millis(500));
            prop_assert!(pause <= Duration::from_secs(450));
        }

        #[test]
        fn no_rate_is_exceeded(rate in 1_u64..1 << 40, sizes: Vec<u32>) {
            let mut limit = Bandwidth::new(rate);
            let (mut now, mut sent) = (SECOND, 0_u64);
            for size in sizes {
                now += limit.take(u64::from(size), now).as_nanos() as u64;
                let allowed = u128::from(now - SECOND) * u128::from(rate) / 1_000_000_000;
                // A nanosecond is lost by rounding for each that was sent.
                prop_assert!(u128::from(sent) <= allowed + u128::from(rate / 1000 + 100));
                sent += u64::from(size);
            }
        }
    }
}
