//! Nothing is lost without being told: whatever pages are missing, short or damaged, what was
//! decoded and what is reported as lost together are what was written.

use crate::support::{CPU, call, events};
use flightrec_format::abi::page::{Lane, PAGE_SIZE, RING_LANES, Refusal};
use flightrec_format::decode::{Body, Event, Page};
use flightrec_format::encode::PageWriter;
use flightrec_format::ring::{Gap, LaneStream, Reason, RingCoverage, Scope, Sequence};
use flightrec_format::totals::{CpuTotals, Totals};
use proptest::prelude::*;

const STARTED: u64 = 50;

fn scope(totals: Option<&Totals>) -> Scope<'_> {
    Scope { until: u64::MAX, started: STARTED, totals, ..Scope::default() }
}

fn totals(writer: &PageWriter, now: u64) -> Totals {
    let (events, refused) = writer.totals();
    let mut cpu = CpuTotals { cpu: CPU, recorded: true, ..CpuTotals::default() };
    (cpu.events[0], cpu.refused[0]) = (events, refused);
    Totals { now, cpus: vec![CpuTotals::default(), cpu], ..Totals::default() }
}

fn stream(pages: impl IntoIterator<Item = Page>) -> LaneStream {
    let mut sequence = Sequence::new(7, Lane::Syscall, CPU);
    for page in pages {
        assert!(sequence.add(page));
    }
    sequence.finish()
}

fn lost(coverage: &RingCoverage) -> u64 {
    coverage.gaps.iter().map(|gap| gap.missing().unwrap()).sum()
}

proptest! {
    #[test]
    fn decoded_and_lost_are_what_was_written(
        events in events(Lane::Syscall, 300),
        // For each page: left out, an early copy besides, damaged.
        fates in prop::collection::vec(
            (
                prop::bool::weighted(0.3),
                any::<bool>(),
                prop::option::weighted(0.1, 128..PAGE_SIZE),
            ),
            64,
        ),
        split in any::<prop::sample::Index>(),
    ) {
        let mut writer = PageWriter::new(7, Lane::Syscall, CPU, 0);
        let mut copies = Vec::new();
        let cut = split.index(events.len() + 1);
        for (i, event) in events.iter().enumerate() {
            writer.push(event).unwrap();
            if i % 7 == 0 && i < cut {
                // Copies of open pages, shorter than the final ones.
                copies.push(Page::new(writer.current().unwrap()).unwrap());
            }
            if i % 5 == 0 {
                writer.refuse(Refusal::Own);
            }
        }
        let now = events.last().map_or(STARTED, |e| e.time) + 1;
        let totals = totals(&writer, now);
        for (page, (gone, early, damage)) in writer.finish().into_iter().zip(fates) {
            let mut page = page;
            if let Some(at) = damage {
                page[at] ^= 0x55;
            }
            let page = Page::new(page).unwrap();
            if early && damage.is_some() {
                copies.retain(|copy| copy.header().seq != page.header().seq);
            }
            if !gone {
                copies.insert(0, page);
            }
        }
        let stream = stream(copies);
        let coverage = stream.coverage(&scope(Some(&totals)));
        // A flipped bit may turn one record into another of the same length: then totals run
        // backwards, within the pages (a gap whose loss is not known) or after the last one
        // (more than the counters know); otherwise the sum is exact.
        let known = coverage.gaps.iter().all(|gap| gap.lost.is_some());
        let more = stream.pages().last().is_some_and(|page| {
            let counts = page.summary().counts;
            let of_page = page.header().events.iter().zip(counts);
            of_page.zip(totals.cpus[1].events[0]).any(|((a, b), all)| a + b > all)
        });
        if known && !more {
            let decoded = stream.events().count() as u64;
            let unknown: u64 = coverage.recorded.iter().skip(2).sum();
            prop_assert_eq!(decoded + unknown, coverage.recorded.iter().sum::<u64>());
            let written: u64 = totals.cpus[1].events[0].iter().sum();
            prop_assert_eq!(decoded + unknown + lost(&coverage), written);
        }
        for gap in &coverage.gaps {
            prop_assert!(gap.from <= gap.until);
        }
    }
}

/// A writer of many short calls, ten ns apart, and its pages.
fn flood(count: u64) -> (PageWriter, Vec<Page>) {
    let mut writer = PageWriter::new(7, Lane::Syscall, CPU, 0);
    for i in 0..count {
        let body = Body::Enter(call(1, &[1, i, 1]));
        writer.push(&Event { time: 100 + i * 10, cpu: CPU, tid: 5, body }).unwrap();
    }
    let mut pages: Vec<Page> = writer.take().into_iter().map(|p| Page::new(p).unwrap()).collect();
    pages.push(Page::new(writer.current().unwrap()).unwrap());
    (writer, pages)
}

