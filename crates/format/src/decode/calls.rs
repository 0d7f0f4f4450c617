//! System calls of a page, picked by number before anything else is decoded: for a reader that
//! needs few of many.

use super::body;
use super::event::Call;
use super::page::Page;
use super::records::{Record, Records};
use crate::abi::page::Lane;
use crate::abi::record::{Abi, StringStatus, call_abi, fold, kind};

/// One record of a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// Thread that made it.
    pub tid: u32,
    /// The call, without its strings; arguments only where the record carries them.
    pub call: Call,
    /// When it began, ns of `CLOCK_MONOTONIC`; `None`: the record is of its end alone.
    pub entered: Option<u64>,
    /// When it ended, and its return value; `None`: the record is of its beginning alone.
    pub exited: Option<(u64, i64)>,
    /// Bit `i`: a string of argument `i` is there.
    pub strings: u8,
    /// Bit `i`: it is, and does not begin as an absolute path does.
    pub relative: u8,
}

/// The records of a page's system calls that are wanted, in order. Where the page is damaged it
/// ends; the page's own events ([`Page::events`]) tell what is wrong.
pub struct Calls<'a, F> {
    records: Records<'a>,
    base: u64,
    tid: Option<u32>,
    wanted: F,
}

/// The first record of a call in each run of records of one thread, from a moment on.
pub struct FirstCalls<'a> {
    records: Records<'a>,
    base: u64,
    since: u64,
    tid: Option<u32>,
}

/// A record of a call, and no more of it than tells how its thread came to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstCall {
    /// Thread that made it.
    pub tid: u32,
    /// When it happened, ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// Of an end without its beginning: the call, and what it returned.
    pub ended: Option<(Abi, u16, i64)>,
}

impl Page {
    /// The first record of a call, not before `since`, in each run of records of one thread: where
    /// it goes on making calls on its CPU, the others are passed over.
    pub fn first_calls(&self, since: u64) -> FirstCalls<'_> {
        let bytes = if self.lane() == Lane::Syscall { self.records() } else { &[] };
        FirstCalls { records: Records::new(bytes), base: self.header().base_mono, since, tid: None }
    }

    /// Whether it has a call whose exit was recorded without its time.
    pub fn has_untimed_call(&self) -> bool {
        let bytes = if self.lane() == Lane::Syscall { self.records() } else { &[] };
        let mut records = Records::new(bytes);
        while let Ok(Some(record)) = records.take() {
            let folded = || fold::unpack(record.result()?.0 as u32);
            if record.kind == kind::ENTER && folded().is_some_and(|(_, ns)| ns == 0) {
                return true;
            }
        }
        false
    }

    /// The records of calls for which `wanted` says so, by table, number and return value, if the
    /// record has one.
    pub fn calls<F: Fn(Abi, u16, Option<i64>) -> bool>(&self, wanted: F) -> Calls<'_, F> {
        let bytes = if self.lane() == Lane::Syscall { self.records() } else { &[] };
        Calls { records: Records::new(bytes), base: self.header().base_mono, tid: None, wanted }
    }
}

impl<F: Fn(Abi, u16, Option<i64>) -> bool> Calls<'_, F> {
    fn record(&self, record: Record<'_>) -> Option<CallRecord> {
        let abi = call_abi(record.aux)?;
        let (word, _) = record.result()?;
        let folded = if record.kind == kind::ENTER { fold::unpack(word as u32) } else { None };
        let ret =
            if record.kind == kind::EXIT { Some(word as i64) } else { folded.map(|(ret, _)| ret) };
        if !(self.wanted)(abi, record.aux & 0xfff, ret) {
            return None;
        }
        let time = self.base.saturating_add(u64::from(record.upper));
        let (_, call) = body::call(record, Vec::new()).ok()?;
        let tid = self.tid?;
        Some(match record.kind {
            kind::ENTER => {
                let exited = folded.map(|(ret, ns)| (time.saturating_add(ns), ret));
                CallRecord { tid, call, entered: Some(time), exited, strings: 0, relative: 0 }
            }
            _ => CallRecord {
                tid,
                call,
                entered: None,
                exited: Some((time, word as i64)),
                strings: 0,
                relative: 0,
            },
        })
    }
}

impl Iterator for FirstCalls<'_> {
    type Item = FirstCall;

    fn next(&mut self) -> Option<FirstCall> {
        loop {
            let record = self.records.take().ok()??;
            match record.kind {
                kind::THREAD => self.tid = Some(record.upper),
                kind::TIME => self.base = record.word()?,
                kind::ENTER | kind::EXIT => {
                    let time = self.base.saturating_add(u64::from(record.upper));
                    let Some(tid) = self.tid.take_if(|_| time >= self.since) else { continue };
                    let ended = (record.kind == kind::EXIT)
                        .then(|| {
                            let (word, _) = record.result()?;
                            Some((call_abi(record.aux)?, record.aux & 0xfff, word as i64))
                        })
                        .flatten();
                    return Some(FirstCall { tid, time, ended });
                }
                _ => {}
            }
        }
    }
}

impl<F> Calls<'_, F> {
    /// Which strings follow that could be read, by their arguments, and which of these do not begin
    /// as an absolute path does.
    fn strings(&mut self) -> (u8, u8) {
        let (mut strings, mut relative) = (0, 0);
        while self.records.peek() == Some(kind::STRING)
            && let Ok(Some(record)) = self.records.take()
        {
            let is_read = record.aux >> 4 & 0xf != StringStatus::Unreadable as u16;
            if is_read {
                let bit = 1u8.checked_shl(u32::from(record.aux & 0xf)).unwrap_or(0);
                strings |= bit;
                relative |= if record.body.first() == Some(&b'/') { 0 } else { bit };
            }
        }
        (strings, relative)
    }
}

impl<F: Fn(Abi, u16, Option<i64>) -> bool> Iterator for Calls<'_, F> {
    type Item = CallRecord;

    fn next(&mut self) -> Option<CallRecord> {
        loop {
            let record = self.records.take().ok()??;
            match record.kind {
                kind::THREAD => self.tid = Some(record.upper),
                kind::TIME => self.base = record.word()?,
                kind::ENTER | kind::EXIT => {
                    if let Some(mut record) = self.record(record) {
                        (record.strings, record.relative) = self.strings();
                        return Some(record);
                    }
                }
                _ => {}
            }
        }
    }
}
