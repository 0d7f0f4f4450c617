//! Perfetto's traces: <https://ui.perfetto.dev>, `trace_processor`.
//!
//! - Scheduling is events of ftrace, in columns by CPU (`sched`), from which Perfetto makes
//!   running, runnable and sleeping times. `sched_blocked_reason` tells in which function a thread
//!   slept, and whether for I/O.
//! - A call is a slice on its thread's track, of category `call`, with its arguments; `ret` and
//!   `error` where its exit is recorded, `entry` = `not recorded` where its entry is not.
//! - Every other event is a slice or an instant whose category is its kind, as `--event` has it:
//!   on its thread's track, or one of a disk, a CPU, or its own; with `tid` where the track is not
//!   the thread's. Births and ends of threads are events of ftrace as well, for the tree of
//!   processes.
//! - A sample is a `PerfSample`.
//! - A gap is a slice on a track of its CPU and lane, with what is missing; a packet says there
//!   that data was lost, and so does the next bundle of the CPU's scheduling.
//!
//! Times are `CLOCK_MONOTONIC`, which the trace calls `BOOTTIME`, its default: the recording does
//! not tell for how long the machine was suspended. Snapshots of clocks tell the wall time.

mod field;
mod interned;
mod packets;
mod proto;
mod sched;
mod tracks;

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use flightrec_format::abi::kinds::{BlockIssue, Interrupt, Kind, Value as FieldValue};
use flightrec_format::abi::record::{Act, WakeContext};
use flightrec_format::decode::{Body, Call, Event, Plain, Sample, Stack};
use flightrec_format::ring::Gap;
use flightrec_reader::coverage::Report;
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::threads::trim;
use flightrec_reader::unit;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Window;

use self::field::{clock, event as ftrace, packet, sample, slice, system};
use self::interned::Interned;
use self::packets::{EVENTS, GAPS, Packets};
use self::proto::{bytes, message, number};
use self::sched::{Sched, Switch, Waking};
use self::tracks::{Of, Tracks, Who, tell_process, tell_thread};
use crate::devices::Devices;
use crate::exporter::{ExportError, Exporter, Session, Value, Words};
use crate::gaps;
use crate::printable::printable;
use crate::stacks::{Frame, Frames};

/// Times beyond what Perfetto's signed numbers hold are none of a machine.
const TIME_MAX: u64 = i64::MAX as u64 / 2;
/// Most threads of which is remembered that they wait for I/O.
const WAITING_MAX: usize = 65_536;

/// Makes a trace of Perfetto.
#[derive(Default)]
pub struct Perfetto {
    packets: Packets,
    interned: Interned,
    sched: Sched,
    tracks: Tracks,
    frames: Frames,
    devices: Devices,
    cgroups: BTreeMap<u64, String>,
    /// The boot and the session that are exported; none yet.
    boot: Option<String>,
    session: u64,
    /// Threads that sleep for I/O.
    io_waits: FxHashSet<u32>,
    /// Threads that run after that, by CPU.
    io_runs: FxHashMap<u16, u32>,
    /// Annotations of the slice that is being made.
    notes: Vec<u8>,
}

/// A slice in the making.
struct Slice {
    track: u64,
    category: u64,
    name: u64,
}

impl Perfetto {
    /// An empty trace.
    pub fn new() -> Self {
        Self::default()
    }

    /// The packet before which nothing is interned.
    fn clear(&mut self, time: u64) {
        self.flush_bundles(true);
        self.interned = Interned::default();
        self.packets.push(|out| {
            number(packet::SEQUENCE, EVENTS, out);
            number(packet::FLAGS, packet::CLEARED, out);
            message(packet::CLOCK_SNAPSHOT, out, |out| {
                clock_at(clock::BOOTTIME, time, out);
                message(clock::CLOCKS, out, |out| {
                    number(clock::ID, clock::DELTA, out);
                    number(clock::TIME, time, out);
                    number(clock::INCREMENTAL, 1, out);
                });
            });
            message(packet::DEFAULTS, out, |out| {
                number(packet::CLOCK, clock::DELTA, out);
                message(sample::DEFAULTS, out, |out| {
                    message(sample::TIMEBASE, out, |out| {
                        bytes(sample::NAME, b"samples", out);
                    });
                });
            });
        });
        self.packets.set_clock(time);
    }

