//! CTF 1.8, as lttng-modules names things: babeltrace, Trace Compass, lttng-analyses.
//!
//! - Scheduling, births and ends of threads, signals, and requests to disks are the events that
//!   lttng-modules has, with its fields.
//! - A call is `syscall_entry_…` with its arguments as numbers, and paths as text, and
//!   `syscall_exit_…` with what it returned.
//! - Every other kind is `flightrec_…` by its name, with all fields that it has.
//! - A gap counts as discarded events of its CPU (`events_discarded`), and is an event
//!   `flightrec_gap` at its end.
//! - Threads and disks that are known are events `lttng_statedump_…` at the beginning.
//!
//! Every event has its process and its thread (`pid`, `tid`) as context. Times are
//! `CLOCK_MONOTONIC`, with the offset of the wall clock at the beginning.

mod calls;
mod classes;
mod fields;
mod metadata;
mod streams;

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use flightrec_format::abi::kinds::{
    BlockComplete, BlockIssue, Kind, SignalDeliver, SignalGenerate,
};
use flightrec_format::abi::record::Abi;
use flightrec_format::abi::slot::KTHREAD;
use flightrec_format::decode::{Body, Call, Event, Plain, Text};
use flightrec_format::ring::Gap;
use flightrec_reader::coverage::Coverage;
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Window;

use self::classes::{Classes, Type};
use self::fields::Field;
use self::metadata::uuid;
use self::streams::Streams;
use crate::exporter::{ExportError, Exporter, Session, Value, Words};
use crate::gaps::{self, Ended, Pending};
use crate::kernel::{priority, state};
use crate::kind;
use crate::printable::printable;

/// The folder of the kernel's trace, as lttng has it.
const FOLDER: &str = "kernel";
/// lttng-modules tells priorities from the first one that is not of real time on
/// (`MAX_RT_PRIO`).
const REAL_TIME: i64 = 100;
/// Bytes of a sector.
const SECTOR: u32 = 512;

/// An event before the first one that comes.
struct First {
    time: u64,
    name: &'static str,
    fields: Vec<(String, Field)>,
}

