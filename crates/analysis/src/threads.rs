//! The states of all threads, followed event by event.

mod cpus;
mod table;
#[cfg(test)]
mod tests;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::Act;
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_format::ring::{Gap, is_loss};

use self::cpus::Cpus;
use self::table::{Table, Thread};
use crate::{CallId, Interval, Restarts, State, Waker};

/// `TASK_INTERRUPTIBLE` (include/linux/sched.h): how a wait is counted of which only the end was
/// seen.
const TASK_INTERRUPTIBLE: u16 = 1;

/// What is done with the intervals that [`Threads`] finds.
pub trait Observer {
    /// What is kept of each thread.
    type Account: Default;

    /// A thread's state ended. Intervals of a thread come in the order of time.
    fn ended(&mut self, account: &mut Self::Account, interval: &Interval);

    /// Nothing more will come of a thread at `now`: it is [`State::Dead`], or there was no room for
    /// it any longer, in another state. [`Self::ended`] had all of its intervals.
    fn gone(&mut self, tid: u32, account: Self::Account, state: State, now: u64) {
        let _ = (tid, account, state, now);
    }
}

/// The state of each thread at the moment of the last event, and since when.
///
/// Whoever makes a system call, wakes another thread or is switched from runs. A thread's state is
/// unknown until the first event that tells it; where events of scheduling are missing
/// ([`Self::miss`]); and for all of a wait whose end shows that a switch was not seen: where the
/// thread runs without having been switched in; or, of a thread that was never seen to be switched
/// out, where its CPU runs another thread than the last one that was switched in: it may have run
/// meanwhile. (Some kernels run no BPF program in some threads, such as a sandbox's first process:
/// what switches from them is not seen.) The idle threads, id 0, are not followed.
///
/// At most 65,536 threads are followed; to make room, those that do not run or want to are given
/// up.
#[derive(Debug, Clone)]
pub struct Threads<A> {
    table: Table<A>,
    cpus: Cpus,
    restarts: Restarts,
    /// Before, no events are expected. A thread that is first met later has been unknown since.
    from: u64,
    /// Whether events of every CPU are there from that moment on.
    is_complete: bool,
    /// A thread of which nothing was heard has not run: [`Self::asleep_until_woken`], and no switches
    /// have been missing so far.
    is_whole: bool,
}

impl<A: Default> Threads<A> {
    /// No thread is known. The first event is at `from` (ns of `CLOCK_MONOTONIC`) or later;
    /// `is_complete`: and nothing is missing from then on but what [`Self::miss`] tells, so that
    /// whoever runs on a CPU at its first event has run there since.
    pub fn new(from: u64, is_complete: bool) -> Self {
        let (table, cpus, restarts) = (Table::new(from), Cpus::default(), Restarts::default());
        Self { table, cpus, restarts, from, is_complete, is_whole: false }
    }

    /// Takes the number of `restart_syscall` from a recording's metadata: a thread in that call is
    /// in the call that it goes on with. Without this, `restart_syscall` is a call of its own.
    pub fn know(&mut self, meta: &Meta) {
        self.restarts.know(meta);
    }

    /// Takes it that who is woken before anything else is heard of it was blocked from the start, if
    /// nothing is missing.
    #[must_use]
    pub fn asleep_until_woken(self) -> Self {
        Self { is_whole: self.is_complete, ..self }
    }

    /// A thread of which no event has come yet was blocked all the time, in `state` since a moment
    /// before the first event, in a call if it is in one.
    pub fn asleep(&mut self, tid: u32, state: State, since: u64, call: Option<CallId>) {
        self.table.asleep(tid, state, since, call);
    }

    /// Follows a thread as soon as it is met, and gives it up for no other.
    pub fn expect(&mut self, tid: u32) {
        self.table.expect(tid);
    }

    /// Takes the next event, in the order of time. Of the beginning or end of a system call,
    /// returns the account of its thread, if it is followed.
    #[inline]
    pub fn take(&mut self, event: &Event, to: &mut impl Observer<Account = A>) -> Option<&mut A> {
        let Event { time, cpu, tid, ref body } = *event;
        if time >= self.cpus.next_end() {
            self.end_gaps(time, to);
        }
        match body {
            Body::Enter(call) => {
                let call = self.restarts.begun(tid, CallId { nr: call.nr, abi: call.abi });
                self.call(event, Some(call), to)
            }
            Body::Exit { call, ret, .. } => {
                self.restarts.ended(tid, CallId { nr: call.nr, abi: call.abi }, *ret);
                self.call(event, None, to)
            }
            Body::Switch { prev_state, preempted, next, .. } => {
                self.switch(event, State::after(*prev_state, *preempted, *next == 0), *next, to);
                None
            }
            Body::Waking { wakee, cpu: target, new, context, .. } => {
                self.runs(cpu, tid, time, to);
                let waker = Waker { tid, context: *context };
                self.wake((waker, time), *wakee, *target, *new, to);
                None
            }
            Body::Migrate { thread, to: target, .. } => {
                self.runs(cpu, tid, time, to);
                self.migrate(*thread, *target, time);
                None
            }
            _ => {
                self.life(event, to);
                None
            }
        }
    }

