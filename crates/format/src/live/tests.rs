//! The copying against a writer that does what the probes do, in shared memory.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use super::map::ArrayMap;
use super::{LiveRings, Maps, publish_meta, read_meta};
use crate::abi::page::{COPY_MAGIC, HEADER_LEN, Lane, MAGIC, PAGE_SIZE, PageHeader, RawHeader};
use crate::abi::record::Abi;
use crate::abi::slot::TaskSlot;
use crate::abi::state::{CpuState, LaneState};
use crate::chunks;
use crate::control::{CpuTotals, Position, Totals};
use crate::decode::{Body, Call, Event, Page};
use crate::descriptors;
use crate::encode::{PageWriter, write_header, write_slot};
use crate::identity::public_id;
use crate::meta::{Meta, PAGES};
use crate::ring::{Rings, Scope};
use crate::slots;

/// What the pages in the maps say, and copies of them do not.
const SECRET: u64 = 0xabcd;
const RING: usize = 8;

fn maps() -> Maps {
    let ring = || ArrayMap::anonymous(PAGE_SIZE, 2 * RING).unwrap();
    let state = ArrayMap::anonymous(size_of::<CpuState>(), 2).unwrap();
    for (lane, _) in Lane::RINGS.iter().enumerate() {
        // CPU 1 has rings, in the second half of the maps; CPU 0 has none.
        let at = offset_of!(CpuState, lanes)
            + lane * size_of::<LaneState>()
            + offset_of!(LaneState, ring_base);
        assert!(state.write(1, at, &(RING as u64 | (RING as u64) << 32).to_le_bytes()));
    }
    let meta = ArrayMap::anonymous(PAGE_SIZE, PAGES).unwrap();
    publish_meta(
        &meta,
        &Meta { session: public_id(SECRET), started: 1, ..Meta::default() },
        SECRET,
    )
    .unwrap();
    let slots = ArrayMap::anonymous(PAGE_SIZE, 3).unwrap();
    let descriptors = Some(ArrayMap::anonymous(PAGE_SIZE, descriptors::PAGES).unwrap());
    Maps { rings: [ring(), ring(), ring(), ring()], state, meta, slots, descriptors, quiet: None }
}

fn event(n: u64) -> Event {
    let body = Body::Migrate { thread: (n & 0xffff) as u32, prio: 120, from: 0, to: 1 };
    Event { time: 1000 + n * 100, cpu: 1, tid: 5, body }
}

/// Puts a page where the probes would, in their order of stores.
fn store(map: &ArrayMap, page: &[u8; PAGE_SIZE]) {
    let at = |field: usize| page[field..field + 8].try_into().map(u64::from_le_bytes).unwrap();
    let (seq, used) = (offset_of!(RawHeader, seq), offset_of!(RawHeader, used));
    let index = RING + (at(seq) as usize - 1) % RING;
    let present = map.load(index, seq);
    if present != at(seq) {
        map.u32(index, used).unwrap().store(0, Ordering::Relaxed);
        compiler_fence(Ordering::Release);
        map.u64(index, seq).unwrap().store(at(seq), Ordering::Release);
    }
    compiler_fence(Ordering::Release);
    map.write(index, 0, &page[..seq]);
    map.write(index, seq + 8, &page[seq + 8..used]);
    map.write(index, used + 8, &page[used + 8..]);
    compiler_fence(Ordering::Release);
    map.u32(index, used).unwrap().store(at(used) as u32, Ordering::Release);
}

fn copies(recording: &LiveRings, from: u64, until: u64) -> Vec<Page> {
    recording
        .pages(Lane::Sched, 1, from, until)
        .map(|page| Page::copy_from(&page).unwrap())
        .collect()
}

