//! When to end: a signal, or a time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Longest sleep at a time: how soon a signal is noticed.
const NAP: Duration = Duration::from_millis(50);

/// The end of a command that goes on until it is told.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    signal: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Stop {
    /// By Ctrl-C, SIGTERM or SIGHUP, or after `time`. A second signal ends the program at once.
    pub fn on_signals(time: Option<Duration>) -> io::Result<Self> {
        let stop = Self::after(time);
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // In this order: the first signal finds the flag not yet set.
            flag::register_conditional_default(signal, stop.signal.clone())?;
            flag::register(signal, stop.signal.clone())?;
        }
        Ok(stop)
    }

    /// After `time`, if any.
    pub fn after(time: Option<Duration>) -> Self {
        Self {
            signal: Arc::default(),
            deadline: time.and_then(|time| Instant::now().checked_add(time)),
        }
    }

    /// Whether a signal came.
    pub fn signalled(&self) -> bool {
        self.signal.load(Ordering::Relaxed)
    }

    /// Whether to end.
    pub fn reached(&self) -> bool {
        self.signalled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Sleeps until `wake`, or the end.
    pub fn sleep_until(&self, wake: Instant) {
        let wake = self.deadline.map_or(wake, |deadline| wake.min(deadline));
        loop {
            let left = wake.saturating_duration_since(Instant::now());
            if left.is_zero() || self.reached() {
                return;
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_ends_it_and_its_sleep() {
        let stop = Stop::after(Some(Duration::from_millis(20)));
        assert!(!stop.reached());
        let begun = Instant::now();
        stop.sleep_until(begun + Duration::from_mins(10));
        assert!(stop.reached() && !stop.signalled() && begun.elapsed() < Duration::from_mins(1));
    }

    #[test]
    fn without_a_time_it_sleeps_as_long_as_asked() {
        let stop = Stop::after(None);
        let wake = Instant::now() + Duration::from_millis(20);
        stop.sleep_until(wake);
        assert!(Instant::now() >= wake && !stop.reached());
    }
}
