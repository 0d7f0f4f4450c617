//! The delay line: where an event waits until what comes after it has told the rest.
//!
//! Events leave in the order in which they came. One that waits holds up those after it, but
//! never longer than [`LONGEST_NS`] of event time or [`LONGEST_EVENTS`] later events.

use std::collections::VecDeque;

use flightrec_format::decode::Event;

use crate::window::LEAD_OUT_NS;

/// Longest wait, ns of event time.
pub const LONGEST_NS: u64 = LEAD_OUT_NS;
/// Longest wait, in later events.
pub const LONGEST_EVENTS: usize = 65_536;

/// An event and what has been found out about it.
#[derive(Debug, Clone)]
pub struct Item {
    /// The event; boxed, as it is handed on often.
    pub event: Box<Event>,
    /// Whether something is still to be found out.
    pub waiting: bool,
    /// What has been found out.
    pub found: Findings,
}

/// What other events tell of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Findings {
    /// Of an exit: when the call began, where its entry was seen.
    pub entered: Option<u64>,
    /// Of an exit without an entry: when the call began, as far as that is known.
    pub began: Option<Began>,
    /// Of a wakeup: the CPU where the wakee was queued.
    pub queued_on: u16,
    /// Of a wakeup: the CPU where it ran next, as far as known.
    pub runs_on: u16,
    /// Of a switch away from a thread that goes to sleep: the CPU where it was queued again
    /// already.
    pub woken_on: Option<u16>,
}

/// When a call began whose entry is not there, ns of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Began {
    /// Not before this moment; 0: nothing is known.
    pub from: u64,
    /// Not after this one: from then on the entry would be there. The exit itself, where nothing
    /// is known.
    pub until: u64,
}

impl Item {
    /// An event of which nothing more is known.
    pub fn new(event: Box<Event>) -> Self {
        Self { event, waiting: false, found: Findings::default() }
    }
}

impl Findings {
    /// Of an exit at `time`: how long the call took, ns.
    pub fn duration_ns(&self, time: u64) -> Option<u64> {
        self.entered.map(|entered| time.saturating_sub(entered)).filter(|ns| *ns != 0)
    }

    /// Of an exit at `time` without an entry: how long the call took at least, ns.
    pub fn at_least_ns(&self, time: u64) -> Option<u64> {
        self.began.map(|began| time.saturating_sub(began.until)).filter(|ns| *ns != 0)
    }
}

/// Items in order, each with a number that stays.
#[derive(Debug, Clone, Default)]
pub struct DelayLine {
    items: VecDeque<Item>,
    first: u64,
}

impl DelayLine {
    /// The number that the next item will have.
    pub fn next(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// One without items that goes on with the same numbers.
    pub(super) fn emptied(&self) -> Self {
        Self { items: VecDeque::new(), first: self.next() }
    }

    /// Puts an item at the end.
    pub fn push(&mut self, item: Item) {
        self.items.push_back(item);
    }

    /// Whether an item that waits for nothing can go by without standing in the line; it then has
    /// its number all the same.
    pub fn go_by(&mut self, item: &Item) -> bool {
        let free = self.items.is_empty() && !item.waiting;
        self.first += u64::from(free);
        free
    }

    /// An item that is still in the line.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut Item> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.items.get_mut(at)
    }

    /// Lets an item go, if it is still in the line, after a last change to it.
    pub fn settle(&mut self, number: u64, change: impl FnOnce(&mut Item)) {
        if let Some(item) = self.get_mut(number) {
            change(item);
            item.waiting = false;
        }
    }

    /// The first item, once it waits for nothing, or has waited long enough at time `now`.
    pub fn pop(&mut self, now: u64) -> Option<Item> {
        let front = self.items.front()?;
        let expired =
            self.items.len() > LONGEST_EVENTS || now.saturating_sub(front.event.time) > LONGEST_NS;
        if front.waiting && !expired {
            return None;
        }
        self.first += 1;
        self.items.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::testing::enter;

    fn waiting(time: u64) -> Item {
        Item { waiting: true, ..Item::new(enter(time, 0, 1, 0).into()) }
    }

    #[test]
    fn order_is_kept() {
        let mut line = DelayLine::default();
        let number = line.next();
        line.push(waiting(1));
        line.push(Item::new(enter(2, 0, 1, 0).into()));
        assert!(line.pop(2).is_none());
        line.settle(number, |item| item.found.runs_on = 3);
        assert_eq!(line.pop(2).map(|i| (i.event.time, i.found.runs_on)), Some((1, 3)));
        assert_eq!(line.pop(2).map(|i| i.event.time), Some(2));
        assert!(line.pop(2).is_none());
        line.settle(number, |_| panic!("it has left"));
    }

    #[test]
    fn waits_end() {
        let mut line = DelayLine::default();
        line.push(waiting(1));
        assert!(line.pop(1 + LONGEST_NS).is_none());
        assert!(line.pop(2 + LONGEST_NS).is_some());
        for _ in 0..LONGEST_EVENTS {
            line.push(waiting(9));
        }
        assert!(line.pop(9).is_none());
        line.push(waiting(9));
        assert!(line.pop(9).is_some());
        assert!(line.pop(9).is_none());
    }
}
