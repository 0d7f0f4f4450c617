//! The state of the recorder at one moment: what `status` shows and `metrics` exports.
//!
//! The field names here are those of `flightctl status --json`: scripts rely on them. A field is
//! never renamed, nor its unit changed; new ones may come.

mod snapshots;
mod sums;
#[cfg(test)]
pub(crate) mod testing;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use jiff::Timestamp;
use serde::Serialize;

use flightrec_format::abi::counts as format;
use flightrec_format::abi::page::{Lane, RING_LANES, Refusal};
use flightrec_format::abi::state::{
    GIVEN_ARGUMENTS, GIVEN_EXIT_TIMES, GIVEN_SAMPLING, GIVEN_STACKS, GIVEN_STRINGS, GIVEN_SYSCALLS,
};
use flightrec_format::control::{
    self, CpuTotals, DELETED_FOR, DescriptorStatus, Status, StoreState, StoreStatus, Totals,
};
use flightrec_format::human::ranges;
use flightrec_format::meta;

use flightrec_cli::note;
use flightrec_reader::control::{Client, ControlError};
use flightrec_reader::kind::Kind;
use flightrec_reader::source::Origin;
use flightrec_reader::source::{PinnedSource, Source};
pub use snapshots::Snapshots;
pub use sums::Sums;

/// The state of the recorder.
#[derive(Debug, Serialize)]
pub struct State {
    /// Who told it.
    pub source: Told,
    /// When it was taken.
    pub time: Timestamp,
    /// The same, ns of `CLOCK_MONOTONIC`.
    pub mono_ns: u64,
    /// Session id of the recording, 16 hexadecimal digits.
    pub session: String,
    /// When the recording began.
    pub recording_since: Timestamp,
    /// How long it has been running.
    pub recording_seconds: f64,
    /// How much is recorded of what is configured.
    pub level: Level,
    /// Form of the system call programs: `tp_btf`, `tracepoint` or `none`.
    pub syscall_programs: String,
    /// Whether strings of system calls are recorded.
    pub strings: bool,
    /// Kernel memory of rings and tables.
    pub memory_bytes: u64,
    /// Threads in the thread table.
    pub threads: u64,
    /// Threads that found no room in it.
    pub thread_table_collisions: u64,
    /// Runs of programs that the kernel skipped as recursion, by program.
    pub recursion_misses: BTreeMap<String, u64>,
    /// The last snapshot of what descriptors stand for; none where the pinned rings were read, or
    /// the kernel can't be asked.
    pub descriptors: Option<Descriptors>,
    /// The daemon; none where the pinned rings were read.
    pub daemon: Option<Daemon>,
    /// The files; none where the pinned rings were read.
    pub store: Option<Store>,
    /// The sums of minutes; none where the pinned rings were read.
    pub sums: Option<Sums>,
    /// Windows that were kept because something happened; none where the pinned rings were read.
    pub snapshots: Option<Snapshots>,
    /// The lanes, by name, in all CPUs together.
    pub lanes: BTreeMap<&'static str, LaneState>,
    /// Every CPU on which something happened or that has rings.
    pub cpus: Vec<CpuState>,
    /// What recording may cost on each CPU, and what it costs.
    pub budget: Budget,
    /// What is wrong with the recording's pins; none: nothing, or the pinned rings were read.
    pub unpinned: Option<Unpinned>,
    /// What the configuration leaves out: keys of `[record]`, or `sampling.hz`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switched_off: Vec<String>,
    /// What this kernel lacks of what is optional.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<Lacking>,
    /// Tracepoints that the configuration names; none where the pinned rings were read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tracepoints: Vec<Tracepoint>,
}

/// A tracepoint that the configuration names, and what became of its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tracepoint {
    /// `SUBSYSTEM:NAME`.
    pub name: String,
    /// The condition under which its events are recorded; none: always.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub when: String,
    /// Events that were recorded.
    pub recorded: u64,
    /// Events that the budget refused, or that came while another program was writing.
    pub refused: u64,
    /// Events for which the condition did not hold.
    pub left_out: u64,
}

impl From<control::TracepointStatus> for Tracepoint {
    fn from(of: control::TracepointStatus) -> Self {
        let control::TracepointStatus { name, when, recorded, refused, left_out } = of;
        Self { name, when, recorded, refused, left_out }
    }
}

/// Something that is not recorded, as this kernel lacks what it takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lacking {
    /// What is missing, in words.
    pub what: String,
    /// What the kernel has not, or what it said.
    pub why: String,
}

/// The recording's pins are not where they should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unpinned {
    /// What is wrong.
    pub reason: String,
    /// Whether it goes on nevertheless, as long as the daemon runs.
    pub recording: bool,
}

