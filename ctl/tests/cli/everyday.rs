//! What is typed every day: a file opens on its own window, times in any form, the daemon's
//! directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Fork, TaskExit};
use flightrec_format::decode::{Body, Event};
use flightrec_store::snapshot::{About, Failure, Hog, Involved, Summary, Thread, Wait};
use tempfile::TempDir;

use crate::common::{NOW, Recording, SECOND, WALL, command, dump, flightctl, meta, stderr, stdout};
use crate::disk::{Disk, calls, recorded};
use crate::snapshots::{about, snapshot};

pub(crate) fn text<P: AsRef<Path> + ?Sized>(path: &P) -> &str {
    path.as_ref().to_str().unwrap()
}

/// A moment so many seconds before the end, as typed.
pub(crate) fn ago(seconds: u64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(WALL + NOW - seconds * SECOND)).unwrap().to_string()
}

/// Events and coverage: all that a dump prints.
fn printed(out: &Output) -> String {
    assert!(matches!(out.status.code(), Some(0)), "{}", stderr(out));
    stdout(out)
}

/// Saves a window of a live recording, which begins and ends before it does; the directory, the
/// file, and what a dump of the window printed.
fn saved() -> (TempDir, PathBuf, String) {
    let (recording, _) = recorded();
    let daemon = recording.serve();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("incident.flight");
    let (since, until) = (ago(8), ago(5));
    let window = ["--since", &since, "--until", &until, "--strict"];
    let args = ["--runtime-dir", text(&daemon), "save", "-o", text(&file)];
    let out = flightctl(&[&args[..], &window].concat());
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let live = dump(daemon.path(), &[&["--fds", "off"], &window[..]].concat());
    (dir, file, printed(&live))
}

#[test]
fn a_saved_file_opens_on_its_own_window() {
    let (_dir, file, live) = saved();
    assert_eq!(live.matches("write(").count(), 3000);
    let of = |args: &[&str]| flightctl(&[&["dump", "--fds", "off", "--strict"], args].concat());
    assert_eq!(printed(&of(&["--file", text(&file)])), live);
    assert_eq!(printed(&of(&[text(&file)])), live, "by its name alone");
    // Another window is another one, and all of it is more than it was saved of.
    let last = of(&["--last", "10s", text(&file)]);
    assert!(stdout(&last).matches("write(").count() > 3000, "{}", stderr(&last));
    let all = of(&["--all", text(&file)]);
    assert!(stdout(&all).matches("write(").count() > 3000, "{}", stderr(&all));
}

#[test]
fn a_snapshots_file_opens_on_its_own_window() {
    let (_recording, dir) = recorded();
    let path = snapshot(dir.path(), "20260101T000159Z-core-dump", &about("web died"));
    let of = |args: &[&str]| flightctl(&[&["dump", "--fds", "off", "--strict"], args].concat());
    let asked =
        of(&["--state-dir", text(&dir), "--runtime-dir", "/nonexistent", "--snapshot", "latest"]);
    let asked = printed(&asked);
    assert_eq!(asked.matches("write(").count(), 1000);
    assert_eq!(printed(&of(&[text(&path)])), asked);
    assert_eq!(printed(&of(&["--file", text(&path)])), asked);
}

#[test]
fn files_with_windows_apart_are_told_one_after_the_other() {
    let (_recording, dir) = recorded();
    let early = NOW - 3 * SECOND;
    let first = About { from: early, held_from: early, until: early + SECOND / 2, ..about("a") };
    let first = snapshot(dir.path(), "20260101T000157Z-a", &first);
    let second = snapshot(dir.path(), "20260101T000158Z-b", &about("b"));
    let out = flightctl(&["dump", "--fds", "off", "--strict", text(&second), text(&first)]);
    assert_eq!(printed(&out).matches("write(").count(), 1500, "{}", stderr(&out));
    assert_eq!(stdout(&out).matches("# coverage: ").count(), 2, "{}", stderr(&out));
}

