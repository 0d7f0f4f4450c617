//! Items: what a page consists of after its header. A record with the THREAD and TIME before it.

use flightrec_format::abi::page::{Lane, PageHeader};
use flightrec_format::abi::record::{StringStatus, header, kind};

use super::call::{Calls, OTHER};
use super::column::Column;
use super::header::Ring;
use super::out::Out;
use super::plain::{LONGEST, Plain, is_event};
use super::record::{Call, Sched, Text, form, record, units, word};
use super::sched::Scheduling;
use super::seen::{Idle, Open, Seen, Sight};
use super::stream::{Stream, Writing};
use super::text::Texts;
use super::threads::Threads;

/// Bits of [`Column::Op`]: a THREAD, a TIME stands before the record; then what the record is.
const THREAD: u8 = 1;
const TIME: u8 = 1 << 1;
const LEAD: u8 = THREAD | TIME;
const CLASS: u8 = 3 << 2;
/// A call in the syscall lane, a scheduling event in the sched lane.
const EVENT: u8 = 0;
/// Any other record.
const PLAIN: u8 = 1 << 2;
/// A STRING.
const TEXT: u8 = 2 << 2;
/// The rest of the page, which is no records.
const TAIL: u8 = 3 << 2;

/// What stands before a record; which parts of it count, `op` says.
#[derive(Debug, Clone, Copy, Default)]
struct Lead {
    thread: u32,
    time: u64,
}

impl Lead {
    /// Takes a THREAD and a TIME, in this order, off the front; also returns `op`.
    #[inline]
    fn take<'a>(&mut self, mut bytes: &'a [u8]) -> (u8, &'a [u8]) {
        let mut op = 0;
        let head = word(bytes, 0);
        if head as u32 == header(kind::THREAD, units(8), 0, 0) as u32 {
            op |= THREAD;
            self.thread = (head >> 32) as u32;
            bytes = bytes.get(8..).unwrap_or_default();
        }
        if word(bytes, 0) == header(kind::TIME, units(16), 0, 0)
            && let Some(after) = bytes.get(16..)
        {
            op |= TIME;
            self.time = word(bytes, 8);
            bytes = after;
        }
        (op, bytes)
    }

    /// Codes it.
    fn code<S: Stream>(
        &mut self,
        s: &mut S,
        op: u8,
        at: &mut At,
        ring: &mut Ring,
        threads: &mut Threads,
    ) {
        if op & THREAD != 0 {
            let present = ring.current.tid;
            let expected = threads.of(present).next;
            self.thread = threads.code(s, self.thread, expected, present);
            threads.of(present).next = self.thread;
            ring.current.tid = self.thread;
            at.true_tid = Some(self.thread);
        }
        if op & TIME != 0 {
            self.time = s.near(Column::Time, self.time, ring.now);
            (at.base, at.true_base) = (self.time, self.time);
            ring.now = ring.now.max(self.time);
        }
    }

    /// Its records.
    #[inline]
    fn put(&self, op: u8, out: &mut Out<'_>) {
        if op & THREAD != 0 {
            out.word(header(kind::THREAD, units(8), 0, self.thread));
        }
        if op & TIME != 0 {
            out.word(header(kind::TIME, units(16), 0, 0));
            out.word(self.time);
        }
    }

    /// Whether an event after it can count with every reader as it does here. `first`: of its
    /// page.
    #[inline]
    fn is_counted(&self, op: u8, first: bool) -> bool {
        // Without a THREAD in front a page's first events are of nobody; from such a time base on,
        // times may wrap.
        (!first || op & THREAD != 0) && (op & TIME == 0 || self.time < u64::MAX / 2)
    }
}

/// An item; which parts of it count, `op` says.
pub(super) struct Item {
    op: u8,
    lead: Lead,
    call: Call,
    sched: Sched,
    text: Text,
    plain: [[u8; 8]; LONGEST],
}

impl Item {
    pub(super) fn new() -> Self {
        let (lead, call, sched) = (Lead::default(), Call::NONE, Sched::default());
        Self { op: 0, lead, call, sched, text: Text::EMPTY, plain: [[0; 8]; LONGEST] }
    }

    /// Forgets the call, of which a reader without contents takes over a part alone.
    pub(super) fn clear(&mut self) {
        self.call = Call::NONE;
    }