#[test]
fn a_whole_recording_is_complete_until_the_counters_were_read() {
    let (writer, pages) = flood(1000);
    let totals = totals(&writer, 99_999);
    let coverage = stream(pages).coverage(&scope(Some(&totals)));
    assert_eq!(coverage.complete, Some((STARTED, 99_999)));
    assert_eq!(coverage.gaps, []);
    assert_eq!(coverage.recorded, [1000, 0, 0, 0, 0, 0]);
    assert!(coverage.is_complete(STARTED, 99_999) && !coverage.is_complete(0, 99_999));
}

#[test]
fn without_counters_it_is_complete_until_the_last_event() {
    let (_, pages) = flood(1000);
    let stream = stream(pages);
    assert_eq!(stream.coverage(&scope(None)).complete, Some((STARTED, 100 + 999 * 10)));
    // Unless the source vouches for more.
    let vouched = Scope { copied: 50_000, ..scope(None) };
    assert_eq!(stream.coverage(&vouched).complete, Some((STARTED, 50_000)));
    assert_eq!(
        stream.coverage(&Scope { until: 20_000, ..vouched }).complete,
        Some((STARTED, 20_000))
    );
}

#[test]
fn an_overwritten_beginning_is_a_gap_before_the_first_page() {
    let (_, pages) = flood(1000);
    let first = *pages[2].header();
    let stream = stream(pages.into_iter().skip(2));
    let coverage = stream.coverage(&scope(None));
    assert_eq!(coverage.complete.map(|c| c.0), Some(first.base_mono));
    let gap = coverage.gaps[0];
    assert_eq!((gap.reason, gap.from, gap.until), (Reason::Overwritten, STARTED, first.base_mono));
    assert_eq!(gap.lost, Some(first.events));
    // A window after it is whole.
    let window = Scope { from: first.base_mono, ..scope(None) };
    assert_eq!(stream.coverage(&window).gaps, []);
    assert!(coverage.is_complete(first.base_mono, first.base_mono + 500));
}

#[test]
fn a_missing_page_is_a_gap_of_known_size() {
    let (_, mut pages) = flood(1000);
    let (before, gone) = (pages[1].summary(), pages.remove(2).summary());
    let next = *pages[2].header();
    let coverage = stream(pages).coverage(&scope(None));
    assert_eq!(coverage.gaps.len(), 1);
    let gap = coverage.gaps[0];
    assert_eq!((gap.reason, gap.lost), (Reason::Missing, Some(gone.counts)));
    assert_eq!((gap.from, gap.until), (before.last, next.base_mono));
    assert!(!coverage.is_complete(gap.from, gap.until));
    assert!(coverage.is_complete(STARTED, gap.from));
}

#[test]
fn a_damaged_page_costs_a_known_number() {
    let (writer, pages) = flood(1000);
    let middle = pages[1].header().used_bytes() / 2;
    let mut bytes = *pages[1].bytes();
    bytes[middle..].fill(0);
    let damaged = Page::copy_from(&bytes).unwrap();
    let survived = damaged.events().count() as u64;
    let all = pages[1].events().count() as u64;
    let mut pages = pages;
    pages[1] = damaged;
    let stream = stream(pages);
    assert_eq!(stream.damage().map(|(seq, _)| seq).collect::<Vec<_>>(), [2]);
    let totals = totals(&writer, 99_999);
    let coverage = stream.coverage(&scope(Some(&totals)));
    assert_eq!(coverage.gaps.len(), 1);
    assert_eq!(
        (coverage.gaps[0].reason, coverage.gaps[0].missing()),
        (Reason::Damaged, Some(all - survived))
    );
    assert!(survived > 0 && survived < all);
}

#[test]
fn the_longest_copy_wins_and_the_order_does_not_matter() {
    let mut writer = PageWriter::new(7, Lane::Syscall, CPU, 0);
    let enter = |time| Event { time, cpu: CPU, tid: 5, body: Body::Enter(call(1, &[1])) };
    writer.push(&enter(100)).unwrap();
    let short = Page::new(writer.current().unwrap()).unwrap();
    let exit = Body::Exit { call: call(1, &[]), ret: 1, entered: Some(100) };
    writer.push(&Event { time: 132, cpu: CPU, tid: 5, body: exit }).unwrap();
    // As many words, but an exit more.
    let folded = Page::new(writer.current().unwrap()).unwrap();
    writer.push(&enter(200)).unwrap();
    let long = Page::new(writer.current().unwrap()).unwrap();
    let count = |pages: &[&Page]| stream(pages.iter().map(|p| (*p).clone())).events().count();
    assert_eq!(count(&[&short, &folded]), 2);
    assert_eq!(count(&[&folded, &short]), 2);
    assert_eq!(count(&[&long, &short, &folded]), 3);
    assert_eq!(count(&[&short, &folded, &long]), 3);
}

