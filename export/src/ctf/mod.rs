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

mod classes;
mod streams;

use std::fmt::Write as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use flightrec_format::abi::kinds::{
    BlockComplete, BlockIssue, Kind, SignalDeliver, SignalGenerate,
};
use flightrec_format::abi::record::{Abi, Comm};
use flightrec_format::abi::slot::KTHREAD;
use flightrec_format::decode::{Body, Call, Event, Plain};
use flightrec_format::meta::{Meta, Syscall};
use flightrec_format::ring::Gap;
use flightrec_reader::coverage::Report;
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::threads::trim;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Window;

use self::classes::{Classes, Type};
use self::streams::Streams;
use crate::exporter::{ExportError, Exporter, Session, Value, Words};
use crate::gaps;
use crate::kernel::{priority, state};
use crate::kind;
use crate::printable::printable;

/// The folder of the kernel's trace, as lttng has it.
const FOLDER: &str = "kernel";
/// lttng-modules tells priorities from the first one that is not of real time on
/// (`MAX_RT_PRIO`).
const REAL_TIME: i64 = 100;
/// Most gaps that are waited for on a CPU.
const GAPS_MAX: usize = 65_536;
/// Bytes of a sector.
const SECTOR: u32 = 512;

/// A gap whose end is still to come.
struct Waiting {
    until: u64,
    missing: Option<u64>,
    fields: Vec<(String, Field)>,
}

