//! The walk over a page's records.
//!
//! Damage costs what was damaged, no more: a record whose content is impossible is left out and
//! the walk goes on after it; only where the framing or the time base is lost does the page end.
//! Either way the first fault is kept, and the next page's totals tell how many events it cost.

use super::body;
use super::event::{Body, Call, Event, Text};
use super::page::Page;
use super::plain::Plain;
use super::records::{Broken, Record, Records};
use crate::abi::counts::Counts;
use crate::abi::kinds::{IoSubmit, Kind};
use crate::abi::pointee;
use crate::abi::record::{
    Abi, Exec, Fork, Rename, SHARES_FILES, SHARES_FS, STRING_HEAD, StringStatus, TaskExit, counter,
    fold, kind,
};

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its length is less than a header's: the page ends here.
    #[error("a record shorter than its header")]
    Empty,
    /// It reaches beyond what the page holds: the page ends here.
    #[error("a record that reaches beyond the page's end")]
    Overrun,
    /// A time base without its word: the page ends here.
    #[error("a time base without a time")]
    Time,
    /// It is shorter than its kind needs.
    #[error("a record too short for its kind {0:#x}")]
    Short(u8),
    /// Its number belongs to no known table of system calls.
    #[error("a system call of unknown ABI")]
    Abi,
    /// Its arguments are longer than the record, or more than six.
    #[error("malformed system call arguments")]
    Arguments,
    /// No record before it tells its thread.
    #[error("an event of no known thread")]
    Thread,
    /// A string of unknown status, or longer than its record.
    #[error("a malformed string")]
    Text,
}

/// The first fault in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// What is wrong.
    pub fault: Fault,
    /// Where: the byte of the page at which the record begins.
    pub at: usize,
    /// Time of the last event before it, or the page's base.
    pub after: u64,
}

/// What a page's events come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Events decoded, by kind.
    pub counts: Counts,
    /// Greatest event time, or the page's base where it holds none.
    pub last: u64,
    /// The first fault.
    pub damage: Option<Damage>,
}

/// An exit that stands inside its entry's record: given out after the entry.
#[derive(Clone, Copy)]
struct Folded {
    entered: u64,
    time: u64,
    ret: i64,
    tid: u32,
    nr: u16,
    abi: Abi,
}

