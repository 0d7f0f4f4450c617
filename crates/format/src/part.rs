//! Parts: pages cut so that what is stored piece by piece stands nowhere twice.
//!
//! An open page is stored before it is full, and later what has come since. A *part* is that rest
//! as a page of its own: its header says where it begins and what was counted before, and its
//! records begin with the THREAD and TIME that hold there. They always fit in place of what is left
//! out, for such records stood there. So a reader that knows nothing of parts reads one like any
//! other page; one that does puts them together again.
//!
//! Positions are in units ([`UNIT`]), the header's included, as in [`PageHeader::used`].

use crate::abi::counts::Counts;
use crate::abi::page::{Lane, PAGE_SIZE, PageHeader, UNIT, part_flag};
use crate::abi::record::{header, kind, switch};
use crate::decode::Page;
use crate::decode::records::{Record, Records};
use crate::encode::put_header;

/// How long the last record of an open page is provisional, ns: an exit may fold into it. The
/// probes fold up to 1.05 ms after the entry (FORMAT.md, section 3); the rest is for a virtual CPU
/// that was stopped between reading its clock and storing.
pub const PROVISIONAL_NS: u64 = 10_000_000;

/// Where a page's own records begin: after the header, and after what a part repeats.
pub fn start(header: &PageHeader) -> u32 {
    let bytes = usize::from(header.header_len) + 8 * usize::from(header.flags & part_flag::CONTEXT);
    (bytes / UNIT) as u32
}

/// Whether it is the rest of a page, not its beginning.
pub fn is_part(header: &PageHeader) -> bool {
    header.flags & part_flag::PART != 0
}

/// When the content of a page begins: with its opening, that of a part with its first event.
pub fn begins(page: &Page) -> u64 {
    let opened = page.header().base_mono;
    if is_part(page.header()) {
        page.events().next().map_or(opened, |event| event.time)
    } else {
        opened
    }
}

/// The page up to a position; all of it where it ends before.
pub fn head(page: &Page, to: u32) -> Page {
    let mut bytes = Box::new(*page.bytes());
    let used = to.min(page.header().used);
    bytes.get_mut(UNIT * used as usize..).unwrap_or_default().fill(0);
    assemble(&PageHeader { used, ..*page.header() }, bytes).unwrap_or_else(|| page.clone())
}

/// What stands in the page from a position on, as a part; the page itself where its own records
/// begin there or later. `None` where nothing does, where no record and its strings begin there, or
/// where the page is damaged before: it is then to be stored whole.
pub fn tail(page: &Page, from: u32) -> Option<Page> {
    tail_after(page, from, None)
}

/// As [`tail`], for a caller that knows the totals at the position: it saves decoding what stands
/// before.
pub fn tail_after(page: &Page, from: u32, totals: Option<Counts>) -> Option<Page> {
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
    let context = context.bytes();
    let from = UNIT * from as usize;
    let begin = from.checked_sub(context.len())?;
    let mut bytes = Box::new(*page.bytes());
    bytes.get_mut(usize::from(whole.header_len)..begin)?.fill(0);
    bytes.get_mut(begin..from)?.copy_from_slice(&context);
    bytes.get_mut(whole.used_bytes()..)?.fill(0);
    let flags = whole.flags & !part_flag::CONTEXT | part_flag::PART | (context.len() / 8) as u8;
    assemble(&PageHeader { header_len: begin as u16, flags, events, ..*whole }, bytes)
}

/// How much of a page is final, when it was copied at `now` (ns of `CLOCK_MONOTONIC`, read before
/// the copy): all, but for the last entry of an open page, into which its exit may yet fold, with
/// its THREAD, TIME and STRINGs.
pub fn settled(page: &Page, open: bool, now: u64) -> u32 {
    let used = page.header().used;
    if !open || page.lane() != Lane::Syscall {
        return used;
    }
    let mut base = page.header().base_mono;
    // Where the group of the last event begins, and its time, if its exit may fold.
    let (mut group, mut last) = (None, None);
    let mut records = records(page);
    while let Some((at, record)) = next(&mut records) {
        let at = *group.get_or_insert(at);
        match record.kind {
            kind::THREAD => {}
            kind::TIME => base = record.word().unwrap_or(base),
            kind::STRING => group = None,
            kind::ENTER if record.result().is_some_and(|(slot, _)| slot == 0) => {
                (group, last) = (None, Some((at, base.saturating_add(u64::from(record.upper)))));
            }
            _ => (group, last) = (None, None),
        }
    }
    match last {
        Some((at, time)) if now < time.saturating_add(PROVISIONAL_NS) => {
            ((usize::from(page.header().header_len) + at) / UNIT) as u32
        }
        _ => used,
    }
}

