//! The state of the recorder for people.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_format::abi::page::Lane;
use flightrec_format::unseen::visible;
use flightrec_reader::kind::Kind;

use crate::state::{
    Budget, Descriptors, Files, Lacking, Snapshots, State, Store, Sums, Tracepoint, Unpinned,
};
use flightrec_format::human::{bytes, counted, ranges, span};

/// A paragraph: lines of a name and a value.
#[derive(Default)]
struct Table(String);

impl Table {
    fn row(&mut self, name: &str, value: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.0, "{name:<12} {value}");
    }
}

/// The state, for people.
pub(super) fn text(state: &State, zone: &TimeZone) -> String {
    let mut table = Table::default();
    let since = at(state.recording_since, zone);
    table.row("recording", &format!("since {since} ({})", span(ns(state.recording_seconds))));
    table.row("session", &state.session);
    table.row("daemon", &daemon(state));
    table.row("level", &state.level_text());
    if let Some(unpinned) = &state.unpinned {
        table.row("pins", &pins(unpinned));
    }
    let strings = if state.strings { "recorded" } else { "not recorded" };
    table.row(
        "programs",
        &format!("{} for system calls, strings {strings}", state.syscall_programs),
    );
    if !state.switched_off.is_empty() {
        let keys: Vec<String> = state.switched_off.iter().map(visible).collect();
        table.row("off", &format!("{} (in the configuration)", keys.join(", ")));
    }
    for (i, Lacking { what, why }) in state.lacking.iter().enumerate() {
        let name = if i == 0 { "lacking" } else { "" };
        table.row(name, &format!("not on this kernel: {} ({})", visible(what), visible(why)));
    }
    for (i, of) in state.tracepoints.iter().enumerate() {
        table.row(if i == 0 { "tracepoints" } else { "" }, &tracepoint(of));
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
    if let Some(of) = &state.sums {
        sums(&mut table, of, zone);
    }
    if let Some(of) = &state.snapshots {
        snapshots(&mut table, of, zone);
    }
    table.0
}

/// `ext4:ext4_sync_file_exit when ret != 0: 12 recorded, 3 refused, 1205 left out`
fn tracepoint(of: &Tracepoint) -> String {
    let Tracepoint { name, when, recorded, refused, left_out } = of;
    let mut line = visible(name);
    if !when.is_empty() {
        let _ = write!(line, " when {}", visible(when));
    }
    let _ = write!(line, ": {recorded} recorded");
    if *refused != 0 {
        let _ = write!(line, ", {refused} refused");
    }
    if !when.is_empty() {
        let _ = write!(line, ", {left_out} left out");
    }
    line
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
    let reason = visible(&unpinned.reason);
    if unpinned.recording {
        return format!(
            "NOT REACHABLE: {reason}; recording continues while flightd runs: mount the BPF file \
             system again, and restart flightd"
        );
    }
    format!("GONE: {reason}: restart flightd")
}

fn budget(budget: &Budget) -> String {
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
        Files::Writing => {
            table.row("files", &format!("{} in {}", kept(), visible(&store.directory)));
        }
        Files::Failed => {
            let since = store
                .failed_since
                .map(|since| format!(" since {}", at(since, zone)))
                .unwrap_or_default();
            let reason = store.reason.as_deref().unwrap_or("flightd's log says why");
            table.row(
                "files",
                &format!(
                    "NOT WRITTEN{since}: {}; recording continues in the rings",
                    visible(reason)
                ),
            );
            table.row("", &format!("{} in {}", kept(), visible(&store.directory)));
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

/// The sums of minutes: how far, and what they take.
fn sums(table: &mut Table, of: &Sums, zone: &TimeZone) {
    if !of.enabled {
        return table.row("sums", "none are made ([history] enabled = false)");
    }
    if let Some(reason) = &of.reason {
        table.row("sums", &format!("NOT MADE: {}; made later from the files", visible(reason)));
    }
    let name = if of.reason.is_some() { "" } else { "sums" };
    let newest = match of.newest {
        Some(newest) => format!("in files up to {}", at(newest, zone)),
        None => "none of this recording in files yet".to_owned(),
    };
    let mut text = format!("{newest}, {}, {}", counted(of.files, "file"), bytes(of.bytes));
    if let (Some(minutes), Some(behind)) = (of.waiting_minutes, of.behind_seconds) {
        let (minutes, behind) = (counted(minutes, "minute"), span(ns(behind)));
        // Writing to a string can't fail.
        let _ = write!(text, "; {minutes} not in files yet, adding up is {behind} behind");
    }
    let _ = write!(text, "; CPU time {}", span(ns(of.cpu_seconds)));
    if of.hurries {
        text.push_str(", IN HASTE (events would be deleted before)");
    }
    table.row(name, &text);
    if of.unsummed_seconds > 0.0 {
        let gone = span(ns(of.unsummed_seconds));
        let text = format!("events of {gone} were deleted before they were added up");
        table.row("not summed", &text);
    }
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
                visible(&last.id),
                visible(&last.reason)
            ),
        );
    }
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