#[test]
fn refusals_are_gaps_unless_they_are_the_recorders_own() {
    for (reason, gaps) in [(Refusal::Own, 0), (Refusal::Busy, 1), (Refusal::Throttled, 1)] {
        let mut writer = PageWriter::new(7, Lane::Syscall, CPU, 0);
        let mut time = 100;
        for _ in 0..1000 {
            time += 10;
            writer
                .push(&Event { time, cpu: CPU, tid: 5, body: Body::Enter(call(1, &[])) })
                .unwrap();
            writer.refuse(reason);
        }
        let pages: Vec<Page> = writer.finish().into_iter().map(|p| Page::new(p).unwrap()).collect();
        let coverage = stream(pages).coverage(&scope(None));
        // Pages that touch are told as one gap.
        let told = Gap::joined(coverage.gaps.clone());
        assert_eq!(told.len(), gaps, "{reason:?}: {told:?}");
        let sum = |gaps: &[Gap]| gaps.iter().map(|gap| gap.refused[reason as usize]).sum::<u64>();
        assert_eq!(sum(&told), sum(&coverage.gaps));
        assert!(
            coverage
                .gaps
                .iter()
                .all(|gap| gap.reason == Reason::Refused && gap.missing() == Some(0))
        );
        assert!(coverage.refused[reason as usize] > 500);
    }
}

#[test]
fn a_ring_without_pages_is_complete_only_if_nothing_was_written() {
    let (writer, _) = flood(10);
    let written = totals(&writer, 99_999);
    let coverage = stream([]).coverage(&Scope { copied: 90_000, ..scope(Some(&written)) });
    assert_eq!((coverage.complete, coverage.gaps[0].missing()), (None, Some(10)));
    let idle = totals(&PageWriter::new(7, Lane::Syscall, CPU, 0), 99_999);
    assert_eq!(stream([]).coverage(&scope(Some(&idle))).complete, Some((STARTED, 99_999)));
    assert_eq!(stream([]).coverage(&scope(None)).complete, None);
}

#[test]
fn what_came_after_the_copy_is_newer_not_lost() {
    let (mut writer, pages) = flood(10);
    writer.push(&Event { time: 5000, cpu: CPU, tid: 5, body: Body::Enter(call(1, &[])) }).unwrap();
    let later = totals(&writer, 6000);
    let coverage = stream(pages).coverage(&Scope { copied: 4000, ..scope(Some(&later)) });
    let gap = coverage.gaps[0];
    assert_eq!(
        (gap.reason, gap.missing(), gap.from, gap.until),
        (Reason::Newer, Some(1), 4000, 6000)
    );
    assert!(coverage.is_complete(STARTED, 4000));
}

/// A CPU whose first event comes while the others are copied: nothing before it is missing.
#[test]
fn the_first_events_of_a_ring_after_the_copy_are_newer() {
    let (writer, _) = flood(10);
    let later = totals(&writer, 99_999);
    let pages = |count: u64| Scope {
        copied: 90_000,
        ring_bytes: [count * PAGE_SIZE as u64; RING_LANES],
        ..scope(Some(&later))
    };
    let coverage = stream([]).coverage(&pages(11));
    let gap = coverage.gaps[0];
    assert_eq!(coverage.gaps.len(), 1);
    assert_eq!(
        (gap.reason, gap.missing(), gap.from, gap.until),
        (Reason::Newer, Some(10), 90_000, 99_999)
    );
    assert_eq!(coverage.complete, Some((STARTED, 90_000)));
    // In a ring of ten pages, each event may have opened one, and the last the first one again.
    let coverage = stream([]).coverage(&pages(10));
    assert_eq!((coverage.complete, coverage.gaps[0].reason), (None, Reason::Missing));
    // Of a dump, nothing is known of when it was copied.
    let dump = Scope { copied: 0, ..pages(11) };
    assert_eq!(stream([]).coverage(&dump).gaps[0].reason, Reason::Missing);
}

#[test]
fn pages_of_others_are_refused() {
    let (_, pages) = flood(1);
    let mut sequence = Sequence::new(8, Lane::Syscall, CPU);
    assert!(!sequence.add(pages[0].clone()));
    let mut sequence = Sequence::new(7, Lane::Syscall, CPU + 1);
    assert!(!sequence.add(pages[0].clone()));
    assert!(sequence.finish().pages().is_empty());
}
