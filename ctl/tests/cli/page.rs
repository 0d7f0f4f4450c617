//! `flightctl page`: what is in the file, and what it does in a browser (`tests/judges/chromium`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, Rename, StringStatus};
use flightrec_format::decode::{Body, Call, Event, Plain, Text};
use flightrec_format::meta::Meta;
use flightrec_tests::Judge;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{NOW, Recording, SECOND, command, flightctl, meta, stderr};
use crate::why::recording;

/// Most bytes of a page.
pub(crate) const PAGE_MAX: usize = 5 << 20;
/// What a name must not become.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>&amp;<!--";
const OPENAT: u16 = 257;
const WRITE: u16 = 1;

/// Makes a page of a recorder's window.
fn page(dir: &TempDir, args: &[&str]) -> (Output, PathBuf) {
    let out = dir.path().join("out.html");
    let place = ["--runtime-dir", dir.path().to_str().unwrap(), "page", "-o"];
    (flightctl(&[&place[..], &[out.to_str().unwrap()], args].concat()), out)
}

/// The whole file, and the data in it.
pub(crate) fn read(path: &Path) -> (String, Value) {
    let html = fs::read_to_string(path).unwrap();
    let (_, rest) = html.split_once("id=\"data\">").expect("data");
    let data = rest.split_once("</script>").unwrap().0;
    assert!(!data.contains(['<', '>', '&']), "markup in the data");
    let data = serde_json::from_str(data).expect("JSON");
    (html, data)
}

fn made(dir: &TempDir, args: &[&str]) -> (String, Value) {
    let (output, path) = page(dir, args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    read(&path)
}

/// The stretches of a row: from, until, sort, texts.
fn spans<'a>(data: &'a Value, lane: &'a Value, row: usize) -> Vec<(i64, i64, u64, [&'a str; 4])> {
    let row = &lane["rows"][row];
    let times: Vec<i64> =
        row["times"].as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect();
    let mut end = 0;
    let span = |(pair, what): (&[i64], &Value)| {
        let from = end + pair[0];
        end = from + pair[1];
        let what = &data["timeline"]["whats"][what.as_u64().unwrap() as usize];
        let word = |at: usize| {
            let number = what[at].as_u64().unwrap() as usize;
            data["timeline"]["words"][number].as_str().unwrap()
        };
        (from, end, what[0].as_u64().unwrap(), [1, 2, 3, 4].map(word))
    };
    times.chunks(2).zip(row["whats"].as_array().unwrap()).map(span).collect()
}

fn lane<'a>(data: &'a Value, label: &str, tid: u64) -> &'a Value {
    let lanes = data["timeline"]["lanes"].as_array().unwrap();
    let is_it = |lane: &&Value| lane["label"] == label && lane["tid"] == tid;
    lanes.iter().find(is_it).unwrap_or_else(|| panic!("no lane {label}: {lanes:#?}"))
}

#[test]
fn the_answer_and_what_it_names_are_there() {
    let dir = recording(true);
    let (html, data) = made(&dir, &["--tid", "71", "--last", "1s"]);
    let sentence = data["answer"]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("thread 71 waited 399 ms in write for thread 72"), "{sentence}");
    assert_eq!(data["coverage"]["complete"], true);
    assert_eq!(data["answer"]["chain"][0]["tid"], 71);
    // The wait, its end, and the call that it is in.
    let lane_71 = lane(&data, "(no name)", 71);
    assert_eq!(lane_71["named"], true);
    let states = spans(&data, lane_71, 0);
    let wait = states.iter().find(|of| of.2 == 4).unwrap_or_else(|| panic!("{states:?}"));
    assert_eq!(wait.1 - wait.0, 399_000_000);
    assert_eq!((wait.3[1], wait.3[2]), ("write", "thread 72"));
    let calls = spans(&data, lane_71, 1);
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!((calls[0].1 - calls[0].0, calls[0].3[0]), (401_000_000, "write(3, ...) = 1"));
    // Who ran meanwhile, on its CPU.
    let runs = spans(&data, lane(&data, "CPU 1", 0), 0);
    assert!(runs.iter().any(|of| of.3[0] == "thread 72" && of.1 - of.0 >= 420_000_000), "{runs:?}");
    let lines = data["lines"]["lines"].as_array().unwrap();
    assert!(lines.iter().any(|line| line[2].as_str().unwrap().contains("write")), "{lines:?}");
    let titles: Vec<_> = data["tables"].as_array().unwrap().iter().map(|of| &of["title"]).collect();
    assert_eq!(titles, ["Waits", "Calls", "Failures", "Block I/O"]);
    assert_eq!(data["tables"][1]["rows"][0][1], "write");
    assert_eq!(data["histograms"][0]["count"], 1);

    // Nothing is fetched: the policy allows two scripts and a style by their hashes, no source.
    let policy = html.split_once("Content-Security-Policy\" content=\"").unwrap().1;
    let policy = policy.split_once('"').unwrap().0;
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    for outside in ["src=\"http", "href=\"http", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.contains("Copyright (c) 2022 Leon Sorokin"), "the library's licence");
}

