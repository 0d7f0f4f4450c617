//! `flightctl metrics`: the recorder's state as OpenMetrics text.
//!
//! <https://prometheus.io/docs/specs/om/open_metrics_spec/>. Only types that the older Prometheus
//! text format has too are used, so that node_exporter's textfile collector takes it as well.

mod exposition;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use flightrec_format::abi::page::RING_LANES;
use flightrec_format::control::{
    Budget, CpuTotals, DescriptorStatus, LastSnapshot, SnapshotStatus, Status, StoreState,
    StoreStatus, SumsStatus, Totals,
};
use flightrec_reader::source::Origin;
use jiff::Timestamp;

use self::exposition::Exposition;
use super::prelude::*;
use crate::output::Output;
use crate::state::{CpuState, Descriptors, Files, Snapshots, State, Store, Sums};

/// Arguments of `metrics`: none.
#[derive(Debug, clap::Args)]
pub struct MetricsArgs {}

/// Metrics, to print.
#[derive(Debug, PartialEq)]
pub struct MetricsPlan {
    /// Where from.
    origin: Origin,
}

impl Arguments for MetricsArgs {
    const HELP: Help = Help {
        about: "Print metrics of the recorder as OpenMetrics text, for Prometheus",
        examples: &[
            ("flightctl metrics", "print all metrics"),
            (
                "flightctl metrics | sponge /var/lib/prometheus/node-exporter/flightrec.prom",
                "for node_exporter's textfile collector, from a timer",
            ),
        ],
        exits: &[Exit::Fine, Exit::Error],
    };
    type Plan = MetricsPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<MetricsPlan> {
        Ok(MetricsPlan { origin: recorder.origin() })
    }
}

impl Plan for MetricsPlan {
    fn run(&self) -> Result<Exit> {
        Output::standard().print(text(&State::read(&self.origin)?).as_bytes())?;
        Ok(Exit::Fine)
    }
}

fn text(state: &State) -> String {
    let mut out = Exposition::default();
    out.gauge(
        "flightrec_daemon_up",
        "",
        "Whether flightd answers.",
        u8::from(state.daemon.is_some()),
    );
    let help = "The id of the recording, and the form of its programs.";
    out.family("flightrec_recording_info", "", false, help)
        .sample(&[("session", &state.session), ("syscall_programs", &state.syscall_programs)], 1);
    let help = "Degradation of the recording: 0 none; each step above 0 records less.";
    out.gauge("flightrec_level", "", help, state.level.number());
    if !state.lacking.is_empty() {
        let help = "What this kernel lacks, so that it is not recorded.";
        let mut family = out.family("flightrec_lacking", "", false, help);
        let all: BTreeSet<&str> = state.lacking.iter().map(|lacking| &*lacking.what).collect();
        for what in all {
            family.sample(&[("what", &what)], 1);
        }
    }
    let help = "Degradation of each CPU: number of steps that are taken.";
    let mut family = out.family("flightrec_cpu_level", "", false, help);
    for cpu in state.cpus.iter().filter(|cpu| cpu.recorded) {
        family.sample(&[("cpu", &cpu.cpu)], cpu.degraded.len());
    }
    let help = "Start of the recording, UNIX time.";
    out.gauge(
        "flightrec_recording_start_time_seconds",
        "seconds",
        help,
        unix(state.recording_since),
    );
    counters(&mut out, &state.cpus);
    let help = "Program runs that the kernel skipped as recursion, each of which lost an event.";
    let mut family = out.family("flightrec_recursion_misses", "", true, help);
    for (program, n) in &state.recursion_misses {
        family.sample(&[("program", program)], n);
    }
    let help = "Threads that found no room in the thread table.";
    out.family("flightrec_thread_table_collisions", "", true, help)
        .sample(&[], state.thread_table_collisions);
    let mut family = out.family(
        "flightrec_held_seconds",
        "seconds",
        false,
        "History that every CPU's ring holds.",
    );
    for (lane, of) in &state.lanes {
        family.sample(&[("lane", lane)], of.held_seconds);
    }
    let mut family = out.family("flightrec_ring_bytes", "bytes", false, "Size of one CPU's ring.");
    for (lane, of) in &state.lanes {
        family.sample(&[("lane", lane)], of.ring_bytes);
    }
    out.gauge(
        "flightrec_memory_bytes",
        "bytes",
        "Kernel memory of rings and tables.",
        state.memory_bytes,
    );
    out.gauge("flightrec_threads", "", "Threads in the thread table.", state.threads);
    if let Some(daemon) = &state.daemon {
        let help = "CPU time that flightd has used.";
        out.family("flightrec_daemon_cpu_seconds", "seconds", true, help)
            .sample(&[], daemon.cpu_seconds);
        let help = "Start of flightd, UNIX time.";
        out.gauge("flightrec_start_time_seconds", "seconds", help, unix(daemon.since));
        let help = "The version of flightd.";
        out.family("flightrec_build_info", "", false, help)
            .sample(&[("version", &daemon.version)], 1);
        descriptors(&mut out, state.descriptors.as_ref());
    }
    if let Some(store) = state.store.as_ref().filter(|store| store.state != Files::Off) {
        files(&mut out, store);
    }
    if let Some(of) = state.sums.as_ref().filter(|of| of.enabled) {
        sums(&mut out, of);
    }
    if let Some(of) = state.snapshots.as_ref().filter(|of| of.enabled) {
        snapshots(&mut out, of);
    }
    out.end()
}

