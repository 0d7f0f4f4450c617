//! What was given up of calls that are recorded belongs to the coverage of the questions that ask
//! for it.

use std::path::Path;
use std::process::{Command, Stdio};

use flightrec_format::totals::CpuTotals;
use flightrec_tests::{PATIENCE, Recorder, c_program, online_cpus, wait_until};
use serde_json::Value;

use crate::fairness::open;
use crate::support::{Printed, run, snapshot, start};

/// Strings are given up long before calls are refused.
const STRINGS: &str = "[budget]\ntotal = \"off\"\nper_cpu = \"1%\"\nburst = \"1s\"\n\
                       degrade_order = [\"no_strings\"]\n";

/// Calls of rename(2), of two paths each, at a rate that the budget allows without the paths alone.
fn renames(recorder: &Recorder, dir: &Path) -> Printed {
    let json = recorder.flightctl(&["budget", "--json"]).stdout;
    let budget: Value = serde_json::from_slice(&json).expect("JSON");
    let cost =
        |name: &str| budget["budget"][name].as_f64().unwrap_or_else(|| panic!("{name}: {budget}"));
    let (call, string) = (cost("call_ns"), cost("string_ns"));
    // 1 % of a second, and the mean of what may be spent with the paths and without.
    let (least, most) = (10e6 / (call + 2.0 * string), 10e6 / call);
    let rate = (least * most).sqrt().round().to_string();
    let cpu = *online_cpus().last().expect("a CPU");
    // Something else may have made it give up strings already.
    let has_all = |of: &CpuTotals| usize::from(of.cpu) != cpu || of.given == 0;
    let live = open(recorder);
    assert!(wait_until(PATIENCE, || live.counters().cpus.iter().all(has_all)), "it has not all");
    let cpu = cpu.to_string();
    run(&c_program("counted", &[]), &["renames", &dir.to_string_lossy(), &rate, "4", &cpu])
}

/// The first line of a dump, and its exit status.
fn coverage(recorder: &Recorder, args: &[&str]) -> (Value, Option<i32>, usize) {
    let output = recorder.flightctl(&[&["dump", "--format", "jsonl", "--strict"], args].concat());
    let text = std::str::from_utf8(&output.stdout).expect("UTF-8");
    let objects: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let calls = objects.iter().filter(|event| event["syscall"].is_string()).count();
    (objects[0].clone(), output.status.code(), calls)
}

#[test]
fn paths_that_were_given_up_are_told() {
    let recorder = start(STRINGS);
    let dir = tempfile::tempdir().expect("a directory");
    let made = renames(&recorder, dir.path());
    let after = snapshot(&recorder);
    let (pid, rounds) = (made.id("pid"), made.number::<u64>("rounds"));
    let time =
        |mark: &str| made.number::<String>(mark).split(':').next().expect("a time").to_owned();
    let (since, until) = (time("mark0"), time("mark10"));
    let window = ["--since", &since, "--until", &until];
    let path = format!("{}/none", dir.path().display());
    let without =
        after.calls_named(pid, "rename").iter().filter(|call| call.string(0).is_none()).count();
    assert!(without > 0, "of {rounds} calls none is without its path: nothing was given up");

    // All calls are there, and are told for who asks for no path.
    let all = ["--pid", &pid.to_string(), "--syscall", "rename"];
    let (of_all, _, shown) = coverage(&recorder, &[&window[..], &all].concat());
    assert!(of_all["undecided"].is_null(), "{of_all}");
    let refused = refused(&of_all);
    assert!(
        shown as u64 <= 2 * rounds && 2 * rounds <= shown as u64 + refused,
        "{shown} of {rounds}, {refused} refused"
    );

    // Who asks for the path is told how many may be of it.
    for args in [vec!["--path", &path], vec!["--path", &path, "--pid", &all[1]]] {
        let (of_path, status, matched) = coverage(&recorder, &[&window[..], &args].concat());
        assert_eq!((&of_path["complete"], status), (&Value::Bool(false), Some(3)), "{of_path}");
        let undecided = events(&of_path, "paths");
        let known = matched as u64 + undecided;
        assert!(undecided >= 2 * without as u64, "{undecided}: {of_path}");
        assert!(
            matched as u64 <= 2 * rounds && 2 * rounds <= known + refused,
            "{matched}, {undecided}, {refused}"
        );
    }

    // Of another process nothing was given up, and files tell the same as the rings.
    let (of_other, ..) =
        coverage(&recorder, &[&window[..], &["--path", &path, "--pid", "1"]].concat());
    assert!(of_other["undecided"].is_null(), "{of_other}");
    let saved = dir.path().join("saved.flight");
    let saved = saved.to_str().expect("a path");
    assert!(recorder.flightctl(&[&["save", "-o", saved], &window[..]].concat()).status.success());
    let (of_rings, ..) = coverage(&recorder, &[&window[..], &["--path", &path]].concat());
    let (of_file, status, _) =
        coverage(&recorder, &[&["--file", saved, "--path", &path], &window[..]].concat());
    assert_eq!(
        (events(&of_file, "paths"), status),
        (events(&of_rings, "paths"), Some(3)),
        "{of_file}"
    );

    // In words, and with the recorder's own line whatever the filter.
    let output = recorder.flightctl(&[&["dump", "--path", "/no/such/path"], &window[..]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "nothing matches: {text}");
    assert!(
        text.contains(
            "events that the filter can't decide: their paths were not recorded, to stay within the budget"
        ),
        "{text}"
    );
    assert!(text.contains("(RECORDER) ") && text.contains("level 1: no_strings"), "{text}");
}

/// Events of which a part is missing that the filter asks for.
fn events(coverage: &Value, part: &str) -> u64 {
    let rows = coverage["undecided"].as_array().into_iter().flatten();
    rows.filter(|row| row["missing"] == part).filter_map(|row| row["events"].as_u64()).sum()
}

/// Events that were refused, of system calls.
fn refused(coverage: &Value) -> u64 {
    ["busy", "throttled"]
        .iter()
        .filter_map(|why| coverage["refused"][why]["syscall"].as_u64())
        .sum()
}

/// A follower counts them at its end.
#[test]
fn a_follower_tells_of_paths_that_were_given_up() {
    let recorder = start(STRINGS);
    let dir = tempfile::tempdir().expect("a directory");
    let path = format!("{}/none", dir.path().display());
    let mut follow: Command = recorder.flightctl_command();
    follow
        .args(["follow", "--for", "6s", "--strict", "--path", &path])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let follow = follow.spawn().expect("flightctl");
    renames(&recorder, dir.path());
    let output = follow.wait_with_output().expect("flightctl");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains(
            "filtered out undecided: their paths were not recorded, to stay within the budget"
        ),
        "{said}"
    );
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("level 1: no_strings"),
        "the recorder's own line"
    );
}
