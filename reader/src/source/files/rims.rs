//! The pages next to a window, one of a ring, that tell what the ring lacks at the window's ends.
//!
//! What a ring lacks shows between two of its pages, or between a page and a moment at which its
//! counters are known. Such moments are seconds apart, and blocks hold the pages of many CPUs, of
//! which some have few. Where all pages up to those moments are more than may be held, the next one
//! of each ring is enough.

use std::collections::BTreeMap;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Page, Summary};
use flightrec_format::meta::Meta;
use flightrec_format::part;
use flightrec_format::totals::Totals;
use flightrec_store::{FileReader, Kind};

use super::load::{Job, jobs};
use super::pages::{Lost, has_refused, most_pages};
use crate::window::Window;

/// What a ring needs beside its pages of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    cpu: u16,
    /// The last page before them.
    before: bool,
    /// The first page behind them.
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
    // Where something was refused, the pages tell between which moments.
    let is_refused = has_refused(before, after);
    let counted = |totals: &Totals, cpu: u16| {
        let of_cpu = totals.cpus.iter().find(|of_cpu| of_cpu.cpu == cpu)?;
        of_cpu.events.get(lane as usize).copied()
    };
    let mut firsts: BTreeMap<u16, &Page> = BTreeMap::new();
    for (page, _) in pages.iter().filter(|(page, _)| page.lane() == lane) {
        let first = firsts.entry(page.header().cpu).or_insert(page);
        if place(page) < place(first) {
            *first = page;
        }
    }
    let of_cpu = |cpu: u16| {
        let then = counted(before, cpu);
        let (before, behind) = if let Some(first) = firsts.get(&cpu) {
            let is_known = part::begins(first) <= from
                || !is_refused && then.is_none_or(|then| then == first.header().events);
            (!is_known, is_refused)
        } else {
            let has_any = is_refused || then != counted(after, cpu);
            (has_any, has_any)
        };
        (before || behind).then_some(Need { cpu, before, behind })
    };
    meta.cpus.iter().filter_map(|cpu| of_cpu(*cpu)).collect()
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
    search(earlier, &mut before, |at, than| at < than, pages, &mut lost);
    let later =
        blocks.iter().filter(|job| (window.until..marks.until).contains(&job.block.header.first));
    search(later, &mut behind, |at, than| at > than, pages, &mut lost);
    lost
}

/// Takes of blocks the first page of each ring that is wanted and beyond what there is, and of more
/// than one in a block the nearest.
fn search<'a, 'j>(
    blocks: impl Iterator<Item = &'j Job<'a>>,
    wanted: &mut BTreeMap<u16, Option<Place>>,
    is_beyond: impl Fn(Place, Place) -> bool,
    pages: &mut Vec<(Page, Summary)>,
    lost: &mut Lost<'a>,
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
        let mut nearest: BTreeMap<u16, (Page, Summary)> = BTreeMap::new();
        for (page, summary) in found {
            let cpu = page.header().cpu;
            let is_wanted = wanted
                .get(&cpu)
                .is_some_and(|than| than.is_none_or(|than| is_beyond(place(&page), than)));
            let is_nearest =
                nearest.get(&cpu).is_none_or(|(other, _)| is_beyond(place(other), place(&page)));
            if is_wanted && is_nearest {
                nearest.insert(cpu, (page, summary));
            }
        }
        for (cpu, found) in nearest {
            wanted.remove(&cpu);
            pages.push(found);
        }
    }
}
