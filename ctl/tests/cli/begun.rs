//! Calls that began before all that is read for a window.

use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::abi::record::{Abi, Fork, WakeContext};
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::meta::{Meta, Syscall};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{NOW, Recording, SECOND, flightctl, meta, stderr, stdout};
use crate::disk::getpid;

const MS: u64 = SECOND / 1000;
/// What is shown; from 2 s before on it is read.
const WINDOW: [&str; 2] = ["--last", "2s"];
const EPERM: i64 = -1;

fn event(time: u64, cpu: u16, tid: u32, body: Body) -> Event {
    Event { time, cpu, tid, body }
}

fn call(nr: u16) -> Call {
    Call { nr, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() }
}

fn enter(time: u64, tid: u32) -> Event {
    event(time, 1, tid, Body::Enter(call(1)))
}

fn exit(time: u64, tid: u32, nr: u16, ret: i64) -> Event {
    event(time, 1, tid, Body::Exit { call: call(nr), ret, entered: None })
}

/// A recorder, and what is saved of it.
struct Recorded {
    daemon: TempDir,
    saved: String,
}

impl Recorded {
    /// 19 s of calls on both CPUs, 1000 a second, with these events, which are in order. 3 s before
    /// the end CPU 1 refuses a call, if it does.
    fn new(refusal: Option<Refusal>, events: impl IntoIterator<Item = Event>) -> Self {
        let mut recording = Recording::new();
        let mut events = events.into_iter().peekable();
        for ms in (0..19_000).rev() {
            let time = NOW - (1 + ms) * MS;
            while let Some(event) = events.next_if(|event| event.time < time) {
                let lane = match event.body {
                    Body::Fork(_) => Lane::Task,
                    Body::Waking { .. } | Body::Switch { .. } => Lane::Sched,
                    _ => Lane::Syscall,
                };
                recording.push(lane, &event);
            }
            if let Some(refusal) = refusal.filter(|_| ms == 3000) {
                recording.ring(Lane::Syscall, 1).refuse(refusal);
            }
            recording.push(Lane::Syscall, &getpid(time, 0, ms));
            recording.push(Lane::Syscall, &enter(time, 8));
        }
        let mut native = meta().native;
        native.push(Syscall { nr: 56, name: "clone".into(), args: None });
        let daemon = recording.serve_as(&Meta { native, ..meta() });
        let saved = daemon.path().join("saved.flight").display().to_string();
        let runtime_dir = daemon.path().to_str().unwrap();
        let out = flightctl(&["--runtime-dir", runtime_dir, "save", "--all", "-o", &saved]);
        assert!(out.status.success(), "{}", stderr(&out));
        Self { daemon, saved }
    }