    /// A moment by all clocks.
    fn clocks(&mut self, time: u64, wall: i64) {
        self.packets.push(|out| {
            message(packet::CLOCK_SNAPSHOT, out, |out| {
                clock_at(clock::BOOTTIME, time, out);
                clock_at(clock::MONOTONIC, time, out);
                clock_at(clock::REALTIME, u64::try_from(wall).unwrap_or(0), out);
            });
        });
    }

    /// Writes bundles that are complete; `all`: completes those that are not.
    fn flush_bundles(&mut self, all: bool) {
        if all {
            self.sched.all();
        }
        for bundle in self.sched.ready() {
            self.packets.push(|out| {
                number(packet::SEQUENCE, EVENTS, out);
                number(packet::FLAGS, packet::NEEDED, out);
                bytes(packet::FTRACE_EVENTS, &bundle, out);
            });
        }
    }

    fn note(&mut self, key: &str, value: Value<'_>) {
        note(&mut self.interned, &mut self.notes, key, value);
    }

    /// Appends a part of a slice: its beginning, its end, or an instant.
    fn part(&mut self, time: u64, part: u64, of: &Slice) {
        let Self { packets, interned, notes, .. } = self;
        packets.at(time, |out| {
            number(packet::FLAGS, packet::NEEDED, out);
            interned.tell(packet::INTERNED, out);
            message(packet::TRACK_EVENT, out, |out| {
                number(slice::TYPE, part, out);
                number(slice::TRACK, of.track, out);
                if part != slice::END {
                    number(slice::CATEGORY, of.category, out);
                    number(slice::NAME, of.name, out);
                }
                out.extend_from_slice(notes);
            });
        });
        notes.clear();
    }

    /// A stretch of time: its notes stand at its beginning.
    fn stretch(&mut self, from: u64, until: u64, of: &Slice) {
        self.part(from, slice::BEGIN, of);
        self.part(until.max(from), slice::END, of);
    }

    /// A stretch on a track of gaps, whose sequence interns nothing.
    fn gap_slice(
        &mut self,
        (from, until): (u64, u64),
        dropped: bool,
        of: (u64, &str, &str),
        notes: &[(String, Value<'_>)],
    ) {
        let (track, category, name) = of;
        for (time, part) in [(from, slice::BEGIN), (until.max(from), slice::END)] {
            self.packets.push(|out| {
                number(packet::TIMESTAMP, time.min(TIME_MAX), out);
                number(packet::SEQUENCE, GAPS, out);
                if dropped && part == slice::BEGIN {
                    number(packet::DROPPED, 1, out);
                }
                message(packet::TRACK_EVENT, out, |out| {
                    number(slice::TYPE, part, out);
                    number(slice::TRACK, track, out);
                    if part == slice::END {
                        return;
                    }
                    bytes(slice::CATEGORY_TEXT, category.as_bytes(), out);
                    bytes(slice::NAME_TEXT, name.as_bytes(), out);
                    for (key, value) in notes {
                        message(slice::ANNOTATION, out, |out| {
                            bytes(slice::KEY_TEXT, key.as_bytes(), out);
                            write_value(*value, out);
                        });
                    }
                });
            });
        }
    }

    /// The event's thread.
    fn who<'a>(
        cgroups: &'a BTreeMap<u64, String>,
        event: &Event,
        known: &'a EventContext<'_>,
    ) -> Who<'a> {
        let path = cgroups.get(&known.cgroup).map_or("", |path| path);
        Who {
            tid: event.tid,
            pid: known.pid,
            comm: &known.comm,
            unit: unit(path).unwrap_or(path),
            time: event.time.min(TIME_MAX),
        }
    }

