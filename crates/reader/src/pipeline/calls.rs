//! Calls as one: an entry is held back until its exit comes, or something else of its thread.
//!
//! An entry waits no longer than any event may wait ([`LONGEST_NS`], [`LONGEST_EVENTS`]); with it
//! wait the events after it, so the order stays that of time. This looks at the events that are
//! shown, and at no others: what a filter leaves out does not part an entry from its exit.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::NR_INVALID;
use flightrec_format::decode::{Body, Text};

use super::context::Shown;
use super::delay::{LONGEST_EVENTS, LONGEST_NS};
use super::resolve::Merging;

/// An event that waits to be shown.
#[derive(Debug, Clone)]
struct Held {
    shown: Shown,
    waiting: bool,
    /// It is shown at its exit.
    gone: bool,
}

/// Events on their way out, some of which wait for the rest of their call.
#[derive(Debug, Clone)]
pub struct Calls {
    merge: Merging,
    items: VecDeque<Held>,
    /// Number of the first item.
    first: u64,
    /// The entry that each thread's next event may end.
    open: FxHashMap<u32, u64>,
}

impl Calls {
    /// `merge`: where calls are shown.
    pub fn new(merge: Merging) -> Self {
        Self { merge, items: VecDeque::new(), first: 0, open: FxHashMap::default() }
    }

    /// Whether there is anything to do.
    #[inline]
    pub(crate) fn merges(&self) -> bool {
        self.merge != Merging::Never
    }

    /// Whether calls are shown at their exits.
    pub(crate) fn at_exit(&self) -> bool {
        self.merge == Merging::AtExit
    }

    /// Takes an event that is to be shown; `entered` as in [`super::delay::Item`].
    pub fn push(&mut self, shown: Shown, entered: Option<u64>) {
        // What runs in the middle of a call does not part it.
        if let Body::Sample(_) = shown.event.body {
            return self.items.push_back(Held { shown, waiting: false, gone: false });
        }
        let number = self.first + self.items.len() as u64;
        let tid = shown.event.tid;
        let before = self.open.remove(&tid);
        if let Body::Switch { next, .. } = &shown.event.body
            && let Some(other) = self.open.remove(next)
        {
            self.release(other);
        }
        let mut held = Held { shown, waiting: false, gone: false };
        match &held.shown.event.body {
            Body::Enter(call) if call.nr != NR_INVALID => {
                held.waiting = true;
                // Entries that have been shown need no place.
                if self.open.len() > 2 * LONGEST_EVENTS {
                    let first = self.first;
                    self.open.retain(|_, number| *number >= first);
                }
                self.open.insert(tid, number);
            }
            Body::Exit { .. } => {
                if let Some(number) = before
                    && self.complete(number, &mut held, entered)
                {
                    return;
                }
            }
            _ => {}
        }
        if let Some(number) = before {
            self.release(number);
        }
        self.items.push_back(held);
    }

    /// The next event to show, once it waits for nothing, or has waited long enough at time `now`.
    pub fn pop(&mut self, now: u64) -> Option<Shown> {
        loop {
            let front = self.items.front()?;
            let expired = self.items.len() > LONGEST_EVENTS
                || now.saturating_sub(front.shown.event.time) > LONGEST_NS;
            if front.waiting && !expired {
                return None;
            }
            self.first += 1;
            let held = self.items.pop_front()?;
            if !held.gone {
                return Some(held.shown);
            }
        }
    }

    /// Joins an exit to the entry `number`; `true`: the entry's item shows both.
    fn complete(&mut self, number: u64, exit: &mut Held, entered: Option<u64>) -> bool {
        let merge = self.merge;
        let Some(held) = self.get_mut(number) else { return false };
        let (entry, exit) = (&mut held.shown, &mut exit.shown);
        let (Body::Enter(begun), Body::Exit { call, .. }) =
            (&mut entry.event.body, &mut exit.event.body)
        else {
            return false;
        };
        if (begun.nr, begun.abi) != (call.nr, call.abi) || entered != Some(entry.event.time) {
            return false;
        }
        std::mem::swap(call, begun);
        // What the kernel told when it returned.
        let told = |text: &Text| text.pointee().is_some_and(|(_, told, _)| told);
        call.strings.extend(begun.strings.drain(..).filter(told));
        entry.names.end(std::mem::take(&mut exit.names));
        let wall = Some(entry.known.wall_ns);
        if merge == Merging::AtExit {
            exit.names = std::mem::take(&mut entry.names);
            (exit.known.merged, held.gone) = (wall, true);
            return false;
        }
        std::mem::swap(&mut entry.event.body, &mut exit.event.body);
        if let Body::Exit { entered: at, .. } = &mut entry.event.body {
            *at = entered;
        }
        (entry.known.merged, entry.known.duration_ns, held.waiting) =
            (wall, exit.known.duration_ns, false);
        true
    }

