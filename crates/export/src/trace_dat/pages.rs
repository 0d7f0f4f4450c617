//! Pages of ftrace's ring buffer, by CPU (kernel/trace/ring_buffer.c, `struct buffer_data_page`).
//!
//! A page begins with the time of its first event and the bytes that are in use (`commit`); an
//! event with five bits of its length in words and 27 bits of time since the event before. Where
//! events are missing before a page, `commit` has `RB_MISSED_EVENTS`; if their number is known also
//! `RB_MISSED_STORED`, and the number is after the last event.
//!
//! The file has the pages of a CPU one after the other, but they come mixed: they wait in a file
//! without a name.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use rustc_hash::FxHashMap;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;
/// Bytes before the events.
const HEAD: usize = 16;
/// Most bytes of an event's data: an empty page has room for it, a step of time, and a count of
/// missing events.
pub(super) const DATA_MAX: usize = PAGE - HEAD - 8 - 8 - 8;
/// Most words of data that the five bits tell.
const WORDS_MAX: usize = 28;
const TIME_EXTEND: u32 = 30;
const DELTA_BITS: u32 = 27;
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Events that are missing before a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missed {
    None,
    Some(u64),
    Unknown,
}

/// A CPU's page in the making.
#[derive(Debug)]
struct Cpu {
    page: Vec<u8>,
    first: u64,
    last: u64,
    missed: Missed,
    /// Where its pages are in the spool, in order.
    places: Vec<u32>,
}

/// The pages of all CPUs.
#[derive(Debug)]
pub(super) struct Pages {
    spool: File,
    written: u32,
    block: Vec<u8>,
    cpus: FxHashMap<u16, Cpu>,
    /// CPUs with a page in the making.
    open: usize,
}

/// Most pages in the making: a file may name any CPU.
const OPEN_MAX: usize = 4096;
/// Pages are written together.
const BLOCK: usize = 64 * PAGE;

impl Pages {
    /// None, to wait in `spool`.
    pub(super) fn new(spool: File) -> Self {
        Self { spool, written: 0, block: Vec::new(), cpus: FxHashMap::default(), open: 0 }
    }

    fn cpu(&mut self, cpu: u16) -> &mut Cpu {
        self.cpus.entry(cpu).or_insert_with(|| Cpu {
            page: Vec::new(),
            first: 0,
            last: 0,
            missed: Missed::None,
            places: Vec::new(),
        })
    }

    /// Events are missing before the next one of this CPU; `None`: nobody knows how many.
    pub(super) fn miss(&mut self, cpu: u16, count: Option<u64>) -> io::Result<()> {
        self.flush(cpu)?;
        let at = self.cpu(cpu);
        at.missed = match (at.missed, count) {
            (Missed::Unknown, _) | (_, None) => Missed::Unknown,
            (Missed::None, Some(count)) => Missed::Some(count),
            (Missed::Some(before), Some(count)) => Missed::Some(before.saturating_add(count)),
        };
        Ok(())
    }

    /// Appends an event, of at most [`DATA_MAX`] bytes, not before the last one of its CPU.
    pub(super) fn event(&mut self, cpu: u16, time: u64, data: &[u8]) -> io::Result<()> {
        let length = data.len().next_multiple_of(4).min(DATA_MAX);
        // A step of time, the head with the length, the data; and a count of missing events.
        let most = 8 + 8 + length + 8;
        if self.cpus.get(&cpu).is_some_and(|at| !at.page.is_empty() && at.page.len() + most > PAGE)
        {
            self.flush(cpu)?;
        }
        if self.open >= OPEN_MAX {
            let cpus: Vec<u16> = self.cpus.keys().copied().collect();
            cpus.into_iter().try_for_each(|cpu| self.flush(cpu))?;
        }
        self.open += usize::from(self.cpus.get(&cpu).is_none_or(|at| at.page.is_empty()));
        let at = self.cpu(cpu);
        let time = time.max(at.last);
        if at.page.is_empty() {
            at.page.resize(HEAD, 0);
            (at.first, at.last) = (time, time);
        }
        let mut delta = time - at.last;
        at.last = time;
        let mut word = |value: u32| at.page.extend_from_slice(&value.to_le_bytes());
        if delta >> DELTA_BITS != 0 {
            let low = delta as u32 & ((1 << DELTA_BITS) - 1);
            word(TIME_EXTEND | low << 5);
            word((delta >> DELTA_BITS) as u32);
            delta = 0;
        }
        let words = length / 4;
        if (1..=WORDS_MAX).contains(&words) {
            word(words as u32 | (delta as u32) << 5);
        } else {
            word((delta as u32) << 5);
            word(length as u32 + 4);
        }
        let data = data.get(..length).unwrap_or(data);
        at.page.extend_from_slice(data);
        let end = at.page.len().next_multiple_of(4);
        at.page.resize(end, 0);
        Ok(())
    }

