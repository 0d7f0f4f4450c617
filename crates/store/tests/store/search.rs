//! The search index says of no block that it lacks what it holds, is small, and is taken for no
//! other file's, whatever became of it.

use std::fs;
use std::path::{Path, PathBuf};

use flightrec_format::abi::kinds::Unit;
use flightrec_format::decode::{Body, Event, Page};
use flightrec_format::encode::PageWriter;
use flightrec_store::search::{self, SearchError, SearchIndex};
use flightrec_store::{BlockRef, FileReader, FileWriter, Kind};
use proptest::prelude::*;

use crate::events::{CPU, events, lanes};
use crate::support::{SESSION, header, small};

fn written(path: &Path, blocks: &[Vec<Page>]) {
    let mut writer = FileWriter::new(fs::File::create(path).unwrap(), &header(), 1).unwrap();
    for pages in blocks {
        writer.pages(pages).unwrap();
    }
    writer.finish().unwrap();
}

/// The ids of threads and processes that an event has.
fn ids(event: &Event) -> Vec<u32> {
    let mut ids = vec![event.tid];
    match &event.body {
        Body::Switch { next, .. } => ids.push(*next),
        Body::Waking { wakee, .. } => ids.push(*wakee),
        Body::Migrate { thread, .. } => ids.push(*thread),
        Body::Fork(of) => ids.extend([of.parent_tid, of.parent_tgid, of.tid, of.tgid]),
        Body::Exec { exec, .. } => ids.extend([exec.tid, exec.old_tid, exec.tgid]),
        Body::Rename(of) => ids.extend([of.tid, of.tgid]),
        Body::TaskExit(of) => ids.extend([of.tid, of.tgid]),
        Body::Plain(of) => ids.extend(of.ids(Unit::Thread).chain(of.ids(Unit::Process))),
        _ => {}
    }
    ids
}

fn holds(index: &SearchIndex, reader: &FileReader, block: &BlockRef) {
    let entry = index.of(block).expect("an entry");
    let pages = reader.pages(block).unwrap();
    let mut last: Option<(u64, bool)> = None;
    for event in pages.iter().flat_map(|(page, _)| page.events()) {
        assert_ne!(entry.kinds >> (event.body.kind() as u8 & 0xf) & 1, 0);
        let ids = ids(&event);
        assert!(ids.iter().all(|tid| entry.has_thread(*tid)), "{event:?}");
        assert!(ids.iter().all(|tid| entry.has_any_thread(&[*tid])));
        match &event.body {
            Body::Enter(call) => assert!(entry.calls.contains(&(call.abi as u8, call.nr))),
            Body::Exit { call, ret, .. } => {
                let call = (call.abi as u8, call.nr);
                assert!(entry.calls.contains(&call));
                let failed = entry.failures.contains(&(call, ret.wrapping_neg() as u16));
                assert!(!(-4095..0).contains(ret) || failed, "{event:?}");
            }
            Body::Switch { next, .. } => {
                let cpu = entry.cpus.iter().find(|of| of.cpu == event.cpu).expect("its CPU");
                assert!(cpu.idles || *next != 0);
                if last.is_none_or(|(time, _)| time <= event.time) {
                    last = Some((event.time, *next == 0));
                }
            }
            _ => {}
        }
    }
    if let Some((_, idle)) = last {
        assert_eq!(entry.cpus[0].ends_idle, idle);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_block_is_said_to_lack_what_it_holds(
        blocks in prop::collection::vec(
            lanes().prop_flat_map(|lane| (Just(lane), events(lane, 60))),
            1..5,
        ),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.flight");
        let blocks: Vec<Vec<Page>> = blocks
            .iter()
            .map(|(lane, events)| {
                let mut ring = PageWriter::new(SESSION, *lane, CPU, 37_000_000_000);
                for event in events {
                    ring.push(event).unwrap();
                }
                ring.finish().into_iter().map(|page| Page::new(page).unwrap()).collect()
            })
            .collect();
        written(&path, &blocks);
        let made = search::make(&path).unwrap();
        search::write(&path, &made).unwrap();
        let reader = FileReader::open(&path).unwrap();
        let read = search::read(&reader).unwrap().expect("an index");
        prop_assert_eq!(&read, &made);
        reader.of(Kind::Pages).for_each(|block| holds(&read, &reader, block));
    }
}

/// A small file with its index.
fn indexed(dir: &Path) -> PathBuf {
    let (path, _) = small(dir);
    let length = search::write(&path, &search::make(&path).unwrap()).unwrap();
    assert_eq!(fs::metadata(search::path(&path)).unwrap().len(), length);
    assert_eq!(fs::read_dir(dir).unwrap().count(), 2, "nothing else is left");
    path
}

#[test]
fn damage_is_told_and_never_believed() {
    let dir = tempfile::tempdir().unwrap();
    let path = indexed(dir.path());
    let reader = FileReader::open(&path).unwrap();
    let whole = fs::read(search::path(&path)).unwrap();
    let read = |bytes: &[u8]| {
        fs::write(search::path(&path), bytes).unwrap();
        search::read(&reader)
    };
    let good = read(&whole).unwrap().unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(read(&bytes).is_err(), "byte {at}");
        assert!(read(&whole[..at]).is_err(), "{at} bytes");
    }
    assert_eq!(read(&whole).unwrap().unwrap(), good);
    fs::remove_file(search::path(&path)).unwrap();
    assert!(search::read(&reader).unwrap().is_none());
}

#[test]
fn the_index_of_another_file_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = indexed(dir.path());
    let blocks = |tid| {
        let mut ring = crate::support::ring(flightrec_format::abi::page::Lane::Sched, 1);
        for n in 0..9 {
            let lane = flightrec_format::abi::page::Lane::Sched;
            ring.push(&crate::support::event(lane, 100 + n, tid, n)).unwrap();
        }
        vec![crate::support::pages(&mut ring)]
    };
    let index = fs::read(search::path(&path)).unwrap();
    written(&path, &blocks(4));
    let reader = FileReader::open(&path).unwrap();
    fs::write(search::path(&path), &index).unwrap();
    assert!(matches!(search::read(&reader), Err(SearchError::Other { .. })));
    // Of a file of the same size its blocks' checksums tell.
    let made = search::make(&path).unwrap();
    let forged = SearchIndex {
        blocks: made
            .blocks
            .iter()
            .map(|entry| search::BlockEntry { crc: entry.crc ^ 1, ..entry.clone() })
            .collect(),
        ..made
    };
    search::write(&path, &forged).unwrap();
    let read = search::read(&reader).unwrap().unwrap();
    assert!(reader.of(Kind::Pages).all(|block| read.of(block).is_none()));
}

#[test]
fn what_is_being_written_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = small(dir.path());
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    assert!(matches!(search::make(&path), Err(SearchError::Open { .. })));
}

#[test]
fn one_that_takes_more_than_its_share_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = small(dir.path());
    let mut index = search::make(&path).unwrap();
    let mut tid = 1u32;
    let mut threads: Vec<u32> = (0..20_000)
        .map(|n: u32| {
            tid = tid.wrapping_mul(1_664_525).wrapping_add(n).wrapping_add(1_013_904_223);
            tid
        })
        .collect();
    threads.sort_unstable();
    threads.dedup();
    index.blocks[0].threads = threads;
    assert!(matches!(search::write(&path, &index), Err(SearchError::TooLarge { .. })));
    assert!(!search::path(&path).exists());
}