/// Two pieces of one page as one: `second` is a part that begins within `first` or where it ends,
/// and reaches as far. `None` where they don't fit.
pub fn join(first: &Page, second: &Page) -> Option<Page> {
    let (a, b) = (first.header(), second.header());
    let at = start(b);
    if !is_part(b) || at < start(a) || at > a.used || b.used < a.used {
        return None;
    }
    let mut bytes = Box::new(*first.bytes());
    let range = UNIT * at as usize..b.used_bytes();
    bytes.get_mut(range.clone())?.copy_from_slice(second.bytes().get(range)?);
    bytes.get_mut(b.used_bytes()..)?.fill(0);
    let whole = assemble(&PageHeader { used: b.used, ..*a }, bytes)?;
    // Cut there again, it must be the second: same totals, same thread, same time base.
    let again = if at == b.used { None } else { Some(tail(&whole, at)?) };
    let fits = again.is_none_or(|again| {
        let context = usize::from(b.header_len)..UNIT * at as usize;
        again.header() == b && again.bytes().get(context.clone()) == second.bytes().get(context)
    });
    fits.then_some(whole)
}

/// Events before a position, by kind; `None` where the page is damaged before.
fn totals_at(page: &Page, to: u32) -> Option<Counts> {
    let before = head(page, to).summary();
    let events = page.header().events.plus(&before.counts);
    before.damage.is_none().then_some(events)
}

/// A page of these bytes with this header.
fn assemble(header: &PageHeader, mut bytes: Box<[u8; PAGE_SIZE]>) -> Option<Page> {
    put_header(header, &mut bytes);
    Page::new(bytes).ok()
}

/// The records of a page.
fn records(page: &Page) -> Records<'_> {
    let header = page.header();
    let used = page.bytes().get(usize::from(header.header_len)..header.used_bytes());
    Records::new(used.unwrap_or_default())
}

/// The next record, and at which byte after the header it begins; `None` also where its length is
/// damaged.
fn next<'a>(records: &mut Records<'a>) -> Option<(usize, Record<'a>)> {
    let at = records.at();
    Some((at, records.take().ok()??))
}

/// What records from a position on build on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Context {
    thread: Option<u32>,
    base: Option<u64>,
}

impl Context {
    fn bytes(self) -> Vec<u8> {
        let length = |words: usize| (8 * words / UNIT) as u8;
        let thread = self.thread.map(|tid| header(kind::THREAD, length(1), 0, tid));
        let base = self.base.map(|base| [header(kind::TIME, length(2), 0, 0), base]);
        thread.into_iter().chain(base.into_iter().flatten()).flat_map(u64::to_le_bytes).collect()
    }
}

/// The context at a position before which a record, with all that belongs to it, ends.
fn context(page: &Page, to: u32) -> Option<Context> {
    let mut context = Context { thread: None, base: None };
    let to = (UNIT * to as usize).checked_sub(usize::from(page.header().header_len))?;
    let mut records = records(page);
    while records.at() < to {
        let Some((_, record)) = next(&mut records) else { break };
        match (page.lane(), record.kind) {
            (_, kind::THREAD) => context.thread = Some(record.upper),
            (_, kind::TIME) => context.base = Some(record.word()?),
            (Lane::Sched, kind::SWITCH) => context.thread = Some(switch::unpack(record.word()?).1),
            (Lane::Task, kind::MARK | kind::ACT) => context.thread = None,
            _ => {}
        }
    }
    (records.at() == to && records.peek() != Some(kind::STRING)).then_some(context)
}
