//! Windows out of files that a writer made: whole at both ends, wherever they lie.

use std::fs::File;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::control::{CpuTotals, Totals};
use flightrec_format::decode::{Body, Event, Page};
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::Meta;
use flightrec_format::ring::Rings;
use flightrec_store::{
    Content, FileHeader, FileReader, FileWriter, Kind, Limits, Now, Opening, Options, StoreWriter,
    verify,
};
use tempfile::TempDir;

use super::select;

const SESSION: u64 = 0xabcd;
const BOOT: [u8; 16] = [7; 16];
const MS: u64 = 1_000_000;
/// One event each millisecond.
const EVENTS: u64 = 20_000;

struct Nothing;

impl Opening for Nothing {
    fn meta(&mut self) -> Meta {
        Meta { session: SESSION, ..Meta::default() }
    }

    fn slots(&mut self) -> (u64, Vec<[u8; PAGE_SIZE]>) {
        (0, Vec::new())
    }

    fn descriptors(&mut self) -> Option<(u64, Vec<u8>)> {
        None
    }
}

/// A state directory with files of four seconds each; checkpoints each second.
fn recorded() -> TempDir {
    let dir = TempDir::new().unwrap();
    let limits = Limits {
        max_total: 1 << 30,
        keep_free: 0,
        keep_at_least: 0,
        max_age: None,
        file_size: 1 << 30,
        file_age: Some(std::time::Duration::from_secs(4)),
    };
    let state_dir = dir.path().to_owned();
    let mut writer = StoreWriter::open(Options {
        state_dir,
        limits,
        level: 1,
        group: None,
        boot_id: BOOT,
        session: SESSION,
    });
    let mut ring = PageWriter::new(SESSION, Lane::Sched, 0, 0);
    let mut pages: Vec<Page> = Vec::new();
    for time in 1..=EVENTS {
        let body = Body::Migrate { thread: time as u32 & 0xffff, prio: 120, from: 0, to: 1 };
        ring.push(&Event { time: time * MS, cpu: 0, tid: 5, body }).unwrap();
        if time % 250 != 0 {
            continue;
        }
        pages.extend(ring.take().into_iter().map(|page| Page::new(page).unwrap()));
        let open = ring.current().map(|page| Page::new(page).unwrap());
        let mono = time * MS + MS / 2;
        let now = Now { mono, wall: mono as i64 };
        assert!(writer.ready(now));
        let all: Vec<Page> = pages.iter().cloned().chain(open).collect();
        writer.append(all, mono, &mut Nothing, now);
        let events = [Counts::ZERO, ring.totals().0, Counts::ZERO, Counts::ZERO];
        let cpu = CpuTotals { cpu: 0, recorded: true, events, ..CpuTotals::default() };
        writer.vouch(&Totals { now: mono, cpus: vec![cpu], ..Totals::default() });
        if time % 1000 == 0
            && let Some(job) = writer.sync(now)
        {
            writer.synced(job.run(), now);
        }
    }
    drop(writer.close(&mut Nothing, Now { mono: EVENTS * MS, wall: 0 }));
    dir
}

/// Copies a window; the times of its events in ms, when its first and last checkpoints are, and
/// from when it is held.
fn window(dir: &TempDir, from: u64, until: u64, most: u64) -> Option<(Vec<u64>, (u64, u64), u64)> {
    around(dir, (from, until), until, most).map(|(times, marks, (held, _))| (times, marks, held))
}