    fn release(&mut self, number: u64) {
        if let Some(item) = self.get_mut(number) {
            item.waiting = false;
        }
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Held> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.items.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fds::Kept;
    use crate::pipeline::context::EventContext;
    use crate::pipeline::testing::{call, comm, enter, event, exit, switch};
    use flightrec_format::abi::record::stack::Status;
    use flightrec_format::decode::{Event, Sample};

    fn took(event: &Event) -> Option<u64> {
        matches!(event.body, Body::Exit { .. }).then(|| event.time - 5)
    }

    /// Runs events, exits ending the entry 5 ns before, and shows (time, merged).
    fn run(merge: Merging, events: &[Event]) -> Vec<(u64, bool)> {
        let mut calls = Calls::new(merge);
        let mut out = Vec::new();
        let mut now = 0;
        let mut show = |calls: &mut Calls, now| {
            while let Some(shown) = calls.pop(now) {
                out.push((shown.event.time, shown.known.merged.is_some()));
            }
        };
        for event in events {
            now = event.time;
            let shown = Shown::new(event.clone().into(), EventContext::default(), Kept::default());
            calls.push(shown, took(event));
            show(&mut calls, now);
        }
        show(&mut calls, u64::MAX);
        assert!(now > 0);
        out
    }

    #[test]
    fn neighbours_of_a_thread_become_one() {
        let events = [enter(10, 0, 1, 7), enter(12, 1, 2, 7), exit(15, 0, 1, 7), exit(17, 1, 2, 7)];
        assert_eq!(run(Merging::AtEntry, &events), [(10, true), (12, true)]);
        assert_eq!(run(Merging::AtExit, &events), [(15, true), (17, true)]);
    }

    #[test]
    fn what_stands_between_parts_them() {
        let events =
            [enter(10, 0, 1, 7), switch(12, 0, 1, 1, 2), switch(13, 0, 2, 1, 1), exit(15, 0, 1, 7)];
        let parted = [(10, false), (12, false), (13, false), (15, false)];
        assert_eq!(run(Merging::AtEntry, &events), parted);
        assert_eq!(run(Merging::AtExit, &events), parted);
        let sample = Body::Sample(Sample {
            user_mode: false,
            status: Status::Taken,
            kernel_cut: false,
            user_cut: false,
            kernel: [].into(),
            user: [].into(),
        });
        let sampled = [enter(10, 0, 1, 7), event(12, 0, 1, sample), exit(15, 0, 1, 7)];
        assert_eq!(run(Merging::AtEntry, &sampled), [(10, true), (12, false)]);
        assert_eq!(run(Merging::AtExit, &sampled), [(12, false), (15, true)]);
        let back = [enter(10, 0, 1, 7), switch(12, 0, 2, 1, 1), exit(15, 0, 1, 7)];
        assert_eq!(run(Merging::AtExit, &back).len(), 3, "a switch is of both its threads");
    }

    #[test]
    fn no_exit_and_other_exits() {
        assert_eq!(run(Merging::AtEntry, &[enter(10, 0, 1, 7)]), [(10, false)]);
        let other = [enter(10, 0, 1, 7), exit(15, 0, 1, 8)];
        assert_eq!(run(Merging::AtEntry, &other), [(10, false), (15, false)]);
        let late =
            [enter(10, 0, 1, 7), enter(LONGEST_NS + 11, 0, 2, 7), exit(LONGEST_NS + 12, 0, 1, 7)];
        assert_eq!(run(Merging::AtExit, &late).iter().filter(|(_, merged)| *merged).count(), 0);
    }

    #[test]
    fn a_whole_call_has_its_entrys_arguments_and_names() {
        let mut begun = call(7);
        (begun.nargs, begun.args[0]) = (1, 42);
        let events = [event(10, 0, 1, Body::Enter(begun)), exit(15, 0, 1, 7)];
        for merge in [Merging::AtEntry, Merging::AtExit] {
            let mut calls = Calls::new(merge);
            for (event, name) in events.iter().zip(["old", "new"]) {
                let known = EventContext {
                    wall_ns: event.time as i64 + 100,
                    comm: comm(name),
                    ..EventContext::default()
                };
                calls.push(Shown::new(event.clone().into(), known, Kept::default()), took(event));
            }
            let shown = calls.pop(20).unwrap();
            assert!(matches!(&shown.event.body, Body::Exit { call, .. } if call.args[0] == 42));
            let name = comm(if merge == Merging::AtEntry { "old" } else { "new" });
            assert_eq!((shown.known().merged, shown.known().comm), (Some(110), name));
            assert!(calls.pop(20).is_none());
        }
    }
}
