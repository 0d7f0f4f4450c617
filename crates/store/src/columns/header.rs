//! Page headers: each is told by how it differs from what the pages before it let expect.

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{
    COPY_MAGIC, HEADER_KINDS, HEADER_LEN, PageHeader, REFUSALS, VERSION,
};
use flightrec_format::abi::record::{counter, kind};
use flightrec_format::decode::Summary;

use super::column::Column;
use super::record::form;
use super::sched::Current;
use super::seen::Idle;
use super::stream::Stream;

/// Bits of a header's first byte: what is not as expected.
const SESSION: u8 = 1;
const RING: u8 = 1 << 1;
const LENGTH: u8 = 1 << 2;
const SEQUENCE: u8 = 1 << 3;
const TOTALS: u8 = 1 << 4;
const RESERVED: u8 = 1 << 5;
/// What stands before the records is not 0.
const BEFORE: u8 = 1 << 6;
/// The page's version is told.
const OTHER_VERSION: u8 = 1 << 7;

/// How far a ring has got.
#[derive(Debug, Clone)]
pub(super) struct Ring {
    /// The last page's header.
    header: PageHeader,
    /// How many kinds it counts.
    kinds: usize,
    /// Events in it, by kind.
    counts: Counts,
    /// Time of the last.
    pub(super) now: u64,
    /// Greatest time of any, or the page's base.
    latest: u64,
    pub(super) current: Current,
    /// For the encoder: the CPU's switches.
    pub(super) idle: Option<Idle>,
}

/// The rings that pages of a block are of.
pub(super) struct Rings {
    known: Vec<Ring>,
    /// Of the last page.
    at: usize,
    session: u64,
    /// Version of the last page; before the first, 0.
    version: u16,
}

const NONE: PageHeader = PageHeader {
    magic: COPY_MAGIC,
    session: 0,
    version: VERSION,
    lane: 0,
    flags: 0,
    cpu: 0,
    header_len: HEADER_LEN as u16,
    seq: 0,
    base_mono: 0,
    base_tai: 0,
    used: 0,
    detached: 0,
    events: Counts::ZERO,
    refused: [0; REFUSALS],
};

/// A header, and whether what stands between it and the records is not 0.
pub(super) struct Head {
    pub(super) header: PageHeader,
    pub(super) before: bool,
}

impl Head {
    pub(super) const NONE: Self = Self { header: NONE, before: false };
}

impl Rings {
    pub(super) fn new() -> Self {
        Self { known: Vec::new(), at: 0, session: 0, version: 0 }
    }

    /// The ring of this lane and CPU.
    fn of(&mut self, lane: u8, cpu: u16) -> &mut Ring {
        let is = |ring: &Ring| ring.header.lane == lane && ring.header.cpu == cpu;
        if !self.known.get(self.at).is_some_and(is) {
            self.at = self.known.iter().position(is).unwrap_or(self.known.len());
        }
        if self.at >= self.known.len() {
            let header = PageHeader { lane, cpu, ..NONE };
            self.known.push(Ring {
                header,
                kinds: HEADER_KINDS,
                counts: Counts::ZERO,
                now: 0,
                latest: 0,
                current: Current::default(),
                idle: None,
            });
        }
        &mut self.known[self.at]
    }

