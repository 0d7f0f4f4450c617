//! `trace.dat`, version 6: `trace-cmd report`, KernelShark.
//!
//! - Switches, wakeups and migrations are the kernel's events of the scheduler.
//! - A call is `sys_enter_…` with its arguments as text, and `sys_exit_…` with what it returned.
//! - Every other kind is an event of the system `flightrec`, by its name, with all that is known of
//!   it as text.
//! - A gap is counted as events that are missing before the next page of its CPU
//!   (`RB_MISSED_EVENTS`), and told by an event `flightrec:gap` there. Coverage is an event, too.
//!
//! Times are `CLOCK_MONOTONIC`.

mod formats;
mod pages;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::{Comm, WakeContext};
use flightrec_format::decode::{Body, Event};
use flightrec_format::ring::Gap;
use flightrec_reader::coverage::Coverage;
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::threads::trim;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Window;

use self::formats::{Form, Formats, HEADER_EVENT, HEADER_PAGE};
use self::pages::{DATA_MAX, PAGE, Pages};
use crate::exporter::{ExportError, Exporter, Session, Value, Words};
use crate::gaps::{self, Ended, Pending};
use crate::kernel::{priority, state};
use crate::kind;
use crate::printable::printable;

const MAGIC: &[u8] = b"\x17\x08\x44tracing6\0";
/// Options of the file, by number.
const TRACE_CLOCK: u16 = 4;
const UNAME: u16 = 5;
/// Most threads whose names are told.
const NAMES_MAX: usize = 1 << 17;
/// Bytes of an event before its own fields.
const COMMON: usize = 8;
/// Most bytes of a text: after the fields, with its NUL.
const TEXT_MAX: usize = DATA_MAX - COMMON - 16 - 4;

/// Makes a trace.
pub struct TraceDat {
    /// Where its temporary file is.
    dir: PathBuf,
    pages: Pages,
    formats: Formats,
    boot: Option<String>,
    kernel: String,
    host: String,
    cpus: u16,
    names: FxHashMap<u32, Comm>,
    gaps: Pending<String>,
    /// Coverage that is still to be told, with its time.
    coverage: Vec<(u64, String)>,
    last: u64,
    text: String,
    data: Vec<u8>,
    /// Texts that did not fit.
    cut: u64,
    /// Pages that are written, by CPU: where to go on.
    next: Option<(u16, usize)>,
}

impl TraceDat {
    /// An empty one. What comes waits in a file without a name in `dir`.
    ///
    /// # Errors
    /// There can be no such file.
    pub fn new(dir: &Path) -> Result<Self, ExportError> {
        let failed = |source| ExportError::Io {
            what: format!("can't make a temporary file in {}", dir.display()),
            source,
        };
        Ok(Self {
            dir: dir.to_owned(),
            pages: Pages::new(tempfile::tempfile_in(dir).map_err(failed)?),
            formats: Formats::default(),
            boot: None,
            kernel: String::new(),
            host: String::new(),
            cpus: 0,
            names: FxHashMap::default(),
            gaps: Pending::default(),
            coverage: Vec::new(),
            last: 0,
            text: String::new(),
            data: Vec::new(),
            cut: 0,
            next: None,
        })
    }

    /// Begins an event's data.
    fn common(&mut self, id: u16, flags: u8, tid: u32) {
        self.data.clear();
        self.data.extend_from_slice(&id.to_le_bytes());
        self.data.extend_from_slice(&[flags, 0]);
        self.data.extend_from_slice(&tid.to_le_bytes());
    }

    fn int(&mut self, value: i64) {
        self.data.extend_from_slice(&(value as i32).to_le_bytes());
    }

