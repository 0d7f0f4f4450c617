//! Tables of threads and descriptors that stand in files.

use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::descriptors::Snapshot;
use flightrec_store::{Content, FileReader, Kind};

use crate::source::snapshots;
use crate::window::Window;

/// Most threads of one moment's table that are taken.
const SLOTS_MAX: usize = 1 << 18;

/// The threads that lived when the files were begun: of the first last, for it counts. Where the
/// table of each moment begins, and the moment.
pub(super) fn threads(opened: &[&FileReader]) -> (Vec<TaskSlot>, Vec<(usize, u64)>) {
    let (mut slots, mut tables) = (Vec::new(), Vec::new());
    let ends = [opened.last(), opened.first()];
    let files = if opened.len() > 1 { &ends[..] } else { &ends[1..] };
    for reader in files.iter().flatten() {
        let mut blocks =
            reader.blocks().iter().filter(|block| block.header.kind == Kind::Slots).peekable();
        let Some(moment) = blocks.peek().map(|block| block.header.first) else { continue };
        tables.push((slots.len(), moment));
        for block in blocks.take_while(|block| block.header.first == moment) {
            if slots.len() >= SLOTS_MAX {
                break;
            }
            if let Ok(Content::Slots(threads)) = reader.read(block) {
                slots.extend(threads);
            }
        }
    }
    (slots, tables)
}

/// What descriptors stood for at moments of the window, and at the first after it.
pub(super) fn descriptors(opened: &[&FileReader], window: Window) -> Vec<Snapshot> {
    let blocks = opened.iter().flat_map(|reader| {
        let of_kind = reader.blocks().iter().filter(|block| block.header.kind == Kind::Descriptors);
        of_kind.map(move |block| (*reader, block))
    });
    let mut blocks: Vec<_> = blocks.filter(|(_, block)| block.header.last >= window.from).collect();
    blocks.sort_by_key(|(_, block)| block.header.last);
    let inside = blocks.partition_point(|(_, block)| block.header.last < window.until);
    snapshots(blocks.into_iter().take(inside + 1).filter_map(|(reader, block)| {
        match reader.read(block) {
            Ok(Content::Descriptors(document)) => Some(document),
            _ => None,
        }
    }))
}
