//! The JSON that `chrome://tracing` and many other viewers read.
//!
//! Calls begin and end (`B`, `E`) on their thread's track. What ran on each CPU, and gaps, are
//! slices (`X`) of processes of their own, `CPUs` and `Gaps`. All other events are instants, or
//! slices where they tell how long they took. Times are microseconds of `CLOCK_MONOTONIC`.

use std::fmt::Write as _;

use rustc_hash::{FxHashMap, FxHashSet};

use flightrec_format::abi::kinds::Value as FieldValue;
use flightrec_format::abi::record::Comm;
use flightrec_format::decode::{Body, Event};
use flightrec_format::ring::Gap;
use flightrec_reader::coverage::Coverage;
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::threads::{THREADS_MAX, trim};
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Window;

use crate::exporter::{ExportError, Exporter, Session, Value, Words};
use crate::gaps;
use crate::json;
use crate::printable::printable;

/// Processes that are none: above what the kernel's numbers reach (`PID_MAX_LIMIT`).
const CPUS: u32 = 1 << 30;
const GAPS: u32 = (1 << 30) + 1;
/// Bytes that are made at once.
const BLOCK: usize = 64 << 10;

/// Makes JSON of trace events.
#[derive(Debug, Default)]
pub struct Chrome {
    text: String,
    boot: Option<String>,
    named: FxHashSet<(u32, u32)>,
    /// Threads in a call.
    open: FxHashSet<u32>,
    /// What runs on each CPU, and since when.
    running: FxHashMap<u16, (u32, Comm, u64)>,
    /// Nobody knows after a gap who runs: until when, by CPU.
    sched_gaps: FxHashMap<u16, Vec<u64>>,
    is_begun: bool,
}

/// Where and when a thing is.
#[derive(Debug, Clone, Copy)]
struct At<'a> {
    phase: char,
    pid: u32,
    tid: u32,
    time: u64,
    took: Option<u64>,
    category: &'a str,
}

impl Chrome {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins an object, up to its arguments.
    fn object(&mut self, name: &str, at: At<'_>) {
        self.text.push_str(if self.is_begun {
            ",\n{\"name\":"
        } else {
            "{\"traceEvents\":[\n{\"name\":"
        });
        self.is_begun = true;
        json::string(name, &mut self.text);
        let At { phase, pid, tid, time, took, category } = at;
        let (us, ns) = (time / 1000, time % 1000);
        // Writing to a string does not fail.
        let _ = write!(
            self.text,
            ",\"ph\":\"{phase}\",\"cat\":\"{category}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{us}.{ns:03}"
        );
        if let Some(took) = took {
            let _ = write!(self.text, ",\"dur\":{}.{:03}", took / 1000, took % 1000);
        }
        if phase == 'i' {
            self.text.push_str(",\"s\":\"t\"");
        }
        self.text.push_str(",\"args\":{");
    }

    fn note(text: &mut String, key: &str, value: Value<'_>) {
        if !text.ends_with('{') {
            text.push(',');
        }
        json::string(key, text);
        text.push(':');
        let _ = match value {
            Value::Signed(value) => write!(text, "{value}"),
            Value::Unsigned(value) => write!(text, "{value}"),
            Value::Text(value) => {
                json::string(value, text);
                Ok(())
            }
        };
    }

    fn close(&mut self) {
        self.text.push_str("}}");
    }

    /// Tells a name of a thread or a process, once.
    fn name(&mut self, (pid, tid): (u32, u32), of: &str, name: &str) {
        if self.named.len() >= THREADS_MAX {
            self.named.clear();
        }
        if self.named.insert((pid, tid)) {
            let at = At { phase: 'M', pid, tid, time: 0, took: None, category: "__metadata" };
            self.object(of, at);
            Self::note(&mut self.text, "name", Value::Text(name));
            self.close();
        }
    }

    fn thread(&mut self, event: &Event, known: &EventContext<'_>) {
        let name = printable(trim(&known.comm));
        if !name.is_empty() {
            self.name((known.pid, event.tid), "thread_name", &name);
        }
    }

    fn give(&mut self, all: bool, out: &mut Vec<u8>) {
        if all || self.text.len() >= BLOCK {
            out.extend_from_slice(self.text.as_bytes());
            self.text.clear();
        }
    }

    fn switch(&mut self, event: &Event, next: (u32, Comm)) {
        let (cpu, until) = (event.cpu, event.time);
        let running = self.running.insert(cpu, (next.0, next.1, until));
        let Some((tid, comm, since)) = running else { return };
        let has_gap = self.sched_gaps.get_mut(&cpu).is_some_and(|gaps| {
            let before = gaps.len();
            gaps.retain(|gap| *gap > until);
            before != gaps.len()
        });
        if tid == 0 || tid != event.tid || has_gap {
            return;
        }
        self.name((CPUS, u32::MAX), "process_name", "CPUs");
        let took = Some(until.saturating_sub(since));
        let at = At {
            phase: 'X',
            pid: CPUS,
            tid: u32::from(cpu),
            time: since,
            took,
            category: "running",
        };
        self.object(&printable(trim(&comm)), at);
        Self::note(&mut self.text, "tid", Value::Unsigned(u64::from(tid)));
        self.close();
    }
}

