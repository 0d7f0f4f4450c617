//! Where the recorder's files are, who may read them, and what is not overwritten.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use flightrec_format::control::{Response, StoreStatus};
use tempfile::TempDir;

use crate::common::{Recording, daemon, dump, flightctl, status, stderr, stdout, usual};
use crate::disk::recorded;
use crate::everyday::text;
use crate::snapshots::{about, snapshot};

/// A daemon that says where its files are.
fn daemon_of(state_dir: &Path) -> TempDir {
    let directory = text(state_dir).to_owned();
    daemon(move |_| {
        let store = StoreStatus { directory: directory.clone(), ..StoreStatus::default() };
        vec![Response::Status(Box::new(flightrec_format::control::Status { store, ..status() }))]
    })
}

/// The program as it runs for a user without rights.
fn as_nobody(args: &[&str]) -> Output {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("flightctl");
    fs::copy(env!("CARGO_BIN_EXE_flightctl"), &program).unwrap();
    let mut command = Command::new(&program);
    usual(&mut command).args(args);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65534).gid(65534);
    }
    command.output().unwrap()
}

/// A directory that only its owner may look into, and its owner not either unless it is root.
fn closed(dir: &TempDir) -> &Path {
    fs::set_permissions(dir.path(), Permissions::from_mode(0o000)).unwrap();
    dir.path()
}

#[test]
fn files_are_listed_and_checked_where_the_daemon_has_them() {
    let (_recording, dir) = recorded();
    let daemon = daemon_of(dir.path());
    let of = |command: &str| flightctl(&["--runtime-dir", text(&daemon), command]);
    let (list, verified) = (of("ls"), of("verify"));
    assert_eq!(list.status.code(), Some(0), "{}", stderr(&list));
    assert!(stdout(&list).contains(text(&dir)), "{}", stdout(&list));
    assert_eq!(verified.status.code(), Some(0), "{}", stderr(&verified));
    // What is typed counts more.
    let out = flightctl(&["--runtime-dir", text(&daemon), "--state-dir", "/nonexistent", "ls"]);
    assert!(stderr(&out).contains("/nonexistent does not exist"), "{}", stderr(&out));
}

#[test]
fn without_rights_it_is_access_that_is_missing() {
    let (_recording, dir) = recorded();
    snapshot(dir.path(), "20260101T000159Z-core-dump", &about("web died"));
    let run = Recording::new().serve();
    let (run, state) = (closed(&run), closed(&dir));
    let commands: [&[&str]; 7] = [
        &["snapshots"],
        &["snapshots", "show", "latest"],
        &["ls"],
        &["verify"],
        &["dump"],
        &["dump", "--list-boots"],
        &["dump", "--snapshot", "latest"],
    ];
    for command in commands {
        for place in [["--runtime-dir", text(run)], ["--state-dir", text(state)]] {
            let nowhere: &[&str] =
                if place[0] == "--state-dir" { &["--runtime-dir", "/nonexistent"] } else { &[] };
            let out = as_nobody(&[&place[..], nowhere, command].concat());
            let said = stderr(&out);
            assert_eq!(out.status.code(), Some(2), "{command:?} {place:?}: {said}");
            assert!(
                said.contains("no access to ") && said.contains("group flightrec"),
                "{command:?} {place:?}: {said}"
            );
            assert!(
                !said.contains("there are no snapshots") && !said.contains("does not exist"),
                "{command:?}: {said}"
            );
        }
    }
    let doctor = as_nobody(&["--runtime-dir", text(run), "doctor"]);
    let recording = stdout(&doctor).lines().take(2).collect::<Vec<_>>().join("\n");
    assert!(recording.starts_with("? ") && recording.contains("no access to "), "{recording}");
    assert!(!recording.contains("systemctl"), "{recording}");
    // So that they can be removed.
    for dir in [run, state] {
        fs::set_permissions(dir, Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn a_dump_overwrites_nothing_unless_told() {
    let (recording, dir) = recorded();
    let daemon = recording.serve();
    let file = dir.path().join("out.txt");
    fs::write(&file, "precious").unwrap();
    let link = dir.path().join("link.txt");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    // A link may be somebody else's: it is neither followed nor replaced.
    let refusals = [(&file, "exists: --force replaces it"), (&link, "is a link or no file")];
    for (path, words) in refusals {
        let out = dump(daemon.path(), &["--last", "1s", "-o", text(path)]);
        assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
        assert!(stderr(&out).contains(words), "{}", stderr(&out));
        let out = flightctl(&[
            "--runtime-dir",
            text(&daemon),
            "follow",
            "--for",
            "10ms",
            "-o",
            text(path),
        ]);
        assert!(stderr(&out).contains(words), "{}", stderr(&out));
    }
    let force = ["-o", text(&link), "--force"];
    for command in ["dump", "page", "save"] {
        let args = [&["--runtime-dir", text(&daemon), command, "--last", "1s"], &force[..]];
        let out = flightctl(&args.concat());
        assert_eq!(out.status.code(), Some(2), "{command}: {}", stderr(&out));
        assert!(stderr(&out).contains("is a link or no file"), "{command}: {}", stderr(&out));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    // Whoever may read the file that is replaced has nothing of what replaces it.
    let mut old = fs::File::open(&file).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    // What fails before it writes anything leaves it as well.
    let out = dump(daemon.path(), &["--force", "--syscall", "wriet", "-o", text(&file)]);
    assert_eq!((out.status.code(), &*fs::read_to_string(&file).unwrap()), (Some(2), "precious"));
    let out = dump(daemon.path(), &["--last", "1s", "--force", "-o", text(&file)]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(fs::read_to_string(&file).unwrap().starts_with("# coverage: "));
    let (mut before, mode) = (String::new(), file.metadata().unwrap().permissions().mode());
    old.read_to_string(&mut before).unwrap();
    assert_eq!((&*before, mode & 0o7777 & !0o640), ("precious", 0));
    // A device is none that could be lost.
    let out = dump(daemon.path(), &["--last", "1s", "-o", "/dev/null"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
}
