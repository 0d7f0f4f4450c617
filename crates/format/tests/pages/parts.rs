//! Pages in pieces: whatever is cut where, the events before and after are the events of the whole,
//! and the totals say so.

use crate::support::{CPU, call, events, lanes, text};
use flightrec_format::abi::page::{Lane, VERSION};
use flightrec_format::decode::{Body, Event, Page};
use flightrec_format::encode::PageWriter;
use flightrec_format::part::{self, PROVISIONAL_NS, head, is_part, join, settled, start, tail};
use flightrec_format::ring::{LaneStream, Reason, Scope, Sequence};
use proptest::prelude::*;

fn written(lane: Lane, events: &[Event]) -> PageWriter {
    let mut writer = PageWriter::new(7, lane, CPU, 0);
    for event in events {
        writer.push(event).unwrap();
    }
    writer
}

fn all(pages: &[Page]) -> Vec<Event> {
    pages.iter().flat_map(Page::events).collect()
}

fn pages(writer: PageWriter) -> Vec<Page> {
    writer.finish().into_iter().map(|page| Page::new(page).unwrap()).collect()
}

fn stream(lane: Lane, pages: impl IntoIterator<Item = Page>) -> LaneStream {
    let mut sequence = Sequence::new(7, lane, CPU);
    for page in pages {
        assert!(sequence.add(page));
    }
    sequence.finish()
}

/// A page with nothing after what is in use, as cutting leaves it.
fn clean(page: &Page) -> Page {
    head(page, page.header().used)
}

proptest! {
    #[test]
    fn before_and_after_are_the_whole(
        (lane, events) in lanes().prop_flat_map(|l| (Just(l), events(l, 24))),
    ) {
        for page in pages(written(lane, &events)) {
            let whole: Vec<Event> = page.events().collect();
            let mut cuts = 0;
            for at in start(page.header()) + 1..page.header().used {
                let Some(rest) = tail(&page, at) else { continue };
                cuts += 1;
                let before = head(&page, at);
                prop_assert!(is_part(rest.header()) && !is_part(before.header()));
                prop_assert_eq!(start(rest.header()), at);
                prop_assert_eq!(all(&[before.clone(), rest.clone()]), whole.clone());
                let counts = before.summary().counts;
                prop_assert_eq!(rest.header().events, page.header().events.plus(&counts));
                prop_assert_eq!(join(&before, &rest), Some(clean(&page)));
                // A part of a part is a part of the page.
                for further in at + 1..page.header().used.min(at + 12) {
                    prop_assert_eq!(tail(&rest, further), tail(&page, further));
                }
                prop_assert_eq!(tail(&rest, at), Some(rest.clone()));
            }
            // Between all events but folded exits, which stand in their entries' records.
            let folded = |e: &&Event| matches!(e.body, Body::Exit { entered: Some(_), .. });
            prop_assert!(cuts + 1 >= whole.len() - whole.iter().filter(folded).count());
            prop_assert_eq!(tail(&page, page.header().used), None);
        }
    }

    #[test]
    fn drained_piece_by_piece_nothing_is_twice_or_missing(
        events in events(Lane::Syscall, 200),
        drains in prop::collection::vec(any::<bool>(), 400),
    ) {
        let mut writer = PageWriter::new(7, Lane::Syscall, CPU, 0);
        let mut pieces: Vec<Page> = Vec::new();
        // As a drain does it: what has been taken of which page.
        let mut taken = (0, 0);
        let mut drain = |copies: Vec<Page>, open: bool, now: u64| {
            let last = copies.len().saturating_sub(1);
            for (i, page) in copies.into_iter().enumerate() {
                let (seq, words) = (page.header().seq, settled(&page, open && i == last, now));
                let from = if taken.0 == seq { taken.1 } else { 0 };
                if words > from.max(start(page.header())) {
                    pieces.push(tail(&head(&page, words), from).unwrap());
                    taken = (seq, words);
                }
            }
        };
        for (event, now) in events.iter().zip(drains) {
            writer.push(event).unwrap();
            if now {
                let open = Page::new(writer.current().unwrap()).unwrap();
                let taken = writer.take().into_iter();
                let mut copies: Vec<Page> = taken.map(|p| Page::new(p).unwrap()).collect();
                copies.push(open);
                drain(copies, true, event.time);
            }
        }
        drain(pages(writer), false, 0);
        prop_assert_eq!(all(&pieces), events.clone());
        let whole = stream(Lane::Syscall, pieces.clone());
        prop_assert_eq!(whole.events().collect::<Vec<_>>(), events.clone());
        prop_assert_eq!(whole.gaps(), []);
        // Whole pages again, in whatever order the pieces came.
        prop_assert!(whole.pages().iter().all(|page| !is_part(page.header())));
        let reversed = stream(Lane::Syscall, pieces.into_iter().rev());
        prop_assert_eq!(reversed.pages(), whole.pages());
    }

    #[test]
    fn of_any_pieces_the_rest_is_told(
        (lane, events) in lanes().prop_flat_map(|l| (Just(l), events(l, 200))),
        cuts in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 1..12),
    ) {
        let writer = written(lane, &events);
        let (totals, _) = writer.totals();
        let whole = pages(writer);
        if whole.is_empty() {
            return Ok(());
        }
        // Pieces that overlap, repeat one another, or leave holes.
        let mut pieces = Vec::new();
        for (i, (from, to)) in cuts.iter().enumerate() {
            let page = &whole[i % whole.len()];
            let used = page.header().used;
            let ends: Vec<u32> = (start(page.header())..=used)
                .filter(|at| *at == used || tail(page, *at).is_some())
                .collect();
            let (a, b) = (*from.get(&ends), *to.get(&ends));
            pieces.extend(tail(&head(page, a.max(b)), a.min(b)));
        }
        let stream = stream(lane, pieces);
        for event in stream.events() {
            prop_assert!(events.contains(&event));
        }
        let scope = Scope { until: u64::MAX, ..Scope::default() };
        let coverage = stream.coverage(&scope);
        let known: u64 = coverage.gaps.iter().map(|gap| gap.missing().unwrap()).sum();
        let decoded: u64 = coverage.recorded.iter().sum();
        let end = stream.pages().last().map_or(0, |page| {
            page.header().events.iter().chain(&page.summary().counts).sum()
        });
        prop_assert_eq!(decoded + known, end);
        prop_assert!(end <= totals.iter().sum::<u64>());
        for gap in &coverage.gaps {
            prop_assert!(gap.from <= gap.until);
        }
    }

    #[test]
    fn no_bytes_panic(mut bytes: Vec<u8>, header in any::<[u8; 12]>(), at in 0..1200u32, now: u64) {
        bytes.resize(4096, 0);
        bytes[..8].copy_from_slice(b"FLTRECPG");
        bytes[16..20].copy_from_slice(&[VERSION as u8, 0, header[0] % 3, header[1] & 7]);
        bytes[22..24].copy_from_slice(&(128 + u16::from(header[2] & 31) * 4).to_le_bytes());
        (bytes[8], bytes[24]) = (1, 1);
        let used = u16::from_le_bytes([header[3], header[4] & 3]);
        bytes[48..52].copy_from_slice(&u32::from(used).to_le_bytes());
        let page = Page::copy_from(&bytes).unwrap();
        let _ = (settled(&page, true, now), part::begins(&page), join(&page, &page));
        let before = head(&page, at);
        prop_assert!(before.header().used <= at);
        if let Some(rest) = tail(&page, at) {
            prop_assert_eq!(rest.header().used, page.header().used);
            join(&before, &rest);
        }
    }
}

