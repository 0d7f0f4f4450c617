//! Switches, wakeups and migrations, as [`super::sched::Sched`] takes them.

use flightrec_format::decode::{Body, Event};
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::threads::trim;

use super::field::event as ftrace;
use super::proto::{bytes, number};
use super::sched::{Switch, Waking};
use super::{Perfetto, TIME_MAX, WAITING_MAX};
use crate::kernel::state;
use crate::printable::printable;

impl Perfetto {
    pub(super) fn scheduling(&mut self, event: &Event, known: &EventContext<'_>) {
        let time = event.time.min(TIME_MAX);
        match event.body {
            Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio } => {
                let state = state(prev_state, preempted);
                let of = Switch {
                    time,
                    prev: (event.tid, known.comm, prev_prio),
                    state,
                    next: (next, known.next_comm, next_prio),
                };
                self.sched.switch(event.cpu, &of);
                if self.io_waits.remove(&next) {
                    self.io_runs.insert(event.cpu, next);
                    self.blocked_reason((event.cpu, time), next, None, true);
                } else {
                    self.io_runs.remove(&event.cpu);
                }
                if io_wait && self.io_waits.len() < WAITING_MAX {
                    self.io_waits.insert(event.tid);
                }
                if event.tid != 0 {
                    let who = Self::who(&self.labels, event, known);
                    self.tracks.thread(&who, &mut self.packets);
                }
            }
            Body::Waking { wakee, prio, cpu, new, context, .. } => {
                let of = Waking {
                    time,
                    waker: event.tid,
                    wakee: (wakee, known.next_comm, prio),
                    target: known.wake.map_or(cpu, |wake| wake.queued_on),
                    context,
                };
                if new {
                    self.sched.wakeup_new(event.cpu, &of);
                } else {
                    self.sched.waking(event.cpu, &of);
                }
            }
            Body::Migrate { thread, prio, from, to } => {
                self.sched.other(event.cpu, (time, event.tid), ftrace::MIGRATE, |out| {
                    bytes(1, printable(trim(&known.next_comm)).as_bytes(), out);
                    number(2, u64::from(thread), out);
                    number(3, u64::from(prio), out);
                    number(4, u64::from(from), out);
                    number(5, u64::from(to), out);
                });
            }
            _ => {}
        }
    }
}
