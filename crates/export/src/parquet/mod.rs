//! Tables for SQL: a directory with a Parquet file for each ([`Table`]).
//!
//! Every event is a row of `events`. What takes two events or more to know is a row of a table of
//! its own: calls with their results, waits, requests to disks, threads, processes. `coverage` has
//! what is complete and each gap. Times are UNIX time by the recording's clock.

mod arguments;
mod block;
mod calls;
mod chunk;
mod columns;
mod coverage;
mod deltas;
mod dictionary;
mod folded;
mod group;
mod id;
mod life;
mod people;
mod places;
mod runs;
mod schema;
mod sums;
mod wait_row;
mod waits;
mod who;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flightrec_analysis::State;
use flightrec_format::abi::kinds::{IoComplete, Kind, Value as FieldValue};
use flightrec_format::abi::record::Comm;
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_format::ring::Gap;
use flightrec_reader::coverage::Coverage;
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Window;

use self::arguments::Rendered;
use self::calls::{CallNames, Open, OpenCalls};
use self::columns::Rows;
use self::folded::Folded;
use self::id::Id;
use self::people::{PEOPLE_MAX, People, Process, Thread};
use self::places::Places;
pub use self::schema::Table;
pub use self::sums::{HourSums, Sums, write_sums};
use self::wait_row::{letter_text, write_wait};
use self::waits::Waits;
use self::writer::Writer;
use crate::decimal;
use crate::devices::Devices;
use crate::exporter::{ExportError, Exporter, Session, Value, Words};
use crate::json;
use crate::kind;
use crate::printable::printable;
use crate::redact::Redact;
use crate::stacks::Frames;

/// Fields of other events that name them, the first that there is.
const TITLES: [&str; 8] =
    ["tracepoint", "function", "signal", "op", "text", "new_comm", "class", "new_state"];

/// Makes tables.
pub struct Parquet {
    dir: PathBuf,
    writer: Option<Writer>,
    session: Option<u64>,
    /// The session as the tables have it.
    id: Id,
    people: People,
    waits: Waits,
    /// The calls that threads are in.
    open: OpenCalls,
    names: CallNames,
    arguments: Rendered,
    frames: Frames,
    folded: Folded,
    devices: Devices,
    places: Places,
    cpus: Vec<u16>,
    /// What the wall clock is ahead of `CLOCK_MONOTONIC`, at the last event.
    offset: i64,
    /// Texts in the making.
    text: String,
    title: String,
    /// Events since it was looked whether rows are to be written.
    looked: u32,
    /// Rows of threads were written before their end, to make room.
    is_crowded: bool,
    sums: Sums,
    /// What is hidden of texts.
    redact: Redact,
    /// What was said of them.
    told: Vec<String>,
}

/// What of an event's row is not the same for all kinds.
#[derive(Debug, Default)]
struct Details<'a> {
    /// What it is named by.
    name: Option<&'a str>,
    took: Option<i64>,
    ret: Option<i64>,
    other: Option<(u32, Comm)>,
    other_cpu: Option<u16>,
    prio: Option<u8>,
    other_prio: Option<u8>,
    state: Option<&'static str>,
    stack: Option<&'a str>,
    fields: Option<&'a str>,
}

/// Events after which it is looked whether rows are to be written.
const LOOK_EVERY: u32 = 64;

impl Parquet {
    /// Tables in a directory, which must be there, without them, when the first recording begins;
    /// without what is hidden.
    pub fn new(dir: &Path, sums: Sums, redact: Redact) -> Self {
        Self {
            dir: dir.into(),
            writer: None,
            session: None,
            id: Id::default(),
            people: People::default(),
            waits: Waits::new(&Meta::default(), 0),
            open: OpenCalls::default(),
            names: CallNames::default(),
            arguments: Rendered::default(),
            frames: Frames::default(),
            folded: Folded::default(),
            devices: Devices::default(),
            places: Places::default(),
            cpus: Vec::new(),
            offset: 0,
            text: String::new(),
            title: String::new(),
            looked: 0,
            is_crowded: false,
            sums,
            redact,
            told: Vec::new(),
        }
    }

