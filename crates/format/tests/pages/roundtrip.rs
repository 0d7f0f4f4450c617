//! What goes into pages comes out of them.

use crate::support::{CPU, call, events, lanes, text};
use flightrec_format::abi::page::{HEADER_LEN, Lane, PAGE_SIZE, Refusal};
use flightrec_format::abi::record::STRING_MAX;
use flightrec_format::abi::record::StringStatus;
use flightrec_format::decode::{Body, Call, CallRecord, Event, Page, Text};
use flightrec_format::encode::{EncodeError, PageWriter};
use flightrec_format::ring::Rings;
use proptest::prelude::*;

fn write(lane: Lane, events: &[Event]) -> Vec<Page> {
    let mut writer = PageWriter::new(7, lane, CPU, 37);
    for event in events {
        writer.push(event).unwrap();
    }
    writer.finish().into_iter().map(|page| Page::new(page).unwrap()).collect()
}

proptest! {
    #[test]
    fn every_event_comes_back(
        (lane, events) in lanes().prop_flat_map(|lane| (Just(lane), events(lane, 120))),
    ) {
        let pages = write(lane, &events);
        let mut rings = Rings::new(7);
        for page in &pages {
            prop_assert_eq!(page.summary().damage, None);
            prop_assert!(rings.add(page.clone()));
        }
        let streams = rings.finish();
        let decoded: Vec<Event> = streams.iter().flat_map(|s| s.events()).collect();
        // Every exit of a call that was pushed right after its entry folded, so `entered` is kept.
        prop_assert_eq!(decoded, events);
        for stream in &streams {
            prop_assert!(stream.gaps().is_empty());
        }
    }

    #[test]
    fn calls_alone_are_those_among_the_events(events in events(Lane::Syscall, 120)) {
        for page in write(Lane::Syscall, &events) {
            let bare = |call: &Call| Call { strings: Vec::new(), ..call.clone() };
            let (mut expected, mut strings) = (Vec::new(), Vec::new());
            for event in page.events() {
                let bits = |call: &Call| {
                    let is_read = |text: &&Text| text.status != StringStatus::Unreadable;
                    let arguments = call.strings.iter().filter(|text| text.index < 8);
                    let arguments = arguments.filter(is_read);
                    arguments.fold(0u8, |bits, text| bits | 1 << text.index)
                };
                match event.body {
                    Body::Enter(call) => {
                        strings.push(bits(&call));
                        expected.push((event.tid, Some(event.time), None, bare(&call)));
                    }
                    // A folded exit stands with its entry.
                    Body::Exit { ret, entered: Some(_), .. } => {
                        if let Some(entry) = expected.last_mut() {
                            entry.2 = Some((event.time, ret));
                        }
                    }
                    Body::Exit { call, ret, .. } => {
                        strings.push(bits(&call));
                        expected.push((event.tid, None, Some((event.time, ret)), bare(&call)));
                    }
                    _ => {}
                }
            }
            let found = page
                .calls(|_, _, _| true)
                .map(|found| (found.tid, found.entered, found.exited, found.call));
            prop_assert_eq!(found.collect::<Vec<_>>(), expected.clone());
            let found = page.calls(|_, _, _| true).map(|found| found.strings);
            prop_assert_eq!(found.collect::<Vec<_>>(), strings);
            // Of a run of a thread's records the first; from the middle of the page on, too.
            let all: Vec<_> = page.calls(|_, _, _| true).collect();
            let time = |found: &CallRecord| {
                found.entered.or(found.exited.map(|exit| exit.0)).unwrap_or(0)
            };
            for since in [0, all.get(all.len() / 2).map_or(0, time)] {
                let runs = all.chunk_by(|a, b| a.tid == b.tid);
                let firsts = runs.filter_map(|run| run.iter().find(|found| time(found) >= since));
                let firsts: Vec<_> = firsts.map(|found| {
                    let ended = found.exited.filter(|_| found.entered.is_none());
                    let of = |(_, ret)| (found.call.abi, found.call.nr, ret);
                    (found.tid, time(found), ended.map(of))
                }).collect();
                let found = page.first_calls(since);
                let found = found.map(|found| (found.tid, found.time, found.ended));
                prop_assert_eq!(found.collect::<Vec<_>>(), firsts);
            }
            let untimed = expected.iter().any(|(_, entered, exited, _)| {
                entered.is_some_and(|entered| exited.is_some_and(|(exited, _)| exited == entered))
            });
            prop_assert_eq!(page.has_untimed_call(), untimed);
            let even = page.calls(|_, nr, _| nr % 2 == 0).map(|found| found.call.nr);
            let expected_even = expected.iter().map(|e| e.3.nr).filter(|nr| nr % 2 == 0);
            prop_assert_eq!(even.collect::<Vec<_>>(), expected_even.collect::<Vec<_>>());
            let failed = page
                .calls(|_, _, ret| ret < Some(0))
                .filter_map(|found| Some(found.exited?.1));
            let expected_failed =
                expected.iter().filter_map(|e| Some(e.2?.1)).filter(|ret| *ret < 0);
            prop_assert_eq!(failed.collect::<Vec<_>>(), expected_failed.collect::<Vec<_>>());
        }
    }

    #[test]
    fn decoding_is_in_the_order_of_time(events in events(Lane::Syscall, 120)) {
        for page in write(Lane::Syscall, &events) {
            let times: Vec<u64> = page.events().map(|e| e.time).collect();
            prop_assert!(times.is_sorted());
        }
    }
}

