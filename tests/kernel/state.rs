//! What `status --json` and `metrics` say of a running recorder, and of one whose daemon has died.

use std::fs;

use flightrec_tests::{PATIENCE, Recorder, numbered_call, wait_until};
use nix::mount::{MntFlags, umount2};
use serde_json::Value;

use crate::support::start;

fn state(recorder: &Recorder, args: &[&str]) -> Value {
    let output = recorder.flightctl(&[args, &["status", "--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn metrics(recorder: &Recorder, args: &[&str]) -> String {
    let output = recorder.flightctl(&[args, &["metrics"]].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The sum of all samples of a metric whose labels have all of `labels`.
fn sum(text: &str, name: &str, labels: &[&str]) -> f64 {
    let series = text
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    let wanted = series.filter(|line| labels.iter().all(|label| line.contains(label)));
    wanted.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

fn events(state: &Value, lane: &str, kind: &str) -> f64 {
    state["lanes"][lane]["events"][kind]
        .as_f64()
        .unwrap_or_else(|| panic!("no {lane} {kind} in {state:#}"))
}

/// The file system goes from its place; the programs live on in it, as flightd has it open.
#[test]
fn a_bpffs_that_is_unmounted_lazily_is_told_and_nothing_made_up() {
    let recorder = start("");
    let before = state(&recorder, &[]);
    assert!(before["unpinned"].is_null(), "{before:#}");
    umount2(&recorder.sandbox().bpffs_dir(), MntFlags::MNT_DETACH).expect("umount");
    for i in 0..1000 {
        numbered_call(i);
    }
    let after = state(&recorder, &[]);
    assert_eq!(
        after["cpus"].as_array().map(Vec::len),
        before["cpus"].as_array().map(Vec::len),
        "{after:#}"
    );
    let counted = events(&after, "syscall", "sys_enter") - events(&before, "syscall", "sys_enter");
    assert!(counted >= 1000.0, "{counted}");
    assert_eq!(
        (&after["level"], &after["unpinned"]["recording"]),
        (&before["level"], &Value::from(true))
    );
    let text = recorder.flightctl(&["status"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("NOT REACHABLE: "), "{text:?}");
}

/// Somebody deletes what keeps the programs attached.
#[test]
fn links_that_are_deleted_are_told_as_the_end_of_recording() {
    let recorder = start("");
    for pin in recorder.sandbox().pins().expect("pins") {
        if pin.parent().is_some_and(|dir| dir.ends_with("links")) {
            fs::remove_file(&pin).expect("a link");
        }
    }
    let stopped = || state(&recorder, &[])["level"] == "stopped";
    assert!(wait_until(PATIENCE, stopped), "{:#}", state(&recorder, &[]));
    let text = recorder.flightctl(&["status"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("NOTHING IS RECORDED"), "{text:?}");
    assert!(recorder.log().contains("nothing is recorded any more"), "{}", recorder.log());
}

#[test]
fn both_count_what_happens() {
    let recorder = start("");
    let before = state(&recorder, &[]);
    for i in 0..1000 {
        numbered_call(i);
    }
    let text = metrics(&recorder, &[]);
    let after = state(&recorder, &[]);
    let counted = sum(&text, "flightrec_events_total", &["lane=\"syscall\"", "kind=\"sys_enter\""]);
    assert!(counted >= events(&before, "syscall", "sys_enter") + 1000.0, "{counted}");
    assert!(counted <= events(&after, "syscall", "sys_enter"), "{counted}");
    let by_cpu: f64 = after["cpus"]
        .as_array()
        .expect("CPUs")
        .iter()
        .map(|cpu| cpu["lanes"]["sched"]["events"]["switch"].as_f64().expect("a number"))
        .sum();
    assert!(
        (by_cpu - events(&after, "sched", "switch")).abs() < 0.5,
        "the CPUs' sum is the lane's"
    );
    assert_eq!(after["daemon"]["pid"], recorder.pid());
    assert_eq!(after["session"], before["session"]);
    assert!(after["recording_seconds"].as_f64() > before["recording_seconds"].as_f64());
    assert!(
        (sum(&text, "flightrec_daemon_up", &[]) - 1.0).abs() < 0.5 && text.ends_with("\n# EOF\n"),
        "{text}"
    );
    assert!(sum(&text, "flightrec_daemon_cpu_seconds_total", &[]) > 0.0);
}

#[test]
fn a_dead_daemons_recording_is_told_from_the_rings() {
    let mut recorder = start("");
    let before = state(&recorder, &[]);
    recorder.kill();
    for i in 0..100 {
        numbered_call(i);
    }
    let bpffs = recorder.sandbox().bpffs_dir();
    let args = ["--bpffs-dir", bpffs.to_str().expect("UTF-8")];
    let after = state(&recorder, &args);
    assert_eq!((&after["source"], &after["daemon"]), (&Value::from("pinned"), &Value::Null));
    for same in ["session", "memory_bytes", "syscall_programs", "level"] {
        assert_eq!(after[same], before[same], "{same}");
    }
    assert!(
        events(&after, "syscall", "sys_enter") >= events(&before, "syscall", "sys_enter") + 100.0
    );
    assert!(sum(&metrics(&recorder, &args), "flightrec_daemon_up", &[]) < 0.5);
}