    /// Takes the item at the front of what is left of a page, but for a call's strings; returns the
    /// number of bytes that it takes. What is no record is the rest of the page.
    pub(super) fn take(&mut self, at: &At, bytes: &[u8]) -> usize {
        let (op, after) = self.lead.take(bytes);
        self.op = op;
        let lead = bytes.len() - after.len();
        if let Some(record) = record(after)
            && self.take_record(at, record, after, lead > 0)
        {
            return lead + record.len();
        }
        // THREAD or TIME not as the probes write them: each is a record like any other.
        let Some(record) = record(bytes) else {
            self.op = TAIL;
            return bytes.len();
        };
        self.op = PLAIN;
        self.take_plain(record);
        record.len()
    }

    /// Takes the record at the front of `bytes`; `false` where it is another THREAD or TIME after
    /// a first one.
    #[inline]
    fn take_record(&mut self, at: &At, record: &[u8], bytes: &[u8], lead: bool) -> bool {
        const SYSCALL: u8 = Lane::Syscall as u8;
        const SCHED: u8 = Lane::Sched as u8;
        match at.lane {
            SYSCALL if self.call.take(bytes).is_some() => return true,
            SCHED => {
                if let Some(sched) = Sched::take(record) {
                    self.sched = sched;
                    return true;
                }
            }
            _ => {}
        }
        match word(record, 0) as u8 {
            kind::THREAD | kind::TIME if lead => return false,
            kind::STRING if Text::is(record) => {
                self.op |= TEXT;
                self.text.take(record);
            }
            _ => {
                self.op |= PLAIN;
                self.take_plain(record);
            }
        }
        true
    }

    fn take_plain(&mut self, record: &[u8]) {
        let length = record.len();
        let Some(to) = self.plain.as_flattened_mut().get_mut(..length.next_multiple_of(8)) else {
            return;
        };
        let (own, after) = to.split_at_mut(length);
        own.copy_from_slice(record);
        after.fill(0);
    }

    /// Takes a string of the call; returns the number of its bytes.
    pub(super) fn take_string(&mut self, bytes: &[u8]) -> usize {
        record(bytes).map_or(0, |record| {
            self.text.take(record);
            record.len()
        })
    }

    /// Strings that follow the item and belong to it.
    #[inline]
    pub(super) fn strings(&self, lane: u8) -> u8 {
        if self.op & CLASS == EVENT && lane == Lane::Syscall as u8 {
            self.call.what.strings()
        } else {
            0
        }
    }

    /// Whether the item counts with every reader as it does here: a call or a scheduling event that
    /// is not damaged, of a known thread. `first`: of its page.
    #[inline]
    pub(super) fn is_counted(&self, lane: u8, first: bool) -> bool {
        match self.op & CLASS {
            EVENT => {
                self.lead.is_counted(self.op, first)
                    && (lane != Lane::Syscall as u8 || self.call.fine)
            }
            TEXT => !first && self.op & LEAD == 0 && self.is_fine_string(),
            _ => false,
        }
    }

    /// Whether a reader may make more of it than is seen in it here: it is damaged, or of nobody.
    pub(super) fn is_odd(&self, at: &At) -> bool {
        const LOW: u64 = 0xffff_ffff;
        let is_late = at.true_base >= u64::MAX / 2;
        let head = u64::from_le_bytes(self.plain[0]);
        match self.op & CLASS {
            EVENT if at.lane == Lane::Syscall as u8 => {
                is_late || at.true_tid.is_none() || !self.call.fine
            }
            EVENT => is_late,
            PLAIN => match head as u8 {
                kind::THREAD => head & LOW != header(kind::THREAD, units(8), 0, 0),
                kind::TIME => head != header(kind::TIME, units(16), 0, 0) || is_late,
                // One that is not as the probes write it.
                kind::STRING => true,
                kind => {
                    let is_call = at.lane == Lane::Syscall as u8 && is_event(kind, at.lane);
                    is_call && (is_late || at.true_tid.is_none())
                }
            },
            TEXT => !self.is_fine_string(),
            _ => true,
        }
    }

    /// The call, where it is one whose strings follow.
    pub(super) fn call(&self, lane: u8) -> Option<&Call> {
        (self.op & CLASS == EVENT && lane == Lane::Syscall as u8).then_some(&self.call)
    }

    /// The `aux` of the string that was coded last.
    #[inline]
    pub(super) fn text_aux(&self) -> u8 {
        self.text.aux
    }

    /// Whether the string that was coded last has a status that there is.
    #[inline]
    pub(super) fn is_fine_string(&self) -> bool {
        is_fine(self.text.aux)
    }

    /// Whether it is the rest of the page.
    #[inline]
    pub(super) fn is_tail(&self) -> bool {
        self.op & CLASS == TAIL
    }

