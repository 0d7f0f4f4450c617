//! Where a woken thread is queued, and where it runs.
//!
//! `sched_waking` is reported before the kernel has chosen a CPU, so it names the wakee's old one.
//! A migration directly after it on the waker's CPU (`try_to_wake_up` → `set_task_cpu`,
//! kernel/sched/core.c, Linux 6.1; interrupts are off in between) tells where the wakee is queued;
//! a balancing CPU may move it again before it runs. So a wakeup waits until its wakee runs.
//!
//! The waker may also be a little early: the wakee has decided to sleep, but its switch is not
//! reported yet. Two things can follow. Either it is put back before it has left its queue, and
//! goes on running; or it leaves, and is queued again at once, without another wakeup. Which one it
//! was shows when it next appears: a switch away from such a thread waits for that.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::switch;
use flightrec_format::decode::Body;

use super::delay::{DelayLine, Item, LONGEST_EVENTS};
use crate::left_out::LeftOuts;

/// How long after the waker's report the sleeper's switch may come and still be the same sleep,
/// ns. The work in between is done with interrupts off and takes microseconds; a virtual CPU can be
/// held up in it.
const EARLY_NS: u64 = 5_000_000;

/// `TASK_INTERRUPTIBLE`, and with `TASK_UNINTERRUPTIBLE` (include/linux/sched.h, Linux 6.1).
const INTERRUPTIBLE: u16 = 1;
const SLEEPS: u16 = 3;

/// From so many wakeups on, those are forgotten whose events have been told.
const WAKEUPS_MAX: usize = 4 * LONGEST_EVENTS;

/// A wakeup whose wakee has not run yet.
#[derive(Debug, Clone)]
struct Wakeup {
    item: u64,
    time: u64,
    queued_on: u16,
    /// The wakee was still running.
    early: bool,
    /// It slept interruptibly.
    interruptible: bool,
    /// The switch away from the wakee after an early wakeup.
    switch: Option<u64>,
}

/// What each CPU runs, and which wakeups wait.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    wakeups: FxHashMap<u32, Wakeup>,
    cpus: Vec<Cpu>,
    /// Of the stretches of the recording so far, the newest two.
    left_outs: Vec<Arc<LeftOuts>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Cpu {
    /// Thread that runs; 0: none, or unknown.
    running: u32,
    /// Thread that the last scheduling event there woke; 0: it was another event.
    waking: u32,
    /// The thread that runs was woken from an interruptible sleep, and runs since this moment; 0:
    /// not so.
    slept: u64,
}

impl Placement {
    /// Of a thread of which events are left out nothing is found out.
    pub fn learn(&mut self, left_outs: &Arc<LeftOuts>) {
        crate::left_out::learn(&mut self.left_outs, left_outs);
    }

    /// Events were left unread: what CPUs run their next switches tell.
    pub fn skip(&mut self) {
        self.wakeups.clear();
        self.cpus.clear();
    }

