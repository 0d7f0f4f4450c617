//! A window out of the recorder's own files: their blocks, as they are.
//!
//! What is taken begins and ends at checkpoints around the window. So the counters at both ends are
//! those of the pages between, and a reader finds the window complete, or what is missing in it,
//! exactly.

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::Path;

use flightrec_format::abi::page::Lane;
use flightrec_store::{BlockRef, FileReader, FileWriter, Kind, Store};

/// Most bytes of earlier blocks of task life that are taken for the names in them.
const NAMES_MOST: u64 = 4 << 20;

/// A file that was begun by so much before the window, ns, has checkpoints enough in it.
const BEFORE: u64 = 1_000_000_000;

/// So much before the cause stays, ns, where the end of the window can be left out instead.
const BEFORE_CAUSE: u64 = 5_000_000_000;

/// Where a window is.
#[derive(Debug)]
pub struct Selection {
    files: Vec<FileReader>,
    /// File and block, in the order of writing.
    blocks: Vec<(usize, BlockRef)>,
    /// The threads when the first file was begun, and all of task life from there to the window;
    /// or nothing.
    names: Vec<(usize, BlockRef)>,
    /// From when on it holds the window, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// Until when.
    pub until: u64,
}

/// Finds the window [`from`, `until`) (ns of `CLOCK_MONOTONIC`) of a session in the files of a
/// state directory; `None` where they hold nothing of it. Where it takes more than `most` bytes its
/// beginning is left out; and its end before that, where the cause would be left out.
pub fn select(
    state_dir: &Path,
    boot: &[u8; 16],
    session: u64,
    window: (u64, u64),
    cause: u64,
    most: u64,
) -> Option<Selection> {
    let (from, mut until) = window;
    let mut files: Vec<FileReader> = Vec::new();
    for file in Store::open(state_dir).ok()?.files(boot).iter().rev() {
        // One that is gone, or not yet whole, holds nothing of it.
        let Ok(reader) = FileReader::open(&file.path) else { continue };
        if reader.header().session != session {
            break;
        }
        let reaches = reader.header().created_mono.saturating_add(BEFORE) <= from;
        files.push(reader);
        if reaches {
            break;
        }
    }
    files.reverse();
    let all: Vec<(usize, BlockRef)> = files
        .iter()
        .enumerate()
        .flat_map(|(i, file)| file.blocks().iter().map(move |block| (i, *block)))
        .collect();
    let mark = |(_, block): &(usize, BlockRef)| block.header.kind == Kind::Checkpoint;
    let after = all.iter().position(|at| mark(at) && at.1.header.last >= until);
    let mut end = after.map_or(all.len(), |at| at + 1);
    let starts = Starts::new(all.get(..end)?);
    let (mut start, mut held) = starts.last_before(from).unwrap_or((0, from));
    let size = |blocks: &[(usize, BlockRef)]| {
        blocks.iter().fold(0u64, |sum, (_, block)| sum.saturating_add(bytes(block)))
    };
    while size(all.get(start..end)?) > most {
        let next = starts.after(start);
        let spares = next.is_some_and(|(_, whole)| whole <= cause.saturating_sub(BEFORE_CAUSE));
        let earlier = if spares { None } else { end_before(&all, end, cause) };
        if let Some((position, time)) = earlier {
            (end, until) = (position, until.min(time));
        } else {
            (start, held) = next?;
        }
    }
    // A checkpoint from before it is whole would vouch for what is not copied.
    let vouches = |at: &&(usize, BlockRef)| !mark(at) || start == 0 || at.1.header.last >= held;
    let blocks: Vec<_> = all.get(start..end)?.iter().filter(vouches).copied().collect();
    let held = held.max(from);
    if !blocks.iter().any(|(_, block)| block.header.kind == Kind::Pages) {
        return None;
    }
    let names = names(all.get(..start)?, &all);
    Some(Selection { files, blocks, names, from: held, until })
}

/// The last position before `end` where copying may end after a cause: after a checkpoint; and
/// that checkpoint's time.
fn end_before(all: &[(usize, BlockRef)], end: usize, cause: u64) -> Option<(usize, u64)> {
    let marks = all.iter().enumerate().take(end.checked_sub(1)?).rev();
    let mut marks = marks.filter(|(_, (_, block))| block.header.kind == Kind::Checkpoint);
    let (at, (_, mark)) = marks.next()?;
    (mark.header.last > cause).then_some((at + 1, mark.header.last))
}

/// Where copying may begin: after a checkpoint. What was recorded just after a checkpoint's time
/// may stand before it, so what is copied is whole only from the first checkpoint on whose time is
/// after all that was left out.
struct Starts(Vec<(usize, u64)>);

impl Starts {
    fn new(all: &[(usize, BlockRef)]) -> Self {
        // Positions after checkpoints, with the latest moment of all pages before.
        let (mut latest, mut after, mut marks) = (0, Vec::new(), Vec::new());
        for (i, (_, block)) in all.iter().enumerate() {
            match block.header.kind {
                Kind::Pages => latest = latest.max(block.header.last),
                Kind::Checkpoint => {
                    after.push((i + 1, latest));
                    marks.push((i, block.header.last));
                }
                _ => {}
            }
        }
        let whole = |(start, latest): (usize, u64)| {
            let next = marks.iter().find(|(i, time)| *i >= start && *time > latest);
            next.map(|(_, time)| (start, *time))
        };
        Self(after.into_iter().filter_map(whole).collect())
    }

    /// The last position from which on what is copied is whole at a moment, and from when on it is.
    fn last_before(&self, moment: u64) -> Option<(usize, u64)> {
        self.0.iter().rev().find(|(_, whole)| *whole <= moment).copied()
    }

    /// The next position.
    fn after(&self, start: usize) -> Option<(usize, u64)> {
        self.0.iter().find(|(position, _)| *position > start).copied()
    }
}

/// What of the blocks before the window tells names: the threads at the beginning, and task life
/// since then.
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
        self.blocks
            .iter()
            .chain(&self.names)
            .fold(0, |sum, (_, block)| sum.saturating_add(bytes(block)))
    }

    /// Whether it tells which threads there are; else the caller does.
    pub fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// Copies it after the metadata. What can't be read is damaged there as well, and is a gap for
    /// a reader.
    pub fn copy<W: Write>(&self, to: &mut FileWriter<W>) -> io::Result<()> {
        let known = self
            .blocks
            .iter()
            .filter(|(_, block)| !matches!(block.header.kind, Kind::Meta | Kind::Slots));
        for (file, block) in self.names.iter().chain(known) {
            let Some(file) = self.files.get(*file) else { continue };
            if let Ok(block) = file.block(block) {
                to.push(block)?;
            }
        }
        Ok(())
    }
}
