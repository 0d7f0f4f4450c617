//! The pass's first part: from merged events to complete ones, in order.

use flightrec_format::decode::Event;
use flightrec_format::meta::Meta;

use super::delay::{DelayLine, Item};
use super::pairing::Pairing;
use super::placement::Placement;

/// Finds out about each event what later ones tell.
#[derive(Clone)]
pub struct Front {
    pairing: Pairing,
    placement: Placement,
    line: DelayLine,
}

impl Front {
    /// For a recording.
    pub fn new(meta: &Meta) -> Self {
        Self { pairing: Pairing::new(meta), placement: Placement::default(), line: DelayLine::default() }
    }

    /// The number that the next event will have.
    pub fn next(&self) -> u64 {
        self.line.next()
    }

    /// Takes the next event, and returns it where it is complete at once, and none waits before it.
    pub fn push(&mut self, event: Box<Event>) -> Option<Item> {
        let mut item = Item::new(event);
        self.pairing.take(&mut item, &mut self.line);
        self.placement.take(&mut item, &mut self.line);
        if self.line.go_by(&item) {
            return Some(item);
        }
        self.line.push(item);
        None
    }

    /// The next event that is complete, or has waited long enough at time `now`.
    pub fn pop(&mut self, now: u64) -> Option<Item> {
        self.line.pop(now)
    }
}
