//! Checkpoints around a window: moments at which the counters of all rings are known.

use flightrec_format::totals::Totals;
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

/// Checkpoints around the window: the last before it, and the first behind it, or the last that
/// there is.
pub(super) fn marks(opened: &[&FileReader], window: Window) -> (Option<Mark>, Option<Mark>) {
    let blocks: Vec<(u64, load::Job<'_>)> = load::jobs(opened)
        .filter(|job| job.block.header.kind == Kind::Checkpoint)
        .map(|job| (job.block.header.last, job))
        .collect();
    let (before, behind) = select::around(blocks.iter().copied(), window.from, window.until);
    let read = |job: load::Job<'_>| match job.reader.read(job.block) {
        Ok(Content::Checkpoint(checkpoint)) => {
            Some(Mark { place: job.place(), totals: checkpoint.totals() })
        }
        _ => None,
    };
    let before = before.and_then(read);
    // One that can't be read is passed over for the last of those that can.
    let after = behind.and_then(read).or_else(|| {
        let mut all = blocks.clone();
        all.sort_by_key(|(time, _)| *time);
        all.into_iter().rev().find_map(|(_, job)| read(job))
    });
    (before, after)
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
