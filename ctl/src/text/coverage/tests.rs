//! Coverage in words, of small recordings.

use flightrec_reader::coverage::Coverage;
use flightrec_reader::source::Collector;
use flightrec_reader::window::Window;

use super::*;
use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::Lane;
use flightrec_format::control::{CpuTotals, Totals};
use flightrec_format::meta::{Lanes, Meta};
use jiff::tz::TimeZone;

const S: u64 = 1_000_000_000;

/// A recording since 10 s, of an idle machine, as counted at 30 s.
fn report(totals: Totals, from: u64) -> (bool, String) {
    let meta = Meta { session: 1, started: 10 * S, cpus: vec![0], ..Meta::default() };
    let recording = Collector::new(meta).finish(totals);
    let report = Coverage::new(&recording, Window { from, until: 30 * S }, 30 * S);
    let lines = lines(&report, &mut recording.wall_clock(0), &TimeZone::UTC);
    (report.is_complete(), lines.join("\n"))
}

fn totals() -> Totals {
    let cpu = CpuTotals { cpu: 0, recorded: true, ..CpuTotals::default() };
    Totals { now: 30 * S, cpus: vec![cpu], ..Totals::default() }
}

#[test]
fn silence_is_complete_where_the_counters_agree() {
    let (complete, text) = report(totals(), 20 * S);
    assert!(complete, "{text}");
    let expected = "coverage: 1970-01-01 00:00:20.000000 to 00:00:30.000000 (10.0 s): \
                    complete on CPUs 0 in lanes syscall, sched, task, kernel";
    assert_eq!(text, expected);
}

#[test]
fn a_lane_that_is_left_out_is_not_called_complete() {
    let meta = Meta {
        session: 1,
        started: 10 * S,
        cpus: vec![0],
        lanes: Lanes::new([0; 4], [false, true, false, false]),
        ..Meta::default()
    };
    let recording = Collector::new(meta).finish(totals());
    let report = Coverage::new(&recording, Window { from: 20 * S, until: 30 * S }, 30 * S);
    let lines = lines(&report, &mut recording.wall_clock(0), &TimeZone::UTC);
    assert!(lines[0].ends_with("complete on CPUs 0 in lanes syscall, task, kernel"), "{lines:?}");
    assert_eq!(lines[1], "lane sched: not recorded (off in the configuration)");
    assert!(report.complete_cpus(Lane::Sched).is_empty());
}

#[test]
fn windows_that_nothing_can_be_in() {
    let (complete, text) = report(totals(), 30 * S);
    assert!(complete, "no time, no loss");
    assert_eq!(
        text,
        "coverage: nothing, as the window begins in the future (it is 1970-01-01 \
         00:00:30.000000)"
    );
    let meta = Meta { session: 1, started: 10 * S, cpus: vec![0], ..Meta::default() };
    let recording = Collector::new(meta).finish(totals());
    let report = Coverage::new(&recording, Window { from: 5 * S, until: 5 * S }, 30 * S);
    let lines = lines(&report, &mut recording.wall_clock(0), &TimeZone::UTC);
    assert_eq!(
        lines,
        ["coverage: nothing, as the recording began only at 1970-01-01 00:00:10.000000"]
    );
}

#[test]
fn a_time_without_system_calls_is_told() {
    let meta = Meta { session: 1, started: 10 * S, cpus: vec![0], ..Meta::default() };
    let recording = Collector::new(meta).finish(totals());
    let mut report = Coverage::new(&recording, Window { from: 20 * S, until: 30 * S }, 30 * S);
    assert!(report.is_complete());
    report.detached = vec![(21 * S, 22 * S), (24 * S, 26 * S)];
    let lines = lines(&report, &mut recording.wall_clock(0), &TimeZone::UTC).join("\n");
    assert!(!report.is_complete() && report.complete_cpus(Lane::Syscall).is_empty(), "{lines}");
    let line = "system calls were detached on all CPUs for 3.0 s in all (2 times), for the \
                budget: not recorded, nor counted";
    assert!(lines.contains(line) && lines.contains("lane sched: complete on CPUs 0"), "{lines}");
}

