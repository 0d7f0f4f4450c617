//! The pages next to a window that tell what a ring lacks at the window's ends.
//!
//! What a ring lacks shows between two of its pages, or between a page and a moment at which its
//! counters are known. Such moments are seconds apart, and blocks hold the pages of many CPUs, of
//! which some have few. Where all pages up to those moments are more than may be held, the last
//! one of each ring before the window is enough, and those behind it up to the first that was
//! opened there: a page's header has the counters of its opening, and so has that of each of its
//! parts.

use std::collections::BTreeMap;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, REFUSALS};
use flightrec_format::decode::{Page, Summary};
use flightrec_format::meta::Meta;
use flightrec_format::part;
use flightrec_format::ring::is_loss;
use flightrec_format::totals::{CpuTotals, Totals};
use flightrec_store::{FileReader, Kind};

use super::load::{Job, jobs};
use super::pages::{Lost, most_pages};
use crate::window::Window;

/// What a ring needs beside its pages of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    cpu: u16,
    /// The last page before them.
    before: bool,
    /// The pages behind them, up to the first that was opened behind the window.
    behind: bool,
}

/// Where a page, or part of a page, is in its ring.
type Place = (u64, u32);

fn place(page: &Page) -> Place {
    (page.header().seq, part::start(page.header()))
}

/// What the rings of a lane need, to know that what they lack at the window's beginning was not
/// recorded at all. Nothing: each has pages that go back to it, or that continue the counters of
/// before; or it has none, and its counters stood still.
pub(super) fn needs(
    lane: Lane,
    from: u64,
    pages: &[(Page, Summary)],
    meta: &Meta,
    before: Option<&Totals>,
    after: &Totals,
) -> Vec<Need> {
    let Some(before) = before else { return Vec::new() };
    let of_cpu = |totals: &Totals, cpu: u16| {
        totals.cpus.iter().find(|of_cpu| of_cpu.cpu == cpu).map(|of_cpu| of_ring(of_cpu, lane))
    };
    let mut firsts: BTreeMap<u16, &Page> = BTreeMap::new();
    for (page, _) in pages.iter().filter(|(page, _)| page.lane() == lane) {
        let first = firsts.entry(page.header().cpu).or_insert(page);
        if place(page) < place(first) {
            *first = page;
        }
    }
    let need = |cpu: u16| {
        let (then, now) = (of_cpu(before, cpu), of_cpu(after, cpu));
        // Where something was refused, the pages tell between which moments.
        let is_refused = has_refused(then, now);
        let (before, behind) = if let Some(first) = firsts.get(&cpu) {
            let is_known = part::begins(first) <= from
                || !is_refused && then.is_none_or(|(then, _)| then == first.header().events);
            (!is_known, is_refused)
        } else {
            let has_any = is_refused || then.map(|of| of.0) != now.map(|of| of.0);
            (has_any, has_any)
        };
        (before || behind).then_some(Need { cpu, before, behind })
    };
    meta.cpus.iter().filter_map(|cpu| need(*cpu)).collect()
}

/// A ring's counters: of events, and of those that were refused.
type Counters = (Counts, [u64; REFUSALS]);

fn of_ring(totals: &CpuTotals, lane: Lane) -> Counters {
    let events = totals.events.get(lane as usize).copied().unwrap_or_default();
    (events, totals.refused.get(lane as usize).copied().unwrap_or_default())
}

/// Whether events that should have been recorded were refused between two readings of a ring's
/// counters.
fn has_refused(then: Option<Counters>, now: Option<Counters>) -> bool {
    let (then, mut more) = (then.unwrap_or_default().1, now.unwrap_or_default().1);
    more.iter_mut().zip(then).for_each(|(now, then)| *now = now.saturating_sub(then));
    is_loss(&more)
}

/// Reads what the rings of a lane need beside the pages of a window, which are there; `marks`: the
/// window out to the moments at which the counters are known. What is damaged comes back.
pub(super) fn read<'a>(
    opened: &[&'a FileReader],
    (window, marks): (Window, Window),
    lane: Lane,
    needs: &[Need],
    pages: &mut Vec<(Page, Summary)>,
) -> Lost<'a> {
    let mut lost = Vec::new();
    let of_lane =
        |job: &Job<'a>| job.block.header.kind == Kind::Pages && job.block.header.lane == Some(lane);
    let mut blocks: Vec<Job<'a>> = jobs(opened).filter(of_lane).collect();
    blocks.sort_by_key(Job::place);
    let held = |cpu: u16| {
        let of_ring =
            pages.iter().filter(move |(page, _)| page.lane() == lane && page.header().cpu == cpu);
        of_ring.map(|(page, _)| place(page))
    };
    // By CPU, before and behind which of its pages one is wanted; `None`: there are none.
    let mut before: BTreeMap<u16, Option<Place>> = BTreeMap::new();
    let mut behind: BTreeMap<u16, Option<Place>> = BTreeMap::new();
    for need in needs {
        if need.before {
            before.insert(need.cpu, held(need.cpu).min());
        }
        if need.behind {
            behind.insert(need.cpu, held(need.cpu).max());
        }
    }
    let earlier = blocks
        .iter()
        .rev()
        .filter(|job| (marks.from..window.from).contains(&job.block.header.last));
    search(earlier, &mut before, pages, &mut lost, |than, found| {
        found.retain(|(page, _)| than.is_none_or(|than| place(page) < than));
        let nearest = found.iter().map(|(page, _)| place(page)).max();
        found.retain(|(page, _)| Some(place(page)) == nearest);
        nearest.is_some()
    });
    let later =
        blocks.iter().filter(|job| (window.until..marks.until).contains(&job.block.header.first));
    search(later, &mut behind, pages, &mut lost, |than, found| {
        let is_behind = |page: &Page| page.header().base_mono >= window.until;
        found.retain(|(page, _)| than.is_none_or(|than| place(page) > than));
        let first = found.iter().map(|(page, _)| page).filter(|page| is_behind(page)).map(place);
        let first = first.min();
        found.retain(|(page, _)| first.is_none_or(|first| place(page) <= first));
        first.is_some()
    });
    lost
}

/// Takes of blocks the pages of rings that `choose` leaves of those of one block, given the place
/// of the ring's own page next to them; it says whether they are all that is wanted of the ring.
fn search<'a, 'j>(
    blocks: impl Iterator<Item = &'j Job<'a>>,
    wanted: &mut BTreeMap<u16, Option<Place>>,
    pages: &mut Vec<(Page, Summary)>,
    lost: &mut Lost<'a>,
    choose: impl Fn(Option<Place>, &mut Vec<(Page, Summary)>) -> bool,
) where
    'a: 'j,
{
    for job in blocks {
        if wanted.is_empty() || pages.len() >= most_pages() {
            return;
        }
        let found = match job.reader.pages(job.block) {
            Ok(found) => found,
            Err(damage) => {
                lost.push((job.reader, damage));
                continue;
            }
        };
        let mut of_rings: BTreeMap<u16, Vec<(Page, Summary)>> = BTreeMap::new();
        for found in found {
            of_rings.entry(found.0.header().cpu).or_default().push(found);
        }
        for (cpu, mut found) in of_rings {
            let Some(than) = wanted.get(&cpu) else { continue };
            if choose(*than, &mut found) {
                wanted.remove(&cpu);
            }
            pages.append(&mut found);
        }
    }
}
