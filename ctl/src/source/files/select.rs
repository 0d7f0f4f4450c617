//! Which blocks of a recording's files a window needs, from their headers alone.

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_store::block::PAGES_MAX;
use flightrec_store::{BlockRef, Kind};

use crate::window::Window;

/// About how many bytes of memory a block's pages take: a full one has [`PAGES_MAX`] pages, one that was written early has a part
/// of a page of each CPU.
pub(super) fn weight(block: &BlockRef) -> u64 {
    const EVENTS_OF_A_PAGE: u64 = 64;
    const PARTS: u64 = 8;
    let pages = PARTS.saturating_add(block.header.events / EVENTS_OF_A_PAGE).min(PAGES_MAX as u64);
    pages * PAGE_SIZE as u64
}

/// Of one file's blocks, the pages that may hold events of the window in these lanes; of the task lane all up to the
/// window's end, as names hold until they change.
pub(super) fn pages<'a>(blocks: &'a [BlockRef], window: Window, lanes: &[Lane]) -> impl Iterator<Item = &'a BlockRef> {
    blocks.iter().filter(move |block| {
        block.header.kind == Kind::Pages
            && block.header.lane.is_some_and(|lane| lanes.contains(&lane))
            && block.header.first < window.until
            && (block.header.last >= window.from || block.header.lane == Some(Lane::Task))
    })
}

/// The last block of a lane that ends before a moment: a ring's first page of the window most often follows a page of it.
/// (Of the task lane all is read.)
pub(super) fn before<'a, R>(
    blocks: impl Iterator<Item = (R, &'a BlockRef)>,
    lane: Lane,
    moment: u64,
) -> Option<(R, &'a BlockRef)> {
    let is_before = |block: &BlockRef| {
        block.header.kind == Kind::Pages && block.header.lane == Some(lane) && block.header.last < moment
    };
    let of_lane = blocks.filter(|(_, block)| lane != Lane::Task && is_before(block));
    of_lane.max_by_key(|(_, block)| block.header.last)
}

/// Of blocks of one kind, by time: the last that is not behind a moment, and the first that is not before another.
pub(super) fn around<T>(
    blocks: impl Iterator<Item = (u64, T)> + Clone,
    from: u64,
    until: u64,
) -> (Option<T>, Option<T>) {
    let before = blocks.clone().filter(|(time, _)| *time <= from).max_by_key(|(time, _)| *time);
    let behind = blocks.filter(|(time, _)| *time >= until).min_by_key(|(time, _)| *time);
    (before.map(|(_, block)| block), behind.map(|(_, block)| block))
}
