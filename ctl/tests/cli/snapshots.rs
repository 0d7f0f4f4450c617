//! Snapshots: asked for, listed, shown, and read.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use flightrec_store::snapshot::{About, Summary};
use flightrec_store::{FileReader, FileWriter};

use crate::common::{NOW, Recording, SECOND, WALL, flightctl, stderr, stdout};
use crate::disk::{files, recorded};

/// Makes a snapshot of the last file of a state directory.
pub(crate) fn snapshot(dir: &Path, id: &str, about: &About) -> PathBuf {
    let from = FileReader::open(files(dir).last().unwrap()).unwrap();
    fs::create_dir_all(dir.join("snapshots")).unwrap();
    let path = dir.join(format!("snapshots/{id}.flight"));
    let header = flightrec_store::FileHeader { number: 0, ..*from.header() };
    let mut to = FileWriter::new(File::create(&path).unwrap(), &header, 1).unwrap();
    for block in from.blocks() {
        to.push(from.block(block).unwrap()).unwrap();
    }
    to.snapshot(about).unwrap();
    to.finish().unwrap();
    path
}

pub(crate) fn about(reason: &str) -> About {
    About {
        cause: "core_dump".into(),
        subject: "web\u{1b}[2J".into(),
        reason: reason.into(),
        time: NOW - SECOND,
        wall: (WALL + NOW - SECOND) as i64,
        from: NOW - 2 * SECOND,
        until: NOW - SECOND,
        held_from: NOW - 2 * SECOND,
        summary: Summary { notes: vec!["a\u{7}b".into()], ..Summary::default() },
        ..About::default()
    }
}

#[test]
fn one_is_taken_or_refused_with_a_reason() {
    let daemon = Recording::new().serve();
    let dir = daemon.path().to_str().unwrap();
    let take = |args: &[&str]| flightctl(&[&["--runtime-dir", dir, "snapshot"], args].concat());
    let out = take(&["--reason", "why", "--last", "2s"]);
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(0), "2000000000-why\n"));
    assert_eq!(stdout(&take(&["--reason", "why"])), "0-why\n");
    let out = take(&["--reason", "refuse"]);
    assert_eq!(
        (out.status.code(), stderr(&out).as_str()),
        (Some(2), "flightctl: flightd: try again in 7 s\n")
    );
    assert!(stderr(&take(&["--reason", ""])).contains("the reason is empty"));
    assert!(
        stderr(&take(&["--reason", &"x".repeat(256)]))
            .contains("the reason has 256 bytes; at most 255 fit")
    );
    assert_eq!(take(&[]).status.code(), Some(2));
}

#[test]
fn they_are_listed_shown_and_read_apart_from_the_other_files() {
    let (_recording, dir) = recorded();
    let state = dir.path().to_str().unwrap();
    let of = |args: &[&str]| {
        flightctl(&[&["--runtime-dir", "/nonexistent", "--state-dir", state], args].concat())
    };
    let none = of(&["snapshots"]);
    assert_eq!((none.status.code(), stdout(&none).as_str()), (Some(1), ""));
    assert!(stderr(&none).contains("there are no snapshots in "));

    let all = stdout(&of(&["dump", "--store", state, "--all"]));
    let path = snapshot(dir.path(), "20260101T000159Z-core-dump", &about("web died\nbadly"));
    fs::write(path.with_extension("repeats"), "{\"count\": 3, \"last\": 1767225720000000000}")
        .unwrap();
    fs::write(dir.path().join("snapshots/20260101T000158Z-broken.flight"), "no recording").unwrap();
    let list = of(&["snapshots"]);
    let text = stdout(&list);
    assert!(
        text.lines()
            .nth(1)
            .unwrap()
            .starts_with("2026-01-01 00:01:59  20260101T000159Z-core-dump "),
        "{text}"
    );
    assert!(text.contains("     3  web died\\nbadly\n") && text.lines().count() == 2, "{text}");
    assert!(stderr(&list).contains("left out: ") && list.status.code() == Some(0), "{list:?}");

    let shown = stdout(&of(&["snapshots", "show", "latest"]));
    assert!(
        shown.starts_with("core_dump: web died\\nbadly\n") && !shown.contains(['\u{1b}', '\u{7}']),
        "{shown:?}"
    );
    let json = stdout(&of(&["snapshots", "show", "20260101T000159Z-core-dump", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["repeats"], &json["cause"]), (&3.into(), &"core_dump".into()));

    // All of it is its window; what else the file holds is there for who asks.
    let id = "20260101T000159Z-core-dump";
    let calls = |out: &std::process::Output| {
        stdout(out).lines().filter(|line| line.contains("write(")).count()
    };
    let window = of(&["dump", "--snapshot", id, "--fds", "off", "--strict"]);
    assert_eq!((window.status.code(), calls(&window)), (Some(0), 1000), "{}", stderr(&window));
    let more = of(&["dump", "--snapshot", id, "--fds", "off", "--last", "3s"]);
    assert!(calls(&more) > 1000, "{}", stderr(&more));
    let unknown = of(&["dump", "--snapshot", "../x"]);
    assert!(
        unknown.status.code() == Some(2)
            && stderr(&unknown).contains("there is no snapshot \"../x\""),
        "{unknown:?}"
    );
    // The history is not told twice.
    assert_eq!(stdout(&of(&["dump", "--store", state, "--all"])), all);
    assert!(!stdout(&of(&["ls", state])).contains("core-dump"));
    assert!(stdout(&of(&["ls", path.to_str().unwrap()])).contains("core-dump"));
}
