//! Long windows, in stretches that shrink under test.

use std::fs::File;
use std::path::Path;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Page;
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::Meta;
use flightrec_format::ring::LaneStream;
use flightrec_store::{Checkpoint, FileHeader, FileWriter, RingMark};

use super::*;
use crate::coverage::Report;
use crate::pipeline::testing::enter;

const SESSION: u64 = 7;
const STARTED: u64 = 1_000;
const CALLS: u64 = 30_000;
/// One a millisecond.
const PACE: u64 = 1_000_000;

/// Files of one ring, each with so many pages, blocks of eight. `late`: by a recorder that wrote nothing until the end.
fn write(dir: &Path, pages_each: usize, late: bool) -> usize {
    let mut ring = PageWriter::new(SESSION, Lane::Syscall, 0, 0);
    for i in 0..CALLS {
        ring.push(&enter(STARTED + i * PACE, 0, i as u32, 39)).unwrap();
    }
    let (events, refused) = ring.totals();
    let pages: Vec<Page> = ring.finish().into_iter().map(|page| Page::new(page).unwrap()).collect();
    let mark = RingMark::new(Lane::Syscall, 0);
    let others = || [Lane::Sched, Lane::Task].map(|lane| RingMark::new(lane, 0));
    let meta = Meta { session: SESSION, started: STARTED, cpus: vec![0], ..Meta::default() };
    let files = pages.chunks(pages_each).count();
    for (number, of_file) in (1..).zip(pages.chunks(pages_each)) {
        let (created, begins) =
            if late { (STARTED + CALLS * PACE, STARTED) } else { [of_file[0].header().base_mono; 2].into() };
        let header = FileHeader {
            compatible: 0,
            incompatible: 0,
            boot_id: [1; 16],
            session: SESSION,
            number,
            created_wall: created as i64,
            created_mono: created,
            begins,
        };
        let out = File::create(dir.join(format!("{number}.flight"))).unwrap();
        let mut file = FileWriter::new(out, &header, 1).unwrap();
        file.meta(&meta, created).unwrap();
        let before = RingMark { events: of_file[0].header().events, ..mark };
        let rings = [before].into_iter().chain(others()).collect();
        file.checkpoint(&Checkpoint { time: begins, rings }).unwrap();
        for block in of_file.chunks(8) {
            file.pages(block).unwrap();
        }
        if number as usize == files {
            let rings = [RingMark { events, refused, ..mark }].into_iter().chain(others()).collect();
            file.checkpoint(&Checkpoint { time: STARTED + CALLS * PACE, rings }).unwrap();
        }
        file.finish().unwrap();
    }
    files
}

/// The numbers of the calls in each chapter's window; every one must be complete.
fn told(dir: &Path, since: Edge, until: Edge) -> Vec<Vec<u32>> {
    let plan = HistoryPlan { place: Place::Store(dir.into()), boot: None };
    let mut all = Vec::new();
    let question = Question { since, until, everything: false };
    let read = read::<SourceError>(&plan, question, &mut |chapter: Chapter| {
        let window = chapter.window(&chapter.recording.wall_clock(0));
        let report = Report::new(&chapter.recording, window, chapter.clock.now);
        assert!(report.is_complete(), "{report:#?}");
        let events = chapter.recording.streams.iter().flat_map(LaneStream::events);
        all.push(events.filter(|event| window.contains(event.time)).map(|event| event.tid).collect());
        Ok(Go::On)
    });
    read.unwrap();
    all
}

#[test]
fn a_long_window_is_told_in_stretches_without_a_seam() {
    for pages_each in [20, 500] {
        let dir = tempfile::tempdir().unwrap();
        let files = write(dir.path(), pages_each, false);
        let stretches = told(dir.path(), Edge::Open, Edge::Open);
        assert!(stretches.len() >= files.min(5), "{} stretches of {files} files", stretches.len());
        assert_eq!(stretches.concat(), (0..CALLS as u32).collect::<Vec<_>>());
        let window = told(dir.path(), Edge::Ago(20_000 * PACE), Edge::Ago(5_000 * PACE));
        assert!(window.len() > 1 && window.len() < stretches.len(), "{}", window.len());
        assert_eq!(window.concat(), (10_000..25_000).collect::<Vec<_>>());
        let short = told(dir.path(), Edge::Ago(500 * PACE), Edge::Open);
        assert_eq!(short.concat(), (29_500..30_000).collect::<Vec<_>>());
        assert!(short.len() < 4, "{}", short.len());
    }
}

#[test]
fn what_was_written_late_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let files = write(dir.path(), 20, true);
    assert!(files > 5, "{files}");
    let window = told(dir.path(), Edge::Ago(20_000 * PACE), Edge::Ago(15_000 * PACE));
    assert_eq!(window.concat(), (10_000..15_000).collect::<Vec<_>>());
}
