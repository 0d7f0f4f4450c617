//! Rotation and retention: when files are followed by others, and which go.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use flightrec_store::dir::FileInfo;
use flightrec_store::retention::{Held, Plan, Short, expired, plan};
use flightrec_store::{Limits, State, Store, StoreWriter};
use proptest::prelude::*;

use crate::faulty::{FaultyDisk, bytes_below};
use crate::machine::{Machine, RINGS, limits, options};

const HOUR: u64 = 3_600_000_000_000;

fn numbers(dir: &Path) -> Vec<u32> {
    Store::open(dir).unwrap().all().iter().map(|file| file.number).collect()
}

/// Works and drains until the store has made so many files.
fn fill(machine: &mut Machine, store: &mut StoreWriter, disk: &FaultyDisk, files: usize) {
    while disk.faults().made.len() < files {
        machine.work(RINGS[0], 100);
        machine.pass(20_000_000);
        assert!(machine.drain(store), "{:?}", store.state());
    }
}

#[test]
fn files_are_the_owners_to_write_and_the_groups_to_read() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("deep/state");
    let mut store = StoreWriter::open(options(&state, limits()));
    let mut machine = Machine::new();
    machine.work(RINGS[0], 10);
    assert!(machine.drain(&mut store));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    let file = store.stats().file.unwrap();
    assert_eq!(
        file,
        state.join("30313233-3435-3637-3839-616263646566/20261121T120503Z-000001.flight")
    );
    assert_eq!((mode(&file), mode(file.parent().unwrap()), mode(&state)), (0o640, 0o750, 0o750));
}

#[test]
fn a_file_is_followed_by_another_when_it_is_large_or_old() {
    let dir = tempfile::tempdir().unwrap();
    let age = Some(Duration::from_mins(1));
    let (limits, disk) =
        (Limits { file_size: 100_000, file_age: age, ..limits() }, FaultyDisk::default());
    let mut store = StoreWriter::with_disk(options(dir.path(), limits), Box::new(disk.clone()));
    let mut machine = Machine::new();
    fill(&mut machine, &mut store, &disk, 2);
    let first = Store::open(dir.path()).unwrap().all()[0].clone();
    assert!((100_000..120_000).contains(&first.bytes), "{}", first.bytes);
    machine.pass(60_000_000_000);
    // Not without anything to write.
    machine.drain(&mut store);
    assert_eq!(numbers(dir.path()), [1, 2]);
    machine.work(RINGS[2], 1);
    machine.drain(&mut store);
    assert_eq!(numbers(dir.path()), [1, 2, 3]);
}

#[test]
fn a_clock_that_is_set_back_changes_neither_order_nor_names_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { file_age: Some(Duration::from_secs(1)), ..limits() };
    let mut machine = Machine::new();
    for step in [0, -(HOUR as i64), -1_000_000_000, 50 * HOUR as i64, -1_000_000_000] {
        machine.now.wall += step;
        // Each a daemon of its own.
        let mut store = StoreWriter::open(options(dir.path(), limits.clone()));
        for _ in 0..2 {
            machine.work(RINGS[0], 10);
            machine.pass(1_000_000_000);
            assert!(machine.drain(&mut store));
        }
    }
    assert_eq!(numbers(dir.path()), (1..=10).collect::<Vec<_>>());
    let report = Store::open(dir.path()).unwrap().all().to_vec();
    let mut verifier = flightrec_store::Verifier::default();
    let events: u64 = report.iter().map(|file| verifier.file(&file.path).unwrap().events[0]).sum();
    assert_eq!(events, 100);
}

#[test]
fn the_oldest_goes_before_the_limit_is_broken() {
    let dir = tempfile::tempdir().unwrap();
    let (limits, disk) = (Limits { max_total: 800_000, ..limits() }, FaultyDisk::default());
    let mut store = StoreWriter::with_disk(options(dir.path(), limits), Box::new(disk.clone()));
    let mut machine = Machine::new();
    let mut most = 0;
    while disk.faults().made.len() < 20 {
        machine.work(RINGS[0], 100);
        assert!(machine.drain(&mut store));
        most = most.max(bytes_below(dir.path()));
        assert!(most <= 800_000);
    }
    let made = disk.faults().made.clone();
    let removed = disk.faults().removed.clone();
    assert_eq!(removed[..], made[..removed.len()]);
    assert!(removed.len() > 5 && most > 700_000, "{} {most}", removed.len());
    let stats = store.stats();
    assert_eq!(
        (stats.bytes, stats.files, stats.deleted.total.files),
        (bytes_below(dir.path()), Some(20 - removed.len()), removed.len() as u64)
    );
}