    fn writer(&mut self) -> Result<&mut Writer, ExportError> {
        if self.writer.is_none() {
            self.writer = Some(Writer::new(&self.dir, &Table::ALL, self.redact.clone())?);
        }
        self.writer.as_mut().ok_or_else(closed)
    }

    /// Writes what is still to be said of the recording.
    fn end_session(&mut self, words: Option<&mut dyn Words>) -> Result<(), ExportError> {
        self.waits.settle();
        self.write_waits(words)?;
        let mut open: Vec<(u32, Open)> = self.open.drain().collect();
        open.sort_unstable_by_key(|(tid, open)| (open.wall, *tid));
        let Self { writer, id, .. } = self;
        let writer = writer.as_mut().ok_or_else(closed)?;
        for (tid, of) in open {
            of.write(tid, None, id, &self.names, writer.rows(Table::Calls));
        }
        self.write_people()
    }

    fn write_people(&mut self) -> Result<(), ExportError> {
        let Self { people, writer, id, places, offset, .. } = self;
        let writer = writer.as_mut().ok_or_else(closed)?;
        people.settle();
        let mut threads: Vec<(u32, Thread)> = people.threads.drain().collect();
        threads.sort_unstable_by_key(|(tid, _)| *tid);
        for (tid, thread) in threads {
            thread.write(tid, places, *offset, id, writer.rows(Table::Threads));
        }
        let mut processes: Vec<(u32, Process)> = people.processes.drain().collect();
        processes.sort_unstable_by_key(|(pid, _)| *pid);
        for (pid, process) in processes {
            process.write(pid, places, *offset, id, writer.rows(Table::Processes));
        }
        self.flush()
    }

    /// Writes the tables that have rows enough.
    fn flush(&mut self) -> Result<(), ExportError> {
        let Self { writer, open, arguments, .. } = self;
        writer.as_mut().ok_or_else(closed)?.flush(|table, before, rows| {
            if table == Table::Calls {
                arguments.forget();
                open.go_on(before, rows);
            }
        })
    }

    fn write_waits(&mut self, mut words: Option<&mut dyn Words>) -> Result<(), ExportError> {
        let Self { waits, writer, people, id, offset, .. } = self;
        let writer = writer.as_mut().ok_or_else(closed)?;
        for wait in waits.drain() {
            write_wait(&wait, *offset, people, words.as_deref_mut(), id, writer.rows(Table::Waits));
        }
        Ok(())
    }

    /// The row of an event.
    fn row(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        of: &Details<'_>,
    ) -> Result<(), ExportError> {
        let Self { writer, id, .. } = self;
        let rows = writer.as_mut().ok_or_else(closed)?.rows(Table::Events);
        head(known.wall_ns, event.cpu, (event.tid, known.pid, &known.comm), rows);
        rows.fixed(kind::name(&event.body));
        rows.text(of.name).long(of.took).long(of.ret);
        rows.int(of.other.map(|(tid, _)| tid as i32)).comm(of.other.as_ref().map(|(_, comm)| comm));
        rows.int(of.other_cpu.map(i32::from))
            .int(of.prio.map(i32::from))
            .int(of.other_prio.map(i32::from))
            .fixed(of.state)
            .text(of.stack)
            .text(of.fields);
        id.write(rows);
        rows.span(known.trace.as_ref());
        Ok(())
    }

    /// The row of a call's beginning, or of its end: most rows are such ones. `key`: the call's.
    #[inline]
    fn call_row(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        key: u32,
        ret: Option<i64>,
    ) -> Result<(), ExportError> {
        let Self { writer, id, names, .. } = self;
        let rows = writer.as_mut().ok_or_else(closed)?.rows(Table::Events);
        head(known.wall_ns, event.cpu, (event.tid, known.pid, &known.comm), rows);
        rows.fixed(kind::name(&event.body));
        names.write(key, rows);
        rows.none(1).long(ret).none(NOT_OF_CALLS);
        id.write(rows);
        rows.span(known.trace.as_ref());
        Ok(())
    }