#[test]
fn who_is_asked_about_need_not_be_there() {
    let dir = recording(true);
    let (_, data) = made(&dir, &["--tid", "99", "--last", "1s"]);
    let sentence = data["answer"]["sentence"].as_str().unwrap();
    assert_eq!(sentence, "the window has no activity of these threads");
    assert!(data["lines"]["lines"].as_array().unwrap().is_empty());
    lane(&data, "(no name)", 72);
}

fn comm(text: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    comm.iter_mut().zip(text.bytes().take(15)).for_each(|(to, byte)| *to = byte);
    comm
}

fn text(index: u8, bytes: &str) -> Text {
    Text { index, status: StringStatus::Whole, bytes: bytes.as_bytes().into() }
}

pub(crate) fn open(path: &str) -> Call {
    let args = [u64::from(u32::MAX), 0x7fff, 0, 0, 0, 0];
    Call { nr: OPENAT, abi: Abi::Native, nargs: 3, args, strings: vec![text(1, path)] }
}

pub(crate) fn switch(time: u64, tid: u32, prev_state: u16, next: u32) -> Event {
    let (prev_prio, next_prio) = (120, 120);
    let body =
        Body::Switch { prev_prio, prev_state, preempted: false, io_wait: false, next, next_prio };
    Event { time, cpu: 0, tid, body }
}

/// A thread, its files, a mark, the machine: all with names that want to be markup.
fn hostile() -> TempDir {
    let mut recording = Recording::new();
    let start = NOW - SECOND;
    let at = |ms: u64| start + ms * 1_000_000;
    let rename = Rename { tid: 7, tgid: 7, old: comm("sh"), new: comm(HOSTILE) };
    let mut push = |lane, time, body| recording.push(lane, &Event { time, cpu: 0, tid: 7, body });
    push(Lane::Task, at(0), Body::Rename(rename));
    push(Lane::Task, at(500), Body::Mark(text(0, HOSTILE)));
    push(Lane::Syscall, at(10), Body::Enter(open(HOSTILE)));
    push(Lane::Syscall, at(300), Body::Exit { call: open(HOSTILE), ret: -2, entered: None });
    for event in [
        switch(at(1), 0, 0, 7),
        switch(at(11), 7, 2, 0),
        switch(at(299), 0, 0, 7),
        switch(at(400), 7, 1, 0),
    ] {
        recording.push(Lane::Sched, &event);
    }
    let host = format!("{HOSTILE}\u{2028}");
    recording.serve_as(&Meta { host, kernel: HOSTILE.into(), ..meta() })
}

#[test]
fn names_are_no_markup() {
    let (html, data) = made(&hostile(), &["--last", "1s"]);
    let thread = lane(&data, &HOSTILE[..15], 7);
    let calls = spans(&data, thread, 1);
    assert!(calls[0].3[0].contains(&format!("\"{HOSTILE}\"")), "{calls:?}");
    assert_eq!(data["timeline"]["marks"][0][1], HOSTILE);
    // Invisible characters are escaped as elsewhere.
    assert_eq!(data["about"]["host"], format!("{HOSTILE}\\342\\200\\250"));
    assert_eq!((html.matches("<img").count(), html.matches("</script>").count()), (0, 3));
}