/// The same of a cause; until when it is held, too.
#[expect(clippy::type_complexity, reason = "what a test looks at")]
fn around(
    dir: &TempDir,
    (from, until): (u64, u64),
    cause: u64,
    most: u64,
) -> Option<(Vec<u64>, (u64, u64), (u64, u64))> {
    let selection = select(dir.path(), &BOOT, SESSION, (from * MS, until * MS), cause * MS, most)?;
    let path = dir.path().join("copy.flight");
    let header = FileHeader {
        compatible: 0,
        incompatible: 0,
        boot_id: BOOT,
        session: SESSION,
        number: 0,
        created_wall: 0,
        created_mono: 1,
        begins: 0,
    };
    let mut file = FileWriter::new(File::create(&path).unwrap(), &header, 1).unwrap();
    file.meta(&Nothing.meta(), 1).unwrap();
    selection.copy(&mut file).unwrap();
    file.finish().unwrap();
    let report = verify(&path).unwrap();
    assert_eq!((report.lost, report.damage), (0, vec![]), "{from} to {until}");
    let reader = FileReader::open(&path).unwrap();
    let mut rings = Rings::new(SESSION);
    for block in reader.of(Kind::Pages) {
        let Content::Pages(pages) = reader.read(block).unwrap() else { panic!() };
        for page in pages {
            assert!(rings.add(page));
        }
    }
    let times = rings.finish()[0].events().map(|event| event.time / MS).collect();
    let marks: Vec<u64> = reader.of(Kind::Checkpoint).map(|block| block.header.last / MS).collect();
    Some((times, (marks[0], *marks.last().unwrap()), (selection.from / MS, selection.until / MS)))
}

#[test]
fn every_window_is_whole_and_little_more() {
    let dir = recorded();
    for (from, until) in
        [(5000, 6000), (3500, 4500), (11_100, 19_000), (7990, 8010), (2, 18_900), (12_001, 12_002)]
    {
        let (times, (before, after), held) = window(&dir, from, until, u64::MAX).unwrap();
        assert!(before <= from && after >= until, "{from} to {until}: {before} to {after}");
        let wanted: Vec<u64> = (from..until).collect();
        let inside: Vec<u64> =
            times.iter().copied().filter(|time| (from..until).contains(time)).collect();
        assert_eq!(inside, wanted, "{from} to {until}");
        assert!(
            times[0] + 2100 >= from && *times.last().unwrap() <= until + 1100,
            "{from} to {until}"
        );
        assert_eq!(held, from);
    }
}

#[test]
fn what_takes_too_much_loses_its_beginning_and_says_so() {
    let dir = recorded();
    let all =
        select(dir.path(), &BOOT, SESSION, (1000 * MS, 19_000 * MS), u64::MAX, u64::MAX).unwrap();
    let (times, (before, after), held) = window(&dir, 1000, 19_000, all.bytes() / 2).unwrap();
    assert!(held > 5000 && held < 15_000 && before == held && after >= 19_000, "{held} {before}");
    let inside: Vec<u64> =
        times.into_iter().filter(|time| *time > held && *time < 19_000).collect();
    assert_eq!(inside, (held + 1..19_000).collect::<Vec<_>>());
    assert!(window(&dir, 1000, 19_000, 10).is_none(), "nothing fits");
}

#[test]
fn what_is_not_there_is_not_found() {
    let dir = recorded();
    assert!(
        select(dir.path(), &[8; 16], SESSION, (1000 * MS, 2000 * MS), u64::MAX, u64::MAX).is_none(),
        "another boot"
    );
    assert!(
        select(dir.path(), &BOOT, 5, (1000 * MS, 2000 * MS), u64::MAX, u64::MAX).is_none(),
        "another recording"
    );
    assert!(
        select(&dir.path().join("none"), &BOOT, SESSION, (0, MS), u64::MAX, u64::MAX).is_none()
    );
    let late = select(dir.path(), &BOOT, SESSION, (19_500 * MS, 30_000 * MS), u64::MAX, u64::MAX);
    assert!(late.is_some(), "its beginning is there");
}

#[test]
fn what_takes_too_much_keeps_its_cause_wherever_it_is() {
    let dir = recorded();
    let all =
        select(dir.path(), &BOOT, SESSION, (1000 * MS, 19_000 * MS), u64::MAX, u64::MAX).unwrap();
    for cause in [1500, 6000, 10_000, 15_000, 18_900] {
        for part in [2, 4] {
            let (times, (_, after), (held, until)) =
                around(&dir, (1000, 19_000), cause, all.bytes() / part).unwrap();
            assert!(
                held <= cause && cause < until && after >= until,
                "{cause} in 1/{part}: {held} to {until}"
            );
            let inside: Vec<u64> =
                times.into_iter().filter(|time| *time > held && *time < until).collect();
            assert_eq!(inside, (held + 1..until).collect::<Vec<_>>(), "{cause} in 1/{part}");
        }
    }
}
