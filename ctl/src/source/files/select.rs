//! Which blocks of a recording's files a window needs, from their headers alone.

use flightrec_format::abi::page::Lane;
use flightrec_store::{BlockRef, Kind};

use crate::window::Window;

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
