//! Faults of the disk: nothing already written is touched, the fault is told, and writing goes on
//! by itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flightrec_store::dir::parse_name;
use flightrec_store::{Limits, State, Store, StoreWriter, Verifier, verify};

use crate::faulty::FaultyDisk;
use crate::machine::{Begin, Machine, RINGS, limits, options, streams};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const SECOND: u64 = 1_000_000_000;

fn error(store: &StoreWriter) -> String {
    match store.state() {
        State::Failed { error, .. } => error.clone(),
        State::Ready => panic!("nothing has failed"),
    }
}

/// All files and their bytes.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = Store::open(dir).unwrap();
    files.all().iter().map(|file| (file.path.clone(), std::fs::read(&file.path).unwrap())).collect()
}

/// Every event that happened is in the files, once.
fn all_there(machine: &Machine, dir: &Path) {
    let streams = streams(dir);
    for (key, ring) in &machine.rings {
        assert!(streams[key].events().eq(ring.events.iter().cloned()), "{key:?}");
    }
}

#[test]
fn a_write_that_fails_anywhere_costs_nothing() {
    for errno in [ENOSPC, EIO] {
        for after in (0..4000).step_by(97) {
            let dir = tempfile::tempdir().unwrap();
            let disk = FaultyDisk::default();
            let mut store =
                StoreWriter::with_disk(options(dir.path(), limits()), Box::new(disk.clone()));
            let mut machine = Machine::new();
            for _ in 0..3 {
                machine.work(RINGS[0], 40);
                machine.pass(20_000_000);
                assert!(machine.drain(&mut store));
            }
            let before = contents(dir.path());
            disk.faults().write = Some((after, errno));
            while machine.drain(&mut store) {
                machine.work(RINGS[0], 10);
                machine.work(RINGS[2], 10);
                machine.pass(20_000_000);
            }
            // What was there is there, and only more after it.
            let failed = contents(dir.path());
            assert!(failed[0].1.starts_with(&before[0].1) && failed.len() == 1);
            assert!(error(&store).contains("000001.flight: "), "{}", error(&store));
            // While it lasts, nothing more comes of it than attempts that are rarer and rarer.
            for _ in 0..100 {
                machine.pass(SECOND);
                machine.drain(&mut store);
            }
            assert_eq!(contents(dir.path()), failed);
            let faults = store.stats().faults;
            assert!((5..10).contains(&faults), "{faults}");
            // And then it goes on in a new file, of which nothing is missing.
            disk.faults().write = None;
            machine.pass(61 * SECOND);
            assert!(machine.drain(&mut store));
            assert_eq!(store.state(), &State::Ready);
            store.close(&mut Begin(machine.now.mono), machine.now);
            let now = contents(dir.path());
            assert_eq!((now.len(), &now[0]), (2, &failed[0]));
            assert!(verify(&now[1].0).unwrap().is_sound());
            all_there(&machine, dir.path());
        }
    }
}

#[test]
fn the_fault_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::default();
    let mut store = StoreWriter::with_disk(options(dir.path(), limits()), Box::new(disk.clone()));
    let mut machine = Machine::new();
    machine.work(RINGS[0], 40);
    disk.faults().create = Some(EROFS);
    assert!(!machine.drain(&mut store));
    assert!(
        error(&store).ends_with("Read-only file system (os error 30): mount it for writing"),
        "{}",
        error(&store)
    );
    let State::Failed { since, retry_at, .. } = *store.state() else { panic!("it has failed") };
    assert_eq!((since, retry_at), (machine.now.mono, machine.now.mono + SECOND));
    machine.pass(SECOND);
    disk.faults().create = None;
    disk.faults().write = Some((0, ENOSPC));
    assert!(!machine.drain(&mut store));
    assert!(
        error(&store).ends_with("free some space, or lower the store's limits"),
        "{}",
        error(&store)
    );
    // Since the first of them.
    let State::Failed { since: still, .. } = *store.state() else { panic!("it has failed") };
    assert_eq!(still, since);
    // A file that would hold nothing is not left behind.
    assert_eq!(contents(dir.path()), []);
}

