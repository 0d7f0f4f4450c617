//! Events on their way from the thread that puts them in order to the one that makes lines of them.
//!
//! A batch goes back to be filled again: what its events have allocated is used again, and freed by
//! the thread that allocated it. Few wait at a time, so memory does not grow with the recording.

use std::mem;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

use flightrec_format::decode::Event;
use flightrec_format::merge::{Merge, Stream};
use flightrec_reader::pipeline::delay::Item;
use flightrec_reader::pipeline::front::Front;

use super::packed::Packed;

/// Events in a batch: some 45 KB, so that all that go round stay in a CPU's cache. Whoever waits
/// for the other thread is woken at each, which takes as long as some dozens of lines.
pub(super) const BATCH: usize = 1024;
/// Batches that may wait for their lines.
pub(super) const WAITING: usize = 4;

/// What the first thread has: where full batches go, and where empty ones come from.
pub(super) struct ToBack {
    full: SyncSender<Box<Packed>>,
    empty: Receiver<Box<Packed>>,
}

/// What the second thread has.
pub(super) struct FromFront {
    full: Receiver<Box<Packed>>,
    empty: Sender<Box<Packed>>,
}

/// The way from one thread to the other. A thread that drops its side ends the other one.
pub(super) fn way() -> (ToBack, FromFront) {
    let (to_back, from_front) = mpsc::sync_channel(WAITING);
    let (give_back, empty) = mpsc::channel();
    (ToBack { full: to_back, empty }, FromFront { full: from_front, empty: give_back })
}

impl ToBack {
    /// Sends a batch, as soon as there is room for it, and returns one to be filled. An error:
    /// nobody takes any more.
    fn send(&self, batch: Box<Packed>) -> Result<Box<Packed>, ()> {
        self.full.send(batch).map_err(drop)?;
        Ok(self.empty.try_recv().unwrap_or_default())
    }
}

impl FromFront {
    /// Takes all batches, until no more come.
    pub(super) fn each<E>(
        self,
        mut take: impl FnMut(&mut Packed) -> Result<(), E>,
    ) -> Result<(), E> {
        for mut batch in self.full {
            take(&mut batch)?;
            batch.clear();
            // The first thread may have sent all, and be gone.
            let _ = self.empty.send(batch);
        }
        Ok(())
    }
}

/// Sends all events before `until` that come out of `front`, until nobody takes them. Where more
/// are to come (`goes_on`), those that still wait for them stay in `front`, which comes back.
pub(super) fn fill<S: Stream<Item = Event>>(
    mut front: Front,
    events: Merge<S>,
    until: u64,
    goes_on: bool,
    to: &ToBack,
) -> Front {
    let mut batch = Box::<Packed>::default();
    let mut send = |item: &mut Item, before| {
        batch.push(item, before);
        if batch.len() < BATCH {
            return Ok(());
        }
        batch = to.send(mem::take(&mut batch))?;
        Ok(())
    };
    let mut sent: Result<(), ()> = front.all(events, until, &mut send);
    if !goes_on {
        sent = sent.and_then(|()| front.end(&mut send));
    }
    // Whoever takes no more has said why.
    let _ = sent.and_then(|()| to.send(batch));
    front
}
