//! System calls of a page without their arguments and strings: for a reader that counts them.

use super::body;
use super::decoder::Decoder;
use super::page::Page;
use crate::abi::record::{Abi, call_abi, fold, kind};

/// A record of a system call, and no more of it than says which call, when, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brief {
    /// When the record's first event happened, ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The thread that made the call.
    pub tid: u32,
    /// The table of its number.
    pub abi: Abi,
    /// Its number.
    pub nr: u16,
    /// Which of the call's two events the record has.
    pub half: Half,
}

/// Which of a call's two events a record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// Its beginning.
    Enter,
    /// Its end.
    Exit {
        /// What it returned.
        ret: i64,
    },
    /// Both.
    Whole {
        /// When it ended.
        exited: u64,
        /// What it returned.
        ret: i64,
    },
}

/// The records of a page's system calls: those whose events [`Page::events`] gives.
#[derive(Clone)]
pub struct BriefCalls<'a>(Decoder<'a>);

impl Page {
    /// The records of its system calls, in order.
    pub fn brief_calls(&self) -> BriefCalls<'_> {
        BriefCalls(self.events())
    }
}

impl Iterator for BriefCalls<'_> {
    type Item = Brief;

    #[inline]
    fn next(&mut self) -> Option<Brief> {
        let Self(decoder) = self;
        while let Some((record, _)) = decoder.next_event() {
            if !matches!(record.kind, kind::ENTER | kind::EXIT) {
                continue;
            }
            // What is malformed is no event.
            let (Ok(word), Ok(tid), Some(abi)) =
                (body::call_word(record), decoder.thread(), call_abi(record.aux))
            else {
                continue;
            };
            let time = decoder.base().saturating_add(u64::from(record.upper));
            let half = match record.kind {
                kind::EXIT => Half::Exit { ret: word as i64 },
                _ => fold::unpack(word as u32).map_or(Half::Enter, |(ret, ns)| Half::Whole {
                    exited: time.saturating_add(ns),
                    ret,
                }),
            };
            return Some(Brief { time, tid, abi, nr: record.aux & 0xfff, half });
        }
        None
    }
}
