//! The recorder's own system calls.

use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::decode::Body;
use flightrec_tests::Recorder;

use crate::support::{snapshot, start};

/// System call events of the daemon's threads that were recorded, and those that were left out, after
/// the daemon was made to work.
fn own(recorder: &Recorder) -> (usize, u64) {
    for _ in 0..5 {
        assert!(recorder.flightctl(&["status"]).status.success());
    }
    let snapshot = snapshot(recorder);
    let threads = snapshot.threads_of(recorder.pid());
    let of_its = |event: &&_| matches!(event, flightrec_format::decode::Event { tid, body: Body::Enter(_) | Body::Exit { .. }, .. } if threads.contains(tid));
    let since = snapshot.meta.started;
    let recorded = snapshot.events.iter().filter(|event| event.time > since).filter(of_its).count();
    (recorded, snapshot.counted(Lane::Syscall).1[Refusal::Own as usize])
}

#[test]
fn left_out_and_counted_by_default() {
    let recorder = start("");
    let (recorded, left_out) = own(&recorder);
    assert_eq!(recorded, 0);
    assert!(left_out > 50, "{left_out}");
    let output = recorder.flightctl(&["dump", "--last", "1m", "-o", "/dev/null"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("of the recorder's own left out"), "{said}");
    assert!(!said.contains("INCOMPLETE"), "that is no loss: {said}");
}

#[test]
fn recorded_on_request() {
    let recorder = start("[record]\nown = true");
    let (recorded, _) = own(&recorder);
    assert!(recorded > 50, "{recorded}");
}
