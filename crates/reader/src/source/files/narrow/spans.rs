//! Blocks for a question about threads and all that they do: whatever happens while they do
//! anything, from before each such stretch of time on.
//!
//! A wakeup's line needs where the wakee runs next, and the length of a run queue, which counts
//! from when its CPU was idle last. So each stretch is read whole, from a moment on since which
//! every CPU has been idle, or is; and on after it for as long as a wakeup may wait. Between two
//! stretches nothing is read, and what is known of CPUs and of waits is forgotten
//! ([`Skip`]).

use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::page::Lane;
use flightrec_store::summary::BlockSummary;
use rustc_hash::FxHashSet;

use super::calls::PART;
use super::map::{At, Known, Map, Moment};
use super::scan::{self, Arguments, Brief, What};
use super::{Picked, Place, Sought, family};
use crate::source::sure::Skip;
use crate::window::LEAD_OUT_NS;

/// A stretch of time that is read whole.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: u64,
    until: u64,
}

/// What is needed, and where each stretch begins; `None`: too much, or not known.
pub(super) fn choose(
    map: &Map<'_>,
    place: &Place<'_>,
    sought: &dyn Sought,
) -> Option<(Picked, Vec<Skip>)> {
    let threads = sought.threads()?;
    let grouped = if sought.names_groups() { family::kinds(&[Kind::Throttle]) } else { 0 };
    let is_of = |block: &Known<'_>| {
        let names_group = |entry: &BlockSummary| entry.kinds & grouped != 0;
        block.may(|entry| entry.has_any_thread(threads))
            || block.lane == Kind::Throttle.lane() && block.may(names_group)
    };
    let seeds: Vec<At> = map
        .all()
        .filter(|(_, block)| block.last >= place.from)
        // The rings are read in any case, and go on with what is known where they begin.
        .filter(|(_, block)| block.job().is_none() || is_of(block))
        .map(|(at, _)| at)
        .collect();
    let all = map.all().filter(|(_, block)| block.last >= place.from).count();
    if seeds.len() > all / PART || requests(map, &seeds, threads)? || waits(map, &seeds, threads)? {
        return None;
    }
    let mut spans = Vec::new();
    for block in seeds.iter().filter_map(|at| map.get(*at)) {
        let until = block.last.saturating_add(LEAD_OUT_NS).saturating_add(1);
        spans.push(Span { from: block.first, until });
    }
    spans = joined(spans);
    let mut skips = Vec::new();
    for span in &mut spans {
        span.from = begin(map, place, span.from);
    }
    let mut chosen = FxHashSet::default();
    for span in joined(spans) {
        if span.from > place.from {
            skips.push(Skip { at: span.from, idle: idle(map, place, span.from) });
        }
        chosen
            .extend(map.all().filter(|(_, b)| b.touches(span.from, span.until)).map(|(at, _)| at));
    }
    if sought.names_descriptors() {
        let shown = shown(map, place, &seeds, threads)?;
        chosen.extend(family::choose(map, place, &shown)?.blocks);
    }
    skips.sort_by_key(|skip| skip.at);
    (chosen.len() <= all / PART)
        .then(|| (Picked { blocks: chosen, threads: None, only: None }, skips))
}

/// Those that touch made one, in order.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| span.from);
    let mut out: Vec<Span> = Vec::new();
    for span in spans {
        match out.last_mut().filter(|last| span.from <= last.until) {
            Some(last) => last.until = last.until.max(span.until),
            None => out.push(span),
        }
    }
    out
}

/// Whether the threads make requests: by whom they are done, which is shown as well, a summary does
/// not tell.
fn requests(map: &Map<'_>, seeds: &[At], threads: &[u32]) -> Option<bool> {
    const KINDS: [Kind; 3] = [Kind::BlockInsert, Kind::BlockIssue, Kind::IoSubmit];
    let kinds = family::kinds(&KINDS);
    let may = |block: &Known<'_>| {
        block.lane == Lane::Kernel && block.may(|entry| entry.kinds & kinds != 0)
    };
    let blocks: Vec<At> =
        seeds.iter().copied().filter(|at| map.get(*at).is_some_and(may)).collect();
    let of_blocks = map.scan(&blocks, |_, pages| {
        let mut found = false;
        scan::each(pages, |event| {
            found |=
                KINDS.contains(&event.body.kind()) && threads.binary_search(&event.tid).is_ok();
        });
        found
    })?;
    Some(of_blocks.contains(&true))
}

/// From when on a stretch is read of which something is wanted from `from` on: each CPU goes idle
/// in between, if it ever does, or is idle all the time.
fn begin(map: &Map<'_>, place: &Place<'_>, from: u64) -> u64 {
    let moments = place.meta.cpus.iter().filter_map(|cpu| match before(map, *cpu, from) {
        Before::Since(moment) => Some(moment),
        Before::Nothing | Before::Idle => None,
    });
    moments.min().map_or(from, |moment| moment.min(from))
}