/// Every family that there is, of a recorder on which little has happened: the reference of metrics
/// is made of it. Values say nothing.
pub fn every_family() -> String {
    let cpu = CpuTotals {
        recorded: true,
        refused: [[1; 3]; RING_LANES],
        no_ring: [1; RING_LANES],
        ..CpuTotals::default()
    };
    let status = Status {
        store: StoreStatus {
            state: StoreState::Writing,
            files: Some(1),
            oldest: Some(1),
            drained: 1,
            synced: 1,
            ..StoreStatus::default()
        },
        sums: SumsStatus { enabled: true, looked: true, written: 1, ..SumsStatus::default() },
        descriptors: DescriptorStatus { available: true, taken: 1, ..DescriptorStatus::default() },
        snapshots: SnapshotStatus {
            enabled: true,
            last: Some(LastSnapshot::default()),
            ..SnapshotStatus::default()
        },
        totals: Totals {
            now: 2,
            cpus: vec![cpu],
            misses: vec![(String::from("sys_enter"), 1)],
            slot_collisions: 0,
        },
        lacking: vec![(String::from("signals"), String::new())],
        version: String::new(),
        session: 0,
        pid: 0,
        recording_since: 0,
        wall_offset: 0,
        daemon_since: 0,
        daemon_cpu: 0,
        syscall_programs: String::new(),
        memory: 0,
        ring_bytes: [0; RING_LANES],
        held: [0; RING_LANES],
        strings: true,
        threads: 0,
        budget: Budget::default(),
        unpinned: None,
        switched_off: Vec::new(),
        tracepoints: Vec::new(),
    };
    text(&State::of_daemon(status))
}

/// The last descriptor snapshot.
fn descriptors(out: &mut Exposition, last: Option<&Descriptors>) {
    let help = "Whether there is a descriptor snapshot.";
    out.gauge("flightrec_descriptors_up", "", help, u8::from(last.is_some()));
    let Some(last) = last else { return };
    out.gauge(
        "flightrec_descriptors_age_seconds",
        "seconds",
        "Age of the last descriptor snapshot.",
        last.age_seconds,
    );
    let help = "CPU time of the last descriptor snapshot.";
    out.gauge("flightrec_descriptors_cost_seconds", "seconds", help, last.cost_seconds);
    out.gauge(
        "flightrec_descriptors_processes",
        "",
        "Processes in the last descriptor snapshot.",
        last.processes,
    );
    out.gauge(
        "flightrec_descriptors_open",
        "",
        "Descriptors in the last descriptor snapshot.",
        last.descriptors,
    );
    let help = "Descriptors for which the last descriptor snapshot had no room.";
    out.gauge("flightrec_descriptors_left_out", "", help, last.left_out);
    out.gauge("flightrec_descriptors_kept", "", "Descriptor snapshots in memory.", last.kept);
}

/// What was kept because something happened.
fn snapshots(out: &mut Exposition, of: &Snapshots) {
    out.gauge("flightrec_snapshots", "", "Snapshots in the directory.", of.kept);
    out.gauge("flightrec_snapshots_bytes", "bytes", "Size of the snapshots.", of.bytes);
    out.gauge("flightrec_snapshots_pending", "", "Snapshots being taken.", of.pending);
    for (name, help, n) in [
        ("flightrec_snapshots_taken", "Snapshots taken.", of.taken),
        (
            "flightrec_snapshots_repeated",
            "Causes that recurred and were only counted.",
            of.repeated,
        ),
        (
            "flightrec_snapshots_refused",
            "Snapshots refused because a quota was used up.",
            of.refused,
        ),
        ("flightrec_snapshots_failed", "Snapshots that could not be written.", of.failed),
    ] {
        out.family(name, "", true, help).sample(&[], n);
    }
    if let Some(last) = &of.last {
        let help = "Time of the last snapshot's cause, UNIX time.";
        out.gauge("flightrec_snapshots_last_timestamp_seconds", "seconds", help, unix(last.time));
    }
}