#[test]
fn a_cpu_without_rings_is_named() {
    let mut totals = totals();
    totals.cpus.push(CpuTotals { cpu: 4, no_ring: [3, 2, 0, 0], ..CpuTotals::default() });
    let (complete, text) = report(totals, 20 * S);
    assert!(!complete);
    let line = "CPU 4 has no rings: 5 events since the start of the recording (3 syscall, 2 sched)";
    assert!(text.contains(line), "{text}");
}

#[test]
fn skipped_runs_fail_only_a_window_that_surely_has_them() {
    let totals = Totals { misses: vec![("sys_exit".into(), 2), ("fork".into(), 0)], ..totals() };
    let (complete, text) = report(totals.clone(), 20 * S);
    assert!(complete && text.contains("the kernel skipped 2 runs of sys_exit"), "{text}");
    assert!(!text.contains("fork"), "{text}");
    let (complete, text) = report(totals, 10 * S);
    assert!(!complete && text.contains("the start of the recording"), "{text}");
}

#[test]
fn skipped_runs_count_where_their_lane_is_asked_for() {
    let told = |program: &str, asked: Lane| {
        let totals = Totals { misses: vec![(program.into(), 1)], ..totals() };
        let meta = Meta { session: 1, started: 10 * S, cpus: vec![0], ..Meta::default() };
        let recording = Collector::new(meta).finish(totals);
        let window = Window { from: 10 * S, until: 30 * S };
        let report = Coverage::new(&recording, window, 30 * S).of_lanes(|lane| lane == asked);
        let lines = lines(&report, &mut recording.wall_clock(0), &TimeZone::UTC);
        (report.is_complete(), lines.join("\n"))
    };
    let (complete, text) = told("contention_begin", Lane::Syscall);
    assert!(
        complete && text.contains("complete on CPUs 0 in lanes syscall, sched, task"),
        "{text}"
    );
    assert!(text.contains("events of lane kernel: no event of it is asked for"), "{text}");
    assert!(text.contains("skipped 1 run of contention_begin"), "{text}");
    assert!(!told("contention_begin", Lane::Kernel).0);
    assert!(!told("sys_exit", Lane::Syscall).0 && told("sys_exit", Lane::Sched).0);
    // It says which thread runs, and so whose all other events are.
    assert!(!told("sched_switch", Lane::Kernel).0);
}

#[test]
fn a_ring_that_was_written_and_is_not_there_is_missing() {
    let mut totals = totals();
    totals.cpus[0].events[1] = Counts::first([7, 0, 0, 5]);
    let (complete, text) = report(totals, 20 * S);
    assert!(!complete);
    assert!(
        text.contains("lane sched: complete on no CPU") && text.contains("(7 switch, 5 migrate)"),
        "{text}"
    );
}

#[test]
fn what_a_lane_lacks_that_is_not_asked_for_is_told_and_does_not_count() {
    let told = |lacks: Lane, asked: Lane| {
        let mut totals = totals();
        totals.cpus[0].events[lacks as usize] = Counts::first([7, 0, 0, 5]);
        let meta = Meta { session: 1, started: 10 * S, cpus: vec![0], ..Meta::default() };
        let recording = Collector::new(meta).finish(totals);
        let window = Window { from: 20 * S, until: 30 * S };
        let report = Coverage::new(&recording, window, 30 * S).of_lanes(|lane| lane == asked);
        let lines = lines(&report, &mut recording.wall_clock(0), &TimeZone::UTC);
        (report.is_complete(), lines.join("\n"))
    };
    let (complete, text) = told(Lane::Sched, Lane::Syscall);
    assert!(complete && text.contains("CPUs 0 in lanes syscall, task, kernel\ngap: "), "{text}");
    assert!(text.contains("events of lane sched: no event of it is asked for"), "{text}");
    let (complete, text) = told(Lane::Sched, Lane::Sched);
    assert!(!complete && !text.contains("asked for"), "{text}");
    let (complete, text) = told(Lane::Task, Lane::Syscall);
    assert!(!complete, "who threads are counts for all: {text}");
}