    /// The CPUs that switched, whether each idled, and whether it does at last.
    pub(super) fn cpus(&self) -> impl Iterator<Item = (u16, bool, bool)> + '_ {
        self.known.iter().filter_map(|ring| {
            let of = ring.idle?;
            Some((ring.header.cpu, of.ever, of.last))
        })
    }

    /// Codes a header; returns its ring, which is then at the page's beginning.
    pub(super) fn code<S: Stream>(&mut self, s: &mut S, head: &mut Head) -> &mut Ring {
        let last = self.known.get(self.at).map_or(NONE, |ring| ring.header);
        let h = &mut head.header;
        let mut miss = 0;
        if S::WRITES {
            let (known, version) = (self.session, self.version);
            let ring = (h.lane, h.cpu) != (last.lane, last.cpu);
            let next = self.of(h.lane, h.cpu);
            miss |= if h.session == known { 0 } else { SESSION };
            miss |= if ring { RING } else { 0 };
            miss |= if usize::from(h.header_len) == HEADER_LEN { 0 } else { LENGTH };
            miss |= if h.seq == next.header.seq.wrapping_add(1) { 0 } else { SEQUENCE };
            let (events, refused) = next.totals();
            let first = h.events.iter().zip(&events).take(HEADER_KINDS).all(|(a, b)| a == b);
            let further = further(h, &events) == h.events;
            miss |= if first && h.refused == refused { 0 } else { TOTALS };
            miss |= if h.detached == 0 && h.flags == 0 { 0 } else { RESERVED };
            miss |= if head.before || !further { BEFORE } else { 0 };
            miss |= if h.version == version { 0 } else { OTHER_VERSION };
        }
        let miss = s.byte(Column::Header, miss);
        let column = Column::HeaderField;
        if miss & SESSION != 0 {
            let mut session = h.session.to_le_bytes();
            s.bytes(column, &mut session);
            self.session = u64::from_le_bytes(session);
        }
        h.session = self.session;
        if miss & OTHER_VERSION != 0 {
            self.version = s.varint(column, u64::from(h.version)) as u16;
        }
        h.version = self.version;
        (h.lane, h.cpu) = if miss & RING == 0 {
            (last.lane, last.cpu)
        } else {
            (s.byte(column, h.lane), s.varint(column, u64::from(h.cpu)) as u16)
        };
        let ring = self.of(h.lane, h.cpu);
        h.header_len = if miss & LENGTH == 0 {
            HEADER_LEN as u16
        } else {
            s.varint(column, u64::from(h.header_len)) as u16
        };
        let seq = ring.header.seq.wrapping_add(1);
        h.seq = if miss & SEQUENCE == 0 { seq } else { s.near(column, h.seq, seq) };
        let (events, refused) = ring.totals();
        let first = h.events.iter_mut().zip(events).take(HEADER_KINDS);
        for (value, expected) in first.chain(h.refused.iter_mut().zip(refused)) {
            *value = if miss & TOTALS == 0 { expected } else { s.near(column, *value, expected) };
        }
        (h.flags, h.detached) = if miss & RESERVED == 0 {
            (0, 0)
        } else {
            (s.byte(column, h.flags), s.varint(column, u64::from(h.detached)) as u32)
        };
        head.before = miss & BEFORE != 0;
        if !S::WRITES {
            // Where they are not as expected, they stand with what else is there.
            h.events = further(h, &events);
        }
        // A part of the page before has its base.
        let same = h.seq == ring.header.seq;
        let base = if same { ring.header.base_mono } else { ring.now };
        h.base_mono = s.near(Column::Base, h.base_mono, base);
        let apart = ring.header.base_tai.wrapping_sub(ring.header.base_mono);
        h.base_tai = s.near(Column::Base, h.base_tai, h.base_mono.wrapping_add(apart));
        h.used = s.varint(Column::Used, u64::from(h.used)) as u32;
        ring.header = *h;
        ring.kinds = h.kinds();
        ring.counts = Counts::ZERO;
        ring.now = if same { ring.now } else { h.base_mono };
        ring.latest = h.base_mono;
        ring
    }
}

/// A header's counters, those after its first bytes as expected; 0 those that it does not have.
fn further(header: &PageHeader, expected: &Counts) -> Counts {
    let mut events = header.events;
    let counters = events.iter_mut().zip(expected).enumerate().skip(HEADER_KINDS);
    for (index, (count, expected)) in counters {
        *count = if index < header.kinds() { *expected } else { 0 };
    }
    events
}

impl Ring {
    /// Takes the counters that were not as expected out of the page's bytes.
    pub(super) fn correct(&mut self, header: &PageHeader) {
        self.header.events = header.events;
    }

    /// Counts an event.
    #[inline]
    pub(super) fn count(&mut self, kind: u8) {
        if counter(kind) < self.kinds {
            self.counts.count(kind);
        }
    }

    /// Counts what a call's record tells.
    #[inline]
    pub(super) fn count_call(&mut self, form: u8) {
        // Sums and no branches: what comes next can't be foretold.
        self.counts.add(kind::ENTER, u64::from(form != form::EXITED));
        self.counts.add(kind::EXIT, u64::from(form != form::ENTERED));
    }

    /// Goes on to the time of an event.
    #[inline]
    pub(super) fn reach(&mut self, time: u64) {
        self.now = time;
        self.latest = self.latest.max(time);
    }

    /// What was counted since the page's header; `None` where its times may have wrapped.
    pub(super) fn summary(&self) -> Option<Summary> {
        let summary = Summary { counts: self.counts, last: self.latest, damage: None };
        (self.header.base_mono < u64::MAX / 2).then_some(summary)
    }

    /// The totals that the next page has where nothing was lost between.
    fn totals(&self) -> (Counts, [u64; REFUSALS]) {
        (self.header.events.wrapping_plus(&self.counts), self.header.refused)
    }
}
