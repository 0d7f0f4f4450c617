//! Any bytes at all: no panic, no endless walk, faults told.

use crate::support::{CPU, events, lanes};
use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{HEADER_LEN, Lane, PAGE_SIZE, UNIT};
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::page::read_header;
use flightrec_format::decode::{Body, Brief, Event, Fault, Half, Page, PageError};
use flightrec_format::encode::{PageWriter, write_header};
use flightrec_format::{meta, slots};
use proptest::prelude::*;

fn random_page() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), PAGE_SIZE)
}

/// Decodes whatever can be; the most events that a page can hold are two for each 12 bytes.
fn decode(bytes: &[u8]) -> Result<(), TestCaseError> {
    let _ = slots::read(bytes).count();
    let _ = meta::unpack([bytes]);
    if let Ok(page) = Page::copy_from(bytes) {
        let mut decoder = page.events();
        let times: Vec<u64> = decoder.by_ref().map(|event| event.time).collect();
        prop_assert!(times.len() <= PAGE_SIZE / 6);
        // The summary is the same walk.
        let summary = page.summary();
        prop_assert_eq!(&summary.counts, decoder.counts());
        prop_assert_eq!(summary.damage.as_ref(), decoder.damage());
        prop_assert_eq!(summary.last, times.into_iter().fold(page.header().base_mono, u64::max));
        prop_assert_eq!(calls_of_events(&page), calls_of_briefs(&page));
    }
    Ok(())
}

/// An event of a call: when, whose, which, and of an end, what it returned and whether it stands in
/// its beginning's record.
type CallEvent = (u64, u32, Abi, u16, Option<(i64, bool)>);

fn calls_of_events(page: &Page) -> Vec<CallEvent> {
    let call = |Event { time, tid, body, .. }| match body {
        Body::Enter(call) => Some((time, tid, call.abi, call.nr, None)),
        Body::Exit { call, ret, entered } => {
            Some((time, tid, call.abi, call.nr, Some((ret, entered.is_some()))))
        }
        _ => None,
    };
    page.events().filter_map(call).collect()
}

fn calls_of_briefs(page: &Page) -> Vec<CallEvent> {
    let events = |Brief { time, tid, abi, nr, half }| match half {
        Half::Enter => vec![(time, tid, abi, nr, None)],
        Half::Exit { ret } => vec![(time, tid, abi, nr, Some((ret, false)))],
        Half::Whole { exited, ret } => {
            vec![(time, tid, abi, nr, None), (exited, tid, abi, nr, Some((ret, true)))]
        }
    };
    page.brief_calls().flat_map(events).collect()
}

proptest! {
    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..PAGE_SIZE + 9)) {
        prop_assert!(read_header(&bytes).is_err());
        decode(&bytes)?;
    }

    #[test]
    fn random_records(
        mut bytes in random_page(),
        lane in prop::sample::select(vec![0u8, 1, 2, 3, 8, 9]),
        used in 0..=1024u32,
    ) {
        let mut header = PageWriter::new(7, Lane::Syscall, CPU, 0).header();
        let used = used.min((PAGE_SIZE / UNIT) as u32);
        (header.seq, header.used, header.lane) = (1, used, lane);
        bytes[..HEADER_LEN].copy_from_slice(&write_header(&header));
        prop_assert!(Page::copy_from(&bytes).is_ok());
        decode(&bytes)?;
    }

    #[test]
    fn mutated_pages(
        (lane, events) in lanes().prop_flat_map(|lane| (Just(lane), events(lane, 100))),
        flips in prop::collection::vec((0..PAGE_SIZE, any::<u8>()), 1..20),
    ) {
        let mut writer = PageWriter::new(7, lane, CPU, 0);
        for event in &events {
            writer.push(event).unwrap();
        }
        for mut page in writer.finish() {
            for (at, byte) in &flips {
                page[*at] = *byte;
            }
            decode(page.as_slice())?;
        }
    }
}

/// A page of the syscall lane with these bytes after its header.
fn page(body: &[u8]) -> Page {
    let mut header = PageWriter::new(7, Lane::Syscall, CPU, 0).header();
    let used = (HEADER_LEN + body.len()) / UNIT;
    (header.seq, header.used, header.base_mono) = (1, used as u32, 1000);
    let mut bytes = write_header(&header).to_vec();
    bytes.extend(body);
    bytes.resize(PAGE_SIZE, 0xff);
    Page::copy_from(&bytes).unwrap()
}

