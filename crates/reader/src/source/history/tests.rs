//! Long windows, in stretches that shrink under test.

use std::fs::File;
use std::path::Path;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Page;
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::Meta;
use flightrec_format::ring::{LaneStream, Rings};

use flightrec_store::{Checkpoint, FileHeader, FileReader, FileWriter, Kind, RingMark};

use super::*;
use crate::coverage::Coverage;
use crate::fds::Naming;
use crate::open::Reader;
use crate::pipeline::Merging;
use crate::pipeline::testing::enter;
use crate::source::files::catalog;
use crate::source::files::session::SessionSource;
use crate::source::origin::HistoryPlace;
use crate::source::{Clock, PageSet};
use crate::window::{Edge, Window, with_leads};

const SESSION: u64 = 7;
const STARTED: u64 = 1_000;
const CALLS: u64 = 30_000;
/// One a millisecond.
const PACE: u64 = 1_000_000;
const TASKS: Needs = Needs::Lanes(&[Lane::Task]);

/// All calls, in a ring.
fn calls(set_at: Option<u64>) -> PageWriter {
    let mut ring = PageWriter::new(SESSION, Lane::Syscall, 0, 0);
    for i in 0..CALLS {
        if set_at == Some(i) {
            ring.set_tai(1_000_000_000);
        }
        ring.push(&enter(STARTED + i * PACE, 0, i as u32, 39)).unwrap();
    }
    ring
}

fn pages(ring: PageWriter) -> Vec<Page> {
    ring.finish().into_iter().map(|page| Page::new(page).unwrap()).collect()
}

/// Files of one ring, each with so many pages, blocks of eight. `late`: by a recorder that wrote
/// nothing until the end.
fn write(dir: &Path, pages_each: usize, late: bool) -> usize {
    write_set(dir, pages_each, late, None)
}

/// The same where the wall clock was set by a second before a call.
fn write_set(dir: &Path, pages_each: usize, late: bool, set_at: Option<u64>) -> usize {
    let ring = calls(set_at);
    let (events, refused) = ring.totals();
    let pages = pages(ring);
    let mark = RingMark::new(Lane::Syscall, 0);
    let others = || [Lane::Sched, Lane::Task].map(|lane| RingMark::new(lane, 0));
    let meta = Meta { session: SESSION, started: STARTED, cpus: vec![0], ..Meta::default() };
    let files = pages.chunks(pages_each).count();
    for (number, of_file) in (1..).zip(pages.chunks(pages_each)) {
        let (created, begins) = if late {
            (STARTED + CALLS * PACE, STARTED)
        } else {
            [of_file[0].header().base_mono; 2].into()
        };
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
            let rings =
                [RingMark { events, refused, ..mark }].into_iter().chain(others()).collect();
            file.checkpoint(&Checkpoint { time: STARTED + CALLS * PACE, rings }).unwrap();
        }
        file.finish().unwrap();
    }
    files
}

