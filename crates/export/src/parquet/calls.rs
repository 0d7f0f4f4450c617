//! System calls from their beginning to their end.

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::Comm;
use flightrec_format::decode::{Call, Event};
use flightrec_format::trace_context::TraceContext;
use flightrec_reader::pipeline::EventContext;

use super::arguments::About;
use super::columns::Rows;
use super::people::PEOPLE_MAX;
use super::{Id, Parquet, Table, closed, head};
use crate::exporter::{ExportError, Words};

/// Keys of which it is kept by number whether they have a name.
const KNOWN_MAX: usize = 1 << 10;

/// Names of calls, each made once for a recording.
#[derive(Debug, Default)]
pub(super) struct CallNames {
    names: FxHashMap<u32, Box<str>>,
    /// By key, which arguments stand for files, where there is a name; of the least keys, which
    /// nearly all calls have.
    known: Vec<Option<u8>>,
    /// Recordings so far: the same call may have another name in each.
    recordings: u64,
}

impl CallNames {
    /// Another recording begins.
    pub(super) fn forget(&mut self) {
        self.names.clear();
        self.known.clear();
        self.recordings += 1;
    }

    /// The key of a call, whose name is known from now on, and which of its arguments stand for
    /// files, a bit for each.
    #[inline]
    fn learn(&mut self, call: &Call, words: &mut dyn Words) -> (u32, u8) {
        let key = u32::from(call.nr) | (call.abi as u32) << u16::BITS;
        match self.known.get(key as usize) {
            Some(Some(descriptors)) => (key, *descriptors),
            _ => (key, self.name(key, call, words)),
        }
    }

    #[cold]
    fn name(&mut self, key: u32, call: &Call, words: &mut dyn Words) -> u8 {
        self.names.entry(key).or_insert_with(|| words.call(call).into());
        let descriptors = words.descriptors(call);
        let at = key as usize;
        if at < KNOWN_MAX {
            self.known.resize(self.known.len().max(at + 1), None);
            self.known[at] = Some(descriptors);
        }
        descriptors
    }

    /// Appends a call's name to a column.
    #[inline]
    pub(super) fn write(&self, key: u32, rows: &mut Rows) {
        // Nothing else that is in such a column has a key.
        let keyed = u128::from(self.recordings) << u64::BITS | u128::from(key);
        rows.keyed(keyed, || self.names.get(&key).map_or("?", |name| name).into());
    }
}

/// A call that has not returned yet.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) wall: i64,
    pub(super) cpu: u16,
    pub(super) pid: u32,
    pub(super) comm: Comm,
    pub(super) call: u32,
    pub(super) about: About,
    pub(super) trace: Option<TraceContext>,
}

/// Threads whose calls are found without a hash table; a power of two.
const RECENT: usize = 32;

/// Calls that have not returned yet, by thread.
#[derive(Debug)]
pub(super) struct OpenCalls {
    /// The calls of the last threads that began one, by the number of the thread.
    recent: [Option<(u32, Open)>; RECENT],
    others: FxHashMap<u32, Open>,
}

impl Default for OpenCalls {
    fn default() -> Self {
        Self { recent: [const { None }; RECENT], others: FxHashMap::default() }
    }
}

impl OpenCalls {
    /// A thread's call, which it is in no longer.
    #[inline]
    fn remove(&mut self, tid: u32) -> Option<Open> {
        let place = &mut self.recent[tid as usize % RECENT];
        match place {
            Some((of, _)) if *of == tid => place.take().map(|(_, open)| open),
            _ => self.others.remove(&tid),
        }
    }

    /// A thread's call begins; returns the one that it was in.
    #[inline]
    fn insert(&mut self, tid: u32, open: Open) -> Option<Open> {
        let before = self.remove(tid);
        if let Some((other, open)) = self.recent[tid as usize % RECENT].replace((tid, open)) {
            self.others.insert(other, open);
        }
        before
    }

    fn is_full(&self) -> bool {
        self.others.len() >= PEOPLE_MAX
    }

    /// Takes the texts of all of them into the rows that come next.
    pub(super) fn go_on(&mut self, before: &Rows, rows: &mut Rows) {
        let recent = self.recent.iter_mut().flatten().map(|(_, open)| open);
        for open in recent.chain(self.others.values_mut()) {
            open.about.go_on(before, rows);
        }
    }

    /// All of them, which are in it no longer.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (u32, Open)> {
        self.recent.iter_mut().filter_map(Option::take).chain(self.others.drain())
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
    pub(super) fn write(
        &self,
        tid: u32,
        end: Option<&End<'_>>,
        session: &Id,
        names: &CallNames,
        rows: &mut Rows,
    ) {
        head(self.wall, self.cpu, (tid, self.pid, &self.comm), rows);
        let took = end.map(|end| end.took.unwrap_or_else(|| end.wall.saturating_sub(self.wall)));
        names.write(self.call, rows);
        rows.long(took).long(end.map(|end| end.ret)).text(end.and_then(|end| end.error));
        self.about.write(rows);
        rows.bool(true).bool(end.is_some());
        session.write(rows);
        rows.span(self.trace.as_ref());
    }
}

impl Parquet {
    /// The end of a call; returns its key.
    pub(super) fn exit(
        &mut self,
        (event, call, ret): (&Event, &Call, i64),
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) -> Result<u32, ExportError> {
        let error = words.error(call, ret).map(str::to_owned);
        let took = known.duration_ns.map(|ns| ns as i64);
        let Self { open, names, arguments, writer, id, .. } = self;
        let rows = writer.as_mut().ok_or_else(closed)?.rows(Table::Calls);
        let (key, descriptors) = names.learn(call, words);
        let end = End { wall: known.wall_ns, took, ret, error: error.as_deref() };
        if let Some(of) = open.remove(event.tid) {
            // The entry that is known may be of another call, whose end is missing.
            let is_whole = known.entry_seen && of.call == key;
            of.write(event.tid, Some(&end).filter(|_| is_whole), id, names, rows);
            if is_whole {
                return Ok(key);
            }
        }
        let about = arguments.get((call, descriptors), known, words, rows);
        let wall = known.wall_ns.saturating_sub(took.unwrap_or(0));
        head(wall, event.cpu, (event.tid, known.pid, &known.comm), rows);
        names.write(key, rows);
        rows.long(took).long(ret).text(end.error);
        about.write(rows);
        rows.bool(false).bool(true);
        id.write(rows);
        rows.span(known.trace.as_ref());
        Ok(key)
    }

    /// The beginning of a call; returns its key.
    pub(super) fn enter(
        &mut self,
        event: &Event,
        call: &Call,
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) -> Result<u32, ExportError> {
        let Self { open, names, arguments, writer, id, .. } = self;
        let rows = writer.as_mut().ok_or_else(closed)?.rows(Table::Calls);
        let (key, descriptors) = names.learn(call, words);
        let of = Open {
            wall: known.wall_ns,
            cpu: event.cpu,
            pid: known.pid,
            comm: known.comm,
            call: key,
            about: arguments.get((call, descriptors), known, words, rows),
            trace: known.trace,
        };
        if open.is_full() {
            for (tid, of) in open.drain() {
                of.write(tid, None, id, names, rows);
            }
        }
        if let Some(before) = open.insert(event.tid, of) {
            // Its end is missing.
            before.write(event.tid, None, id, names, rows);
        }
        Ok(key)
    }
}