/// The CPUs that are idle at a moment, for sure.
fn idle(map: &Map<'_>, place: &Place<'_>, moment: u64) -> Vec<u16> {
    let is_idle = |cpu: &u16| matches!(before(map, *cpu, moment), Before::Idle);
    place.meta.cpus.iter().copied().filter(is_idle).collect()
}

/// What a CPU did before a moment.
enum Before {
    /// It never switched.
    Nothing,
    /// Its last switch was to idle.
    Idle,
    /// It is busy; with the events from this moment on it is known with what.
    Since(u64),
}

fn before(map: &Map<'_>, cpu: u16, moment: u64) -> Before {
    let state = |entry: &BlockSummary| entry.cpus.iter().copied().find(|of| of.cpu == cpu);
    let all: Vec<&Known<'_>> = map
        .of(Lane::Sched)
        .map(|(_, block)| block)
        .filter(|block| block.last < moment && block.may(|entry| state(entry).is_some()))
        .collect();
    // Its last switch is in the block that ends last, or in one that overlaps with that.
    let end = all.iter().map(|block| block.last).max();
    let Some(end) = all.iter().filter(|block| Some(block.last) == end).map(|b| b.first).min()
    else {
        return Before::Nothing;
    };
    let last: Vec<&Known<'_>> = all.iter().copied().filter(|block| block.last >= end).collect();
    if let [one] = last.as_slice()
        && one.entry().and_then(state).is_some_and(|of| of.ends_idle)
    {
        return Before::Idle;
    }
    let begin = last.iter().map(|block| block.first).min().unwrap_or(end);
    // When it was idle for sure; where that is never so, blocks of which nothing is known may have
    // it.
    let idles = |block: &&&Known<'_>| block.entry().and_then(state).is_some_and(|of| of.idles);
    let idle = all.iter().filter(idles).map(|block| block.first).max();
    let unknown = || all.iter().filter(|b| b.entry().is_none()).map(|block| block.first).min();
    Before::Since(idle.or_else(unknown).map_or(begin, |moment| moment.min(begin)))
}

/// Whether a switch from one of the threads ends a wait of another for a disk: how that went, other
/// events tell.
fn waits(map: &Map<'_>, seeds: &[At], threads: &[u32]) -> Option<bool> {
    let done = family::kinds(&[Kind::BlockComplete]);
    if !map.of(Lane::Kernel).any(|(_, block)| block.may(|entry| entry.kinds & done != 0)) {
        return Some(false);
    }
    let is_sched = |block: &Known<'_>| block.lane == Lane::Sched;
    let sched: Vec<At> =
        seeds.iter().copied().filter(|at| map.get(*at).is_some_and(is_sched)).collect();
    let own: FxHashSet<u32> = threads.iter().copied().collect();
    // Who begins to run after the threads, and when.
    let of_blocks = map.scan(&sched, |_, pages| {
        let others = scan::switches(pages, &own).into_iter().filter_map(|brief| match brief.what {
            What::Switch { next, .. } if next != 0 && !own.contains(&next) => {
                Some((next, brief.time))
            }
            _ => None,
        });
        others.collect::<Vec<_>>()
    })?;
    let others: Vec<Moment> = of_blocks.into_iter().flatten().collect();
    let (last, _) = map.last(Lane::Sched, &others, |pages, asked| {
        scan::last(&scan::switches(pages, &scan::threads(asked)), asked)
    })?;
    let waits =
        |(_, brief): &(u64, Brief)| matches!(brief.what, What::Switch { io_wait: true, .. });
    Some(last.values().any(waits))
}

/// The threads of which it is shown what a descriptor stands for, and when.
fn shown(
    map: &Map<'_>,
    place: &Place<'_>,
    seeds: &[At],
    threads: &[u32],
) -> Option<Vec<(u32, u64)>> {
    let arguments = Arguments::new(place.meta);
    let own: FxHashSet<u32> = threads.iter().copied().collect();
    let is_of_calls = |block: &Known<'_>| block.lane == Lane::Syscall;
    let calls: Vec<At> =
        seeds.iter().copied().filter(|at| map.get(*at).is_some_and(is_of_calls)).collect();
    let is_shown = |brief: &Brief| {
        matches!(
            brief.what,
            What::Enter { descriptors: true, .. } | What::Exit { descriptors: true, .. }
        )
    };
    let of_blocks = map.scan(&calls, |_, pages| {
        let mut shown = scan::calls(pages, &arguments, &own);
        shown.retain(is_shown);
        shown.into_iter().map(|brief| (brief.tid, brief.time)).collect::<Vec<_>>()
    })?;
    Some(of_blocks.into_iter().flatten().collect())
}