#[test]
fn windows_get_their_pages_and_one_after() {
    let recording = LiveRings::new(maps()).unwrap();
    let mut writer = PageWriter::new(SECRET, Lane::Sched, 1, 0);
    let mut n = 0;
    while writer.header().seq < 5 {
        writer.push(&event(n)).unwrap();
        n += 1;
    }
    for page in writer.finish() {
        store(&recording.maps().rings[1], &page);
    }
    let all = copies(&recording, 0, u64::MAX);
    let seqs = |pages: Vec<Page>| pages.iter().map(|p| p.header().seq).collect::<Vec<_>>();
    assert_eq!(seqs(all.clone()), [1, 2, 3, 4, 5]);
    assert_eq!(all.iter().map(|p| p.events().count() as u64).sum::<u64>(), n);
    let base = |seq: usize| all[seq - 1].header().base_mono;
    assert_eq!(seqs(copies(&recording, base(2) + 1, base(3))), [2, 3]);
    assert_eq!(seqs(copies(&recording, base(4) + 1, u64::MAX)), [4, 5]);
    assert_eq!(seqs(copies(&recording, 0, 1)), [1]);
    // No ring: other CPUs, other lanes.
    assert_eq!(recording.pages(Lane::Sched, 0, 0, u64::MAX).count(), 0);
    assert_eq!(recording.pages(Lane::Sched, 77, 0, u64::MAX).count(), 0);
    assert_eq!(recording.pages(Lane::Slots, 1, 0, u64::MAX).count(), 0);
    assert_eq!(recording.cpus(), [1]);
}

#[test]
fn a_page_that_ends_within_a_word_is_copied_up_to_there() {
    let recording = LiveRings::new(maps()).unwrap();
    let mut writer = PageWriter::new(SECRET, Lane::Syscall, 1, 0);
    let call = Call { nr: 39, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() };
    for time in 1000..1010 {
        writer.push(&Event { time, cpu: 1, tid: 5, body: Body::Enter(call.clone()) }).unwrap();
        let (mut page, used) = (writer.current().unwrap(), writer.header().used_bytes());
        page[used..used + 16].fill(0xaa);
        store(&recording.maps().rings[0], &page);
        let copy = recording
            .pages(Lane::Syscall, 1, 0, u64::MAX)
            .next()
            .map(|page| Page::copy_from(&page).unwrap());
        let copy = copy.unwrap();
        assert_eq!(copy.events().count(), writer.totals().0.iter().sum::<u64>() as usize);
        assert_eq!(copy.bytes()[16..used], page[16..used]);
        assert!(copy.bytes()[used..].iter().all(|byte| *byte == 0), "{used}");
    }
}