/// A file of two rings: the busy one's pages fill blocks of their own, and the last of every three
/// has the other's as well, which begin where the first of the three does. When they begin.
fn write_two(dir: &Path) -> Vec<u64> {
    let mut other = PageWriter::new(SESSION, Lane::Syscall, 1, 0);
    for i in 0..CALLS / 3 {
        other.push(&enter(STARTED + 3 * i * PACE + 1, 1, i as u32, 39)).unwrap();
    }
    let rings = [calls(None), other];
    let marks = [0, 1].map(|cpu: u16| {
        let (events, refused) = rings[usize::from(cpu)].totals();
        RingMark { events, refused, ..RingMark::new(Lane::Syscall, cpu) }
    });
    let others = [Lane::Sched, Lane::Task].map(|lane| [0, 1].map(|cpu| RingMark::new(lane, cpu)));
    let [busy, other] = rings.map(pages);
    let meta = Meta { session: SESSION, started: STARTED, cpus: vec![0, 1], ..Meta::default() };
    let header = FileHeader {
        compatible: 0,
        incompatible: 0,
        boot_id: [1; 16],
        session: SESSION,
        number: 1,
        created_wall: STARTED as i64,
        created_mono: STARTED,
        begins: STARTED,
    };
    let out = File::create(dir.join("1.flight")).unwrap();
    let mut file = FileWriter::new(out, &header, 1).unwrap();
    file.meta(&meta, STARTED).unwrap();
    // As a recorder's: no ring is known yet.
    file.checkpoint(&Checkpoint::default()).unwrap();
    let mut begins = Vec::new();
    let mut other = other.into_iter().peekable();
    for drained in busy.chunks(24) {
        let until = drained.last().unwrap().header().base_mono;
        let beside: Vec<Page> = std::iter::from_fn(|| {
            other.next_if(|page| drained.len() < 24 || page.header().base_mono < until)
        })
        .collect();
        let mut blocks: Vec<Vec<Page>> = drained.chunks(8).map(<[Page]>::to_vec).collect();
        begins.extend(blocks.iter().map(|block| block[0].header().base_mono));
        blocks.last_mut().unwrap().extend(beside);
        for block in &blocks {
            file.pages(block).unwrap();
        }
    }
    assert!(other.next().is_none());
    let rings = marks.into_iter().chain(others.into_iter().flatten()).collect();
    file.checkpoint(&Checkpoint { time: STARTED + CALLS * PACE, rings }).unwrap();
    file.finish().unwrap();
    begins
}