#[test]
fn space_is_left_free_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let (limits, disk) =
        (Limits { file_size: 100_000, keep_free: 200_000, ..limits() }, FaultyDisk::default());
    disk.faults().size = Some(1_000_000);
    let mut store = StoreWriter::with_disk(options(dir.path(), limits), Box::new(disk.clone()));
    let mut machine = Machine::new();
    fill(&mut machine, &mut store, &disk, 12);
    assert!(bytes_below(dir.path()) <= 800_000 && disk.faults().removed.len() >= 3);
    // Others take nearly all: what is being written stays, and no more is written.
    disk.faults().others = 790_000;
    while machine.drain(&mut store) {
        machine.work(RINGS[0], 100);
    }
    assert_eq!(numbers(dir.path()), [12]);
    let State::Failed { error, .. } = store.state().clone() else { panic!("{:?}", store.state()) };
    assert!(
        error.contains(
            "200000 must stay free, and there is no older file to delete: free some space"
        ),
        "{error}"
    );
    // They give it back.
    disk.faults().others = 0;
    machine.pass(HOUR);
    machine.work(RINGS[0], 1);
    assert!(machine.drain(&mut store));
    assert_eq!(numbers(dir.path()), [12, 13]);
}

/// Others fill the disk, take what the recorder gives up, and go on.
fn filled(
    keep_free: u64,
    keep_at_least: u64,
) -> (tempfile::TempDir, FaultyDisk, StoreWriter, Machine) {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { file_size: 100_000, keep_free, keep_at_least, ..limits() };
    let disk = FaultyDisk::default();
    disk.faults().size = Some(2_000_000);
    let mut store = StoreWriter::with_disk(options(dir.path(), limits), Box::new(disk.clone()));
    let mut machine = Machine::new();
    fill(&mut machine, &mut store, &disk, 5);
    for _ in 0..20 {
        let taken = 2_000_000u64.saturating_sub(bytes_below(dir.path()));
        disk.faults().others = taken;
        machine.work(RINGS[0], 100);
        machine.pass(HOUR);
        machine.drain(&mut store);
    }
    (dir, disk, store, machine)
}

#[test]
fn whoever_fills_the_disk_deletes_neither_the_newest_file_nor_the_floor() {
    for keep_free in [0, 50_000] {
        for keep_at_least in [0, 150_000, 250_000] {
            let (dir, disk, store, mut machine) = filled(keep_free, keep_at_least);
            let left = numbers(dir.path());
            let files = Store::open(dir.path()).unwrap();
            let bytes = bytes_below(dir.path());
            assert!(
                bytes >= keep_at_least && !left.is_empty(),
                "{keep_free} {keep_at_least}: {left:?}"
            );
            // And no more of it than that.
            let without = bytes - files.all()[0].bytes;
            assert!(
                without < keep_at_least || left.len() == 1,
                "{keep_free} {keep_at_least}: {left:?}"
            );
            let State::Failed { error, .. } = store.state().clone() else {
                panic!("{:?}", store.state())
            };
            assert!(error.contains("no space") && !error.contains("No such file"), "{error}");
            let stats = store.stats();
            let (gone, removed) = (stats.deleted, disk.faults().removed.len() as u64);
            assert_eq!((gone.free.files, gone.total.files, gone.age.files), (removed, 0, 0));
            assert!(gone.free.bytes >= 90_000 * gone.free.files, "{gone:?}");
            assert_eq!((stats.files, stats.bytes), (Some(left.len()), bytes), "while it is paused");
            // They give it back.
            disk.faults().others = 0;
            let mut store = store;
            machine.pass(HOUR);
            machine.work(RINGS[0], 1);
            assert!(machine.drain(&mut store), "{:?}", store.state());
        }
    }
}

#[test]
fn a_directory_that_went_with_its_last_file_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let boot = dir.path().join("30313233-3435-3637-3839-616263646566");
    std::fs::create_dir(&boot).unwrap();
    std::fs::write(boot.join("20200101T000000Z-000007.flight"), vec![0; 600_000]).unwrap();
    let limits = Limits { max_total: 500_000, ..limits() };
    let mut store = StoreWriter::open(options(dir.path(), limits));
    let mut machine = Machine::new();
    machine.work(RINGS[0], 100);
    assert!(machine.drain(&mut store), "{:?}", store.state());
    assert_eq!(numbers(dir.path()), [8]);
}

#[test]
fn what_is_too_old_goes_whatever_the_clock_is_set_to() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { max_age: Some(Duration::from_hours(2)), ..limits() };
    let limits = Limits { file_age: Some(Duration::from_mins(10)), ..limits };
    let mut store = StoreWriter::open(options(dir.path(), limits.clone()));
    let mut machine = Machine::new();
    let round = |machine: &mut Machine, store: &mut StoreWriter| {
        machine.work(RINGS[0], 10);
        machine.pass(HOUR / 2);
        assert!(machine.drain(store));
    };
    for _ in 0..10 {
        round(&mut machine, &mut store);
    }
    // A file ends when the next one begins: half an hour, an hour, .. ago.
    assert_eq!(numbers(dir.path()), [6, 7, 8, 9, 10]);
    // Ten years ahead, and back again.
    machine.now.wall += 10 * 365 * 24 * HOUR as i64;
    round(&mut machine, &mut store);
    assert_eq!(numbers(dir.path()), [7, 8, 9, 10, 11]);
    machine.now.wall -= 10 * 365 * 24 * HOUR as i64;
    round(&mut machine, &mut store);
    assert_eq!(numbers(dir.path()), [8, 9, 10, 11, 12]);
}

