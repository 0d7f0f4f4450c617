//! System calls from their beginning to their end.

use std::fmt::Write as _;

use flightrec_format::abi::record::Comm;
use flightrec_format::decode::{Call, Event};
use flightrec_reader::pipeline::EventContext;

use super::columns::Rows;
use super::people::{PEOPLE_MAX, some};
use super::{Parquet, Table, closed, head};
use crate::exporter::{ExportError, Value, Words};

/// Arguments of calls that are paths.
const PATHS: [&str; 9] = [
    "filename", "pathname", "path", "oldname", "newname", "dir_name", "name", "new_root", "library",
];

/// What a call is about; a text is empty where there is none.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    /// The first path.
    pub(super) path: String,
    /// The argument `fd`, and what that stands for.
    pub(super) fd: Option<i32>,
    pub(super) file: String,
    /// The others.
    pub(super) others: String,
}

/// A call that has not returned yet.
#[derive(Debug, Default)]
pub(super) struct Open {
    pub(super) wall: i64,
    pub(super) cpu: u16,
    pub(super) pid: u32,
    pub(super) comm: Comm,
    pub(super) name: String,
    pub(super) about: Arguments,
}

impl Arguments {
    pub(super) fn clear(&mut self) {
        self.path.clear();
        self.fd = None;
        self.file.clear();
        self.others.clear();
    }

    pub(super) fn take(&mut self, key: &str, value: Value<'_>) {
        match value {
            Value::Text(text) if key == "fd" && self.fd.is_none() => {
                // As `3</etc/passwd>`.
                let (number, file) = text.split_once('<').unwrap_or((text, ""));
                self.fd = number.parse().ok();
                if self.fd.is_some() {
                    self.file.push_str(file.strip_suffix('>').unwrap_or(file));
                    return;
                }
            }
            Value::Signed(number) if key == "fd" && self.fd.is_none() => {
                self.fd = i32::try_from(number).ok();
                if self.fd.is_some() {
                    return;
                }
            }
            Value::Text(text) if self.path.is_empty() && PATHS.contains(&key) => {
                self.path.push_str(text);
                return;
            }
            _ => {}
        }
        let others = &mut self.others;
        if !others.is_empty() {
            others.push_str(", ");
        }
        others.push_str(key);
        others.push('=');
        // Writing to a text does not fail.
        let _ = match value {
            Value::Signed(value) => write!(others, "{value}"),
            Value::Unsigned(value) => write!(others, "{value}"),
            Value::Text(value) => {
                others.push_str(value);
                Ok(())
            }
        };
    }

    pub(super) fn write(&self, rows: &mut Rows) {
        rows.text(some(&self.path)).int(self.fd).text(some(&self.file)).text(some(&self.others));
    }
}

/// How a call ended.
pub(super) struct End<'a> {
    wall: i64,
    took: Option<i64>,
    ret: i64,
    error: Option<&'a str>,
}

impl Open {
    /// Appends the call's row; `None`: its end is not recorded.
    pub(super) fn write(&self, tid: u32, end: Option<&End<'_>>, session: &str, rows: &mut Rows) {
        head(self.wall, self.cpu, (tid, self.pid, &self.comm), rows);
        let took = end.map(|end| end.took.unwrap_or_else(|| end.wall.saturating_sub(self.wall)));
        rows.text(&*self.name)
            .long(took)
            .long(end.map(|end| end.ret))
            .text(end.and_then(|end| end.error));
        self.about.write(rows);
        rows.bool(true).bool(end.is_some()).text(session);
    }
}

impl Parquet {
    /// The end of a call.
    pub(super) fn exit(
        &mut self,
        (event, call, ret): (&Event, &Call, i64),
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) -> Result<(), ExportError> {
        let error = words.error(call, ret).map(str::to_owned);
        let took = known.duration_ns.map(|ns| ns as i64);
        let Self { open, spare, writer, id, call: about, .. } = self;
        let rows = writer.as_mut().ok_or_else(closed)?.rows(Table::Calls);
        let end = End { wall: known.wall_ns, took, ret, error: error.as_deref() };
        if let Some(of) = open.remove(&event.tid) {
            // The entry that is known may be of another call, whose end is missing.
            let is_whole = known.entry_seen && of.name == words.call(call);
            of.write(event.tid, Some(&end).filter(|_| is_whole), id, rows);
            spare.push(of);
            if is_whole {
                return Ok(());
            }
        }
        about.clear();
        words.arguments(call, known, &mut |key, value| about.take(key, value));
        let wall = known.wall_ns.saturating_sub(took.unwrap_or(0));
        head(wall, event.cpu, (event.tid, known.pid, &known.comm), rows);
        rows.text(words.call(call)).long(took).long(ret).text(end.error);
        about.write(rows);
        rows.bool(false).bool(true).text(&**id);
        Ok(())
    }

    /// The beginning of a call.
    pub(super) fn enter(
        &mut self,
        event: &Event,
        call: &Call,
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) -> Result<(), ExportError> {
        let Self { open, spare, writer, id, .. } = self;
        let rows = writer.as_mut().ok_or_else(closed)?.rows(Table::Calls);
        let mut of = spare.pop().unwrap_or_default();
        of.about.clear();
        words.arguments(call, known, &mut |key, value| of.about.take(key, value));
        (of.wall, of.cpu, of.pid, of.comm) = (known.wall_ns, event.cpu, known.pid, known.comm);
        of.name.clear();
        of.name.push_str(words.call(call));
        if open.len() >= PEOPLE_MAX {
            for (tid, of) in open.drain() {
                of.write(tid, None, id, rows);
            }
        }
        if let Some(before) = open.insert(event.tid, of) {
            // Its end is missing.
            before.write(event.tid, None, id, rows);
            spare.push(before);
        }
        Ok(())
    }
}