    /// Takes the next event in, on its way to the end of the line.
    pub fn take(&mut self, item: &mut Item, line: &mut DelayLine) {
        let (tid, time, cpu) = (item.event.tid, item.event.time, item.event.cpu);
        match item.event.body {
            // Whoever makes system calls runs.
            Body::Enter(_) | Body::Exit { .. } if !self.wakeups.is_empty() => {
                self.ran(tid, cpu, line);
            }
            Body::Switch { prev_state, preempted, next, .. } => {
                *self.cpu(cpu) = Cpu { running: next, waking: 0, slept: 0 };
                let sleeps = switch::sleeps(prev_state, preempted);
                match self.wakeups.get_mut(&tid) {
                    Some(wakeup)
                        if wakeup.early
                            && sleeps
                            && time.saturating_sub(wakeup.time) < EARLY_NS =>
                    {
                        wakeup.early = false;
                        wakeup.switch = Some(line.next());
                        item.waiting = true;
                    }
                    Some(_) => _ = self.ran(tid, cpu, line),
                    None => {}
                }
                if self.ran(next, cpu, line) == Some(true) {
                    self.cpu(cpu).slept = time;
                }
            }
            Body::Waking { wakee, cpu: old, new, state, .. } => {
                (item.found.queued_on, item.found.runs_on) = (old, old);
                if let Some(before) = self.wakeups.remove(&wakee) {
                    // It was not asleep when it was woken before, or it could not be woken again.
                    before.settle(None, false, line);
                }
                // A new thread's wakeup is recorded once it is queued: what follows is a migration
                // of its own.
                self.cpu(cpu).waking = if new { 0 } else { wakee };
                let is_left_out = |left_outs: &Arc<LeftOuts>| {
                    left_outs.has(Lane::Sched, wakee, time, time.saturating_add(1))
                };
                if wakee == tid || wakee == 0 || self.left_outs.iter().any(is_left_out) {
                    return;
                }
                item.waiting = true;
                let early = !new && self.cpus.iter().any(|cpu| cpu.running == wakee);
                // What has left the line long ago is found by nobody.
                if self.wakeups.len() >= WAKEUPS_MAX {
                    self.wakeups.retain(|_, wakeup| line.get_mut(wakeup.item).is_some());
                }
                self.wakeups.insert(
                    wakee,
                    Wakeup {
                        item: line.next(),
                        time,
                        queued_on: old,
                        early,
                        interruptible: !new && state & SLEEPS == INTERRUPTIBLE,
                        switch: None,
                    },
                );
            }
            Body::Migrate { thread, to, .. } => {
                let directly = std::mem::take(&mut self.cpu(cpu).waking) == thread;
                let Some(wakeup) = self.wakeups.get_mut(&thread) else { return };
                if directly {
                    // Only a thread that left its queue is given another CPU here.
                    wakeup.queued_on = to;
                    wakeup.early = false;
                    if let Some(switch) = wakeup.switch.take() {
                        line.settle(switch, |item| item.found.woken_on = Some(to));
                    }
                }
                let queued_on = wakeup.queued_on;
                if let Some(item) = line.get_mut(wakeup.item) {
                    (item.found.queued_on, item.found.runs_on) = (queued_on, to);
                }
            }
            _ => {}
        }
    }

    /// `tid` runs on `cpu`. Whether it slept interruptibly before, if it was woken.
    fn ran(&mut self, tid: u32, cpu: u16, line: &mut DelayLine) -> Option<bool> {
        let wakeup = self.wakeups.remove(&tid)?;
        let interruptible = wakeup.interruptible;
        wakeup.settle(Some(cpu), true, line);
        Some(interruptible)
    }

    /// Whether a thread that runs on a CPU slept interruptibly, as threads sleep in calls, and
    /// began to run again at `since` at the earliest. If no call of it began or ended since then,
    /// the next to end is the one in which it slept.
    pub fn has_slept(&self, tid: u32, cpu: u16, since: u64) -> bool {
        let cpu = self.cpus.get(usize::from(cpu));
        cpu.is_some_and(|cpu| cpu.running == tid && cpu.slept != 0 && cpu.slept >= since)
    }

    fn cpu(&mut self, cpu: u16) -> &mut Cpu {
        let at = usize::from(cpu);
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, Cpu::default());
        }
        &mut self.cpus[at]
    }
}