/// Makes a trace.
pub struct Ctf {
    dir: PathBuf,
    streams: Option<Streams>,
    classes: Classes,
    boot: Option<String>,
    session: u64,
    uuid: [u8; 16],
    env: Vec<(&'static str, String)>,
    /// What the wall clock is ahead of `CLOCK_MONOTONIC`, ns.
    offset: i64,
    /// The wall clock was set meanwhile.
    is_set: bool,
    arguments: FxHashMap<(Abi, u16), Vec<(String, bool)>>,
    gaps: Pending<Vec<(String, Field)>>,
    first: Vec<First>,
    /// Gaps of which nobody knows what they lost.
    unknown: u64,
    /// Calls with arguments that are not recorded.
    bare: u64,
    /// Events for whose class there was no room.
    left_out: u64,
    /// An event in the making.
    fields: Vec<(String, Type)>,
    data: Vec<u8>,
}

impl Ctf {
    /// A trace in a directory, which must be there, and empty, when the first recording begins.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.into(),
            streams: None,
            classes: Classes::default(),
            boot: None,
            session: 0,
            uuid: [0; 16],
            env: Vec::new(),
            offset: 0,
            is_set: false,
            arguments: FxHashMap::default(),
            gaps: Pending::default(),
            first: Vec::new(),
            unknown: 0,
            bare: 0,
            left_out: 0,
            fields: Vec::new(),
            data: Vec::new(),
        }
    }

    /// Appends the event that was made.
    fn push(&mut self, at: (u16, u64), name: &str, who: (u32, u32)) -> Result<(), ExportError> {
        let Some(class) = self.classes.id(name, &self.fields) else {
            self.left_out += 1;
            return Ok(());
        };
        let Self { streams, data, dir, .. } = self;
        let streams = streams.as_mut().ok_or_else(|| unwritable(dir, closed()))?;
        streams.event(at, class, who, data).map_err(|e| unwritable(dir, e))
    }

    fn discard(&mut self, cpu: u16, count: u64) -> Result<(), ExportError> {
        let Self { streams, dir, .. } = self;
        let streams = streams.as_mut().ok_or_else(|| unwritable(dir, closed()))?;
        streams.discard(cpu, count).map_err(|e| unwritable(dir, e))
    }

    /// Tells the gaps of a CPU that end until `time`.
    fn end_gaps(&mut self, cpu: u16, time: u64) -> Result<(), ExportError> {
        for gap in self.gaps.end(cpu, time) {
            self.unknown += u64::from(gap.missing.is_none());
            self.discard(cpu, gap.missing.unwrap_or(1))?;
            self.clear();
            for (name, value) in &gap.told {
                self.field(name, value);
            }
            self.push((cpu, gap.until), "flightrec_gap", (0, 0))?;
        }
        Ok(())
    }

    fn tell_first(&mut self) -> Result<(), ExportError> {
        for First { time, name, fields } in std::mem::take(&mut self.first) {
            self.clear();
            for (name, value) in &fields {
                self.field(name, value);
            }
            self.push((0, time), name, (0, 0))?;
        }
        Ok(())
    }

    /// Tells who and what is there at the beginning.
    fn state(&mut self, session: &Session<'_>, from: u64) -> Result<(), ExportError> {
        let long = |name: &str, value: u32| (name.to_owned(), Field::Long(i64::from(value)));
        for slot in session.recording.slots.iter().filter(|slot| slot.tid != 0) {
            let kernel = u32::from(slot.flags & KTHREAD != 0);
            let fields = [("tid", slot.tid), ("pid", slot.tgid), ("ppid", slot.ppid)];
            self.clear();
            for (name, value) in fields {
                self.int(name, i64::from(value));
            }
            self.comm("name", &slot.comm);
            // Of the type: 0 user, 1 kernel. The others are not known: LTTNG_UNKNOWN, 0.
            for (name, value) in
                [("type", kernel), ("mode", 0), ("submode", 0), ("status", 0), ("ns_level", 0)]
            {
                self.int(name, i64::from(value));
            }
            self.push((0, from), "lttng_statedump_process_state", (slot.tgid, slot.tid))?;
        }
        for (device, name) in &session.recording.meta.devices {
            let name = printable(name.as_bytes()).into_owned();
            let fields = vec![long("dev", *device), ("diskname".to_owned(), Field::Text(name))];
            self.first.push(First { time: from, name: "lttng_statedump_block_device", fields });
        }
        let name = "lttng_statedump_end";
        self.first.push(First { time: from, name, fields: Vec::new() });
        self.tell_first()
    }

    /// An event that lttng-modules has by that name; `None`: it has none.
    fn plain(&mut self, plain: &Plain, known: &EventContext<'_>) -> Option<&'static str> {
        self.clear();
        match plain.kind() {
            kind @ (Kind::BlockInsert | Kind::BlockIssue | Kind::BlockComplete) => {
                let of = BlockIssue::read(plain.bytes())?;
                self.int("dev", i64::from(of.device));
                self.unsigned("sector", of.sector);
                self.int("nr_sector", i64::from(of.bytes / SECTOR));
                if kind == Kind::BlockComplete {
                    let of = BlockComplete::read(plain.bytes())?;
                    self.int("error", i64::from(of.error));
                } else {
                    self.int("bytes", i64::from(of.bytes));
                    let by = known.request.and_then(|request| request.issued_by);
                    self.int("tid", by.map_or(0, i64::from));
                }
                // lttng_rwbs.h: write, discard, read, flush.
                let rwbs = match of.op {
                    0 => 1 << 2,
                    2 => 1 << 8,
                    3 | 5 => 1 << 1 | 1,
                    _ => 1,
                };
                self.int("rwbs", rwbs);
                if kind == Kind::BlockComplete {
                    return Some("block_rq_complete");
                }
                self.comm("comm", &known.comm);
                Some(if kind == Kind::BlockInsert { "block_rq_insert" } else { "block_rq_issue" })
            }
            Kind::SignalGenerate => {
                let of = SignalGenerate::read(plain.bytes())?;
                self.int("sig", i64::from(of.signal));
                self.int("code", i64::from(of.code));
                self.comm("comm", &of.target_comm);
                self.int("tid", i64::from(of.target_tid));
                self.int("group", i64::from(of.scope));
                self.int("result", i64::from(of.result));
                Some("signal_generate")
            }
            Kind::SignalDeliver => {
                let of = SignalDeliver::read(plain.bytes())?;
                self.int("sig", i64::from(of.signal));
                self.int("code", i64::from(of.code));
                self.unsigned("sa_handler", of.handler);
                self.unsigned("sa_flags", of.flags);
                Some("signal_deliver")
            }
            _ => None,
        }
    }
}

fn closed() -> io::Error {
    io::Error::other("no recording has begun")
}

