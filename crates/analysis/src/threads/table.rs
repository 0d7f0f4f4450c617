//! What is known of each thread, in a table of bounded size.

use rustc_hash::FxHashMap;

use super::Observer;
use crate::{CallId, Interval, State, Waker};

/// Most threads that are followed.
pub(super) const TABLE_MAX: usize = 1 << 16;
/// So many threads find no place before room is looked for again.
const REFUSED_MAX: usize = TABLE_MAX / 4;
/// How long after it was woken a thread's switch away may come and still belong to the sleep that
/// the wakeup ended, ns. The work in between is done with interrupts off and takes microseconds; a
/// virtual CPU can be held up in it.
const EARLY_NS: u64 = 5_000_000;

/// A thread, with `A` as its account.
#[derive(Debug, Clone, Default)]
pub(super) struct Thread<A> {
    pub(super) account: A,
    pub(super) state: State,
    /// Since when it is in that state.
    pub(super) since: u64,
    /// Of a runnable one, who woke it. Of one that runs, who woke it last while it ran; of a
    /// blocked one, who did so just before it stopped.
    waker: Option<Waker>,
    /// Since when a runnable one waits for `cpu`; when one that runs was woken last.
    pub(super) queued: u64,
    /// The call that it is in.
    pub(super) call: Option<CallId>,
    /// The CPU on which it runs or waits, or else ran last.
    pub(super) cpu: u16,
    /// Its end was announced.
    pub(super) exits: bool,
    /// It was seen to be switched out: no switch of its own is hidden.
    pub(super) is_seen: bool,
}

/// An id and a time: which thread, and when.
type At = (u32, u64);

impl<A> Thread<A> {
    /// The interval that is not over yet.
    pub(super) fn open(&self, tid: u32, until: u64) -> Interval {
        let Self { state, since: from, call, cpu, .. } = *self;
        let waker = self.waker.filter(|_| state == State::Runnable);
        Interval { tid, state, from, until: until.max(from), waker, call, cpu }
    }

    /// Ends the present interval, and begins one in `state`.
    #[inline]
    pub(super) fn enter(
        &mut self,
        state: State,
        (tid, time): At,
        to: &mut impl Observer<Account = A>,
    ) {
        let interval = self.open(tid, time);
        to.ended(&mut self.account, &interval);
        (self.state, self.since) = (state, interval.until);
    }

    /// It runs, though it was not seen to be switched in: what it did until now is not known,
    /// unless nothing was known from the beginning of all events and it `has_run_since`.
    #[cold]
    pub(super) fn found_running(
        &mut self,
        at: At,
        cpu: u16,
        has_run_since: Option<u64>,
        to: &mut impl Observer<Account = A>,
    ) {
        if self.state == State::Unknown && has_run_since == Some(self.since) {
            (self.state, self.cpu) = (State::Running, cpu);
            return;
        }
        if self.state != State::Running {
            self.state = State::Unknown;
        }
        self.enter(State::Running, at, to);
        (self.cpu, self.waker) = (cpu, None);
    }

    /// It is switched in.
    #[inline]
    pub(super) fn start(&mut self, at: At, cpu: u16, to: &mut impl Observer<Account = A>) {
        // It was woken before it had stopped, and by nobody since: it was put back into its run
        // queue at once.
        if self.waits() && self.waker.is_some() {
            self.state = State::Runnable;
        }
        self.enter(State::Running, at, to);
        (self.cpu, self.waker) = (cpu, None);
    }

    /// It is switched out.
    #[inline]
    pub(super) fn stop(&mut self, state: State, at: At, to: &mut impl Observer<Account = A>) {
        self.enter(state, at, to);
        self.is_seen = true;
        let is_early = self.waits() && at.1.saturating_sub(self.queued) < EARLY_NS;
        self.waker = self.waker.filter(|_| is_early);
        self.queued = at.1;
    }

    /// It is woken, and last ran on `cpu`.
    #[inline]
    pub(super) fn wake(
        &mut self,
        waker: Waker,
        cpu: u16,
        (tid, time): At,
        to: &mut impl Observer<Account = A>,
    ) {
        match self.state {
            State::Unknown | State::Blocked(_) | State::Stopped(_) => {
                let waits = self.waits();
                let interval =
                    Interval { waker: Some(waker).filter(|_| waits), ..self.open(tid, time) };
                to.ended(&mut self.account, &interval);
                (self.state, self.since) = (State::Runnable, interval.until);
                (self.waker, self.queued, self.cpu) = (Some(waker), time, cpu);
            }
            // It has decided to sleep, and its switch is still to come; or it goes on.
            State::Running => (self.waker, self.queued) = (Some(waker), time),
            // Its first wakeup counts.
            State::Runnable | State::Held | State::Dead => {}
        }
    }

    /// Whether it runs on that CPU.
    #[inline]
    pub(super) fn runs_on(&self, cpu: u16) -> bool {
        self.state == State::Running && self.cpu == cpu
    }

    /// Whether it is in a run queue, and does not run.
    #[inline]
    pub(super) fn is_queued(&self) -> bool {
        matches!(self.state, State::Runnable | State::Held)
    }

