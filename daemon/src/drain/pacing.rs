//! When to look at the rings, and when to drain them.
//!
//! A round is due when a ring holds a quarter of its pages unread, or when the open pages have not
//! been drained for the configured interval. Between rounds the rings are only looked at (one
//! number each): as often as the fastest of them, as it fills now, takes for what it lacks to a
//! quarter, and often enough that an idle machine which goes wild is noticed before half a ring is
//! gone. Nothing is ever woken by an event.

use std::time::Duration;

use flightrec_format::abi::page::{Lane, PAGE_SIZE};

/// Looks are no closer than this, which bounds what they cost.
const SHORTEST: Duration = Duration::from_millis(50);
/// Nor farther apart than this.
const LONGEST: Duration = Duration::from_secs(2);
/// A round is due when a ring has more than one in so many pages unread.
const SHARE: u64 = 4;

/// What one CPU is assumed to record at most, bytes a second; it decides how long a ring may go
/// without a look, no more. A system call of 24 bytes every 250 ns (the cheapest call with both its
/// programs takes longer), a switch with its wakeup in 40 bytes every 1.6 us, a thread's birth and
/// death in 200 bytes every 50 us.
const fn surge(lane: Lane) -> u64 {
    match lane {
        Lane::Syscall => 96 << 20,
        Lane::Sched => 24 << 20,
        _ => 4 << 20,
    }
}

/// One ring, as it was seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight {
    /// Lane.
    pub(crate) lane: Lane,
    /// Its newest page.
    pub(crate) newest: u64,
    /// The page up to which it is drained.
    pub(crate) drained: u64,
    /// Pages that it has.
    pub(crate) pages: u64,
}

impl Sight {
    fn unread(&self) -> u64 {
        self.newest.saturating_sub(self.drained)
    }

    /// Unread pages at which a round is due.
    fn share(&self) -> u64 {
        (self.pages / SHARE).max(1)
    }

    /// How long until half of it would be gone at the greatest rate there is.
    fn grace(&self) -> Duration {
        let bytes = self.pages.saturating_mul(PAGE_SIZE as u64) / 2;
        Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / surge(self.lane))
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Drain now.
    pub(crate) round: bool,
    /// Then look again after this.
    pub(crate) sleep: Duration,
}

/// Remembers how fast the rings fill.
#[derive(Debug)]
pub(crate) struct Pace {
    flush: Duration,
    /// When it looked last, and the newest page of each ring then.
    before: Option<(u64, Vec<u64>)>,
}

impl Pace {
    /// `flush`: how often the open pages are drained.
    pub(crate) fn new(flush: Duration) -> Self {
        Self { flush, before: None }
    }

    /// What to do at `now` (ns of `CLOCK_MONOTONIC`), where the open pages were drained last at
    /// `flushed`. The rings come in the same order every time.
    pub(crate) fn step(&mut self, now: u64, flushed: u64, rings: &[Sight]) -> Step {
        let flush_in = self.flush.saturating_sub(Duration::from_nanos(now.saturating_sub(flushed)));
        let round = flush_in.is_zero() || rings.iter().any(|ring| ring.unread() >= ring.share());
        let mut sleep = if flush_in.is_zero() { self.flush } else { flush_in }.min(LONGEST);
        for (i, ring) in rings.iter().enumerate() {
            sleep = sleep.min(ring.grace());
            let Some((then, newest)) =
                self.before.as_ref().and_then(|(then, all)| Some((*then, *all.get(i)?)))
            else {
                continue;
            };
            let grown = ring.newest.saturating_sub(newest);
            if grown != 0 {
                let unread = if round { 0 } else { ring.unread() };
                let lacks = ring.share().saturating_sub(unread);
                let ns =
                    u128::from(lacks) * u128::from(now.saturating_sub(then)) / u128::from(grown);
                sleep = sleep.min(Duration::from_nanos(ns.min(u128::from(u64::MAX)) as u64));
            }
        }
        self.before = Some((now, rings.iter().map(|ring| ring.newest).collect()));
        Step { round, sleep: sleep.max(SHORTEST) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// 16 MiB of system calls.
    const RING: Sight = Sight { lane: Lane::Syscall, newest: 0, drained: 0, pages: 4096 };

    fn pace() -> Pace {
        Pace::new(Duration::from_secs(2))
    }

    #[test]
    fn an_idle_machine_is_looked_at_and_drained_when_the_open_pages_are_due() {
        let mut pace = pace();
        let (mut now, mut flushed, mut looks, mut rounds) = (5_000 * MS, 5_000 * MS, 0, 0);
        while now < 65_000 * MS {
            let step = pace.step(now, flushed, &[RING]);
            looks += 1;
            if step.round {
                rounds += 1;
                flushed = now;
            }
            now += step.sleep.as_nanos() as u64;
        }
        assert_eq!(rounds, 29, "every two seconds");
        assert!(looks < 60 * 15, "{looks} looks in a minute");
    }

    #[test]
    fn a_surge_is_noticed_before_half_the_ring_is_gone() {
        for (lane, pages) in [(Lane::Syscall, 4096), (Lane::Sched, 2048), (Lane::Task, 256)] {
            let step = pace().step(0, 0, &[Sight { lane, pages, ..RING }]);
            let gone = surge(lane) as f64 * step.sleep.as_secs_f64() / (pages as f64 * 4096.0);
            assert!(gone <= 0.5, "{}: {gone}", lane.name());
        }
    }

    #[test]
    fn a_quarter_is_drained_at_once() {
        let mut pace = pace();
        assert!(!pace.step(0, 0, &[Sight { newest: 1023, ..RING }]).round);
        assert!(pace.step(MS, 0, &[Sight { newest: 1024, ..RING }]).round);
        assert!(pace.step(2 * MS, 0, &[RING, Sight { newest: 5000, drained: 3976, ..RING }]).round);
    }

    #[test]
    fn it_looks_again_when_the_fastest_ring_will_have_a_quarter() {
        let mut pace = pace();
        pace.step(0, 0, &[RING, RING]);
        // 824 pages in 80 ms, and 200 more to the quarter: 19 ms, and no look is closer than 50.
        let step =
            pace.step(80 * MS, 0, &[Sight { newest: 10, ..RING }, Sight { newest: 824, ..RING }]);
        assert_eq!(step, Step { round: false, sleep: SHORTEST });
        // 800 pages in 40 ms: after a round the whole quarter is left.
        let mut pace = self::pace();
        pace.step(0, 0, &[RING]);
        let step = pace.step(60 * MS, 0, &[Sight { newest: 1040, ..RING }]);
        assert!(step.round && step.sleep > SHORTEST, "{step:?}");
    }

    #[test]
    fn the_smallest_ring_and_numbers_that_make_no_sense() {
        let mut pace = pace();
        let tiny = Sight { pages: 2, newest: 1, ..RING };
        assert_eq!(pace.step(0, 0, &[tiny]), Step { round: true, sleep: SHORTEST });
        let back = Sight { newest: 3, drained: u64::MAX, pages: u64::MAX, ..RING };
        assert!(!pace.step(0, u64::MAX, &[back]).round);
        assert!(!pace.step(u64::MAX, u64::MAX, &[back, back]).round);
    }
}
