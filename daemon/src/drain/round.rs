//! One round: everything that is new in all rings of a recording goes into its files.

use flightrec_format::abi::page::{Lane, RING_LANES};
use flightrec_format::decode::Page;
use flightrec_format::part::PROVISIONAL_NS;
use flightrec_store::block::PAGES_MAX;
use flightrec_store::{Now, Opening, State, StoreWriter};

use super::losses::Losses;
use super::source::Source;

/// Pages that are copied before they are handed over: as many as a block holds, so that they are
/// encoded while they are in the processor's cache.
const BATCH: usize = PAGES_MAX;
/// The small lanes first, so that their history does not wait for a flood of system calls.
const ORDER: [Lane; RING_LANES] = [Lane::Task, Lane::Kernel, Lane::Sched, Lane::Syscall];

/// Whether the rings are still being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rings {
    /// They are: the last record of a ring may change yet, and is left for the next round.
    Live,
    /// They are not: all of it is final.
    Ended,
}

/// Drains all rings once. Up to when everything recorded is in the files then, ns of
/// `CLOCK_MONOTONIC`; `None` where they could not be written.
pub(super) fn round(
    source: &impl Source,
    rings: Rings,
    writer: &mut StoreWriter,
    opening: &mut dyn Opening,
    losses: &mut Losses,
    now: impl Fn() -> Now,
) -> Option<u64> {
    let mut totals = source.counters();
    if rings == Rings::Ended {
        totals.now = totals.now.saturating_add(PROVISIONAL_NS);
    }
    // How far each ring is now is settled for all of them before the first page is copied: what the
    // counters say is there then, and a busy ring does not keep the round from ending.
    let places =
        source.rings().into_iter().map(|(lane, cpu, _)| (lane, cpu, source.newest(lane, cpu)));
    let places: Vec<_> = places.collect();
    for lane in ORDER {
        let mut batch: Vec<Page> = Vec::new();
        for (_, cpu, last) in places.iter().filter(|place| place.0 == lane) {
            let mark = writer.mark(lane, *cpu);
            for bytes in source.after(mark.position(), *last) {
                // The copying checked it but for its header; what memory's damage makes of that is
                // a gap.
                let Ok(page) = Page::new(bytes) else { continue };
                let before = batch.last().filter(|before| before.header().cpu == *cpu);
                losses.see(&mark, before, &page);
                batch.push(page);
                if batch.len() >= BATCH {
                    // The writer takes the last page of a ring for one that is still written. Where
                    // it is not, it goes on with the next batch once more, so
                    // that nothing of it is left behind.
                    let again = batch.last().cloned();
                    append(std::mem::take(&mut batch), totals.now, writer, opening, losses, now())?;
                    batch.extend(again);
                }
            }
        }
        append(batch, totals.now, writer, opening, losses, now())?;
    }
    writer.vouch(&totals);
    Some(totals.now.saturating_sub(PROVISIONAL_NS))
}

fn append(
    batch: Vec<Page>,
    copied: u64,
    writer: &mut StoreWriter,
    opening: &mut dyn Opening,
    losses: &mut Losses,
    now: Now,
) -> Option<()> {
    let written = batch.is_empty() || *writer.append(batch, copied, opening, now) == State::Ready;
    losses.settle(|lane, cpu| writer.mark(lane, cpu));
    written.then_some(())
}
