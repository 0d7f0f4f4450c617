//! Which blocks of a recording's files a window needs, from their headers alone.

use flightrec_format::abi::page::Lane;
use flightrec_store::{BlockRef, FileReader, Kind};

use super::load::{Job, jobs};
use crate::memory::PAGE_WEIGHT;
use crate::window::Window;

/// Bytes of memory that a block's pages take.
pub(super) fn weight(block: &BlockRef) -> u64 {
    (block.header.pages_max() as u64).saturating_mul(PAGE_WEIGHT)
}

/// Of one file's blocks, the pages that may hold events of the window in these lanes; of the task
/// lane all up to the window's end, as names hold until they change.
pub(super) fn pages<'a>(
    blocks: &'a [BlockRef],
    window: Window,
    lanes: &[Lane],
) -> impl Iterator<Item = &'a BlockRef> {
    blocks.iter().filter(move |block| {
        block.header.kind == Kind::Pages
            && block.header.lane.is_some_and(|lane| lanes.contains(&lane))
            && block.header.first < window.until
            && (block.header.last >= window.from || block.header.lane == Some(Lane::Task))
    })
}

/// All blocks of pages that the window needs: those that may hold events of it, and of each lane
/// the one before.
pub(super) fn needed<'a>(
    opened: &[&'a FileReader],
    window: Window,
    lanes: &[Lane],
) -> Vec<Job<'a>> {
    let mut needed = inside(opened, window, lanes);
    needed.extend(lanes.iter().filter_map(|lane| before(jobs(opened), *lane, window.from)));
    needed
}

/// The blocks of pages that may hold events of the window.
pub(super) fn inside<'a>(
    opened: &[&'a FileReader],
    window: Window,
    lanes: &[Lane],
) -> Vec<Job<'a>> {
    let of_file = |(file, reader): (usize, &&'a FileReader)| {
        let reader: &'a FileReader = reader;
        pages(reader.blocks(), window, lanes).map(move |block| Job { file, reader, block })
    };
    opened.iter().enumerate().flat_map(of_file).collect()
}

/// The last block of a lane that ends before a moment: a ring's first page of the window most often
/// follows a page of it. (Of the task lane all is read.)
fn before<'a>(blocks: impl Iterator<Item = Job<'a>>, lane: Lane, moment: u64) -> Option<Job<'a>> {
    let is_before = |block: &BlockRef| {
        block.header.kind == Kind::Pages
            && block.header.lane == Some(lane)
            && block.header.last < moment
    };
    let of_lane = blocks.filter(|job| lane != Lane::Task && is_before(job.block));
    of_lane.max_by_key(|job| job.block.header.last)
}

/// Of blocks of one kind, by time: the last that is not after a moment, and the first that is not
/// before another.
pub(super) fn around<T>(
    blocks: impl Iterator<Item = (u64, T)> + Clone,
    from: u64,
    until: u64,
) -> (Option<T>, Option<T>) {
    let before = blocks.clone().filter(|(time, _)| *time <= from).max_by_key(|(time, _)| *time);
    let after = blocks.filter(|(time, _)| *time >= until).min_by_key(|(time, _)| *time);
    (before.map(|(_, block)| block), after.map(|(_, block)| block))
}