#[test]
fn only_what_is_new() {
    let recording = LiveRings::new(maps()).unwrap();
    let mut writer = PageWriter::new(SECRET, Lane::Sched, 1, 0);
    let mut n = 0;
    // Half as much again as the ring holds.
    while writer.header().seq < 12 {
        writer.push(&event(n)).unwrap();
        n += 1;
    }
    let last = writer.header().used;
    for page in writer.finish() {
        store(&recording.maps().rings[1], &page);
    }
    let at = offset_of!(CpuState, lanes)
        + Lane::Sched as usize * size_of::<LaneState>()
        + offset_of!(LaneState, seq);
    assert!(recording.maps().state.write(1, at, &12u64.to_le_bytes()));
    let new = |seq, used, newest| {
        let mut since =
            recording.since(&Position { lane: Lane::Sched as u8, cpu: 1, seq, used }, newest);
        let pages = std::iter::from_fn(|| recording.advance_since(&mut since));
        pages.map(|page| Page::copy_from(&page).unwrap().header().seq).collect::<Vec<_>>()
    };
    assert_eq!(new(0, 0, 100), [5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(new(10, 1024, 100), [11, 12]);
    assert_eq!(new(10, 32, 100), [10, 11, 12]);
    assert_eq!(new(12, last - 1, 100), [12]);
    assert_eq!(new(12, last, 100), [0; 0]);
    assert_eq!(new(2, 9, 3), [10, 11, 12]);
    assert_eq!(new(2, 9, 0), [0; 0]);
    assert_eq!(new(u64::MAX, 9, u32::MAX), [0; 0]);
    // Up to a page that was seen, and not beyond.
    assert_eq!(
        (recording.newest(Lane::Sched, 1), recording.ring_pages(Lane::Sched, 1)),
        (12, RING as u64)
    );
    let after = |seq, used, last| {
        let mut since =
            recording.after(&Position { lane: Lane::Sched as u8, cpu: 1, seq, used }, last);
        let pages = std::iter::from_fn(|| recording.advance_since(&mut since));
        pages.map(|page| Page::copy_from(&page).unwrap().header().seq).collect::<Vec<_>>()
    };
    assert_eq!(after(0, 0, 11), [5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(after(10, 1024, 11), [11]);
    assert_eq!(after(11, 1024, 11), [0; 0]);
    assert_eq!(after(0, 0, u64::MAX), [0; 0], "pages that are not there");
    for (lane, cpu) in [(Lane::Sched, 0), (Lane::Sched, 99), (Lane::Meta, 1)] {
        assert_eq!((recording.newest(lane, cpu), recording.ring_pages(lane, cpu)), (0, 0));
    }
    for (lane, cpu) in [(1, 0), (1, 99), (0, 1), (7, 1)] {
        let mut since = recording.since(&Position { lane, cpu, seq: 0, used: 0 }, 100);
        assert_eq!(recording.advance_since(&mut since), None);
    }
}

/// A small ring, flooded: every copy decodes, and what was decoded and what is told as lost
/// together are what was written.
#[test]
fn a_flooded_ring_is_copied_whole_or_not_at_all() {
    let recording = Arc::new(LiveRings::new(maps()).unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let flood = {
        let (recording, stop) = (recording.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut writer = PageWriter::new(SECRET, Lane::Sched, 1, 0);
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..40 {
                    writer.push(&event(n)).unwrap();
                    n += 1;
                }
                for page in writer.take() {
                    store(&recording.maps().rings[1], &page);
                }
                store(&recording.maps().rings[1], &writer.current().unwrap());
            }
            writer.totals()
        })
    };
    let mut rings = Rings::new(public_id(SECRET));
    // Long enough that the ring was written over many times.
    let (mut rounds, mut seq) = (0, 0);
    while rounds < 300 || seq < 100 * RING as u64 {
        for page in copies(&recording, 0, u64::MAX) {
            assert_eq!(page.summary().damage, None);
            seq = page.header().seq;
            assert!(rings.add(page));
        }
        rounds += 1;
    }
    stop.store(true, Ordering::Relaxed);
    let (events, refused) = flood.join().unwrap();
    let mut cpu = CpuTotals { cpu: 1, ..CpuTotals::default() };
    (cpu.events[1], cpu.refused[1]) = (events, refused);
    let totals = Totals { now: u64::MAX, cpus: vec![cpu], ..Totals::default() };
    let streams = rings.finish();
    assert_eq!(streams.len(), 1);
    let scope = Scope { until: u64::MAX, started: 1, totals: Some(&totals), ..Scope::default() };
    let coverage = streams[0].coverage(&scope);
    let times: Vec<u64> = streams[0].events().map(|e| e.time).collect();
    assert!(times.is_sorted_by(|a, b| a < b));
    let lost: u64 = coverage.gaps.iter().map(|gap| gap.missing().unwrap()).sum();
    assert_eq!(times.len() as u64 + lost, events.iter().sum::<u64>());
}

#[test]
fn pages_of_another_session_and_empty_ones_are_passed_over() {
    let recording = LiveRings::new(maps()).unwrap();
    let ring = &recording.maps().rings[1];
    let header = PageHeader {
        seq: 1,
        used: 32,
        session: 99,
        ..PageWriter::new(1, Lane::Sched, 1, 0).header()
    };
    let mut page = [0; PAGE_SIZE];
    page[..HEADER_LEN].copy_from_slice(&write_header(&header));
    store(ring, &page);
    assert_eq!(copies(&recording, 0, u64::MAX).len(), 0);
    page[..HEADER_LEN].copy_from_slice(&write_header(&PageHeader {
        session: SECRET,
        used: 0,
        ..header
    }));
    store(ring, &page);
    assert_eq!(copies(&recording, 0, u64::MAX).len(), 0);
}

#[test]
fn of_the_quiet_ring_the_places_that_are_asked_for_are_copied() {
    let quiet = Some(ArrayMap::anonymous(PAGE_SIZE, 8).unwrap());
    let recording = LiveRings::new(Maps { quiet, ..maps() }).unwrap();
    for place in [1, 2, 6] {
        let mut writer = PageWriter::new(1, Lane::Sched, 1, place);
        writer.push(&event(place)).unwrap();
        assert!(recording.keep(place as usize, &writer.current().unwrap()));
    }
    let places =
        |of: Range<usize>| recording.kept(of).map(|(place, _)| place).collect::<Vec<usize>>();
    assert_eq!(places(0..8), [1, 2, 6]);
    assert_eq!(places(2..6), [2]);
    assert!(places(3..6).is_empty());
    assert_eq!(places(6..100), [6]);
}

#[test]
fn totals_and_held_come_from_the_state() {
    let recording = LiveRings::new(maps()).unwrap();
    let state = &recording.maps().state;
    let lane = offset_of!(CpuState, lanes) + Lane::Sched as usize * size_of::<LaneState>();
    assert!(state.write(1, lane + offset_of!(LaneState, events) + 8, &7u64.to_le_bytes()));
    assert!(state.write(1, lane + offset_of!(LaneState, refused) + 16, &8u64.to_le_bytes()));
    assert!(state.write(0, offset_of!(CpuState, no_ring) + 16, &9u64.to_le_bytes()));
    assert!(state.write(1, offset_of!(CpuState, slot_collisions), &3u64.to_le_bytes()));
    let empty = std::env::temp_dir().join(format!("flightrec-no-programs-{}", std::process::id()));
    std::fs::create_dir_all(&empty).unwrap();
    let totals = recording.totals(&empty);
    std::fs::remove_dir(&empty).unwrap();
    let totals = totals.unwrap();
    assert_eq!((totals.cpus[1].events[1][1], totals.cpus[1].refused[1][2]), (7, 8));
    assert_eq!((totals.cpus[0].no_ring[2], totals.slot_collisions), (9, 3));
    assert_eq!((totals.cpus[0].recorded, totals.cpus[1].recorded), (false, true));
    assert!(recording.totals(&empty).is_err());
    // Nothing has wrapped: since the start.
    assert!(
        recording.held(Lane::Sched) > 1_000_000
            && recording.held(Lane::Sched) <= super::clock::monotonic()
    );
}

#[test]
fn metadata_is_replaced_beside_the_present_one() {
    let maps = maps();
    let present = read_meta(&maps.meta).unwrap();
    for n in 3..7 {
        let next = Meta { host: format!("host {n}"), ..present.clone() };
        assert_eq!(publish_meta(&maps.meta, &next, SECRET).unwrap(), n);
        assert_eq!(read_meta(&maps.meta).unwrap(), next);
    }
}

#[test]
fn any_page_of_the_metadata_may_be_lost() {
    for victim in 0..maps().meta.entries() {
        let maps = maps();
        let present = read_meta(&maps.meta).unwrap();
        assert!(maps.meta.write(victim, 0, &[0; PAGE_SIZE]));
        assert_eq!(read_meta(&maps.meta).unwrap(), present, "page {victim}");
    }
}

#[test]
fn a_recording_that_says_its_secret_as_its_id_is_refused() {
    let maps = maps();
    publish_meta(&maps.meta, &Meta { session: SECRET, ..Meta::default() }, SECRET).unwrap();
    assert!(read_meta(&maps.meta).is_err() && LiveRings::new(maps).is_err());
}

#[test]
fn slots_are_copied_whole_or_left_out() {
    let maps = maps();
    let header = PageHeader {
        seq: 1,
        used: 1024,
        lane: Lane::Slots as u8,
        ..PageWriter::new(SECRET, Lane::Syscall, 0, 0).header()
    };
    assert_eq!(header.magic, MAGIC);
    for i in 0..2 {
        assert!(maps.slots.write(i, 0, &write_header(&header)));
    }
    let free = slots::parse(&[0; size_of::<TaskSlot>()]);
    let put = |i: usize, slot: TaskSlot| {
        assert!(maps.slots.write(0, HEADER_LEN + i * 128, &write_slot(&slot)));
    };
    put(0, TaskSlot { tid: 11, seq: 2, ..free });
    put(1, TaskSlot { tid: 12, seq: 3, ..free });
    put(30, TaskSlot { tid: 13, ..free });
    let recording = LiveRings::new(maps).unwrap();
    // The second page holds no thread, the third was never made.
    let pages: Vec<_> = recording.slots().collect();
    assert_eq!(pages.len(), 1);
    assert_eq!(slots::read(&pages[0]).map(|s| s.tid).collect::<Vec<_>>(), [11, 13]);
}

#[test]
fn a_copy_is_never_taken_for_the_page_itself() {
    let recording = LiveRings::new(maps()).unwrap();
    let mut writer = PageWriter::new(SECRET, Lane::Sched, 1, 0);
    for n in 0..1000 {
        writer.push(&event(n)).unwrap();
    }
    let pages = writer.finish();
    for page in &pages {
        store(&recording.maps().rings[1], page);
    }
    let header = PageHeader { seq: 1, used: 1024, lane: Lane::Slots as u8, ..writer_header() };
    assert!(super::write_head(&recording.maps().slots, 0, &write_header(&header), SECRET));
    let slot = TaskSlot { tid: 11, seq: 2, ..slots::parse(&[0; size_of::<TaskSlot>()]) };
    assert!(recording.maps().slots.write(0, HEADER_LEN, &write_slot(&slot)));
    let snapshot =
        chunks::pack(Lane::Descriptors, public_id(SECRET), 1, descriptors::HALF_PAGES, &[1, 2, 3])
            .unwrap();
    assert!(recording.publish_descriptors(1, &snapshot));

    let mut since =
        recording.since(&Position { lane: Lane::Sched as u8, cpu: 1, seq: 0, used: 0 }, 100);
    let followed = std::iter::from_fn(|| recording.advance_since(&mut since));
    let mut copies: Vec<_> = recording.pages(Lane::Sched, 1, 0, u64::MAX).chain(followed).collect();
    assert!(copies.len() >= pages.len());
    copies.extend(recording.slots().chain(recording.descriptors()).chain(snapshot));
    for copy in &copies {
        assert_eq!(&copy[..8], b"FLTRECCP");
        assert_eq!(copy[8..16], public_id(SECRET).to_le_bytes());
        assert!(
            !copy.windows(8).any(|bytes| bytes == SECRET.to_le_bytes()),
            "the secret stays where it is"
        );
    }
    // What they are copies of can be found.
    let map = recording.maps();
    for (map, index) in [(&map.rings[1], RING), (&map.meta, 0), (&map.slots, 0)] {
        assert_eq!((map.load(index, 0), map.load(index, 8)), (MAGIC, SECRET));
    }
    // A page from wherever is a copy, once it is here.
    let page = Page::new(pages[0].clone()).unwrap();
    assert_eq!((page.header().magic, &page.bytes()[..8]), (COPY_MAGIC, b"FLTRECCP".as_slice()));
    assert_eq!(page.bytes()[16..], Page::copy_from(&copies[0]).unwrap().bytes()[16..]);
}

fn writer_header() -> PageHeader {
    PageWriter::new(SECRET, Lane::Sched, 1, 0).header()
}

#[test]
fn one_value_of_many_is_read_as_many() {
    let size = size_of::<CpuState>();
    let map = ArrayMap::anonymous(3 * size, 1).unwrap().in_values(size);
    assert_eq!((map.stride(), map.entries()), (size, 3));
    assert!(map.write(2, 8, &7u64.to_le_bytes()) && !map.write(3, 8, &7u64.to_le_bytes()));
    assert_eq!(map.load(2, 8), 7);
    // As earlier builds have it, and of another layout.
    let map = ArrayMap::anonymous(size, 4).unwrap().in_values(size);
    assert_eq!((map.stride(), map.entries()), (size, 4));
    let other = ArrayMap::anonymous(size + 8, 2).unwrap().in_values(size);
    assert_eq!((other.stride(), other.entries()), (size + 8, 2));
}