    /// The row of an event of any other kind.
    fn other(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) -> Result<(), ExportError> {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        text.push('{');
        let mut title = std::mem::take(&mut self.title);
        title.clear();
        let mut place = TITLES.len();
        words.fields(event, known, &mut |key, value| {
            if text.len() > 1 {
                text.push(',');
            }
            json::string(key, &mut text);
            text.push(':');
            match value {
                Value::Signed(value) => decimal::signed(value, &mut text),
                Value::Unsigned(value) => decimal::unsigned(value, &mut text),
                Value::Text(value) => {
                    json::string(value, &mut text);
                    let before = TITLES.iter().take(place);
                    if let Some(at) = before.into_iter().position(|title| *title == key) {
                        place = at;
                        title.clear();
                        title.push_str(value);
                    }
                }
            }
        });
        text.push('}');
        let ns = |ns: u64| ns as i64;
        let (took, ret) = match &event.body {
            Body::Plain(plain) => {
                let mut fields = plain.fields().filter(|(field, _)| field.name == "duration");
                let duration = match fields.next() {
                    Some((_, FieldValue::Unsigned(ns))) => Some(ns),
                    _ => None,
                };
                let took = match plain.kind() {
                    Kind::IoComplete => known.operation.map(|of| of.duration_ns),
                    Kind::Function => known.function.and_then(|of| of.duration_ns),
                    _ => duration,
                };
                let ret = (plain.kind() == Kind::IoComplete)
                    .then(|| IoComplete::read(plain.bytes()).map(|of| i64::from(of.result)))
                    .flatten();
                (took.map(ns), ret)
            }
            _ => (None, None),
        };
        let other = match &event.body {
            Body::Fork(fork) => Some((fork.tid, fork.comm)),
            _ => None,
        };
        let details = Details {
            name: (place < TITLES.len()).then_some(&*title),
            took,
            ret,
            other,
            fields: Some(&text),
            ..Details::default()
        };
        let done = self.row(event, known, &details);
        (self.text, self.title) = (text, title);
        done
    }
}

/// Columns between `ret` and `session`, which no call has.
const NOT_OF_CALLS: usize = 8;

/// Appends what every event and every call has.
#[inline]
fn head(wall: i64, cpu: u16, (tid, pid, comm): (u32, u32, &Comm), rows: &mut Rows) {
    rows.time(wall).int(i32::from(cpu)).who(tid, pid, comm);
}

fn closed() -> ExportError {
    ExportError::Io {
        what: "writing the tables".to_owned(),
        source: std::io::Error::other("no recording has begun"),
    }
}

impl Exporter for Parquet {
    fn begin(&mut self, session: &mut Session<'_>, _out: &mut Vec<u8>) -> Result<(), ExportError> {
        self.writer()?;
        let meta = session.meta();
        let from = session.window.from.max(meta.started);
        if self.session != Some(meta.session) {
            if self.session.is_some() {
                self.end_session(None)?;
            }
            self.session = Some(meta.session);
            self.names.forget();
            self.arguments.forget();
            self.id = Id { number: meta.session, text: format!("{:016x}", meta.session) };
            self.waits = Waits::new(meta, from);
            let started = session.wall.wall(session.recording.meta.started);
            let meta = session.meta();
            let Self { writer, id, .. } = self;
            let rows = writer.as_mut().ok_or_else(closed)?.rows(Table::Recordings);
            rows.text(&**id)
                .text(&*printable(meta.boot_id.as_bytes()))
                .text(&*printable(meta.host.as_bytes()))
                .text(&*printable(meta.kernel.as_bytes()))
                .text(&*printable(meta.machine.as_bytes()))
                .text(&*printable(meta.recorder.as_bytes()))
                .int(meta.cpus.len() as i32)
                .long(started)
                .long(started.saturating_sub(meta.started as i64));
        }
        let meta = session.meta();
        self.cpus.clone_from(&meta.cpus);
        self.frames = Frames::new(meta);
        self.folded.forget();
        self.devices = Devices::new(meta);
        self.places = Places::new(meta);
        self.offset = session.wall.wall(from).saturating_sub(from as i64);
        for slot in &session.recording.slots {
            self.people.learn(slot);
        }
        Ok(())
    }

