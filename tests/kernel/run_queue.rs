//! Run-queue lengths against a construction whose lengths are known.

use std::time::Duration;

use flightrec_tests::{c_program, online_cpus};

use crate::support::{dump, run, start};

/// `hogs` threads that never sleep on one CPU: that many a sleeper finds there whenever it wakes.
fn counted(hogs: usize) {
    let recorder = start("");
    let cpu = *online_cpus().last().expect("a CPU");
    // Until every CPU was idle once, from which moment lengths are known.
    std::thread::sleep(Duration::from_millis(100));
    let ids = run(&c_program("hogs", &[]), &[&hogs.to_string(), &cpu.to_string(), "40", "5000"]);
    let sleeper = ids.id("sleeper");
    let lines = dump(&recorder, &["--last", "30s", "--event", "waking"]);
    let wakeup = format!("(RUNQ) #{cpu} {sleeper} sleeper[n:0] qlen:");
    let lengths: Vec<&str> = lines.iter().filter_map(|line| line.text.strip_prefix(&wakeup)).collect();
    // The first wakeups are those of the barriers, before all hogs spin.
    let lengths: Vec<usize> =
        lengths[lengths.len() - 40..].iter().map(|n| n.parse().unwrap_or_else(|_| panic!("qlen:{n}"))).collect();
    let exact = lengths.iter().filter(|n| **n == hogs).count();
    // Other threads of the machine may be runnable on the CPU as well; fewer there can't be.
    assert!(lengths.iter().all(|n| *n >= hogs), "{hogs} hogs, and found: {lengths:?}");
    assert!(exact * 10 >= lengths.len() * 9, "{hogs} hogs, and found: {lengths:?}");
}

#[test]
fn one_hog() {
    counted(1);
}

#[test]
fn three_hogs() {
    counted(3);
}

#[test]
fn nine_hogs() {
    counted(9);
}
