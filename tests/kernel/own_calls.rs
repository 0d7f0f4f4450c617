//! The recorder's own system calls.

use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::decode::Body;
use flightrec_tests::{Recorder, Snapshot, monotonic_ns};

use crate::support::{snapshot, start};

/// Without the topics whose events are in lane `kernel`.
const ONLY_CALLS: &str = "[record]\ndisk = false\nmemory = false\ninterrupts = false\nlocks = \
                          false\nnetwork = false\nthrottling = false\nio_uring = false\n\
                          [stacks]\nenabled = false\n[sampling]\nhz = 0\n";

/// System call events of the daemon's threads that were recorded, and how many were left out, while
/// the daemon was made to work. (What it does before it is ready is recorded in part.)
fn own(recorder: &Recorder) -> (usize, u64) {
    let left_out = |snapshot: &Snapshot| snapshot.counted(Lane::Syscall).1[Refusal::Own as usize];
    let (before, since) = (left_out(&snapshot(recorder)), monotonic_ns());
    for _ in 0..5 {
        assert!(recorder.flightctl(&["status"]).status.success());
    }
    let snapshot = snapshot(recorder);
    let threads = snapshot.threads_of(recorder.pid());
    let calls = snapshot
        .events
        .iter()
        .filter(|event| matches!(event.body, Body::Enter(_) | Body::Exit { .. }));
    let recorded = calls.filter(|event| event.time > since && threads.contains(&event.tid)).count();
    (recorded, left_out(&snapshot) - before)
}

#[test]
fn left_out_and_counted_by_default() {
    // Events of lane `kernel` that meet are losses of their own.
    let recorder = start(ONLY_CALLS);
    let (recorded, left_out) = own(&recorder);
    assert_eq!(recorded, 0);
    assert!(left_out > 50, "{left_out}");
    let output = recorder.flightctl(&["dump", "--last", "1h", "-o", "/dev/null"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("of the recorder's own left out"), "{said}");
    assert!(!said.contains("INCOMPLETE"), "that is no loss: {said}");
}

#[test]
fn recorded_on_request() {
    let recorder = start("[record]\nown = true");
    let (recorded, left_out) = own(&recorder);
    assert!(recorded > 50 && left_out == 0, "{recorded} recorded, {left_out} left out");
}
