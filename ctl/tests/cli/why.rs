//! `flightctl why` over what a made-up daemon plays: an answer of a known cause, held against the
//! schema that is published, and questions that have no answer.

use std::ops::Range;
use std::path::Path;
use std::process::Output;

use flightrec_analysis::why::MECHANISMS;
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, StringStatus, WakeContext};
use flightrec_format::decode::{Body, Call, Event, Text};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{NOW, Recording, SECOND, WALL, flightctl, meta, stderr, stdout};
use crate::disk::Disk;
use crate::vmcore::{slot, slots_page};

const SCHEMA: &str = include_str!("../../../docs/flightctl-why.schema.json");
const MS: u64 = 1_000_000;
/// Numbers of calls, as `meta()` of the recordings has them.
const WRITE: u16 = 1;

fn event(time: u64, cpu: u16, tid: u32, body: Body) -> Event {
    Event { time, cpu, tid, body }
}

fn call(nr: u16) -> Call {
    Call { nr, abi: Abi::Native, nargs: 1, args: [3, 0, 0, 0, 0, 0], strings: Vec::new() }
}

fn switch(time: u64, cpu: u16, tid: u32, prev_state: u16, next: u32) -> Event {
    let body = Body::Switch {
        prev_prio: 120,
        prev_state,
        preempted: false,
        io_wait: false,
        next,
        next_prio: 120,
    };
    event(time, cpu, tid, body)
}

/// A wakeup by a thread, on CPU 0.
fn waking(wakee: u32) -> Body {
    let context = WakeContext::Thread;
    Body::Waking { wakee, prio: 120, state: 1, cpu: 0, new: false, context }
}

/// Thread 71 waits in write for 72, which runs, for 400 ms; without the scheduling events of CPU
/// 1 if they are not `whole`.
pub(crate) fn recording(whole: bool) -> TempDir {
    marked(whole, None)
}

/// The same, where thread 71 wrote this mark before.
pub(crate) fn marked(whole: bool, mark: Option<&str>) -> TempDir {
    let start = NOW - SECOND;
    let at = |ms: u64| start + ms * MS;
    let mut recording = Recording::new();
    if let Some(text) = mark {
        let text = Text { index: 0, status: StringStatus::Whole, bytes: text.as_bytes().into() };
        recording.push(Lane::Task, &event(at(5), 0, 71, Body::Mark(text)));
    }
    let calls = [
        event(at(10), 0, 71, Body::Enter(call(WRITE))),
        event(at(411), 0, 71, Body::Exit { call: call(WRITE), ret: 1, entered: None }),
    ];
    for event in &calls {
        recording.push(Lane::Syscall, event);
    }
    let waking = waking(71);
    let sched = [
        switch(at(0), 0, 0, 0, 71),
        switch(at(0), 1, 0, 0, 72),
        switch(at(11), 0, 71, 1, 0),
        event(at(410), 1, 72, waking),
        switch(at(411), 0, 0, 0, 71),
        switch(at(420), 0, 71, 1, 0),
        switch(at(421), 1, 72, 1, 0),
    ];
    for event in sched.iter().filter(|event| whole || event.cpu == 0) {
        recording.push(Lane::Sched, event);
    }
    recording.serve()
}

fn why(dir: &TempDir, args: &[&str]) -> Output {
    let place = ["--runtime-dir", dir.path().to_str().unwrap(), "why"];
    flightctl(&[&place, args].concat())
}

/// An answer as JSON, which must be as the schema says.
fn valid(output: &Output) -> Value {
    let object: Value = serde_json::from_str(&stdout(output))
        .unwrap_or_else(|e| panic!("{e}: {}{}", stdout(output), stderr(output)));
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> =
        schema.iter_errors(&object).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{object:#}");
    object
}

#[test]
fn a_wait_is_followed_to_who_ran_meanwhile() {
    let dir = recording(true);
    let answer = valid(&why(&dir, &["--tid", "71", "--last", "1s", "--format", "json"]));
    let sentence = answer["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with(
            "thread 71 waited 399 ms in write for thread 72, which ran on CPU for 399 ms"
        ),
        "{sentence}"
    );
    assert_eq!(answer["culprits"][0]["thread"]["tid"], 72);
    assert_eq!(answer["chain"][0]["call"], "write");
    let sum: u64 =
        answer["shares"].as_array().unwrap().iter().map(|of| of["ns"].as_u64().unwrap()).sum();
    assert_eq!(answer["window"]["length_ns"], sum);

    let text = why(&dir, &["--call", "write", "--last", "1s"]);
    assert_eq!(text.status.code(), Some(0), "{}", stderr(&text));
    let lines = stdout(&text);
    assert!(lines.starts_with("thread 71 waited 399 ms in write"), "{lines}");
    assert!(lines.contains("woken by thread 72 (thread)"), "{lines}");
    // The same without a name, and by its moment.
    for args in [&["--last", "1s"][..], &["--at", "-0.8s"], &["--slower-than", "300ms"]] {
        let found = stdout(&why(&dir, args));
        assert!(found.starts_with("thread 71 waited"), "{args:?}: {found}");
    }
}

