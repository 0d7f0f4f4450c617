//! The library `flightrec-reader` and its examples, on recordings made by hand.

use std::path::Path;
use std::time::Duration;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_reader::pipeline::testing::{call, enter, switch, waking};
use flightrec_reader::{Question, Reader};
use flightrec_vmcore::synthetic;

use crate::common::{NOW, Recording, SECOND, SESSION, WALL, meta};
use crate::disk::{Disk, calls};
use crate::vmcore::{died_while_recording, file, image};

#[expect(dead_code, reason = "its `main` is the example's")]
#[path = "../../../crates/reader/examples/count_by_call.rs"]
mod count_by_call;
#[expect(dead_code, reason = "its `main` is the example's")]
#[path = "../../../crates/reader/examples/longest_wait.rs"]
mod longest_wait;

#[test]
fn a_recorder_is_read_by_its_daemon() {
    let mut recording = Recording::new();
    calls(&mut recording, NOW - 2 * SECOND, 0..1000);
    let daemon = recording.serve();
    let mut reader = Reader::recorder(daemon.path());
    let mut events = reader.events(Question::last(Duration::from_secs(10))).unwrap();
    let read: Vec<_> = events.by_ref().map(Result::unwrap).collect();
    assert!(events.is_complete());
    let numbers: Vec<u64> = read.iter().filter_map(|event| Some(event.call()?.args[0])).collect();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    let first = &read[0];
    assert_eq!(first.time(), NOW - 2 * SECOND);
    assert_eq!(first.wall_ns(), (WALL + NOW - 2 * SECOND) as i64);
    assert_eq!((first.tid(), first.session().meta().session), (7, SESSION));
    assert!(read.iter().any(|event| event.call_name() == Some("write")));

    let gone = Reader::recorder("/nonexistent").events(Question::ALL);
    assert!(gone.is_err_and(|error| error.to_string().contains("flightd is not running")));
}

#[test]
fn a_kernel_dump_is_read_with_files_and_without() {
    let dir = tempfile::tempdir().unwrap();
    let (all, state) = died_while_recording(&dir);
    let path = file(&dir, &synthetic::elf(&image(&all), 0));
    let numbers = |state_dir: Option<&Path>, question: Question| {
        let mut reader = Reader::vmcore(&path, state_dir).unwrap();
        let mut events = reader.events(question).unwrap();
        let read: Vec<_> = events.by_ref().map(Result::unwrap).collect();
        assert!(read.iter().all(|event| event.session().meta().session == SESSION));
        assert!(!events.coverage().is_empty());
        let calls = read.iter().filter(|event| event.call_name() == Some("write"));
        calls.filter_map(|event| Some(event.call()?.args[0])).collect::<Vec<u64>>()
    };
    let alone = numbers(None, Question::ALL);
    let first = 15_000 - alone.len() as u64;
    assert!((9_000..13_000).contains(&first), "the rings are short: {}", alone.len());
    assert_eq!(alone, (first..15_000).collect::<Vec<_>>());
    let joined = numbers(Some(&state), Question::ALL);
    assert_eq!(joined, (0..15_000).collect::<Vec<_>>());
    let last = numbers(Some(&state), Question::last(Duration::from_secs(10)));
    assert_eq!(last, (5_000..15_000).collect::<Vec<_>>());

    let nothing = file(&dir, &[7; 10_000]);
    let error = Reader::vmcore(&nothing, None).err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("no recording in this memory image")));
}

#[test]
fn a_failure_is_what_a_program_sees() {
    let mut recording = Recording::new();
    let results = [3, -2, -4095, -4096, -512, -516, 0];
    for (at, ret) in (NOW - SECOND..).step_by(1000).zip(results) {
        let mut push =
            |time, body| recording.push(Lane::Syscall, &Event { time, cpu: 0, tid: 7, body });
        push(at, Body::Enter(call(39)));
        push(at + 320, Body::Exit { call: call(39), ret, entered: Some(at) });
    }
    let daemon = recording.serve();
    let read = Reader::recorder(daemon.path()).events(Question::ALL).unwrap();
    let failures: Vec<Option<i32>> = read
        .map(Result::unwrap)
        .filter(|event| event.result().is_some())
        .map(|event| event.failure())
        .collect();
    assert_eq!(failures, [None, Some(2), Some(4095), None, None, None, None]);
    let sums = count_by_call::sums(Reader::recorder(daemon.path())).unwrap();
    assert_eq!((sums["getpid"].calls, sums["getpid"].failures), (7, 2));
}

/// Adds the files of a boot with some events; the boot's first byte is `boot`.
fn write_boot(dir: &Path, boot: u8, events: &[Event]) {
    let wall = WALL + u64::from(boot) * 86_400 * SECOND;
    let session = 0xb00 + u64::from(boot);
    let boot_id = format!("{boot:02x}234567-89ab-cdef-0123-456789abcdef");
    let mut recording = Recording::with(session, wall);
    for event in events {
        let lane = if matches!(event.body, Body::Enter(_)) { Lane::Syscall } else { Lane::Sched };
        recording.push(lane, event);
    }
    let disk = Disk::new(dir, Meta { session, boot_id, ..meta() }, wall, 60);
    disk.close(&mut recording, NOW);
}

#[test]
fn the_longest_wait_is_of_one_boot() {
    let dir = tempfile::tempdir().unwrap();
    let longest = || {
        let mut reader = Reader::store(dir.path());
        let mut events = reader.events(Question::ALL).unwrap();
        let longest = longest_wait::longest(&mut events).unwrap();
        longest.map(|(ns, sleep)| (ns, sleep.call, sleep.waker))
    };
    let at = |seconds| 100 * SECOND + seconds * SECOND;
    // Threads 5 and 6 sleep when the first boot ends, at times that the second has not, and has.
    let first = [enter(at(1), 0, 5, 39), switch(at(2), 0, 6, 1, 5), switch(at(12), 0, 5, 1, 0)];
    write_boot(dir.path(), 1, &first);
    assert_eq!(longest(), None);
    let second = [switch(at(7), 0, 0, 0, 5), switch(at(8), 0, 5, 0, 6)];
    write_boot(dir.path(), 2, &second);
    assert_eq!(longest(), None, "they are others' threads");
    let third = [
        enter(at(5), 0, 5, 39),
        switch(at(6), 0, 5, 1, 0),
        waking(at(8), 0, 9, 5, 0),
        switch(at(9), 0, 0, 0, 5),
    ];
    write_boot(dir.path(), 3, &third);
    assert_eq!(longest(), Some((3 * SECOND, Some("getpid".into()), Some(" (9)".into()))));
}
