//! Events on their way from the thread that puts them in order to the one that makes lines of them.
//!
//! What one CPU has written, another gets at only slowly, unless it can foresee where that lies. So the events of a batch
//! stand one behind the other, and the batch goes back to be filled again: what its events have allocated is used
//! again, and freed by the thread that allocated it.

use std::mem;
use std::sync::mpsc::{Receiver, SyncSender};

use flightrec_format::decode::Event;

use super::delay::{Found, Item};
use super::front::Front;
use super::merge::{Merge, Stream};

/// Events in a batch: some 90 KB, which stay in a CPU's cache.
pub(super) const BATCH: usize = 512;

/// Complete events, in order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Those behind `length` are of an earlier use.
    entries: Vec<Entry>,
    length: usize,
}

/// A complete event.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) event: Event,
    pub(super) found: Found,
    /// The moment that had come before it was complete.
    pub(super) before: u64,
}

impl Batch {
    /// Takes the next event, and leaves one that is done with in its place.
    #[inline]
    fn push(&mut self, item: &mut Item, before: u64) {
        if self.length >= self.entries.len() {
            self.entries.push(Entry::default());
        }
        if let Some(entry) = self.entries.get_mut(self.length) {
            mem::swap(&mut entry.event, &mut *item.event);
            (entry.found, entry.before) = (item.found, before);
            self.length += 1;
        }
    }

    /// The events, in order.
    pub(super) fn entries(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut().take(self.length)
    }

    /// Makes room for others.
    pub(super) fn clear(&mut self) {
        self.length = 0;
    }
}

/// Sends all events before `until` that come out of `front`, until nobody takes them. Batches that come back by `again` are
/// used again.
pub(super) fn fill<S: Stream>(
    mut front: Front,
    events: Merge<S>,
    until: u64,
    to: &SyncSender<Box<Batch>>,
    again: &Receiver<Box<Batch>>,
) {
    let mut batch = Box::<Batch>::default();
    let sent = front.all(events, until, &mut |item, before| {
        batch.push(item, before);
        if batch.length < BATCH {
            return Ok(());
        }
        to.send(mem::replace(&mut batch, again.try_recv().unwrap_or_default()))
    });
    // Whoever takes no more has said why.
    let _ = sent.and_then(|()| to.send(batch));
}