    /// Events are missing after `gap.from`. Call it when all events up to that time were taken,
    /// and before the first one that the gap [begins before](Gap::begins_before).
    pub fn miss(&mut self, gap: &Gap, to: &mut impl Observer<Account = A>) {
        let is_lost = gap.missing() != Some(0);
        match gap.lane {
            Lane::Sched if is_lost || is_loss(&gap.refused) => {
                self.lose_sight(gap.cpu, gap.from, to);
                self.cpus.miss_switches(gap.cpu, gap.until);
            }
            // The probes refuse the end of a call only where they refused its beginning.
            Lane::Syscall if is_lost => {
                self.restarts.forget();
                self.forget_call(gap.cpu);
                self.cpus.miss_calls(gap.cpu, gap.until);
            }
            _ => {}
        }
    }

    /// Forgets everything: events are missing, nobody knows how many or where. Accounts are
    /// dropped.
    pub fn forget(&mut self) {
        self.table.clear();
        self.restarts.forget();
        self.cpus = Cpus::default();
        (self.is_complete, self.is_whole) = (false, false);
    }

    /// Ends all intervals at `now` for an account, and goes on with new ones.
    pub fn settle(&mut self, now: u64, mut visit: impl FnMut(&mut A, &Interval)) {
        for (tid, thread) in self.table.iter_mut() {
            let mut interval = thread.open(*tid, now);
            if self.cpus.is_in_doubt(thread) {
                interval.state = State::Unknown;
                thread.state = State::Unknown;
            }
            thread.since = thread.since.max(now);
            visit(&mut thread.account, &interval);
        }
    }

    /// The account of a thread, if it is followed.
    pub fn account(&mut self, tid: u32) -> Option<&mut A> {
        self.table.get_mut(tid).map(|thread| &mut thread.account)
    }

    /// The system call that a thread is in, as far as that is known.
    pub fn call_of(&self, tid: u32) -> Option<CallId> {
        self.table.get(tid)?.call
    }

    /// `tid` runs on `cpu`, as an event of its own says. Whether it is the first that is heard of
    /// that CPU, and the thread therefore has run there from the start.
    #[inline]
    fn runs(&mut self, cpu: u16, tid: u32, time: u64, to: &mut impl Observer<Account = A>) -> bool {
        // Mostly it is known.
        self.cpus.running(cpu) != Some(tid) && self.runs_unexpectedly(cpu, tid, time, to)
    }

    #[cold]
    fn runs_unexpectedly(
        &mut self,
        cpu: u16,
        tid: u32,
        time: u64,
        to: &mut impl Observer<Account = A>,
    ) -> bool {
        let (other, is_first) = self.cpus.found_running(cpu, tid, time);
        if let Some(other) = other
            && let Some(thread) = self.table.get_mut(other)
            && thread.runs_on(cpu)
        {
            // It stopped at some moment before.
            thread.enter(State::Unknown, (other, time), to);
        }
        let has_run_since = is_first && self.is_complete;
        if let Some(thread) = self.table.get_mut(tid)
            && !thread.runs_on(cpu)
        {
            thread.found_running((tid, time), cpu, has_run_since.then_some(self.from), to);
        }
        has_run_since
    }

    /// A thread that is known to run now, after [`Self::runs`] said `is_first`.
    #[inline]
    fn runner(
        &mut self,
        (tid, time): (u32, u64),
        cpu: u16,
        is_first: bool,
        to: &mut impl Observer<Account = A>,
    ) -> Option<&mut Thread<A>> {
        let from = self.from;
        let thread = self.table.followed((tid, time), to)?;
        if !thread.runs_on(cpu) {
            thread.found_running((tid, time), cpu, is_first.then_some(from), to);
        }
        Some(thread)
    }

    /// Whoever begins or ends a call runs.
    #[inline]
    fn call(
        &mut self,
        event: &Event,
        call: Option<CallId>,
        to: &mut impl Observer<Account = A>,
    ) -> Option<&mut A> {
        let Event { time, cpu, tid, .. } = *event;
        let is_first = self.runs(cpu, tid, time, to);
        let thread = self.runner((tid, time), cpu, is_first, to)?;
        thread.call = call;
        Some(&mut thread.account)
    }