    /// The track of the event's thread, or of the CPU that idled.
    fn own_track(&mut self, event: &Event, known: &EventContext<'_>) -> u64 {
        if event.tid == 0 {
            return self.tracks.other(
                Of::Cpu("events while idle", event.cpu),
                0,
                &mut self.packets,
            );
        }
        let who = Self::who(&self.cgroups, event, known);
        self.tracks.thread(&who, &mut self.packets).track
    }

    fn enter(
        &mut self,
        event: &Event,
        call: &Call,
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) {
        let time = event.time.min(TIME_MAX);
        let track = self.own_track(event, known);
        self.close(event, known, time);
        let name = self.interned.name(words.call(call));
        self.arguments(call, known, words);
        let category = self.interned.category("call");
        self.part(time, slice::BEGIN, &Slice { track, category, name });
        self.opened(event, known, Some((call.nr, call.abi as u8)), time);
    }

    fn exit(
        &mut self,
        event: &Event,
        (call, ret, entered): (&Call, i64, Option<u64>),
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) {
        let time = event.time.min(TIME_MAX);
        let track = self.own_track(event, known);
        let who = Self::who(&self.cgroups, event, known);
        let thread = self.tracks.thread(&who, &mut self.packets);
        let (is_open, last) = (thread.open == Some((call.nr, call.abi as u8)), thread.last);
        let (name, category) =
            (self.interned.name(words.call(call)), self.interned.category("call"));
        let of = Slice { track, category, name };
        if !is_open {
            self.close(event, known, time);
            self.note("entry", Value::Text("not recorded"));
            if call.nargs > 0 || !call.strings.is_empty() {
                self.arguments(call, known, words);
            }
            let took = known.duration_ns.or(known.at_least_ns);
            let began = took.map(|ns| time.saturating_sub(ns)).or(entered).unwrap_or(time);
            self.part(began.max(last).min(time), slice::BEGIN, &of);
        }
        self.note("ret", Value::Signed(ret));
        if let Some(error) = words.error(call, ret) {
            note(&mut self.interned, &mut self.notes, "error", Value::Text(error));
        }
        self.part(time, slice::END, &of);
        self.opened(event, known, None, time);
    }

    /// The event's thread is in this call from now on.
    fn opened(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        call: Option<(u16, u8)>,
        time: u64,
    ) {
        let who = Self::who(&self.cgroups, event, known);
        let thread = self.tracks.thread(&who, &mut self.packets);
        thread.open = call;
        thread.last = time;
    }

    /// Ends a call whose exit is not recorded.
    fn close(&mut self, event: &Event, known: &EventContext<'_>, time: u64) {
        let who = Self::who(&self.cgroups, event, known);
        let thread = self.tracks.thread(&who, &mut self.packets);
        if thread.open.take().is_some() {
            let of = Slice { track: thread.track, category: 0, name: 0 };
            self.note("end", Value::Text("not recorded"));
            self.part(time, slice::END, &of);
        }
    }

    fn arguments(&mut self, call: &Call, known: &EventContext<'_>, words: &mut dyn Words) {
        let Self { interned, notes, .. } = self;
        words.arguments(call, known, &mut |key, value| note(interned, notes, key, value));
    }

    /// Notes all fields of an event, and returns the one that names it.
    fn fields(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        words: &mut dyn Words,
        title: &str,
    ) -> Option<String> {
        let Self { interned, notes, .. } = self;
        let mut found = None;
        words.fields(event, known, &mut |key, value| {
            note(interned, notes, key, value);
            if let (true, Value::Text(text)) = (key == title, value) {
                found = Some(text.to_owned());
            }
        });
        found
    }

