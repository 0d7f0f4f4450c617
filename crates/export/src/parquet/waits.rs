//! Waits, from the states of threads.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use flightrec_analysis::{Interval, Observer, State, Threads};
use flightrec_format::abi::record::switch;
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_format::ring::Gap;

/// Most gaps that are waited for, and most threads that wait for I/O.
const WAITING_MAX: usize = 65_536;

/// A wait that is over, or that the recording ends in.
#[derive(Debug, Clone)]
pub(super) struct Wait {
    pub(super) interval: Interval,
    pub(super) io: bool,
    /// The function of the kernel in which it was.
    pub(super) function: Option<Box<str>>,
    pub(super) has_end: bool,
}

/// What all threads wait for.
pub(super) struct Waits {
    threads: Threads<Account>,
    found: Found,
    /// Gaps whose beginning is still to come.
    gaps: VecDeque<Gap>,
    last: u64,
}

/// The last wait of a thread: its stack comes when it runs again.
#[derive(Debug, Default)]
struct Account(Option<Wait>);

#[derive(Default)]
struct Found {
    waits: Vec<Wait>,
    /// Threads that sleep for I/O.
    io: FxHashSet<u32>,
}

impl Found {
    fn wait(&mut self, interval: &Interval, has_end: bool) -> Option<Wait> {
        let is_wait = matches!(
            interval.state,
            State::Blocked(_) | State::Stopped(_) | State::Runnable | State::Held
        );
        let io = matches!(interval.state, State::Blocked(_)) && self.io.remove(&interval.tid);
        (is_wait && interval.ns() != 0).then_some(Wait {
            interval: *interval,
            io,
            function: None,
            has_end,
        })
    }
}

impl Observer for Found {
    type Account = Account;

    fn ended(&mut self, account: &mut Account, interval: &Interval) {
        let wait = self.wait(interval, true);
        if matches!(interval.state, State::Runnable | State::Held) {
            // Who slept before it waited for a CPU is still to be told where.
            self.waits.extend(wait);
        } else {
            self.waits.extend(account.0.take());
            account.0 = wait;
        }
    }

    fn gone(&mut self, _tid: u32, account: Account, _state: State, _now: u64) {
        self.waits.extend(account.0);
    }
}

impl Waits {
    /// Of a recording, from a moment on.
    pub(super) fn new(meta: &Meta, from: u64) -> Self {
        let mut threads = Threads::new(from, false);
        threads.know(meta);
        Self { threads, found: Found::default(), gaps: VecDeque::new(), last: from }
    }

    pub(super) fn gap(&mut self, gap: &Gap) {
        if self.gaps.len() < WAITING_MAX {
            let place = self.gaps.partition_point(|other| other.from < gap.from);
            self.gaps.insert(place, *gap);
        }
    }

    /// Takes the next event; `function`: of a stack, where the thread had waited.
    pub(super) fn take(&mut self, event: &Event, function: Option<&str>) {
        self.last = event.time;
        while let Some(gap) = self.gaps.pop_front_if(|gap| gap.begins_before(event.time)) {
            self.threads.miss(&gap, &mut self.found);
        }
        match &event.body {
            Body::Switch { prev_state, preempted, io_wait: true, .. }
                if switch::sleeps(*prev_state, *preempted) && self.found.io.len() < WAITING_MAX =>
            {
                self.found.io.insert(event.tid);
            }
            Body::Stack(_) => {
                if let Some(account) = self.threads.account(event.tid)
                    && let Some(mut wait) = account.0.take()
                {
                    wait.function = function.map(Into::into);
                    self.found.waits.push(wait);
                }
            }
            _ => {}
        }
        self.threads.take(event, &mut self.found);
    }

    /// Whether any is over.
    pub(super) fn has_any(&self) -> bool {
        !self.found.waits.is_empty()
    }

    /// Those that are over.
    pub(super) fn drain(&mut self) -> std::vec::Drain<'_, Wait> {
        self.found.waits.drain(..)
    }

    /// No more events come: also those that are not over.
    pub(super) fn settle(&mut self) {
        let Self { threads, found, last, .. } = self;
        threads.settle(*last, |account, interval| {
            found.waits.extend(account.0.take());
            let wait = found.wait(interval, false);
            found.waits.extend(wait);
        });
    }
}
