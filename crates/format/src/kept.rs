//! Kept pages: what the quiet ring holds of pages that the rings write over.
//!
//! A flood of events writes over a ring within seconds, and with it the history of everybody else.
//! So `flightd` copies what quiet processes did out of pages before they are gone, into pages of
//! its own in the kernel's memory. Such a page stands for a run of a ring's pages: its header is
//! that of the first of them (number, times, totals), its records are those of the processes that
//! were kept, and the rest of its header, its last bytes, says up to which page it reaches and
//! which processes were left out. So the totals of the next page tell how many events were left
//! out, exactly.
//!
//! A page of which nothing is left out is kept as it is, with [`KEPT`](part_flag::KEPT) alone.

mod writer;

use crate::abi::kinds::Unit;
use crate::abi::page::{LEFT_OUT_LEN, Lane, PageHeader, THINNED_LEN, UNIT, part_flag};
use crate::abi::record::{fold, kind};
use crate::decode::records::Records;
use crate::decode::{Body, Page};
use crate::part;

pub use crate::abi::page::LEFT_OUT_MAX;
pub use writer::KeptWriter;

/// Bytes of an entry of what was left out.
const ENTRY: usize = LEFT_OUT_LEN;

/// Stands for processes that are not known, or too many to be named: any.
pub const ANYONE: u32 = 0;
/// Stands for processes that began at [`LeftOut::born`] or later: less than [`YOUNG_NS`] before
/// they were looked at.
pub const YOUNG: u32 = u32::MAX;
/// How long a process counts as one of a storm of them, ns.
pub const YOUNG_NS: u64 = 2_000_000_000;

/// Events that are not in a kept page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// The process that they are of, [`YOUNG`], or [`ANYONE`].
    pub process: u32,
    /// How many of them there were; one of scheduling counts for each of its processes.
    pub events: u32,
    /// They happened from this moment on, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// Up to this one.
    pub until: u64,
    /// Of [`YOUNG`]: the processes began at this moment or later; else 0.
    pub born: u64,
}

impl LeftOut {
    /// Its bytes.
    fn bytes(&self) -> [u8; ENTRY] {
        let from = if self.process == YOUNG { self.born } else { self.from };
        let words = [u64::from(self.process) | u64::from(self.events) << 32, from, self.until];
        let mut out = [0; ENTRY];
        for (to, word) in out.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        out
    }
}

/// Whether the page stands in the quiet ring.
pub fn is_kept(header: &PageHeader) -> bool {
    header.flags & part_flag::KEPT != 0
}

/// Whether events are left out of it.
pub fn is_thinned(header: &PageHeader) -> bool {
    header.is_thinned()
}

/// Byte of a thinned page at which the number of the last page that it stands for is; the processes
/// that were left out follow.
pub(crate) fn through_at(header_len: u16) -> usize {
    usize::from(header_len).saturating_sub(THINNED_LEN)
}

/// The number of the last page of its ring that a page stands for; its own, where it stands for
/// itself.
pub fn through(page: &Page) -> u64 {
    let seq = page.header().seq;
    let at = through_at(page.header().header_len);
    if is_thinned(page.header()) { word(page, at).max(seq) } else { seq }
}

/// What is left out of a page.
pub fn left_out(page: &Page) -> Vec<LeftOut> {
    if !is_thinned(page.header()) {
        return Vec::new();
    }
    let entry = |at: usize| {
        let [first, from, until] = [0, 8, 16].map(|field| word(page, at + field));
        let (process, events) = (first as u32, (first >> 32) as u32);
        // Of young processes the page tells when they were born instead.
        let base = page.header().base_mono;
        let (from, born) = if process == YOUNG { (base, from) } else { (from.max(base), 0) };
        LeftOut { process, events, from, until, born }
    };
    let list = through_at(page.header().header_len) + 8;
    let entries = (0..LEFT_OUT_MAX).map(|i| entry(list + i * ENTRY));
    entries.filter(|entry| entry.events != 0).collect()
}

/// A thinned page as far as it is of pages before page `seq` of its ring, which was opened at
/// `opened`.
pub fn before(page: &Page, seq: u64, opened: u64) -> Option<Page> {
    let cut = part::head(page, position(page, opened));
    let mut bytes = Box::new(*cut.bytes());
    let through = seq.checked_sub(1)?.max(page.header().seq);
    let at = through_at(page.header().header_len);
    bytes.get_mut(at..at + 8)?.copy_from_slice(&through.to_le_bytes());
    Page::new(bytes).ok()
}

/// Where the first event at or after a moment begins, with what belongs to it, as
/// [`PageHeader::used`] counts.
fn position(page: &Page, time: u64) -> u32 {
    let header = page.header();
    let used =
        page.bytes().get(usize::from(header.header_len)..header.used_bytes()).unwrap_or_default();
    let mut records = Records::new(used);
    let (mut base, mut group) = (header.base_mono, None);
    loop {
        let at = records.at();
        let Ok(Some(record)) = records.take() else { return header.used };
        let begin = *group.get_or_insert(at);
        match record.kind {
            kind::THREAD => {}
            kind::TIME => base = record.word().unwrap_or(base),
            kind::STRING => group = None,
            _ if base.saturating_add(u64::from(record.upper)) >= time => {
                return ((usize::from(header.header_len) + begin) / UNIT) as u32;
            }
            _ => group = None,
        }
    }
}

/// Tells how many events of which threads a page holds: `each` gets a thread and a number, any
/// number of times. An event of scheduling is one of each thread that it names, but of an idle one
/// (0).
pub fn tally(page: &Page, mut each: impl FnMut(u32, u32)) {
    if page.lane() != Lane::Syscall {
        for event in page.events() {
            threads(event.tid, &event.body, |tid| each(tid, 1));
        }
        return;
    }
    let header = page.header();
    let used =
        page.bytes().get(usize::from(header.header_len)..header.used_bytes()).unwrap_or_default();
    let mut records = Records::new(used);
    let (mut tid, mut events) = (0, 0);
    while let Ok(Some(record)) = records.take() {
        match record.kind {
            kind::THREAD => {
                if events != 0 {
                    each(tid, events);
                }
                (tid, events) = (record.upper, 0);
            }
            kind::ENTER => {
                let folded =
                    record.result().is_some_and(|(slot, _)| fold::unpack(slot as u32).is_some());
                events += 1 + u32::from(folded);
            }
            kind::EXIT => events += 1,
            _ => {}
        }
    }
    if events != 0 {
        each(tid, events);
    }
}

/// The threads that an event is of.
pub fn threads(tid: u32, body: &Body, mut each: impl FnMut(u32)) {
    let other = match body {
        Body::Switch { next, .. } => *next,
        Body::Waking { wakee, .. } => *wakee,
        Body::Migrate { thread, .. } => *thread,
        Body::Fork(fork) => fork.tid,
        _ => 0,
    };
    if tid != 0 {
        each(tid);
    }
    if other != 0 && other != tid {
        each(other);
    }
    if let Body::Plain(plain) = body {
        let others = plain.ids(Unit::Thread).enumerate();
        let others = others.filter(|(at, id)| {
            *id != 0 && *id != tid && !plain.ids(Unit::Thread).take(*at).any(|other| other == *id)
        });
        others.for_each(|(_, id)| each(id));
    }
}

fn word(page: &Page, at: usize) -> u64 {
    page.bytes()
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
