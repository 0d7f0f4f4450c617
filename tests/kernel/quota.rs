//! Control groups that have used up their CPU time: held against the kernel's own sums.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use flightrec_tests::{CpuGroup, PATIENCE, Recorder, c_program, left_out, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::json::valid_dump_or_none;
use crate::lacking::{btf_without, status, whole_status};
use crate::support::{dump, lost_of_kernel_lane, start};

/// Of one CPU.
const PERCENT: u32 = 10;
/// CPU time that threads of a group take, s.
const WORK: f64 = 0.3;
/// What a kernel may lack, as `status` says it.
const WHAT: &str = "waits of control groups for CPU time";
const PROGRAMS: &[&str] = &["unthrottle_"];

/// A shell command in the group, to its end.
fn in_group(group: &CpuGroup, command: &str) {
    let script = format!("echo $$ > {}/cgroup.procs && {command}", group.dir().display());
    let mut shell = Command::new("/bin/sh");
    let status = shell.args(["-c", &script]).stdin(Stdio::null()).status().expect("sh");
    assert!(status.success(), "{script}");
}

/// The id that the kernel has for the group, and the field that has it.
fn id(group: &CpuGroup) -> (&'static str, u64) {
    let id = fs::metadata(group.dir()).expect("the group").ino();
    (if group.is_v2() { "cgroup" } else { "v1_cgroup" }, id)
}

/// The group's events.
fn throttled(recorder: &Recorder, group: &CpuGroup) -> Vec<Value> {
    let (field, id) = id(group);
    let mut events = valid_dump_or_none(recorder, &["--last", "1h", "--event", "throttle"]);
    events.retain(|event| event["event"] == "throttle" && event[field] == id);
    events
}

/// How long its threads waited by these events, µs.
fn waited(events: &[Value]) -> u64 {
    events.iter().map(|event| event["duration"].as_u64().expect("ns")).sum::<u64>() / 1000
}

#[test]
fn what_is_recorded_adds_up_to_what_the_kernel_counts() {
    let recorder = start("");
    let begun = whole_status(&recorder);
    let mut lacking = begun["lacking"].as_array().into_iter().flatten();
    if let Some(row) = lacking.find(|row| row["what"] == WHAT) {
        left_out(&format!("no {WHAT}: {}", row["why"]));
    }
    let before = lost_of_kernel_lane(&begun, PROGRAMS);
    let spins = c_program("spins", &[]).display().to_string();
    let one = CpuGroup::make(PERCENT);
    in_group(&one, &format!("exec taskset -c 0 {spins} program {WORK}"));
    let many = CpuGroup::make(PERCENT);
    in_group(&many, &format!("for i in 1 2 3 4; do {spins} program {} & done; wait", WORK / 4.0));
    for group in [&one, &many] {
        // An event that the lane has lost does not come.
        let adds_up = || {
            waited(&throttled(&recorder, group)) == group.stat().throttled_us
                || lost_of_kernel_lane(&status(&recorder), PROGRAMS) > before
        };
        wait_until(PATIENCE, adds_up);
        let (events, stat) = (throttled(&recorder, group), group.stat());
        let lost = lost_of_kernel_lane(&status(&recorder), PROGRAMS) - before;
        let recorded = waited(&events);
        eprintln!("{} events, {recorded} us; {stat:?}; {lost} lost of the lane", events.len());
        assert!(stat.throttled_us > 1_000_000, "nothing was throttled: {stat:?}");
        let is_right = recorded == stat.throttled_us;
        assert!(is_right || lost > 0 && recorded < stat.throttled_us, "{events:#?}");
    }
    // On one CPU, one at most in each period.
    let (events, stat) = (throttled(&recorder, &one), one.stat());
    assert!(events.len() as u64 <= stat.throttled, "{stat:?} {events:#?}");
    for event in &events {
        let duration = event["duration"].as_u64().expect("ns");
        assert!((1..1_000_000_000).contains(&duration), "{event}");
        assert_eq!(event["throttled_cpu"], 0, "{event}");
    }
    let cpus: HashSet<Value> =
        throttled(&recorder, &many).iter().map(|event| event["throttled_cpu"].clone()).collect();
    assert!(cpus.len() > 1, "{cpus:?}");

    let (_, id) = id(&one);
    let lines = dump(&recorder, &["--last", "1h", "--event", "throttle"]);
    let ending = if one.is_v2() {
        format!("cgroup={id} v1_cgroup=0")
    } else {
        format!("cgroup=0 v1_cgroup={id}")
    };
    let ending = format!("ns {ending} throttled_cpu=0");
    let of_one = lines.iter().filter(|line| line.text.ends_with(&ending));
    assert_eq!(of_one.count(), events.len(), "{ending}: {lines:#?}");
    assert!(lines.iter().all(|line| line.text.starts_with("(THROTTLE) duration=")));
}

#[test]
fn it_is_left_out_where_the_configuration_says_so() {
    let recorder = start("[record]\nthrottling = false");
    let status = status(&recorder);
    assert_eq!(status["switched_off"], serde_json::json!(["throttling"]));
    let programs = status["recursion_misses"].as_object().expect("programs");
    assert!(!programs.keys().any(|name| name.starts_with("unthrottle")), "{programs:?}");
    assert!(programs.contains_key("block_rq_issue"), "{programs:?}");
}

#[test]
fn a_kernel_without_the_function_records_all_else() {
    let dir = TempDir::new().expect("directory");
    let btf = btf_without(&["unthrottle_cfs_rq"], Path::new(dir.path()));
    let recorder = start(&format!("[kernel]\nbtf = \"{}\"\n", btf.display()));
    let status = status(&recorder);
    let lacking = status["lacking"].as_array().expect("a list");
    let whats: Vec<&str> = lacking.iter().map(|row| row["what"].as_str().expect("text")).collect();
    assert_eq!(whats, [WHAT, "beginnings of waits of control groups for CPU time"]);
    let why = "this kernel's BTF does not describe a function unthrottle_cfs_rq";
    assert!(lacking.iter().all(|row| row["why"] == why), "{lacking:#?}");
    let programs = status["recursion_misses"].as_object().expect("programs");
    assert!(programs.contains_key("block_rq_issue"), "{programs:?}");
}