#[test]
fn waits_in_spans_are_told_where_they_are_asked_for() {
    let mark = "traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let dir = marked(true, Some(mark));
    let json = ["--tid", "71", "--last", "1s", "--format", "json"];
    let plain = valid(&why(&dir, &json));
    assert!(plain.get("spans").is_none() && plain.get("trace").is_none(), "{plain:#}");
    let answer = valid(&why(&dir, &[&json[..], &["--spans", "5"]].concat()));
    assert_eq!(answer["trace"]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    let spans = answer["spans"].as_array().unwrap();
    assert_eq!((spans.len(), &answer["spans_left_out"]), (1, &0.into()), "{answer:#}");
    assert_eq!((&spans[0]["call"], &spans[0]["state"]), (&"write".into(), &"blocked".into()));
    assert_eq!(spans[0]["trace"]["span_id"], "00f067aa0ba902b7");
    assert_eq!(spans[0]["culprit"]["thread"]["tid"], 72);
    let ns = |key: &str| spans[0][key].as_i64().unwrap();
    assert_eq!(ns("until_ns") - ns("from_ns"), 399 * MS as i64);
    // A pattern hides texts, but not flightrec's own words; marks are strings.
    let hidden = [&json[..], &["--spans", "5", "--hide", "write|blocked|thread"]].concat();
    let hidden = valid(&why(&dir, &hidden));
    assert_eq!(hidden["spans"][0]["call"], "write");
    let sentence = hidden["sentence"].as_str().unwrap();
    assert!(sentence.contains("***") && !sentence.contains("write"), "{sentence}");
    let none = valid(&why(&dir, &[&json[..], &["--spans", "5", "--strings", "paths"]].concat()));
    assert_eq!(none["spans"], Value::Array(Vec::new()));
    let unsampled = marked(true, Some(&mark.replace("-01", "-00")));
    let answer = valid(&why(&unsampled, &[&json[..], &["--spans", "5"]].concat()));
    assert_eq!((&answer["spans_unsampled"], answer.get("trace")), (&1.into(), None));
    let text = why(&dir, &["--last", "1s", "--spans", "5"]);
    assert_eq!(text.status.code(), Some(2));
    assert!(stderr(&text).contains("--spans is for --format json"), "{}", stderr(&text));
}

#[test]
fn without_the_events_of_who_woke_it_nobody_is_blamed() {
    let dir = recording(false);
    let answer = valid(&why(&dir, &["--tid", "71", "--last", "1s", "--format", "json"]));
    assert_eq!(answer["culprits"], Value::Array(Vec::new()), "{answer:#}");
    assert_eq!(answer["complete"], false);
    assert!(!answer["doubts"].as_array().unwrap().is_empty(), "{answer:#}");
}

/// In files without a table of threads: thread 71 is in write since 15 s before a window that ends
/// before the files do, and 72 runs for a moment every 100 ms, but for the time of these numbers.
fn hanging(dir: &Path, quiet: Range<u64>) -> (Disk, Recording) {
    let mut recording = Recording::new();
    let mut disk = Disk::new(dir, meta(), WALL, 600);
    recording.push(Lane::Sched, &switch(HANGS, 0, 0, 0, 71));
    recording.push(Lane::Syscall, &event(HANGS + MS, 0, 71, Body::Enter(call(WRITE))));
    recording.push(Lane::Sched, &switch(HANGS + 2 * MS, 0, 71, 1, 0));
    for n in (1..180).filter(|n| !quiet.contains(n)) {
        let at = HANGS + n * 100 * MS;
        recording.push(Lane::Sched, &switch(at, 1, 0, 0, 72));
        recording.push(Lane::Sched, &switch(at + MS, 1, 72, 1, 0));
        if n % 50 == 0 {
            disk.drain(&mut recording, at + 2 * MS);
        }
    }
    (disk, recording)
}

/// When the thread began to hang.
const HANGS: u64 = NOW - 19 * SECOND;

/// Asks of the files of [`hanging`] about the time from 15 s to 17 s after it began to hang; `end`:
/// when the files end, s after that.
fn hung(dir: &Path, end: u64, args: &[&str]) -> Output {
    let [since, until] = [15, 17].map(|at| end - at);
    let (since, until) = (format!("--since=-{since}s"), format!("--until=-{until}s"));
    flightctl(&[&["why", "--store", dir.to_str().unwrap(), &since, &until], args].concat())
}

#[test]
fn the_schema_has_all_mechanisms() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let known = &schema["$defs"]["culprit"]["properties"]["mechanism"]["enum"];
    assert_eq!(*known, Value::from(MECHANISMS.to_vec()));
}

