//! Events on their way from the thread that puts them in order to the one that makes lines of them.
//!
//! A batch goes back to be filled again: what its events have allocated is used again, and freed by
//! the thread that allocated it.

use std::mem;

use flightrec_format::merge::{Merge, Stream};

use super::handover::FrontSide;
use super::packed::Packed;
use crate::pipeline::delay::Item;
use crate::pipeline::front::Front;

/// Events in a batch: some 45 KB, so that all that go round stay in a CPU's cache. Whoever waits
/// for the other thread is woken at each, which takes as long as some dozens of lines.
pub(super) const BATCH: usize = 1024;

/// Sends all events before `until` that come out of `front`, until nobody takes them; then helps to
/// make lines. Where more are to come (`goes_on`), those that still wait for them stay in `front`,
/// which comes back.
pub(super) fn fill<S: Stream>(
    mut front: Front,
    events: Merge<S>,
    until: u64,
    goes_on: bool,
    mut to: FrontSide<'_>,
) -> Front {
    let mut batch = Box::<Packed>::default();
    let mut send = |item: &mut Item, before| {
        batch.push(item, before);
        if batch.len() < BATCH {
            return Ok(());
        }
        batch = to.send(mem::take(&mut batch)).ok_or(())?;
        Ok(())
    };
    let mut sent: Result<(), ()> = front.all(events, until, &mut send);
    if !goes_on {
        sent = sent.and_then(|()| front.end(&mut send));
    }
    // Whoever takes no more has said why.
    if sent.is_ok() && to.send(batch).is_some() {
        to.end();
    }
    front
}