    /// An instant on the thread's track, or one by this name.
    fn instant(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        words: &mut dyn Words,
        (category, title): (&str, &str),
        on: Option<Of>,
    ) {
        let track = match on {
            Some(of) => self.tracks.other(of, 0, &mut self.packets),
            None => self.own_track(event, known),
        };
        self.note("tid", Value::Unsigned(u64::from(event.tid)));
        let name = self.fields(event, known, words, title);
        let name = self.interned.name(name.as_deref().unwrap_or(category));
        let category = self.interned.category(category);
        let of = Slice { track, category, name };
        self.part(event.time.min(TIME_MAX), slice::INSTANT, &of);
    }

    /// A thread runs again: where it waited.
    fn stack(
        &mut self,
        event: &Event,
        stack: &Stack,
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) {
        let time = event.time.min(TIME_MAX);
        let frames = self.frames.of_wait(stack);
        let blocked = frames.as_deref().and_then(Frames::blocked).map(str::to_owned);
        if let Some(function) = &blocked {
            let caller = self.interned.symbol(function);
            let runs = self.io_runs.get(&event.cpu) == Some(&event.tid);
            let io_wait = runs || self.io_waits.contains(&event.tid);
            let since = self.sched.runs_since(event.cpu, event.tid).unwrap_or(time);
            self.blocked_reason((event.cpu, since), event.tid, Some(caller), io_wait);
        }
        let from = time.saturating_sub(stack.slept.unwrap_or(0));
        let who = Self::who(&self.cgroups, event, known);
        let track = self.tracks.below(&who, "Waits", (from, time), &mut self.packets);
        self.note("tid", Value::Unsigned(u64::from(event.tid)));
        match &frames {
            Some(frames) => {
                let names: Vec<&str> = frames.iter().map(|frame| &*frame.function).collect();
                self.note("stack", Value::Text(&names.join("\n")));
            }
            None => {
                self.fields(event, known, words, "");
            }
        }
        let name = self.interned.name(blocked.as_deref().unwrap_or("?"));
        let category = self.interned.category(Kind::Stack.name());
        self.stretch(from, time, &Slice { track, category, name });
    }

    /// Why a thread slept that runs again since this moment. Perfetto looks for it behind the
    /// wakeup and before the thread runs.
    fn blocked_reason(
        &mut self,
        (cpu, since): (u16, u64),
        tid: u32,
        caller: Option<u64>,
        io_wait: bool,
    ) {
        if self.interned.is_fresh() {
            // The bundle has no place for it, and comes later.
            let Self { packets, interned, .. } = self;
            packets.push(|out| {
                number(packet::SEQUENCE, EVENTS, out);
                number(packet::FLAGS, packet::NEEDED, out);
                interned.tell(packet::INTERNED, out);
            });
        }
        let at = (since.saturating_sub(1), tid);
        self.sched.other(cpu, at, ftrace::BLOCKED_REASON, |out| {
            number(1, u64::from(tid), out);
            if let Some(caller) = caller {
                number(2, caller, out);
            }
            number(3, u64::from(io_wait), out);
        });
    }

    fn sample(&mut self, event: &Event, of: &Sample, known: &EventContext<'_>) {
        let frames = self.frames.of_sample(of).unwrap_or_else(|| {
            let missing = Frame {
                function: "(no stack)".to_owned(),
                file: String::new(),
                build_id: String::new(),
            };
            vec![missing]
        });
        let stack = self.interned.stack(&frames);
        if event.tid != 0 {
            let who = Self::who(&self.cgroups, event, known);
            self.tracks.thread(&who, &mut self.packets);
        }
        let Self { packets, interned, .. } = self;
        packets.at(event.time.min(TIME_MAX), |out| {
            number(packet::FLAGS, packet::NEEDED, out);
            interned.tell(packet::INTERNED, out);
            message(packet::PERF_SAMPLE, out, |out| {
                number(sample::CPU, u64::from(event.cpu), out);
                number(sample::PID, u64::from(known.pid), out);
                number(sample::TID, u64::from(event.tid), out);
                number(sample::CALLSTACK, stack, out);
                let mode = if of.user_mode { sample::USER } else { sample::KERNEL };
                number(sample::MODE, mode, out);
            });
        });
    }