    /// Its records, but for a call's strings and for the rest of a page.
    #[inline]
    pub(super) fn put<const CONTENTS: bool>(&self, lane: u8, out: &mut Out<'_>) {
        self.lead.put(self.op, out);
        match self.op & CLASS {
            EVENT if lane == Lane::Syscall as u8 => out.some(|to| self.call.put::<CONTENTS>(to)),
            EVENT => out.bytes(self.sched.put().as_flattened()),
            PLAIN => out.record(&self.plain),
            TEXT => self.put_string::<CONTENTS>(out),
            _ => {}
        }
    }

    /// The record of the string that was coded last; without `CONTENTS`, its content stays as it is
    /// in the page.
    #[inline]
    pub(super) fn put_string<const CONTENTS: bool>(&self, out: &mut Out<'_>) {
        let (head, content) = self.text.put();
        out.bytes(&head);
        if CONTENTS {
            out.bytes(content);
        } else {
            out.skip(content.len());
        }
    }
}

/// Whether a string's status is one that there is.
#[inline]
pub(super) fn is_fine(aux: u8) -> bool {
    aux >> 4 <= StringStatus::Ends as u8
}

/// Where the walk is in a page.
pub(super) struct At {
    pub(super) lane: u8,
    pub(super) cpu: u16,
    /// Time base of the records.
    pub(super) base: u64,
    /// For the encoder: time base and thread of the records as every reader has them, also after
    /// THREADs and TIMEs in another order than the models know. `None`: none was named yet.
    pub(super) true_base: u64,
    pub(super) true_tid: Option<u32>,
}

impl At {
    /// After a header.
    pub(super) fn begin(header: &PageHeader) -> Self {
        let (lane, cpu, base) = (header.lane, header.cpu, header.base_mono);
        Self { lane, cpu, base, true_base: base, true_tid: None }
    }

    /// Takes a THREAD or a TIME that is no lead.
    fn take_plain(&mut self, record: &[[u8; 8]]) {
        let [head, word, ..] = record else { return };
        let head = u64::from_le_bytes(*head);
        match head as u8 {
            kind::THREAD => self.true_tid = Some((head >> 32) as u32),
            kind::TIME => self.true_base = u64::from_le_bytes(*word),
            _ => {}
        }
    }
}

/// What is known of the records so far in a block.
pub(super) struct Models {
    threads: Threads,
    calls: Calls,
    scheduling: Scheduling,
    texts: Texts,
    plain: Plain,
    /// What the encoder saw in the block.
    pub(super) seen: Seen,
}

/// A call that was written.
pub(super) struct Written {
    /// Bytes of its record.
    pub(super) length: usize,
    /// Whether it counts with every reader as it does here.
    pub(super) fine: bool,
    /// How many strings follow.
    pub(super) strings: u8,
    /// Which of its arguments are paths, a bit for each, and whether it is an end.
    pub(super) paths: u8,
    pub(super) ends: bool,
}

impl Models {
    pub(super) fn new() -> Self {
        Self {
            threads: Threads::new(),
            calls: Calls::new(),
            scheduling: Scheduling::new(),
            texts: Texts::new(),
            plain: Plain::new(),
            seen: Seen::new(),
        }
    }

