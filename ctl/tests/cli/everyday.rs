//! What is typed every day: a file opens on its own window, times in any form, the daemon's directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;

use crate::common::{NOW, SECOND, WALL, dump, flightctl, stderr, stdout};
use crate::disk::recorded;
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

/// Saves a window of a live recording, which begins and ends before it does; the directory, the file, and what a dump of the
/// window printed.
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
    let asked = of(&["--state-dir", text(&dir), "--runtime-dir", "/nonexistent", "--snapshot", "latest"]);
    let asked = printed(&asked);
    assert_eq!(asked.matches("write(").count(), 1000);
    assert_eq!(printed(&of(&[text(&path)])), asked);
    assert_eq!(printed(&of(&["--file", text(&path)])), asked);
}

#[test]
fn files_with_windows_apart_are_told_one_behind_the_other() {
    let (_recording, dir) = recorded();
    let early = NOW - 3 * SECOND;
    let first =
        flightrec_store::snapshot::About { from: early, held_from: early, until: early + SECOND / 2, ..about("a") };
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