    fn coverage(&mut self, report: &Coverage, wall: &mut WallClock, _out: &mut Vec<u8>) {
        self.cover(report, wall);
    }

    fn gap(&mut self, gap: &Gap, window: Window, wall: &mut WallClock, _out: &mut Vec<u8>) {
        self.waits.gap(gap);
        self.miss(gap, window, wall);
    }

    fn event(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        words: &mut dyn Words,
        _out: &mut Vec<u8>,
    ) -> Result<(), ExportError> {
        self.offset = known.wall_ns.saturating_sub(event.time as i64);
        if self.people.is_full() {
            self.is_crowded = true;
            self.write_people()?;
        }
        if event.tid != 0 {
            let who = (known.pid, &known.comm, known.cgroup);
            self.people.met(event.tid, who, known.wall_ns);
        }
        let mut function: Option<Arc<str>> = None;
        match &event.body {
            Body::Enter(call) => {
                let name = self.enter(event, call, known, words)?;
                self.call_row(event, known, name, None)?;
            }
            Body::Exit { call, ret, .. } => {
                let name = self.exit((event, call, *ret), known, words)?;
                self.call_row(event, known, name, Some(*ret))?;
            }
            Body::Switch { prev_prio, prev_state, preempted, next, next_prio, .. } => {
                let letter = State::after(*prev_state, *preempted, *next == 0).letter();
                let details = Details {
                    other: Some((*next, known.next_comm)),
                    prio: Some(*prev_prio),
                    other_prio: Some(*next_prio),
                    state: Some(letter_text(letter)),
                    ..Details::default()
                };
                self.row(event, known, &details)?;
            }
            Body::Waking { wakee, prio, cpu, context, .. } => {
                let details = Details {
                    other: Some((*wakee, known.next_comm)),
                    other_cpu: Some(known.wake.map_or(*cpu, |wake| wake.queued_on)),
                    other_prio: Some(*prio),
                    state: Some(context.name()),
                    ..Details::default()
                };
                self.row(event, known, &details)?;
            }
            Body::Migrate { thread, prio, to, .. } => {
                let details = Details {
                    other: Some((*thread, known.next_comm)),
                    other_cpu: Some(*to),
                    other_prio: Some(*prio),
                    ..Details::default()
                };
                self.row(event, known, &details)?;
            }
            Body::Stack(stack) => {
                let folded = self.folded.of_wait(stack, &self.frames);
                let details = Details {
                    name: folded.function.as_deref(),
                    took: stack.slept.map(|ns| ns as i64),
                    stack: folded.text.as_deref(),
                    ..Details::default()
                };
                self.row(event, known, &details)?;
                function.clone_from(&folded.function);
            }
            Body::Sample(sample) => {
                let folded = Folded::of_sample(sample, &self.frames);
                let state = Some(if sample.user_mode { "user" } else { "kernel" });
                let details = Details {
                    name: folded.function.as_deref(),
                    stack: folded.text.as_deref(),
                    state,
                    ..Details::default()
                };
                self.row(event, known, &details)?;
            }
            Body::Plain(plain) => match plain.kind() {
                Kind::BlockInsert | Kind::BlockIssue | Kind::BlockComplete => {
                    self.block(event, plain, known)?;
                }
                _ => self.other(event, known, words)?,
            },
            _ => {
                self.life(event, known)?;
                self.other(event, known, words)?;
            }
        }
        self.waits.take(event, function.as_deref());
        if self.waits.has_any() {
            self.write_waits(Some(words))?;
        }
        self.looked += 1;
        if self.looked >= LOOK_EVERY {
            self.looked = 0;
            self.flush()?;
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<u8>) -> Result<(), ExportError> {
        if self.session.is_some() {
            self.end_session(None)?;
        }
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        self.told = self.sums.write(&mut writer)?;
        writer.finish()
    }

    fn remarks(&self) -> Vec<String> {
        let crowded = || {
            format!(
                "there were more than {PEOPLE_MAX} threads: some have several rows in the tables \
                 threads and processes"
            )
        };
        self.told.iter().cloned().chain(self.is_crowded.then(crowded)).collect()
    }
}