    /// What a dump of the window says, which the rings and the file say alike: its events, its
    /// coverage in words, and its status.
    fn dump(&self, args: &[&str]) -> (Vec<String>, String, Option<i32>) {
        let args = [&["--strict"], &WINDOW[..], args].concat();
        let runtime_dir = self.daemon.path().to_str().unwrap();
        let rings = flightctl(&[&["--runtime-dir", runtime_dir, "dump"], &args[..]].concat());
        let file = flightctl(&[&["dump", "--file", &self.saved], &args[..]].concat());
        let events = |text: String| -> Vec<String> {
            let lines = text
                .lines()
                .filter(|line| !line.starts_with('#') && !line.contains("\"event\":\"coverage\""));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(events(stdout(&rings)), events(stdout(&file)));
        assert_eq!(rings.status.code(), file.status.code());
        (events(stdout(&file)), stderr(&file) + &stdout(&file), file.status.code())
    }

    /// How many events the filter can't decide.
    fn undecided(&self, args: &[&str]) -> u64 {
        let args =
            [&["dump", "--file", &self.saved, "--format", "jsonl"], &WINDOW[..], args].concat();
        let json = stdout(&flightctl(&args));
        let lines: Vec<Value> =
            json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let rows = lines[0]["undecided"].as_array().cloned().unwrap_or_default();
        assert!(rows.iter().all(|row| row["missing"] == "entries"), "{rows:?}");
        rows.iter().filter_map(|row| row["events"].as_u64()).sum()
    }
}

/// A call of 5 s that ends 1.5 s before the end.
fn long() -> [Event; 2] {
    [enter(NOW - 6500 * MS, 50), exit(NOW - 1500 * MS, 50, 1, 3)]
}

#[test]
fn a_call_that_began_before_is_found_as_far_as_it_is_known() {
    let recorded = Recorded::new(None, long());
    for (limit, count) in [("1s", 1), ("2500ms", 1)] {
        let (events, _, status) = recorded.dump(&["--slower-than", limit]);
        assert_eq!((events.len(), status), (count, Some(0)), "{events:?}");
        assert!(events[0].ends_with("write <-- 3 (>= 2.5 s)"), "{events:?}");
    }
    let (events, said, status) = recorded.dump(&["--slower-than", "1m"]);
    assert_eq!((events.len(), status), (0, Some(3)));
    let why = "1 event that the filter can't decide: the beginnings of their calls are not in";
    assert!(said.contains(why), "{said}");
    assert_eq!(recorded.undecided(&["--slower-than", "2501ms"]), 1);

    // The machine is up for 2 minutes.
    let (events, _, status) = recorded.dump(&["--slower-than", "10m"]);
    assert_eq!((events.len(), status), (0, Some(1)), "{events:?}");

    // It takes no less than that, either.
    let (events, _, status) = recorded.dump(&["--faster-than", "1s", "--tid", "50"]);
    assert_eq!((events.len(), status), (0, Some(1)), "{events:?}");
    assert_eq!(recorded.undecided(&["--faster-than", "4s", "--tid", "50"]), 1);
    // Others are asked for.
    let (_, _, status) = recorded.dump(&["--slower-than", "1m", "--syscall", "openat"]);
    assert_eq!(status, Some(1));

    let (events, ..) = recorded.dump(&["--format", "jsonl", "--tid", "50"]);
    let event: Value = serde_json::from_str(&events[0]).unwrap();
    assert_eq!(event["duration_at_least_ns"], 2500 * MS);
    assert!(event["duration_ns"].is_null());
    let args = [&["dump", "--file", &recorded.saved, "--format", "jsonl"], &WINDOW[..]].concat();
    crate::json::valid(&stdout(&flightctl(&args)));
    // Where the entry is read, all is known.
    let args = ["dump", "--file", &recorded.saved, "--all", "--slower-than", "1s"];
    assert!(stdout(&flightctl(&args)).contains("write <-- 3 (5.0 s)"));
}

#[test]
fn calls_that_never_began_take_no_time() {
    let fork = Fork {
        parent_tid: 7,
        parent_tgid: 7,
        tid: 60,
        tgid: 60,
        start_time: NOW - 3000 * MS,
        cgroup: 0,
        comm: [0; 16],
        shares: 0,
    };
    let events = [
        event(NOW - 3000 * MS, 0, 7, Body::Fork(fork)),
        // Its first return; then calls that a filter refused, or feigned.
        exit(NOW - 1600 * MS, 60, 56, 0),
        exit(NOW - 1500 * MS, 60, 1, EPERM),
        exit(NOW - 1400 * MS, 60, 1, 0),
        // The birth of this one was lost.
        exit(NOW - 1300 * MS, 61, 56, 0),
    ];
    let recorded = Recorded::new(None, events);
    let (events, _, status) = recorded.dump(&["--slower-than", "50ms"]);
    assert_eq!((events.len(), status), (0, Some(1)), "{events:?}");
    let (events, ..) = recorded.dump(&["--tid", "60,61"]);
    assert!(events.len() >= 4 && events.iter().all(|line| !line.contains(">=")), "{events:?}");
}

#[test]
fn what_a_filter_may_have_refused_is_undecided_unless_its_thread_slept() {
    let denied = exit(NOW - 1500 * MS, 50, 1, EPERM);
    let recorded = Recorded::new(None, [denied.clone()]);
    let (events, _, status) = recorded.dump(&["--slower-than", "1s"]);
    assert_eq!((events.len(), status), (0, Some(3)));
    let waking = Body::Waking {
        wakee: 50,
        prio: 120,
        state: 1,
        cpu: 1,
        new: false,
        context: WakeContext::Thread,
    };
    let switch = Body::Switch {
        prev_prio: 120,
        prev_state: 0,
        preempted: false,
        io_wait: false,
        next: 50,
        next_prio: 120,
    };
    let slept =
        [event(NOW - 1502 * MS, 0, 7, waking), event(NOW - 1501 * MS, 1, 0, switch), denied];
    let recorded = Recorded::new(None, slept);
    let (events, _, status) = recorded.dump(&["--slower-than", "1s"]);
    assert_eq!((events.len(), status), (1, Some(0)), "{events:?}");
    assert!(events[0].contains("EPERM (>= 2.5 s)"), "{events:?}");
}

#[test]
fn where_calls_are_missing_between_nothing_is_claimed() {
    let recorded = Recorded::new(Some(Refusal::Throttled), long());
    let (events, said, status) = recorded.dump(&["--slower-than", "2s"]);
    assert_eq!((events.len(), status), (0, Some(3)), "{events:?}");
    assert!(said.contains("1 event that the filter can't decide"), "{said}");
    // Only since then: nothing was refused from the next page on.
    let (events, _, status) = recorded.dump(&["--slower-than", "1s"]);
    assert_eq!((events.len(), status), (1, Some(0)), "{events:?}");
    assert!(events[0].contains("write <-- 3 (>= 1."), "{events:?}");
    // The recorder's own calls are no loss.
    let recorded = Recorded::new(Some(Refusal::Own), long());
    let (events, _, status) = recorded.dump(&["--slower-than", "2s"]);
    assert_eq!((events.len(), status), (1, Some(0)), "{events:?}");
}

/// CPU 0 is mostly idle: its page, which is read, begins long before the pages of CPU 1 do. Thread
/// 50 made calls on both.
#[test]
fn an_entry_on_an_idle_cpu_is_not_that_of_a_later_call() {
    let mut recording = Recording::new();
    let on_0 = event(NOW - 9000 * MS, 0, 50, Body::Enter(call(1)));
    let mut events = vec![
        on_0,
        exit(NOW - 8900 * MS, 50, 1, 3),
        enter(NOW - 4500 * MS, 50),
        exit(NOW - 1500 * MS, 50, 1, 3),
    ];
    let busy = (1..19_000).rev().map(|ms| enter(NOW - ms * MS, 8));
    events.extend(busy);
    events.push(getpid(NOW - 1000 * MS, 0, 1));
    events.sort_by_key(|event| event.time);
    for event in &events {
        recording.push(Lane::Syscall, event);
    }
    let daemon = recording.serve();
    let place = ["--runtime-dir", daemon.path().to_str().unwrap(), "dump", "--tid", "50"];
    let dump = |args: &[&str]| stdout(&flightctl(&[&place, args].concat()));
    let last = dump(&WINDOW);
    assert!(last.contains("write <-- 3 (>= 2.5 s)"), "{last}");
    // A report counts it, and has no duration for it.
    let place = ["--runtime-dir", daemon.path().to_str().unwrap(), "report", "calls"];
    let args = ["--tid", "50", "--format", "csv"];
    let report = stdout(&flightctl(&[&place, &WINDOW[..], &args].concat()));
    assert!(report.contains("\nwrite,1,0,1,0,,,,\n"), "{report}");
    let all = dump(&["--all"]);
    assert!(all.contains("write <-- 3 (100 ms)") && all.contains("write <-- 3 (3.0 s)"), "{all}");
}
