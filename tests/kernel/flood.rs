//! Loss is exact: what is decoded and what is reported as lost add up to what the probes counted.

use std::mem::offset_of;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::kinds::LANE_KINDS;
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::state::{CpuState, LaneState};
use flightrec_format::decode::Page;
use flightrec_format::live::{Generation, LiveRings};
use flightrec_format::ring::{Reason, Rings, Scope};
use flightrec_tests::{Recorder, c_program, online_cpus, pin_to_cpu};

use crate::support::{run, start};

const SMALL: &str = "[rings]\nsyscall = \"64KiB\"\nsched = \"64KiB\"\ntask = \"64KiB\"";

/// Makes every lane of every CPU go round its ring many times.
fn flood() {
    let (pingpong, threads) = (c_program("pingpong", &[]), c_program("threads", &[]));
    for cpu in online_cpus() {
        let cpu = cpu.to_string();
        let mut pinned = Command::new("taskset");
        pinned.args(["-c", &cpu]).arg(&threads).args(["500", "10"]).stdout(Stdio::null());
        assert!(pinned.status().expect("taskset").success());
        run(&pingpong, &["4000", "4", &cpu, &cpu]);
    }
}

/// The probes' own counters of a lane, read past the product's code, and without a system call.
fn counted(recording: &LiveRings, lane: Lane, cpu: u16) -> Counts {
    let at = offset_of!(CpuState, lanes)
        + lane as usize * size_of::<LaneState>()
        + offset_of!(LaneState, events);
    let state = &recording.maps().state;
    Counts::first::<LANE_KINDS>(std::array::from_fn(|kind| {
        state.load(usize::from(cpu), at + 8 * kind)
    }))
}

/// Copies a ring at a moment at which nothing is written to it.
fn copy_quiet(recording: &LiveRings, lane: Lane, cpu: u16) -> (Counts, Vec<[u8; 4096]>) {
    // What this thread does itself is then on other CPUs.
    let other = online_cpus().into_iter().find(|other| *other != usize::from(cpu));
    if let Some(other) = other {
        pin_to_cpu(other);
    }
    let end = Instant::now() + Duration::from_secs(20);
    let mut pages = Vec::with_capacity(64);
    while Instant::now() < end {
        pages.clear();
        let before = counted(recording, lane, cpu);
        pages.extend(recording.pages(lane, cpu, 0, u64::MAX));
        if counted(recording, lane, cpu) == before {
            return (before, pages);
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    panic!("CPU {cpu} has never been quiet in lane {}", lane.name());
}

fn adds_up(recorder: &Recorder) {
    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    let recording = LiveRings::open(&dir, false).expect("a recording");
    for cpu in recording.cpus() {
        // The flood asks nothing of disks.
        for lane in [Lane::Syscall, Lane::Sched, Lane::Task] {
            let (counted, pages) = copy_quiet(&recording, lane, cpu);
            let mut rings = Rings::new(recording.session());
            for page in &pages {
                assert!(rings.add(Page::copy_from(page).expect("a page")));
            }
            let [stream] = &rings.finish()[..] else { panic!("no pages") };
            let scope = Scope { until: u64::MAX, started: recording.started(), ..Scope::default() };
            let coverage = stream.coverage(&scope);
            // A whole ring, gone round at least twice; the loss is one, at its beginning.
            assert_eq!(pages.len(), 16);
            assert!(
                stream.pages()[0].header().seq > 32,
                "lane {} of CPU {cpu} was not flooded",
                lane.name()
            );
            let [gap] = &coverage.gaps[..] else {
                panic!("lane {} of CPU {cpu}: {:#?}", lane.name(), coverage.gaps)
            };
            assert_eq!(gap.reason, Reason::Overwritten);
            let lost = gap.lost.expect("an exact number");
            let decoded = stream.recorded();
            for kind in 0..Counts::LEN {
                assert_eq!(
                    decoded[kind] + lost[kind],
                    counted[kind],
                    "lane {}, CPU {cpu}, kind {kind}: {} decoded, {} lost",
                    lane.name(),
                    decoded[kind],
                    lost[kind]
                );
            }
            assert_eq!(decoded.iter().sum::<u64>(), stream.events().count() as u64);
        }
    }
}

#[test]
fn decoded_and_lost_are_what_was_counted() {
    let recorder = start(SMALL);
    flood();
    adds_up(&recorder);
}

#[test]
fn the_same_by_tracepoint_programs() {
    let recorder = start(&format!("{SMALL}\n[kernel]\nsyscall_programs = \"tracepoint\""));
    flood();
    adds_up(&recorder);
}

/// The workload's own count is a second witness: what the probes count is what happened.
#[test]
fn what_is_counted_is_what_happened() {
    let recorder = start(SMALL);
    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    let recording = LiveRings::open(&dir, false).expect("a recording");
    let sum = |lane, kind: usize| {
        recording.cpus().into_iter().map(|cpu| counted(&recording, lane, cpu)[kind]).sum::<u64>()
    };
    let (enters, forks, exits) = (sum(Lane::Syscall, 0), sum(Lane::Task, 0), sum(Lane::Task, 3));
    run(&c_program("threads", &[]), &["1000", "5"]);
    assert!(sum(Lane::Syscall, 0) - enters >= 2 * 5000);
    assert!(sum(Lane::Task, 0) - forks >= 5001);
    assert!(sum(Lane::Task, 3) - exits >= 5001);
}

#[test]
fn a_flooded_window_is_incomplete_and_says_so() {
    let recorder = start(&format!("{SMALL}\n[store]\nenabled = false\n"));
    flood();
    let output = recorder.flightctl(&["dump", "--all", "--strict", "-o", "/dev/null"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    for words in [
        "INCOMPLETE",
        "lane syscall: complete on no CPU",
        "events missing (",
        "overwritten in the ring",
    ] {
        assert!(said.contains(words), "no {words:?} in:\n{said}");
    }
    // Without --strict it is said as well, but is no failure.
    let output = recorder.flightctl(&["dump", "--all", "-o", "/dev/null"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("INCOMPLETE"));
}