    /// Births, names and ends of threads: for the tree of processes.
    fn life(&mut self, event: &Event, known: &EventContext<'_>, words: &mut dyn Words) {
        let time = event.time.min(TIME_MAX);
        let at = (time, event.tid);
        match &event.body {
            Body::Fork(fork) => {
                const CLONE_THREAD: u64 = 0x10000;
                self.tracks.born(fork.tid, fork.parent_tgid, &fork.comm, time);
                self.sched.other(event.cpu, at, ftrace::NEWTASK, |out| {
                    number(1, u64::from(fork.tid), out);
                    bytes(2, printable(trim(&fork.comm)).as_bytes(), out);
                    let is_thread = fork.tid != fork.tgid;
                    number(3, if is_thread { CLONE_THREAD } else { 0 }, out);
                });
            }
            Body::Exec { exec, file, args } => {
                let file = file.as_ref().map(|file| printable(&file.bytes)).unwrap_or_default();
                self.sched.other(event.cpu, at, ftrace::EXEC, |out| {
                    bytes(1, file.as_bytes(), out);
                    number(2, u64::from(exec.tid), out);
                    number(3, u64::from(exec.old_tid), out);
                });
                let args = args.as_ref().map_or(&[][..], |args| &args.bytes);
                let args: Vec<String> = args
                    .split(|byte| *byte == 0)
                    .filter(|argument| !argument.is_empty())
                    .map(|argument| printable(argument).into_owned())
                    .collect();
                if let (false, Some(parent)) = (args.is_empty(), self.tracks.parent(exec.tgid)) {
                    let words = args.iter().map(String::as_str);
                    tell_process(time, (exec.tgid, parent), words, &mut self.packets);
                }
            }
            Body::Rename(rename) => {
                self.sched.other(event.cpu, at, ftrace::RENAME, |out| {
                    number(1, u64::from(rename.tid), out);
                    bytes(2, printable(trim(&rename.old)).as_bytes(), out);
                    bytes(3, printable(trim(&rename.new)).as_bytes(), out);
                });
                let who = (rename.tid, rename.tgid);
                tell_thread(time, who, &rename.new, &mut self.packets);
            }
            Body::TaskExit(exit) => {
                self.sched.other(event.cpu, at, ftrace::EXIT, |out| {
                    bytes(1, printable(trim(&exit.comm)).as_bytes(), out);
                    number(2, u64::from(exit.tid), out);
                    number(3, u64::from(exit.tgid), out);
                });
            }
            _ => {}
        }
        self.instant(event, known, words, (event.body.kind().name(), ""), None);
    }