impl Wakeup {
    fn settle(self, runs_on: Option<u16>, woken: bool, line: &mut DelayLine) {
        line.settle(self.item, |item| item.found.runs_on = runs_on.unwrap_or(item.found.runs_on));
        if let Some(switch) = self.switch {
            line.settle(switch, |item| item.found.woken_on = woken.then_some(self.queued_on));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::testing::{enter, migrate, switch, waking};
    use flightrec_format::decode::Event;

    /// What leaves the line without being pushed out by time: (time, queued on, runs on, woken on).
    fn run(events: Vec<Event>) -> Vec<(u64, u16, u16, Option<u16>)> {
        let mut placement = Placement::default();
        let mut line = DelayLine::default();
        for event in events {
            let mut item = Item::new(event.into());
            placement.take(&mut item, &mut line);
            line.push(item);
        }
        std::iter::from_fn(|| line.pop(0))
            .map(|i| (i.event.time, i.found.queued_on, i.found.runs_on, i.found.woken_on))
            .collect()
    }

    #[test]
    fn it_runs_where_it_slept() {
        let out = run(vec![waking(1, 0, 5, 9, 1), switch(2, 1, 0, 0, 9)]);
        assert_eq!(out, [(1, 1, 1, None), (2, 0, 0, None)]);
    }

    #[test]
    fn a_migration_directly_after_tells_the_queue() {
        let out = run(vec![
            waking(1, 0, 5, 9, 1),
            enter(2, 3, 77, 0), // another CPU's event between
            migrate(3, 0, 5, 9, 1, 2),
            migrate(4, 3, 6, 9, 2, 3), // and a balancing CPU moves it again
            switch(5, 3, 0, 0, 9),
        ]);
        assert_eq!(out[0], (1, 2, 3, None));
    }

    #[test]
    fn a_later_migration_is_no_part_of_the_wakeup() {
        let out = run(vec![
            waking(1, 0, 5, 9, 1),
            switch(2, 0, 5, 1, 0),
            migrate(3, 0, 0, 9, 1, 0),
            switch(4, 0, 0, 0, 9),
        ]);
        assert_eq!(out[0], (1, 1, 0, None));
    }

    #[test]
    fn one_that_never_runs_holds_up_those_after() {
        assert_eq!(
            run(vec![waking(1, 0, 5, 9, 1), migrate(2, 0, 5, 9, 1, 2), enter(3, 0, 5, 0)]),
            []
        );
    }

    #[test]
    fn waking_oneself_waits_for_nothing() {
        assert_eq!(run(vec![waking(1, 0, 5, 5, 0)]), [(1, 0, 0, None)]);
    }

    #[test]
    fn waker_before_the_sleepers_switch() {
        let out = run(vec![
            switch(1, 1, 0, 0, 9),
            waking(10, 0, 5, 9, 1),
            switch(11, 1, 9, 1, 0), // it sleeps, says the record; but it is awake already
            switch(12, 1, 0, 0, 9),
        ]);
        assert_eq!(out[1], (10, 1, 1, None));
        assert_eq!(out[2], (11, 0, 0, Some(1)));
    }

    #[test]
    fn waker_before_the_sleepers_switch_to_another_cpu() {
        let out = run(vec![
            switch(1, 1, 0, 0, 9),
            waking(10, 0, 5, 9, 1),
            switch(11, 1, 9, 1, 0),
            migrate(12, 0, 5, 9, 1, 2),
            switch(13, 2, 0, 0, 9),
        ]);
        assert_eq!(out[1], (10, 2, 2, None));
        assert_eq!(out[2], (11, 0, 0, Some(2)));
    }

    #[test]
    fn put_back_before_it_slept() {
        // It goes on with system calls: its next sleep is a sleep.
        let out = run(vec![
            switch(1, 1, 0, 0, 9),
            waking(10, 0, 5, 9, 1),
            enter(11, 1, 9, 0),
            switch(12, 1, 9, 1, 0),
        ]);
        assert_eq!(out[3], (12, 0, 0, None));
        // It goes on inside the kernel, sleeps, and is woken again: it had slept.
        let out = run(vec![
            switch(1, 1, 0, 0, 9),
            waking(10, 0, 5, 9, 1),
            switch(12, 1, 9, 1, 0),
            waking(20, 0, 5, 9, 1),
            switch(21, 1, 0, 0, 9),
        ]);
        assert_eq!(out[2], (12, 0, 0, None));
    }
}
