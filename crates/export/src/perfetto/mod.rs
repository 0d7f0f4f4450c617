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

mod calls;
mod field;
mod interned;
mod life;
mod packets;
mod plain;
mod proto;
mod sched;
mod scheduling;
mod stacks;
mod tracks;

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use flightrec_format::abi::kinds::Kind;
use flightrec_format::containers::Containers;
use flightrec_format::decode::{Body, Event};
use flightrec_format::ring::Gap;
use flightrec_reader::coverage::Coverage;
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::unit;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Window;

use self::field::{clock, packet, sample, slice, system};
use self::interned::Interned;
use self::packets::{EVENTS, GAPS, Packets};
use self::proto::{bytes, message, number};
use self::sched::Sched;
use self::tracks::{Of, Tracks, Who};
use crate::devices::Devices;
use crate::exporter::{ExportError, Exporter, Session, Value, Words};
use crate::gaps;
use crate::kind;
use crate::printable::printable;
use crate::stacks::Frames;

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
    /// What control groups are shown as: container, unit or path.
    labels: BTreeMap<u64, String>,
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
        labels: &'a BTreeMap<u64, String>,
        event: &Event,
        known: &'a EventContext<'_>,
    ) -> Who<'a> {
        Who {
            tid: event.tid,
            pid: known.pid,
            comm: &known.comm,
            unit: labels.get(&known.cgroup).map_or("", |label| label),
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
        let who = Self::who(&self.labels, event, known);
        self.tracks.thread(&who, &mut self.packets).track
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
}

impl Exporter for Perfetto {
    fn begin(&mut self, session: &mut Session<'_>, out: &mut Vec<u8>) -> Result<(), ExportError> {
        let meta = session.meta();
        if self.boot.as_ref().is_some_and(|boot| *boot != meta.boot_id) {
            return Err(ExportError::OtherBoot);
        }
        self.frames = Frames::new(meta);
        self.devices = Devices::new(meta);
        let containers = Containers::new(meta);
        let label = |(group, path): (&u64, &String)| {
            let container = containers.get(*group).map(|of| of.label().into_owned());
            let label = container.unwrap_or_else(|| unit(path).unwrap_or(path).to_owned());
            (*group, printable(label.as_bytes()).into_owned())
        };
        self.labels = meta.cgroups.iter().map(label).collect();
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

    fn coverage(&mut self, report: &Coverage, _wall: &mut WallClock, out: &mut Vec<u8>) {
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
            body @ Body::Act(..) => {
                let on = Some(Of::Named("Recorder"));
                self.instant(event, known, words, (kind::name(body), "text"), on);
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
                "Perfetto takes each switch to begin where the one before it on its CPU ended: \
                 {torn} did not, as others are missing between them (left out by the filter, or \
                 not recorded); running times there are not right"
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