    /// The event's thread stops in `state`, and `next` runs.
    fn switch(
        &mut self,
        event: &Event,
        state: State,
        next: u32,
        to: &mut impl Observer<Account = A>,
    ) {
        let Event { time, cpu, tid, .. } = *event;
        let is_first = self.runs(cpu, tid, time, to);
        if let Some(thread) = self.runner((tid, time), cpu, is_first, to) {
            thread.stop(state, (tid, time), to);
        }
        if state == State::Dead {
            self.table.part((tid, time), state, to);
        }
        self.cpus.run(cpu, next);
        if let Some(thread) = self.table.followed((next, time), to) {
            if self.cpus.is_in_doubt(thread) {
                thread.state = State::Unknown;
            }
            thread.start((next, time), cpu, to);
            if self.cpus.misses_calls(cpu, time) {
                thread.call = None;
            }
        }
    }

    /// `wakee` is woken by the event's thread, and last ran on `cpu`.
    fn wake(
        &mut self,
        (waker, time): (Waker, u64),
        wakee: u32,
        cpu: u16,
        new: bool,
        to: &mut impl Observer<Account = A>,
    ) {
        // Who wakes itself goes on running.
        if wakee == waker.tid {
            return;
        }
        // A new thread never slept: who did had its id before, and its end was not seen.
        if new && self.table.get_mut(wakee).is_none_or(|thread| thread.waits()) {
            self.table.born((wakee, time), to);
        }
        // Who is woken waited before, and ran nowhere since; but where its CPU was not heard of yet
        // it may have run there, and be about to wait.
        let has_waited = self.is_whole && !new && self.cpus.running(cpu).is_some();
        let from = self.from;
        if let Some(thread) = self.table.followed((wakee, time), to) {
            if has_waited && (thread.state, thread.since) == (State::Unknown, from) {
                thread.state = State::Blocked(TASK_INTERRUPTIBLE);
            }
            thread.wake(waker, cpu, (wakee, time), to);
        }
    }

    /// A thread moves to the run queue of `cpu`.
    fn migrate(&mut self, tid: u32, cpu: u16, time: u64) {
        let Some(thread) = self.table.get_mut(tid) else { return };
        if !thread.is_queued() {
            return;
        }
        if self.cpus.is_in_doubt(thread) {
            thread.state = State::Unknown;
        } else {
            (thread.cpu, thread.queued) = (cpu, time);
        }
    }

    /// Births, deaths, and what else changes who a thread is.
    fn life(&mut self, event: &Event, to: &mut impl Observer<Account = A>) {
        let time = event.time;
        match &event.body {
            Body::Fork(fork) => self.table.born((fork.tid, time), to),
            // The thread goes on under the id of its process, whose first thread has ended.
            Body::Exec { exec, .. } if exec.old_tid != exec.tid => {
                self.table.reborn((exec.tid, time), to);
                self.table.rename(exec.old_tid, exec.tid);
                self.cpus.rename(exec.old_tid, exec.tid);
            }
            Body::TaskExit(exit) => {
                self.restarts.gone(exit.tid);
                if let Some(thread) = self.table.get_mut(exit.tid) {
                    thread.exits = true;
                }
            }
            // Calls may have ended, and others begun, that were not recorded.
            Body::Act(act, _) if *act == Act::Attached as u16 => {
                self.table.iter_mut().for_each(|(_, thread)| thread.call = None);
            }
            _ => {}
        }
    }

    /// Switches on a CPU are missing: whoever is not seen to run on another one may have done
    /// anything.
    fn lose_sight(&mut self, cpu: u16, time: u64, to: &mut impl Observer<Account = A>) {
        self.is_whole = false;
        self.cpus.lose(cpu);
        let cpus = &self.cpus;
        for (tid, thread) in self.table.iter_mut() {
            let runs = thread.state == State::Running && cpus.running(thread.cpu) == Some(*tid);
            if cpus.is_in_doubt(thread) {
                thread.state = State::Unknown;
            }
            if !runs && thread.state != State::Unknown {
                thread.enter(State::Unknown, (*tid, time), to);
            }
        }
        self.table.part_with_exited(time, to);
    }

    /// What runs on a CPU may be in another call, or in none.
    fn forget_call(&mut self, cpu: u16) {
        if let Some(tid) = self.cpus.running(cpu)
            && let Some(thread) = self.table.get_mut(tid)
        {
            thread.call = None;
        }
    }

    /// What was concluded from incomplete events ends with the gap.
    #[cold]
    fn end_gaps(&mut self, time: u64, to: &mut impl Observer<Account = A>) {
        while let Some(end) = self.cpus.end(time) {
            match end.lane {
                Lane::Syscall => self.forget_call(end.cpu),
                _ => self.lose_sight(end.cpu, end.time, to),
            }
        }
    }
}
