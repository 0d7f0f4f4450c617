//! The status of made-up states.

use super::*;
use crate::state::testing::{status, store, sums};
use flightrec_format::control::{self, Status, StoreState, StoreStatus, SumsStatus};
use jiff::tz::TimeZone;
use serde_json::Value;

#[test]
fn every_figure_is_shown() {
    let text = text(&State::of_daemon(status()), &TimeZone::UTC);
    for part in [
        "recording    since 2023-11-14 22:13:30 (1m 0s)",
        "session      0000000000000abc",
        "pid 77, running for 50.0 s, CPU time 500.0 ms (1.00 %)",
        "level        untimed_exits: no_strings, untimed_exits on CPU 1\n",
        "tp_btf for system calls, strings recorded",
        "budget       1 % of all CPUs in all; 3 % of each CPU for system calls, 2 % for \
         scheduling; a call costs 260 ns, a string 120 ns, a switch or wakeup 200 ns \
         (measured here)",
        "50 MiB of rings",
        "321 in the thread table",
        "descriptors  345 in 12 processes in the last snapshot, 500.0 ms ago, which took 2.5 \
         ms of CPU time; no room for 6 more",
        "CPUs         0-1",
        "syscall      holds 12.5 s in 16 MiB a CPU; sys_enter 200, sys_exit 198",
        "sched        holds 60.0 s in 8 MiB a CPU; switch 14, waking 10, wakeup_new 2, \
         migrate 4",
        "8 events refused, lane busy; 10 events refused by the budget (switch 6, waking 4); 6 \
         events on CPUs without rings; 2 events skipped by the kernel (recursion); 18 events \
         left out (the recorder's own); 1 thread without room",
        "files        12 files, 700 MiB, since 2023-11-14 19:26:40 in /var/lib/flightrec\n",
        "written      3 MiB with 234 events at 2 KiB/s, CPU time 25.0 ms; to the file 1.0 s \
         ago; to the disk 7.5 s ago\n",
        "not written  6 events overwritten in the rings before they could be written\n",
        "deleted      3 files, 192 MiB, for keep_free (others fill the disk); 40 files, 2 \
         GiB, for max_total\n",
        "sums         in files up to 2023-11-14 22:13:30, 3 files, 5 MiB; 1 minute not in files \
         yet, adding up is 4.0 s behind; CPU time 1.3 s, IN HASTE (events would be deleted \
         before)\n",
        "not summed   events of 2m 0s were deleted before they were added up\n",
        "snapshots    9 kept, 40 MiB; 3 taken by this daemon, 1 being taken, 1234 repeats \
         counted, 5 refused, 6 FAILED (see the daemon's log)\n",
        "             the last of 2023-11-14 22:14:25, 20231114T221425Z-blocked: dd (12) has \
         been blocked\\33[2J\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn files_that_are_not_written_say_why() {
    let text = |store| text(&State::of_daemon(Status { store, ..status() }), &TimeZone::UTC);
    let reason = "No space left on device\u{1b}[2J".to_owned();
    let failed =
        StoreStatus { state: StoreState::Failed { since: 60_000_000_000, reason }, ..store() };
    let said = text(failed);
    let want = "files        NOT WRITTEN since 2023-11-14 22:14:20: No space left on \
                device\\33[2J; recording continues in the rings\n";
    assert!(said.contains(want), "{said}");
    let unknown = StoreState::Failed { since: 60_000_000_000, reason: "Input/output error".into() };
    let said = text(StoreStatus { state: unknown, files: None, bytes: 0, oldest: None, ..store() });
    assert!(
        said.contains("             an unknown number of files in /var/lib/flightrec\n"),
        "{said}"
    );
    let said = text(StoreStatus::default());
    assert!(
        said.contains("files        none are written") && !said.contains("written  "),
        "{said}"
    );
}

#[test]
fn sums_that_are_not_made_say_why() {
    let text = |sums| text(&State::of_daemon(Status { sums, ..status() }), &TimeZone::UTC);
    let failed = SumsStatus { failed: Some("No space left\u{1b}".into()), written: 0, ..sums() };
    let said = text(failed);
    let want = "sums         NOT MADE: No space left\\33; made later from the files\n             \
                none of this recording in files yet, 3 files, 5 MiB; 1 minute not in files yet";
    assert!(said.contains(want), "{said}");
    // It has just begun, and does not know how late it is.
    let said = text(SumsStatus { looked: false, added: 0, hurries: false, ..sums() });
    assert!(
        said.contains("3 files, 5 MiB; CPU time 1.3 s\n") && !said.contains("behind"),
        "{said}"
    );
    let said = text(SumsStatus::default());
    assert!(said.contains("sums         none are made"), "{said}");
}

#[test]
fn what_the_kernel_lacks_is_told() {
    let lacking = vec![
        ("signals".to_owned(), "this kernel has no tracepoint signal:x\u{1b}".to_owned()),
        ("the kernel's log".to_owned(), "refused".to_owned()),
    ];
    let state = State::of_daemon(Status { lacking, ..status() });
    let said = text(&state, &TimeZone::UTC);
    let want = "lacking      not on this kernel: signals (this kernel has no tracepoint \
                signal:x\\33)\n             not on this kernel: the kernel's log (refused)\n";
    assert!(said.contains(want), "{said}");
    let json = serde_json::to_value(state).unwrap();
    assert_eq!(json["lacking"][1]["what"], "the kernel's log");
    assert_eq!(json["lacking"][0]["why"], "this kernel has no tracepoint signal:x\u{1b}");
    // Where nothing is, nothing is said.
    let whole = State::of_daemon(status());
    assert!(!text(&whole, &TimeZone::UTC).contains("lacking"));
    assert_eq!(serde_json::to_value(&whole).unwrap().get("switched_off"), None);
    assert_eq!(serde_json::to_value(whole).unwrap().get("lacking"), None);
}

#[test]
fn pins_that_are_gone_are_told_with_what_that_means() {
    let state = |records| {
        let unpinned = Some(control::Unpinned { reason: "/b/links: gone\u{1b}".into(), records });
        State::of_daemon(Status { unpinned, ..status() })
    };
    let (goes_on, stopped) =
        (text(&state(true), &TimeZone::UTC), text(&state(false), &TimeZone::UTC));
    for (said, part) in [
        (&goes_on, "level        untimed_exits: "),
        (
            &goes_on,
            "pins         NOT REACHABLE: /b/links: gone\\33; recording continues while \
             flightd runs",
        ),
        (&goes_on, "; what the kernel skipped is not known"),
        (&stopped, "level        stopped: NOTHING IS RECORDED"),
        (&stopped, "pins         GONE: /b/links: gone\\33: restart flightd\n"),
    ] {
        assert!(said.contains(part), "{part:?} is not in\n{said}");
    }
    let json = serde_json::to_value(state(false)).unwrap();
    assert_eq!(
        (&json["level"], &json["unpinned"]["recording"]),
        (&Value::from("stopped"), &Value::from(false))
    );
}

#[test]
fn json_has_the_documented_names() {
    let json = serde_json::to_value(State::of_daemon(status())).unwrap();
    for (pointer, want) in [
        ("/source", Value::from("daemon")),
        ("/time", "2023-11-14T22:14:30Z".into()),
        ("/mono_ns", 70_000_000_000_u64.into()),
        ("/session", "0000000000000abc".into()),
        ("/recording_since", "2023-11-14T22:13:30Z".into()),
        ("/recording_seconds", 60.0.into()),
        ("/level", "untimed_exits".into()),
        ("/cpus/0/level", "full".into()),
        ("/cpus/1/degraded/1", "untimed_exits".into()),
        ("/syscall_programs", "tp_btf".into()),
        ("/strings", true.into()),
        ("/memory_bytes", (50 << 20).into()),
        ("/threads", 321.into()),
        ("/thread_table_collisions", 1.into()),
        ("/descriptors/age_seconds", 0.5.into()),
        ("/descriptors/cost_seconds", 0.0025.into()),
        ("/descriptors/descriptors", 345.into()),
        ("/descriptors/left_out", 6.into()),
        ("/recursion_misses/sys_enter", 2.into()),
        ("/daemon/version", "0.1.0".into()),
        ("/daemon/pid", 77.into()),
        ("/daemon/since", "2023-11-14T22:13:40Z".into()),
        ("/daemon/seconds", 50.0.into()),
        ("/daemon/cpu_seconds", 0.5.into()),
        ("/store/state", "writing".into()),
        ("/store/failed_since", Value::Null),
        ("/store/reason", Value::Null),
        ("/store/directory", "/var/lib/flightrec".into()),
        ("/store/file", "/var/lib/flightrec/0123/20231114T221330Z-000001.flight".into()),
        ("/store/files", 12.into()),
        ("/store/deleted_files/keep_free", 3.into()),
        ("/store/deleted_bytes/max_total", (2_u64 << 30).into()),
        ("/store/bytes", (700 << 20).into()),
        ("/store/oldest", "2023-11-14T19:26:40Z".into()),
        ("/store/behind_seconds", 1.0.into()),
        ("/store/unsynced_seconds", 7.5.into()),
        ("/store/written_bytes", (3 << 20).into()),
        ("/store/bytes_per_second", (2 << 10).into()),
        ("/store/written_events/syscall", 200.into()),
        ("/store/lost_events/task", 1.into()),
        ("/store/failures", 2.into()),
        ("/store/cpu_seconds", 0.025.into()),
        ("/snapshots/enabled", true.into()),
        ("/snapshots/pending", 1.into()),
        ("/snapshots/taken", 3.into()),
        ("/snapshots/repeated", 1234.into()),
        ("/snapshots/refused", 5.into()),
        ("/snapshots/failed", 6.into()),
        ("/snapshots/kept", 9.into()),
        ("/snapshots/bytes", (40 << 20).into()),
        ("/snapshots/last/id", "20231114T221425Z-blocked".into()),
        ("/snapshots/last/time", "2023-11-14T22:14:25Z".into()),
        ("/snapshots/last/reason", "dd (12) has been blocked\u{1b}[2J".into()),
        ("/lanes/syscall/held_seconds", 12.5.into()),
        ("/lanes/syscall/ring_bytes", (16 << 20).into()),
        ("/lanes/syscall/events/sys_enter", 200.into()),
        ("/lanes/syscall/lost/busy", 8.into()),
        ("/lanes/syscall/lost/throttled", 0.into()),
        ("/lanes/syscall/lost/no_ring", 1.into()),
        ("/lanes/sched/lost/throttled", 10.into()),
        ("/lanes/sched/throttled/switch", 6.into()),
        ("/lanes/syscall/throttled/sys_enter", 0.into()),
        ("/budget/syscall_percent", 3.0.into()),
        ("/budget/sched_percent", 2.0.into()),
        ("/budget/call_ns", 260.into()),
        ("/budget/string_ns", 120.into()),
        ("/budget/sched_ns", 200.into()),
        ("/budget/measured", true.into()),
        ("/budget/total_percent", 1.0.into()),
        ("/budget/call_overhead_ns", 140.into()),
        ("/budget/sched_overhead_ns", 100.into()),
        ("/budget/detached", false.into()),
        ("/lanes/syscall/own", 18.into()),
        ("/lanes/task/events/mark", 2.into()),
        ("/cpus/1/cpu", 1.into()),
        ("/cpus/1/recorded", true.into()),
        ("/cpus/1/lanes/sched/events/switch", 7.into()),
        ("/cpus/2/recorded", false.into()),
        ("/cpus/2/lanes/task/lost/no_ring", 3.into()),
    ] {
        assert_eq!(json.pointer(pointer), Some(&want), "{pointer}");
    }
    assert_eq!(
        json.pointer("/cpus").and_then(Value::as_array).map(Vec::len),
        Some(3),
        "CPU 3 never ran"
    );
}

#[test]
fn what_is_switched_off_is_told() {
    let switched_off = vec!["disk".to_owned(), "later\u{1b}".to_owned()];
    let state = State::of_daemon(Status { switched_off, ..status() });
    let want = "off          disk, later\\33 (in the configuration)\n";
    let said = text(&state, &TimeZone::UTC);
    assert!(said.contains(want), "{said}");
    assert_eq!(serde_json::to_value(&state).unwrap()["switched_off"][0], "disk");
}
