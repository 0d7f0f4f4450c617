//! The length of each CPU's run queue: how many threads run or want to run there.
//!
//! The kernel does not report it; it is counted from switches, wakeups and migrations. The count of
//! a CPU starts, and starts anew, whenever the CPU goes idle: then it is 0. Before that it is
//! unknown.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::switch;
use flightrec_format::decode::{Body, Event};

use super::delay::Findings;
use crate::left_out::LeftOuts;
use crate::threads::THREADS_MAX;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Sleeps.
    Blocked,
    /// Runs or wants to run on a CPU, counted since that CPU's `epoch`.
    Runnable { cpu: u16, epoch: u32 },
}

#[derive(Debug, Default, Clone, Copy)]
struct Cpu {
    count: u32,
    /// How often it went idle; 0: not yet.
    epoch: u32,
    /// Whether it went idle since it was not known what runs there.
    is_known: bool,
}

/// Run queues of all CPUs.
#[derive(Debug, Clone, Default)]
pub struct RunQueues {
    threads: FxHashMap<u32, State>,
    cpus: Vec<Cpu>,
    /// Of the stretches of the recording so far, the newest two.
    left_outs: Vec<Arc<LeftOuts>>,
}

impl RunQueues {
    /// Where events of scheduling are left out, nothing is known.
    pub fn learn(&mut self, left_outs: &Arc<LeftOuts>) {
        crate::left_out::learn(&mut self.left_outs, left_outs);
    }

    /// Goes past an event. For a wakeup, returns the length that the wakee found, itself not
    /// counted.
    #[inline]
    pub fn take(&mut self, event: &Event, found: &Findings) -> Option<u32> {
        // Most events are calls.
        if matches!(event.body, Body::Enter(_) | Body::Exit { .. }) {
            return None;
        }
        let length = self.pass(event, found);
        if self.left_outs.iter().any(|left_outs| left_outs.has_scheduling(event.cpu, event.time)) {
            self.forget(event.cpu);
        }
        length
    }

    /// Events were left unread. These CPUs are idle now; of others nothing is known until they go
    /// idle.
    pub fn skip(&mut self, idle: &[u16]) {
        self.threads.clear();
        for cpu in 0..self.cpus.len() {
            self.forget(cpu as u16);
        }
        for cpu in idle {
            self.idle(*cpu);
        }
    }

    /// Until it goes idle again, nothing is known of a CPU.
    fn forget(&mut self, cpu: u16) {
        self.idle(cpu);
        self.cpu(cpu).is_known = false;
    }

    fn pass(&mut self, event: &Event, found: &Findings) -> Option<u32> {
        let cpu = event.cpu;
        match &event.body {
            Body::Switch { prev_state, preempted, next, .. } => {
                let prev = event.tid;
                if prev != 0 {
                    if switch::sleeps(*prev_state, *preempted) {
                        self.block(prev);
                    } else {
                        self.put(prev, cpu);
                    }
                }
                if *next == 0 {
                    self.idle(cpu);
                } else {
                    self.put(*next, cpu);
                }
                if let Some(target) = found.woken_on {
                    self.put(prev, target);
                }
                None
            }
            Body::Waking { wakee, .. } => {
                let target = found.queued_on;
                let runnable = self.runnable_on(*wakee);
                let length = self
                    .count(target)
                    .map(|n| n.saturating_sub(u32::from(runnable == Some(target))));
                // One that runs or is queued is where it is: if it is about to leave, its switch
                // tells.
                if runnable.is_none() && *wakee != event.tid {
                    self.put(*wakee, target);
                }
                length
            }
            Body::Migrate { thread, to, .. } => {
                // Sleepers are moved without being queued, as they wake; that wakeup has counted
                // them.
                if self.threads.get(thread) != Some(&State::Blocked) {
                    self.put(*thread, *to);
                }
                None
            }
            Body::Exec { exec, .. } => {
                // The thread goes on under its process's id; whoever had it is dead.
                if exec.old_tid != exec.tid {
                    self.block(exec.tid);
                    if let Some(state) = self.threads.remove(&exec.old_tid) {
                        self.threads.insert(exec.tid, state);
                    }
                }
                None
            }
            _ => None,
        }
    }

    /// Runnable threads of a CPU, once known.
    pub fn count(&self, cpu: u16) -> Option<u32> {
        self.cpus.get(usize::from(cpu)).filter(|cpu| cpu.is_known).map(|cpu| cpu.count)
    }

    /// The CPU that counts the thread now.
    fn runnable_on(&self, tid: u32) -> Option<u16> {
        match self.threads.get(&tid)? {
            State::Runnable { cpu, epoch } if self.epoch(*cpu) == *epoch => Some(*cpu),
            _ => None,
        }
    }

    fn epoch(&self, cpu: u16) -> u32 {
        self.cpus.get(usize::from(cpu)).map_or(0, |cpu| cpu.epoch)
    }

    /// The thread is runnable on `cpu`, and nowhere else.
    fn put(&mut self, tid: u32, cpu: u16) {
        if self.runnable_on(tid) == Some(cpu) {
            return;
        }
        self.uncount(tid);
        let entry = self.cpu(cpu);
        entry.count = entry.count.saturating_add(1);
        let epoch = entry.epoch;
        if self.threads.len() < THREADS_MAX || self.threads.contains_key(&tid) {
            self.threads.insert(tid, State::Runnable { cpu, epoch });
        }
    }

    fn block(&mut self, tid: u32) {
        self.uncount(tid);
        if self.threads.len() < THREADS_MAX || self.threads.contains_key(&tid) {
            self.threads.insert(tid, State::Blocked);
        }
    }

