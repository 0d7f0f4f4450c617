//! The pages next to a window that tell what a ring lacks at the window's ends.
//!
//! What a ring lacks shows between two of its pages, or between a page and a moment at which its
//! counters are known. Such moments are seconds apart, and blocks hold the pages of many CPUs, of
//! which some have few. Where all pages up to those moments are more than may be held, the last
//! one of each ring before the window is enough, and those after it up to the first that was opened
//! there: a page's header has the counters of its opening, and so has that of each of its parts.
//! Other pages of a ring that were read outside of the window, because a block holds those of
//! several, are dropped: between them and the window pages may be missing that no block of the
//! window holds.

use std::collections::BTreeMap;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, REFUSALS};
use flightrec_format::decode::{Page, Summary};
use flightrec_format::meta::Meta;
use flightrec_format::part;
use flightrec_format::ring::is_loss;
use flightrec_format::totals::{CpuTotals, Totals};
use flightrec_store::columns::Contents;
use flightrec_store::{FileReader, Kind, PagesReader};

use super::load::{Job, jobs};
use super::pages::{Lost, most_pages};
use crate::window::Window;

/// What a ring needs beside its pages of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    cpu: u16,
    /// The last page before them.
    before: bool,
    /// The pages after them, up to the first that was opened after the window.
    after: bool,
    /// All pages between the moments at which the counters are known would say more.
    pub(super) is_of_counters: bool,
}

/// Where a page, or part of a page, is in its ring.
type Place = (u64, u32);

fn place(page: &Page) -> Place {
    (page.header().seq, part::start(page.header()))
}

/// A page, and what it comes to.
type Summed = (Page, Summary);

/// Whether a ring recorded nothing between two pages.
fn touch((page, summary): &Summed, (next, _): &Summed) -> bool {
    page.header().events.plus(&summary.counts) == next.header().events
}

/// What was read of a ring for a window, in order: a block holds pages of several rings, and so
/// some that are outside of the window.
struct Sides<'a> {
    /// Pages that end before the window.
    before: &'a [&'a Summed],
    inside: &'a [&'a Summed],
    /// Pages that begin after it.
    after: &'a [&'a Summed],
}

impl<'a> Sides<'a> {
    /// Of pages in order.
    fn of(pages: &'a [&'a Summed], window: Window) -> Self {
        let begins_before = |(page, _): &&Summed| part::begins(page) < window.until;
        let (pages, after) = pages.split_at(pages.partition_point(begins_before));
        let ends_before = |(_, summary): &&Summed| summary.last < window.from;
        let (before, inside) = pages.split_at(pages.partition_point(ends_before));
        Self { before, inside, after }
    }

    /// The first page that does not end before the window.
    fn first(&self) -> Option<&'a Summed> {
        self.inside.first().or(self.after.first()).copied()
    }

    /// The last page that does not begin after it.
    fn last(&self) -> Option<&'a Summed> {
        self.inside.last().or(self.before.last()).copied()
    }

    /// Whether nothing is missing between the last page before the window and the next.
    fn joins_before(&self) -> bool {
        self.before.last().zip(self.first()).is_some_and(|(last, first)| touch(last, first))
    }

    /// Whether pages may be missing before the first one after the window.
    fn is_torn_after(&self) -> bool {
        self.last().zip(self.after.first()).is_some_and(|(last, next)| !touch(last, next))
    }
}

/// The pages of a lane's rings in order, by CPU.
fn rings(lane: Lane, pages: &[Summed]) -> BTreeMap<u16, Vec<&Summed>> {
    let mut rings: BTreeMap<u16, Vec<&Summed>> = BTreeMap::new();
    for summed in pages.iter().filter(|(page, _)| page.lane() == lane) {
        rings.entry(summed.0.header().cpu).or_default().push(summed);
    }
    for of_ring in rings.values_mut() {
        of_ring.sort_by_key(|(page, _)| place(page));
    }
    rings
}

