//! What threads did, stretch by stretch, each wait with the stack that comes after it.
//!
//! The recorder takes the kernel stack of a long wait when the thread runs again. So a wait is held
//! back until its thread has run: it is given then, with its stack if there is one.

mod runs;
#[cfg(test)]
mod tests;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::stack::Status;
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_format::ring::Gap;

use crate::{CallId, Interval, Observer, State, Threads};

pub use self::runs::Ran;
use self::runs::{Moves, Runs};

/// A stretch of time that a thread spent in one state. `T` is what was told of its system call when
/// that began.
#[derive(Debug, Clone)]
pub struct Stretch<T> {
    /// The thread, its state, from when and until when.
    pub interval: Interval,
    /// What was told of the system call that it was in.
    pub told: Option<T>,
    /// Of a wait: where in the kernel, from the innermost frame out; empty: not known.
    pub frames: Box<[u32]>,
    /// The stack may have more frames.
    pub is_cut: bool,
    /// Of a wait: the thread stopped to wait for I/O (`task_struct.in_iowait`).
    pub io_wait: bool,
    /// Of a wait that is over: what is known of its end.
    pub woken: Woken,
    /// Of a wait for a CPU: between which CPUs the thread moved meanwhile.
    moves: Moves,
    /// It went on at the end of all events.
    pub is_open: bool,
}

/// What is known of the end of a wait, beside [`Interval::waker`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Woken {
    /// The system call in which the waker was, if it was a thread.
    pub call: Option<CallId>,
    /// The request to a disk that the thread had made and that ended just before: device and
    /// operation, as in the event.
    pub disk: Option<(u32, u32)>,
    /// The waker is a thread of the kernel whose work is to end I/O: see
    /// [`is_io_worker`](crate::reason::is_io_worker).
    pub by_io_worker: bool,
}

/// What is kept of a thread.
#[derive(Debug)]
pub struct Account<T> {
    told: Option<T>,
    /// A wait that is over; its thread has not run since, or has only just begun to.
    waited: Option<Box<Stretch<T>>>,
    /// Its end was announced: what it does then that is not seen is nothing.
    exits: bool,
    /// It stopped last to wait for I/O.
    io_wait: bool,
    /// Between which CPUs it moved in its present state.
    moves: Moves,
}

impl<T> Default for Account<T> {
    fn default() -> Self {
        Self { told: None, waited: None, exits: false, io_wait: false, moves: Moves::default() }
    }
}

impl<T: Clone> Account<T> {
    /// A stretch that was spent so.
    fn stretch(&mut self, interval: Interval, is_open: bool) -> Stretch<T> {
        let waits = matches!(interval.state, State::Blocked(_) | State::Stopped(_));
        Stretch {
            interval,
            told: self.told.clone().filter(|_| interval.call.is_some()),
            frames: Box::default(),
            is_cut: false,
            io_wait: waits && self.io_wait,
            woken: Woken::default(),
            moves: std::mem::take(&mut self.moves),
            is_open,
        }
    }
}

impl<T> Stretch<T> {
    /// The request to a disk whose end ended the wait: device and operation. `None`: there is none,
    /// or the waker is a thread, which may have done so for a reason of its own, such as a lock.
    pub fn disk(&self) -> Option<(u32, u32)> {
        let by_thread = self.interval.waker.is_some_and(|waker| waker.thread().is_some());
        let is_io = !by_thread || self.io_wait || self.woken.by_io_worker;
        self.woken.disk.filter(|_| is_io)
    }
}

/// Stretches of all threads, event by event.
#[derive(Debug)]
pub struct Stretches<T> {
    threads: Threads<Account<T>>,
    ready: Ready<T>,
}

/// Stretches that are over.
#[derive(Debug)]
struct Ready<T> {
    stretches: Vec<Stretch<T>>,
    /// Who ran on each CPU; `None`: nobody asks.
    runs: Option<Runs>,
}

impl<T: Clone> Observer for Ready<T> {
    type Account = Account<T>;

    fn ended(&mut self, account: &mut Account<T>, interval: &Interval) {
        if interval.state == State::Running
            && let Some(runs) = &mut self.runs
        {
            runs.end(interval);
        }
        if interval.ns() == 0 || account.exits && interval.state == State::Unknown {
            account.moves = Moves::default();
            return;
        }
        let stretch = account.stretch(*interval, false);
        match interval.state {
            State::Blocked(_) | State::Stopped(_) => {
                self.stretches.extend(account.waited.take().map(|waited| *waited));
                account.waited = Some(Box::new(stretch));
                return;
            }
            State::Running | State::Unknown | State::Dead => {
                self.stretches.extend(account.waited.take().map(|waited| *waited));
            }
            State::Runnable | State::Held => {}
        }
        self.stretches.push(stretch);
    }

