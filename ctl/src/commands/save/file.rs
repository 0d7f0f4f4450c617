//! The file of a chapter.

use std::io::{self, Write};

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{
    COPY_MAGIC, HEADER_LEN, Lane, PAGE_SIZE, PageHeader, REFUSALS, UNIT,
};
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::control::Totals;
use flightrec_format::decode::Page;
use flightrec_format::encode::{PageWriter, write_header, write_slot};
use flightrec_format::ring::LaneStream;
use flightrec_store::block::PAGES_MAX;
use flightrec_store::snapshot::About;
use flightrec_store::{Checkpoint, RingMark};

use crate::progress::Progress;
use crate::source::Recording;
use crate::source::history::Chapter;
use crate::target;
use crate::window::Window;
use crate::windows::Windows;

/// Most stretches of a window that a file tells: a clock that is slewed makes many that are near
/// together.
const STRETCHES: usize = 256;

/// Why the file is there: for these windows, whose end was at `wall`, ns since 1970.
pub(super) fn about(windows: &Windows, wall: i64) -> About {
    let Window { from, until } = windows.hull();
    let reason = "saved by flightctl save".to_owned();
    let stretches = windows.at_most(STRETCHES);
    let stretches = (stretches.count() > 1)
        .then(|| stretches.iter().map(|one| (one.from, one.until)).collect());
    About {
        cause: "save".into(),
        reason,
        time: until,
        wall,
        from,
        until,
        held_from: from,
        stretches: stretches.unwrap_or_default(),
        ..About::default()
    }
}

/// A chapter's file.
pub(super) fn write(out: impl Write, chapter: &Chapter, about: &About) -> io::Result<()> {
    let (recording, clock) = (&chapter.recording, chapter.clock);
    let progress = Progress::start("writing the file");
    let mut file = target::begin(out, &recording.meta, clock)?;
    file.slots(clock.now, &slot_pages(&recording.slots, recording.meta.session))?;
    for snapshot in &recording.descriptors {
        file.descriptors(snapshot.end, &snapshot.encode())?;
    }
    if let Some(before) = &recording.before {
        file.checkpoint(&Checkpoint {
            time: before.now,
            rings: marks(recording, before, counted_before).collect(),
        })?;
    }
    for lane in Lane::RINGS {
        let of_lane = recording.streams.iter().filter(|stream| stream.lane() == lane);
        let mut pages: Vec<&Page> = of_lane.flat_map(LaneStream::pages).collect();
        // By time, so that a window of the file is a few of its blocks.
        pages.sort_by_key(|page| page.header().base_mono);
        for pages in pages.chunks(PAGES_MAX) {
            file.pages(&pages.iter().map(|page| (*page).clone()).collect::<Vec<_>>())?;
            progress.add((pages.len() * PAGE_SIZE) as u64);
        }
    }
    // What was damaged where this was read from is not made whole by being saved: without a
    // checkpoint, a reader vouches for no more than the pages themselves do.
    if recording.copied != 0 {
        file.checkpoint(&Checkpoint {
            time: clock.now,
            rings: marks(recording, &recording.totals, |stream, known| {
                Some(counted_behind(stream, known))
            })
            .collect(),
        })?;
    }
    file.snapshot(about)?;
    file.finish()?;
    Ok(())
}

/// A ring's counters at a moment.
type Counters = (Counts, [u64; REFUSALS]);

/// The rings' counters for a checkpoint: what `choose` makes of those that are known and of the
/// ring's pages.
fn marks<'a>(
    recording: &'a Recording,
    totals: &'a Totals,
    choose: impl Fn(&LaneStream, Counters) -> Option<Counters> + 'a,
) -> impl Iterator<Item = RingMark> + 'a {
    recording.streams.iter().filter_map(move |stream| {
        let (lane, cpu) = (stream.lane(), stream.cpu());
        let of_cpu = totals.cpus.iter().find(|totals| totals.cpu == cpu)?;
        let known = (*of_cpu.events.get(lane as usize)?, *of_cpu.refused.get(lane as usize)?);
        let (events, refused) = choose(stream, known)?;
        Some(RingMark { events, refused, ..RingMark::new(lane, cpu) })
    })
}

/// Before the pages: only where nothing came between. What did is not in the file, and would be
/// taken for lost.
fn counted_before(stream: &LaneStream, known: Counters) -> Option<Counters> {
    let first = stream.pages().first().map(Page::header);
    first.is_none_or(|first| first.events == known.0).then_some(known)
}

/// Behind them: what they hold themselves, as all of it is in the file.
fn counted_behind(stream: &LaneStream, known: Counters) -> Counters {
    let Some(last) = stream.pages().last() else { return known };
    (last.header().events.plus(&last.summary().counts), known.1)
}

/// The thread table as pages.
fn slot_pages(slots: &[TaskSlot], session: u64) -> Vec<[u8; PAGE_SIZE]> {
    let fit = (PAGE_SIZE - HEADER_LEN) / size_of::<TaskSlot>();
    let page = |(seq, slots): (u64, &[TaskSlot])| {
        let header = PageWriter::new(session, Lane::Slots, 0, 0).header();
        let used = (PAGE_SIZE / UNIT) as u32;
        let header = PageHeader { magic: COPY_MAGIC, seq, used, ..header };
        let mut out = [0; PAGE_SIZE];
        let (head, body) = out.split_at_mut(HEADER_LEN);
        head.copy_from_slice(&write_header(&header));
        for (to, slot) in body.chunks_exact_mut(size_of::<TaskSlot>()).zip(slots) {
            to.copy_from_slice(&write_slot(slot));
        }
        out
    };
    (1..).zip(slots.chunks(fit)).map(page).collect()
}