fn enter(time: u64) -> Event {
    Event { time, cpu: CPU, tid: 5, body: Body::Enter(call(0, &[1, 2, 3])) }
}

fn exit(time: u64, ret: i64, entered: Option<u64>) -> Event {
    Event { time, cpu: CPU, tid: 5, body: Body::Exit { call: call(0, &[]), ret, entered } }
}

/// Bytes in use after the header after these events.
fn bytes(events: &[Event]) -> usize {
    write(Lane::Syscall, events)[0].header().used_bytes() - HEADER_LEN
}

#[test]
fn an_exit_folds_only_where_it_may() {
    let alone = bytes(&[enter(100)]);
    assert_eq!(bytes(&[enter(100), exit(132, 3, Some(100))]), alone);
    // Not asked for; too late; a value too great, too small; another call between.
    assert_eq!(bytes(&[enter(100), exit(132, 3, None)]), alone + 16);
    assert_eq!(bytes(&[enter(100), exit(2_000_000, 3, Some(100))]), alone + 16);
    assert_eq!(bytes(&[enter(100), exit(132, 61_440, Some(100))]), alone + 16);
    assert_eq!(bytes(&[enter(100), exit(132, -4097, Some(100))]), alone + 16);
    assert_eq!(bytes(&[enter(100), enter(110), exit(132, 3, Some(100))]), 8 + 2 * (alone - 8) + 16);
    // One exit an entry.
    assert_eq!(bytes(&[enter(100), exit(132, 3, Some(100)), exit(132, 3, Some(100))]), alone + 16);
}

#[test]
fn a_group_never_spans_pages() {
    let mut writer = PageWriter::new(7, Lane::Syscall, CPU, 0);
    let body = Body::Enter(Call { strings: vec![text(1, &[b'x'; 200])], ..call(257, &[1, 2]) });
    for time in 0..100 {
        writer.push(&Event { time, cpu: CPU, tid: 5, body: body.clone() }).unwrap();
    }
    let pages: Vec<Page> = writer.finish().into_iter().map(|p| Page::new(p).unwrap()).collect();
    assert!(pages.len() > 5);
    for page in &pages {
        assert!(page.events().all(|e| matches!(e.body, Body::Enter(c) if c.strings.len() == 1)));
    }
    assert_eq!(pages.iter().map(|p| p.events().count()).sum::<usize>(), 100);
}

#[test]
fn a_string_is_cut_at_the_limit() {
    let long =
        Event { time: 1, cpu: CPU, tid: 0, body: Body::Mark(text(0, &[b'y'; STRING_MAX + 9])) };
    let pages = write(Lane::Task, &[long]);
    let Some(Event { body: Body::Mark(line), .. }) = pages[0].events().next() else {
        panic!("no mark")
    };
    assert_eq!((line.status, line.bytes.len()), (StringStatus::Cut, STRING_MAX));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut writer = PageWriter::new(7, Lane::Syscall, CPU, 0);
    let mark = Event { time: 1, cpu: CPU, tid: 0, body: Body::Mark(text(0, b"x")) };
    assert_eq!(writer.push(&mark), Err(EncodeError::Lane(Lane::Syscall)));
    let strings = vec![text(0, &[b'z'; 250]); 20];
    let huge = Body::Enter(Call { strings, ..call(1, &[]) });
    assert!(matches!(writer.push(&Event { body: huge, ..mark }), Err(EncodeError::TooLong(_))));
    assert!(writer.finish().is_empty());
}

#[test]
fn a_page_tells_the_totals_before_it() {
    let mut writer = PageWriter::new(7, Lane::Sched, CPU, 0);
    let body = Body::Migrate { thread: 1, prio: 120, from: 0, to: 1 };
    let event = |time| Event { time, cpu: CPU, tid: 9, body: body.clone() };
    writer.refuse(Refusal::Own);
    writer.push(&event(1)).unwrap();
    writer.refuse(Refusal::Throttled);
    while writer.take().is_empty() {
        writer.push(&event(2)).unwrap();
    }
    let page = Page::new(writer.current().unwrap()).unwrap();
    // 3952 bytes: a thread, then records of 16.
    assert_eq!(page.header().events, [0, 0, 0, 246, 0, 0]);
    assert_eq!(page.header().refused, [0, 1, 1]);
    assert_eq!(page.header().seq, 2);
    assert_eq!(page.bytes().len(), PAGE_SIZE);
}
