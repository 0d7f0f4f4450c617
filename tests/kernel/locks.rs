//! Long waits for locks of the kernel: held against the kernel's own tracer.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use flightrec_tests::{Ftrace, Recorder, Traced, c_program, traced};
use serde_json::Value;
use tempfile::TempDir;

use crate::json::valid_dump;
use crate::lacking::{btf_without, status};
use crate::support::{dump, lost_of_kernel_lane, run, start};

/// Memory of the tracer for each CPU.
const TRACE_KIB: usize = 65536;
/// What counts as long here.
const LONG_NS: u64 = 20_000;
/// What the two may differ by.
const APART_NS: u64 = 50_000;

/// A file in memory, which goes with its directory.
fn file() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let file = dir.path().join("contended");
    (dir, file)
}

/// Threads of a program that wait for one another in the kernel; its process.
fn contend(rounds: &str) -> u32 {
    let (_dir, file) = file();
    run(&c_program("contended", &["-pthread"]), &[&file.to_string_lossy(), "4", rounds]).id("pid")
}

fn recorded(recorder: &Recorder, pid: u32) -> Vec<Value> {
    let pid = pid.to_string();
    valid_dump(recorder, &["--last", "1h", "--event", "contention", "--pid", &pid])
}

/// A wait by the tracer.
#[derive(Debug)]
struct Wait<'a> {
    tid: u32,
    lock: &'a str,
    until: u64,
    duration: u64,
}

/// The waits of these threads, asleep or for a mutex: one that spins is the CPU's.
fn waits<'a>(events: &[Traced<'a>], threads: &HashSet<u32>) -> Vec<Wait<'a>> {
    let mut began: HashMap<(u32, &str), u64> = HashMap::new();
    let mut waits = Vec::new();
    for event in events.iter().filter(|event| threads.contains(&event.tid)) {
        let lock = event.rest.split(' ').next().expect("a lock");
        match event.name {
            "contention_begin" if event.field("flags") != Some("SPIN") => {
                began.entry((event.tid, lock)).or_insert(event.time);
            }
            "contention_end" => {
                if let Some(since) = began.remove(&(event.tid, lock)) {
                    let duration = event.time - since;
                    waits.push(Wait { tid: event.tid, lock, until: event.time, duration });
                }
            }
            _ => {}
        }
    }
    waits
}

