//! The program against a daemon that plays a recording.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::common::{
    NOW, Recording, SECOND, command, daemon, dump, flightctl, raw_daemon, stderr, stdout,
};
use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::abi::record::{Abi, Rename, WakeContext};
use flightrec_format::control::{self, Response};
use flightrec_format::decode::{Body, Call, Event};

fn call(nr: u16, args: &[u64]) -> Call {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    Call { nr, abi: Abi::Native, nargs: args.len() as u8, args: all, strings: Vec::new() }
}

fn event(time: u64, cpu: u16, tid: u32, body: Body) -> Event {
    Event { time, cpu, tid, body }
}

/// A write by 7, which wakes 8 on CPU 1 over a migration; 7 was called `sh` before.
fn small() -> Recording {
    let mut recording = Recording::new();
    let t = NOW - 5 * SECOND;
    let comm = |name: &str| std::array::from_fn(|i| name.as_bytes().get(i).copied().unwrap_or(0));
    let rename = Rename { tid: 7, tgid: 7, old: comm("sh"), new: comm("web") };
    recording.push(Lane::Task, &event(t + 5000, 1, 7, Body::Rename(rename)));
    recording.push(Lane::Syscall, &event(t, 0, 7, Body::Enter(call(1, &[1, 0, 3]))));
    let exit = Body::Exit { call: call(1, &[]), ret: 3, entered: Some(t) };
    recording.push(Lane::Syscall, &event(t + 1600, 0, 7, exit));
    recording.push(Lane::Syscall, &event(t + 6000, 0, 7, Body::Enter(call(39, &[]))));
    let exit = Body::Exit { call: call(39, &[]), ret: -3, entered: None };
    recording.push(Lane::Syscall, &event(t + 7000, 0, 7, exit));
    let switch = |time, prev, prev_state, next| {
        let (prev_prio, next_prio) = (120, 120);
        event(
            time,
            1,
            prev,
            Body::Switch {
                prev_prio,
                prev_state,
                preempted: false,
                io_wait: false,
                next,
                next_prio,
            },
        )
    };
    recording.push(Lane::Sched, &switch(t - 100, 8, 1, 0));
    let waking = Body::Waking {
        wakee: 8,
        prio: 115,
        state: 1,
        cpu: 0,
        new: false,
        context: WakeContext::Thread,
    };
    recording.push(Lane::Sched, &event(t + 500, 0, 7, waking));
    recording.push(
        Lane::Sched,
        &event(t + 600, 0, 7, Body::Migrate { thread: 8, prio: 115, from: 0, to: 1 }),
    );
    recording.push(Lane::Sched, &switch(t + 900, 0, 0, 8));
    recording
}

fn text_of(dir: &tempfile::TempDir, args: &[&str]) -> Vec<String> {
    let out = dump(dir.path(), args);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    stdout(&out).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn lanes_come_out_as_one_story() {
    let dir = small().serve();
    let lines = text_of(&dir, &[]);
    let expected = [
        ["00:01:54.999999 [001]       8", "<-- TASK_INTERRUPTIBLE"],
        ["00:01:54.999999 [001]       0 swapper/1", "swapper/1"],
        ["00:01:55.000000 [000]       7 sh", "write(1, NULL, 3) -->"],
        ["00:01:55.000000 [000]       7 sh", "(RUNQ) #1 8 "],
        ["00:01:55.000000 [000]       7 sh", "(MIGRATE) 8 "],
        ["00:01:55.000000 [001]       0 swapper/1", "<--"],
        ["00:01:55.000000 [001]       8", "-->"],
        ["00:01:55.000001 [000]       7 sh", "write <-- 3 (1.6 us)"],
        ["00:01:55.000005 [001]       7 sh", "web"],
        ["00:01:55.000006 [000]       7 web", "getpid() -->"],
        ["00:01:55.000007 [000]       7 web", "getpid <-- -3 ESRCH (1"],
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, parts) in lines.iter().zip(expected) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line:?} has not {parts:?}");
    }
    assert!(lines[3].contains("qlen:0"), "{}", lines[3]);
}

