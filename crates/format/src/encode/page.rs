//! One CPU's ring of one lane, written page by page.

use thiserror::Error;

use super::body::Records;
use crate::abi::counts::Counts;
use crate::abi::page::{
    HEADER_KINDS, HEADER_LEN, Lane, MAGIC, PAGE_SIZE, PageHeader, REFUSALS, Refusal, UNIT, VERSION,
    header_len,
};
use crate::abi::record::{Abi, fold, kind};
use crate::decode::{self, Body, Event};

/// An event that a page writer can't take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// It belongs to another lane than the writer's.
    #[error("an event of another lane than {}", .0.name())]
    Lane(Lane),
    /// Its strings do not fit in one page.
    #[error("an event of {0} bytes does not fit in a page")]
    TooLong(usize),
}

/// A page as it stands in the kernel's memory, with its recording's secret ([`crate::identity`]),
/// for dumps that are made up: no copy.
pub fn in_kernel(page: &[u8; PAGE_SIZE], secret: u64) -> Box<[u8; PAGE_SIZE]> {
    let mut page = Box::new(*page);
    if let Some(head) = page.first_chunk_mut::<16>() {
        *head = (u128::from(MAGIC) | u128::from(secret) << 64).to_le_bytes();
    }
    page
}

/// Puts a header at the beginning of a page, and of what is after its first bytes the counters.
pub fn put_header(header: &PageHeader, page: &mut [u8; PAGE_SIZE]) {
    if let Some(head) = page.first_chunk_mut() {
        *head = write_header(header);
    }
    let further = page.get_mut(HEADER_LEN..header.counters_end()).unwrap_or_default();
    for (word, count) in further.chunks_exact_mut(8).zip(header.events.iter().skip(HEADER_KINDS)) {
        word.copy_from_slice(&count.to_le_bytes());
    }
}

