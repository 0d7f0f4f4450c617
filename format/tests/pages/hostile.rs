//! Any bytes at all: no panic, no endless walk, faults told.

use crate::support::{CPU, events, lanes};
use flightrec_format::abi::page::{HEADER_LEN, Lane, PAGE_SIZE};
use flightrec_format::decode::page::read_header;
use flightrec_format::decode::{Fault, Page, PageError};
use flightrec_format::encode::{PageWriter, write_header};
use flightrec_format::{meta, slots};
use proptest::prelude::*;

fn random_page() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), PAGE_SIZE)
}

/// Decodes whatever can be; the most events that a page can hold are two for each two words.
fn decode(bytes: &[u8]) -> Result<(), TestCaseError> {
    let _ = slots::read(bytes).count();
    let _ = meta::unpack([bytes]);
    if let Ok(page) = Page::copy_from(bytes) {
        let mut decoder = page.events();
        let times: Vec<u64> = decoder.by_ref().map(|event| event.time).collect();
        prop_assert!(times.len() <= PAGE_SIZE / 8);
        // The summary is the same walk.
        let summary = page.summary();
        prop_assert_eq!(&summary.counts, decoder.counts());
        prop_assert_eq!(summary.damage.as_ref(), decoder.damage());
        prop_assert_eq!(summary.last, times.into_iter().fold(page.header().base_mono, u64::max));
    }
    Ok(())
}

proptest! {
    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..PAGE_SIZE + 9)) {
        prop_assert!(read_header(&bytes).is_err());
        decode(&bytes)?;
    }

    #[test]
    fn random_records(mut bytes in random_page(), lane in prop::sample::select(vec![0u8, 1, 2, 3, 8, 9]), used in 0..=512u32) {
        let mut header = PageWriter::new(7, Lane::Syscall, CPU, 0).header();
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

/// A page of the syscall lane with these words behind its header.
fn page(words: &[u64]) -> Page {
    let mut header = PageWriter::new(7, Lane::Syscall, CPU, 0).header();
    (header.seq, header.used, header.base_mono) = (1, 16 + words.len() as u32, 1000);
    let mut bytes = write_header(&header).to_vec();
    bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    bytes.resize(PAGE_SIZE, 0xff);
    Page::copy_from(&bytes).unwrap()
}

const THREAD: u64 = 0x5_0000_0101;
const ENTER: u64 = 0x2_0000_0210;

/// Words, how many events they hold, and the first fault with its place.
type Case<'a> = (&'a [u64], usize, Option<(Fault, usize)>);

#[test]
fn damage_costs_what_was_damaged() {
    let cases: [Case<'_>; 9] = [
        (&[THREAD, ENTER, 0, ENTER, 0], 2, None),
        // Framing: the page ends.
        (&[THREAD, ENTER, 0, 0, ENTER, 0], 1, Some((Fault::Empty, 19))),
        (&[THREAD, ENTER, 0, 0x0310, 0], 1, Some((Fault::Overrun, 19))),
        (&[THREAD, 0x0102, ENTER, 0], 0, Some((Fault::Time, 17))),
        // Content: only the record is left out.
        (&[ENTER, 0, THREAD, ENTER, 0], 1, Some((Fault::Thread, 16))),
        (&[THREAD, 0x0110, ENTER, 0], 1, Some((Fault::Short(0x10), 17))),
        (&[THREAD, ENTER | 0x3000 << 16, 0, ENTER, 0], 1, Some((Fault::Abi, 17))),
        (&[THREAD, 0x0310, 0, 0x6fff, ENTER, 0], 1, Some((Fault::Arguments, 17))),
        // A string that lies is left out, its event is kept.
        (&[THREAD, ENTER, 0, 9 << 32 | 0x0203, 0, ENTER, 0], 2, Some((Fault::Text, 19))),
    ];
    for (words, events, fault) in cases {
        let page = page(words);
        let damage = page.summary().damage;
        assert_eq!(page.events().count(), events, "{words:x?}");
        assert_eq!(damage.map(|d| (d.fault, d.word)), fault, "{words:x?}");
    }
}

#[test]
fn unknown_kinds_are_stepped_over() {
    // A new kind of the lane is counted; one of another lane, and one that is no event, are not.
    let page = page(&[THREAD, 0x0114, 0x0120, 0x0109, ENTER, 0]);
    assert_eq!(page.events().count(), 1);
    assert_eq!(page.summary().counts, [1, 0, 0, 0, 1, 0]);
    assert_eq!(page.summary().damage, None);
}

#[test]
fn headers_are_checked() {
    let good = page(&[THREAD]).bytes().to_vec();
    let changed = |at: usize, bytes: &[u8]| {
        let mut page = good.clone();
        page[at..at + bytes.len()].copy_from_slice(bytes);
        read_header(&page).map(|_| ())
    };
    assert_eq!(changed(0, b"F"), Ok(()));
    assert_eq!(changed(0, b"f"), Err(PageError::Magic));
    assert_eq!(changed(16, &2u16.to_le_bytes()), Err(PageError::Version(2)));
    assert_eq!(changed(18, &[7]), Err(PageError::Lane(7)));
    assert_eq!(changed(22, &120u16.to_le_bytes()), Err(PageError::HeaderLen(120)));
    assert_eq!(changed(22, &132u16.to_le_bytes()), Err(PageError::HeaderLen(132)));
    assert_eq!(changed(48, &513u32.to_le_bytes()), Err(PageError::Used(513)));
    assert_eq!(changed(8, &[0; 8]), Err(PageError::Unnumbered));
    assert_eq!(changed(24, &[0; 8]), Err(PageError::Unnumbered));
    assert_eq!(read_header(&good[..100]), Err(PageError::Size(100)));
    assert_eq!(Page::copy_from(&good[..4000]), Err(PageError::Size(4000)));
    // A longer header of a later minor release: its records stand behind it.
    let mut longer = good.clone();
    longer[22..24].copy_from_slice(&136u16.to_le_bytes());
    assert_eq!(Page::copy_from(&longer).map(|p| p.events().count()), Ok(0));
}
