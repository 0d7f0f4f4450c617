//! A window out of the rings, where no files are written, or not fast enough.

use std::io::{self, Write};

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::decode::Page;
use flightrec_format::live;
use flightrec_store::block::PAGES_MAX;
use flightrec_store::{Checkpoint, FileWriter, RingMark};

/// Bytes that the window may take at most: its pages, uncompressed.
pub fn bytes(live: &live::LiveRings) -> u64 {
    let cpus = live.cpus();
    let rings = Lane::RINGS.into_iter().flat_map(|lane| cpus.iter().map(move |cpu| (lane, *cpu)));
    rings.map(|(lane, cpu)| live.ring_pages(lane, cpu) * PAGE_SIZE as u64).sum()
}

/// Copies the pages of [`from`, `until`) (ns of `CLOCK_MONOTONIC`), and all of task life before,
/// for its names; then a checkpoint, as all that was recorded until `until` is then in the file.
pub fn copy<W: Write>(
    live: &live::LiveRings,
    from: u64,
    until: u64,
    to: &mut FileWriter<W>,
) -> io::Result<()> {
    let mut marks = Vec::new();
    for lane in [Lane::Task, Lane::Kernel, Lane::Sched, Lane::Syscall] {
        for cpu in live.cpus() {
            if live.ring_pages(lane, cpu) == 0 {
                continue;
            }
            let counters = live.counters();
            let from = if lane == Lane::Task { 0 } else { from };
            let mut last = None;
            let mut pages = Vec::with_capacity(PAGES_MAX);
            // The copying checked each but for its header; what memory's damage makes of that is a
            // gap.
            for page in
                live.pages(lane, cpu, from, until).filter_map(|bytes| Page::copy_from(&bytes).ok())
            {
                let header = page.header();
                // The first page after the window may be the ring's first, of requests to the disk
                // that this writing makes: by the window's end there were none of them.
                let counted = if header.base_mono >= until { header.events } else { after(&page) };
                last = Some((counted, header.seq, header.used));
                pages.push(page);
                if pages.len() == PAGES_MAX {
                    to.pages(&pages)?;
                    pages.clear();
                }
            }
            if !pages.is_empty() {
                to.pages(&pages)?;
            }
            let known = counters.cpus.iter().find(|totals| totals.cpu == cpu);
            let refused = known
                .and_then(|totals| totals.refused.get(lane as usize).copied())
                .unwrap_or_default();
            let idle = known
                .and_then(|totals| totals.events.get(lane as usize).copied())
                .unwrap_or_default();
            let (events, seq, used) = last.unwrap_or((idle, 0, 0));
            marks.push(RingMark { seq, used, events, refused, ..RingMark::new(lane, cpu) });
        }
    }
    to.checkpoint(&Checkpoint { time: until, rings: marks })
}

/// A ring's counters after a page.
fn after(page: &Page) -> Counts {
    page.header().events.plus(&page.summary().counts)
}