/// A kind with fields of 32 bits, and a name after them.
fn plain(kind: Kind, words: &[u32], name: &str) -> Body {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend_from_slice(&comm(name));
    Body::Plain(Plain::read(kind, &bytes).expect("all its fields"))
}

#[test]
fn interrupts_signals_and_requests_have_rows() {
    let mut recording = Recording::new();
    let start = NOW - SECOND;
    let at = |ms: u64| start + ms * 1_000_000;
    recording.push(Lane::Sched, &switch(at(0), 0, 0, 7));
    let device = 8 << 20 | 1;
    // Two that overlap: the request, the device, the sector, bytes, a write, flags, in a thread.
    for (request, issued) in [(1, at(100)), (2, at(150))] {
        let body = plain(Kind::BlockIssue, &[request, device, 64, 0, 4096, 1, 0, 1], "");
        recording.push(Lane::Kernel, &Event { time: issued, cpu: 0, tid: 7, body });
    }
    for (request, done, error) in [(2, at(200), 0), (1, at(300), 1)] {
        let words = [request, device, 64, 0, 4096, 1, 0, 2, 0, error];
        let body = plain(Kind::BlockComplete, &words, "");
        recording.push(Lane::Kernel, &Event { time: done, cpu: 0, tid: 0, body });
    }
    // 5 ms of an interrupt; SIGTERM for thread 7 from itself.
    let body = plain(Kind::Interrupt, &[5_000_000, 0, 0, 9], HOSTILE);
    recording.push(Lane::Kernel, &Event { time: at(400), cpu: 0, tid: 7, body });
    let body = plain(Kind::SignalGenerate, &[15, 0, 7, 7, 0, 0], "seven");
    recording.push(Lane::Sched, &Event { time: at(500), cpu: 0, tid: 7, body });
    recording.push(Lane::Sched, &switch(at(900), 7, 1, 0));
    let (_, data) = made(&recording.serve(), &["--last", "1s"]);

    let disk = lane(&data, "disk 8:1", 0);
    let requests = spans(&data, disk, 0);
    let of = |at: usize| {
        let (from, until, sort, [what, _, by, _]) = requests[at];
        ((until - from) / 1_000_000, sort, what, by)
    };
    assert_eq!(of(0), (200, 13, "write of 4096 bytes", "thread 7"));
    assert_eq!(of(1), (50, 12, "write of 4096 bytes", "thread 7"));
    assert_eq!((disk["rows"][0]["of"].as_str(), requests.len()), (Some("disk"), 2));
    let cpu = lane(&data, "CPU 0", 0);
    assert_eq!(cpu["rows"][1]["of"], "irq");
    let (from, until, sort, [what, ..]) = spans(&data, cpu, 1)[0];
    assert_eq!((until - from, sort), (5_000_000, 9));
    assert_eq!(what, format!("hardirq 9 {}", &HOSTILE[..15]));
    let thread = lane(&data, "(no name)", 7);
    assert_eq!(thread["rows"][2]["of"], "signal");
    let (from, until, sort, [what, _, by, _]) = spans(&data, thread, 2)[0];
    assert_eq!((until - from, sort, what, by), (0, 10, "SIGTERM", "thread 7"));
}