fn units(units: &[u32]) -> Vec<u8> {
    units.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// The bytes after a header, how many events they hold, and the first fault with its place after
/// the header.
type Case = (Vec<u8>, usize, Option<(Fault, usize)>);

fn check(cases: Vec<Case>) {
    for (bytes, events, fault) in cases {
        let page = page(&bytes);
        let damage = page.summary().damage;
        assert_eq!(page.events().count(), events, "{bytes:x?}");
        assert_eq!(damage.map(|d| (d.fault, d.at - HEADER_LEN)), fault, "{bytes:x?}");
    }
}

#[test]
fn damage_costs_what_was_damaged() {
    const THREAD: &[u32] = &[0x0201, 5];
    const ENTER: &[u32] = &[0x0310, 2, 0];
    let case = |parts: &[&[u32]]| units(&parts.concat());
    check(vec![
        (case(&[THREAD, ENTER, ENTER]), 2, None),
        // Framing: the page ends.
        (case(&[THREAD, ENTER, &[0, 0], ENTER]), 1, Some((Fault::Empty, 20))),
        (case(&[THREAD, ENTER, &[0x0110, 0], ENTER]), 1, Some((Fault::Empty, 20))),
        (case(&[THREAD, ENTER, &[0x0510, 0, 0]]), 1, Some((Fault::Overrun, 20))),
        (case(&[THREAD, ENTER, &[0x0310]]), 1, Some((Fault::Overrun, 20))),
        (case(&[THREAD, &[0x0302, 0, 0], ENTER]), 0, Some((Fault::Time, 8))),
        // Content: only the record is left out.
        (case(&[ENTER, THREAD, ENTER]), 1, Some((Fault::Thread, 0))),
        (case(&[THREAD, &[0x0210, 2], ENTER]), 1, Some((Fault::Short(0x10), 8))),
        (case(&[THREAD, &[0x0311, 2, 0], ENTER]), 1, Some((Fault::Short(0x11), 8))),
        (case(&[THREAD, &[0x3000_0310, 2, 0], ENTER]), 1, Some((Fault::Abi, 8))),
        (case(&[THREAD, &[0x0410, 2, 0, 0x6fff], ENTER]), 1, Some((Fault::Arguments, 8))),
        // A string that lies is left out, its event is kept.
        (case(&[THREAD, ENTER, &[0x0303, 5, 0], ENTER]), 2, Some((Fault::Text, 20))),
    ]);
}

#[test]
fn unknown_kinds_are_stepped_over() {
    // A new kind of the lane is counted; one of another lane, and one that is no event, are not.
    let page = page(&units(&[0x0201, 5, 0x0214, 0, 0x0220, 0, 0x0209, 0, 0x0310, 2, 0]));
    assert_eq!(page.events().count(), 1);
    assert_eq!(page.summary().counts, Counts::first([1, 0, 0, 0, 1]));
    assert_eq!(page.summary().damage, None);
}

#[test]
fn headers_are_checked() {
    let good = page(&units(&[0x0201, 5])).bytes().to_vec();
    let changed = |at: usize, bytes: &[u8]| {
        let mut page = good.clone();
        page[at..at + bytes.len()].copy_from_slice(bytes);
        read_header(&page).map(|_| ())
    };
    assert_eq!(changed(0, b"F"), Ok(()));
    assert_eq!(changed(0, b"f"), Err(PageError::Magic));
    assert_eq!(changed(16, &2u16.to_le_bytes()), Err(PageError::Version(2)));
    assert_eq!(changed(16, &3u16.to_le_bytes()), Err(PageError::Version(3)));
    assert_eq!(changed(16, &0u16.to_le_bytes()), Err(PageError::Version(0)));
    assert_eq!(changed(18, &[7]), Err(PageError::Lane(7)));
    assert_eq!(changed(22, &120u16.to_le_bytes()), Err(PageError::HeaderLen(120)));
    assert_eq!(changed(22, &130u16.to_le_bytes()), Err(PageError::HeaderLen(130)));
    assert_eq!(changed(48, &1025u32.to_le_bytes()), Err(PageError::Used(1025)));
    assert_eq!(changed(8, &[0; 8]), Err(PageError::Unnumbered));
    assert_eq!(changed(24, &[0; 8]), Err(PageError::Unnumbered));
    assert_eq!(read_header(&good[..100]), Err(PageError::Size(100)));
    assert_eq!(Page::copy_from(&good[..4000]), Err(PageError::Size(4000)));
    // A longer header of a later minor release: its records stand after it.
    let mut longer = good.clone();
    longer[22..24].copy_from_slice(&136u16.to_le_bytes());
    assert_eq!(Page::copy_from(&longer).map(|p| p.events().count()), Ok(0));
}