    /// Completes a CPU's page.
    fn flush(&mut self, cpu: u16) -> io::Result<()> {
        let Self { cpus, block, written, open, .. } = self;
        let Some(at) = cpus.get_mut(&cpu).filter(|at| !at.page.is_empty()) else { return Ok(()) };
        let mut commit = (at.page.len() - HEAD) as u64;
        match at.missed {
            Missed::None => {}
            Missed::Some(count) => {
                commit |= MISSED | MISSED_STORED;
                at.page.extend_from_slice(&count.to_le_bytes());
            }
            Missed::Unknown => commit |= MISSED,
        }
        at.missed = Missed::None;
        *open = open.saturating_sub(1);
        at.page.resize(PAGE, 0);
        if let Some((head, _)) = at.page.split_first_chunk_mut::<HEAD>() {
            let (time, rest) = head.split_at_mut(8);
            time.copy_from_slice(&at.first.to_le_bytes());
            rest.copy_from_slice(&commit.to_le_bytes());
        }
        at.places.push(*written);
        *written =
            written.checked_add(1).ok_or_else(|| io::Error::other("more than 16 TiB of pages"))?;
        block.append(&mut at.page);
        if block.len() >= BLOCK {
            self.spool.write_all(block)?;
            block.clear();
        }
        Ok(())
    }

    /// Completes all pages. Returns the number of pages of each CPU below `cpus`.
    pub(super) fn finish(&mut self, cpus: u16) -> io::Result<Vec<u64>> {
        for cpu in 0..cpus {
            self.flush(cpu)?;
        }
        self.spool.write_all(&self.block)?;
        self.block.clear();
        let count = |cpu| self.cpus.get(&cpu).map_or(0, |at: &Cpu| at.places.len() as u64);
        Ok((0..cpus).map(count).collect())
    }

    /// Appends some of a CPU's pages, from one on, and returns the next one; `None`: there is none.
    pub(super) fn read(
        &self,
        cpu: u16,
        from: usize,
        out: &mut Vec<u8>,
    ) -> io::Result<Option<usize>> {
        let Some(at) = self.cpus.get(&cpu) else { return Ok(None) };
        let end = at.places.len().min(from.saturating_add(BLOCK / PAGE));
        for place in at.places.get(from..end).unwrap_or_default() {
            let begin = out.len();
            out.resize(begin + PAGE, 0);
            let page = out.get_mut(begin..).unwrap_or_default();
            self.spool.read_exact_at(page, u64::from(*place) * PAGE as u64)?;
        }
        Ok((end < at.places.len()).then_some(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a page: when, and their data; and what is missing before.
    fn parse(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, Option<u64>) {
        let long = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
        let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().unwrap());
        let (mut time, commit) = (long(0), long(8));
        let end = HEAD + (commit & 0xfffff) as usize;
        let mut at = HEAD;
        let mut events = Vec::new();
        while at < end {
            let head = word(at);
            time += u64::from(head >> 5);
            match head & 31 {
                30 => {
                    time += u64::from(word(at + 4)) << DELTA_BITS;
                    at += 8;
                }
                0 => {
                    let length = word(at + 4) as usize;
                    events.push((time, page[at + 8..at + 4 + length].to_vec()));
                    at += 4 + length;
                }
                words => {
                    let length = words as usize * 4;
                    events.push((time, page[at + 4..at + 4 + length].to_vec()));
                    at += 4 + length;
                }
            }
        }
        let missed = (commit & MISSED != 0)
            .then(|| if commit & MISSED_STORED != 0 { long(end) } else { u64::MAX });
        (events, missed)
    }

    #[test]
    fn pages_hold_what_was_written() {
        let mut pages = Pages::new(tempfile::tempfile().unwrap());
        let mut expected = Vec::new();
        for i in 0..400u64 {
            let time = 1_000_000 + i * i * 1_000_000;
            let data = vec![i as u8; (i as usize * 37) % (DATA_MAX + 1) / 4 * 4];
            pages.event(1, time, &data).unwrap();
            expected.push((time, data));
        }
        pages.miss(1, Some(3)).unwrap();
        pages.miss(1, Some(4)).unwrap();
        pages.event(1, 5, b"late").unwrap();
        pages.miss(1, None).unwrap();
        let time = expected.last().unwrap().0;
        pages.event(1, time + 1, b"last").unwrap();
        expected.extend([(time, b"late".to_vec()), (time + 1, b"last".to_vec())]);
        assert_eq!(pages.finish(2).unwrap()[0], 0);
        let (mut bytes, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            from = pages.read(1, at, &mut bytes).unwrap();
        }
        let (mut events, mut missed) = (Vec::new(), Vec::new());
        for page in bytes.chunks(PAGE) {
            let (some, lost) = parse(page);
            events.extend(some);
            missed.extend(lost);
        }
        assert_eq!(events, expected);
        assert_eq!(missed, [7, u64::MAX]);
    }
}
