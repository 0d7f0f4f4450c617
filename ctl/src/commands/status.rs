//! `flightctl status`

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_format::abi::page::Lane;

use crate::exit::Exit;
use crate::human::{bytes, counted, ranges, span};
use crate::kind::Kind;
use crate::output::Output;
use crate::schema::Versioned;
use crate::source::Origin;
use crate::state::{Budget, Descriptors, Files, Lacking, Level, Snapshots, State, Store, Unpinned};

/// Shows the state of the recorder, for people or as one JSON object.
pub fn run(origin: &Origin, json: bool) -> Result<Exit> {
    let state = State::read(origin)?;
    let text = if json {
        let mut text = serde_json::to_string_pretty(&Versioned::new(&state))?;
        text.push('\n');
        text
    } else {
        text(&state, &crate::zone::system())
    };
    let mut output = Output::standard();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|e| output.explain(e))?;
    Ok(Exit::Fine)
}

/// A paragraph: lines of a name and a value.
#[derive(Default)]
struct Table(String);

impl Table {
    fn row(&mut self, name: &str, value: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.0, "{name:<12} {value}");
    }
}

fn text(state: &State, zone: &TimeZone) -> String {
    let mut table = Table::default();
    let since = at(state.recording_since, zone);
    table.row("recording", &format!("since {since} ({})", span(ns(state.recording_seconds))));
    table.row("session", &state.session);
    table.row("daemon", &daemon(state));
    table.row("level", &level(state));
    if let Some(unpinned) = &state.unpinned {
        table.row("pins", &pins(unpinned));
    }
    let strings = if state.strings { "recorded" } else { "not recorded" };
    table.row(
        "programs",
        &format!("{} for system calls, strings {strings}", state.syscall_programs),
    );
    for (i, Lacking { what, why }) in state.lacking.iter().enumerate() {
        let name = if i == 0 { "lacking" } else { "" };
        table.row(name, &format!("not on this kernel: {} ({})", shown(what), shown(why)));
    }
    table.row("budget", &budget(&state.budget));
    table
        .row("memory", &format!("{} of rings and tables in the kernel", bytes(state.memory_bytes)));
    table.row("threads", &format!("{} in the thread table", state.threads));
    if state.daemon.is_some() {
        table.row("descriptors", &descriptors(state.descriptors.as_ref()));
    }
    table.row("CPUs", &ranges(state.cpus.iter().filter(|cpu| cpu.recorded).map(|cpu| cpu.cpu)));
    for lane in Lane::RINGS {
        let Some(of) = state.lanes.get(lane.name()) else { continue };
        let of_lane = Kind::ALL.into_iter().filter(|kind| kind.lane() == lane).map(Kind::name);
        let count = |kind| Some(format!("{kind} {}", of.counts.events.get(kind)?));
        let counts: Vec<String> = of_lane.filter_map(count).collect();
        let (held, ring) = (of.held_seconds, bytes(of.ring_bytes));
        table
            .row(lane.name(), &format!("holds {held:.1} s in {ring} a CPU; {}", counts.join(", ")));
    }
    table.row("not recorded", &losses(state));
    if let Some(store) = &state.store {
        files(&mut table, store, zone);
    }
    if let Some(of) = &state.snapshots {
        snapshots(&mut table, of, zone);
    }
    table.0
}

