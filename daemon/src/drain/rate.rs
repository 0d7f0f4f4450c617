//! How much is written in a second: the cap on it, and the figure for the status.

use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// The figure is of about so much time.
const MEMORY: f64 = 30.0;

/// Bounds what is written, on average over a second. What is written at once is not cut: the next
/// round waits for it.
#[derive(Debug)]
pub(super) struct Cap {
    /// Bytes a second; 0: no limit.
    rate: u64,
    /// When what has been written is paid for, ns of `CLOCK_MONOTONIC`.
    paid: u64,
}

impl Cap {
    /// At most `rate` bytes a second; 0: any.
    pub(super) fn new(rate: u64) -> Self {
        Self { rate, paid: 0 }
    }

    /// So many bytes were written.
    pub(super) fn spend(&mut self, now: u64, bytes: u64) {
        if self.rate != 0 {
            let cost = u128::from(bytes) * u128::from(SECOND) / u128::from(self.rate);
            // What was not used in the last second may be used now.
            let from = self.paid.max(now.saturating_sub(SECOND));
            self.paid = from.saturating_add(cost.min(u128::from(u64::MAX)) as u64);
        }
    }

    /// How long to wait before more is written.
    pub(super) fn wait(&self, now: u64) -> Duration {
        Duration::from_nanos(self.paid.saturating_sub(now))
    }
}

/// Bytes a second, over about half a minute.
#[derive(Debug)]
pub(super) struct Meter {
    begun: u64,
    at: u64,
    bytes: u64,
    rate: f64,
}

impl Meter {
    /// Begins at `now`, ns of `CLOCK_MONOTONIC`.
    pub(super) fn new(now: u64) -> Self {
        Self { begun: now, at: now, bytes: 0, rate: 0.0 }
    }

    /// The rate, where `bytes` have been written in all.
    pub(super) fn update(&mut self, now: u64, bytes: u64) -> u64 {
        let seconds = now.saturating_sub(self.at) as f64 / SECOND as f64;
        if seconds >= 0.5 {
            let newest = bytes.saturating_sub(self.bytes) as f64 / seconds;
            // At first, the mean of all that there is.
            let all = now.saturating_sub(self.begun) as f64 / SECOND as f64;
            let weight = (1.0 - (-seconds / MEMORY).exp()).max(seconds / all);
            self.rate += (newest - self.rate) * weight;
            (self.at, self.bytes) = (now, bytes);
        }
        self.rate as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_holds_on_average() {
        let mut cap = Cap::new(1000);
        let (mut now, mut written) = (100 * SECOND, 0);
        for _ in 0..500 {
            now += cap.wait(now).as_nanos() as u64;
            written += 700;
            cap.spend(now, 700);
        }
        let seconds = (now - 100 * SECOND) / SECOND;
        assert!((345..=351).contains(&seconds), "{written} bytes in {seconds} s");
    }

    #[test]
    fn idleness_is_saved_for_a_second_only() {
        let mut cap = Cap::new(1000);
        cap.spend(100 * SECOND, 1000);
        assert_eq!(cap.wait(100 * SECOND), Duration::ZERO);
        cap.spend(100 * SECOND, 1000);
        assert_eq!(cap.wait(100 * SECOND), Duration::from_secs(1));
    }

    #[test]
    fn without_a_cap_nobody_waits() {
        let mut cap = Cap::new(0);
        cap.spend(1, u64::MAX);
        assert_eq!(cap.wait(1), Duration::ZERO);
        let mut cap = Cap::new(1);
        cap.spend(1, u64::MAX);
        assert!(cap.wait(1) > Duration::from_secs(1_000_000), "no overflow");
    }

    #[test]
    fn the_meter_settles() {
        let mut meter = Meter::new(0);
        assert_eq!(meter.update(1, 1000), 0, "too early to tell");
        assert_eq!(meter.update(SECOND, 5000), 5000, "the mean, at first");
        assert_eq!(meter.update(2 * SECOND, 5000), 2500);
        let rates: Vec<u64> =
            (3..=300).map(|s| meter.update(s * SECOND, 5000 + s * 5000)).collect();
        assert!((4990..=5001).contains(rates.last().unwrap()), "{rates:?}");
        assert!(meter.update(u64::MAX, 0) < 5, "a counter that goes back is no rate");
    }
}
