//! Checkpoints around a window: moments at which the counters of all rings are known.

use std::collections::BTreeSet;

use flightrec_format::abi::page::Lane;
use flightrec_format::meta::Meta;
use flightrec_format::totals::{CpuTotals, Totals};
use flightrec_store::{Content, FileReader, Kind};

use super::load::{self, BlockPlace};
use super::select;
use crate::window::Window;

/// A checkpoint.
pub(super) struct Mark {
    /// Where it stands.
    pub(super) place: BlockPlace,
    /// The counters.
    pub(super) totals: Totals,
}

/// Checkpoints around the window: the last before it, and the first after it, or the last that
/// there is.
pub(super) fn marks(opened: &[&FileReader], window: Window) -> (Option<Mark>, Option<Mark>) {
    let blocks: Vec<(u64, load::Job<'_>)> = load::jobs(opened)
        .filter(|job| job.block.header.kind == Kind::Checkpoint)
        .map(|job| (job.block.header.last, job))
        .collect();
    let (before, after) = select::around(blocks.iter().copied(), window.from, window.until);
    let read = |job: load::Job<'_>| match job.reader.read(job.block) {
        Ok(Content::Checkpoint(checkpoint)) => {
            Some(Mark { place: job.place(), totals: checkpoint.totals() })
        }
        _ => None,
    };
    let before = before.and_then(read);
    // One that can't be read is passed over for the last of those that can.
    let after = after.and_then(read).or_else(|| {
        let mut all = blocks.clone();
        all.sort_by_key(|(time, _)| *time);
        all.into_iter().rev().find_map(|(_, job)| read(job))
    });
    (before, after)
}

/// The moment at which the recording began, when all counters were 0. `None`: the blocks before the
/// first checkpoint of the first file that knows any ring do not hold all that was counted until
/// then, as where earlier files are gone.
pub(super) fn start(opened: &[&FileReader], meta: &Meta) -> Option<Mark> {
    let reader = opened.first()?;
    // The file's very first one may know no ring yet.
    let (first, counted) = reader.of(Kind::Checkpoint).take(2).find_map(|block| {
        let Ok(Content::Checkpoint(checkpoint)) = reader.read(block) else { return None };
        Some((block, checkpoint.totals())).filter(|(_, totals)| !totals.cpus.is_empty())
    })?;
    let is_whole = |lane: &Lane| {
        let blocks = reader.of(Kind::Pages).take_while(|block| block.offset < first.offset);
        let stored = blocks
            .filter(|block| block.header.lane == Some(*lane))
            .fold(0u64, |sum, block| sum.saturating_add(block.header.events));
        let of_lane = counted.cpus.iter().filter_map(|cpu| cpu.events.get(*lane as usize));
        stored == of_lane.fold(0u64, |sum, events| sum.saturating_add(events.total()))
    };
    if !Lane::RINGS.iter().all(is_whole) {
        return None;
    }
    let cpus = counted.cpus.iter().map(|of_cpu| of_cpu.cpu).chain(meta.cpus.iter().copied());
    let cpus: BTreeSet<u16> = cpus.collect();
    let at_zero = |cpu| CpuTotals { cpu, recorded: true, ..CpuTotals::default() };
    let totals = Totals {
        now: meta.started,
        cpus: cpus.into_iter().map(at_zero).collect(),
        ..Totals::default()
    };
    Some(Mark { place: (0, 0), totals })
}

/// The counters at every checkpoint between two moments, in order; at most so many as are worth
/// their reading.
pub(super) fn between(opened: &[&FileReader], from: u64, until: u64) -> Vec<Totals> {
    let inside = |job: &load::Job<'_>| {
        job.block.header.kind == Kind::Checkpoint && (from..=until).contains(&job.block.header.last)
    };
    let mut jobs: Vec<load::Job<'_>> = load::jobs(opened).filter(inside).collect();
    jobs.sort_by_key(|job| job.block.header.last);
    let read = |job: &load::Job<'_>| match job.reader.read(job.block) {
        Ok(Content::Checkpoint(checkpoint)) => Some(checkpoint.totals()),
        _ => None,
    };
    // The larger they are, the fewer.
    let largest = jobs.iter().map(|job| job.block.header.raw_len as usize).max().unwrap_or(0);
    let most = MARKS_MAX.min(MARK_BYTES_MAX / (largest * LOOSENED).max(1)).max(1);
    let step = jobs.len().div_ceil(most).max(1);
    jobs.iter().step_by(step).filter_map(read).collect()
}

/// Most checkpoints of one window that are read.
const MARKS_MAX: usize = 4096;
/// Bytes of memory that they may take.
const MARK_BYTES_MAX: usize = 32 << 20;
/// How many times as much memory a checkpoint takes as bytes, at most: a ring of 13 bytes may be
/// the only one of its CPU.
const LOOSENED: usize = 40;

/// The window out to the moments at which the counters are known.
pub(super) fn to_the_marks(window: Window, before: Option<&Totals>, after: &Totals) -> Window {
    Window {
        from: before.map_or(0, |before| before.now.min(window.from)),
        until: after.now.saturating_add(1).max(window.until),
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::counts::Counts;
    use flightrec_format::abi::record::Rename;
    use flightrec_format::decode::{Body, Event, Page};
    use flightrec_format::encode::PageWriter;
    use flightrec_store::{Checkpoint, FileHeader, FileWriter, RingMark};

    use super::*;

    /// When the recording of a file with two events began, if its first checkpoint counts so many.
    fn begun(counted: u64) -> Option<u64> {
        let header = FileHeader {
            compatible: 0,
            incompatible: 0,
            boot_id: [1; 16],
            session: 7,
            number: 1,
            created_wall: 0,
            created_mono: 0,
            begins: 0,
        };
        let mut ring = PageWriter::new(7, Lane::Task, 0, 0);
        for time in [10, 20] {
            let rename = Rename { tid: 1, tgid: 1, old: [b'a'; 16], new: [b'b'; 16] };
            ring.push(&Event { time, cpu: 0, tid: 1, body: Body::Rename(rename) }).unwrap();
        }
        let pages: Vec<Page> =
            ring.finish().into_iter().map(|page| Page::new(page).unwrap()).collect();
        let mut file = FileWriter::new(Vec::new(), &header, 1).unwrap();
        file.pages(&pages).unwrap();
        file.checkpoint(&Checkpoint::default()).unwrap();
        let mark = RingMark { events: Counts::first([counted]), ..RingMark::new(Lane::Task, 0) };
        file.checkpoint(&Checkpoint { time: 30, rings: vec![mark] }).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.flight");
        std::fs::write(&path, file.finish().unwrap()).unwrap();
        let reader = FileReader::open(&path).unwrap();
        let meta = Meta { started: 5, cpus: vec![0, 1], ..Meta::default() };
        let mark = start(&[&reader], &meta)?;
        assert_eq!(mark.totals.cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), [0, 1]);
        Some(mark.totals.now)
    }

    #[test]
    fn a_recording_begins_with_its_first_file_if_nothing_was_before() {
        assert_eq!(begun(2), Some(5));
        assert_eq!(begun(3), None, "an event is missing");
        assert_eq!(begun(1), None, "there is one too many");
    }
}
