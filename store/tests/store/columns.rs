//! Whatever pages go into columns come out again, and whatever bytes are taken for columns do no harm.

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::record::{Abi, StringStatus, header, kind};
use flightrec_format::decode::{Body, Call, Event, Page, Text};
use flightrec_format::encode::PageWriter;
use flightrec_format::part;
use flightrec_store::columns::{ColumnsError, Encoder, decode, decode_summed, encode};
use proptest::prelude::*;

use crate::events::{CPU, events, lanes};

fn write(lane: Lane, events: &[Event]) -> Vec<Page> {
    let mut writer = PageWriter::new(7, lane, CPU, 37_000_000_000);
    for event in events {
        writer.push(event).unwrap();
    }
    writer.finish().into_iter().map(|page| Page::new(page).unwrap()).collect()
}

fn encoded(pages: &[Page]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(pages, &mut out);
    out
}

/// A page as it must come out: what stands behind the words in use is zero.
fn used(page: &Page) -> Page {
    let header = page.header();
    let end = header.used.max(u32::from(header.header_len) / 8) as usize * 8;
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
}

/// Pages of any lane that hold any words, most of them records of some kind.
fn garbage() -> impl Strategy<Value = Page> {
    let heads = prop_oneof![
        4 => (prop::sample::select(vec![1u8, 2, 3, 0x10, 0x11, 0x20, 0x21, 0x22, 0x23, 0x30, 0x33, 0x3f]), 0..4u8, any::<u16>(), any::<u32>())
            .prop_map(|(kind, length, aux, upper)| header(kind, length, aux & 0x107, upper)),
        4 => (prop::sample::select(vec![1u8, 2, 0x10, 0x20]), 1..3u8, 0..1000u32)
            .prop_map(|(kind, length, upper)| header(kind, length, 0, upper)),
        2 => any::<u64>(),
        2 => Just(0u64),
    ];
    let fields = (prop::sample::select(vec![0u8, 1, 2, 3, 8, 9]), any::<u8>(), any::<u16>(), 16..=512u16, 0..=512u32);
    (fields, prop::collection::vec(heads, 496), prop::array::uniform13(any::<u64>())).prop_map(
        |((lane, flags, cpu, first, used), words, header)| {
            let mut bytes = [0; PAGE_SIZE];
            for (to, from) in bytes.as_chunks_mut::<8>().0[3..16].iter_mut().zip(header) {
                *to = from.to_le_bytes();
            }
            for (to, from) in bytes.as_chunks_mut::<8>().0[16..].iter_mut().zip(words) {
                *to = from.to_le_bytes();
            }
            bytes[..8].copy_from_slice(b"FLTRECPG");
            bytes[8..16].copy_from_slice(&7u64.to_le_bytes());
            bytes[16..20].copy_from_slice(&[1, 0, lane, flags]);
            bytes[20..22].copy_from_slice(&cpu.to_le_bytes());
            bytes[22..24].copy_from_slice(&(first * 8).to_le_bytes());
            bytes[24] |= 1;
            bytes[48..52].copy_from_slice(&used.to_le_bytes());
            Page::copy_from(&bytes).unwrap()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_the_probes_write_comes_out((_, events) in lanes().prop_flat_map(|lane| (Just(lane), events(lane, 200)))
        .prop_map(|(lane, events)| (lane, write(lane, &events)))) {
        comes_out(&events);
    }

    #[test]
    fn parts_come_out((lane, events) in lanes().prop_flat_map(|lane| (Just(lane), events(lane, 120))), cut in 16..512u32) {
        let parts: Vec<Page> = write(lane, &events)
            .iter()
            .flat_map(|page| [Some(part::head(page, cut)), part::tail(page, cut.min(page.header().used))])
            .flatten()
            .collect();
        comes_out(&parts);
    }

    #[test]
    fn any_words_come_out(pages in prop::collection::vec(garbage(), 1..4)) {
        comes_out(&pages);
    }

    #[test]
    fn damaged_pages_come_out(
        (lane, events) in lanes().prop_flat_map(|lane| (Just(lane), events(lane, 200))),
        flips in prop::collection::vec((0..PAGE_SIZE, 0..8u8), 1..9),
    ) {
        let mut pages = Vec::new();
        for page in write(lane, &events) {
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
        (lane, events) in lanes().prop_flat_map(|lane| (Just(lane), events(lane, 100))),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encoded(&write(lane, &events));
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
    fn any_bytes_do_no_harm(lengths in prop::collection::vec(0..40u8, 52), bytes in prop::collection::vec(any::<u8>(), 2100)) {
        let all: usize = lengths.iter().map(|length| usize::from(*length)).sum();
        let mut whole = vec![2, 9, 52];
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
    assert!(matches!(decode(&[9]), Err(ColumnsError::Version(9))));
}

#[test]
fn more_pages_than_a_block_holds_are_refused() {
    let mut bytes = encoded(&[]);
    // 5000 pages, in place of none.
    bytes.splice(1..2, [0x88, 0x27]);
    assert_eq!(decode(&bytes), Err(ColumnsError::Pages(5000)));
    let mut bytes = encoded(&[]);
    bytes.push(0);
    assert_eq!(decode(&bytes), Err(ColumnsError::Behind(1)));
}

#[test]
fn pages_of_several_rings_and_sessions_come_out() {
    let mut pages = Vec::new();
    for (session, lane, cpu) in
        [(1, Lane::Syscall, 0), (1, Lane::Syscall, 1), (9, Lane::Sched, 0), (1, Lane::Syscall, 0)]
    {
        let mut writer = PageWriter::new(session, lane, cpu, 5);
        for n in 0..600 {
            writer.push(&crate::support::event(lane, n * 1000, 5, n)).unwrap();
        }
        pages.extend(writer.finish().into_iter().map(|page| Page::new(page).unwrap()));
    }
    assert!(pages.len() > 8);
    comes_out(&pages);
}

/// A thread that reads, writes and closes in a loop, at a place in memory of its own.
fn cycles(writer: &mut PageWriter, tid: u32, base: u64, start: u64) {
    let mut time = start;
    for _ in 0..500 {
        for (nr, args, ret) in [(0, [3, base + 64, 4096], 4096), (1, [1, base + 64, 4096], 4096), (3, [3, 0, 0], 0)] {
            let count = if nr == 3 { 1 } else { 3 };
            let mut all = [0; 6];
            all[..count].copy_from_slice(&args[..count]);
            let call = Call { nr, abi: Abi::Native, nargs: count as u8, args: all, strings: Vec::new() };
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
    let mut writer = PageWriter::new(7, Lane::Syscall, 0, 0);
    cycles(&mut writer, 100, 0x7f12_3456_7000, 0);
    cycles(&mut writer, 200, 0x7f98_7654_3000, 3_000_000);
    let pages: Vec<Page> = writer.finish().into_iter().map(|page| Page::new(page).unwrap()).collect();
    let size = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap().len();
    let raw: Vec<u8> = pages.iter().flat_map(Page::bytes).copied().collect();
    let columns = size(&encoded(&pages));
    // 6000 events. Their intervals are all alike, so what is left is headers and the first of each.
    assert!(columns < 500, "{columns} bytes");
    assert!(columns * 4 < size(&raw), "{columns} bytes of columns, {} of pages", size(&raw));
}

/// A call of somebody who does the same again and again: which one, what is different this time, whether its exit folds in and
/// whether it has a string.
type Habit = (u32, u8, u8, bool, bool);

/// Threads of few habits, mostly kept, at addresses of their own.
fn habits() -> impl Strategy<Value = Vec<Habit>> {
    let different = prop_oneof![12 => Just(0u8), 1 => 1..8u8];
    let habit = (0..2u32, 0..4u8, different, prop::bool::weighted(0.9), prop::bool::weighted(0.1));
    prop::collection::vec(habit, 1..600)
}

/// What they write into a ring.
fn kept(habits: &[Habit]) -> Vec<Page> {
    let mut writer = PageWriter::new(7, Lane::Syscall, CPU, 37_000_000_000);
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
            vec![Text { index: 0, status: StringStatus::Whole, bytes: (*b"/etc/hosts").into() }]
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
        writer.push(&Event { time, cpu: CPU, tid, body: Body::Exit { call: bare, ret, entered } }).unwrap();
    }
    writer.finish().into_iter().map(|page| Page::new(page).unwrap()).collect()
}

proptest! {
    #[test]
    fn habits_come_out(habits in habits(), damage in prop::option::of((any::<prop::sample::Index>(), 128..PAGE_SIZE))) {
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
    let mut writer = PageWriter::new(7, Lane::Task, 0, 0);
    for length in 0..=256 {
        let text = crate::events::text(0, &vec![b'x'; length]);
        writer.push(&Event { time: length as u64, cpu: 0, tid: 0, body: Body::Mark(text) }).unwrap();
    }
    let pages: Vec<Page> = writer.finish().into_iter().map(|page| Page::new(page).unwrap()).collect();
    assert_eq!(pages.iter().flat_map(Page::events).count(), 257);
    comes_out(&pages);
}

#[test]
fn leads_in_any_order_come_out() {
    // THREAD and TIME as no probe writes them: twice, in the other order, at the end.
    let thread = |tid| header(kind::THREAD, 1, 0, tid);
    let time = [header(kind::TIME, 2, 0, 0), 5_000];
    let enter = [header(kind::ENTER, 2, 39, 7), 0];
    let orders: [Vec<u64>; 6] = [
        [&[thread(5), thread(6)][..], &enter].concat(),
        [&time[..], &[thread(5)], &enter].concat(),
        [&[thread(5)][..], &time, &time, &enter].concat(),
        vec![thread(5)],
        [&[thread(5)][..], &time].concat(),
        [&[thread(5)][..], &time[..1]].concat(),
    ];
    for words in orders {
        let mut writer = PageWriter::new(7, Lane::Syscall, 0, 0);
        writer.push(&crate::support::event(Lane::Syscall, 9, 3, 0)).unwrap();
        let mut bytes = *writer.current().unwrap();
        for (to, from) in bytes.as_chunks_mut::<8>().0[16..].iter_mut().zip(&words) {
            *to = from.to_le_bytes();
        }
        bytes[48] = 16 + words.len() as u8;
        comes_out(&[Page::copy_from(&bytes).unwrap()]);
    }
}
