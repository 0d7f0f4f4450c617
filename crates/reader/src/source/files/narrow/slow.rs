//! Which threads have calls that may be slow, block by block: a quick look, without arguments,
//! before the blocks with their beginnings are searched for.
//!
//! A block has an end without a beginning of nearly each thread that sleeps. Most of these calls
//! began shortly before: what the thread did last tells it.

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Brief, Half, Page};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Place;
use super::map::{At, Map};

/// Threads, by block.
pub(super) type Threads = FxHashMap<At, FxHashSet<u32>>;

/// The end of a call.
#[derive(Debug, Clone, Copy)]
struct End {
    tid: u32,
    time: u64,
}

/// What a block tells of calls that take some time at least.
#[derive(Debug, Default)]
struct Look {
    /// Threads that have such a call, which begins in the block.
    slow: FxHashSet<u32>,
    /// Ends before which the block has nothing of their threads.
    first: Vec<End>,
    /// Threads with ends of calls before which they are seen in no call.
    lost: FxHashSet<u32>,
}

/// By block, of those that have any, the threads with calls that may take `least` ns or more;
/// `None`: a block can't be read.
pub(super) fn choose(
    map: &Map<'_>,
    place: &Place<'_>,
    seeds: &[At],
    least: u64,
) -> Option<Threads> {
    // Under another id a thread may have begun its call, which executed a program.
    let is_renamed = |tid: u32| place.names.before(tid).next().is_some();
    let looks = map.scan(seeds, |_, pages| look(pages, least))?;
    let (mut chosen, mut open) = (Threads::default(), Threads::default());
    let mut asked = FxHashMap::<At, Vec<(At, End)>>::default();
    for (at, look) in seeds.iter().zip(looks) {
        let threads = chosen.entry(*at).or_insert(look.slow);
        threads.extend(look.lost.into_iter().filter(|tid| is_renamed(*tid)));
        for end in look.first {
            open.entry(*at).or_default().insert(end.tid);
            if !is_renamed(end.tid) {
                for before in map.before(Lane::Syscall, end.tid, end.time) {
                    asked.entry(before).or_default().push((*at, end));
                }
            }
        }
    }
    let blocks: Vec<At> = asked.keys().copied().collect();
    let of_blocks = map.scan(&blocks, |at, pages| {
        asked.get(&at).map(|ends| short(pages, ends, least)).unwrap_or_default()
    })?;
    for (at, end) in of_blocks.into_iter().flatten() {
        if let Some(threads) = open.get_mut(&at) {
            threads.remove(&end.tid);
        }
    }
    for (at, threads) in open {
        chosen.entry(at).or_default().extend(threads);
    }
    chosen.retain(|_, threads| !threads.is_empty());
    Some(chosen)
}

fn look(pages: &[&Page], least: u64) -> Look {
    /// What a thread was seen in last.
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Nothing,
        NoCall,
        Call(u64),
    }
    let mut briefs: Vec<Brief> = Vec::new();
    for page in pages {
        let mut whole = None;
        for brief in page.brief_calls() {
            // Of one whole call after another the first tells enough.
            let is_whole = matches!(brief.half, Half::Whole { .. });
            if !is_whole || whole != Some(brief.tid) {
                briefs.push(brief);
            }
            whole = is_whole.then_some(brief.tid);
        }
    }
    briefs.sort_by_key(|brief| (brief.tid, brief.time));
    let mut look = Look::default();
    let (mut of, mut seen) = (0, Seen::Nothing);
    for Brief { tid, time, half, .. } in briefs {
        if of != tid {
            (of, seen) = (tid, Seen::Nothing);
        }
        match (half, seen) {
            (Half::Enter, _) => seen = Seen::Call(time),
            (Half::Exit { .. }, Seen::Nothing) => look.first.push(End { tid, time }),
            (Half::Exit { .. }, Seen::NoCall) => drop(look.lost.insert(tid)),
            (Half::Exit { .. }, Seen::Call(began)) if time.saturating_sub(began) >= least => {
                look.slow.insert(tid);
            }
            _ => {}
        }
        if half != Half::Enter {
            seen = Seen::NoCall;
        }
    }
    look
}

/// Those of some ends, each with its block, that are of short calls, as their threads did something
/// in these pages shortly before.
fn short(pages: &[&Page], ends: &[(At, End)], least: u64) -> Vec<(At, End)> {
    let mut by_tid = FxHashMap::<u32, Vec<&(At, End)>>::default();
    for end in ends {
        by_tid.entry(end.1.tid).or_default().push(end);
    }
    let mut short = Vec::new();
    for Brief { tid, time, half, .. } in pages.iter().flat_map(|page| page.brief_calls()) {
        let last = if let Half::Whole { exited, .. } = half { exited } else { time };
        if let Some(ends) = by_tid.get_mut(&tid) {
            ends.retain(|(at, end)| {
                let is_short = last < end.time && end.time - last < least;
                if is_short {
                    short.push((*at, *end));
                }
                !is_short
            });
        }
    }
    short
}