    /// Ends an event's data by a text, whose place is in the field at byte 8.
    fn put_text(&mut self, text: &str) {
        let mut end = text.len().min(TEXT_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.cut += u64::from(end < text.len());
        let at = self.data.len() as u32;
        if let Some(field) = self.data.get_mut(COMMON..COMMON + 4) {
            field.copy_from_slice(&(at | (end as u32 + 1) << 16).to_le_bytes());
        }
        self.data.extend_from_slice(text.get(..end).unwrap_or_default().as_bytes());
        self.data.push(0);
    }

    /// Appends the event that was made.
    fn push(&mut self, cpu: u16, time: u64) -> Result<(), ExportError> {
        self.cpus = self.cpus.max(cpu.saturating_add(1));
        self.pages.event(cpu, time, &self.data).map_err(|e| spool(&self.dir, e))
    }

    /// Appends an event of one text.
    fn note(
        &mut self,
        (cpu, time): (u16, u64),
        name: &str,
        tid: u32,
        text: &str,
    ) -> Result<(), ExportError> {
        let id = self.formats.id("flightrec", name, Form::Text);
        self.common(id, 0, tid);
        self.int(0);
        self.put_text(text);
        self.push(cpu, time)
    }

    /// Tells the gaps of a CPU that end until `time`.
    fn end_gaps(&mut self, cpu: u16, time: u64) -> Result<(), ExportError> {
        for gap in self.gaps.end(cpu, time) {
            self.pages.miss(cpu, gap.missing).map_err(|e| spool(&self.dir, e))?;
            self.note((cpu, gap.until), "gap", 0, &gap.told)?;
        }
        Ok(())
    }

    fn tell_coverage(&mut self) -> Result<(), ExportError> {
        for (time, text) in std::mem::take(&mut self.coverage) {
            self.note((0, time), "coverage", 0, &text)?;
        }
        Ok(())
    }

    fn name(&mut self, tid: u32, comm: &Comm) {
        // Readers stop at a line without a name.
        let is_blank = trim(comm).iter().all(u8::is_ascii_whitespace);
        let has_room = self.names.len() < NAMES_MAX || self.names.contains_key(&tid);
        if tid != 0 && !is_blank && has_room {
            self.names.insert(tid, *comm);
        }
    }

    /// What stands before the pages: everything is known now.
    fn header(&mut self, counts: &[u64], out: &mut Vec<u8>) {
        let sized = |text: &[u8], out: &mut Vec<u8>| {
            out.extend_from_slice(&(text.len() as u64).to_le_bytes());
            out.extend_from_slice(text);
        };
        let word = |value: usize, out: &mut Vec<u8>| {
            out.extend_from_slice(&(value as u32).to_le_bytes());
        };
        out.extend_from_slice(MAGIC);
        // Little-endian, and longs of 8 bytes.
        out.extend_from_slice(&[0, 8]);
        word(PAGE, out);
        out.extend_from_slice(b"header_page\0");
        sized(HEADER_PAGE.as_bytes(), out);
        out.extend_from_slice(b"header_event\0");
        sized(HEADER_EVENT.as_bytes(), out);
        // No formats of ftrace's own.
        word(0, out);
        let systems = self.formats.systems();
        word(systems.len(), out);
        for (system, formats) in systems {
            out.extend_from_slice(system.as_bytes());
            out.push(0);
            word(formats.len(), out);
            for format in formats {
                sized(format.as_bytes(), out);
            }
        }
        // No addresses of functions, no formats of printk.
        word(0, out);
        word(0, out);
        let mut names: Vec<(&u32, &Comm)> = self.names.iter().collect();
        names.sort_unstable();
        let mut lines = String::new();
        for (tid, comm) in names {
            let _ = writeln!(lines, "{tid} {}", printable(trim(comm)));
        }
        sized(lines.as_bytes(), out);
        word(counts.len(), out);
        out.extend_from_slice(b"options  \0");
        let uname = format!("Linux {} {}", self.host, self.kernel);
        for (number, text) in [(TRACE_CLOCK, "[mono]"), (UNAME, &uname)] {
            out.extend_from_slice(&number.to_le_bytes());
            word(text.len() + 1, out);
            out.extend_from_slice(text.as_bytes());
            out.push(0);
        }
        out.extend_from_slice(&0u16.to_le_bytes());
        out.extend_from_slice(b"flyrecord\0");
        let begin = (out.len() + 16 * counts.len()).next_multiple_of(PAGE);
        let mut at = begin as u64;
        for count in counts {
            let bytes = count * PAGE as u64;
            out.extend_from_slice(&at.to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
            at += bytes;
        }
        out.resize(begin, 0);
    }

    /// Notes all that is known of an event, as `name=value, …` ([`pair`]).
    fn describe(&mut self, event: &Event, known: &EventContext<'_>, words: &mut dyn Words) {
        let text = &mut self.text;
        text.clear();
        match &event.body {
            Body::Enter(call) => words.arguments(call, known, &mut |key, v| pair(text, key, v)),
            _ => words.fields(event, known, &mut |key, value| pair(text, key, value)),
        }
    }
}

/// Appends `key=value`, or `key="value"` where a program could make it look like several.
fn pair(text: &mut String, key: &str, value: Value<'_>) {
    if !text.is_empty() {
        text.push_str(", ");
    }
    // Writing to a text does not fail.
    let _ = match value {
        Value::Signed(value) => write!(text, "{key}={value}"),
        Value::Unsigned(value) => write!(text, "{key}={value}"),
        Value::Text(value) if is_plain(value) => write!(text, "{key}={value}"),
        Value::Text(value) => write!(text, "{key}=\"{}\"", value.replace('"', "\\\"")),
    };
}

/// Whether a printable text can't be taken for something else than the value of one field.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains([',', '=', '"', ' '])
}

fn spool(dir: &Path, source: std::io::Error) -> ExportError {
    ExportError::Io {
        what: format!("can't write to a temporary file in {}", dir.display()),
        source,
    }
}

/// As in `common_flags`.
fn flags(context: WakeContext) -> u8 {
    match context {
        WakeContext::Hardirq | WakeContext::Nmi => 8,
        WakeContext::Softirq => 16,
        WakeContext::Thread | WakeContext::Unknown => 0,
    }
}

impl Exporter for TraceDat {
    fn begin(&mut self, session: &mut Session<'_>, _out: &mut Vec<u8>) -> Result<(), ExportError> {
        let meta = session.meta();
        if self.boot.as_ref().is_some_and(|boot| *boot != meta.boot_id) {
            return Err(ExportError::OtherBoot);
        }
        self.boot = Some(meta.boot_id.clone());
        self.kernel = printable(meta.kernel.as_bytes()).into_owned();
        self.host = printable(meta.host.as_bytes()).into_owned();
        let cpus = meta.cpus.iter().map(|cpu| cpu.saturating_add(1)).max();
        self.cpus = self.cpus.max(cpus.unwrap_or(1));
        for slot in &session.recording.slots {
            self.name(slot.tid, &slot.comm);
        }
        Ok(())
    }