/// What the rings of a lane need, to know that what they lack at the window's ends was not recorded
/// at all. Nothing: each has pages that go back to the window's beginning, or that continue the
/// counters of before, and none after its end that do not continue those inside; or it has none,
/// and its counters stood still.
pub(super) fn needs(
    lane: Lane,
    window: Window,
    pages: &[Summed],
    meta: &Meta,
    (before, after): (Option<&Totals>, &Totals),
) -> Vec<Need> {
    let of_cpu = |totals: &Totals, cpu: u16| {
        totals.cpus.iter().find(|of_cpu| of_cpu.cpu == cpu).map(|of_cpu| of_ring(of_cpu, lane))
    };
    let rings = rings(lane, pages);
    let need = |cpu: u16| {
        let then = before.and_then(|before| of_cpu(before, cpu));
        let now = of_cpu(after, cpu);
        // Where something was refused, the pages tell between which moments.
        let is_refused = before.is_some() && has_refused(then, now);
        let sides = Sides::of(rings.get(&cpu).map_or(&[], Vec::as_slice), window);
        let (before, is_missed) = if let Some((first, _)) = sides.first() {
            let is_known = before.is_none()
                || part::begins(first) <= window.from
                || sides.joins_before()
                || !is_refused && then.is_none_or(|(then, _)| then == first.header().events);
            (!is_known, is_refused)
        } else {
            let has_more = then.map(|of| of.0) != now.map(|of| of.0);
            let has_any = is_refused || before.is_some() && has_more;
            (has_any, has_any)
        };
        let after = is_missed || sides.is_torn_after();
        let is_of_counters = before || is_missed;
        (before || after).then_some(Need { cpu, before, after, is_of_counters })
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
    pages: &mut Vec<Summed>,
) -> Lost<'a> {
    let mut lost = Vec::new();
    let of_lane =
        |job: &Job<'a>| job.block.header.kind == Kind::Pages && job.block.header.lane == Some(lane);
    let mut blocks: Vec<Job<'a>> = jobs(opened).filter(of_lane).collect();
    blocks.sort_by_key(Job::place);
    // By CPU, before and after which of its pages one is wanted; `None`: there are none.
    let mut before: BTreeMap<u16, Option<Place>> = BTreeMap::new();
    let mut after: BTreeMap<u16, Option<Place>> = BTreeMap::new();
    let held = rings(lane, pages);
    for need in needs {
        let sides = Sides::of(held.get(&need.cpu).map_or(&[], Vec::as_slice), window);
        if need.before {
            before.insert(need.cpu, sides.first().map(|(page, _)| place(page)));
        }
        if need.after {
            after.insert(need.cpu, sides.last().map(|(page, _)| place(page)));
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
    search(later, &mut after, pages, &mut lost, |than, found| {
        let is_after = |page: &Page| page.header().base_mono >= window.until;
        found.retain(|(page, _)| than.is_none_or(|than| place(page) > than));
        let first = found.iter().map(|(page, _)| page).filter(|page| is_after(page)).map(place);
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
    pages: &mut Vec<Summed>,
    lost: &mut Lost<'a>,
    choose: impl Fn(Option<Place>, &mut Vec<Summed>) -> bool,
) where
    'a: 'j,
{
    let mut reader = PagesReader::default();
    for job in blocks {
        if wanted.is_empty() || pages.len() >= most_pages() {
            return;
        }
        let found = match job.pages(&mut reader, Contents::All) {
            Ok(found) => found,
            Err(damage) => {
                lost.push((job.reader, damage));
                continue;
            }
        };
        let mut of_rings: BTreeMap<u16, Vec<Summed>> = BTreeMap::new();
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

/// Drops what was read of a lane's rings outside of a window, but for the pages next to it: those
/// before it between which nothing is missing, and those after it up to the first that was opened
/// there. Of the task lane all that is before stays, for the names that it tells.
pub(super) fn trim(lane: Lane, window: Window, pages: &mut Vec<Summed>) {
    let kept = |of_ring: Vec<&Summed>| {
        let Sides { before, inside, after } = Sides::of(&of_ring, window);
        let mut next = inside.first().or(after.first());
        let mut touching = before.iter().rev().enumerate();
        let mut first = next;
        for (nearest, page) in touching.by_ref() {
            if nearest != 0 && next.is_some_and(|next| !touch(page, next)) {
                break;
            }
            (first, next) = (Some(page), Some(page));
        }
        let first = first.filter(|_| lane != Lane::Task).map_or((0, 0), |(page, _)| place(page));
        let opened = after.iter().find(|(page, _)| page.header().base_mono >= window.until);
        let last = opened.map_or((u64::MAX, u32::MAX), |(page, _)| place(page));
        first..=last
    };
    let kept: BTreeMap<u16, _> =
        rings(lane, pages).into_iter().map(|(cpu, of_ring)| (cpu, kept(of_ring))).collect();
    pages.retain(|(page, _)| {
        page.lane() != lane
            || kept.get(&page.header().cpu).is_none_or(|kept| kept.contains(&place(page)))
    });
}
