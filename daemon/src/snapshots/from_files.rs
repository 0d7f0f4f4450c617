//! A window out of the recorder's own files: their blocks, as they are.
//!
//! What is taken is everything between two checkpoints, the last before the window and the first behind it. So the counters at
//! both ends are those of the pages between, and a reader finds the window complete, or what is missing in it, exactly.

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::Path;

use flightrec_format::abi::page::Lane;
use flightrec_store::{BlockRef, FileReader, FileWriter, Kind, Store};

/// Most bytes of earlier blocks of task life that are taken for the names in them.
const NAMES_MOST: u64 = 4 << 20;

/// Where a window is.
#[derive(Debug)]
pub struct Selection {
    files: Vec<FileReader>,
    /// File and block, in the order of writing.
    blocks: Vec<(usize, BlockRef)>,
    /// The threads when the first file was begun, and all of task life from there to the window; or nothing.
    names: Vec<(usize, BlockRef)>,
    /// From when on it holds the window, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// Whether a checkpoint stands behind the window.
    pub whole: bool,
}

/// Finds the window [`from`, `until`) (ns of `CLOCK_MONOTONIC`) of a session in the files of a state directory; `None` where
/// they hold nothing of it. Where it takes more than `most` bytes its beginning is left out.
pub fn select(state_dir: &Path, boot: &[u8; 16], session: u64, window: (u64, u64), most: u64) -> Option<Selection> {
    let (from, until) = window;
    let mut files: Vec<FileReader> = Vec::new();
    for file in Store::open(state_dir).ok()?.files(boot).iter().rev() {
        // One that is gone, or not yet whole, holds nothing of it.
        let Ok(reader) = FileReader::open(&file.path) else { continue };
        if reader.header().session != session {
            break;
        }
        let reaches = reader.header().created_mono <= from;
        files.push(reader);
        if reaches {
            break;
        }
    }
    files.reverse();
    let all: Vec<(usize, BlockRef)> =
        files.iter().enumerate().flat_map(|(i, file)| file.blocks().iter().map(move |block| (i, *block))).collect();
    let mark = |(_, block): &(usize, BlockRef)| block.header.kind == Kind::Checkpoint;
    let behind = all.iter().position(|at| mark(at) && at.1.header.last >= until);
    let (end, whole) = behind.map_or((all.len(), false), |at| (at + 1, true));
    let before = all.iter().take(end).rposition(|at| mark(at) && at.1.header.last <= from);
    let mut start = before.unwrap_or(0);
    let size =
        |blocks: &[(usize, BlockRef)]| blocks.iter().fold(0u64, |sum, (_, block)| sum.saturating_add(bytes(block)));
    let mut held = from.max(all.get(start).map_or(from, |(_, block)| block.header.last.min(from)));
    while size(all.get(start..end)?) > most {
        let next = all.iter().take(end.saturating_sub(1)).skip(start + 1).position(mark)?;
        start += 1 + next;
        held = held.max(all.get(start)?.1.header.last);
    }
    let blocks = all.get(start..end)?.to_vec();
    if !blocks.iter().any(|(_, block)| block.header.kind == Kind::Pages) {
        return None;
    }
    let names = names(all.get(..start)?, &all);
    Some(Selection { files, blocks, names, from: held, whole })
}

/// What of the blocks before the window tells names: the threads at the beginning, and task life since then.
fn names(before: &[(usize, BlockRef)], all: &[(usize, BlockRef)]) -> Vec<(usize, BlockRef)> {
    let slots = all.iter().filter(|(_, block)| block.header.kind == Kind::Slots);
    let Some((_, first)) = slots.clone().next() else { return Vec::new() };
    let slots = slots.filter(|(_, block)| block.header.first == first.header.first);
    let life = before.iter().filter(|(_, block)| block.header.lane == Some(Lane::Task));
    let names: Vec<_> = slots.chain(life).copied().collect();
    let size = names.iter().fold(0u64, |sum, (_, block)| sum.saturating_add(bytes(block)));
    if size <= NAMES_MOST { names } else { Vec::new() }
}

fn bytes(block: &BlockRef) -> u64 {
    block.end().saturating_sub(block.offset)
}

impl Selection {
    /// Bytes that it takes, about.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().chain(&self.names).fold(0, |sum, (_, block)| sum.saturating_add(bytes(block)))
    }

    /// Whether it tells which threads there are; else the caller does.
    pub fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// Copies it behind the metadata. What can't be read is damaged there as well, and is a gap for a reader.
    pub fn copy<W: Write>(&self, to: &mut FileWriter<W>) -> io::Result<()> {
        let known = self.blocks.iter().filter(|(_, block)| !matches!(block.header.kind, Kind::Meta | Kind::Slots));
        for (file, block) in self.names.iter().chain(known) {
            let Some(file) = self.files.get(*file) else { continue };
            if let Ok(block) = file.block(block) {
                to.push(block)?;
            }
        }
        Ok(())
    }
}
