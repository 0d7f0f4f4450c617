//! In which context a wakeup happened: held against the kernel's own tracer.

use flightrec_format::abi::record::WakeContext;
use flightrec_format::decode::{Body, Event};
use flightrec_tests::wakeups::{Agreement, Wakeup, of_ftrace};
use flightrec_tests::{Ftrace, Recorder, c_program};
use serde_json::Value;
use tempfile::TempDir;

use crate::json::valid_dump;
use crate::lacking::{btf_without, status};
use crate::support::{dump, run, snapshot, start};

/// How long each load runs.
const LOAD_MS: &str = "600";
/// Memory of the tracer for each CPU: some hundred thousand wakeups.
const TRACE_KIB: usize = 65536;

fn wakeup(event: &Event) -> Option<Wakeup> {
    let Body::Waking { wakee, context, new: false, .. } = event.body else { return None };
    Some(Wakeup { time: event.time, cpu: event.cpu, wakee, context })
}

/// Runs all loads beside both witnesses.
fn compare(recorder: &Recorder) -> Agreement {
    let dir = TempDir::new().expect("directory");
    let file = dir.path().join("synced").display().to_string();
    let trace = Ftrace::start(&["sched/sched_waking"], TRACE_KIB).expect("an instance of ftrace");
    run(&c_program("wakeups", &[]), &[LOAD_MS, &file]);
    let traced = of_ftrace(&trace.stop().expect("the trace"));
    let recorded: Vec<Wakeup> = snapshot(recorder).events.iter().filter_map(wakeup).collect();
    Agreement::of(&traced, &recorded)
}

#[test]
fn the_kernels_own_tracer_has_the_same() {
    for form in ["tp_btf", "tracepoint"] {
        // Nothing of the loads is written over.
        let rings = "[rings]\nsched = \"64MiB\"\nmax_ram_percent = 20";
        let recorder = start(&format!("[kernel]\nsyscall_programs = \"{form}\"\n{rings}"));
        let agreement = compare(&recorder);
        eprintln!("{agreement:?}");
        for context in [WakeContext::Thread, WakeContext::Softirq, WakeContext::Hardirq] {
            let count = agreement.in_context(context);
            assert!(count >= 200, "{count} wakeups in context {}", context.name());
        }
        assert!(agreement.share() >= 0.999, "{:.3} %", 100.0 * agreement.share());
    }
}

/// What the issue was: a program that sleeps was woken by whoever happened to run.
#[test]
fn a_timers_wakeup_is_not_the_interrupted_threads() {
    /// Sleeps. Before the first, the threads wait for one another.
    const SLEEPS: usize = 50;
    /// While a hog runs at the least: this machine may have others to run.
    const OF_HOGS: usize = 3;
    let recorder = start("");
    let printed = run(&c_program("hogs", &[]), &["2", "0", &SLEEPS.to_string()]);
    let (sleeper, hogs) = (printed.id("sleeper"), [printed.id("hog0"), printed.id("hog1")]);
    let args = ["--last", "1h", "--event", "waking", "--tid", &sleeper.to_string()];
    let of_sleeper = |event: &&Value| event["wakee_tid"] == sleeper;
    let events = valid_dump(&recorder, &args);
    // Before its first sleep, the program's own threads wake it.
    let snapshot = snapshot(&recorder);
    let first = snapshot.calls_named(sleeper, "clock_nanosleep")[0].enter.expect("an entry").0;
    let asleep = |event: &&Value| event["mono_ns"].as_u64() > Some(first);
    let woken: Vec<&Value> = events.iter().filter(of_sleeper).filter(asleep).collect();
    // A timer's wakeup while a thread runs that this machine hides from BPF (see names.rs) is not
    // seen.
    let seen = woken.len();
    assert!((SLEEPS - 2..=SLEEPS).contains(&seen), "{seen} wakeups from {SLEEPS} sleeps");
    for event in &woken {
        assert_eq!(event["waker_context"], "hardirq", "{event}");
    }
    let by_hog = |event: &&&Value| hogs.iter().any(|hog| event["tid"] == *hog);
    assert!(woken.iter().filter(by_hog).count() >= OF_HOGS, "{woken:?}");

    let word = format!(" {sleeper} sleeper[");
    let lines = dump(&recorder, &args);
    let sleeps = lines.iter().filter(|line| line.text.contains(&word)).rev().take(seen);
    let texts: Vec<&str> = sleeps.map(|line| line.text.as_str()).collect();
    assert!(texts.iter().all(|text| text.starts_with("(RUNQ hardirq) #")), "{texts:?}");
}

/// A kernel whose description lacks the preemption count: recorded, and said.
#[test]
fn a_kernel_that_does_not_tell() {
    let dir = TempDir::new().expect("directory");
    let btf = btf_without(&["__preempt_count", "in_iowait"], dir.path());
    let recorder = start(&format!("[kernel]\nbtf = \"{}\"", btf.display()));
    let lacking = status(&recorder)["lacking"].to_string();
    assert!(lacking.contains("context of wakeups"), "{lacking}");
    assert!(lacking.contains("waits at switches are for I/O"), "{lacking}");
    run(&c_program("hogs", &[]), &["1", "0", "5"]);
    let events = valid_dump(&recorder, &["--last", "1h", "--event", "waking,switch"]);
    let contexts = events.iter().filter(|event| event["event"] == "waking");
    let contexts: Vec<&Value> = contexts.map(|event| &event["waker_context"]).collect();
    assert!(contexts.len() >= 5 && contexts.iter().all(|of| **of == "unknown"), "{contexts:?}");
    let lines = dump(&recorder, &["--last", "1h", "--event", "waking"]);
    assert!(lines.iter().all(|line| line.text.starts_with("(RUNQ ?) #")), "{lines:?}");
}