#[test]
fn filters() {
    let dir = small().serve();
    assert_eq!(text_of(&dir, &["--syscall", "write"]).len(), 2);
    assert_eq!(text_of(&dir, &["--comm", "web", "--event", "sys_enter,sys_exit"]).len(), 2);
    assert_eq!(text_of(&dir, &["--tid", "8", "--event", "waking"]).len(), 1);
    assert_eq!(text_of(&dir, &["--cpu", "1", "--event", "rename"]).len(), 1);
    let none = dump(dir.path(), &["--pid", "4711"]);
    assert_eq!(none.status.code(), Some(1), "nothing in the window");
    let wrong = dump(dir.path(), &["--syscall", "wriet"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("write"), "{}", stderr(&wrong));
}

#[test]
fn windows() {
    let dir = small().serve();
    assert_eq!(dump(dir.path(), &["--last", "1s"]).status.code(), Some(1));
    assert_eq!(text_of(&dir, &["--since", "-6s", "--until", "-4s"]).len(), 11);
    let calls = ["--event", "sys_enter"];
    let from = |since: &str| text_of(&dir, &[&["--since", since], &calls[..]].concat());
    assert_eq!(from("2026-01-01T00:01:55Z").len(), 2);
    assert_eq!(from("2026-01-01T00:01:55.000001Z").len(), 1);
    // A call that began before the window still has its duration.
    assert!(text_of(&dir, &["--since", "2026-01-01T00:01:55.000007Z"])[0].contains("(1.0 us)"));
}

#[test]
fn a_complete_window_says_so_on_both_channels() {
    let dir = small().serve();
    let file = dir.path().join("out.txt");
    let out = dump(dir.path(), &["--strict", "--last", "8s", "-o", file.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let saved = std::fs::read_to_string(file).unwrap();
    let coverage = "coverage: 2026-01-01 00:01:52.000000 to 00:02:00.000000 (8.0 s): complete on \
                    CPUs 0-1 in lanes syscall, sched, task, kernel";
    assert_eq!(saved.lines().next(), Some(format!("# {coverage}").as_str()));
    assert_eq!(stderr(&out).trim_end(), coverage);
    assert!(stdout(&out).is_empty());
}

/// A flood of calls on CPU 0, and one event refused in its middle.
fn flood() -> Recording {
    let mut recording = Recording::new();
    for i in 0..5000 {
        let time = NOW - 5 * SECOND + i * 10_000;
        if i == 2500 {
            recording.ring(Lane::Syscall, 0).refuse(Refusal::Throttled);
        }
        recording.push(Lane::Syscall, &event(time, 0, 7, Body::Enter(call(39, &[]))));
        let exit = Body::Exit { call: call(39, &[]), ret: 7, entered: Some(time) };
        recording.push(Lane::Syscall, &event(time + 160, 0, 7, exit));
    }
    recording
}

#[test]
fn refusals_make_a_window_incomplete() {
    let dir = flood().serve();
    let out = dump(dir.path(), &["--strict", "--event", "sys_exit"]);
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    assert_eq!(stdout(&out).lines().filter(|line| !line.starts_with('#')).count(), 5000);
    let said = stderr(&out);
    assert!(said.contains("INCOMPLETE"), "{said}");
    assert!(said.contains("lane syscall: complete on CPUs 1 (1 of 2)"), "{said}");
    assert!(said.contains("lane sched: complete on CPUs 0-1 (2 of 2)"), "{said}");
    assert!(said.contains("1 event refused (1 throttled)"), "{said}");
    assert_eq!(dump(dir.path(), &[]).status.code(), Some(0), "only --strict fails");
}

#[test]
fn what_is_not_asked_for_is_not_missing() {
    let rename = Rename { tid: 7, tgid: 7, old: [b'a'; 16], new: [b'b'; 16] };
    let mut recording = flood();
    recording.push(Lane::Task, &event(NOW - SECOND, 0, 7, Body::Rename(rename)));
    let dir = recording.serve();
    let out = dump(dir.path(), &["--strict", "--event", "rename"]);
    let said = stderr(&out);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.contains("complete on CPUs 0-1 in lanes sched, task, kernel"), "{said}");
    assert!(said.contains("gap: CPU 0, lane syscall, "), "{said}");
    let line = "not counted as missing: events of lane syscall: no event of it is asked for";
    assert!(said.contains(line), "{said}");
    let out = dump(dir.path(), &["--format", "jsonl", "--strict", "--event", "rename"]);
    let text = stdout(&out);
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["complete"], true, "{first}");
    assert_eq!(first["unasked_lanes"], serde_json::json!(["syscall"]), "{first}");
}

#[test]
fn what_is_overwritten_is_counted_exactly() {
    let mut recording = flood();
    recording.drop_pages = 3;
    let dir = recording.serve();
    let out = dump(dir.path(), &["--strict"]);
    assert_eq!(out.status.code(), Some(3));
    let shown = stdout(&out).lines().filter(|line| !line.starts_with('#')).count();
    let said = stderr(&out);
    let missing = 10_000 - shown;
    assert!(
        said.contains(&format!(
            "{missing} events missing ({0} sys_enter, {0} sys_exit)",
            missing / 2
        )),
        "{said}"
    );
    assert!(said.contains("overwritten"), "{said}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let dir = flood().serve();
    let mut child = command(&["--runtime-dir", dir.path().to_str().unwrap(), "dump"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(!stderr(&out).contains("roken pipe"), "{}", stderr(&out));
}

#[test]
fn colour_only_when_wanted() {
    let dir = small().serve();
    let has_escape = |args: &[&str]| dump(dir.path(), args).stdout.contains(&0x1b);
    assert!(!has_escape(&[]));
    assert!(has_escape(&["--color", "always"]));
    assert!(!has_escape(&["--color", "never"]));
}

#[test]
fn an_output_file_that_cannot_be() {
    let dir = small().serve();
    let out = dump(dir.path(), &["-o", "/nonexistent/out.txt"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("/nonexistent/out.txt"), "{}", stderr(&out));
}

#[test]
fn marks_and_status() {
    let dir = small().serve();
    let run = |args: &[&str]| {
        flightctl(&[&["--runtime-dir", dir.path().to_str().unwrap()], args].concat())
    };
    assert_eq!(run(&["mark", "lunch"]).status.code(), Some(0));
    let refused = run(&["mark", "refuse"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("no marks today"));
    let status = run(&["status"]);
    assert_eq!(status.status.code(), Some(0));
    assert!(stdout(&status).contains("session      ab445cfd8bb85abd"), "{}", stdout(&status));
    let json = run(&["status", "--json"]);
    let state: serde_json::Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(state["session"], "ab445cfd8bb85abd");
    assert_eq!(state["lanes"]["syscall"]["events"]["sys_enter"], 2);
    let metrics = run(&["metrics"]);
    assert_eq!(metrics.status.code(), Some(0));
    let line = "flightrec_events_total{cpu=\"0\",lane=\"syscall\",kind=\"sys_enter\"} 2\n";
    assert!(
        stdout(&metrics).contains(line) && stdout(&metrics).ends_with("# EOF\n"),
        "{}",
        stdout(&metrics)
    );
}

#[test]
fn daemons_that_misbehave() {
    let version = raw_daemon(|stream| {
        let mut frame = control::encode(&Response::Done).unwrap();
        frame[4] ^= 0x7f;
        let _ = stream.write_all(&frame);
    });
    let long = raw_daemon(|stream| drop(stream.write_all(&[0xff; 64])));
    let closed = raw_daemon(|_| {});
    let other = daemon(|_| vec![Response::Done]);
    let refused = raw_daemon(|stream| {
        let _ = stream
            .write_all(&control::encode(&Response::Error("only group flightrec".into())).unwrap());
    });
    for (dir, words) in [
        (version, "same release"),
        (long, "exceeds the limit"),
        (closed, "closed the connection"),
        (other, "an unexpected answer"),
        (refused, "only group flightrec"),
    ] {
        let out = dump(dir.path(), &[]);
        assert_eq!(out.status.code(), Some(2));
        assert!(stderr(&out).contains(words), "{words:?} is not in {}", stderr(&out));
    }
}