/// The first bytes of a header: all but the counters of further kinds ([`put_header`]).
pub fn write_header(header: &PageHeader) -> [u8; HEADER_LEN] {
    let identity = u64::from(header.version)
        | u64::from(header.lane) << 16
        | u64::from(header.flags) << 24
        | u64::from(header.cpu) << 32
        | u64::from(header.header_len) << 48;
    let used = u64::from(header.used) | u64::from(header.detached) << 32;
    let words = [
        header.magic,
        header.session,
        identity,
        header.seq,
        header.base_mono,
        header.base_tai,
        used,
    ]
    .into_iter()
    .chain(header.events.iter().take(HEADER_KINDS).copied())
    .chain(header.refused);
    let mut out = [0; HEADER_LEN];
    for (bytes, word) in out.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// The last record, while an exit may still fold into it.
#[derive(Debug, Clone, Copy)]
struct Entered {
    /// Byte of the page at which the fold slot stands.
    slot: usize,
    time: u64,
    tid: u32,
    nr: u16,
    abi: Abi,
}

/// Writes pages exactly as the probes do: thread records where the thread changes, a time record
/// where 32 bits do not reach, exits folded, a record and its strings never apart, a new page
/// when the next group does not fit.
#[derive(Debug)]
pub struct PageWriter {
    header: PageHeader,
    lane: Lane,
    /// `CLOCK_TAI` minus `CLOCK_MONOTONIC`, ns.
    tai: u64,
    page: Vec<u8>,
    /// Time base of the next record.
    base: u64,
    tid: Option<u32>,
    entered: Option<Entered>,
    events: Counts,
    refused: [u64; REFUSALS],
    closed: Vec<Box<[u8; PAGE_SIZE]>>,
    group: Vec<u8>,
}

impl PageWriter {
    /// A ring that holds nothing yet. `tai` is `CLOCK_TAI` minus `CLOCK_MONOTONIC` in ns.
    pub fn new(session: u64, lane: Lane, cpu: u16, tai: u64) -> Self {
        let header = PageHeader {
            magic: MAGIC,
            session,
            version: VERSION,
            lane: lane as u8,
            flags: 0,
            cpu,
            header_len: header_len(lane) as u16,
            seq: 0,
            base_mono: 0,
            base_tai: 0,
            used: 0,
            detached: 0,
            events: Counts::ZERO,
            refused: [0; REFUSALS],
        };
        Self {
            header,
            lane,
            tai,
            page: Vec::with_capacity(PAGE_SIZE),
            base: 0,
            tid: None,
            entered: None,
            events: Counts::ZERO,
            refused: [0; REFUSALS],
            closed: Vec::new(),
            group: Vec::new(),
        }
    }

    /// Appends an event. Its CPU is the ring's, whatever it says.
    ///
    /// An exit with `entered` folds into its entry where it can (the entry's record is the last,
    /// in the same page, and time and value fit), else it stands alone; one without `entered`
    /// always stands alone.
    pub fn push(&mut self, event: &Event) -> Result<(), EncodeError> {
        let (lane, kind) = place(&event.body);
        if lane != self.lane {
            return Err(EncodeError::Lane(self.lane));
        }
        if self.fold(event) {
            self.events.count(kind::EXIT);
            return Ok(());
        }
        self.group(event);
        if self.header.seq == 0 || self.group.len() > PAGE_SIZE - self.page.len() {
            // A new page may take one word more: it begins with its thread.
            let length = self.group.len() + 8;
            if length > PAGE_SIZE - usize::from(self.header.header_len) {
                return Err(EncodeError::TooLong(length));
            }
            self.open(event.time);
            self.group(event);
        }
        self.publish(event, kind);
        Ok(())
    }

    /// A page that begins with these bytes, of which the first are its header's; events go into it
    /// by [`Self::append`] alone.
    pub(crate) fn of_page(header: PageHeader, lane: Lane, page: Vec<u8>) -> Self {
        let mut writer = Self::new(header.session, lane, header.cpu, 0);
        (writer.header, writer.page, writer.base) = (header, page, header.base_mono);
        writer
    }

    /// Appends events to the open page: all, or, where they don't fit, none (`false`).
    pub(crate) fn append(&mut self, events: &[Event]) -> bool {
        let (length, base, tid, entered, counts) =
            (self.page.len(), self.base, self.tid, self.entered, self.events);
        self.entered = None;
        for event in events {
            let (lane, kind) = place(&event.body);
            if lane == self.lane && self.fold(event) {
                self.events.count(kind::EXIT);
                continue;
            }
            self.group(event);
            if lane != self.lane || self.group.len() > PAGE_SIZE - self.page.len() {
                self.page.truncate(length);
                (self.base, self.tid, self.entered, self.events) = (base, tid, entered, counts);
                return false;
            }
            self.publish(event, kind);
        }
        true
    }

    /// Puts the group of an event into the page.
    fn publish(&mut self, event: &Event, kind: u8) {
        let at = self.page.len();
        self.page.append(&mut self.group);
        self.published(event, at);
        self.events.count(kind);
    }

    /// Counts an event as refused.
    pub fn refuse(&mut self, reason: Refusal) {
        self.refused[reason as usize] += 1;
    }

    /// The wall clock is set: pages that are opened from now on tell the new one. `tai` as in
    /// [`Self::new`].
    pub fn set_tai(&mut self, tai: u64) {
        self.tai = tai;
    }

    /// Events written and refused so far.
    pub fn totals(&self) -> (Counts, [u64; REFUSALS]) {
        (self.events, self.refused)
    }

    /// The header of the page being written.
    pub fn header(&self) -> PageHeader {
        PageHeader { used: (self.page.len() / UNIT) as u32, ..self.header }
    }

    /// The page being written, as a reader would copy it now.
    pub fn current(&self) -> Option<Box<[u8; PAGE_SIZE]>> {
        if self.header.seq == 0 {
            return None;
        }
        let mut out = Box::new([0; PAGE_SIZE]);
        if let Some(used) = out.get_mut(..self.page.len()) {
            used.copy_from_slice(&self.page);
        }
        put_header(&self.header(), &mut out);
        Some(out)
    }

    /// Takes the pages that are full, oldest first.
    pub fn take(&mut self) -> Vec<Box<[u8; PAGE_SIZE]>> {
        std::mem::take(&mut self.closed)
    }

    /// All pages that were not taken, oldest first.
    pub fn finish(mut self) -> Vec<Box<[u8; PAGE_SIZE]>> {
        let last = self.current();
        self.closed.extend(last);
        self.closed
    }

    /// Closes the page and opens the next.
    fn open(&mut self, time: u64) {
        let full = self.current();
        self.closed.extend(full);
        self.header.seq += 1;
        self.header.base_mono = time;
        self.header.base_tai = time.wrapping_add(self.tai);
        self.header.events = self.events;
        self.header.refused = self.refused;
        self.page.clear();
        self.page.resize(usize::from(self.header.header_len), 0);
        self.base = time;
        self.tid = None;
        self.entered = None;
    }

    /// Builds what `event` takes in the open page.
    fn group(&mut self, event: &Event) {
        self.group.clear();
        let (thread, needed) = match (self.lane, &event.body) {
            (Lane::Task, Body::Mark(_) | Body::Act(..)) => (event.tid, event.tid != 0),
            (Lane::Task, _) => (0, false),
            // A switch names its thread itself; the page's first record names one anyway.
            (_, Body::Switch { .. }) => (event.tid, self.tid.is_none()),
            _ => (event.tid, self.tid != Some(event.tid)),
        };
        let mut records = Records { out: &mut self.group };
        if needed {
            records.header(kind::THREAD, 0, 0, thread);
        }
        let upper = event.time.checked_sub(self.base).and_then(|ns| u32::try_from(ns).ok());
        let upper = upper.unwrap_or_else(|| {
            records.header(kind::TIME, 8, 0, 0);
            records.word(event.time);
            0
        });
        records.event(&event.body, event.tid, upper);
    }

    /// Brings the writer's state up to what the group from byte `at` on says.
    fn published(&mut self, event: &Event, at: usize) {
        self.entered = None;
        let mut records = decode::records::Records::new(self.page.get(at..).unwrap_or_default());
        let mut begin = at;
        while let Ok(Some(record)) = records.take() {
            match record.kind {
                kind::THREAD => self.tid = Some(record.upper),
                kind::TIME => self.base = event.time,
                kind::SWITCH => {
                    self.tid =
                        if let Body::Switch { next, .. } = event.body { Some(next) } else { None }
                }
                kind::ENTER => {
                    if let Body::Enter(call) = &event.body {
                        let (time, tid) = (event.time, event.tid);
                        self.entered = Some(Entered {
                            slot: begin + 8,
                            time,
                            tid,
                            nr: call.nr,
                            abi: call.abi,
                        });
                    }
                }
                _ => {}
            }
            begin = at + records.at();
        }
    }

    /// Folds an exit into its entry, where that is the last record.
    fn fold(&mut self, event: &Event) -> bool {
        let Body::Exit { call, ret, entered: Some(entered) } = &event.body else { return false };
        let Some(e) = self.entered.take() else { return false };
        let same = (e.time, e.tid, e.nr, e.abi) == (*entered, event.tid, call.nr, call.abi);
        let bare = call.nargs == 0 && call.strings.is_empty();
        match event.time.checked_sub(e.time) {
            Some(ns) if same && bare && ns < fold::LIMIT_NS && fold::fits(*ret) => {
                if let Some(slot) =
                    self.page.get_mut(e.slot..).and_then(|slot| slot.first_chunk_mut())
                {
                    *slot = fold::pack(*ret, ns).to_le_bytes();
                }
                true
            }
            _ => false,
        }
    }
}

/// An event's lane and kind.
fn place(body: &Body) -> (Lane, u8) {
    let kind = body.kind();
    (kind.lane(), kind as u8)
}
