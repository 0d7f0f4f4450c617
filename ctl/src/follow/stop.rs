//! When to end: a signal, a time, or that nobody reads the output any more.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Longest sleep at a time: how soon a signal is noticed.
const NAP: Duration = Duration::from_millis(50);

/// The end of a command that goes on until it is told.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    signal: Arc<AtomicBool>,
    deadline: Option<Instant>,
    ends_with_output: bool,
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
            ends_with_output: false,
        }
    }

    /// Also when nobody reads standard output any more, though nothing is written: else a command
    /// of which nothing comes stays behind on another host when the connection is gone.
    #[must_use]
    pub fn or_without_reader(self) -> Self {
        Self { ends_with_output: true, ..self }
    }

    /// Whether a signal came.
    pub fn signalled(&self) -> bool {
        self.signal.load(Ordering::Relaxed)
    }

    /// Whether to end.
    pub fn reached(&self) -> bool {
        self.signalled()
            || self.ends_with_output && output_is_gone()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
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

/// Whether nobody reads standard output any more: a pipe, a connection or a terminal whose other
/// end is closed.
pub fn output_is_gone() -> bool {
    wait_for_end(0)
}

/// The same, waiting for it so many ms.
pub fn wait_for_end(ms: u8) -> bool {
    is_gone(io::stdout(), ms)
}

fn is_gone(output: impl AsFd, ms: u8) -> bool {
    // Without events that are asked for: the end is told nevertheless.
    let mut fds = [PollFd::new(output.as_fd(), PollFlags::empty())];
    let end = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    poll(&mut fds, PollTimeout::from(ms)).is_ok_and(|n| n > 0)
        && fds[0].revents().is_some_and(|events| events.intersects(end))
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

    #[test]
    fn a_pipe_without_a_reader_is_gone() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(!is_gone(&writer, 0));
        drop(reader);
        assert!(is_gone(&writer, 0));
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!is_gone(&ours, 0));
        drop(theirs);
        assert!(is_gone(&ours, 0));
        assert!(!is_gone(std::fs::File::open("/dev/null").unwrap(), 0));
    }
}
