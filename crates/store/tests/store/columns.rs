//! Whatever pages go into columns come out again, and whatever bytes are taken for columns do no
//! harm.

use flightrec_format::abi::page::{Lane, PAGE_SIZE, UNIT, VERSION};
use flightrec_format::abi::record::{Abi, StringStatus, fold, header, kind};
use flightrec_format::decode::{Body, Call, Event, Page, PageError, Text};
use flightrec_format::encode::PageWriter;
use flightrec_format::part;
use flightrec_store::columns::{
    ColumnsError, Contents, Decoder, Encoder, PAGES_MAX, decode, decode_summed, encode,
};
use proptest::prelude::*;

use crate::events::{CPU, events, lanes};
use crate::later_pages::{LaterRing, later_kinds, mark};
use crate::summaries::of_any_pages_denies_nothing;

fn ring(lane: Lane, cpu: u16) -> PageWriter {
    PageWriter::new(7, lane, cpu, 37_000_000_000)
}

fn finish(writer: PageWriter) -> Vec<Page> {
    writer.finish().into_iter().map(|page| Page::new(page).unwrap()).collect()
}

fn write(lane: Lane, events: &[Event]) -> Vec<Page> {
    let mut writer = ring(lane, CPU);
    for event in events {
        writer.push(event).unwrap();
    }
    finish(writer)
}

/// Pages of a ring of any lane, that hold up to `count` events.
fn written(count: usize) -> impl Strategy<Value = Vec<Page>> {
    let of_lane = move |lane| (Just(lane), events(lane, count));
    lanes().prop_flat_map(of_lane).prop_map(|(lane, events)| write(lane, &events))
}

fn encoded(pages: &[Page]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(pages, &mut out);
    out
}

/// A page as it must come out: what stands after what is in use is zero.
fn used(page: &Page) -> Page {
    let header = page.header();
    let end = header.used_bytes().max(header.header_len.into());
    let mut bytes = *page.bytes();
    bytes[end..].fill(0);
    Page::copy_from(&bytes).unwrap()
}

fn comes_out(pages: &[Page]) {
    // An encoder that was used before has forgotten it.
    let (mut encoder, mut first, mut second) = (Encoder::new(), Vec::new(), Vec::new());
    encoder.encode(pages, &mut first);
    let counted = encoder.encode(pages, &mut second);
    // What the walk counted is what any reader counts, of whole pages and of damaged ones.
    assert_eq!(counted, pages.iter().map(Page::summary).collect::<Vec<_>>());
    assert_eq!(first, second);
    assert_eq!(first, encoded(pages));
    let again = decode(&encoded(pages)).unwrap();
    assert_eq!(again, pages.iter().map(used).collect::<Vec<_>>());
    let summed = decode_summed(&encoded(pages)).unwrap();
    assert!(summed.iter().all(|(page, summary)| page.summary() == *summary));
    assert_eq!(summed.into_iter().map(|(page, _)| page).collect::<Vec<_>>(), again);
    contents_alone_are_left_out(&encoded(pages));
    of_any_pages_denies_nothing(pages);
}

/// Without what arguments and strings hold, all else comes out as it was; whichever way was taken
/// before.
fn contents_alone_are_left_out(bytes: &[u8]) {
    let mut decoder = Decoder::new();
    let [first, without, again] = [Contents::All, Contents::None, Contents::All]
        .map(|contents| decoder.decode(bytes, PAGES_MAX, contents).unwrap());
    assert_eq!(first, again);
    assert_eq!(without.len(), first.len());
    for ((page, summary), (of, whole)) in without.iter().zip(&first) {
        assert_eq!((page.header(), page.summary()), (of.header(), *summary));
        // What is wrong with arguments is not seen where they are left out.
        if whole.damage.is_none() {
            assert_eq!(summary, whole);
            assert!(page.brief_calls().eq(of.brief_calls()));
            let times = |page: &Page| page.events().map(|event| event.time).collect::<Vec<_>>();
            assert_eq!(times(page), times(of));
        }
        let mut bytes = page.bytes().iter().zip(of.bytes());
        assert!(bytes.all(|(byte, of)| byte == of || *byte == 0));
    }
}