/// The events of one page, lazily.
#[derive(Clone)]
pub struct Decoder<'a> {
    records: Records<'a>,
    /// Bytes of the page before its records.
    first: usize,
    lane: u8,
    /// How many kinds the page's header counts.
    kinds: usize,
    cpu: u16,
    base: u64,
    tid: Option<u32>,
    folded: Option<Folded>,
    summary: Summary,
    /// The threads whose system calls are wanted, in order; `None`: all.
    only: Option<&'a [u32]>,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(page: &'a Page) -> Self {
        let header = page.header();
        Self {
            records: Records::new(page.records()),
            first: usize::from(header.header_len),
            lane: header.lane,
            kinds: header.kinds(),
            cpu: header.cpu,
            base: header.base_mono,
            tid: None,
            folded: None,
            summary: Summary { counts: Counts::ZERO, last: header.base_mono, damage: None },
            only: None,
        }
    }

    /// The same without system calls of other threads than these, which are in order: they are
    /// passed over undecoded, and not counted.
    #[must_use]
    pub fn only(self, threads: Option<&'a [u32]>) -> Self {
        Self { only: threads, ..self }
    }

    /// Whether a record is of a system call that is passed over.
    #[inline]
    fn passes(&self, record: Record<'_>) -> bool {
        let Some(only) = self.only else { return false };
        matches!(record.kind, kind::ENTER | kind::EXIT)
            && self.tid.is_some_and(|tid| only.binary_search(&tid).is_err())
    }

    /// What decoding a page comes to, without making its events: for counting, several times as
    /// fast.
    pub(super) fn summary(page: &'a Page) -> Summary {
        let mut decoder = Self::new(page);
        let mut event = Event::default();
        while let Some((record, at)) = decoder.next_event() {
            match record.kind {
                kind::ENTER | kind::EXIT => decoder.skim_call(record, at),
                // Rare, or short.
                _ => drop(decoder.event(record, at, &mut event)),
            }
        }
        decoder.summary
    }

    /// Counts a call's record as [`Self::event`] does, and the exit in it, which would come next.
    fn skim_call(&mut self, record: Record<'a>, at: usize) {
        let word = match body::call_word(record).and_then(|word| self.thread().map(|_| word)) {
            Ok(word) => word,
            Err(fault) => return self.fault(fault, at),
        };
        while self.string_record().is_some() {}
        let time = self.base.saturating_add(u64::from(record.upper));
        self.count(record.kind, time);
        if let (kind::ENTER, Some((_, ns))) = (record.kind, fold::unpack(word as u32)) {
            self.count(kind::EXIT, time.saturating_add(ns));
        }
    }

    /// Kinds and times of the events of the lane whose kinds this release does not know.
    pub(super) fn unknown(page: &'a Page) -> impl Iterator<Item = (u8, u64)> + 'a {
        let mut decoder = Self::new(page);
        let mut events = std::iter::from_fn(move || {
            let (record, _) = decoder.next_event()?;
            Some((record.kind, decoder.base.saturating_add(u64::from(record.upper))))
        });
        std::iter::from_fn(move || events.find(|(kind, _)| Kind::from_number(*kind).is_none()))
    }

    /// Events given out so far, by kind; those of unknown kinds of the lane are counted as they are
    /// passed.
    pub fn counts(&self) -> &Counts {
        &self.summary.counts
    }

    /// The first fault met so far.
    pub fn damage(&self) -> Option<&Damage> {
        self.summary.damage.as_ref()
    }

    /// The moment from which the times of the records that come next count.
    #[inline]
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Keeps the first fault.
    fn fault(&mut self, fault: Fault, at: usize) {
        if self.summary.damage.is_none() {
            self.summary.damage =
                Some(Damage { fault, at: self.first + at, after: self.summary.last });
        }
    }

    /// Ends the page.
    fn stop<T>(&mut self, fault: Fault, at: usize) -> Option<T> {
        self.fault(fault, at);
        self.records.end();
        None
    }

    /// The next record, by its length.
    #[inline]
    fn record(&mut self) -> Option<Record<'a>> {
        match self.records.take() {
            Ok(record) => record,
            Err(Broken::Empty) => self.stop(Fault::Empty, self.records.at()),
            Err(Broken::Overrun) => self.stop(Fault::Overrun, self.records.at()),
        }
    }

    /// The next string of the event just read.
    fn string(&mut self) -> Option<Text> {
        let (index, status, bytes) = self.string_record()?;
        Some(Text { index, status, bytes: bytes.into() })
    }

    /// The same, as it stands in the page.
    fn string_record(&mut self) -> Option<(u8, StringStatus, &'a [u8])> {
        while self.records.peek() == Some(kind::STRING) {
            let at = self.records.at();
            let record = self.record()?;
            let status = match record.aux >> 4 & 0xf {
                0 => StringStatus::Whole,
                2 => StringStatus::Unreadable,
                3 if record.upper as usize > STRING_HEAD => StringStatus::Ends,
                1 | 3 => StringStatus::Cut,
                _ => {
                    self.fault(Fault::Text, at);
                    continue;
                }
            };
            let Some(bytes) = record.body.get(..record.upper as usize) else {
                self.fault(Fault::Text, at);
                continue;
            };
            return Some(((record.aux & 0xf) as u8, status, bytes));
        }
        None
    }

    /// Strings of a system call: C strings, and structures as they are.
    #[inline]
    fn strings(&mut self, into: &mut Vec<Text>) {
        while let Some((index, status, bytes)) = self.string_record() {
            let text = bytes
                .split(|b| *b == 0)
                .next()
                .filter(|_| status != StringStatus::Ends && index < pointee::INDEX)
                .unwrap_or(bytes);
            into.push(Text { index, status, bytes: text.into() });
        }
    }

    /// The string of a mark or an act.
    fn line(&mut self) -> Text {
        let mut line = None;
        while let Some(text) = self.string() {
            line.get_or_insert(no_ends(c_string(text)));
        }
        line.unwrap_or_else(|| Text {
            index: 0,
            status: StringStatus::Whole,
            bytes: Box::default(),
        })
    }

    fn count(&mut self, kind: u8, time: u64) {
        // No header tells what was before of a kind that it does not count.
        if counter(kind) < self.kinds {
            self.summary.counts.count(kind);
        }
        self.summary.last = self.summary.last.max(time);
    }

    /// The next record of an event of this lane, and where it starts.
    #[inline]
    pub(super) fn next_event(&mut self) -> Option<(Record<'a>, usize)> {
        loop {
            let at = self.records.at();
            let record = self.record()?;
            match record.kind {
                kind::THREAD => self.tid = Some(record.upper),
                kind::TIME => match record.word() {
                    Some(time) => self.base = time,
                    None => return self.stop(Fault::Time, at),
                },
                // The lane's own events; what belongs to no event here is stepped over.
                k if k >> 4 == self.lane + 1 => return Some((record, at)),
                _ => {}
            }
        }
    }

    /// An event record, which started at `at`. Whether there is an event.
    #[inline]
    fn event(&mut self, record: Record<'a>, at: usize, into: &mut Event) -> bool {
        match self.body(record, &mut into.body) {
            Ok(Some(tid)) => {
                let time = self.base.saturating_add(u64::from(record.upper));
                self.count(record.kind, time);
                (into.time, into.cpu, into.tid) = (time, self.cpu, tid);
                true
            }
            Ok(None) => {
                // Of a kind that is newer than this release: counted, so that it is not called
                // lost.
                self.count(record.kind, 0);
                false
            }
            Err(fault) => {
                self.fault(fault, at);
                false
            }
        }
    }

    /// The next event, put where another one was, whose allocations are used again: for who goes
    /// through millions. `false`: there is none, and `into` may be half of one.
    #[inline]
    pub fn read(&mut self, into: &mut Event) -> bool {
        if let Some(f) = self.folded.take() {
            self.count(kind::EXIT, f.time);
            let call = Call {
                nr: f.nr,
                abi: f.abi,
                nargs: 0,
                args: [0; 6],
                strings: into.body.take_strings(),
            };
            into.body = Body::Exit { call, ret: f.ret, entered: Some(f.entered) };
            (into.time, into.cpu, into.tid) = (f.time, self.cpu, f.tid);
            return true;
        }
        while let Some((record, at)) = self.next_event() {
            if !self.passes(record) && self.event(record, at, into) {
                return true;
            }
        }
        false
    }

    #[inline]
    pub(super) fn thread(&self) -> Result<u32, Fault> {
        self.tid.ok_or(Fault::Thread)
    }

    /// An event's thread, and its content into `into`; `None` for an unknown kind.
    #[inline]
    fn body(&mut self, record: Record<'a>, into: &mut Body) -> Result<Option<u32>, Fault> {
        let short = Fault::Short(record.kind);
        let (tid, body) = match record.kind {
            kind::ENTER => {
                let (slot, mut call) = body::call(record, into.take_strings())?;
                let tid = self.thread()?;
                if let Some((ret, ns)) = fold::unpack(slot as u32) {
                    let entered = self.base.saturating_add(u64::from(record.upper));
                    let time = entered.saturating_add(ns);
                    self.folded =
                        Some(Folded { entered, time, ret, tid, nr: call.nr, abi: call.abi });
                }
                self.strings(&mut call.strings);
                *into = Body::Enter(call);
                return Ok(Some(tid));
            }
            kind::EXIT => {
                let (ret, mut call) = body::call(record, into.take_strings())?;
                let tid = self.thread()?;
                self.strings(&mut call.strings);
                *into = Body::Exit { call, ret: ret as i64, entered: None };
                return Ok(Some(tid));
            }
            kind::SWITCH => {
                // Whoever runs now, it is not the one that ran before.
                self.tid = None;
                let (prev, next, body) = body::switch(record).ok_or(short)?;
                self.tid = Some(next);
                (prev, body)
            }
            kind::WAKING | kind::WAKEUP_NEW => {
                let body = body::waking(record).ok_or(short)?;
                (self.thread()?, body)
            }
            kind::MIGRATE => {
                let body = body::migrate(record).ok_or(short)?;
                (self.thread()?, body)
            }
            kind::STACK => {
                let body = body::stack(record).ok_or(short)?;
                (self.thread()?, body)
            }
            kind::SAMPLE => {
                let body = body::sample(record).ok_or(short)?;
                (self.thread()?, body)
            }
            kind::IO_SUBMIT => {
                let submit = IoSubmit::read(record.body).ok_or(short)?;
                let mut paths = into.take_strings();
                self.strings(&mut paths);
                *into = Body::IoSubmit { submit, paths };
                return Ok(Some(self.thread()?));
            }
            kind::TRACEPOINT => {
                let body = body::tracepoint(record).ok_or(short)?;
                (self.thread()?, body)
            }
            kind::FORK => {
                let fork = Fork::read(record.body).or_else(|| untold(record.body)).ok_or(short)?;
                (fork.parent_tid, Body::Fork(fork))
            }
            kind::EXEC => {
                let exec = Exec::read(record.body).ok_or(short)?;
                let (mut file, mut args) = (None, None);
                while let Some(text) = self.string() {
                    match text.index {
                        0 => file = Some(c_string(text)),
                        1 => args = Some(no_ends(text)),
                        2 => args = args.map(|args| with_end(args, &text, exec.args_len)),
                        _ => {}
                    }
                }
                (exec.tid, Body::Exec { exec, file, args })
            }
            kind::RENAME => {
                let rename = Rename::read(record.body).ok_or(short)?;
                (rename.tid, Body::Rename(rename))
            }
            kind::TASK_EXIT => {
                let exit = TaskExit::read(record.body).ok_or(short)?;
                (exit.tid, Body::TaskExit(exit))
            }
            kind::MARK => (self.tid.take().unwrap_or(0), Body::Mark(self.line())),
            kind::ACT => (self.tid.take().unwrap_or(0), Body::Act(record.aux, self.line())),
            number => {
                let Some(kind) = Kind::from_number(number).filter(|kind| kind.is_plain()) else {
                    return Ok(None);
                };
                let plain = Plain::read(kind, record.body).ok_or(short)?;
                (plain.thread().map_or_else(|| self.thread(), Ok)?, Body::Plain(plain))
            }
        };
        *into = body;
        Ok(Some(tid))
    }
}