impl Exporter for Chrome {
    fn begin(&mut self, session: &mut Session<'_>, _out: &mut Vec<u8>) -> Result<(), ExportError> {
        let boot = &session.meta().boot_id;
        if self.boot.as_ref().is_some_and(|known| known != boot) {
            return Err(ExportError::OtherBoot);
        }
        self.boot = Some(boot.clone());
        Ok(())
    }

    fn coverage(&mut self, report: &Coverage, wall: &mut WallClock, out: &mut Vec<u8>) {
        self.name((GAPS, u32::MAX), "process_name", "Recording: coverage and gaps");
        self.name((GAPS, 0), "thread_name", "coverage");
        let from = report.window.from.max(report.started);
        let until = report.window.until.min(report.now).max(from);
        let name = if report.is_complete() { "complete" } else { "incomplete" };
        let at = At {
            phase: 'X',
            pid: GAPS,
            tid: 0,
            time: from,
            took: Some(until - from),
            category: "coverage",
        };
        self.object(name, at);
        Self::note(&mut self.text, "wall_ns", Value::Signed(wall.wall(from)));
        for (lane, text) in gaps::lanes(report) {
            Self::note(&mut self.text, lane, Value::Text(&text));
        }
        self.close();
        self.give(false, out);
    }

    fn gap(&mut self, gap: &Gap, window: Window, _wall: &mut WallClock, out: &mut Vec<u8>) {
        let (from, until) = gaps::within(gap, window);
        let tid = 1 + (u32::from(gap.cpu) << 4 | gap.lane as u32);
        self.name(
            (GAPS, tid),
            "thread_name",
            &format!("CPU {}, lane {}", gap.cpu, gap.lane.name()),
        );
        let at = At {
            phase: 'X',
            pid: GAPS,
            tid,
            time: from,
            took: Some(until - from),
            category: "gap",
        };
        self.object(gap.reason.describe(), at);
        if let Some(missing) = gaps::missing(gap) {
            Self::note(&mut self.text, "missing", Value::Unsigned(missing));
        }
        for (key, n) in gaps::lost(gap) {
            Self::note(&mut self.text, &key, Value::Unsigned(n));
        }
        self.close();
        if gap.lane.name() == "sched" {
            self.sched_gaps.entry(gap.cpu).or_default().push(until);
        }
        self.give(false, out);
    }

    fn event(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        words: &mut dyn Words,
        out: &mut Vec<u8>,
    ) -> Result<(), ExportError> {
        self.thread(event, known);
        let kind = event.body.kind().name();
        let at = At {
            phase: 'i',
            pid: known.pid,
            tid: event.tid,
            time: event.time,
            took: None,
            category: kind,
        };
        match &event.body {
            Body::Enter(call) | Body::Exit { call, .. } => {
                let name = words.call(call).to_owned();
                let ret = if let Body::Exit { ret, .. } = event.body { Some(ret) } else { None };
                let at = At { category: "call", ..at };
                let is_open = if ret.is_some() {
                    self.open.remove(&event.tid)
                } else {
                    if self.open.len() >= THREADS_MAX {
                        self.open.clear();
                    }
                    !self.open.insert(event.tid)
                };
                let phase = match (ret, is_open) {
                    (None, true) => {
                        // The exit of the call before is not recorded.
                        self.object("", At { phase: 'E', ..at });
                        Self::note(&mut self.text, "end", Value::Text("not recorded"));
                        self.close();
                        'B'
                    }
                    (None, false) => 'B',
                    (Some(_), true) => 'E',
                    (Some(_), false) => 'X',
                };
                let took = known.duration_ns.or(known.at_least_ns).unwrap_or(0);
                let is_alone = phase == 'X';
                let time = event.time.saturating_sub(if is_alone { took } else { 0 });
                self.object(&name, At { phase, time, took: is_alone.then_some(took), ..at });
                let text = &mut self.text;
                if is_alone {
                    Self::note(text, "entry", Value::Text("not recorded"));
                }
                if phase != 'E' {
                    words.arguments(call, known, &mut |key, value| Self::note(text, key, value));
                }
                if let Some(ret) = ret {
                    Self::note(text, "ret", Value::Signed(ret));
                    if let Some(error) = words.error(call, ret) {
                        Self::note(text, "error", Value::Text(error));
                    }
                }
            }
            body => {
                let took = match body {
                    Body::Plain(plain) => {
                        let mut fields =
                            plain.fields().filter(|(field, _)| field.name == "duration");
                        match fields.next() {
                            Some((_, FieldValue::Unsigned(ns))) => Some(ns),
                            _ => None,
                        }
                    }
                    Body::Stack(stack) => stack.slept,
                    _ => None,
                };
                if let Body::Switch { next, .. } = body {
                    self.switch(event, (*next, known.next_comm));
                }
                let phase = if took.is_some() { 'X' } else { 'i' };
                let time = event.time.saturating_sub(took.unwrap_or(0));
                self.object(kind, At { phase, time, took, ..at });
                let text = &mut self.text;
                words.fields(event, known, &mut |key, value| Self::note(text, key, value));
            }
        }
        self.close();
        self.give(false, out);
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<(), ExportError> {
        self.text.push_str(if self.is_begun { "\n]" } else { "{\"traceEvents\":[]" });
        self.text.push_str(",\"displayTimeUnit\":\"ns\"}\n");
        self.give(true, out);
        Ok(())
    }
}