    fn uncount(&mut self, tid: u32) {
        if let Some(cpu) = self.runnable_on(tid) {
            let entry = self.cpu(cpu);
            entry.count = entry.count.saturating_sub(1);
        }
    }

    /// Nobody is left on `cpu`, whatever was counted there.
    fn idle(&mut self, cpu: u16) {
        let entry = self.cpu(cpu);
        *entry = Cpu { count: 0, epoch: entry.epoch.wrapping_add(1).max(1), is_known: true };
    }

    fn cpu(&mut self, cpu: u16) -> &mut Cpu {
        let at = usize::from(cpu);
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, Cpu::default());
        }
        &mut self.cpus[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::delay::{DelayLine, Item};
    use crate::pipeline::placement::Placement;
    use crate::pipeline::testing::{migrate, switch, waking};

    /// Runs events through placement and the queues; returns the length at each wakeup.
    fn lengths(events: Vec<Event>) -> (Vec<Option<u32>>, RunQueues) {
        let (mut placement, mut line, mut queues) =
            (Placement::default(), DelayLine::default(), RunQueues::default());
        for event in events {
            let mut item = Item::new(event.into());
            placement.take(&mut item, &mut line);
            line.push(item);
        }
        let mut out = Vec::new();
        while let Some(item) = line.pop(u64::MAX) {
            let length = queues.take(&item.event, &item.found);
            if matches!(item.event.body, Body::Waking { .. }) {
                out.push(length);
            }
        }
        (out, queues)
    }

    #[test]
    fn unknown_until_the_cpu_was_idle() {
        let (out, _) = lengths(vec![
            waking(1, 0, 5, 9, 1),
            switch(2, 1, 7, 1, 9),
            switch(3, 1, 9, 1, 0),
            waking(4, 0, 5, 9, 1),
        ]);
        assert_eq!(out, [None, Some(0)]);
    }

    #[test]
    fn hogs_are_counted() {
        let (out, queues) = lengths(vec![
            switch(1, 1, 7, 1, 0),
            waking(2, 0, 5, 10, 1),
            waking(3, 0, 5, 11, 1),
            waking(4, 0, 5, 12, 1),
            switch(5, 1, 0, 0, 10),
            switch(6, 1, 10, 0, 11), // preempted: it stays
            switch(7, 1, 11, 0, 12),
            waking(8, 0, 5, 9, 1),
            switch(9, 1, 12, 0, 9),
            switch(10, 1, 9, 1, 10),
            waking(11, 0, 5, 9, 1),
        ]);
        assert_eq!(out, [Some(0), Some(1), Some(2), Some(3), Some(3)]);
        assert_eq!(queues.count(1), Some(4));
        assert_eq!(queues.count(0), None);
    }

    #[test]
    fn a_migrated_thread_is_counted_at_its_new_cpu() {
        let (out, queues) = lengths(vec![
            switch(1, 0, 7, 1, 0),
            switch(1, 1, 7, 1, 0),
            waking(2, 0, 0, 10, 0),
            migrate(3, 1, 0, 10, 0, 1), // pulled by CPU 1
            switch(4, 1, 0, 0, 10),
            waking(5, 0, 0, 11, 0),
            migrate(6, 0, 0, 11, 0, 1), // chosen at its wakeup
            switch(7, 1, 10, 0, 11),
        ]);
        assert_eq!(out, [Some(0), Some(1)]);
        assert_eq!((queues.count(0), queues.count(1)), (Some(0), Some(2)));
    }

    #[test]
    fn woken_while_it_goes_to_sleep() {
        let start = vec![switch(1, 1, 7, 1, 0), waking(2, 0, 5, 9, 1), switch(3, 1, 0, 0, 9)];
        // On to another thread, then back.
        let (out, queues) = lengths(
            [
                start.clone(),
                vec![
                    waking(4, 0, 5, 8, 1),
                    waking(5, 0, 5, 9, 1),
                    switch(6, 1, 9, 1, 8),
                    waking(7, 0, 5, 6, 1),
                    switch(8, 1, 8, 1, 9),
                    switch(9, 1, 9, 0, 6),
                ],
            ]
            .concat(),
        );
        assert_eq!(out, [Some(0), Some(1), Some(1), Some(2)]);
        assert_eq!(queues.count(1), Some(2));
        // Into idleness, then back.
        let (_, queues) = lengths(
            [start, vec![waking(5, 0, 5, 9, 1), switch(6, 1, 9, 1, 0), switch(8, 1, 0, 0, 9)]]
                .concat(),
        );
        assert_eq!(queues.count(1), Some(1));
    }

    #[test]
    fn running_where_it_was_thought_asleep_corrects() {
        let (_, queues) = lengths(vec![
            switch(1, 1, 7, 1, 0),
            switch(2, 1, 0, 0, 9),
            switch(3, 1, 9, 1, 8),
            switch(4, 1, 8, 0, 9),
        ]);
        assert_eq!(queues.count(1), Some(2));
    }

    #[test]
    fn idleness_forgets_what_was_wrong() {
        let (out, queues) = lengths(vec![
            switch(1, 1, 7, 1, 0),
            waking(2, 0, 5, 9, 1),
            waking(3, 0, 5, 8, 1),
            switch(4, 1, 0, 0, 9),
            switch(5, 1, 9, 1, 0), // where is 8?
            waking(6, 0, 5, 8, 1),
        ]);
        assert_eq!(out, [Some(0), Some(1), Some(0)]);
        assert_eq!(queues.count(1), Some(1));
    }
}
