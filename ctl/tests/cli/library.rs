//! The library `flightrec-reader`, on recordings made by hand.

use std::path::Path;
use std::time::Duration;

use flightrec_reader::{Question, Reader};
use flightrec_vmcore::synthetic;

use crate::common::{NOW, Recording, SECOND, SESSION, WALL};
use crate::disk::calls;
use crate::vmcore::{died_while_recording, file, image};

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