    /// Whether it waits for something else than a CPU.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        matches!(self.state, State::Blocked(_) | State::Stopped(_))
    }
}

/// All threads that are followed.
#[derive(Debug, Clone)]
pub(super) struct Table<A> {
    threads: FxHashMap<u32, Thread<A>>,
    /// The state of a thread that is met for the first time has been unknown since.
    from: u64,
    /// Threads that always have a place.
    expected: Vec<u32>,
    /// Threads that found no place since room was made last.
    refused: usize,
}

impl<A: Default> Table<A> {
    pub(super) fn new(from: u64) -> Self {
        Self { threads: FxHashMap::default(), from, expected: Vec::new(), refused: 0 }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, tid: u32) -> Option<&mut Thread<A>> {
        self.threads.get_mut(&tid)
    }

    pub(super) fn get(&self, tid: u32) -> Option<&Thread<A>> {
        self.threads.get(&tid)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&u32, &mut Thread<A>)> {
        self.threads.iter_mut()
    }

    pub(super) fn clear(&mut self) {
        self.threads.clear();
    }

    /// A thread. `None`: it is an idle one, or there is no room.
    #[inline]
    pub(super) fn followed(
        &mut self,
        (tid, time): At,
        to: &mut impl Observer<Account = A>,
    ) -> Option<&mut Thread<A>> {
        if tid == 0 || self.threads.len() >= TABLE_MAX && !self.has_room((tid, time), to) {
            return None;
        }
        let since = self.from;
        let new = || Thread { since, ..Thread::default() };
        Some(self.threads.entry(tid).or_insert_with(new))
    }

    /// A thread that has been blocked since a moment, unless something is known of it already.
    pub(super) fn asleep(&mut self, tid: u32, state: State, since: u64, call: Option<CallId>) {
        if tid != 0 && self.threads.len() < TABLE_MAX / 2 {
            let new = || Thread { state, since, call, ..Thread::default() };
            self.threads.entry(tid).or_insert_with(new);
        }
    }

    /// Gives a thread up for no other.
    pub(super) fn expect(&mut self, tid: u32) {
        self.expected.push(tid);
    }

    /// Whether there is a place for a thread. For those that would find none, threads that do not
    /// run or want to are given up.
    #[cold]
    fn has_room(&mut self, (tid, time): At, to: &mut impl Observer<Account = A>) -> bool {
        if self.threads.contains_key(&tid) || self.expected.contains(&tid) {
            return true;
        }
        if !self.refused.is_multiple_of(REFUSED_MAX) {
            self.refused += 1;
            return self.threads.len() < TABLE_MAX;
        }
        let expected = std::mem::take(&mut self.expected);
        let idle = |tid: u32, thread: &Thread<A>| {
            !thread.is_queued() && thread.state != State::Running && !expected.contains(&tid)
        };
        self.part_with(idle, time, to);
        self.expected = expected;
        // Who is met again goes on from here.
        self.from = time;
        // Where that makes little room, it is not worth doing again soon.
        let room = TABLE_MAX.saturating_sub(self.threads.len());
        self.refused = usize::from(room < REFUSED_MAX);
        room != 0
    }

    /// A thread goes on under another id.
    pub(super) fn rename(&mut self, old: u32, new: u32) {
        if let Some(thread) = self.threads.remove(&old) {
            self.threads.insert(new, thread);
        }
    }

    /// A new thread. Whoever had its id has ended, at some moment before.
    pub(super) fn born(&mut self, at: At, to: &mut impl Observer<Account = A>) {
        self.reborn(at, to);
        if let Some(thread) = self.followed(at, to) {
            thread.since = at.1;
        }
    }

    /// An id is another thread's from now on. When its last bearer ended was not seen.
    pub(super) fn reborn(&mut self, at: At, to: &mut impl Observer<Account = A>) {
        if let Some(thread) = self.get_mut(at.0) {
            thread.state = State::Unknown;
            self.part(at, State::Dead, to);
        }
    }

    /// Gives up a thread, which is in `state` now.
    pub(super) fn part(&mut self, at: At, state: State, to: &mut impl Observer<Account = A>) {
        if let Some(mut thread) = self.threads.remove(&at.0) {
            thread.enter(state, at, to);
            to.gone(at.0, thread.account, state, at.1);
        }
    }

    /// Gives up threads whose end was announced, and which are not seen to run.
    pub(super) fn part_with_exited(&mut self, time: u64, to: &mut impl Observer<Account = A>) {
        self.part_with(|_, thread| thread.exits && thread.state != State::Running, time, to);
    }

    fn part_with(
        &mut self,
        which: impl Fn(u32, &Thread<A>) -> bool,
        time: u64,
        to: &mut impl Observer<Account = A>,
    ) {
        let gone = self.threads.extract_if(|tid, thread| which(*tid, thread));
        for (tid, mut thread) in gone {
            let state = if thread.exits { State::Dead } else { thread.state };
            thread.enter(state, (tid, time), to);
            to.gone(tid, thread.account, state, time);
        }
    }
}
