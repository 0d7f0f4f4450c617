//! Blocks that tell what the descriptors of some threads stand for: all system calls of their
//! processes, and of the processes that these descend from.

use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Body;
use flightrec_store::{Content, Kind as Block};
use rustc_hash::FxHashSet;

use super::map::{At, Map};
use super::{Place, scan};
use crate::source::snapshots;

/// What tells what descriptors stand for.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) blocks: FxHashSet<At>,
    /// Whose calls in them do.
    pub(super) threads: Vec<u32>,
}

/// What tells of threads that show descriptors at these moments; `None`: it is not known.
pub(super) fn choose(map: &Map<'_>, place: &Place<'_>, shown: &[(u32, u64)]) -> Option<Family> {
    if shown.is_empty() {
        return Some(Family::default());
    }
    let threads: FxHashSet<u32> = shown.iter().map(|(tid, _)| *tid).collect();
    let processes = place.names.family(&threads);
    let mut tids = place.names.threads_of(&processes);
    tids.extend(&threads);
    let mut tids: Vec<u32> = tids.into_iter().collect();
    tids.sort_unstable();
    // What an io_uring does to descriptors is told by whoever finds it done.
    let ring = kinds(&[Kind::IoSubmit, Kind::IoComplete]);
    let has_ring = |entry: &flightrec_store::summary::BlockSummary| {
        entry.kinds & ring != 0 && entry.has_any_thread(&tids)
    };
    if map.of(Lane::Kernel).any(|(_, block)| block.may(has_ring)) {
        return None;
    }
    // A snapshot names descriptors from their last change before it on.
    let until = if snapshots_of(place, &processes)? {
        u64::MAX
    } else {
        shown.iter().map(|(_, time)| *time).max().unwrap_or(0)
    };
    let blocks: Vec<At> = map
        .open(Lane::Syscall, place.from)
        .filter(|(_, block)| block.first <= until)
        .filter(|(_, block)| block.may(|entry| entry.has_any_thread(&tids)))
        .map(|(at, _)| at)
        .collect();
    if blocks.len() > map.open(Lane::Syscall, place.from).count() / super::calls::PART {
        return None;
    }
    let shares = shares_in(map, place, &blocks, &tids)?;
    (!shares).then(|| Family { blocks: blocks.into_iter().collect(), threads: tids })
}

/// Whether one of these threads, in order, makes a child that shares its descriptors.
pub(super) fn shares(map: &Map<'_>, place: &Place<'_>, tids: &[u32]) -> Option<bool> {
    let blocks: Vec<At> = map
        .of(Lane::Syscall)
        .filter(|(_, block)| block.may(|entry| entry.has_any_thread(tids)))
        .map(|(at, _)| at)
        .collect();
    shares_in(map, place, &blocks, tids)
}

/// The same in some blocks.
fn shares_in(map: &Map<'_>, place: &Place<'_>, blocks: &[At], tids: &[u32]) -> Option<bool> {
    let clones: FxHashSet<u16> = place
        .meta
        .native
        .iter()
        .chain(&place.meta.compat)
        .filter(|call| call.name == "clone")
        .map(|call| call.nr)
        .collect();
    // A child that shares descriptors changes those of its parent.
    let cloning: Vec<At> = blocks
        .iter()
        .copied()
        .filter(|at| {
            let has = |entry: &flightrec_store::summary::BlockSummary| {
                entry.calls.iter().any(|of| clones.contains(&of.call.1))
            };
            map.get(*at).is_some_and(|block| block.may(has))
        })
        .collect();
    let of_blocks = map.scan(&cloning, |_, pages| {
        let mut shares = false;
        scan::each(pages, |event| {
            let (Body::Enter(call) | Body::Exit { call, .. }) = &event.body else { return };
            let flags = call.args.first().copied().unwrap_or(0) as u32;
            let own = flags & (libc::CLONE_FILES | libc::CLONE_THREAD) as u32;
            shares |= clones.contains(&call.nr)
                && call.nargs > 0
                && own == libc::CLONE_FILES as u32
                && tids.binary_search(&event.tid).is_ok();
        });
        shares
    })?;
    Some(of_blocks.contains(&true))
}

/// Bits of these kinds in their lane.
pub(super) fn kinds(kinds: &[Kind]) -> u16 {
    kinds.iter().fold(0, |bits, kind| bits | 1 << (*kind as u8 & 0xf))
}

/// Whether there are descriptor snapshots; `None`: in one of them, a process of the family shares
/// its descriptors, or one can't be read.
pub(super) fn snapshots_of(place: &Place<'_>, processes: &FxHashSet<u32>) -> Option<bool> {
    let mut is_any = false;
    for reader in place.opened {
        for block in reader.of(Block::Descriptors) {
            is_any = true;
            let Ok(Content::Descriptors(document)) = reader.read(block) else { return None };
            for snapshot in snapshots([document].into_iter()) {
                let shares = |table: &flightrec_format::descriptors::Table| {
                    table.processes.len() > 1
                        && table.processes.iter().any(|process| processes.contains(process))
                };
                if snapshot.tables.iter().any(shares) {
                    return None;
                }
            }
        }
    }
    Some(is_any)
}