/// The files.
fn files(out: &mut Exposition, store: &Store) {
    let up = u8::from(store.state == Files::Writing);
    out.gauge("flightrec_store_up", "", "Whether files can be written.", up);
    if let (Some(files), Some(bytes)) = (store.files, store.bytes) {
        out.gauge("flightrec_store_files", "", "Files of all boots.", files);
        out.gauge("flightrec_store_bytes", "bytes", "Size of the files.", bytes);
    }
    if let Some(oldest) = store.oldest {
        out.gauge(
            "flightrec_store_oldest_timestamp_seconds",
            "seconds",
            "Beginning of the oldest file, UNIX time.",
            unix(oldest),
        );
    }
    if let Some(behind) = store.behind_seconds {
        out.gauge(
            "flightrec_store_behind_seconds",
            "seconds",
            "Time by which the files are behind.",
            behind,
        );
    }
    if let Some(behind) = store.unsynced_seconds {
        let help = "Time by which the disk is behind.";
        out.gauge("flightrec_store_unsynced_seconds", "seconds", help, behind);
    }
    let help = "Bytes written to files.";
    out.family("flightrec_store_written_bytes", "bytes", true, help)
        .sample(&[], store.written_bytes);
    for (name, help, counts) in [
        ("flightrec_store_written_events", "Events written to files.", &store.written_events),
        (
            "flightrec_store_lost_events",
            "Events overwritten before they were written.",
            &store.lost_events,
        ),
    ] {
        let mut family = out.family(name, "", true, help);
        for (lane, n) in counts {
            family.sample(&[("lane", lane)], n);
        }
    }
    for (name, unit, help, counts) in [
        (
            "flightrec_store_deleted_files",
            "",
            "Files deleted to keep a limit.",
            &store.deleted_files,
        ),
        (
            "flightrec_store_deleted_bytes",
            "bytes",
            "Bytes of files deleted to keep a limit.",
            &store.deleted_bytes,
        ),
    ] {
        let mut family = out.family(name, unit, true, help);
        for (limit, n) in counts {
            family.sample(&[("limit", limit)], n);
        }
    }
    out.family("flightrec_store_failures", "", true, "Number of times that writing failed.")
        .sample(&[], store.failures);
    let help = "CPU time of draining, encoding and writing.";
    out.family("flightrec_store_cpu_seconds", "seconds", true, help).sample(&[], store.cpu_seconds);
}

/// The sums of minutes.
fn sums(out: &mut Exposition, of: &Sums) {
    let help = "Whether sums of minutes can be made.";
    out.gauge("flightrec_sums_up", "", help, u8::from(of.reason.is_none()));
    out.gauge("flightrec_sums_files", "", "Files of sums of minutes.", of.files);
    out.gauge("flightrec_sums_bytes", "bytes", "Size of the sums of minutes.", of.bytes);
    if let Some(newest) = of.newest {
        let help = "End of the newest minute of the recording in the files of sums, UNIX time.";
        out.gauge("flightrec_sums_newest_timestamp_seconds", "seconds", help, unix(newest));
    }
    if let (Some(waiting), Some(behind)) = (of.waiting_minutes, of.behind_seconds) {
        let help = "Minutes of the recording that are not in the files of sums yet.";
        out.gauge("flightrec_sums_waiting", "", help, waiting);
        let help = "Time by which adding up events is behind.";
        out.gauge("flightrec_sums_behind_seconds", "seconds", help, behind);
    }
    let help = "Whether more CPU time than usual is taken, so that no events are deleted before \
                they are added up.";
    out.gauge("flightrec_sums_haste", "", help, u8::from(of.hurries));
    let help = "Events added up.";
    out.family("flightrec_sums_events", "", true, help).sample(&[], of.events);
    let help = "Time of which the events were deleted before they were added up.";
    out.family("flightrec_sums_unsummed_seconds", "seconds", true, help)
        .sample(&[], of.unsummed_seconds);
    let help = "CPU time of making sums of minutes.";
    out.family("flightrec_sums_cpu_seconds", "seconds", true, help).sample(&[], of.cpu_seconds);
}

/// What is counted by CPU and lane.
fn counters(out: &mut Exposition, cpus: &[CpuState]) {
    let lanes = || {
        cpus.iter().flat_map(|cpu| cpu.lanes.iter().map(|(lane, counts)| (cpu.cpu, *lane, counts)))
    };
    let mut family = out.family("flightrec_events", "", true, "Events recorded.");
    for (cpu, lane, counts) in lanes() {
        for (kind, n) in &counts.events {
            family.sample(&[("cpu", &cpu), ("lane", &lane), ("kind", kind)], n);
        }
    }
    let mut family =
        out.family("flightrec_lost_events", "", true, "Events that happened and are not recorded.");
    for (cpu, lane, counts) in lanes() {
        for (reason, n) in &counts.lost {
            family.sample(&[("cpu", &cpu), ("lane", &lane), ("reason", reason)], n);
        }
    }
    let help = "Events of the recorder itself, left out on purpose.";
    let mut family = out.family("flightrec_own_events", "", true, help);
    for (cpu, lane, counts) in lanes() {
        family.sample(&[("cpu", &cpu), ("lane", &lane)], counts.own);
    }
}

/// Seconds since 1970.
fn unix(moment: Timestamp) -> f64 {
    moment.as_nanosecond() as f64 / 1e9
}