/// The numbers of the calls in each chapter's window; every one must be complete.
fn told(dir: &Path, since: Edge, until: Edge) -> Vec<Vec<u32>> {
    let plan = HistoryPlan { place: HistoryPlace::Store(dir.into()), boot: None };
    let mut all = Vec::new();
    let question = Question { since, until, everything: false };
    let read = read::<SourceError>(&plan, question, &mut |chapter: Chapter| {
        let window = chapter.windows(&chapter.recording.wall_clock(0)).hull();
        let report = Coverage::new(&chapter.recording, window, chapter.clock.now);
        assert!(report.is_complete(), "{report:#?}");
        let events = chapter.recording.streams.iter().flat_map(LaneStream::events);
        all.push(
            events.filter(|event| window.contains(event.time)).map(|event| event.tid).collect(),
        );
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
        assert!(stretches.len() >= files.min(4), "{} stretches of {files} files", stretches.len());
        assert_eq!(stretches.concat(), (0..CALLS as u32).collect::<Vec<_>>());
        let window = told(dir.path(), Edge::Ago(20_000 * PACE), Edge::Ago(5_000 * PACE));
        assert!(window.len() > 1 && window.len() < stretches.len(), "{}", window.len());
        assert_eq!(window.concat(), (10_000..25_000).collect::<Vec<_>>());
        let short = told(dir.path(), Edge::Ago(500 * PACE), Edge::Open);
        assert_eq!(short.concat(), (29_500..30_000).collect::<Vec<_>>());
        assert!(short.len() < 4, "{}", short.len());
    }
}

/// What a block has of one ring outside of a window is no proof that the window lacks something.
#[test]
fn a_block_of_several_rings_tells_of_no_gap() {
    let dir = tempfile::tempdir().unwrap();
    let begins = write_two(dir.path());
    let mut boots = catalog::store(dir.path()).unwrap().0;
    let mut session = SessionSource::open(boots[0].sessions.remove(0)).unwrap();
    let numbered = |time: u64, pace: u64| time.saturating_sub(STARTED).div_ceil(pace);
    for (from, until) in begins.iter().flat_map(|from| begins.iter().map(move |to| (from, to))) {
        let window = Window { from: *from, until: *until };
        if window.is_empty() {
            continue;
        }
        let recording = session.read(window).unwrap();
        let report = Coverage::new(&recording, window, STARTED + CALLS * PACE);
        assert!(report.is_complete(), "{report:#?}");
        let events = recording.streams.iter().flat_map(LaneStream::events);
        let inside = events.filter(|event| window.contains(event.time)).count() as u64;
        let of = |time| numbered(time, PACE) + numbered(time - 1, 3 * PACE);
        assert_eq!(inside, of(*until) - of(*from), "{window:?}");
    }
}

#[test]
fn the_events_of_all_stretches_come_as_of_one() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 500, false);
    let question = |since, until| Question {
        since: Edge::Ago(since * PACE),
        until: Edge::Ago(until * PACE),
        everything: false,
    };
    for (question, calls) in [
        (Question::ALL, 0..CALLS as u32),
        (question(20_000, 5_000), 10_000..25_000),
        (question(500, 0), 29_500..30_000),
    ] {
        for (merging, naming) in [(Merging::Never, Naming::Near), (Merging::AtEntry, Naming::All)] {
            let reader = Reader::store(dir.path()).merging(merging).naming(naming);
            let mut events = { reader }.events(question).unwrap();
            let read = events.by_ref().map(|event| {
                let event = event.unwrap();
                assert_eq!(event.call_name(), Some("getpid"));
                let comm: &[u8] = if event.tid() == 0 { b"swapper/0" } else { b"" };
                assert_eq!((event.pid(), event.comm()), (event.tid(), comm));
                assert_eq!(event.time(), STARTED + u64::from(event.tid()) * PACE);
                event.tid()
            });
            assert_eq!(read.collect::<Vec<_>>(), calls.clone().collect::<Vec<_>>());
            assert!(events.is_complete() && events.next().is_none());
        }
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

/// Rings that hold the last pages.
struct Tail(usize);

impl Source for Tail {
    fn clock(&self) -> Clock {
        Clock { now: STARTED + CALLS * PACE, wall_offset: 0 }
    }

    fn read(&mut self, _: Window) -> Result<PageSet, SourceError> {
        let pages = pages(calls(None));
        let mut rings = Rings::new(SESSION);
        for page in pages.into_iter().rev().take(self.0) {
            rings.add(page);
        }
        let cpus = vec![0];
        let boot_id = "b".into();
        Ok(PageSet {
            meta: Meta { session: SESSION, started: STARTED, cpus, boot_id, ..Meta::default() },
            streams: rings.finish(),
            copied: self.clock().now,
            ..PageSet::default()
        })
    }
}

/// The files hold what the rings hold as well; and what is read of either reaches beyond where they
/// meet.
#[test]
fn where_rings_follow_files_an_event_belongs_to_one_of_them() {
    for pages_each in [20, 500] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), pages_each, false);
        let chapters = Chapters::beside(&mut Tail(40), dir.path(), Question::ALL).unwrap();
        let joins: Vec<Joins> = chapters.map(|chapter| chapter.unwrap().joins.unwrap()).collect();
        assert!(joins.len() > 2, "{joins:?}");
        for (stretch, next) in joins.iter().zip(&joins[1..]) {
            assert!(stretch.after && next.before, "{stretch:?} {next:?}");
            assert_eq!(stretch.until, next.from, "{stretch:?} {next:?}");
        }
        assert!(!joins.last().unwrap().after);
    }
}

/// What is said of a window of one recording before it is read, if anything, and what after that;
/// and the calls that were then read.
fn foretold(dir: &Path, from: u64, until: u64) -> (Option<String>, String, Vec<u32>) {
    let (boots, _) = catalog::store(dir).unwrap();
    let mut source = SessionSource::open(boots[0].sessions[0].clone()).unwrap();
    let window = Window {
        from: STARTED + from * PACE,
        until: (STARTED + until * PACE).min(source.clock().now),
    };
    let now = source.clock().now;
    let what = |report: &Coverage| {
        let rings: Vec<_> = report.lanes.iter().map(|of| (of.lane, of.cpu, &of.gaps)).collect();
        let Coverage { window, started, from_start, detached, untold, off, .. } = report;
        let complete = report.is_complete();
        format!(
            "complete: {complete}, {window:?} {started} {from_start} {detached:?} {untold} {off:?} \
             {rings:?}"
        )
    };
    let ends = source.read_ends(with_leads(window), window.from, window);
    let before = ends.map(|(recording, remarks)| {
        assert!(remarks.is_empty(), "{remarks:?}");
        let report = Coverage::of_ends(&recording, window, now, window.from);
        assert!(report.is_complete(), "{report:#?}");
        let pages = |recording: &PageSet| {
            recording.streams.iter().map(|stream| stream.pages().len()).sum::<usize>()
        };
        let text = what(&report);
        (text, pages(&recording))
    });
    let recording = source.read(with_leads(window)).unwrap();
    let pages = recording.streams.iter().map(|stream| stream.pages().len()).sum::<usize>();
    assert!(before.as_ref().is_none_or(|(_, few)| *few < pages), "nothing was won");
    let report = Coverage::new(&recording, window, now);
    assert_eq!(before.is_some(), before.is_some() && report.is_complete(), "{report:#?}");
    let events = recording.streams.iter().flat_map(LaneStream::events);
    let calls = events.filter(|event| window.contains(event.time)).map(|event| event.tid).collect();
    (before.map(|(text, _)| text), what(&report), calls)
}

