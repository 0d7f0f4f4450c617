//! Rings and files as one history: no seam, nothing twice, whoever is there to be asked.

use std::process::Output;

use flightrec_tests::{Recorder, monotonic_ns, numbered_call};
use nix::unistd::gettid;

use crate::store::{BUSY, wait_for};
use crate::support::{start, without_limit};

/// Rings that hold some thousand calls.
const SMALL: &str = "[rings]\nsyscall = \"256KiB\"\nsched = \"256KiB\"\ntask = \"64KiB\"\n";
const CALLS: u32 = 20_000;
/// Calls that surely fit into the ring of one CPU, beside what else the machine does.
const BURST: u32 = 250;

fn recorder() -> Recorder {
    start(&format!("{SMALL}{BUSY}"))
}

/// Waits until all that happened before this is in the files.
pub(crate) fn drained(recorder: &Recorder) {
    let now = monotonic_ns();
    let of = |store: &serde_json::Value| store["behind_seconds"].as_f64();
    wait_for(recorder, "drained", |store| {
        let after = of(store).map(|seconds| (seconds * 1e9) as u64);
        after.is_some_and(|after| monotonic_ns().saturating_sub(after) > now)
    });
}

/// Makes numbered calls, many times what the rings hold, as fast as they are drained.
fn make_calls(recorder: &Recorder) {
    for burst in 0..CALLS / BURST {
        (burst * BURST..(burst + 1) * BURST).for_each(numbered_call);
        drained(recorder);
    }
}

/// The entries of this thread's numbered calls in a dump: their numbers, in its order.
fn numbers(output: &Output) -> Vec<u32> {
    let text = String::from_utf8_lossy(&output.stdout);
    let number = |line: &str| line.split_once("getpgid(")?.1.split_once(')')?.0.parse().ok();
    text.lines().filter_map(number).filter_map(|n: u32| n.checked_sub(5_000_000)).collect()
}

fn dump(recorder: &Recorder, args: &[&str]) -> Output {
    let tid = gettid().to_string();
    let only = ["dump", "--tid", &tid, "--event", "sys_enter", "--syscall", "getpgid"];
    recorder.flightctl(&[&only[..], args].concat())
}

/// Entries of system calls that the coverage says are missing: other tests may flood these small
/// rings.
fn told_missing(said: &str) -> usize {
    let gaps = said.lines().filter(|line| line.contains("gap: ") && line.contains("lane syscall"));
    let entries = |line: &str| -> Option<usize> {
        line.split_once(" sys_enter")?.0.rsplit(['(', ' ']).next()?.replace(',', "").parse().ok()
    };
    gaps.filter_map(entries).sum()
}

#[track_caller]
fn assert_all(output: &Output) {
    let found = numbers(output);
    let said = String::from_utf8_lossy(&output.stderr);
    let missing: Vec<u32> = (0..CALLS).filter(|n| found.binary_search(n).is_err()).collect();
    assert!(found.is_sorted_by(|a, b| a < b), "twice, or in disorder: {said}");
    let told = told_missing(&said);
    assert!(
        missing.len() <= told,
        "{} of {CALLS} calls; {missing:?} missing, {told} told: {said}",
        found.len()
    );
    // Whatever the others do, most is there.
    assert!(found.len() > CALLS as usize / 2, "{} of {CALLS} calls: {said}", found.len());
}

#[test]
fn every_call_is_there_once_whoever_is_asked() {
    let mut recorder = recorder();
    make_calls(&recorder);
    // The rings alone have forgotten most.
    let alone = dump(&recorder, &["--all", "--state-dir", "/nonexistent"]);
    assert!(numbers(&alone).len() < CALLS as usize / 2, "the rings hold {}", numbers(&alone).len());
    let daemon = dump(&recorder, &["--all"]);
    assert_all(&daemon);

    // A daemon that was killed leaves its rings behind.
    recorder.kill();
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let bpffs = recorder.sandbox().bpffs_dir();
    let pinned =
        dump(&recorder, &["--all", "--bpffs-dir", bpffs.to_str().expect("a path of ASCII")]);
    assert_all(&pinned);

    // The next one adopts them, and ends in order: what is left are files.
    recorder.restart();
    recorder.stop();
    let files = dump(&recorder, &["--all"]);
    assert_all(&files);
    assert!(said(&files).contains("no rings are left; reading the files in"), "{}", said(&files));
    let verified = recorder.flightctl(&["verify"]);
    let text = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(text.contains("files checked"), "{text}");
    let listed = recorder.flightctl(&["ls"]);
    assert!(listed.status.success(), "{}", said(&listed));
}

#[test]
fn a_saved_window_is_what_was_live() {
    let mut recorder = recorder();
    let moment = || jiff::Timestamp::now().to_string();
    let since = moment();
    make_calls(&recorder);
    let until = moment();
    drained(&recorder);
    let file = recorder.sandbox().root().join("incident.flight");
    let path = file.to_str().expect("a path of ASCII");
    let window = ["--since", &since, "--until", &until];
    let me = std::process::id().to_string();
    // Names of the others' descriptors depend on the looks at them, as these small rings may lose
    // what the others do.
    let questions = [&["--fds", "off"][..], &["--pid", &me]];
    let ask = |recorder: &Recorder, source: &[&str]| {
        questions.map(|of| lines(&recorder.flightctl(&[&["dump"], source, &window, of].concat())))
    };
    let live = ask(&recorder, &[]);
    let saved = recorder.flightctl(&[&["save", "-o", path], &window[..]].concat());
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    recorder.stop();
    let read = ask(&recorder, &["--file", path]);
    for (live, read) in live.iter().zip(&read) {
        assert!(live.len() > CALLS as usize, "{}", live.len());
        for (live, read) in live.iter().zip(read) {
            assert_eq!(live, read);
        }
        assert_eq!(live.len(), read.len());
    }
}

/// The lines of events.
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn one_boot_of_two_recordings_is_one_history() {
    let mut recorder = start(BUSY);
    (0..100).for_each(numbered_call);
    drained(&recorder);
    // Another configuration of the probes is another recording.
    recorder.options_mut().config = without_limit(&format!("[rings]\nsyscall = \"32MiB\"\n{BUSY}"));
    recorder.restart();
    (100..200).for_each(numbered_call);
    let output = dump(&recorder, &["--all"]);
    assert_eq!(numbers(&output), (0..200).collect::<Vec<_>>());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("recording ") && said.contains(" began at "), "{said}");
    let listed = recorder.flightctl(&["dump", "--list-boots"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("  0 ")), "{text}");
}