    fn plain(
        &mut self,
        event: &Event,
        plain: &Plain,
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) {
        let kind = plain.kind();
        let until = event.time.min(TIME_MAX);
        let took = match kind {
            Kind::BlockComplete => known.request.and_then(|request| request.service_ns),
            Kind::IoComplete => known.operation.map(|operation| operation.duration_ns),
            Kind::Function => known.function.and_then(|call| call.duration_ns),
            _ => duration(plain),
        };
        let title = match kind {
            Kind::Interrupt => "name",
            Kind::Function => "function",
            Kind::SignalGenerate | Kind::SignalDeliver => "signal",
            Kind::BlockInsert | Kind::BlockIssue | Kind::BlockComplete | Kind::IoComplete => "op",
            _ => "",
        };
        let name = self.fields(event, known, words, title);
        let name = name.unwrap_or_else(|| kind.name().to_owned());
        self.note("tid", Value::Unsigned(u64::from(event.tid)));
        let from = until.saturating_sub(took.unwrap_or(0));
        let is_threads = event.tid != 0 && context(plain).is_none_or(|c| c == WakeContext::Thread);
        let who = Self::who(&self.cgroups, event, known);
        let Self { tracks, packets, .. } = self;
        let track = match kind {
            Kind::BlockInsert | Kind::BlockIssue | Kind::BlockComplete => {
                let device = BlockIssue::read(plain.bytes()).map_or(0, |of| of.device);
                tracks.stretch(Of::Disk(self.devices.name(device)), from, until, packets)
            }
            Kind::Interrupt => {
                let class = Interrupt::read(plain.bytes()).map_or(0, |of| of.class);
                let name = if class == 0 { "interrupts" } else { "softirqs" };
                tracks.stretch(Of::Cpu(name, event.cpu), from, until, packets)
            }
            Kind::Throttle => tracks.stretch(Of::Cpu("throttled", event.cpu), from, until, packets),
            Kind::Function if is_threads => tracks.below(&who, "Functions", (from, until), packets),
            _ if took.is_some() && is_threads => {
                tracks.below(&who, "Kernel", (from, until), packets)
            }
            _ if took.is_some() || event.tid == 0 => {
                tracks.stretch(Of::Cpu("events", event.cpu), from, until, packets)
            }
            _ => tracks.thread(&who, packets).track,
        };
        let category = self.interned.category(kind.name());
        let name = self.interned.name(&name);
        let of = Slice { track, category, name };
        if took.is_some() {
            self.stretch(from, until, &of);
        } else {
            self.part(until, slice::INSTANT, &of);
        }
    }

    fn scheduling(&mut self, event: &Event, known: &EventContext<'_>) {
        let time = event.time.min(TIME_MAX);
        match event.body {
            Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio } => {
                let state = sched::state(prev_state, preempted);
                let of = Switch {
                    time,
                    prev: (event.tid, known.comm, prev_prio),
                    state,
                    next: (next, known.next_comm, next_prio),
                };
                self.sched.switch(event.cpu, &of);
                if self.io_waits.remove(&next) {
                    self.io_runs.insert(event.cpu, next);
                    self.blocked_reason((event.cpu, time), next, None, true);
                } else {
                    self.io_runs.remove(&event.cpu);
                }
                if io_wait && self.io_waits.len() < WAITING_MAX {
                    self.io_waits.insert(event.tid);
                }
                if event.tid != 0 {
                    let who = Self::who(&self.cgroups, event, known);
                    self.tracks.thread(&who, &mut self.packets);
                }
            }
            Body::Waking { wakee, prio, cpu, new, context, .. } => {
                let of = Waking {
                    time,
                    waker: event.tid,
                    wakee: (wakee, known.next_comm, prio),
                    target: known.wake.map_or(cpu, |wake| wake.queued_on),
                    context,
                };
                if new {
                    self.sched.wakeup_new(event.cpu, &of);
                } else {
                    self.sched.waking(event.cpu, &of);
                }
            }
            Body::Migrate { thread, prio, from, to } => {
                self.sched.other(event.cpu, (time, event.tid), ftrace::MIGRATE, |out| {
                    bytes(1, printable(trim(&known.next_comm)).as_bytes(), out);
                    number(2, u64::from(thread), out);
                    number(3, u64::from(prio), out);
                    number(4, u64::from(from), out);
                    number(5, u64::from(to), out);
                });
            }
            _ => {}
        }
    }
}

