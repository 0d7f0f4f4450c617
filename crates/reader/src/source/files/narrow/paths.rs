//! Blocks for a question about calls on paths: all system calls of the processes that were given
//! such a path, and of those that descend from them, for a descriptor of it may be theirs.
//!
//! A path that matches has a name, one of its components, which the pattern gives as it is. Whatever
//! it was put together of, one of the strings did, that a call was given in that process, or in one
//! from which it has its descriptors. (Or a snapshot of descriptors tells.) So the filters of names
//! in the summaries find all such processes.

use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::StringStatus;
use flightrec_format::decode::{Body, Call, Page, Text};
use flightrec_format::descriptors::{Ends, Object, Snapshot};
use flightrec_store::summary::{self, BlockSummary, CallKey, Missing};
use flightrec_store::{Content, Kind as Block};
use rustc_hash::FxHashSet;

use super::calls::{PART, abi};
use super::map::{At, Known, Last, Map, Moment};
use super::scan::{self, Arguments};
use super::{Only, Picked, Place, Sought, family};
use crate::source::snapshots;
use crate::window::LEAD_OUT_NS;

/// What is needed; `None`: too much, or not known.
pub(super) fn choose(
    map: &Map<'_>,
    place: &Place<'_>,
    sought: &dyn Sought,
    wanted: &[Vec<u8>],
) -> Option<Picked> {
    let hashes: Vec<u32> = wanted.iter().map(|name| summary::hash(name)).collect();
    let has_name = |entry: &BlockSummary| {
        let components = &entry.components;
        components.vague || hashes.iter().any(|name| components.may_have(*name))
    };
    // Operations of io_uring have to do with paths by descriptors as well, and what one opens
    // whoever finds it done has.
    let ring = family::kinds(&[Kind::IoSubmit, Kind::IoComplete]);
    let has_ring = |entry: &BlockSummary| entry.kinds & ring != 0;
    if map.of(Lane::Kernel).any(|(_, block)| block.may(has_ring)) || place.names.resumes() {
        return None;
    }
    let arguments = Arguments::new(place.meta);
    if !tells_all(map, place, sought)? {
        return None;
    }
    let all = map.open(Lane::Syscall, place.from).count();
    let seeds: Vec<At> =
        map.of(Lane::Syscall).filter(|(_, b)| b.may(has_name)).map(|(at, _)| at).collect();
    if seeds.len() > all / PART {
        return None;
    }
    let (mut given, mut shown) = (FxHashSet::default(), Vec::new());
    let of_blocks = map.scan(&seeds, |_, pages| {
        let mut found = Vec::new();
        each_call(pages, |tid, time, call| {
            if call.strings.iter().any(|text| may_name(text, wanted)) {
                found.push((tid, time, arguments.descriptors(call) != 0));
            }
        });
        found
    })?;
    for (tid, time, is_shown) in of_blocks.into_iter().flatten() {
        given.insert(tid);
        if is_shown {
            shown.push((tid, time));
        }
    }
    let mut roots = place.names.processes_of(&given);
    roots.extend(open_in(place, wanted)?);
    let processes = place.names.descendants(&roots);
    family::snapshots_of(place, &processes)?;
    let mut tids = place.names.threads_of(&processes);
    tids.extend(&given);
    // Who shares its descriptors with a child has what that opens.
    let parents = place.names.threads_of(&place.names.parents_of(&processes));
    if family::shares(map, place, &sorted(tids.iter().chain(&parents).copied()))? {
        return None;
    }
    let own = sorted(tids.iter().copied());
    let has_thread = |entry: &BlockSummary| entry.has_any_thread(&own);
    let of_kernel = |(_, block): &(At, &Known<'_>)| block.may(has_thread);
    let calls: Vec<At> = map
        .open(Lane::Syscall, place.from)
        .filter(|(_, block)| block.may(has_thread))
        .map(|(at, _)| at)
        .collect();
    if calls.len() > all / PART {
        return None;
    }
    let mut chosen: FxHashSet<At> = calls.iter().chain(&seeds).copied().collect();
    // How long disks were waited for in a call.
    if map.of(Lane::Kernel).any(|of| of_kernel(&of)) {
        chosen.extend(map.of(Lane::Kernel).map(|(at, _)| at));
    }
    let mut whole = Vec::new();
    let of_blocks = map.scan(&calls, |_, pages| {
        let (mut whole, mut shown) = (Vec::new(), Vec::new());
        each_call(pages, |tid, time, call| {
            if !tids.contains(&tid) {
                return;
            }
            if call.strings.iter().any(|text| text.status != StringStatus::Whole) {
                whole.push((time, time.saturating_add(LEAD_OUT_NS)));
            }
            // A descriptor alone is shown for what its own process tells.
            let descriptors = arguments.descriptors(call);
            if descriptors > 1 || descriptors == 1 && !call.strings.is_empty() {
                shown.push((tid, time));
            }
        });
        (whole, shown)
    })?;
    for (of_block, shown_in) in of_blocks {
        whole.extend(of_block);
        shown.extend(shown_in);
    }
    let is_alone = whole.is_empty();
    for (from, until) in whole {
        chosen.extend(map.all().filter(|(_, b)| b.touches(from, until)).map(|(at, _)| at));
    }
    shown.retain(|(_, time)| *time >= place.from);
    let family = family::choose(map, place, &shown)?;
    chosen.extend(family.blocks);
    let is_call = |at: &&At| map.get(**at).is_some_and(|block| block.lane == Lane::Syscall);
    if chosen.iter().filter(is_call).count() > all / PART {
        return None;
    }
    let threads = is_alone.then(|| tids.iter().copied().chain(family.threads).collect());
    let only = Only { from: place.from, threads: tids, ..Only::default() };
    Some(Picked { blocks: chosen, threads, only: Some(only) })
}

fn sorted(tids: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut tids: Vec<u32> = tids.collect();
    tids.sort_unstable();
    tids
}

/// Hands over the beginnings and ends of calls in these pages.
fn each_call(pages: &[&Page], mut take: impl FnMut(u32, u64, &Call)) {
    scan::each(pages, |event| {
        if let Body::Enter(call) | Body::Exit { call, .. } = &event.body {
            take(event.tid, event.time, call);
        }
    });
}

/// Whether a string may be of a path with one of these names.
fn may_name(text: &Text, wanted: &[Vec<u8>]) -> bool {
    text.is_string()
        && match text.status {
            StringStatus::Whole => has_name(&text.bytes, wanted),
            StringStatus::Unreadable => false,
            StringStatus::Cut | StringStatus::Ends => true,
        }
}

fn has_name(path: &[u8], wanted: &[Vec<u8>]) -> bool {
    summary::names(path).any(|name| wanted.iter().any(|wanted| wanted == name))
}

/// Whether the calls after the first stretch tell all of them that has to do with paths; `None`:
/// it is not known.
fn tells_all(map: &Map<'_>, place: &Place<'_>, sought: &dyn Sought) -> Option<bool> {
    let lacks = |call: CallKey, missing: Missing| {
        abi(call.0).is_none_or(|abi| sought.lacks_path(abi, call.1, missing))
    };
    let mut unbegun = Vec::new();
    for (at, block) in map.open(Lane::Syscall, place.from) {
        let entry = block.entry()?;
        if entry.calls.iter().any(|of| lacks(of.call, of.missing)) {
            return Some(false);
        }
        if entry.calls.iter().any(|of| of.unbegun.is_some_and(|lost| lacks(of.call, lost))) {
            unbegun.push(at);
        }
    }
    // A call that ends in a block may have begun in one before.
    let of_blocks = map.scan(&unbegun, |_, pages| {
        let mut ends = Vec::new();
        scan::each(pages, |event| {
            if let Body::Exit { call, entered: None, .. } = &event.body
                && lacks((call.abi as u8, call.nr), Missing::of(call))
            {
                ends.push((event.tid, event.time));
            }
        });
        let mut last = scan::begins(pages, &ends).into_iter();
        ends.retain(|_| !matches!(last.next(), Some(Some((_, true)))));
        ends
    })?;
    let ends: Vec<Moment> = of_blocks.into_iter().flatten().collect();
    have_begun(map, place, &ends)
}

/// Whether all calls that end at these moments began in blocks before; `None`: it is not known.
fn have_begun(map: &Map<'_>, place: &Place<'_>, ends: &[Moment]) -> Option<bool> {
    // By number of the end: what its thread did last, under any of its ids.
    let (mut asked, mut numbers) = (Vec::new(), Vec::new());
    for (number, (tid, time)) in ends.iter().enumerate() {
        for tid in place.names.before(*tid).chain([*tid]) {
            asked.push((tid, *time));
            numbers.push(number);
        }
    }
    let (found, _) = map.last(Lane::Syscall, &asked, scan::begins)?;
    let mut last: Vec<Option<Last<bool>>> = vec![None; ends.len()];
    for (at, number) in numbers.into_iter().enumerate() {
        if let (Some(last), Some(event)) = (last.get_mut(number), found.get(&at)) {
            *last = (*last).max(Some(*event));
        }
    }
    Some(last.into_iter().all(|last| last.is_some_and(|(_, begins)| begins)))
}

/// The processes that have such a path open where snapshots tell; `None`: one can't be read.
fn open_in(place: &Place<'_>, wanted: &[Vec<u8>]) -> Option<FxHashSet<u32>> {
    let mut found = FxHashSet::default();
    let is_wanted = |snapshot: &Snapshot, object: u32| match snapshot.objects.get(object as usize) {
        Some(Object::Named(name)) => has_name(name, wanted),
        Some(Object::Socket(socket)) => {
            matches!(&socket.ends, Ends::Unix { name, .. } if has_name(name, wanted))
        }
        None => false,
    };
    for reader in place.opened {
        for block in reader.of(Block::Descriptors) {
            let Ok(Content::Descriptors(document)) = reader.read(block) else { return None };
            for snapshot in snapshots([document].into_iter()) {
                // What threads have that differ is not known.
                if !snapshot.divided.is_empty() {
                    return None;
                }
                for table in &snapshot.tables {
                    if table.files.iter().any(|file| is_wanted(&snapshot, file.object)) {
                        found.extend(&table.processes);
                    }
                }
            }
        }
    }
    Some(found)
}
