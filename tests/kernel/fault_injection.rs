//! The commands of docs/fault-injection.md that this machine can run, and what the page says of the
//! recording.

use std::process::{Command, Output, Stdio};

use flightrec_tests::Recorder;
use serde_json::Value;
use tempfile::TempDir;

use crate::json::valid_dump;
use crate::support::{own, share_recorder, start};

const PAGE: &str = include_str!("../../docs/fault-injection.md");

/// The commands below `# tested: NAME`.
fn commands(name: &str) -> &'static str {
    let mark = format!("```sh\n# tested: {name}\n");
    let (_, after) = PAGE.split_once(&mark).unwrap_or_else(|| panic!("no {name} in the page"));
    after.split_once("```").expect("its end").0
}

/// Runs them in a directory of their own.
fn run(name: &str) -> Output {
    let dir = TempDir::new().expect("directory");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(commands(name)).current_dir(dir.path()).stdin(Stdio::null());
    shell.output().expect("sh")
}

fn calls(recorder: &Recorder, comm: &str) -> Vec<Value> {
    let [tree, own] = own();
    let of = ["--last", "1h", "--comm", comm, "--event", "sys_enter,sys_exit", &tree, &own];
    valid_dump(recorder, &of)
}

fn strace_lets_a_call_fail(recorder: &Recorder) {
    let output = run("strace-error");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("fsync failed"), "{output:?}");
    let calls = calls(recorder, "dd");
    // Neither the call nor its error is to be seen, but what stands in its place.
    assert!(calls.iter().all(|call| call["syscall"] != "fsync" && call["errno"] != "EIO"));
    let ends: Vec<&Value> = calls.iter().filter(|call| call["errno"] == "ENOSYS").collect();
    assert_eq!(ends.len(), 1, "{calls:#?}");
    let place = calls.iter().position(|call| call["syscall"] == "syscall_-1");
    let place = place.unwrap_or_else(|| panic!("no call -1 in {calls:#?}"));
    assert_eq!(&calls[place + 1], ends[0]);
    // What the program does then: it says so.
    let rest = &calls[place + 2..];
    assert!(rest.iter().any(|call| call["syscall"] == "write"), "{rest:#?}");
}

fn strace_delays_a_call(recorder: &Recorder) {
    let output = run("strace-delay");
    assert!(output.status.success(), "{output:?}");
    let calls = calls(recorder, "rm");
    let end =
        calls.iter().position(|call| call["event"] == "sys_exit" && call["syscall"] == "unlinkat");
    let end = end.unwrap_or_else(|| panic!("no unlinkat in {calls:#?}"));
    let at = |call: &Value| call["mono_ns"].as_u64().expect("a number");
    let apart = at(&calls[end + 1]) - at(&calls[end]);
    assert!(apart >= 50_000_000, "{apart} ns after it");
    let switches = valid_dump(recorder, &["--last", "1h", "--comm", "rm", "--event", "switch"]);
    let traced = switches.iter().any(|switch| switch.to_string().contains("TASK_TRACED"));
    assert!(traced, "{switches:#?}");
}

fn a_disk_without_room_fails_requests_and_the_call(recorder: &Recorder) {
    let output = run("full-loop");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("fsync failed"), "{output:?}");
    let failed = valid_dump(recorder, &["--last", "1h", "--event", "block_complete"]);
    let failed = failed.iter().filter(|event| event["error"] == "ENOSPC");
    assert!(failed.count() > 0, "no request failed");
    let calls = calls(recorder, "dd");
    let synced = calls.iter().find(|call| call["syscall"] == "fsync" && call["errno"] == "EIO");
    assert!(synced.is_some(), "{calls:#?}");
}

/// A recorder changes nothing by itself: the same commands without the tools succeed beside it.
#[test]
fn nothing_fails_by_the_recorder() {
    let recorder = start("");
    let dir = TempDir::new().expect("directory");
    let dd = ["if=/dev/zero", "of=data", "bs=4k", "count=1", "conv=fsync"];
    let output = Command::new("dd").args(dd).current_dir(dir.path()).output().expect("dd");
    assert!(output.status.success(), "{output:?}");
    let calls = calls(&recorder, "dd");
    let synced =
        calls.iter().find(|call| call["event"] == "sys_exit" && call["syscall"] == "fsync");
    assert_eq!(synced.expect("its call")["ret"], 0);
}

share_recorder!(
    strace_lets_a_call_fail,
    strace_delays_a_call,
    a_disk_without_room_fails_requests_and_the_call
);