fn unwritable(path: &Path, source: io::Error) -> ExportError {
    ExportError::Io { what: format!("can't write {}", path.display()), source }
}

impl Exporter for Ctf {
    fn begin(&mut self, session: &mut Session<'_>, _out: &mut Vec<u8>) -> Result<(), ExportError> {
        let from = session.window.from.max(session.meta().started);
        let offset = session.wall.wall(from).saturating_sub(from as i64);
        let is_set = session.wall.steps(session.window).next().is_some();
        let meta = session.meta();
        if self.boot.as_ref().is_some_and(|boot| *boot != meta.boot_id) {
            return Err(ExportError::OtherBoot);
        }
        self.learn(meta);
        let clean = |text: &str| printable(text.as_bytes()).into_owned();
        if self.boot.is_none() {
            let folder = self.dir.join(FOLDER);
            DirBuilder::new().mode(0o750).create(&folder).map_err(|e| unwritable(&folder, e))?;
            self.uuid = uuid(meta);
            self.streams = Some(Streams::new(&folder, self.uuid));
            (self.offset, self.boot) = (offset, Some(meta.boot_id.clone()));
            let env = [
                ("hostname", &*meta.host),
                ("domain", "kernel"),
                ("sysname", "Linux"),
                ("kernel_release", &*meta.kernel),
                ("kernel_version", "#1"),
                // Whose events these are named after.
                ("tracer_name", "lttng-modules"),
                ("tracer_major", "2"),
                ("tracer_minor", "13"),
                ("tracer_patchlevel", "0"),
                ("trace_buffering_scheme", "global"),
                ("trace_name", "flightrec"),
                ("flightrec_recorder", &*meta.recorder),
            ];
            self.env = env.map(|(key, value)| (key, clean(value))).into();
        }
        self.is_set |= is_set || offset.abs_diff(self.offset) > 1_000_000_000;
        if self.session != meta.session {
            self.session = meta.session;
            self.state(session, from)?;
        }
        Ok(())
    }

    fn coverage(&mut self, report: &Coverage, wall: &mut WallClock, _out: &mut Vec<u8>) {
        let from = report.window.from.max(report.started);
        let until = report.window.until.min(report.now).max(from);
        let text = |name: &str, text: String| (name.to_owned(), Field::Text(text));
        let mut fields = vec![
            ("complete".to_owned(), Field::Long(i64::from(report.is_complete()))),
            ("wall_ns".to_owned(), Field::Long(wall.wall(from))),
            ("until_ns".to_owned(), Field::Unsigned(until)),
        ];
        for (lane, what) in gaps::lanes(report) {
            fields.push(text(lane, what));
        }
        self.first.push(First { time: from, name: "flightrec_coverage", fields });
        for (from, until) in &report.detached {
            let fields = vec![("until_ns".to_owned(), Field::Unsigned(*until))];
            self.first.push(First { time: *from, name: "flightrec_detached", fields });
        }
    }

    fn gap(&mut self, gap: &Gap, window: Window, _wall: &mut WallClock, _out: &mut Vec<u8>) {
        let (from, until) = gaps::within(gap, window);
        let missing = gaps::missing(gap);
        let mut fields = vec![
            ("lane".to_owned(), Field::Text(gap.lane.name().to_owned())),
            ("reason".to_owned(), Field::Text(gap.reason.describe().to_owned())),
            ("since_ns".to_owned(), Field::Unsigned(from)),
        ];
        fields.extend(missing.map(|n| ("missing".to_owned(), Field::Unsigned(n))));
        fields.extend(gaps::lost(gap).map(|(key, n)| (key, Field::Unsigned(n))));
        self.gaps.add(gap.cpu, Ended { until, missing, told: fields });
    }