#[test]
fn what_is_complete_is_known_before_it_is_read() {
    for pages_each in [20, 500] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), pages_each, false);
        for (from, until) in [(10_000, 22_000), (18_000, 30_001), (4_000, 16_500)] {
            let (before, after, calls) = foretold(dir.path(), from, until);
            assert_eq!(before, Some(after), "{from} to {until}, files of {pages_each} pages");
            assert_eq!(calls, (from as u32..until.min(CALLS) as u32).collect::<Vec<_>>());
        }
    }
}

#[test]
fn nothing_is_foretold_of_what_does_not_add_up() {
    let window = (10_000, 22_000);
    let unknown = |dir: &Path, what: &str| {
        let (before, after, _) = foretold(dir, window.0, window.1);
        assert_eq!(before, None, "{what}");
        after.contains("complete: true")
    };
    let path = |dir: &Path, number: u32| dir.join(format!("{number}.flight"));

    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 20, false);
    std::fs::remove_file(path(dir.path(), 5)).unwrap();
    assert!(!unknown(dir.path(), "a file is missing"));

    let dir = tempfile::tempdir().unwrap();
    let files = write(dir.path(), 20, false) as u32;
    let reader = FileReader::open(path(dir.path(), 5)).unwrap();
    let block = *reader.of(Kind::Pages).next().unwrap();
    let bytes = std::fs::read(path(dir.path(), 5)).unwrap();
    let mut spoilt = bytes.clone();
    spoilt[block.data() as usize + 50] ^= 1;
    std::fs::write(path(dir.path(), 5), &spoilt).unwrap();
    assert!(!unknown(dir.path(), "a block is damaged"));
    std::fs::write(path(dir.path(), 5), &bytes).unwrap();

    // The recorder was killed: nobody vouches for what is after the last counters.
    let last = path(dir.path(), files);
    let end = FileReader::open(&last).unwrap().blocks().last().unwrap().offset;
    let bytes = std::fs::read(&last).unwrap();
    std::fs::write(&last, &bytes[..end as usize]).unwrap();
    let (before, ..) = foretold(dir.path(), 18_000, 30_001);
    assert_eq!(before, None, "not closed");
    let (before, after, _) = foretold(dir.path(), window.0, window.1);
    assert_eq!(before, Some(after), "before the last counters");
}