    fn coverage(&mut self, report: &Coverage, wall: &mut WallClock, _out: &mut Vec<u8>) {
        let from = report.window.from.max(report.started);
        let is_complete = if report.is_complete() { "complete" } else { "INCOMPLETE" };
        let mut text = format!("{is_complete}, wall_ns={}", wall.wall(from));
        for (lane, what) in gaps::lanes(report) {
            let _ = write!(text, ", {lane}: {what}");
        }
        self.coverage.push((from, text));
        for (from, _) in &report.detached {
            let text = "system calls were not recorded (detached)".to_owned();
            self.coverage.push((*from, text));
        }
    }

    fn gap(&mut self, gap: &Gap, window: Window, _wall: &mut WallClock, _out: &mut Vec<u8>) {
        let (from, until) = gaps::within(gap, window);
        let missing = gaps::missing(gap);
        let mut text = format!("lane {}: {}", gap.lane.name(), gap.reason.describe());
        match missing {
            Some(missing) => drop(write!(text, ", missing={missing}")),
            None => text.push_str(", missing=unknown"),
        }
        let _ = write!(text, ", for {} ns", until - from);
        for (key, n) in gaps::lost(gap) {
            let _ = write!(text, ", {key}={n}");
        }
        self.gaps.add(gap.cpu, Ended { until, missing, told: text });
    }

