//! System calls of a page, picked by number before anything else is decoded: for a reader that needs few of many.

use super::body;
use super::event::Call;
use super::page::Page;
use super::records::{Record, Records};
use crate::abi::page::Lane;
use crate::abi::record::{Abi, kind};

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
}

/// The records of a page's system calls that are wanted, in order. Where the page is damaged it ends; the page's
/// own events ([`Page::events`]) tell what is wrong.
pub struct Calls<'a, F> {
    records: Records<'a>,
    base: u64,
    tid: Option<u32>,
    wanted: F,
}

impl Page {
    /// The records of calls for which `wanted` says so, by table, number and return value, if the record has one.
    pub fn calls<F: Fn(Abi, u16, Option<i64>) -> bool>(&self, wanted: F) -> Calls<'_, F> {
        let bytes = if self.lane() == Lane::Syscall { self.records() } else { &[] };
        Calls { records: Records::new(bytes, self.header().layout()), base: self.header().base_mono, tid: None, wanted }
    }
}

impl<F: Fn(Abi, u16, Option<i64>) -> bool> Calls<'_, F> {
    fn record(&self, record: Record<'_>) -> Option<CallRecord> {
        let abi = match record.aux >> 12 & 3 {
            0 => Abi::Native,
            1 => Abi::Compat,
            2 => Abi::X32,
            _ => return None,
        };
        let layout = self.records.layout();
        let slot = layout.result(record.kind);
        let (word, _) = record.result(slot)?;
        let folded = if record.kind == kind::ENTER { layout.folded(word) } else { None };
        let ret = if record.kind == kind::EXIT { Some(word as i64) } else { folded.map(|(ret, _)| ret) };
        if !(self.wanted)(abi, record.aux & 0xfff, ret) {
            return None;
        }
        let time = self.base.saturating_add(u64::from(record.upper));
        let (_, call) = body::call(record, slot, Vec::new()).ok()?;
        let tid = self.tid?;
        Some(match record.kind {
            kind::ENTER => {
                let exited = folded.map(|(ret, ns)| (time.saturating_add(ns), ret));
                CallRecord { tid, call, entered: Some(time), exited }
            }
            _ => CallRecord { tid, call, entered: None, exited: Some((time, word as i64)) },
        })
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
                    if let Some(record) = self.record(record) {
                        return Some(record);
                    }
                }
                _ => {}
            }
        }
    }
}