#[test]
fn nothing_is_foretold_where_the_counters_know_more() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 20, false);
    let file = |number: u32| dir.path().join(format!("{number}.flight"));
    // The fifth file again, without the last of its blocks of pages.
    let reader = FileReader::open(file(5)).unwrap();
    let mut less = FileWriter::new(Vec::new(), reader.header(), 1).unwrap();
    let left_out = reader.of(Kind::Pages).next_back().unwrap().offset;
    for block in reader.blocks().iter().filter(|block| block.offset != left_out) {
        match reader.read(block).unwrap() {
            flightrec_store::Content::Meta(meta) => less.meta(&meta, block.header.first).unwrap(),
            flightrec_store::Content::Pages(pages) => less.pages(&pages).unwrap(),
            flightrec_store::Content::Checkpoint(checkpoint) => {
                less.checkpoint(&checkpoint).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    std::fs::write(file(5), less.finish().unwrap()).unwrap();
    let (before, after, calls) = foretold(dir.path(), 10_000, 22_000);
    assert!(after.contains("complete: false") && calls.len() < 12_000, "{after}");
    assert_eq!(before, None);
}

/// Who does not need all of what is foretold: for each chapter, whether it was read in part, and
/// how many pages of calls it has; and the calls.
struct Narrow {
    needs: Needs,
    is_foretold: bool,
    chapters: Vec<(bool, usize)>,
    calls: Vec<u32>,
}

impl Visitor<SourceError> for Narrow {
    fn listens(&self) -> bool {
        true
    }

    fn ahead(&mut self, _chapter: &Foretold) -> Result<(), SourceError> {
        self.is_foretold = true;
        Ok(())
    }

    fn needs(&self) -> Needs {
        if self.is_foretold { self.needs.clone() } else { Needs::All }
    }

    fn take(&mut self, chapter: Chapter) -> Result<Go, SourceError> {
        let pages = chapter.recording.streams.iter().map(|stream| stream.pages().len()).sum();
        self.chapters.push((chapter.is_narrow, pages));
        let window = chapter.windows(&chapter.recording.wall_clock(0)).hull();
        let pages = chapter.recording.streams.iter().flat_map(LaneStream::pages);
        let calls = pages.flat_map(Page::brief_calls).filter(|call| window.contains(call.time));
        self.calls.extend(calls.map(|call| call.tid));
        Ok(Go::On)
    }
}

fn narrow(dir: &Path, since: Edge, needs: Needs) -> (Vec<(bool, usize)>, Vec<u32>) {
    let plan = HistoryPlan { place: HistoryPlace::Store(dir.into()), boot: None };
    let question = Question { since, until: Edge::Open, everything: false };
    let (chapters, calls) = (Vec::new(), Vec::new());
    let mut visitor = Narrow { needs, is_foretold: false, chapters, calls };
    read(&plan, question, &mut visitor).unwrap();
    (visitor.chapters, visitor.calls)
}

/// The calls of blocks that two stretches share belong to one of them.
#[test]
fn every_stretch_has_the_ends_of_its_calls() {
    for (pages_each, late) in [(20, false), (500, false), (20, true)] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), pages_each, late);
        for (since, calls) in [(Edge::Open, 0..CALLS), (Edge::Ago(20_000 * PACE), 10_000..CALLS)] {
            let (chapters, told) = narrow(dir.path(), since, Needs::CallEnds);
            assert!(chapters.len() > 2 && chapters.iter().all(|of| of.1 > 0), "{chapters:?}");
            let calls: Vec<u32> = calls.map(|call| call as u32).collect();
            assert_eq!(told, calls, "{chapters:?}");
            if !late {
                let narrow = chapters.iter().filter(|of| of.0).count();
                assert!(narrow + 1 >= chapters.len(), "{chapters:?}");
            }
        }
    }
}

#[test]
fn of_what_is_foretold_no_more_is_read_than_is_needed() {
    for pages_each in [20, 500] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), pages_each, false);
        let (chapters, _) = narrow(dir.path(), Edge::Ago(20_000 * PACE), TASKS);
        assert!(chapters.len() > 1 && chapters.iter().all(|of| *of == (true, 0)), "{chapters:?}");
        // Nothing tells of the time before the files: the first stretch is read.
        let (chapters, _) = narrow(dir.path(), Edge::Open, TASKS);
        let (first, others) = chapters.split_first().unwrap();
        assert!(!first.0 && first.1 > 0 && others.len() > 1, "{chapters:?}");
        assert!(others.iter().all(|of| *of == (true, 0)), "{chapters:?}");
    }
}

/// Where the wall clock was set, the pages of all lanes tell when.
#[test]
fn where_the_clock_was_set_all_is_read() {
    let dir = tempfile::tempdir().unwrap();
    write_set(dir.path(), 500, false, Some(20_000));
    let (chapters, _) = narrow(dir.path(), Edge::Ago(25_000 * PACE), TASKS);
    assert!(chapters.len() > 1 && chapters.iter().all(|(narrow, _)| !narrow), "{chapters:?}");
}
