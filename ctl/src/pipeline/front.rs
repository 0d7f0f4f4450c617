//! The pass's first half: from merged events to complete ones, in order.
//!
//! It needs nothing of the second half, which names and prints, so that the two can run on two
//! threads.

use std::mem;
use std::sync::mpsc::SyncSender;

use flightrec_format::decode::Event;
use flightrec_format::meta::Meta;

use super::delay::{DelayLine, Item};
use super::pairing::Pairing;
use super::placement::Placement;

/// Items that are handed over at once.
const BATCH: usize = 1024;
/// Batches that may wait for the second half: about 2 MiB.
pub const BATCHES: usize = 8;

/// Finds out about each event what later ones tell.
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
    pub fn push(&mut self, event: Event) -> Option<Item> {
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

    /// Takes all events, and hands them over in batches; ends early where nobody takes them.
    pub fn run(mut self, events: impl Iterator<Item = Event>, to: &SyncSender<Vec<Item>>) {
        let mut batch = Vec::with_capacity(BATCH);
        for event in events {
            let now = event.time;
            let mut next = self.push(event).or_else(|| self.pop(now));
            while let Some(item) = next {
                batch.push(item);
                next = self.pop(now);
                if batch.len() == BATCH && to.send(mem::replace(&mut batch, Vec::with_capacity(BATCH))).is_err() {
                    return;
                }
            }
        }
        while let Some(item) = self.pop(u64::MAX) {
            batch.push(item);
        }
        // Whoever takes no more has said why.
        let _ = to.send(batch);
    }
}