/// A value of a field.
#[derive(Debug, Clone)]
enum Field {
    Long(i64),
    Unsigned(u64),
    Text(String),
}

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
    gaps: FxHashMap<u16, Vec<Waiting>>,
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
            gaps: FxHashMap::default(),
            first: Vec::new(),
            unknown: 0,
            bare: 0,
            left_out: 0,
            fields: Vec::new(),
            data: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.fields.clear();
        self.data.clear();
    }

    fn int(&mut self, name: &str, value: i64) {
        self.fields.push((name.to_owned(), Type::Int));
        self.data.extend_from_slice(&(value as i32).to_le_bytes());
    }

    fn long(&mut self, name: &str, value: i64) {
        self.fields.push((name.to_owned(), Type::Long));
        self.data.extend_from_slice(&value.to_le_bytes());
    }

    fn unsigned(&mut self, name: &str, value: u64) {
        self.fields.push((name.to_owned(), Type::Unsigned));
        self.data.extend_from_slice(&value.to_le_bytes());
    }

    fn text(&mut self, name: &str, value: &str) {
        self.fields.push((name.to_owned(), Type::Text));
        // Printable text has no NUL.
        self.data.extend_from_slice(value.as_bytes());
        self.data.push(0);
    }

    fn comm(&mut self, name: &str, value: &Comm) {
        self.fields.push((name.to_owned(), Type::Comm));
        let text = printable(trim(value));
        let mut bytes = [0; 16];
        let mut end = text.len().min(bytes.len() - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        for (to, from) in bytes.iter_mut().zip(text.as_bytes().iter().take(end)) {
            *to = *from;
        }
        self.data.extend_from_slice(&bytes);
    }

    fn field(&mut self, name: &str, value: &Field) {
        match value {
            Field::Long(value) => self.long(name, *value),
            Field::Unsigned(value) => self.unsigned(name, *value),
            Field::Text(value) => self.text(name, value),
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
        let Some(gaps) = self.gaps.get_mut(&cpu).filter(|gaps| !gaps.is_empty()) else {
            return Ok(());
        };
        let count = gaps.partition_point(|gap| gap.until <= time);
        let ended: Vec<Waiting> = gaps.drain(..count).collect();
        for gap in ended {
            self.unknown += u64::from(gap.missing.is_none());
            self.discard(cpu, gap.missing.unwrap_or(1))?;
            self.clear();
            for (name, value) in &gap.fields {
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

    fn learn(&mut self, meta: &Meta) {
        let mut learn = |abi: Abi, calls: &[Syscall]| {
            for call in calls {
                let Some(arguments) = &call.args else { continue };
                let each = arguments.iter();
                let each = each.map(|of| (of.name.clone(), of.ctype.contains("char *")));
                self.arguments.insert((abi, call.nr), each.collect());
            }
        };
        learn(Abi::Native, &meta.native);
        learn(Abi::Compat, &meta.compat);
    }

    /// The beginning of a call: its arguments.
    fn enter(&mut self, call: &Call) {
        let names = self.arguments.remove(&(call.abi, call.nr));
        self.clear();
        let recorded = usize::from(call.nargs).min(call.args.len());
        let count = names.as_ref().map_or(recorded, Vec::len).min(call.args.len());
        for index in 0..count {
            let known = names.as_ref().and_then(|names| names.get(index));
            let text = call.strings.iter().find(|text| usize::from(text.index) == index);
            let number = call.args.get(index).filter(|_| index < recorded);
            let other = format!("arg{index}");
            let name = known.map_or(other.as_str(), |(name, _)| name);
            match (text, number) {
                (Some(text), _) => {
                    let (head, tail) = text.parts();
                    let mut path = printable(head).into_owned();
                    if tail.is_some() || text.is_cut() {
                        path.push_str("...");
                    }
                    path.push_str(&printable(tail.unwrap_or_default()));
                    self.text(name, &path);
                }
                // A path that is not recorded.
                (None, _) if known.is_some_and(|(_, is_text)| *is_text) => self.text(name, ""),
                (None, Some(number)) => self.long(name, *number as i64),
                // Readers expect all fields of a call.
                (None, None) => self.long(name, 0),
            }
        }
        if recorded < count {
            self.int("flightrec_recorded", recorded as i64);
            self.bare += 1;
        }
        if let Some(names) = names {
            self.arguments.insert((call.abi, call.nr), names);
        }
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

    /// The metadata: everything is known now.
    fn metadata(&self) -> String {
        let mut uuid = String::new();
        for (i, byte) in self.uuid.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            // Writing to a text does not fail.
            let _ = write!(uuid, "{dash}{byte:02x}");
        }
        let mut env = String::new();
        for (key, value) in &self.env {
            match value.parse::<u32>() {
                Ok(number) if key.starts_with("tracer_") => {
                    let _ = writeln!(env, "    {key} = {number};");
                }
                _ => {
                    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                    let _ = writeln!(env, "    {key} = \"{value}\";");
                }
            }
        }
        format!(
            "/* CTF 1.8 */

typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 32; align = 8; signed = true; }} := int32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;

trace {{
    major = 1; minor = 8; uuid = \"{uuid}\"; byte_order = le;
    packet.header := struct {{
        uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; uint64_t stream_instance_id;
    }};
}};

env {{
{env}}};

clock {{
    name = \"monotonic\"; uuid = \"{uuid}\"; description = \"Monotonic Clock\";
    freq = 1000000000; offset = {offset};
}};

typealias integer {{
    size = 64; align = 8; signed = false; map = clock.monotonic.value;
}} := uint64_clock_t;

stream {{
    id = 0;
    event.header := struct {{ uint32_t id; uint64_clock_t timestamp; }};
    event.context := struct {{ int32_t _pid; int32_t _tid; }};
    packet.context := struct {{
        uint64_clock_t timestamp_begin; uint64_clock_t timestamp_end; uint64_t content_size;
        uint64_t packet_size; uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id;
    }};
}};

{classes}",
            offset = self.offset,
            classes = self.classes.text()
        )
    }
}

fn closed() -> io::Error {
    io::Error::other("no recording has begun")
}

fn unwritable(path: &Path, source: io::Error) -> ExportError {
    ExportError::Io { what: format!("can't write {}", path.display()), source }
}

/// The boot's id as 16 bytes; else the session's.
fn uuid(meta: &Meta) -> [u8; 16] {
    let digits: Vec<u8> = meta
        .boot_id
        .chars()
        .filter_map(|c| c.to_digit(16).map(|digit| digit as u8))
        .take(32)
        .collect();
    let mut uuid = [0; 16];
    if digits.len() == 32 {
        for (byte, pair) in uuid.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        }
    } else {
        let (half, _) = uuid.split_at_mut(8);
        half.copy_from_slice(&meta.session.to_be_bytes());
    }
    uuid
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

    fn coverage(&mut self, report: &Report, wall: &mut WallClock, _out: &mut Vec<u8>) {
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
        let from = gap.from.max(window.from);
        let until = gap.until.min(window.until).max(from);
        let missing = gaps::missing(gap);
        let mut fields = vec![
            ("lane".to_owned(), Field::Text(gap.lane.name().to_owned())),
            ("reason".to_owned(), Field::Text(gap.reason.describe().to_owned())),
            ("since_ns".to_owned(), Field::Unsigned(from)),
        ];
        fields.extend(missing.map(|n| ("missing".to_owned(), Field::Unsigned(n))));
        fields.extend(gaps::lost(gap).map(|(key, n)| (key, Field::Unsigned(n))));
        let gaps = self.gaps.entry(gap.cpu).or_default();
        if gaps.len() < GAPS_MAX {
            let place = gaps.partition_point(|other| other.until <= until);
            gaps.insert(place, Waiting { until, missing, fields });
        }
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
                let file = file.as_ref().map(|file| printable(&file.bytes)).unwrap_or_default();
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
        let cpus: Vec<u16> = self.gaps.keys().copied().collect();
        for cpu in cpus {
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