    fn gone(&mut self, _: u32, account: Account<T>, _: State, _: u64) {
        self.stretches.extend(account.waited.map(|waited| *waited));
    }
}

impl<T: Clone> Stretches<T> {
    /// As [`Threads::new`]; `remembers_runs`: for [`Self::ran`].
    pub fn new(from: u64, is_complete: bool, remembers_runs: bool) -> Self {
        let runs = remembers_runs.then(Runs::default);
        Self {
            threads: Threads::new(from, is_complete),
            ready: Ready { stretches: Vec::new(), runs },
        }
    }

    /// As [`Threads::know`].
    pub fn know(&mut self, meta: &Meta) {
        self.threads.know(meta);
    }

    /// Takes the next event, in the order of time. `told`: what is told of the system call that
    /// begins with it.
    pub fn take(&mut self, event: &Event, told: impl FnOnce() -> T) {
        let account = self.threads.take(event, &mut self.ready);
        match &event.body {
            Body::Enter(_) => {
                if let Some(account) = account {
                    account.told = Some(told());
                }
            }
            Body::Exit { .. } => {
                if let Some(account) = account {
                    account.told = None;
                }
            }
            Body::Switch { io_wait, next, .. } => {
                if let Some(account) = self.threads.account(event.tid) {
                    account.io_wait = *io_wait;
                }
                if let Some(runs) = &mut self.ready.runs {
                    runs.begin(event.cpu, *next, event.time);
                }
            }
            Body::Migrate { thread, from, to, .. } if self.ready.runs.is_some() => {
                if let Some(account) = self.threads.account(*thread) {
                    account.moves.add(event.time, *from, *to);
                }
            }
            Body::TaskExit(exit) => {
                if let Some(account) = self.threads.account(exit.tid) {
                    account.exits = true;
                }
            }
            Body::Stack(stack) if stack.status == Status::Taken => {
                let waited = self.threads.account(event.tid).and_then(|of| of.waited.take());
                if let Some(mut waited) = waited {
                    waited.frames.clone_from(&stack.frames);
                    waited.is_cut = stack.cut;
                    self.ready.stretches.push(*waited);
                }
            }
            _ => {}
        }
    }

    /// What is known of the end of a thread's wait, right after the event that woke it.
    pub fn note_woken(&mut self, tid: u32, woken: Woken) {
        if let Some(waited) = self.threads.account(tid).and_then(|of| of.waited.as_mut()) {
            waited.woken = woken;
        }
    }

    /// The system call that a thread is in, as far as that is known.
    pub fn call(&self, tid: u32) -> Option<CallId> {
        self.threads.call_of(tid)
    }

    /// Events are missing.
    pub fn miss(&mut self, gap: &Gap) {
        if let Some(runs) = self.ready.runs.as_mut().filter(|_| gap.lane == Lane::Sched) {
            runs.lose(gap.cpu);
        }
        self.threads.miss(gap, &mut self.ready);
    }

    /// It is `now`, after all events: gives what goes on.
    pub fn settle(&mut self, now: u64) {
        let Ready { stretches, runs } = &mut self.ready;
        self.threads.settle(now, |account, interval| {
            if let Some(runs) = runs.as_mut().filter(|_| interval.state == State::Running) {
                runs.end(interval);
            }
            stretches.extend(account.waited.take().map(|waited| *waited));
            if interval.ns() != 0 && !(account.exits && interval.state == State::Unknown) {
                stretches.push(account.stretch(*interval, true));
            }
        });
    }

    /// Those that are over, or have been settled, since they were taken last.
    pub fn drain(&mut self) -> Vec<Stretch<T>> {
        std::mem::take(&mut self.ready.stretches)
    }

    /// Gives back what [`Self::drain`] gave, to be used again.
    pub fn recycle(&mut self, mut drained: Vec<Stretch<T>>) {
        if self.ready.stretches.is_empty() {
            drained.clear();
            self.ready.stretches = drained;
        }
    }

    /// Who ran between two moments on the CPUs for which a thread waited in that stretch.
    pub fn ran(&self, stretch: &Stretch<T>, from: u64, until: u64) -> Ran {
        let mut ran = Ran::default();
        if let Some(runs) = &self.ready.runs {
            for (cpu, from, until) in stretch.moves.cpus(stretch.interval.cpu, from, until) {
                runs.add(cpu, (from, until), &mut ran);
            }
        }
        ran
    }
}