#[test]
fn what_is_missing_is_told() {
    let mut recording = Recording::new();
    let start = NOW - SECOND;
    for n in 0..20_000u64 {
        let call = Call { nr: WRITE, abi: Abi::Native, nargs: 1, args: [n; 6], strings: vec![] };
        let event = |time, body| Event { time, cpu: 0, tid: 7, body };
        recording.push(Lane::Syscall, &event(start + n * 40_000, Body::Enter(call.clone())));
        let exit = Body::Exit { call, ret: 1, entered: None };
        recording.push(Lane::Syscall, &event(start + n * 40_000 + 5000, exit));
    }
    recording.push(Lane::Sched, &switch(start, 0, 0, 7));
    recording.push(Lane::Sched, &switch(NOW - 1000, 7, 1, 0));
    recording.drop_pages = 5;
    let dir = recording.serve();
    let (output, path) = page(&dir, &["--last", "1s", "--strict"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let (_, data) = read(&path);
    assert_eq!(data["coverage"]["complete"], false);
    let gaps = lane(&data, "CPU 0", 0)["gaps"].as_array().unwrap();
    assert!(gaps[0][2].as_str().unwrap().contains("lane syscall"), "{gaps:?}");
    assert!(data["coverage"]["lines"].to_string().contains("INCOMPLETE"));
}

#[test]
fn a_file_is_there_when_it_is_whole() {
    let dir = recording(true);
    let last = ["--last", "1s"];
    let (_, out) = page(&dir, &last);
    let before = fs::read(&out).unwrap();
    let (refused, _) = page(&dir, &last);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--force replaces it"), "{}", stderr(&refused));
    assert_eq!(page(&dir, &[&last[..], &["--force"]].concat()).0.status.code(), Some(0));
    assert_eq!(fs::read(&out).unwrap(), before);
    let place = ["--runtime-dir", dir.path().to_str().unwrap(), "page", "--last", "1s", "-o"];
    let full = flightctl(&[&place[..], &["/dev/full"]].concat());
    assert_eq!(full.status.code(), Some(2));
    assert!(stderr(&full).contains("can't write /dev/full: No space left"), "{}", stderr(&full));
    let nowhere = flightctl(&[&place[..], &["/nonexistent/x.html"]].concat());
    assert!(stderr(&nowhere).contains("can't write /nonexistent/"), "{}", stderr(&nowhere));
    // Nothing is recorded of that time.
    let none = dir.path().join("none.html");
    let before = ["--since", "2025-01-01", "--until", "2025-01-02", "-o", none.to_str().unwrap()];
    let output = flightctl(&[&place[..3], &before].concat());
    assert_eq!((output.status.code(), none.exists()), (Some(1), false), "{}", stderr(&output));
    // Who reads it has read enough.
    let mut child = command(&[&place[..], &["-"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let parts = fs::read_dir(dir.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(".part-"));
    assert_eq!(parts.count(), 0);
}

/// A busy second: threads take turns on two CPUs and open files, none of which has the name of
/// another; so many events at least.
fn busy(events: u64) -> TempDir {
    let mut recording = Recording::new();
    let start = NOW - 10 * SECOND;
    // A turn has eight events.
    let turns = events / 8;
    let step = 10 * SECOND / turns;
    for turn in 0..turns {
        let cpu = (turn % 2) as u16;
        let at = start + turn * step;
        let tid = |turn: u64| 100 + (turn % 2) as u32 + 2 * ((turn / 2) % 16) as u32;
        let mut put = |lane, after, tid, body| {
            recording.push(lane, &Event { time: at + after, cpu, tid, body });
        };
        let (thread, next) = (tid(turn), tid(turn + 2));
        for n in 0..3u64 {
            let path = format!("/srv/{turn:08}/{n}/{}", "x".repeat(100));
            put(Lane::Syscall, step / 10 * (2 * n + 1), thread, Body::Enter(open(&path)));
            let exit = Body::Exit { call: open(""), ret: -2, entered: None };
            put(Lane::Syscall, step / 10 * (2 * n + 2), thread, exit);
        }
        let waking = Body::Waking {
            wakee: next,
            prio: 120,
            state: 1,
            cpu,
            new: false,
            context: flightrec_format::abi::record::WakeContext::Thread,
        };
        put(Lane::Sched, step / 10 * 8, thread, waking);
        let switch = Event { cpu, ..switch(at + step / 10 * 9, thread, 1, next) };
        recording.push(Lane::Sched, &switch);
    }
    recording.serve()
}

#[test]
fn a_page_of_many_events_is_small() {
    let dir = busy(100_000);
    let (html, data) = made(&dir, &["--last", "9s"]);
    assert!(html.len() < PAGE_MAX, "{} bytes", html.len());
    assert!(data["about"]["events"].as_u64().unwrap() > 80_000);
    let merged = data["merged"].to_string();
    assert!(merged.contains("are merged") && merged.contains("no room for the arguments"));
    // Neighbours that are merged are counted: all are there.
    let drawn = merged.split_once("has ").unwrap().1;
    let all: u64 = drawn.split_once(' ').unwrap().0.parse().unwrap();
    assert!(all > 50_000, "{merged}");
}

/// What a browser makes of a page: `tests/judges/chromium/drive.js`.
fn browse(page: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/judges/chromium/drive.js");
    let output = Command::new("node").arg(script).arg(page).output().expect("node");
    let installed = "tests/judges/chromium/setup.sh installs what it needs";
    assert!(output.status.success(), "{installed}: {}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["messages"], Value::Array(vec![]), "on the console");
    // The page itself, once for each size of screen.
    let url = format!("file://{}", page.display());
    assert_eq!(found["requests"], serde_json::json!([url, url]));
    assert_eq!((&found["dialogs"], &found["markup"]), (&Value::Array(vec![]), &Value::from(0)));
    assert_eq!(found["phone"], 390, "as wide as the phone's screen");
    found
}

fn texts(of: &Value) -> Vec<&str> {
    of.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn a_browser_shows_it() {
    Judge::CHROMIUM.require();
    let dir = hostile();
    let (output, path) = page(&dir, &["--last", "1s"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found = browse(&path);
    assert!(found["sentence"].as_str().unwrap().contains(&HOSTILE[..15]), "{found:#}");
    assert!(found["title"].as_str().unwrap().starts_with(HOSTILE), "{found:#}");
    let tips = texts(&found["tips"]);
    assert!(tips.iter().any(|tip| tip.contains(&format!("\"{HOSTILE}\""))), "{tips:#?}");
    assert!(!found["detail"].as_str().unwrap().is_empty());
    // The cause, all, nearer, later, farther, nearer by the wheel, the cause again.
    let ranges = texts(&found["ranges"]);
    let [cause, all, nearer, later, farther, wheel, again] = ranges[..] else {
        panic!("{ranges:?}")
    };
    assert!(all.ends_with("(1.00 s)"), "{ranges:?}");
    assert!(nearer.ends_with("(500 ms)") && later.ends_with("(500 ms)"), "{ranges:?}");
    assert!(nearer != later && farther == all && wheel != farther, "{ranges:?}");
    assert_eq!(cause, again);
    // Each table sorts both ways.
    let tables = found["tables"].as_object().unwrap();
    assert!(tables["Block I/O"].is_null() && !tables["Calls"].is_null());
    assert_eq!(tables["Calls"][0][0], "ascending");
    assert_eq!(tables["Calls"][1][0], "descending");
    assert!(found["lines"].as_u64().unwrap() > 0);
}

#[test]
fn a_browser_shows_a_million_events() {
    Judge::CHROMIUM.require();
    let dir = busy(1_100_000);
    let (output, path) = page(&dir, &["--last", "9s"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (html, data) = read(&path);
    assert!(data["about"]["events"].as_u64().unwrap() >= 900_000, "{}", data["about"]["events"]);
    assert!(html.len() < PAGE_MAX, "{} bytes", html.len());
    let found = browse(&path);
    let (ready, memory) =
        (found["ready_ms"].as_u64().unwrap(), found["renderer"].as_u64().unwrap());
    println!("{} bytes, {ready} ms, {memory} bytes in the browser", html.len());
    assert!(ready < 2000, "{ready} ms until it can be used");
    assert!(memory < 300_000_000, "{memory} bytes");
    let waits = &found["tables"]["Calls"];
    let (up, down) = (texts(&waits[0][1]), texts(&waits[1][1]));
    assert!(up.is_sorted() && down.iter().rev().is_sorted(), "{waits:#}");
}