/// Of more kinds than this release knows, whole and cut; before and after pages that are missing.
#[test]
fn pages_of_a_later_release_come_out() {
    let [one, two] = later_kinds();
    let mut ring = LaterRing::new(7, Lane::Task as u8, CPU, 0);
    let [line, text] = mark(1, b"line");
    let body = [0xab; 16];
    let mut page = |i: u64| {
        let records = [(one, 1, &body[..]), line, text, (two, 2, &body[..8]), (one, 3, &[])];
        Page::new(ring.page(i * 1000, &records[..records.len() - (i % 3) as usize])).unwrap()
    };
    let pages: Vec<Page> = (1..=20).map(&mut page).collect();
    comes_out(&pages);
    let kept: Vec<Page> = pages.iter().step_by(3).cloned().collect();
    comes_out(&kept);
    let parts = pages.iter().flat_map(|page| {
        let at = (part::start(page.header())..page.header().used).rev();
        let rest = at.clone().find_map(|at| part::tail(page, at));
        [Some(part::head(page, rest.as_ref().map_or(0, |rest| part::start(rest.header())))), rest]
    });
    comes_out(&parts.flatten().collect::<Vec<_>>());
    // Counters that rise as events do are foretold: they cost nothing.
    let longer = encoded(&pages).len() - encoded(&pages[..pages.len() - 3]).len();
    assert!(longer < 3 * 30, "{longer} bytes for three pages");
}