    /// Forgets everything, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.threads.clear();
        self.calls.clear();
        self.scheduling = Scheduling::new();
        self.texts.clear();
        self.plain.clear();
        self.seen.clear();
    }

    /// Writes the call at the front of what is left of a page, where one stands there with nothing
    /// before it, and [`Self::code`] has begun the page.
    #[inline]
    pub(super) fn call(
        &mut self,
        s: &mut Writing,
        at: &At,
        ring: &mut Ring,
        bytes: &[u8],
    ) -> Option<Written> {
        let mut call = Call::NONE;
        let length = call.take(bytes)?;
        let history = &mut self.threads.of(ring.current.tid).calls;
        let miss = s.byte(Column::Miss, self.calls.misses(*history, &call));
        self.calls.code(s, history, &mut call, miss, &mut self.seen);
        times(s, at, ring, &mut call);
        self.seen.call(&call, at);
        let (what, fine) = (call.what, call.fine);
        let (paths, ends) = (self.seen.paths.of(what.aux()), what.form() == form::EXITED);
        Some(Written { length, fine, strings: what.strings(), paths, ends })
    }

    /// Codes an item.
    #[inline]
    pub(super) fn code<S: Stream>(
        &mut self,
        s: &mut S,
        at: &mut At,
        ring: &mut Ring,
        item: &mut Item,
    ) {
        let calls = at.lane == Lane::Syscall as u8;
        // In their lane, calls with nothing before them have no byte of their own.
        let mut miss = OTHER;
        if calls {
            miss = s.byte(Column::Miss, OTHER);
        }
        item.op = if miss & OTHER == 0 { EVENT } else { s.byte(Column::Op, item.op) };
        if item.op & LEAD != 0 {
            item.lead.code(s, item.op, at, ring, &mut self.threads);
            if S::WRITES && !calls {
                self.seen.id(item.lead.thread);
            }
        }
        // The time field that an event at once would have.
        let now = ring.now.wrapping_sub(at.base) as u32;
        let (kind, upper) = match (item.op & !LEAD, Lane::from_u8(at.lane)) {
            (EVENT, Some(Lane::Syscall)) => {
                let history = &mut self.threads.of(ring.current.tid).calls;
                if miss & OTHER != 0 {
                    miss = s.byte(
                        Column::Miss,
                        if S::WRITES { self.calls.misses(*history, &item.call) } else { 0 },
                    );
                }
                if miss & OTHER != 0 {
                    return s.fail();
                }
                self.calls.code(s, history, &mut item.call, miss, &mut self.seen);
                times(s, at, ring, &mut item.call);
                if S::WRITES {
                    self.seen.call(&item.call, at);
                }
                return;
            }
            (EVENT, Some(Lane::Sched)) => {
                self.scheduling.code(
                    s,
                    &mut item.sched,
                    &mut ring.current,
                    &mut self.threads,
                    (now, at.cpu),
                );
                if S::WRITES && item.sched.kind == kind::SWITCH {
                    let time = at.true_base.wrapping_add(u64::from(item.sched.upper));
                    Idle::switched(&mut ring.idle, time, ring.current.tid == 0);
                }
                (item.sched.kind, item.sched.upper)
            }
            (PLAIN, _) => {
                self.plain.code(s, &mut item.plain, at.lane, now);
                let head = u64::from_le_bytes(item.plain[0]);
                if S::WRITES {
                    at.take_plain(&item.plain);
                    self.seen.plain(&item.plain, at);
                }
                if !is_event(head as u8, at.lane) {
                    return;
                }
                (head as u8, (head >> 32) as u32)
            }
            (TEXT, _) => {
                self.string(s, ring, item);
                if S::WRITES {
                    self.seen.text(item.text.aux);
                }
                return;
            }
            (TAIL, _) => return,
            _ => return s.fail(),
        };
        ring.count(kind);
        ring.reach(at.base.wrapping_add(u64::from(upper)));
    }

    /// Writes the string at the front of what is left of a page, where it is one of those that were
    /// to be expected; returns the number of bytes that it takes, and its `aux`.
    #[inline]
    pub(super) fn string_again(
        &mut self,
        s: &mut Writing,
        ring: &Ring,
        bytes: &[u8],
    ) -> Option<(usize, u8)> {
        let record = record(bytes)?;
        let (aux, content) = Text::of(record)?;
        let before = &mut self.threads.of(ring.current.tid).strings;
        self.texts.again(s, aux, content, before).then_some((record.len(), aux))
    }

    /// Codes a string of the present thread, the item's or one after it.
    pub(super) fn string<S: Stream>(&mut self, s: &mut S, ring: &Ring, item: &mut Item) {
        let before = &mut self.threads.of(ring.current.tid).strings;
        self.texts.code(s, &mut item.text, before, &mut self.seen);
    }

    /// What was seen in the block, but for what its rings know.
    pub(super) fn sight(&mut self, open: &mut Open) -> Option<Sight<'_>> {
        if self.seen.odd {
            return None;
        }
        let mut sight = self.seen.take(open);
        sight.threads.extend(self.threads.all());
        Some(sight)
    }
}

/// Codes when a call was and how long it took, and counts it.
#[inline]
fn times<S: Stream>(s: &mut S, at: &At, ring: &mut Ring, call: &mut Call) {
    // The time field that it would have at once.
    let now = ring.now.wrapping_sub(at.base) as u32;
    let (gap, ticks) = s.spans(call.upper.wrapping_sub(now), call.ticks);
    (call.upper, call.ticks) = (now.wrapping_add(gap), ticks);
    let form = call.what.form();
    if ticks > if form == form::FOLDED { 0xfffe } else { 0 } {
        s.fail();
    }
    ring.count_call(form);
    ring.reach(at.base.wrapping_add(u64::from(call.upper)).wrapping_add(u64::from(ticks) << 4));
}