#[test]
fn who_hangs_since_long_before_a_window_in_files_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut recording) = hanging(dir.path(), 0..0);
    disk.close(&mut recording, HANGS + 18 * SECOND);
    // Of several, each is looked for.
    for args in [&["--tid", "71"][..], &["--tid", "71", "--tid", "72"]] {
        let out = hung(dir.path(), 18, args);
        let text = stdout(&out);
        assert!(text.starts_with("thread 71 waited 2.0 s in write, and still waits"), "{text}");
        assert!(text.contains("had waited for 15.0 s when the window began"), "{text}");
        assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    }
    let out = hung(dir.path(), 18, &["--tid", "99"]);
    assert_eq!(stdout(&out), "the window has no activity of these threads\n");
}

/// By a table of threads that was taken after the window, it does not hang any more.
#[test]
fn who_hangs_is_found_where_a_later_table_has_it_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let (mut disk, mut recording) = hanging(dir.path(), 0..0);
    recording.push(Lane::Sched, &event(HANGS + 20 * SECOND, 1, 72, waking(71)));
    recording.push(Lane::Sched, &switch(HANGS + 20 * SECOND + MS, 0, 0, 0, 71));
    disk.drain(&mut recording, HANGS + 21 * SECOND);
    disk.opening.slots = (HANGS + 700 * SECOND, vec![*slots_page(&[slot(71, b"orders", 0)])]);
    recording.push(Lane::Sched, &switch(HANGS + 701 * SECOND, 0, 71, 1, 0));
    disk.close(&mut recording, HANGS + 702 * SECOND);
    let out = hung(dir.path(), 702, &["--tid", "71"]);
    let text = stdout(&out);
    assert!(text.contains(" (71) waited 2.0 s in write"), "{text}");
    assert!(text.contains("had waited for 15.0 s when the window began"), "{text}");
}

/// The first event of the window is 1 s after its start.
#[test]
fn a_window_that_begins_quietly_is_one_part() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, mut recording) = hanging(dir.path(), 110..161);
    disk.close(&mut recording, HANGS + 18 * SECOND);
    let out = hung(dir.path(), 18, &["--tid", "71", "--format", "json"]);
    let answer = valid(&out);
    let window = &answer["window"];
    let ns = |key: &str| window[key].as_u64().unwrap();
    assert_eq!(ns("until_ns") - ns("from_ns"), 2 * SECOND, "{answer:#}");
    let doubts = answer["doubts"].to_string();
    assert!(!doubts.contains("parts"), "{doubts}");
}

#[test]
fn who_did_nothing_is_told() {
    let dir = recording(true);
    let out = why(&dir, &["--tid", "99"]);
    let none = "the window has no activity of these threads\n";
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(1), none));
    let out = why(&dir, &["--call", "fsync", "--slower-than", "3s"]);
    let none = "the window has no fsync that took 3s or longer\n";
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(1), none));
    let answer = valid(&why(&dir, &["--tid", "99", "--format", "json"]));
    assert!(answer["subject"].is_null(), "{answer:#}");
    let empty = Recording::new().serve();
    let answer = valid(&why(&empty, &["--format", "json"]));
    assert!(answer["subject"].is_null() && answer["chain"].as_array().unwrap().is_empty());
    assert_eq!(why(&dir, &["--tid", "71", "--at", "noon"]).status.code(), Some(2));
    for other in [["--call", "read"], ["--slower-than", "1ms"]] {
        let out = why(&dir, &[&["--at", "now"], &other[..]].concat());
        assert!(out.status.code() == Some(2), "{other:?}: {}", stderr(&out));
    }
}
