//! Parts: pages cut so that what is stored piece by piece stands nowhere twice.
//!
//! An open page is stored before it is full, and later what has come since. A *part* is that rest as a page of
//! its own: its header says where it begins and what was counted before, and its records begin with the THREAD
//! and TIME that hold there. They always fit in place of what is left out, for such records stood there. So a
//! reader that knows nothing of parts reads one like any other page; one that does puts them together again.
//!
//! Positions are words of the page, the header's included, as in [`PageHeader::used`].

use crate::abi::page::{HEADER_LEN, LANE_KINDS, Lane, PAGE_SIZE, PageHeader, part_flag};
use crate::abi::record::{header, kind, switch};
use crate::decode::Page;
use crate::encode::write_header;

/// How long the last record of an open page is provisional, ns: an exit may fold into it. The probes fold up to
/// 1.05 ms after the entry (FORMAT.md, section 3); the rest is for a virtual CPU that was stopped between reading its clock
/// and storing.
pub const PROVISIONAL_NS: u64 = 10_000_000;

/// Where a page's own records begin: behind the header, and behind what a part repeats.
pub fn start(header: &PageHeader) -> u32 {
    u32::from(header.header_len) / 8 + u32::from(header.flags & part_flag::CONTEXT)
}

/// Whether it is the rest of a page, not its beginning.
pub fn is_part(header: &PageHeader) -> bool {
    header.flags & part_flag::PART != 0
}

/// When the content of a page begins: with its opening, that of a part with its first event.
pub fn begins(page: &Page) -> u64 {
    let opened = page.header().base_mono;
    if is_part(page.header()) { page.events().next().map_or(opened, |event| event.time) } else { opened }
}

/// The page up to a position; all of it where it ends before.
pub fn head(page: &Page, words: u32) -> Page {
    let mut bytes = Box::new(*page.bytes());
    let used = words.min(page.header().used);
    bytes.get_mut(used as usize * 8..).unwrap_or_default().fill(0);
    assemble(&PageHeader { used, ..*page.header() }, bytes).unwrap_or_else(|| page.clone())
}

/// What stands in the page from a position on, as a part; the page itself where its own records begin there or
/// later. `None` where nothing does, where no record and its strings begin there, or where the page is damaged before: it
/// is then to be stored whole.
pub fn tail(page: &Page, from: u32) -> Option<Page> {
    tail_after(page, from, None)
}