/// Pages of any lane that hold any words, most of them records of some kind.
fn garbage() -> impl Strategy<Value = Page> {
    let kinds = vec![1u8, 2, 3, 0x10, 0x11, 0x20, 0x21, 0x22, 0x23, 0x30, 0x33, 0x3f];
    let heads = prop_oneof![
        4 => (prop::sample::select(kinds), 0..7u8, any::<u16>(), any::<u32>())
            .prop_map(|(kind, length, aux, upper)| header(kind, length, aux & 0x107, upper)),
        4 => (prop::sample::select(vec![1u8, 2, 0x10, 0x20]), 1..5u8, 0..1000u32)
            .prop_map(|(kind, length, upper)| header(kind, length, 0, upper)),
        2 => any::<u64>(),
        2 => Just(0u64),
    ];
    let fields = (prop::sample::select(vec![0u8, 1, 2, 3, 8, 9]), any::<u8>(), any::<u16>());
    let place = (0..=496u16, 0..=512u32, any::<[bool; 2]>());
    (fields, place, prop::collection::vec(heads, 496), prop::array::uniform13(any::<u64>()))
        .prop_map(|((lane, flags, cpu), (first, used, odd), words, header)| {
            let mut bytes = [0; PAGE_SIZE];
            // In units, of which a word has two: there are odd numbers as well.
            let odd = odd.map(u32::from);
            let first = (128 + 8 * first + 4 * odd[0] as u16).min(PAGE_SIZE as u16);
            let used = (2 * used + odd[1]).min(1024);
            for (to, from) in bytes.as_chunks_mut::<8>().0[3..16].iter_mut().zip(header) {
                *to = from.to_le_bytes();
            }
            // So that the first of them begins where records do.
            let begin = 128 + usize::from(first) % 8;
            for (to, from) in bytes[begin..].as_chunks_mut::<8>().0.iter_mut().zip(words) {
                *to = from.to_le_bytes();
            }
            bytes[..8].copy_from_slice(b"FLTRECPG");
            bytes[8..16].copy_from_slice(&7u64.to_le_bytes());
            bytes[16..20].copy_from_slice(&[VERSION as u8, 0, lane, flags]);
            bytes[20..22].copy_from_slice(&cpu.to_le_bytes());
            bytes[22..24].copy_from_slice(&first.to_le_bytes());
            bytes[24] |= 1;
            bytes[48..52].copy_from_slice(&used.to_le_bytes());
            Page::copy_from(&bytes).unwrap()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_the_probes_write_comes_out(pages in written(200)) {
        comes_out(&pages);
    }

    #[test]
    fn parts_come_out(pages in written(120), at in any::<prop::sample::Index>()) {
        let mut parts = Vec::new();
        for page in &pages {
            // Wherever a record begins, a part may; elsewhere there is none.
            let all: Vec<u32> = (part::start(page.header())..=page.header().used)
                .filter(|cut| part::tail(page, *cut).is_some())
                .collect();
            let cut = all[at.index(all.len())];
            parts.extend([part::head(page, cut), part::tail(page, cut).unwrap()]);
            prop_assert!(part::tail(page, page.header().used).is_none());
        }
        comes_out(&parts);
    }

    #[test]
    fn lanes_in_one_block_come_out(
        first in written(60),
        second in written(60),
        third in written(60),
    ) {
        comes_out(&[first, second, third].concat());
    }

    #[test]
    fn any_words_come_out(pages in prop::collection::vec(garbage(), 1..4)) {
        comes_out(&pages);
    }

    #[test]
    fn damaged_pages_come_out(
        whole in written(200),
        flips in prop::collection::vec((0..PAGE_SIZE, 0..8u8), 1..9),
    ) {
        let mut pages = Vec::new();
        for page in whole {
            let mut bytes = *page.bytes();
            for (at, bit) in &flips {
                bytes[*at] ^= 1 << bit;
            }
            pages.extend(Page::copy_from(&bytes));
        }
        comes_out(&pages);
    }

    #[test]
    fn damaged_columns_do_no_harm(
        pages in written(100),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encoded(&pages);
        prop_assert!(decode(&bytes[..cut.index(bytes.len())]).is_err());
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(pages) = decode(&bytes) {
            comes_out(&pages);
        }
    }

    #[test]
    fn any_bytes_do_no_harm(
        lengths in prop::collection::vec(0..40u8, 52),
        bytes in prop::collection::vec(any::<u8>(), 2100),
    ) {
        let all: usize = lengths.iter().map(|length| usize::from(*length)).sum();
        let mut whole = vec![3, 9, 52];
        whole.extend(lengths);
        whole.extend(&bytes[..all]);
        if let Ok(pages) = decode(&whole) {
            comes_out(&pages);
        }
        let _ = decode(&bytes);
    }
}

#[test]
fn nothing_comes_out_of_nothing() {
    comes_out(&[]);
    assert_eq!(decode(&[]), Err(ColumnsError::Cut));
    for version in [0, 2, 3, 5, 9] {
        assert_eq!(decode(&[version, 0, 38]), Err(ColumnsError::Version(version)));
    }
}

#[test]
fn pages_of_a_version_that_is_not_known_are_refused() {
    let mut bytes = encoded(&write(Lane::Sched, &[crate::support::event(Lane::Sched, 9, 3, 0)]));
    // After the session, 7.
    let session = bytes.windows(8).position(|bytes| bytes == 7u64.to_le_bytes()).unwrap();
    assert_eq!(u16::from(bytes[session + 8]), VERSION);
    for version in [VERSION - 1, VERSION + 1] {
        bytes[session + 8] = version as u8;
        assert_eq!(decode(&bytes), Err(ColumnsError::Page(PageError::Version(version))));
    }
}

#[test]
fn more_pages_than_a_block_holds_are_refused() {
    let mut bytes = encoded(&[]);
    // 5000 pages, in place of none.
    bytes.splice(1..2, [0x88, 0x27]);
    assert_eq!(decode(&bytes), Err(ColumnsError::Pages(5000)));
    let mut bytes = encoded(&[]);
    bytes.push(0);
    assert_eq!(decode(&bytes), Err(ColumnsError::After(1)));
}

#[test]
fn pages_of_several_rings_and_sessions_come_out() {
    let mut pages = Vec::new();
    for (session, lane, cpu) in [
        (1, Lane::Syscall, 0),
        (1, Lane::Syscall, 1),
        (9, Lane::Sched, 0),
        (1, Lane::Syscall, 0),
        (1, Lane::Sched, 0),
    ] {
        let mut writer = PageWriter::new(session, lane, cpu, 5);
        for n in 0..600 {
            writer.push(&crate::support::event(lane, n * 1000, 5, n)).unwrap();
        }
        pages.extend(finish(writer));
    }
    assert!(pages.len() > 8);
    comes_out(&pages);
}

/// A thread that reads, writes and closes in a loop, at a place in memory of its own.
fn cycles(writer: &mut PageWriter, tid: u32, base: u64, start: u64) {
    let mut time = start;
    for _ in 0..500 {
        for (nr, args, ret) in
            [(0, [3, base + 64, 4096], 4096), (1, [1, base + 64, 4096], 4096), (3, [3, 0, 0], 0)]
        {
            let count = if nr == 3 { 1 } else { 3 };
            let mut all = [0; 6];
            all[..count].copy_from_slice(&args[..count]);
            let call =
                Call { nr, abi: Abi::Native, nargs: count as u8, args: all, strings: Vec::new() };
            let bare = Call { nargs: 0, args: [0; 6], ..call.clone() };
            writer.push(&Event { time, cpu: 0, tid, body: Body::Enter(call) }).unwrap();
            let body = Body::Exit { call: bare, ret, entered: Some(time) };
            writer.push(&Event { time: time + 160, cpu: 0, tid, body }).unwrap();
            time += 1000;
        }
    }
}

#[test]
fn what_repeats_takes_a_bit_more_than_its_times() {
    let mut writer = ring(Lane::Syscall, 0);
    cycles(&mut writer, 100, 0x7f12_3456_7000, 0);
    cycles(&mut writer, 200, 0x7f98_7654_3000, 3_000_000);
    let pages = finish(writer);
    let size = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap().len();
    let raw: Vec<u8> = pages.iter().flat_map(Page::bytes).copied().collect();
    let columns = size(&encoded(&pages));
    // 6000 events. Their intervals are all alike, so what is left is headers and the first of
    // each.
    assert!(columns < 500, "{columns} bytes");
    assert!(columns * 4 < size(&raw), "{columns} bytes of columns, {} of pages", size(&raw));
}

/// A call of somebody who does the same again and again: which one, what is different this time,
/// whether its exit folds in and whether it has a string.
type Habit = (u32, u8, u8, bool, bool);

/// Threads of few habits, mostly kept, at addresses of their own.
fn habits() -> impl Strategy<Value = Vec<Habit>> {
    let different = prop_oneof![12 => Just(0u8), 1 => 1..8u8];
    let habit = (0..2u32, 0..4u8, different, prop::bool::weighted(0.9), prop::bool::weighted(0.1));
    prop::collection::vec(habit, 1..600)
}

/// What they write into a ring.
fn kept(habits: &[Habit]) -> Vec<Page> {
    let mut writer = ring(Lane::Syscall, CPU);
    let (mut time, mut moved) = (1_000, 0);
    for (thread, which, different, folds, string) in habits {
        time += 500 + u64::from(*which) * 700;
        moved += u64::from(*different == 1) * 0x2000;
        let base = 0x7f00_1000_0000 + u64::from(*thread) * 0x7000_0000 + moved;
        let small = u64::from(*different == 2) * 3 + 4;
        let args = [
            small,
            base + 0x40,
            0x5555_0000_1000 + base % 0x10_0000,
            u64::from(*different == 3) << 50,
            u64::MAX,
            0x7ffe_0000_0000,
        ];
        let nargs = 2 + *which + u8::from(*different == 4 && *which < 3);
        let strings = if *string {
            // One that is cut in the middle is kept like any other.
            let padded = ("/.".repeat(123) + "etc/hosts").into_bytes();
            let (status, bytes) = match *which {
                2 => (StringStatus::Ends, padded.into()),
                _ => (StringStatus::Whole, (*b"/etc/hosts").into()),
            };
            vec![Text { index: 0, status, bytes }]
        } else {
            Vec::new()
        };
        let call = Call { nr: u16::from(*which), abi: Abi::Native, nargs, args, strings };
        let tid = 100 + *thread;
        let ret = if *different == 5 {
            -2
        } else if *which == 1 {
            base as i64
        } else {
            i64::from(*which) * 4096
        };
        writer.push(&Event { time, cpu: CPU, tid, body: Body::Enter(call.clone()) }).unwrap();
        let entered = folds.then_some(time);
        time += if *different == 6 { 900_000 } else { 320 };
        let bare = Call { nargs: 0, args: [0; 6], strings: Vec::new(), ..call };
        writer
            .push(&Event { time, cpu: CPU, tid, body: Body::Exit { call: bare, ret, entered } })
            .unwrap();
    }
    finish(writer)
}

proptest! {
    #[test]
    fn habits_come_out(
        habits in habits(),
        damage in prop::option::of((any::<prop::sample::Index>(), 128..PAGE_SIZE)),
    ) {
        let mut pages = kept(&habits);
        // Also where one of them is not quite what it was before.
        if let Some((which, at)) = damage {
            let page = which.get_mut(&mut pages);
            let mut bytes = *page.bytes();
            bytes[at] ^= 0x10;
            *page = Page::copy_from(&bytes).unwrap();
        }
        comes_out(&pages);
    }
}

#[test]
fn a_string_of_every_length_comes_out() {
    let mut writer = ring(Lane::Task, 0);
    for length in 0..=256 {
        let text = crate::events::text(0, &vec![b'x'; length]);
        writer
            .push(&Event { time: length as u64, cpu: 0, tid: 0, body: Body::Mark(text) })
            .unwrap();
    }
    let pages = finish(writer);
    assert_eq!(pages.iter().flat_map(Page::events).count(), 257);
    comes_out(&pages);
}

/// A page with one event, and then these bytes.
fn with_records(lane: Lane, records: &[u8]) -> Page {
    let page = &write(lane, &[crate::support::event(lane, 9, 3, 0)])[0];
    of_records(lane, &[&page.bytes()[128..page.header().used_bytes()], records].concat())
}

/// A page of these bytes.
fn of_records(lane: Lane, records: &[u8]) -> Page {
    let mut bytes = *write(lane, &[crate::support::event(lane, 9, 3, 0)])[0].bytes();
    let end = 128 + records.len();
    bytes[128..end].copy_from_slice(records);
    bytes[48..50].copy_from_slice(&((end / UNIT) as u16).to_le_bytes());
    Page::copy_from(&bytes).unwrap()
}

/// The record's bytes; its length is told as it is.
fn record(kind: u8, aux: u16, upper: u32, body: &[u8]) -> Vec<u8> {
    let length = (8 + body.len()).div_ceil(UNIT);
    let mut record = [&header(kind, length as u8, aux, upper).to_le_bytes(), body].concat();
    record.resize(UNIT * length, 0);
    record
}

#[test]
fn leads_in_any_order_come_out() {
    // THREAD and TIME as no probe writes them: twice, in the other order, at the end.
    let thread = |tid| record(kind::THREAD, 0, tid, &[]);
    let time = record(kind::TIME, 0, 0, &5_000u64.to_le_bytes());
    let enter = record(kind::ENTER, 39, 7, &[0; 8][..fold::SLOT]);
    let orders = [
        [thread(5), thread(6), enter.clone()].concat(),
        [time.clone(), thread(5), enter.clone()].concat(),
        [thread(5), time.clone(), time.clone(), enter].concat(),
        thread(5),
        [thread(5), time.clone()].concat(),
        [thread(5), time[..8].to_vec()].concat(),
    ];
    for records in orders {
        comes_out(&[with_records(Lane::Syscall, &records)]);
    }
}

/// Records of every length that a page has room for, also of kinds whose length is always the same:
/// what is half a word, too short or too long for its kind, and what is left where no record fits.
#[test]
fn records_of_every_length_come_out() {
    for (lane, kind) in [
        (Lane::Syscall, kind::ENTER),
        (Lane::Syscall, kind::EXIT),
        (Lane::Sched, kind::WAKING),
        (Lane::Task, kind::STRING),
        (Lane::Task, kind::TIME),
        (Lane::Task, 0x3f),
    ] {
        // The longest record has 255 units.
        let lengths = (0..80).chain([200, 252, 253]).map(|body| body * UNIT);
        let pages: Vec<Page> = lengths
            .filter_map(|length| {
                let body: Vec<u8> = (0..length).map(|i| (i % 7 * 36) as u8).collect();
                let one = record(kind, 0, 8 * length as u32 / 9, &body);
                let cut = &one[..one.len() - UNIT];
                // Twice, so that there is one before; and once more, less its end.
                let all = [&one[..], &one[..], cut].concat();
                (all.len() < 3800).then(|| with_records(lane, &all))
            })
            .collect();
        assert!(pages.len() > 40);
        comes_out(&pages);
    }
}

/// An entry's slot holds any return value that it has room for, and what has none is told as it
/// stands.
#[test]
fn every_slot_comes_out() {
    let slots = [1u32, 0xffff, 0x1_0000, 0x1_ffff, 0xfffe_1000, 0xffff_ffff];
    let mut records = Vec::new();
    for slot in slots.into_iter().chain((0..32).map(|bit| 1 << bit)) {
        records.extend(record(kind::ENTER, 39, 700, &slot.to_le_bytes()));
    }
    comes_out(&[with_records(Lane::Syscall, &records)]);
}