    fn event(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        words: &mut dyn Words,
        _out: &mut Vec<u8>,
    ) -> Result<(), ExportError> {
        if !self.first.is_empty() {
            self.tell_first()?;
        }
        let Event { time, cpu, tid, ref body } = *event;
        self.end_gaps(cpu, time)?;
        let (at, who) = ((cpu, time), (known.pid, tid));
        let prio = |prio: u8| priority(prio) - REAL_TIME;
        self.clear();
        let compat = |call: &Call| if call.abi == Abi::Native { "" } else { "compat_" };
        match body {
            Body::Enter(call) => {
                let name = format!("{}syscall_entry_{}", compat(call), words.call(call));
                self.enter(call);
                self.push(at, &name, who)
            }
            Body::Exit { call, ret, .. } => {
                let name = format!("{}syscall_exit_{}", compat(call), words.call(call));
                self.long("ret", *ret);
                self.push(at, &name, who)
            }
            Body::Switch { prev_prio, prev_state, preempted, next, next_prio, .. } => {
                self.comm("prev_comm", &known.comm);
                self.int("prev_tid", i64::from(tid));
                self.int("prev_prio", prio(*prev_prio));
                self.long("prev_state", state(*prev_state, *preempted) as i64);
                self.comm("next_comm", &known.next_comm);
                self.int("next_tid", i64::from(*next));
                self.int("next_prio", prio(*next_prio));
                self.push(at, "sched_switch", who)
            }
            Body::Waking { wakee, prio: of, cpu: before, new, .. } => {
                self.comm("comm", &known.next_comm);
                self.int("tid", i64::from(*wakee));
                self.int("prio", prio(*of));
                let target = known.wake.map_or(*before, |wake| wake.queued_on);
                self.int("target_cpu", i64::from(target));
                self.push(at, if *new { "sched_wakeup_new" } else { "sched_waking" }, who)
            }
            Body::Migrate { thread, prio: of, from, to } => {
                self.comm("comm", &known.next_comm);
                self.int("tid", i64::from(*thread));
                self.int("prio", prio(*of));
                self.int("orig_cpu", i64::from(*from));
                self.int("dest_cpu", i64::from(*to));
                self.push(at, "sched_migrate_task", who)
            }
            Body::Fork(fork) => {
                self.comm("parent_comm", &known.comm);
                self.int("parent_tid", i64::from(fork.parent_tid));
                self.int("parent_pid", i64::from(fork.parent_tgid));
                self.comm("child_comm", &fork.comm);
                self.int("child_tid", i64::from(fork.tid));
                self.int("child_pid", i64::from(fork.tgid));
                self.push(at, "sched_process_fork", who)
            }
            Body::Exec { exec, file, .. } => {
                let file = file.as_ref().map(Text::marked).unwrap_or_default();
                let file = printable(&file);
                self.text("filename", &file);
                self.int("tid", i64::from(exec.tid));
                self.int("old_tid", i64::from(exec.old_tid));
                self.push(at, "sched_process_exec", who)
            }
            Body::TaskExit(of) => {
                self.comm("comm", &of.comm);
                self.int("tid", i64::from(of.tid));
                self.int("exit_code", i64::from(of.code));
                self.push(at, "sched_process_exit", who)
            }
            body => {
                if let Body::Plain(plain) = body
                    && let Some(name) = self.plain(plain, known)
                {
                    return self.push(at, name, who);
                }
                self.clear();
                words.fields(event, known, &mut |key, value| match value {
                    Value::Signed(value) => self.long(key, value),
                    Value::Unsigned(value) => self.unsigned(key, value),
                    Value::Text(value) => self.text(key, value),
                });
                let name = format!("flightrec_{}", kind::name(body));
                self.push(at, &name, who)
            }
        }
    }

    fn end(&mut self, _out: &mut Vec<u8>) -> Result<(), ExportError> {
        if self.streams.is_none() {
            return Ok(());
        }
        self.tell_first()?;
        for cpu in self.gaps.cpus() {
            self.end_gaps(cpu, u64::MAX)?;
        }
        let Self { streams, dir, .. } = self;
        if let Some(streams) = streams {
            streams.finish().map_err(|e| unwritable(dir, e))?;
        }
        let path = self.dir.join(FOLDER).join("metadata");
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o640).open(&path);
        file.and_then(|mut file| file.write_all(self.metadata().as_bytes()))
            .map_err(|e| unwritable(&path, e))
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.unknown != 0 {
            remarks.push(format!(
                "CTF counts discarded events: {} of unknown size count as one each",
                if self.unknown == 1 {
                    "1 gap".to_owned()
                } else {
                    format!("{} gaps", self.unknown)
                }
            ));
        }
        if self.bare != 0 {
            remarks.push(format!(
                "of {} calls not all arguments are recorded: in CTF these are 0 or empty, and the \
                 field flightrec_recorded tells how many of the first ones are",
                self.bare
            ));
        }
        if self.is_set {
            remarks.push(
                "CTF has one offset of the wall clock: it was set meanwhile, and later times of \
                 day are not right"
                    .to_owned(),
            );
        }
        if self.left_out != 0 {
            remarks.push(format!(
                "there are more kinds of event than the trace has room for: {} events are left out",
                self.left_out
            ));
        }
        remarks
    }
}