#[test]
fn a_store_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let (mut machine, mut other) = (Machine::new(), Machine::new());
    let mut first = StoreWriter::open(options(dir.path(), limits()));
    assert!(machine.drain(&mut first));
    let mut second = StoreWriter::open(options(dir.path(), limits()));
    assert!(!other.drain(&mut second));
    let State::Failed { error, .. } = second.state().clone() else {
        panic!("{:?}", second.state())
    };
    assert!(error.contains("another flightd writes here"), "{error}");
    drop(first);
    other.pass(2_000_000_000);
    // Though there is nothing to write yet.
    assert!(other.drain(&mut second));
}

#[test]
fn an_empty_boots_directory_goes_with_its_last_file() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("00000000-0000-0000-0000-000000000001");
    std::fs::create_dir(&old).unwrap();
    std::fs::write(old.join("20200101T000000Z-000007.flight"), [0; 1000]).unwrap();
    std::fs::write(dir.path().join("notes.txt"), [0; 1000]).unwrap();
    let limits = Limits { max_total: 300, ..limits() };
    let mut store = StoreWriter::open(options(dir.path(), limits));
    let mut machine = Machine::new();
    machine.work(RINGS[2], 1);
    // All that every file begins with is more than the limit.
    assert!(!machine.drain(&mut store));
    let State::Failed { error, .. } = store.state().clone() else { panic!("{:?}", store.state()) };
    assert!(
        error.contains("300 bytes for all files leave no room for one: raise the limit"),
        "{error}"
    );
    assert!(!old.exists() && dir.path().join("notes.txt").exists());
}

fn files(sizes: &[u64]) -> Vec<FileInfo> {
    let file = |(i, bytes): (usize, &u64)| {
        let (path, number) = (format!("{i}").into(), i as u32);
        FileInfo { path, boot: [0; 16], number, start: 0, modified: 0, bytes: *bytes }
    };
    sizes.iter().enumerate().map(file).collect()
}

proptest! {
    #[test]
    fn no_more_is_deleted_than_must_be(
        sizes in prop::collection::vec(0..1000u64, 0..12),
        writing in any::<prop::sample::Index>(),
        (incoming, free, keep_free, max_total) in (0..2000u64, 0..5000u64, 0..5000u64, 0..8000u64),
        keep_at_least in prop_oneof![Just(0), 0..5000u64],
    ) {
        let files = files(&sizes);
        let writing = (!files.is_empty()).then(|| writing.index(files.len()));
        let open = writing.map(|i| files[i].path.as_path());
        let held = Held { files: &files, writing: open, incoming, free };
        let limits = Limits { max_total, keep_free, keep_at_least, ..limits() };
        let gone = |deleted: &[usize]| deleted.iter().map(|i| sizes[*i]).sum::<u64>();
        let all_bytes = sizes.iter().sum::<u64>();
        let kept_total = |deleted: &[usize]| all_bytes - gone(deleted) + incoming <= max_total;
        let kept = |deleted: &[usize]| {
            kept_total(deleted) && free + gone(deleted) >= keep_free + incoming
        };
        // The newest stay for a lack of space: one at least.
        let newer = |i: usize| sizes[i + 1..].iter().sum::<u64>();
        let stays = |i: usize| i + 1 == sizes.len() || newer(i) < keep_at_least;
        let Plan { delete, for_total, short } = plan(&limits, &held);
        let all: Vec<usize> = (0..files.len()).filter(|i| Some(*i) != writing).collect();
        prop_assert_eq!(&delete[..], &all[..delete.len()]);
        prop_assert_eq!(short.is_none(), kept(&delete));
        if let Some((_, fewer)) = delete.split_last() {
            prop_assert!(!kept(fewer));
        }
        prop_assert!(for_total == 0 || !kept_total(&delete[..for_total - 1]));
        let for_space = |i: &usize| !stays(*i) && kept_total(&delete[..for_total]);
        prop_assert!(delete[for_total..].iter().all(for_space));
        match short {
            Some(Short::Total) => prop_assert_eq!(delete, all),
            Some(Short::Free(left)) => {
                prop_assert!(left < keep_free + incoming);
                prop_assert!(all[delete.len()..].iter().all(|i| stays(*i)));
            }
            None => {}
        }
    }
}

#[test]
fn age_deletes_from_the_oldest_on_and_leaves_no_hole() {
    let files = files(&[1; 5]);
    let ages = [Some(90), Some(70), None, Some(80), Some(1)];
    let age = |i: usize| ages[i].map(Duration::from_secs);
    let limit = |seconds| Limits { max_age: Some(Duration::from_secs(seconds)), ..limits() };
    assert_eq!(expired(&limit(60), &files, None, age), [0, 1]);
    assert_eq!(expired(&limit(75), &files, None, age), [0]);
    assert_eq!(expired(&limit(60), &files, Some(&files[1].path), age), [0]);
    assert_eq!(expired(&limits(), &files, None, age), [0; 0]);
}