#[test]
fn a_directory_deleted_under_the_writer_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let mut store = StoreWriter::open(options(&state, limits()));
    let mut machine = Machine::new();
    machine.work(RINGS[0], 40);
    assert!(machine.drain(&mut store));
    std::fs::remove_dir_all(&state).unwrap();
    machine.work(RINGS[0], 1);
    machine.pass(20_000_000);
    assert!(machine.drain(&mut store));
    let stats = store.stats();
    assert!(
        stats.faults == 1
            && stats.last_fault.as_ref().unwrap().ends_with("was deleted, and not by the recorder"),
        "{stats:?}"
    );
    // The rings still held it.
    all_there(&machine, &state);
    // Only the file, with others before it: no more than it held is written again.
    store.close(&mut Begin(machine.now.mono), machine.now);
    machine.work(RINGS[0], 40);
    machine.pass(20_000_000);
    assert!(machine.drain(&mut store));
    std::fs::remove_file(store.stats().file.unwrap()).unwrap();
    assert!(machine.drain(&mut store));
    all_there(&machine, &state);
}

#[test]
fn what_the_disk_may_have_lost_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::default();
    let mut store = StoreWriter::with_disk(options(dir.path(), limits()), Box::new(disk.clone()));
    let mut machine = Machine::new();
    let round = |machine: &mut Machine, store: &mut StoreWriter| {
        machine.work(RINGS[0], 40);
        machine.pass(20_000_000);
        machine.drain(store)
    };
    assert!(round(&mut machine, &mut store));
    let synced = store.sync(machine.now).unwrap().run();
    store.synced(synced, machine.now);
    assert!(round(&mut machine, &mut store));
    // One at a time.
    disk.faults().sync = Some(EIO);
    let job = store.sync(machine.now).unwrap();
    assert!(store.sync(machine.now).is_none());
    assert!(round(&mut machine, &mut store));
    store.synced(job.run(), machine.now);
    assert!(error(&store).contains("Input/output error"), "{}", error(&store));
    disk.faults().sync = None;
    machine.pass(2 * SECOND);
    assert!(round(&mut machine, &mut store));
    // As if the first file ended where it was when it was synced: the second has all the rest.
    let files = contents(dir.path());
    let reports: Vec<_> = files.iter().map(|(path, _)| verify(path).unwrap()).collect();
    assert_eq!(reports.iter().map(|r| r.events[0]).collect::<Vec<_>>(), [120, 120]);
    all_there(&machine, dir.path());
}

#[test]
fn what_was_deleted_is_not_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::default();
    let limits = Limits { file_age: Some(Duration::from_millis(1)), ..limits() };
    let mut store = StoreWriter::with_disk(options(dir.path(), limits), Box::new(disk.clone()));
    let mut machine = Machine::new();
    let round = |machine: &mut Machine, store: &mut StoreWriter| {
        machine.work(RINGS[0], 40);
        machine.pass(20_000_000);
        assert!(machine.drain(store));
        std::fs::remove_file(store.stats().file.unwrap()).unwrap();
        assert!(machine.drain(store));
    };
    // It fails, and nothing was brought to the disk before: all is to be read again.
    let lost = |machine: &mut Machine, store: &mut StoreWriter| {
        disk.faults().sync = Some(EIO);
        let synced = store.sync(machine.now).unwrap().run();
        store.synced(synced, machine.now);
        disk.faults().sync = None;
        assert_eq!(store.position(RINGS[0].0, RINGS[0].1).seq, 0);
        machine.pass(2 * SECOND);
    };
    // With another file before it, which was closed.
    round(&mut machine, &mut store);
    round(&mut machine, &mut store);
    lost(&mut machine, &mut store);
    // While it was brought to the disk.
    machine.work(RINGS[0], 40);
    machine.pass(20_000_000);
    assert!(machine.drain(&mut store));
    let job = store.sync(machine.now).unwrap();
    std::fs::remove_dir_all(dir.path()).unwrap();
    assert!(machine.drain(&mut store));
    store.synced(job.run(), machine.now);
    lost(&mut machine, &mut store);
    assert!(machine.drain(&mut store));
    all_there(&machine, dir.path());
}

