//! Names of threads: those that were there before, new ones, renamed ones, new programs.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use flightrec_format::decode::Body;
use flightrec_tests::{Recorder, c_program, die_with_parent, key_values, require_kernel};
use nix::sys::signal::Signal;

use crate::support::{dump, share_recorder, snapshot, start};

#[test]
fn threads_are_named_at_every_moment() {
    require_kernel();
    let mut command = Command::new(c_program("names", &[]));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = die_with_parent(&mut command, Signal::SIGKILL).spawn().expect("names");
    let mut output = BufReader::new(program.stdout.take().expect("its output"));
    let mut printed = String::new();
    for _ in 0..2 {
        output.read_line(&mut printed).expect("two lines");
    }
    let ids = key_values(printed.as_bytes());
    let [pid, thread]: [u32; 2] = ["pid", "thread"].map(|key| ids[key].parse().expect("an id"));

    // It lives, and only then the recorder begins.
    let recorder = start("");
    program.stdin.take().expect("its input").write_all(b"x").expect("write");
    assert!(program.wait().expect("wait").success());
    output.read_to_string(&mut printed).expect("the rest");

    let lines = dump(&recorder, &["--last", "1h", "--pid", &pid.to_string()]);
    let names = |tid, text: &str| -> Vec<&str> {
        let matching = lines.iter().filter(|line| line.tid == tid && line.text == text);
        matching.map(|line| &*line.comm).collect()
    };
    assert_eq!(names(thread, "getppid() -->"), ["early-thread", "late-thread"]);
    assert_eq!(names(thread, r#"(RENAME) "early-thread" -> "late-thread""#), ["early-thread"]);
    assert_eq!(names(thread, "(EXIT) status 0"), ["late-thread"]);
    assert_eq!(names(pid, "getppid() -->"), ["names"]);
    let exec = lines.iter().find(|line| line.text.starts_with("(EXEC)")).expect("its exec");
    assert!(
        exec.text.starts_with(r#"(EXEC) "/bin/true" ["true", "one argument"] cgroup:"#),
        "{}",
        exec.text
    );
    let end = lines
        .iter()
        .rfind(|line| line.tid == pid && line.text == "(EXIT) status 0")
        .expect("its end");
    assert_eq!(end.comm, "true");

    // By name, which it had only part of the time.
    let late = dump(&recorder, &["--last", "1h", "--comm", "late-thread", "--syscall", "getppid"]);
    assert!(late.iter().all(|line| line.tid == thread) && !late.is_empty(), "{late:?}");
}

fn every_thread_that_does_anything_is_known(recorder: &Recorder) {
    let work =
        Command::new("sh").args(["-c", "sleep 0.1; ls / | wc -l"]).stdout(Stdio::null()).status();
    assert!(work.expect("sh").success());
    let mut unnamed = dump(recorder, &["--last", "1h"]);
    // A virtual machine's kernel may hide threads of its host's agent from BPF: then they are only
    // ever switched to, and are in no other event, nor in the table of threads.
    unnamed.retain(|line| {
        line.comm == "?" && !(line.text.starts_with("?[") && line.text.ends_with(" -->"))
    });
    assert_eq!(unnamed, []);
}

fn a_fork_and_its_end_are_recorded(recorder: &Recorder) {
    let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().expect("sh");
    assert_eq!(child.wait().expect("wait").code(), Some(3));
    let snapshot = snapshot(recorder);
    let mut life = Vec::new();
    for event in &snapshot.events {
        match &event.body {
            Body::Fork(fork) if fork.tid == child.id() => {
                assert_eq!((fork.tgid, fork.parent_tgid), (child.id(), std::process::id()));
                life.push("fork");
            }
            Body::Exec { exec, .. } if exec.tid == child.id() => {
                assert_eq!(&exec.comm[..3], b"sh\0");
                life.push("exec");
            }
            Body::TaskExit(exit) if exit.tid == child.id() => {
                assert_eq!(exit.code, 3 << 8);
                life.push("exit");
            }
            _ => {}
        }
    }
    assert_eq!(life, ["fork", "exec", "exit"]);
}

share_recorder!(every_thread_that_does_anything_is_known, a_fork_and_its_end_are_recorded);