/// What recording may cost, and what an event costs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Budget {
    /// Percent of the machine's CPU time that recording may take in all; none: no limit.
    pub total_percent: Option<f64>,
    /// Percent of a CPU that system calls may take; none: no limit.
    pub syscall_percent: Option<f64>,
    /// Percent of a CPU that scheduling and requests to disks may take; none: no limit.
    pub sched_percent: Option<f64>,
    /// A system call with its exit.
    pub call_ns: u32,
    /// A string of it, in addition.
    pub string_ns: u32,
    /// A switch, wakeup or migration.
    pub sched_ns: u32,
    /// An event of a request to a disk.
    pub disk_ns: u32,
    /// The probe overhead of a system call: its cost when it is not recorded.
    pub call_overhead_ns: u32,
    /// The probe overhead of a switch, wakeup or migration.
    pub sched_overhead_ns: u32,
    /// The probe overhead of an event of a request to a disk.
    pub disk_overhead_ns: u32,
    /// Whether these costs were measured on this machine; else they are assumed.
    pub measured: bool,
    /// Whether the programs on system calls are detached at the moment.
    pub detached: bool,
}

impl From<control::Budget> for Budget {
    fn from(budget: control::Budget) -> Self {
        let [syscall_percent, sched_percent] =
            budget.limits.map(|limit| (limit != 0).then(|| f64::from(limit) / 10_000.0));
        let control::Budget {
            call,
            string,
            sched,
            disk,
            call_floor,
            sched_floor,
            disk_floor,
            measured,
            detached,
            ..
        } = budget;
        Self {
            total_percent: (budget.total != 0).then(|| f64::from(budget.total) / 10_000.0),
            syscall_percent,
            sched_percent,
            call_ns: call,
            string_ns: string,
            sched_ns: sched,
            disk_ns: disk,
            call_overhead_ns: call_floor,
            sched_overhead_ns: sched_floor,
            disk_overhead_ns: disk_floor,
            measured,
            detached,
        }
    }
}

/// Who told the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The daemon.
    Daemon,
    /// The rings that are pinned in a bpffs.
    Pinned,
}

/// How much is recorded of what is configured, on the CPU that records least: each level is named
/// after the last step that the budget had it take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// All of it.
    #[default]
    Full,
    /// Strings of system calls are not.
    NoStrings,
    /// How long short calls took is not.
    UntimedExits,
    /// Of the arguments, the first alone is.
    FewerArguments,
    /// Neither stacks of long waits nor functions of samples are.
    NoStacks,
    /// System calls are in stretches.
    Sampling,
    /// Of processes that make many, system calls are refused.
    QuietOnly,
    /// The programs on system calls are detached, on all CPUs, for part of the time.
    Detached,
    /// Nothing is recorded: the programs are no longer attached.
    Stopped,
}

/// The steps of degradation: bit, and the level that it makes, whose name it has.
const STEPS: [(u32, Level); 6] = [
    (GIVEN_STRINGS, Level::NoStrings),
    (GIVEN_EXIT_TIMES, Level::UntimedExits),
    (GIVEN_ARGUMENTS, Level::FewerArguments),
    (GIVEN_STACKS, Level::NoStacks),
    (GIVEN_SAMPLING, Level::Sampling),
    (GIVEN_SYSCALLS, Level::QuietOnly),
];

/// The steps that are taken, by name.
fn degraded(given: u32) -> Vec<&'static str> {
    STEPS.iter().filter(|(bit, _)| given & bit != 0).map(|(_, level)| level.name()).collect()
}

impl Level {
    /// Of a CPU.
    fn of(given: u32) -> Self {
        STEPS
            .iter()
            .filter(|(bit, _)| given & bit != 0)
            .map(|(_, level)| *level)
            .max()
            .unwrap_or_default()
    }

    /// Its number in metrics: 0 is all, each step records less.
    pub const fn number(self) -> i64 {
        self as i64
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::NoStrings => "no_strings",
            Self::UntimedExits => "untimed_exits",
            Self::FewerArguments => "fewer_arguments",
            Self::NoStacks => "no_stacks",
            Self::Sampling => "sampling",
            Self::QuietOnly => "quiet_only",
            Self::Detached => "detached",
            Self::Stopped => "stopped",
        }
    }
}

/// The daemon.
#[derive(Debug, Serialize)]
pub struct Daemon {
    /// Version of `flightd`.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// When it began.
    pub since: Timestamp,
    /// How long it has been running.
    pub seconds: f64,
    /// CPU time that it has used.
    pub cpu_seconds: f64,
}