impl Iterator for Decoder<'_> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        self.read(&mut event).then_some(event)
    }
}

/// An argument list of `whole` bytes with its end after its beginning: all of it, where nothing is
/// between them.
fn with_end(args: Text, end: &Text, whole: u32) -> Text {
    if args.status == StringStatus::Unreadable || end.status == StringStatus::Unreadable {
        return args;
    }
    let bytes = [&*args.bytes, &*end.bytes].concat();
    let is_whole = bytes.len() == whole as usize;
    Text {
        status: if is_whole { StringStatus::Whole } else { StringStatus::Cut },
        bytes: bytes.into(),
        ..args
    }
}

/// A string that is never cut in the middle, whatever its record says.
fn no_ends(mut text: Text) -> Text {
    if text.status == StringStatus::Ends {
        text.status = StringStatus::Cut;
    }
    text
}

/// Cuts a string at its end, which a writer may have counted in; but one that is cut in the middle.
fn c_string(mut text: Text) -> Text {
    if text.status != StringStatus::Ends
        && let Some(end) = text.bytes.iter().position(|b| *b == 0)
    {
        text.bytes = text.bytes.get(..end).unwrap_or_default().into();
    }
    text
}

/// A FORK of a format before `shares`: a thread is taken for one that a library has created, which
/// shares all.
fn untold(body: &[u8]) -> Option<Fork> {
    let mut bytes = [0; size_of::<Fork>()];
    bytes.get_mut(..body.len())?.copy_from_slice(body);
    let fork = Fork::read(&bytes).filter(|_| body.len() + 8 == bytes.len())?;
    let shares = if fork.tgid == fork.parent_tgid { SHARES_FILES | SHARES_FS } else { 0 };
    Some(Fork { shares, ..fork })
}