#[test]
fn files_deleted_one_after_the_other_are_written_again() {
    // Directly after another, and with an attempt between that left no file.
    for after in [None, Some(1000)] {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let disk = FaultyDisk::default();
        let limits = Limits { file_age: Some(Duration::from_millis(1)), ..limits() };
        let mut store = StoreWriter::with_disk(options(&state, limits), Box::new(disk.clone()));
        let mut machine = Machine::new();
        for key in [RINGS[2], RINGS[0]] {
            machine.work(key, 40);
            machine.pass(20_000_000);
            assert!(machine.drain(&mut store));
        }
        std::fs::remove_file(store.stats().file.unwrap()).unwrap();
        disk.faults().write = after.map(|after| (after, ENOSPC));
        assert_eq!(machine.drain(&mut store), after.is_none());
        disk.faults().write = None;
        // Then all that is left.
        std::fs::remove_dir_all(&state).unwrap();
        machine.pass(2 * SECOND);
        assert!(machine.drain(&mut store));
        all_there(&machine, &state);
    }
}

#[test]
fn a_killed_writers_successor_goes_on_from_the_last_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = Machine::new();
    let mut store = StoreWriter::open(options(dir.path(), limits()));
    for _ in 0..3 {
        machine.work(RINGS[1], 40);
        machine.pass(20_000_000);
        assert!(machine.drain(&mut store));
        let synced = store.sync(machine.now).unwrap().run();
        store.synced(synced, machine.now);
    }
    machine.work(RINGS[1], 40);
    machine.pass(20_000_000);
    assert!(machine.drain(&mut store));
    drop(store);
    let mut store = StoreWriter::open(options(dir.path(), limits()));
    assert!(store.ready(machine.now));
    let at = store.position(RINGS[1].0, RINGS[1].1);
    assert!(at.seq > 0);
    machine.work(RINGS[1], 40);
    machine.pass(20_000_000);
    assert!(machine.drain(&mut store));
    all_there(&machine, dir.path());
    // Each is sound, and together they hold each event once.
    let mut verifier = Verifier::default();
    let reports: Vec<_> =
        contents(dir.path()).iter().map(|(path, _)| verifier.file(path).unwrap()).collect();
    assert!(reports.iter().all(|r| r.is_sound() && r.lost == 0 && !r.complete));
    assert_eq!(reports.iter().map(|r| r.events[0]).collect::<Vec<_>>(), [160, 40]);
    // Another session begins from nothing.
    let other =
        flightrec_store::Options { session: 9, ..options(&dir.path().join("other"), limits()) };
    let mut store = StoreWriter::open(other);
    assert!(store.ready(machine.now) && store.position(RINGS[1].0, 0).seq == 0);
}

#[test]
fn events_overwritten_before_they_were_drained_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = Machine::new();
    let limits = Limits { file_size: 1, ..limits() };
    let mut store = StoreWriter::open(options(dir.path(), limits));
    machine.work(RINGS[0], 10);
    machine.pass(20_000_000);
    assert!(machine.drain(&mut store));
    machine.work(RINGS[0], 5000);
    machine.pass(20_000_000);
    assert!(machine.drain(&mut store));
    store.close(&mut Begin(machine.now.mono), machine.now);
    let mut verifier = Verifier::default();
    let reports: Vec<_> =
        contents(dir.path()).iter().map(|(path, _)| verifier.file(path).unwrap()).collect();
    let (events, lost) = reports.iter().fold((0, 0), |(e, l), r| (e + r.events[0], l + r.lost));
    assert_eq!(events + lost, 5010);
    assert!(lost > 3000, "{lost}");
    let numbers: Vec<_> = reports
        .iter()
        .map(|r| r.path.file_name().unwrap().to_str().and_then(parse_name).unwrap().1)
        .collect();
    assert!(numbers.is_sorted());
}