/// How the writing of files goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Files {
    /// The configuration has none.
    Off,
    /// Written.
    Writing,
    /// They can't be written now.
    Failed,
}

/// The files that the recording is drained into. Counters count from the daemon's start.
#[derive(Debug, Serialize)]
pub struct Store {
    /// How it goes.
    pub state: Files,
    /// Where it has failed: since when.
    pub failed_since: Option<Timestamp>,
    /// Why.
    pub reason: Option<String>,
    /// The state directory.
    pub directory: String,
    /// The file that is being written.
    pub file: Option<String>,
    /// Files of all boots; `None`: not known.
    pub files: Option<u64>,
    /// What they take; `None`: not known.
    pub bytes: Option<u64>,
    /// When the oldest of them began.
    pub oldest: Option<Timestamp>,
    /// How far the files are behind.
    pub behind_seconds: Option<f64>,
    /// The same, of what the disk has confirmed.
    pub unsynced_seconds: Option<f64>,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes a second that are written.
    pub bytes_per_second: u64,
    /// Events written, by lane.
    pub written_events: BTreeMap<&'static str, u64>,
    /// Events that were overwritten before they were written, by lane.
    pub lost_events: BTreeMap<&'static str, u64>,
    /// Files that were deleted, by the key of `[store]` that it was for.
    pub deleted_files: BTreeMap<&'static str, u64>,
    /// Their bytes.
    pub deleted_bytes: BTreeMap<&'static str, u64>,
    /// Times that writing failed.
    pub failures: u64,
    /// CPU time of draining, encoding and writing.
    pub cpu_seconds: f64,
}

impl Store {
    fn of(store: StoreStatus, now: u64, wall_offset: i64) -> Self {
        let (state, failed) = match store.state {
            StoreState::Off => (Files::Off, None),
            StoreState::Writing => (Files::Writing, None),
            StoreState::Failed { since, reason } => {
                (Files::Failed, Some((moment(since, wall_offset), reason)))
            }
        };
        let (failed_since, reason) = failed.unzip();
        let by_lane = |counts: [u64; RING_LANES]| {
            Lane::RINGS.map(Lane::name).into_iter().zip(counts).collect()
        };
        let behind = |until: u64| (until != 0).then(|| seconds(now.saturating_sub(until)));
        Self {
            state,
            failed_since,
            reason,
            directory: store.directory,
            file: store.file,
            files: store.files,
            bytes: store.files.map(|_| store.bytes),
            oldest: store.oldest.and_then(|wall| Timestamp::from_nanosecond(wall.into()).ok()),
            behind_seconds: behind(store.drained),
            unsynced_seconds: behind(store.synced),
            written_bytes: store.written_bytes,
            bytes_per_second: store.rate,
            written_events: by_lane(store.written_events),
            lost_events: by_lane(store.lost_events),
            deleted_files: DELETED_FOR
                .into_iter()
                .zip(store.deleted.map(|(files, _)| files))
                .collect(),
            deleted_bytes: DELETED_FOR
                .into_iter()
                .zip(store.deleted.map(|(_, bytes)| bytes))
                .collect(),
            failures: store.failures,
            cpu_seconds: seconds(store.cpu),
        }
    }
}

/// A snapshot of what descriptors stand for.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the JSON fields")]
pub struct Descriptors {
    /// How old it is.
    pub age_seconds: f64,
    /// CPU time that it took.
    pub cost_seconds: f64,
    /// Processes in it.
    pub processes: u32,
    /// Descriptors in it.
    pub descriptors: u32,
    /// Descriptors for which it had no room.
    pub left_out: u64,
    /// Snapshots that the daemon has at hand.
    pub kept: u32,
}

impl Descriptors {
    fn of(status: &DescriptorStatus, now: u64) -> Option<Self> {
        (status.available && status.taken != 0).then(|| Self {
            age_seconds: seconds(now.saturating_sub(status.taken)),
            cost_seconds: seconds(status.cost),
            processes: status.processes,
            descriptors: status.descriptors,
            left_out: status.left_out,
            kept: status.kept,
        })
    }
}

/// A lane.
#[derive(Debug, Serialize)]
pub struct LaneState {
    /// History that every CPU's ring holds.
    pub held_seconds: f64,
    /// One CPU's ring.
    pub ring_bytes: u64,
    /// What went through it since the start, over all CPUs.
    #[serde(flatten)]
    pub counts: Counts,
}

