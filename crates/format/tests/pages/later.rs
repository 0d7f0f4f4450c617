//! Pages of a later release: more counters in the header, kinds and lanes that are not known here.

use flightrec_format::abi::page::{HEADER_LEN, Lane, PageHeader, part_flag};
use flightrec_format::abi::record::{counter, kind};
use flightrec_format::decode::{Body, Page, PageError};
use flightrec_format::encode::PageWriter;
use flightrec_format::kept::KeptWriter;
use flightrec_format::ring::{LaneStream, Reason, Scope, Sequence};
use flightrec_format::{kept, part};

use crate::later_pages::{LATER_LANE, LaterRing, later_kinds, mark};

const BASE: u64 = 1000;
const TASK: u8 = Lane::Task as u8;

/// Three pages: of the first and the last, some events are of the kinds that are not known.
fn pages() -> Vec<Page> {
    let [one, two] = later_kinds();
    let mut ring = LaterRing::new(7, TASK, 3, 0);
    let body = [0xab; 16];
    let [line, text] = mark(1, b"one\0");
    let first = ring.page(BASE, &[line, text, (one, 2, &body), (one, 3, &body), (two, 4, &[])]);
    let [line, text] = mark(1, b"two\0");
    let second = ring.page(BASE + 100, &[line, text]);
    let third = ring.page(BASE + 200, &[(two, 7, &body), line, text]);
    [first, second, third].into_iter().map(|page| Page::new(page).unwrap()).collect()
}

fn stream(pages: impl IntoIterator<Item = Page>) -> LaneStream {
    let mut sequence = Sequence::new(7, Lane::Task, 3);
    for page in pages {
        assert!(sequence.add(page));
    }
    sequence.finish()
}

fn lines(page: &Page) -> Vec<(u64, Vec<u8>)> {
    let line = |body| match body {
        Body::Mark(text) => text.bytes.to_vec(),
        other => panic!("{other:?}"),
    };
    page.events().map(|event| (event.time, line(event.body))).collect()
}

#[test]
fn unknown_kinds_are_stepped_over_and_counted() {
    let [one, two] = later_kinds();
    let pages = pages();
    assert_eq!(lines(&pages[0]), [(BASE + 1, b"one".to_vec())]);
    assert_eq!(lines(&pages[2]), [(BASE + 201, b"two".to_vec())]);
    let counts = pages[0].summary().counts;
    assert_eq!((counts.of(one), counts.of(two), counts.of(kind::MARK)), (2, 1, 1));
    assert_eq!(pages[1].header().events, counts, "the next page's header has them all");
    assert_eq!(pages[0].summary().damage, None);
    let stream = stream(pages);
    let all = stream.unknown(0, u64::MAX);
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [(one, 2), (two, 2)]);
    let within = stream.unknown(BASE + 3, BASE + 207);
    assert_eq!(within.into_iter().collect::<Vec<_>>(), [(one, 1), (two, 1)]);
}

#[test]
fn what_is_missing_is_exact() {
    let [one, two] = later_kinds();
    let scope = Scope { until: u64::MAX, ..Scope::default() };
    assert_eq!(stream(pages()).coverage(&scope).gaps, []);
    let without: Vec<Page> = pages().into_iter().filter(|page| page.header().seq != 2).collect();
    let [gap] = stream(without).coverage(&scope).gaps[..] else { panic!("not one gap") };
    assert_eq!((gap.reason, gap.missing()), (Reason::Missing, Some(1)));
    let [gap] = stream(pages().into_iter().skip(1)).coverage(&scope).gaps[..] else {
        panic!("not one gap")
    };
    let lost = gap.lost.unwrap();
    assert_eq!((lost.of(one), lost.of(two), lost.total()), (2, 1, 4));
}

#[test]
fn pages_are_cut_and_joined_with_all_their_counters() {
    for page in pages() {
        let mut cuts = 0;
        for at in part::start(page.header()) + 1..page.header().used {
            let Some(rest) = part::tail(&page, at) else { continue };
            cuts += 1;
            let before = part::head(&page, at);
            let counted = before.header().events.plus(&before.summary().counts);
            assert_eq!(rest.header().events, counted);
            assert_eq!(part::join(&before, &rest), Some(page.clone()));
        }
        assert!(cuts > 0 || page.header().seq == 2);
    }
}

#[test]
fn a_thinned_page_has_the_counters_and_the_list() {
    let [one, _] = later_kinds();
    let pages = pages();
    let mut writer = KeptWriter::new(&pages[1]);
    let events: Vec<_> = pages[1].events().collect();
    let left_out =
        kept::LeftOut { process: 5, events: 9, from: BASE + 100, until: BASE + 150, born: 0 };
    assert!(writer.append(&pages[1], &events) && writer.append(&pages[2], &[]));
    writer.leave_out(&[left_out]);
    let page = Page::new(writer.page().unwrap()).unwrap();
    assert!(kept::is_thinned(page.header()));
    assert_eq!(page.header().events, pages[1].header().events);
    assert_eq!(page.header().events.of(one), 2);
    assert_eq!((kept::through(&page), kept::left_out(&page)), (3, vec![left_out]));
    assert_eq!(lines(&page), lines(&pages[1]));
}

/// A thinned page of a lane of up to six kinds has its list from byte 128 on.
#[test]
fn a_thinned_page_without_further_counters_is_as_it_was() {
    let mut ring = PageWriter::new(7, Lane::Syscall, 3, 0);
    let body = Body::Enter(crate::support::call(39, &[]));
    ring.push(&flightrec_format::decode::Event { time: 5, cpu: 3, tid: 1, body }).unwrap();
    let first = Page::new(ring.finish().remove(0)).unwrap();
    let mut writer = KeptWriter::new(&first);
    assert!(writer.append(&first, &[]));
    let bytes = writer.page().unwrap();
    let page = Page::new(bytes.clone()).unwrap();
    assert_eq!((page.header().header_len, page.header().kinds()), (904, 6));
    assert_eq!(bytes[HEADER_LEN..HEADER_LEN + 8], 1u64.to_le_bytes());
    let part = PageHeader { flags: part_flag::KEPT | part_flag::PART, ..*page.header() };
    assert!(!kept::is_thinned(&part), "a part's header ends where it begins");
}

#[test]
fn a_kind_that_the_header_does_not_count_is_not_counted() {
    let mut page = *pages()[0].bytes();
    // The same records after a header of today's length.
    let used = u16::from_le_bytes([page[48], page[49]]) as usize * 4;
    let further = usize::from(page[22]) - HEADER_LEN;
    page.copy_within(HEADER_LEN + further..used, HEADER_LEN);
    page[22] = HEADER_LEN as u8;
    page[48..50].copy_from_slice(&(((used - further) / 4) as u16).to_le_bytes());
    let counts = Page::copy_from(&page).unwrap().summary().counts;
    assert_eq!((counts.total(), counts[counter(kind::MARK)]), (1, 1));
}

#[test]
fn pages_of_an_unknown_lane_are_refused_by_its_number() {
    let page = LaterRing::new(7, LATER_LANE, 0, 0).page(BASE, &[(0x50, 1, &[])]);
    assert_eq!(Page::new(page).unwrap_err(), PageError::Lane(LATER_LANE));
}