#[test]
fn a_file_that_is_saved_again_keeps_its_window() {
    let (dir, file, live) = saved();
    let again = dir.path().join("again.flight");
    let out = flightctl(&["save", "--file", text(&file), "-o", text(&again), "--strict"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert_eq!(printed(&flightctl(&["dump", "--fds", "off", text(&again)])), live);
    assert!(fs::metadata(&again).unwrap().len() > 0);
}

#[test]
fn around_a_time_is_some_seconds_before_and_after_it() {
    let (recording, _) = recorded();
    let daemon = recording.serve();
    let of = |args: &[&str]| dump(daemon.path(), &[&["--fds", "off"], args].concat());
    let (since, until) = (ago(7), ago(3));
    let expected = printed(&of(&["--since", &since, "--until", &until]));
    for around in
        [format!("{}:2s", ago(5)), "@1767225715:2s".into(), "1767225715000000000:2s".into()]
    {
        assert_eq!(printed(&of(&["--around", &around])), expected, "{around}");
    }
    let ten = printed(&of(&["--around", &ago(5)]));
    assert_eq!(ten.matches("write(").count(), 10_000, "5 s on either side");
    // After the present there is nothing yet.
    let recent = printed(&of(&["--around", "-2s"]));
    assert_eq!(recent.matches("write(").count(), 7_000);
}

#[test]
fn times_are_taken_as_programs_print_them() {
    let (recording, _) = recorded();
    let daemon = recording.serve();
    let of = |args: &[&str]| dump(daemon.path(), &[&["--fds", "off"], args].concat());
    let expected = printed(&of(&["--since", &ago(7), "--until", &ago(5)]));
    let (since, until) = ((WALL + NOW - 7 * SECOND) / SECOND, (WALL + NOW - 5 * SECOND) / SECOND);
    for (since, until) in [
        (format!("{since}"), format!("{until}.000")),
        (format!("@{since}"), format!("@{until}")),
        (format!("{since}000000000"), format!("{until}000000000")),
    ] {
        assert_eq!(printed(&of(&["--since", &since, "--until", &until])), expected, "{since}");
    }
    for wrong in
        ["1767225715000", "1767225715000000", "@", "@x", "-1767225715", "17672257150000000000000"]
    {
        let out = of(&["--since", wrong]);
        assert_eq!(out.status.code(), Some(2), "{wrong}");
    }
    assert!(stderr(&of(&["--since", "1767225715000"])).contains("seconds since 1970"));
}

#[test]
fn windows_that_are_not_what_they_seem_are_told() {
    let (recording, _) = recorded();
    let daemon = recording.serve();
    for args in [
        &["dump", "--last", "0s"][..],
        &["snapshot", "--last", "0ms", "--reason", "x"],
        &["dump", "--around", "now:0s"],
    ] {
        let out = flightctl(&[&["--runtime-dir", text(&daemon)], args].concat());
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(stderr(&out).contains("an empty window"), "{}", stderr(&out));
    }
    let out = dump(daemon.path(), &["--until", "-5s"]);
    let said = "everything that is recorded up to --until, as no --since is given";
    assert!(stderr(&out).contains(said), "{}", stderr(&out));
    assert_eq!(stdout(&out).matches("write(").count(), 10_000);
    assert!(!stderr(&dump(daemon.path(), &["--since", "-8s", "--until", "-5s"])).contains(said));
}

#[test]
fn the_runtime_directory_comes_from_the_environment() {
    let (recording, _) = recorded();
    let daemon = recording.serve();
    for args in
        [&["dump", "--last", "1s"][..], &["status"], &["metrics"], &["mark", "x"], &["budget"]]
    {
        let out = command(args).env("FLIGHTREC_RUNTIME_DIR", daemon.path()).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{args:?}: {}", stderr(&out));
        // What is typed counts more.
        let typed = [&["--runtime-dir", "/nonexistent"], args].concat();
        let out = command(&typed).env("FLIGHTREC_RUNTIME_DIR", daemon.path()).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", stderr(&out));
    }
}

#[test]
fn a_snapshot_is_shown_by_its_file() {
    let (_recording, dir) = recorded();
    let path = snapshot(dir.path(), "20260101T000159Z-core-dump", &about("web died"));
    let of = |args: &[&str]| flightctl(&[&["--runtime-dir", "/nonexistent"], args].concat());
    let by_id = of(&["--state-dir", text(&dir), "snapshots", "show", "latest"]);
    let moved = dir.path().join("carried-away");
    fs::rename(&path, &moved).unwrap();
    let by_file = of(&["snapshots", "show", text(&moved)]);
    let last_line = |shown: String| shown.lines().last().map(str::to_owned);
    let (by_id, by_file) = (printed(&by_id), printed(&by_file));
    assert_eq!(by_file.lines().next(), Some("core_dump: web died"));
    assert_eq!(by_file.lines().count(), by_id.lines().count(), "{by_file}");
    assert_eq!(last_line(by_file).as_deref(), Some(&*format!("flightctl dump {}", text(&moved))));
    let json = printed(&of(&["snapshots", "show", text(&moved), "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["path"], &json["reason"]), (&text(&moved).into(), &"web died".into()));
    let (_kept, saved, _) = saved();
    assert!(printed(&of(&["snapshots", "show", text(&saved)])).contains("saved by flightctl save"));
    for (wrong, said) in [
        ("/nonexistent/x.flight", "there is no snapshot \"/nonexistent/x.flight\", nor a file"),
        (text(&dir), "is a directory"),
        ("./x", "there is no snapshot \"./x\""),
    ] {
        let out = of(&["snapshots", "show", wrong]);
        assert!(
            out.status.code() == Some(2) && stderr(&out).contains(said),
            "{wrong}: {}",
            stderr(&out)
        );
    }
}

#[test]
fn threads_that_the_first_answer_could_not_name_are_named_by_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::new();
    let disk = Disk::new(dir.path(), meta(), WALL, 60);
    let comm = |name: &str| std::array::from_fn(|i| name.as_bytes().get(i).copied().unwrap_or(0));
    let end = calls(&mut recording, NOW - 3 * SECOND, 0..2500);
    // It dies after the window, and before the recorder looks who lives.
    let exit = TaskExit { tid: 7, tgid: 5, code: 9, left: 0, start_time: 0, comm: comm("victim") };
    recording.push(
        Lane::Task,
        &Event { time: end - SECOND / 4, cpu: 1, tid: 7, body: Body::TaskExit(exit) },
    );
    // Its id is another's then, which is not meant.
    let fork = Fork {
        parent_tid: 1,
        parent_tgid: 1,
        tid: 7,
        tgid: 7,
        comm: comm("other"),
        cgroup: 0,
        start_time: 0,
        shares: 0,
    };
    recording.push(
        Lane::Task,
        &Event { time: end - SECOND / 8, cpu: 1, tid: 1, body: Body::Fork(fork) },
    );
    disk.close(&mut recording, end);
    let unknown = |tid| Thread { tid, tgid: 0, name: "?".into() };
    let involved = Involved { thread: unknown(7), ..Involved::default() };
    let waits = vec![Wait { thread: unknown(99), waker: Some(unknown(7)), ..Wait::default() }];
    let hogs = vec![Hog { thread: unknown(7), ns: 5 }];
    let failures =
        vec![Failure { thread: unknown(7), call: "read".into(), error: "EIO".into(), count: 1 }];
    let summary = Summary { involved: vec![involved], waits, hogs, failures, ..Summary::default() };
    let path =
        snapshot(dir.path(), "20260101T000159Z-oom", &About { summary, ..about("out of memory") });
    let of = |args: &[&str]| {
        flightctl(&[&["--runtime-dir", "/nonexistent", "--state-dir", text(&dir)], args].concat())
    };
    let dumped = printed(&of(&["dump", "--snapshot", "latest", "--fds", "off"]));
    assert!(dumped.contains(" 7 victim "), "{dumped}");
    for args in [&["snapshots", "show", "latest"][..], &["snapshots", "show", text(&path)]] {
        let shown = printed(&of(args));
        assert_eq!(shown.matches("victim (7 of 5)").count(), 4, "{shown}");
        assert!(shown.contains("? (99)"), "nobody knows it: {shown}");
    }
    let json = printed(&of(&["snapshots", "show", "latest", "--json"]));
    assert_eq!(json.matches("\"victim\"").count(), 4, "{json}");
}

#[test]
fn top_shows_the_past_as_a_table() {
    let (recording, dir) = recorded();
    let daemon = recording.serve();
    let live = ["--runtime-dir", text(&daemon)];
    let rate = |args: &[&str]| {
        let out = flightctl(args);
        let table = printed(&out);
        assert!(stderr(&out).contains("complete on CPUs 0-1"), "{}", stderr(&out));
        let line = table
            .lines()
            .find(|line| line.starts_with("      7       7 "))
            .unwrap_or_else(|| panic!("{table}"));
        line.split_whitespace().nth(4).unwrap().parse::<u64>().unwrap()
    };
    // One call a millisecond, in the last 15 of 20 s.
    assert_eq!(rate(&[&live[..], &["top", "--last", "10s"]].concat()), 1000);
    assert_eq!(rate(&[&live[..], &["top", "--around", &ago(15), "--sort", "run"]].concat()), 500);
    assert_eq!(rate(&["top", "--store", text(&dir), "--last", "3s"]), 1000);
    let (_kept, file, _) = saved();
    assert_eq!(rate(&["top", text(&file)]), 1000);
    assert_eq!(rate(&["top", "--file", text(&file)]), 1000);
    let path = snapshot(dir.path(), "20260101T000159Z-core-dump", &about("web died"));
    assert_eq!(rate(&["top", text(&path)]), 1000);
    let out = flightctl(&["top", text(&file), "--filter", "nobody"]);
    assert_eq!((out.status.code(), stdout(&out).lines().count()), (Some(1), 1));
    for wrong in [&["top", "--last", "1s", "--interval", "2s"][..], &["top", "--session", "1"]] {
        assert_eq!(flightctl(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_filter_that_matches_nothing_says_what_to_try() {
    let (recording, _) = recorded();
    let daemon = recording.serve();
    let of = |args: &[&str]| {
        let out = dump(daemon.path(), args);
        assert_eq!(
            (out.status.code(), stdout(&out).matches("write(").count()),
            (Some(1), 0),
            "{args:?}"
        );
        stderr(&out)
    };
    let said = of(&["--pid", "4711"]);
    assert!(
        said.contains("no event matches the filters:\n  no process 4711 is known for that time\n"),
        "{said}"
    );
    assert!(said.contains("a wider window may have some"), "{said}");
    assert!(of(&["--path", "/x", "--fds", "near"]).contains("--fds all"));
    assert!(
        of(&["--comm", "nobody", "--format", "jsonl"]).contains("no thread was named `nobody`")
    );
    assert!(!of(&["--all", "--pid", "4711"]).contains("a wider window"));
    // What is not filtered is only not there.
    assert!(!of(&["--since", "-19s", "--until", "-18s"]).contains("filters"));
    let found = dump(daemon.path(), &["--tid", "7"]);
    assert!(
        found.status.code() == Some(0) && !stderr(&found).contains("filters"),
        "{}",
        stderr(&found)
    );
}

#[test]
fn top_uses_the_width_that_it_has() {
    let (_kept, file, _) = saved();
    let of = |columns: &str| {
        let out = command(&["top", text(&file)]).env("COLUMNS", columns).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
        stdout(&out)
    };
    let (narrow, wide) = (of("80"), of("140"));
    assert!(!narrow.contains("write(") && narrow.lines().all(|line| line.len() <= 80), "{narrow}");
    assert!(
        wide.contains("  write(9999, NULL, 0)\n") && wide.lines().all(|line| line.len() <= 140),
        "{wide}"
    );
}