/// As [`tail`], for a caller that knows the totals at the position: it saves decoding what stands before.
pub fn tail_after(page: &Page, from: u32, totals: Option<[u64; LANE_KINDS]>) -> Option<Page> {
    let whole = page.header();
    if from >= whole.used {
        return None;
    }
    if from <= start(whole) {
        return Some(page.clone());
    }
    let context = context(page, from)?;
    let events = match totals {
        Some(events) => events,
        None => totals_at(page, from)?,
    };
    let words = context.words();
    let begin = (from as usize).checked_sub(words.len())?;
    let mut bytes = Box::new(*page.bytes());
    bytes.get_mut(usize::from(whole.header_len)..begin * 8)?.fill(0);
    for (to, word) in bytes.get_mut(begin * 8..)?.chunks_exact_mut(8).zip(&words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes.get_mut(whole.used as usize * 8..)?.fill(0);
    let flags = whole.flags & !part_flag::CONTEXT | part_flag::PART | words.len() as u8;
    assemble(&PageHeader { header_len: (begin * 8) as u16, flags, events, ..*whole }, bytes)
}

/// How many words of a page are final, when it was copied at `now` (ns of `CLOCK_MONOTONIC`, read before the copy):
/// all, but for the last entry of an open page, into which its exit may yet fold, with its THREAD, TIME and STRINGs.
pub fn settled(page: &Page, open: bool, now: u64) -> u32 {
    let used = page.header().used;
    if !open || page.lane() != Lane::Syscall {
        return used;
    }
    let mut base = page.header().base_mono;
    // Where the group of the last event begins, and its time, if its exit may fold.
    let (mut group, mut last) = (None, None);
    for record in Records::new(page) {
        let at = *group.get_or_insert(record.at);
        match record.kind {
            kind::THREAD => {}
            kind::TIME => base = record.word(1).unwrap_or(base),
            kind::STRING => group = None,
            kind::ENTER if record.word(1) == Some(0) => {
                (group, last) = (None, Some((at, base.saturating_add(u64::from(record.upper)))));
            }
            _ => (group, last) = (None, None),
        }
    }
    match last {
        Some((at, time)) if now < time.saturating_add(PROVISIONAL_NS) => at,
        _ => used,
    }
}

/// Two pieces of one page as one: `second` is a part that begins within `first` or where it ends, and reaches as far.
/// `None` where they don't fit.
pub fn join(first: &Page, second: &Page) -> Option<Page> {
    let (a, b) = (first.header(), second.header());
    let at = start(b);
    if !is_part(b) || at < start(a) || at > a.used || b.used < a.used {
        return None;
    }
    let mut bytes = Box::new(*first.bytes());
    let range = at as usize * 8..b.used as usize * 8;
    bytes.get_mut(range.clone())?.copy_from_slice(second.bytes().get(range)?);
    bytes.get_mut(b.used as usize * 8..)?.fill(0);
    let whole = assemble(&PageHeader { used: b.used, ..*a }, bytes)?;
    // Cut there again, it must be the second: same totals, same thread, same time base.
    let again = if at == b.used { None } else { Some(tail(&whole, at)?) };
    let fits = again.is_none_or(|again| {
        let begin = usize::from(b.header_len);
        again.header() == b && again.bytes().get(begin..at as usize * 8) == second.bytes().get(begin..at as usize * 8)
    });
    fits.then_some(whole)
}

/// Events before a position, by kind; `None` where the page is damaged before.
fn totals_at(page: &Page, words: u32) -> Option<[u64; LANE_KINDS]> {
    let before = head(page, words).summary();
    let mut events = page.header().events;
    for (total, count) in events.iter_mut().zip(before.counts) {
        *total = total.saturating_add(count);
    }
    before.damage.is_none().then_some(events)
}

/// A page of these bytes with this header.
fn assemble(header: &PageHeader, mut bytes: Box<[u8; PAGE_SIZE]>) -> Option<Page> {
    *bytes.first_chunk_mut::<HEADER_LEN>()? = write_header(header);
    Page::new(bytes).ok()
}

/// A record, with its words.
struct Record<'a> {
    at: u32,
    kind: u8,
    upper: u32,
    words: &'a [[u8; 8]],
}

impl Record<'_> {
    fn word(&self, i: usize) -> Option<u64> {
        self.words.get(i).map(|word| u64::from_le_bytes(*word))
    }
}

/// The records of a page one after the other, up to its end or the first whose length is damaged.
struct Records<'a> {
    words: &'a [[u8; 8]],
    at: usize,
}

impl<'a> Records<'a> {
    fn new(page: &'a Page) -> Self {
        let (words, _) = page.bytes().as_chunks::<8>();
        let words = words.get(..page.header().used as usize).unwrap_or_default();
        Self { words, at: usize::from(page.header().header_len) / 8 }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let at = self.at;
        let head = u64::from_le_bytes(*self.words.get(at)?);
        let length = usize::from((head >> 8) as u8);
        let words = self.words.get(at..at + length).filter(|words| !words.is_empty())?;
        self.at = at + length;
        Some(Record { at: at as u32, kind: head as u8, upper: (head >> 32) as u32, words })
    }
}

/// What records from a position on build on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Context {
    thread: Option<u32>,
    base: Option<u64>,
}

impl Context {
    fn words(self) -> Vec<u64> {
        let thread = self.thread.map(|tid| header(kind::THREAD, 1, 0, tid));
        let base = self.base.map(|base| [header(kind::TIME, 2, 0, 0), base]);
        thread.into_iter().chain(base.into_iter().flatten()).collect()
    }
}

/// The context at a position before which a record, with all that belongs to it, ends.
fn context(page: &Page, to: u32) -> Option<Context> {
    let mut context = Context { thread: None, base: None };
    let mut end = u32::from(page.header().header_len) / 8;
    let mut records = Records::new(page);
    for record in records.by_ref().take_while(|record| record.at < to) {
        end = record.at + record.words.len() as u32;
        match (page.lane(), record.kind) {
            (_, kind::THREAD) => context.thread = Some(record.upper),
            (_, kind::TIME) => context.base = Some(record.word(1)?),
            (Lane::Sched, kind::SWITCH) => context.thread = Some(switch::unpack(record.word(1)?).1),
            (Lane::Task, kind::MARK | kind::ACT) => context.thread = None,
            _ => {}
        }
    }
    let string = page.bytes().get(to as usize * 8) == Some(&kind::STRING);
    (end == to && !string).then_some(context)
}