    fn event(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        words: &mut dyn Words,
        _out: &mut Vec<u8>,
    ) -> Result<(), ExportError> {
        if !self.coverage.is_empty() {
            self.tell_coverage()?;
        }
        let Event { time, cpu, tid, ref body } = *event;
        self.last = self.last.max(time);
        self.end_gaps(cpu, time)?;
        self.name(tid, &known.comm);
        match body {
            Body::Switch { prev_prio, prev_state, preempted, next, next_prio, .. } => {
                self.name(*next, &known.next_comm);
                let id = self.formats.id("sched", "sched_switch", Form::Switch);
                self.common(id, 0, tid);
                self.data.extend_from_slice(&known.comm);
                self.int(i64::from(tid));
                self.int(priority(*prev_prio));
                self.data.extend_from_slice(&state(*prev_state, *preempted).to_le_bytes());
                self.data.extend_from_slice(&known.next_comm);
                self.int(i64::from(*next));
                self.int(priority(*next_prio));
            }
            Body::Waking { wakee, prio, cpu: before, new, context, .. } => {
                let name = if *new { "sched_wakeup_new" } else { "sched_waking" };
                let id = self.formats.id("sched", name, Form::Waking);
                self.common(id, flags(*context), tid);
                self.data.extend_from_slice(&known.next_comm);
                self.int(i64::from(*wakee));
                self.int(priority(*prio));
                self.int(i64::from(known.wake.map_or(*before, |wake| wake.queued_on)));
            }
            Body::Migrate { thread, prio, from, to } => {
                let id = self.formats.id("sched", "sched_migrate_task", Form::Migrate);
                self.common(id, 0, tid);
                self.data.extend_from_slice(&known.next_comm);
                self.int(i64::from(*thread));
                self.int(priority(*prio));
                self.int(i64::from(*from));
                self.int(i64::from(*to));
            }
            Body::Enter(call) => {
                let name = format!("sys_enter_{}", words.call(call));
                let id = self.formats.id("syscalls", &name, Form::Text);
                self.common(id, 0, tid);
                self.int(0);
                self.describe(event, known, words);
                let text = std::mem::take(&mut self.text);
                self.put_text(&text);
                self.text = text;
            }
            Body::Exit { call, ret, .. } => {
                let name = format!("sys_exit_{}", words.call(call));
                let id = self.formats.id("syscalls", &name, Form::Exit);
                self.common(id, 0, tid);
                self.int(0);
                self.int(0);
                self.data.extend_from_slice(&ret.to_le_bytes());
                let error = words.error(call, *ret).map(|name| format!(" {name}"));
                self.put_text(error.as_deref().unwrap_or_default());
            }
            body => {
                self.describe(event, known, words);
                let text = std::mem::take(&mut self.text);
                self.note((cpu, time), kind::name(body), tid, &text)?;
                self.text = text;
                return Ok(());
            }
        }
        self.push(cpu, time)
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<(), ExportError> {
        self.tell_coverage()?;
        for cpu in self.gaps.cpus() {
            self.end_gaps(cpu, u64::MAX)?;
        }
        // trace-cmd takes a trace of no CPU for a broken one.
        self.cpus = self.cpus.max(1);
        let counts = self.pages.finish(self.cpus).map_err(|e| spool(&self.dir, e))?;
        self.header(&counts, out);
        self.next = Some((0, 0));
        Ok(())
    }

    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool, ExportError> {
        let Some((cpu, from)) = self.next.filter(|(cpu, _)| *cpu < self.cpus) else {
            return Ok(false);
        };
        self.next = match self.pages.read(cpu, from, out).map_err(|e| spool(&self.dir, e))? {
            Some(from) => Some((cpu, from)),
            None => cpu.checked_add(1).map(|cpu| (cpu, 0)),
        };
        Ok(true)
    }

    fn remarks(&self) -> Vec<String> {
        let cut = || {
            format!(
                "trace.dat has room for {TEXT_MAX} bytes of an event's text: {} were longer, and \
                 are cut",
                self.cut
            )
        };
        (self.cut != 0).then(cut).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No text makes fields of its own.
    #[test]
    fn texts_that_look_like_fields_are_quoted() {
        let mut text = String::new();
        for value in ["/etc/hosts", "a, ret=7", "b\", path=/etc/shadow", ""] {
            pair(&mut text, "path", Value::Text(value));
        }
        pair(&mut text, "ret", Value::Signed(-2));
        assert_eq!(
            text,
            r#"path=/etc/hosts, path="a, ret=7", path="b\", path=/etc/shadow", path="", ret=-2"#
        );
    }
}