/// `2026-01-31 14:03:07`
fn at(moment: Timestamp, zone: &TimeZone) -> String {
    moment.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

fn daemon(state: &State) -> String {
    let Some(daemon) = &state.daemon else {
        return "not asked: these values are from the pinned rings, which the kernel keeps filling"
            .to_owned();
    };
    let percent =
        if daemon.seconds > 0.0 { daemon.cpu_seconds * 100.0 / daemon.seconds } else { 0.0 };
    format!(
        "flightd {}, pid {}, running for {}, CPU time {} ({percent:.2} %)",
        daemon.version,
        daemon.pid,
        span(ns(daemon.seconds)),
        span(ns(daemon.cpu_seconds)),
    )
}

/// Pins that are not where they should be.
fn pins(unpinned: &Unpinned) -> String {
    let reason = shown(&unpinned.reason);
    if unpinned.recording {
        return format!(
            "NOT REACHABLE: {reason}; recording continues while flightd runs: mount the BPF file \
             system again, and restart flightd"
        );
    }
    format!("GONE: {reason}: restart flightd")
}

/// `untimed_exits: no_strings, untimed_exits on CPUs 0-1`
pub(super) fn level(state: &State) -> String {
    let mut what: Vec<(&[&str], Vec<u16>)> = Vec::new();
    for cpu in state.cpus.iter().filter(|cpu| !cpu.degraded.is_empty()) {
        match what.iter_mut().find(|(steps, _)| *steps == cpu.degraded) {
            Some((_, cpus)) => cpus.push(cpu.cpu),
            None => what.push((&cpu.degraded, vec![cpu.cpu])),
        }
    }
    if state.level == Level::Stopped {
        return format!(
            "{}: NOTHING IS RECORDED: the programs are no longer attached",
            state.level.name()
        );
    }
    let mut parts = Vec::new();
    if state.level == Level::Detached {
        parts.push(
            "system calls are detached on all CPUs for part of the time, also now".to_owned(),
        );
    }
    parts.extend(what.into_iter().map(|(steps, cpus)| {
        let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
        format!("{} on {noun} {}", steps.join(", "), ranges(cpus))
    }));
    if parts.is_empty() {
        parts.push("everything that is configured is recorded".to_owned());
    }
    format!("{}: {}", state.level.name(), parts.join("; "))
}

pub(super) fn budget(budget: &Budget) -> String {
    let total = budget
        .total_percent
        .map(|total| format!("{total} % of all CPUs in all; "))
        .unwrap_or_default();
    let limit = match (budget.syscall_percent, budget.sched_percent) {
        (Some(syscall), Some(sched)) => {
            format!("{syscall} % of each CPU for system calls, {sched} % for scheduling")
        }
        _ if budget.total_percent.is_some() => "no limit of each CPU".to_owned(),
        _ => "no limit".to_owned(),
    };
    let how = if budget.measured { "measured here" } else { "assumed" };
    let Budget { call_ns, string_ns, sched_ns, .. } = budget;
    format!(
        "{total}{limit}; a call costs {call_ns} ns, a string {string_ns} ns, a switch or wakeup \
         {sched_ns} ns ({how})"
    )
}

/// The files: where, how much, how fresh, and what they lack.
fn files(table: &mut Table, store: &Store, zone: &TimeZone) {
    let kept = || {
        let oldest =
            store.oldest.map(|oldest| format!(", since {}", at(oldest, zone))).unwrap_or_default();
        match (store.files, store.bytes) {
            (Some(files), Some(size)) => {
                format!("{}, {}{oldest}", counted(files, "file"), bytes(size))
            }
            _ => "an unknown number of files".to_owned(),
        }
    };
    match store.state {
        Files::Off => return table.row("files", "none are written ([store] enabled = false)"),
        Files::Writing => table.row("files", &format!("{} in {}", kept(), shown(&store.directory))),
        Files::Failed => {
            let since = store
                .failed_since
                .map(|since| format!(" since {}", at(since, zone)))
                .unwrap_or_default();
            let reason = store.reason.as_deref().unwrap_or("flightd's log says why");
            table.row(
                "files",
                &format!("NOT WRITTEN{since}: {}; recording continues in the rings", shown(reason)),
            );
            table.row("", &format!("{} in {}", kept(), shown(&store.directory)));
        }
    }
    let events = sum(store.written_events.values().copied());
    let (rate, cpu) = (bytes(store.bytes_per_second), span(ns(store.cpu_seconds)));
    let mut text = format!(
        "{} with {} at {rate}/s, CPU time {cpu}",
        bytes(store.written_bytes),
        counted(events, "event")
    );
    for (behind, words) in
        [(store.behind_seconds, "to the file"), (store.unsynced_seconds, "to the disk")]
    {
        if let Some(behind) = behind {
            // Writing to a string can't fail.
            let _ = write!(text, "; {words} {} ago", span(ns(behind)));
        }
    }
    table.row("written", &text);
    let lost = sum(store.lost_events.values().copied());
    if lost != 0 {
        let text = format!(
            "{} overwritten in the rings before they could be written",
            counted(lost, "event")
        );
        table.row("not written", &text);
    }
    let gone = store.deleted_files.iter().filter(|(_, files)| **files != 0);
    let gone: Vec<String> = gone.map(|(key, files)| deleted(store, key, *files)).collect();
    if !gone.is_empty() {
        table.row("deleted", &gone.join("; "));
    }
}

/// `5 files, 320 MiB, for keep_free (others fill the disk)`
fn deleted(store: &Store, key: &str, files: u64) -> String {
    let size = bytes(store.deleted_bytes.get(key).copied().unwrap_or(0));
    let why = if key == "keep_free" { " (others fill the disk)" } else { "" };
    format!("{}, {size}, for {key}{why}", counted(files, "file"))
}

/// What was kept because something happened.
fn snapshots(table: &mut Table, of: &Snapshots, zone: &TimeZone) {
    if !of.enabled {
        return table.row("snapshots", "none are taken ([snapshots] enabled = false)");
    }
    let mut text =
        format!("{} kept, {}; {} taken by this daemon", of.kept, bytes(of.bytes), of.taken);
    let pending = (u64::from(of.pending), "being taken");
    let others = [
        (of.repeated, "repeats counted"),
        (of.refused, "refused"),
        (of.failed, "FAILED (see the daemon's log)"),
    ];
    for (n, words) in [pending].into_iter().chain(others).filter(|(n, _)| *n != 0) {
        // Writing to a string can't fail.
        let _ = write!(text, ", {n} {words}");
    }
    table.row("snapshots", &text);
    if let Some(last) = &of.last {
        table.row(
            "",
            &format!(
                "the last of {}, {}: {}",
                at(last.time, zone),
                shown(&last.id),
                shown(&last.reason)
            ),
        );
    }
}

/// A path or a reason, fit for a terminal whatever is in it.
fn shown(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

/// The last snapshot of what descriptors stand for.
fn descriptors(last: Option<&Descriptors>) -> String {
    let Some(last) = last else {
        return "named only where the recording has the call that opened them: no snapshot of open \
                descriptors (see the daemon's log)"
            .to_owned();
    };
    let mut text = format!(
        "{} in {} processes in the last snapshot, {} ago, which took {} of CPU time",
        last.descriptors,
        last.processes,
        span(ns(last.age_seconds)),
        span(ns(last.cost_seconds)),
    );
    if last.left_out != 0 {
        let _ = write!(text, "; no room for {} more", last.left_out);
    }
    text
}

/// Everything that was not recorded since the start; overwriting old history is what rings do, and
/// no loss.
fn losses(state: &State) -> String {
    let reasons = [
        ("busy", "refused, lane busy"),
        ("throttled", "refused by the budget"),
        ("no_ring", "on CPUs without rings"),
    ];
    let mut lost = Vec::new();
    let mut push = |n: u64, noun: &str, words: &str| {
        if n != 0 {
            lost.push(format!("{} {words}", counted(n, noun)));
        }
    };
    for (reason, words) in reasons {
        let kinds = if reason == "throttled" { by_kind(state) } else { String::new() };
        let lost = state.lanes.values().filter_map(|of| of.counts.lost.get(reason).copied());
        push(sum(lost), "event", &format!("{words}{kinds}"));
    }
    let missed = sum(state.recursion_misses.values().copied());
    push(missed, "event", "skipped by the kernel (recursion)");
    push(
        sum(state.lanes.values().map(|of| of.counts.own)),
        "event",
        "left out (the recorder's own)",
    );
    push(
        state.thread_table_collisions,
        "thread",
        "without room in the thread table (raise [threads] slots)",
    );
    if state.unpinned.is_some() {
        lost.push("what the kernel skipped is not known".to_owned());
    }
    if lost.is_empty() { "nothing".to_owned() } else { lost.join("; ") }
}

/// ` (sys_enter 5, sys_exit 5)`: what the budget refused, by kind; empty where it did not.
fn by_kind(state: &State) -> String {
    let lanes = Lane::RINGS.iter().filter_map(|lane| state.lanes.get(lane.name()));
    let kinds = lanes.flat_map(|of| &of.counts.throttled).filter(|(_, n)| **n != 0);
    let kinds: Vec<String> = kinds.map(|(kind, n)| format!("{kind} {n}")).collect();
    if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) }
}

fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::testing::{status, store};
    use flightrec_format::control::{self, Status, StoreState, StoreStatus};
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
            "snapshots    9 kept, 40 MiB; 3 taken by this daemon, 1 being taken, 1234 repeats \
             counted, 5 refused, 6 FAILED (see the daemon's log)\n",
            "             the last of 2023-11-14 22:14:25, 20231114T221425Z-blocked: dd (12) has \
             been blocked\\u{1b}[2J\n",
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
                    device\\u{1b}[2J; recording continues in the rings\n";
        assert!(said.contains(want), "{said}");
        let unknown =
            StoreState::Failed { since: 60_000_000_000, reason: "Input/output error".into() };
        let said =
            text(StoreStatus { state: unknown, files: None, bytes: 0, oldest: None, ..store() });
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
    fn what_the_kernel_lacks_is_told() {
        let lacking = vec![
            ("signals".to_owned(), "this kernel has no tracepoint signal:x\u{1b}".to_owned()),
            ("the kernel's log".to_owned(), "refused".to_owned()),
        ];
        let state = State::of_daemon(Status { lacking, ..status() });
        let said = text(&state, &TimeZone::UTC);
        let want = "lacking      not on this kernel: signals (this kernel has no tracepoint \
                    signal:x\\u{1b})\n             not on this kernel: the kernel's log (refused)\n";
        assert!(said.contains(want), "{said}");
        let json = serde_json::to_value(state).unwrap();
        assert_eq!(json["lacking"][1]["what"], "the kernel's log");
        assert_eq!(json["lacking"][0]["why"], "this kernel has no tracepoint signal:x\u{1b}");
        // Where nothing is, nothing is said.
        let whole = State::of_daemon(status());
        assert!(!text(&whole, &TimeZone::UTC).contains("lacking"));
        assert_eq!(serde_json::to_value(whole).unwrap().get("lacking"), None);
    }

    #[test]
    fn pins_that_are_gone_are_told_with_what_that_means() {
        let state = |records| {
            let unpinned =
                Some(control::Unpinned { reason: "/b/links: gone\u{1b}".into(), records });
            State::of_daemon(Status { unpinned, ..status() })
        };
        let (goes_on, stopped) =
            (text(&state(true), &TimeZone::UTC), text(&state(false), &TimeZone::UTC));
        for (said, part) in [
            (&goes_on, "level        untimed_exits: "),
            (
                &goes_on,
                "pins         NOT REACHABLE: /b/links: gone\\u{1b}; recording continues while \
                 flightd runs",
            ),
            (&goes_on, "; what the kernel skipped is not known"),
            (&stopped, "level        stopped: NOTHING IS RECORDED"),
            (&stopped, "pins         GONE: /b/links: gone\\u{1b}: restart flightd\n"),
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
}
