//! What needs no daemon: usage, and errors that say what to do.

use crate::common::{flightctl, stderr, stdout};

#[test]
fn wrong_usage_is_status_2() {
    for args in [
        &["dump", "--no-such"][..],
        &["dump", "--last", "soon"],
        &["dump", "--all", "--last", "1s"],
        &[],
    ] {
        let out = flightctl(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", stderr(&out));
        assert!(!stderr(&out).is_empty());
    }
}

#[test]
fn help_and_version() {
    let help = flightctl(&["dump", "--help"]);
    assert_eq!(help.status.code(), Some(0));
    for option in [
        "--last",
        "--since",
        "--until",
        "--all",
        "--pid",
        "--syscall",
        "--strict",
        "--color",
        "--bpffs-dir",
    ] {
        assert!(stdout(&help).contains(option), "{option} is not in the help");
    }
    for words in
        ["Examples:\n  flightctl dump", "Exit status:\n  0  success", "3  events are missing"]
    {
        assert!(stdout(&help).contains(words), "{words:?} is not in the help");
    }
    assert_eq!(flightctl(&["--version"]).status.code(), Some(0));
}

#[test]
fn no_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    for command in [&["dump"][..], &["status"], &["metrics"], &["mark", "x"]] {
        let out = flightctl(&[&["--runtime-dir", path], command].concat());
        assert_eq!(out.status.code(), Some(2), "{command:?}");
        let error = stderr(&out);
        assert!(error.contains("flightd is not running") && error.contains(path), "{error}");
        assert!(
            error.contains("systemctl start flightd") && error.contains("--bpffs-dir"),
            "{error}"
        );
    }
}

#[test]
fn a_dead_daemons_socket_is_no_daemon() {
    let dir = tempfile::tempdir().unwrap();
    drop(std::os::unix::net::UnixListener::bind(dir.path().join("control.sock")).unwrap());
    let out = flightctl(&["--runtime-dir", dir.path().to_str().unwrap(), "status"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("flightd is not running"), "{}", stderr(&out));
}

#[test]
fn a_directory_without_rings() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["dump", "status"] {
        let out = flightctl(&["--bpffs-dir", dir.path().to_str().unwrap(), command]);
        assert_eq!(out.status.code(), Some(2));
        assert!(stderr(&out).contains("bpffs"), "{}", stderr(&out));
    }
}

#[test]
fn unknown_kinds_of_event_are_told_before_anything_is_read() {
    let out =
        flightctl(&["--runtime-dir", "/nonexistent", "dump", "--event", "sched_switch,swich"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("switch"), "{}", stderr(&out));
}

#[test]
fn times_that_make_no_sense() {
    for (args, word) in
        [(["--since=noon", "--until=now"], "14:03:07"), (["--since=-1s", "--until=-2s"], "empty")]
    {
        let out = flightctl(&["dump", args[0], args[1]]);
        assert_eq!(out.status.code(), Some(2));
        assert!(stderr(&out).contains(word), "{}", stderr(&out));
    }
}

#[test]
fn lengths_of_time_say_what_they_look_like() {
    for wrong in ["soon", "5", "-5s"] {
        let out = flightctl(&["dump", "--last", wrong]);
        assert_eq!(out.status.code(), Some(2));
        assert!(stderr(&out).contains("10s, 250ms"), "{}", stderr(&out));
    }
}