impl Exporter for Perfetto {
    fn begin(&mut self, session: &mut Session<'_>, out: &mut Vec<u8>) -> Result<(), ExportError> {
        let meta = session.meta();
        if self.boot.as_ref().is_some_and(|boot| *boot != meta.boot_id) {
            return Err(ExportError::OtherBoot);
        }
        self.frames = Frames::new(meta);
        self.devices = Devices::new(meta);
        self.cgroups = meta.cgroups.clone();
        self.cgroups.values_mut().for_each(|path| {
            *path = printable(path.as_bytes()).into_owned();
        });
        self.tracks.learn(session.recording.slots.iter());
        let from = session.window.from.max(meta.started).min(TIME_MAX);
        if self.boot.is_none() {
            self.packets.push(|out| {
                message(packet::SYSTEM_INFO, out, |out| {
                    message(system::UTSNAME, out, |out| {
                        bytes(system::SYSNAME, b"Linux", out);
                        bytes(system::VERSION, b"#1", out);
                        bytes(system::RELEASE, printable(meta.kernel.as_bytes()).as_bytes(), out);
                        bytes(system::MACHINE, printable(meta.machine.as_bytes()).as_bytes(), out);
                    });
                    number(system::NUM_CPUS, meta.cpus.len() as u64, out);
                    bytes(system::MACHINE_NAME, printable(meta.host.as_bytes()).as_bytes(), out);
                });
            });
            self.boot = Some(meta.boot_id.clone());
            self.session = meta.session;
            self.clear(from);
        } else if self.session != meta.session {
            self.session = meta.session;
            self.sched.forget();
            self.clear(from);
        }
        self.clocks(from, session.wall.wall(from));
        let steps: Vec<u64> = session.wall.steps(session.window).map(|(at, _)| at).collect();
        for at in steps.into_iter().filter(|at| *at < TIME_MAX) {
            self.clocks(at, session.wall.wall(at));
        }
        self.packets.flush(false, out);
        Ok(())
    }

