//! Pages as a later release writes them, byte by byte: lane `task` with two kinds more than today's
//! table, and a ring lane that this release does not know.

use flightrec_format::abi::kinds::{KINDS_MAX, Kind, kinds_of, number_of};
use flightrec_format::abi::page::{HEADER_KINDS, HEADER_LEN, Lane, PAGE_SIZE, VERSION};
use flightrec_format::abi::record::kind;

/// The kinds that this release does not know, the next ones of lane `task`.
pub(crate) fn later_kinds() -> [u8; 2] {
    let known = kinds_of(Lane::Task);
    [number_of(Lane::Task, known), number_of(Lane::Task, known + 1)]
}

/// Number of a lane that this release does not know.
pub(crate) const LATER_LANE: u8 = 4;

/// A record: its kind, its time after the page's base, the bytes after its header word.
pub(crate) type Record<'a> = (u8, u32, &'a [u8]);

/// Writes the pages of one ring, with all counters that the later release has.
pub(crate) struct LaterRing {
    pub(crate) session: u64,
    pub(crate) lane: u8,
    pub(crate) cpu: u16,
    /// `CLOCK_TAI` minus `CLOCK_MONOTONIC`, ns.
    pub(crate) tai: u64,
    seq: u64,
    /// Events so far, by kind.
    pub(crate) counts: [u64; KINDS_MAX],
    kinds: usize,
}

impl LaterRing {
    pub(crate) fn new(session: u64, lane: u8, cpu: u16, tai: u64) -> Self {
        let known = Lane::from_u8(lane).filter(|_| lane != LATER_LANE).map_or(0, kinds_of);
        let kinds = known.max(HEADER_KINDS) + 2;
        Self { session, lane, cpu, tai, seq: 0, counts: [0; KINDS_MAX], kinds }
    }

    /// The next page, opened at `base`.
    pub(crate) fn page(&mut self, base: u64, records: &[Record<'_>]) -> Box<[u8; PAGE_SIZE]> {
        self.seq += 1;
        let further = self.kinds.saturating_sub(HEADER_KINDS);
        let header_len = HEADER_LEN + 8 * further;
        let mut body = Vec::new();
        let before = self.counts;
        for (number, time, content) in records {
            let units = (8 + content.len()) / 4;
            let head = u64::from(*number) | (units as u64) << 8 | u64::from(*time) << 32;
            body.extend(head.to_le_bytes());
            body.extend(*content);
            // Strings belong to the event before them.
            if *number >> 4 == self.lane + 1 {
                self.counts[usize::from(number & 0xf)] += 1;
            }
        }
        let identity = u64::from(VERSION)
            | u64::from(self.lane) << 16
            | u64::from(self.cpu) << 32
            | (header_len as u64) << 48;
        let magic = u64::from_le_bytes(*b"FLTRECCP");
        let used = (header_len + body.len()) as u64 / 4;
        let words = [magic, self.session, identity, self.seq, base, base + self.tai, used];
        let (first, others) = before.split_at(HEADER_KINDS);
        let words = words.iter().chain(first).chain(&[0; 3]).chain(&others[..further]);
        let mut page = Box::new([0; PAGE_SIZE]);
        let bytes = words.flat_map(|word| word.to_le_bytes()).chain(body);
        page.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        page
    }
}

/// A user's line, as two records.
pub(crate) fn mark(time: u32, text: &[u8; 4]) -> [Record<'_>; 2] {
    [(Kind::Mark as u8, time, &[]), (kind::STRING, 4, text)]
}
