//! `flightctl diff`: what a program does differently in two windows.

use std::process::{Command, Stdio};

use flightrec_tests::monotonic_ns;
use serde_json::Value;

use crate::support::{own, start};

/// Runs a script; from when to when, UNIX time in seconds, as `--a` takes it.
fn window(script: &str) -> String {
    let now = || {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock");
        format!("{}.{:09}", since.as_secs(), since.subsec_nanos())
    };
    let (from, begun) = (now(), monotonic_ns());
    let status = Command::new("bash").args(["-c", script]).stdin(Stdio::null()).status();
    assert!(status.expect("bash").success());
    assert!(monotonic_ns() > begun);
    format!("{from}..{}", now())
}

#[test]
fn what_is_new_gone_and_slower() {
    let recorder = start("");
    let before = window("for i in {1..30}; do sleep 0.001; done; cat /etc/hostname /etc/passwd");
    let after = window("for i in {1..30}; do sleep 0.03; done; cat /no/such/file || true");
    let [tree, own] = own();
    let args = ["diff", "--a", &before, "--b", &after, "--comm", "sleep,cat", &tree, &own];
    let args = [&args[..], &["--format", "json", "--top", "1000"]].concat();
    let output = recorder.flightctl(&args);
    assert!(output.status.success(), "{output:?}");
    let diff: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let changes = diff["changes"].as_array().expect("a list");
    let find = |topic: &str, keys: &[(&str, &str)]| {
        let is_it = |of: &&Value| {
            of["topic"] == topic && keys.iter().all(|(key, value)| of["keys"][*key] == *value)
        };
        changes.iter().find(is_it).unwrap_or_else(|| panic!("{topic} {keys:?} in {diff:#}"))
    };
    let sleep = find("calls", &[("comm", "sleep"), ("syscall", "clock_nanosleep")]);
    assert_eq!((&sleep["change"], &sleep["a"]["count"]), (&"slower".into(), &30.into()), "{sleep}");
    assert!(sleep["b"]["average_ns"].as_u64() >= Some(30_000_000), "{sleep}");
    let gone = find("files", &[("comm", "cat"), ("file", "/etc/passwd"), ("op", "read")]);
    assert_eq!(gone["change"], "gone");
    // Who compares a window with itself finds nothing.
    let same = ["diff", "--a", &before, "--b", &before, "--comm", "sleep,cat", &tree, &own];
    let output = recorder.flightctl(&same);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    // A wait for the time to pass is no change of waits.
    let is_wait = |of: &&Value| of["topic"] == "waits" && of["keys"]["comm"] == "sleep";
    let timers = changes
        .iter()
        .filter(is_wait)
        .filter(|of| of["keys"]["reason"].as_str().is_some_and(|reason| reason.contains("timer")));
    assert_eq!(timers.count(), 0);
}