/// A CPU.
#[derive(Debug, Serialize)]
pub struct CpuState {
    /// Its number.
    pub cpu: u16,
    /// Whether it has rings.
    pub recorded: bool,
    /// How much is recorded there of what is configured.
    pub level: Level,
    /// The steps by which the budget degrades it.
    pub degraded: Vec<&'static str>,
    /// What went through its lanes since the start, by lane.
    pub lanes: BTreeMap<&'static str, Counts>,
}

/// Counters since the start of the recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Events recorded, by kind.
    pub events: BTreeMap<&'static str, u64>,
    /// Events that happened and are not recorded, by reason: `busy`, `throttled`, `no_ring`.
    pub lost: BTreeMap<&'static str, u64>,
    /// Of the `throttled`: by kind.
    pub throttled: BTreeMap<&'static str, u64>,
    /// The recorder's own events, left out on purpose.
    pub own: u64,
}

impl Counts {
    /// All events recorded.
    pub fn recorded(&self) -> u64 {
        self.events.values().fold(0, |sum, n| sum.saturating_add(*n))
    }

    fn of(lane: Lane, totals: &CpuTotals) -> Self {
        let i = lane as usize;
        let events = totals.events.get(i).copied().unwrap_or_default();
        let refused = totals.refused.get(i).copied().unwrap_or_default();
        let by = |reason: Refusal| refused.get(reason as usize).copied().unwrap_or(0);
        let no_ring = totals.no_ring.get(i).copied().unwrap_or(0);
        let named = |counts: format::Counts| {
            counts
                .into_iter()
                .enumerate()
                .filter_map(|(k, n)| Some((Kind::counted(lane, k)?.name(), n)))
                .collect()
        };
        Self {
            events: named(events),
            throttled: named(totals.throttled.get(i).copied().unwrap_or_default()),
            lost: [
                ("busy", by(Refusal::Busy)),
                ("throttled", by(Refusal::Throttled)),
                ("no_ring", no_ring),
            ]
            .into(),
            own: by(Refusal::Own),
        }
    }

    fn add(&mut self, other: &Self) {
        for (sums, more) in [
            (&mut self.events, &other.events),
            (&mut self.lost, &other.lost),
            (&mut self.throttled, &other.throttled),
        ] {
            for (name, n) in more {
                let sum = sums.entry(name).or_default();
                *sum = sum.saturating_add(*n);
            }
        }
        self.own = self.own.saturating_add(other.own);
    }
}

impl State {
    /// Asks the daemon; where none runs, or the rings are asked for, reads the rings.
    pub fn read(origin: &Origin) -> Result<Self> {
        match origin {
            Origin::Pinned { bpffs_dir } => Self::of_rings(bpffs_dir),
            Origin::Daemon { runtime_dir, bpffs_dir } => {
                match Client::connect(runtime_dir).and_then(|mut client| client.status()) {
                    Ok(status) => Ok(Self::of_daemon(status)),
                    Err(absent @ ControlError::NotRunning(_)) => {
                        let Ok(state) = Self::of_rings(bpffs_dir) else {
                            return Err(absent.into());
                        };
                        note("flightd is not running, but its recording continues in the kernel");
                        Ok(state)
                    }
                    Err(e) => Err(e.into()),
                }
            }
        }
    }

    /// As the daemon tells it.
    pub fn of_daemon(status: Status) -> Self {
        let budget = Budget::from(status.budget);
        let unpinned = status
            .unpinned
            .map(|control::Unpinned { reason, records }| Unpinned { reason, recording: records });
        let running = status.totals.now.saturating_sub(status.daemon_since);
        let daemon = Daemon {
            version: status.version,
            pid: status.pid,
            since: moment(status.daemon_since, status.wall_offset),
            seconds: seconds(running),
            cpu_seconds: seconds(status.daemon_cpu),
        };
        Self {
            source: Told::Daemon,
            daemon: Some(daemon),
            store: Some(Store::of(status.store, status.totals.now, status.wall_offset)),
            sums: Some(Sums::of(
                status.sums,
                status.recording_since,
                status.totals.now,
                status.wall_offset,
            )),
            snapshots: Some(Snapshots::of(status.snapshots, status.wall_offset)),
            syscall_programs: status.syscall_programs,
            strings: status.strings,
            memory_bytes: status.memory,
            threads: u64::from(status.threads),
            descriptors: Descriptors::of(&status.descriptors, status.totals.now),
            unpinned,
            switched_off: status.switched_off,
            lacking: status.lacking.into_iter().map(|(what, why)| Lacking { what, why }).collect(),
            tracepoints: status.tracepoints.into_iter().map(Tracepoint::from).collect(),
            ..Self::counted(
                status.session,
                (status.recording_since, status.wall_offset),
                (status.held, status.ring_bytes),
                status.totals,
            )
        }
        .with(budget)
    }