#[test]
fn an_entry_waits_for_its_exit_until_none_can_fold() {
    let mut writer = PageWriter::new(7, Lane::Syscall, CPU, 0);
    let enter = |time, tid| Event { time, cpu: CPU, tid, body: Body::Enter(call(1, &[1])) };
    writer.push(&enter(100, 5)).unwrap();
    let first = writer.header().used;
    let mut path = call(2, &[1]);
    path.strings.push(text(0, b"/etc/passwd"));
    writer.push(&Event { time: 200, cpu: CPU, tid: 6, body: Body::Enter(path) }).unwrap();
    let page = Page::new(writer.current().unwrap()).unwrap();
    // With its THREAD and its string.
    assert_eq!(settled(&page, true, 200), first);
    assert_eq!(settled(&page, true, 200 + PROVISIONAL_NS - 1), first);
    assert_eq!(settled(&page, true, 200 + PROVISIONAL_NS), page.header().used);
    assert_eq!(settled(&page, false, 200), page.header().used);
    // Once it has folded, or another record stands after it, it is final.
    let exit = Body::Exit { call: call(2, &[]), ret: 0, entered: Some(200) };
    writer.push(&Event { time: 216, cpu: CPU, tid: 6, body: exit.clone() }).unwrap();
    let folded = Page::new(writer.current().unwrap()).unwrap();
    assert_eq!(settled(&folded, true, 216), folded.header().used);
    writer.push(&enter(300, 6)).unwrap();
    writer
        .push(&Event {
            time: 400,
            cpu: CPU,
            tid: 7,
            body: Body::Exit { call: call(1, &[]), ret: 0, entered: None },
        })
        .unwrap();
    let after = Page::new(writer.current().unwrap()).unwrap();
    assert_eq!(settled(&after, true, 400), after.header().used);
}

#[test]
fn a_missing_piece_is_a_gap_of_known_size_within_the_page() {
    let mut writer = PageWriter::new(7, Lane::Syscall, CPU, 0);
    let mut ends = Vec::new();
    for i in 0..30 {
        writer
            .push(&Event { time: 100 + i * 10, cpu: CPU, tid: 5, body: Body::Enter(call(1, &[i])) })
            .unwrap();
        ends.push(writer.header().used);
    }
    let page = Page::new(writer.current().unwrap()).unwrap();
    let (first, last) = (head(&page, ends[9]), tail(&page, ends[19]).unwrap());
    let scope = Scope { until: u64::MAX, started: 50, ..Scope::default() };
    let coverage = stream(Lane::Syscall, [last.clone(), first]).coverage(&scope);
    let gap = coverage.gaps[0];
    assert_eq!((coverage.gaps.len(), gap.reason, gap.missing()), (1, Reason::Missing, Some(10)));
    assert_eq!((gap.from, gap.until), (190, 300));
    assert_eq!(coverage.complete, Some((50, 390)));
    // And before a part with nothing before it, though its page is the ring's first.
    let coverage = stream(Lane::Syscall, [last]).coverage(&scope);
    let gap = coverage.gaps[0];
    assert_eq!(
        (gap.reason, gap.missing(), gap.from, gap.until),
        (Reason::Overwritten, Some(20), 50, 300)
    );
    assert_eq!(coverage.complete, Some((300, 390)));
}