#[test]
fn the_kernels_own_tracer_has_the_same() {
    let long = LONG_NS / 1000;
    let config = format!("[locks]\nlonger_than = \"{long}us\"\n[rings]\nkernel = \"16MiB\"");
    let recorder = start(&config);
    let before = lost_of_kernel_lane(&status(&recorder), &["contention_"]);
    let names = ["lock/contention_begin", "lock/contention_end"];
    let trace = Ftrace::start(&names, TRACE_KIB).expect("an instance of ftrace");
    let pid = contend("200");
    let text = trace.stop().expect("the trace");
    assert!(!text.contains("LOST"), "the tracer needs more memory");
    let events = traced(&text);
    let recorded = recorded(&recorder, pid);
    let lost = lost_of_kernel_lane(&status(&recorder), &["contention_"]) - before;
    let number = |event: &Value, field: &str| event[field].as_u64().expect("a number");
    let threads: HashSet<u32> = recorded.iter().map(|event| number(event, "tid") as u32).collect();
    let waits = waits(&events, &threads);
    // A thread is in one wait at a time: what overlaps is the same.
    let is = |event: &Value, wait: &Wait<'_>| {
        let (until, duration) = (number(event, "mono_ns"), number(event, "duration"));
        event["tid"] == wait.tid
            && until - duration < wait.until
            && wait.until - wait.duration < until
    };
    let of_threads = || recorded.iter().filter(|event| event["flags"] != "spin");
    let long: Vec<&Wait<'_>> =
        waits.iter().filter(|wait| wait.duration > LONG_NS + APART_NS).collect();
    // Each stands for one of them: what is left of the tracer's long ones is missing.
    let mut left: Vec<&Value> = of_threads().collect();
    let has_one = |wait: &&&Wait<'_>| {
        let found = left.iter().position(|event| is(event, wait));
        found.map(|at| left.swap_remove(at)).is_some()
    };
    let found = long.iter().filter(has_one).count();
    let missing = long.len() - found;
    eprintln!(
        "{} traced, {} long, {} recorded, {missing} missing, {lost} lost",
        waits.len(),
        long.len(),
        recorded.len()
    );
    assert!(missing as u64 <= lost, "{missing} of {} are missing, {lost} lost", long.len());
    assert!(long.len() >= 50, "nobody waited: {waits:#?}");
    let mut names: HashMap<&str, HashSet<&str>> = HashMap::new();
    let mut odd = Vec::new();
    for event in of_threads() {
        assert!(number(event, "duration") >= LONG_NS, "{event}");
        assert_eq!((&event["ret"], &event["context"]), (&0.into(), &"thread".into()), "{event}");
        let found = waits.iter().filter(|wait| is(event, wait));
        let nearest = found.min_by_key(|wait| wait.until.abs_diff(number(event, "mono_ns")));
        let wait = nearest.unwrap_or_else(|| panic!("the tracer has no {event}"));
        let apart = |field, of_tracer: u64| of_tracer.abs_diff(number(event, field)) >= APART_NS;
        if apart("mono_ns", wait.until) || apart("duration", wait.duration) {
            odd.push((event, wait));
        }
        names.entry(wait.lock).or_default().insert(event["lock"].as_str().expect("a name"));
    }
    // An interrupt, or who shares this machine's own CPUs, may have had one between the tracer
    // and the recorder.
    assert!(odd.len() <= 1 + recorded.len() / 50, "of {}: {odd:#?}", recorded.len());
    // A lock has one name, which is not its address.
    assert!(names.values().all(|names| names.len() == 1), "{names:?}");
    assert!(of_threads().all(|event| event["lock"].as_str().is_some_and(|name| name.len() <= 10)));
    // The inode's, which is a semaphore that writers take.
    let lines =
        dump(&recorder, &["--last", "1h", "--event", "contention", "--pid", &pid.to_string()]);
    let writers =
        lines.iter().filter(|line| line.text.contains(" flags=write ret=0 context=thread"));
    assert!(writers.count() >= 50, "{lines:#?}");
}

#[test]
fn they_are_left_out_where_the_configuration_says_so() {
    let recorder = start("[record]\nlocks = false\n[locks]\nlonger_than = \"1us\"");
    contend("20");
    let status = status(&recorder);
    assert_eq!(status["switched_off"], serde_json::json!(["locks"]));
    assert_eq!(status["lanes"]["kernel"]["events"]["contention"], 0, "{status:#}");
    let programs = status["recursion_misses"].as_object().expect("programs");
    assert!(!programs.keys().any(|name| name.starts_with("contention")), "{programs:?}");
}

/// The one without the other makes no event.
#[test]
fn a_kernel_without_the_tracepoints_records_all_else() {
    let dir = TempDir::new().expect("directory");
    let btf = btf_without(&["btf_trace_contention_end"], dir.path());
    let recorder = start(&format!("[kernel]\nbtf = \"{}\"\n", btf.display()));
    contend("20");
    let status = status(&recorder);
    let lacking = status["lacking"].as_array().expect("a list");
    let whats: Vec<&str> = lacking.iter().map(|row| row["what"].as_str().expect("text")).collect();
    assert_eq!(whats, ["ends of long waits for locks"]);
    assert_eq!(status["lanes"]["kernel"]["events"]["contention"], 0, "{status:#}");
    assert!(status["lanes"]["sched"]["events"]["switch"].as_u64() > Some(0), "{status:#}");
}