    fn coverage(&mut self, report: &Report, _wall: &mut WallClock, out: &mut Vec<u8>) {
        let track = self.tracks.other(Of::Named("Recording"), 0, &mut self.packets);
        let lanes: Vec<_> = gaps::lanes(report).collect();
        let mut notes: Vec<(String, Value<'_>)> =
            lanes.iter().map(|(lane, text)| ((*lane).to_owned(), Value::Text(text))).collect();
        let is_complete = report.is_complete();
        notes.push(("from_start".to_owned(), Value::Unsigned(u64::from(report.from_start))));
        notes.push(("gaps".to_owned(), Value::Unsigned(report.gaps().len() as u64)));
        let lacking: Vec<String> =
            report.lacking.iter().map(|of| printable(of.what.as_bytes()).into_owned()).collect();
        let lacking = lacking.join("; ");
        if !lacking.is_empty() {
            notes.push(("not_recorded_on_this_kernel".to_owned(), Value::Text(&lacking)));
        }
        let (from, until) = (report.window.from.max(report.started), report.window.until);
        let until = until.min(report.now).max(from);
        let name = if is_complete { "complete" } else { "incomplete" };
        self.gap_slice((from, until), false, (track, "coverage", name), &notes);
        for (from, until) in &report.detached {
            let of = (track, "coverage", "system calls were not recorded (detached)");
            self.gap_slice((*from, *until), false, of, &[]);
        }
        self.packets.flush(false, out);
    }

    fn gap(&mut self, gap: &Gap, window: Window, _wall: &mut WallClock, out: &mut Vec<u8>) {
        let (from, until) = (gap.from.max(window.from), gap.until.min(window.until));
        let (from, until) = (from.min(TIME_MAX), until.min(TIME_MAX).max(from));
        let of = Of::Gaps(gap.cpu, gap.lane.name());
        let track = self.tracks.stretch(of, from, until, &mut self.packets);
        let mut notes = vec![
            ("cpu".to_owned(), Value::Unsigned(u64::from(gap.cpu))),
            ("lane".to_owned(), Value::Text(gap.lane.name())),
        ];
        if let Some(missing) = gaps::missing(gap) {
            notes.push(("missing".to_owned(), Value::Unsigned(missing)));
        }
        notes.extend(gaps::lost(gap).map(|(key, n)| (key, Value::Unsigned(n))));
        self.gap_slice((from, until), true, (track, "gap", gap.reason.describe()), &notes);
        if gap.lane.name() == "sched" {
            self.sched.gap(gap.cpu, until);
        }
        self.packets.flush(false, out);
    }

    fn event(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        words: &mut dyn Words,
        out: &mut Vec<u8>,
    ) -> Result<(), ExportError> {
        match &event.body {
            Body::Enter(call) => self.enter(event, call, known, words),
            Body::Exit { call, ret, entered } => {
                self.exit(event, (call, *ret, *entered), known, words);
            }
            Body::Switch { .. } | Body::Waking { .. } | Body::Migrate { .. } => {
                self.scheduling(event, known);
            }
            Body::Stack(stack) => self.stack(event, stack, known, words),
            Body::Sample(sample) => self.sample(event, sample, known),
            Body::Fork(_) | Body::Exec { .. } | Body::Rename(_) | Body::TaskExit(_) => {
                self.life(event, known, words);
            }
            Body::Mark(_) => {
                let on = Some(Of::Named("Marks"));
                self.instant(event, known, words, (Kind::Mark.name(), "text"), on);
            }
            Body::Act(act, _) => {
                let levels = [Act::Level, Act::Detached, Act::Attached];
                let is_level = levels.into_iter().any(|level| level as u16 == *act);
                let category = if is_level { "level" } else { Kind::Mark.name() };
                let on = Some(Of::Named("Recorder"));
                self.instant(event, known, words, (category, "text"), on);
            }
            Body::Plain(plain) => self.plain(event, plain, known, words),
            Body::IoSubmit { .. } => {
                self.instant(event, known, words, (Kind::IoSubmit.name(), "op"), None);
            }
            Body::Tracepoint(_) => {
                self.instant(event, known, words, (Kind::Tracepoint.name(), "tracepoint"), None);
            }
        }
        self.flush_bundles(false);
        if self.interned.is_full() {
            self.clear(event.time.min(TIME_MAX));
        }
        self.packets.flush(false, out);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<(), ExportError> {
        self.flush_bundles(true);
        self.packets.flush(true, out);
        Ok(())
    }

    fn remarks(&self) -> Vec<String> {
        let torn = self.sched.torn();
        let remark = || {
            format!(
                "Perfetto takes each switch to begin where the one before it on its CPU ended: {torn} \
                 did not, as others are missing between them (left out by the filter, or not \
                 recorded); running times there are not right"
            )
        };
        (torn != 0).then(remark).into_iter().collect()
    }
}

fn clock_at(id: u64, time: u64, out: &mut Vec<u8>) {
    message(clock::CLOCKS, out, |out| {
        number(clock::ID, id, out);
        number(clock::TIME, time, out);
    });
}

/// Appends an annotation.
fn note(interned: &mut Interned, notes: &mut Vec<u8>, key: &str, value: Value<'_>) {
    let key = interned.key(key);
    message(slice::ANNOTATION, notes, |out| {
        number(slice::KEY, key, out);
        write_value(value, out);
    });
}

fn write_value(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Signed(value) => number(slice::SIGNED, value as u64, out),
        Value::Unsigned(value) => number(slice::UNSIGNED, value, out),
        Value::Text(text) => bytes(slice::STRING, text.as_bytes(), out),
    }
}

/// How long a thing took that is told at its end.
fn duration(plain: &Plain) -> Option<u64> {
    let mut found = plain.fields().filter(|(field, _)| field.name == "duration");
    match found.next() {
        Some((_, FieldValue::Unsigned(ns))) => Some(ns),
        _ => None,
    }
}

/// In what it ran, where the event tells.
fn context(plain: &Plain) -> Option<WakeContext> {
    let mut found = plain.fields().filter(|(field, _)| field.name == "context");
    match found.next() {
        Some((_, FieldValue::Unsigned(context))) => Some(WakeContext::from_bits(context as u8)),
        _ => None,
    }
}