    /// `untimed_exits: no_strings, untimed_exits on CPUs 0-1`
    pub fn level_text(&self) -> String {
        let mut what: Vec<(&[&str], Vec<u16>)> = Vec::new();
        for cpu in self.cpus.iter().filter(|cpu| !cpu.degraded.is_empty()) {
            match what.iter_mut().find(|(steps, _)| *steps == cpu.degraded) {
                Some((_, cpus)) => cpus.push(cpu.cpu),
                None => what.push((&cpu.degraded, vec![cpu.cpu])),
            }
        }
        if self.level == Level::Stopped {
            return format!(
                "{}: NOTHING IS RECORDED: the programs are no longer attached",
                self.level.name()
            );
        }
        let mut parts = Vec::new();
        if self.level == Level::Detached {
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
        format!("{}: {}", self.level.name(), parts.join("; "))
    }

    /// With its budget, and the level that follows from it.
    fn with(self, budget: Budget) -> Self {
        let stopped = self.unpinned.as_ref().is_some_and(|unpinned| !unpinned.recording);
        let level = match (stopped, budget.detached) {
            (true, _) => Level::Stopped,
            (_, true) => Level::Detached,
            _ => self.level,
        };
        Self { level, budget, ..self }
    }

    fn of_rings(bpffs_dir: &Path) -> Result<Self> {
        let source = PinnedSource::open(bpffs_dir)?;
        let meta = source.meta()?;
        let clock = (meta.started, source.clock().wall_offset);
        let lacking = |meta::Lacking { what, why, .. }| Lacking { what, why };
        Ok(Self {
            source: Told::Pinned,
            daemon: None,
            store: None,
            sums: None,
            snapshots: None,
            syscall_programs: meta.syscall_programs,
            strings: meta.strings,
            memory_bytes: source.memory(),
            threads: source.threads(),
            switched_off: meta.switched_off.into_iter().map(|off| off.key).collect(),
            lacking: meta.lacking.into_iter().map(lacking).collect(),
            ..Self::counted(
                meta.session,
                clock,
                (source.held(), meta.lanes.ring_bytes()),
                source.totals()?,
            )
        }
        .with(source.budget().into()))
    }

    /// What follows from the counters; the rest is left empty.
    fn counted(
        session: u64,
        (started, wall_offset): (u64, i64),
        lanes: ([u64; RING_LANES], [u64; RING_LANES]),
        totals: Totals,
    ) -> Self {
        let happened = |cpu: &&CpuTotals| cpu.recorded || cpu.no_ring != [0; RING_LANES];
        let of_cpu = |cpu: &CpuTotals| CpuState {
            cpu: cpu.cpu,
            recorded: cpu.recorded,
            level: Level::of(cpu.given),
            degraded: degraded(cpu.given),
            lanes: Lane::RINGS.map(|lane| (lane.name(), Counts::of(lane, cpu))).into(),
        };
        let cpus: Vec<CpuState> = totals.cpus.iter().filter(happened).map(of_cpu).collect();
        let (held, ring_bytes) = lanes;
        let of_lane = |((lane, held), ring_bytes): ((Lane, u64), u64)| {
            let mut counts = Counts::of(lane, &CpuTotals::default());
            cpus.iter()
                .filter_map(|cpu| cpu.lanes.get(lane.name()))
                .for_each(|more| counts.add(more));
            (lane.name(), LaneState { held_seconds: seconds(held), ring_bytes, counts })
        };
        Self {
            source: Told::Pinned,
            time: moment(totals.now, wall_offset),
            mono_ns: totals.now,
            session: format!("{session:016x}"),
            recording_since: moment(started, wall_offset),
            recording_seconds: seconds(totals.now.saturating_sub(started)),
            level: cpus.iter().map(|cpu| cpu.level).max().unwrap_or_default(),
            syscall_programs: String::new(),
            strings: false,
            memory_bytes: 0,
            threads: 0,
            thread_table_collisions: totals.slot_collisions,
            recursion_misses: totals.misses.into_iter().collect(),
            descriptors: None,
            daemon: None,
            store: None,
            sums: None,
            snapshots: None,
            lanes: Lane::RINGS.into_iter().zip(held).zip(ring_bytes).map(of_lane).collect(),
            cpus,
            budget: Budget::default(),
            unpinned: None,
            switched_off: Vec::new(),
            lacking: Vec::new(),
            tracepoints: Vec::new(),
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Wall time of a moment of the monotonic clock, by the present offset.
fn moment(mono: u64, wall_offset: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(mono) + i128::from(wall_offset))
        .unwrap_or(Timestamp::UNIX_EPOCH)
}
