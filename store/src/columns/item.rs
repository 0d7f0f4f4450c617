//! Items: what a page consists of behind its header. A record with the THREAD and TIME before it.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{StringStatus, header, kind};

use super::call::Calls;
use super::column::Column;
use super::header::Ring;
use super::plain::{Plain, is_event};
use super::record::{CALL_WORDS, Call, Sched, Text, form, record, strings, word};
use super::sched::Scheduling;
use super::stream::{Stream, Writing};
use super::text::Texts;
use super::threads::Threads;

/// Bits of [`Column::Op`]: a THREAD, a TIME stands before the record; then what the record is.
const THREAD: u8 = 1;
const TIME: u8 = 1 << 1;
const CLASS: u8 = 3 << 2;
/// A call in the syscall lane, a scheduling event in the sched lane.
const EVENT: u8 = 0;
/// Any other record.
const PLAIN: u8 = 1 << 2;
/// A STRING.
const TEXT: u8 = 2 << 2;
/// The rest of the page, which is no records.
const TAIL: u8 = 3 << 2;

/// Words of the longest record.
const LONGEST: usize = 255;

/// A page's words.
type Words = [[u8; 8]];

/// An item; which parts of it count, `op` says.
pub(super) struct Item {
    op: u8,
    thread: u32,
    time: u64,
    call: Call,
    sched: Sched,
    text: Text,
    plain: [[u8; 8]; LONGEST],
}

impl Item {
    pub(super) fn new() -> Self {
        let (call, sched) = (Call::default(), Sched::default());
        Self { op: 0, thread: 0, time: 0, call, sched, text: Text::EMPTY, plain: [[0; 8]; LONGEST] }
    }

    /// Takes the item at the front of a page's words, but for a call's strings; returns the number of words that it
    /// takes. What is no record is the rest of the page.
    pub(super) fn take(&mut self, lane: u8, words: &Words) -> usize {
        let behind = self.take_lead(words);
        let lead = words.len() - behind.len();
        if let Some(record) = record(behind)
            && self.take_record(lane, record, behind, lead > 0)
        {
            return lead + record.len();
        }
        // THREAD or TIME not as the probes write them: each is a record like any other.
        let Some(record) = record(words) else {
            self.op = TAIL;
            return words.len();
        };
        self.op = PLAIN;
        self.take_plain(record);
        record.len()
    }

    /// Takes a THREAD and a TIME, in this order, off the front.
    #[inline]
    fn take_lead<'a>(&mut self, mut words: &'a Words) -> &'a Words {
        self.op = 0;
        let head = word(words, 0);
        if head as u32 == header(kind::THREAD, 1, 0, 0) as u32 {
            self.op |= THREAD;
            self.thread = (head >> 32) as u32;
            words = words.get(1..).unwrap_or_default();
        }
        if word(words, 0) == header(kind::TIME, 2, 0, 0) && words.len() > 1 {
            self.op |= TIME;
            self.time = word(words, 1);
            words = words.get(2..).unwrap_or_default();
        }
        words
    }

    /// Takes the record at the front of `words`; `false` where it is another THREAD or TIME behind a first one.
    #[inline]
    fn take_record(&mut self, lane: u8, record: &Words, words: &Words, lead: bool) -> bool {
        const SYSCALL: u8 = Lane::Syscall as u8;
        const SCHED: u8 = Lane::Sched as u8;
        match lane {
            SYSCALL if self.call.take(words, record.len()).is_some() => {
                self.call.strings = strings(words.get(record.len()..).unwrap_or_default());
                return true;
            }
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

    fn take_plain(&mut self, record: &Words) {
        for (to, from) in self.plain.iter_mut().zip(record) {
            *to = *from;
        }
    }

    /// Takes a string of the call; returns the number of its words.
    pub(super) fn take_string(&mut self, words: &Words) -> usize {
        record(words).map_or(0, |record| {
            self.text.take(record);
            record.len()
        })
    }

    /// Strings that follow the item and belong to it.
    #[inline]
    pub(super) fn strings(&self, lane: u8) -> u8 {
        if self.op & CLASS == EVENT && lane == Lane::Syscall as u8 { self.call.strings } else { 0 }
    }

    /// Whether the item counts with every reader as it does here: a call or a scheduling event that is not damaged, of a known
    /// thread. `first`: of its page.
    #[inline]
    pub(super) fn is_counted(&self, lane: u8, first: bool) -> bool {
        // Without a THREAD in front a page's first events are of nobody.
        if first && self.op & THREAD == 0 {
            return false;
        }
        match self.op & CLASS {
            // From such a time base on, times may wrap.
            EVENT if self.op & TIME != 0 && self.time >= u64::MAX / 2 => false,
            EVENT => lane != Lane::Syscall as u8 || counts(self.call.aux, self.call.ticks),
            TEXT => self.op & (THREAD | TIME) == 0 && self.is_fine_string(),
            _ => false,
        }
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

    /// Its words, but for a call's strings and for the rest of a page.
    pub(super) fn put(&self, lane: u8, out: &mut Out<'_>) {
        if self.op & THREAD != 0 {
            out.word(header(kind::THREAD, 1, 0, self.thread));
        }
        if self.op & TIME != 0 {
            out.word(header(kind::TIME, 2, 0, 0));
            out.word(self.time);
        }
        match self.op & CLASS {
            EVENT if lane == Lane::Syscall as u8 => {
                let (words, length) = self.call.put();
                out.call(&words, length);
            }
            EVENT => out.words(&self.sched.put()),
            PLAIN => {
                let length = usize::from(self.plain[0][1]);
                out.words(self.plain.get(..length).unwrap_or(&self.plain));
            }
            TEXT => self.put_string(out),
            _ => {}
        }
    }

    /// The words of the string that was coded last.
    pub(super) fn put_string(&self, out: &mut Out<'_>) {
        let (head, content) = self.text.put();
        out.words(&[head]);
        out.words(content);
    }
}

/// Whether a call has a table of numbers that there is, and a duration that fits.
#[inline]
fn counts(aux: u16, ticks: u32) -> bool {
    aux >> 12 & 3 != 3 && ticks < 0xffff
}

/// Whether a string's status is one that there is.
#[inline]
fn is_fine(aux: u8) -> bool {
    aux >> 4 <= StringStatus::Unreadable as u8
}

/// Words of a page that is put together.
pub(super) struct Out<'a> {
    /// Those that are left to fill.
    pub(super) left: &'a mut Words,
    /// There were more words than the page has.
    pub(super) over: bool,
}

impl Out<'_> {
    /// The first `length` of the words. Where there is room for all, all are stored: what follows is written over them.
    #[inline]
    fn call(&mut self, words: &[[u8; 8]; CALL_WORDS], length: usize) {
        match self.left.first_chunk_mut() {
            Some(to) => {
                *to = *words;
                self.left = std::mem::take(&mut self.left).get_mut(length..).unwrap_or_default();
            }
            None => self.words(words.get(..length).unwrap_or(words)),
        }
    }

    fn word(&mut self, word: u64) {
        self.words(&[word.to_le_bytes()]);
    }

    #[inline]
    fn words(&mut self, words: &Words) {
        let left = std::mem::take(&mut self.left);
        match left.split_at_mut_checked(words.len()) {
            Some((to, rest)) => {
                to.copy_from_slice(words);
                self.left = rest;
            }
            None => self.over = true,
        }
    }
}

/// Where the walk is in a page.
pub(super) struct At {
    pub(super) lane: u8,
    pub(super) cpu: u16,
    /// Time base of the records.
    pub(super) base: u64,
}

/// What is known of the records so far in a block.
pub(super) struct Models {
    threads: Threads,
    calls: Calls,
    scheduling: Scheduling,
    texts: Texts,
    plain: Plain,
}

impl Models {
    pub(super) fn new() -> Self {
        Self {
            threads: Threads::new(),
            calls: Calls::new(),
            scheduling: Scheduling::new(),
            texts: Texts::new(),
            plain: Plain::new(),
        }
    }

    /// Forgets everything, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.threads.clear();
        self.calls.clear();
        self.scheduling = Scheduling::new();
        self.texts.clear();
        self.plain.clear();
    }

    /// Writes the call at the front of a page's words, where it is one that was to be expected, wholly as it was before; returns the
    /// number of words that it takes without its strings, the number of these, and whether it counts with every reader as it does here.
    #[inline]
    pub(super) fn again(
        &mut self,
        s: &mut Writing,
        at: &At,
        ring: &mut Ring,
        words: &Words,
    ) -> Option<(usize, u8, bool)> {
        let now = ring.now.wrapping_sub(at.base) as u32;
        let thread = self.threads.of(ring.current.tid);
        let (length, strings, aux, upper, ticks) = self.calls.again(s, thread, words, now)?;
        ring.count(kind::EXIT);
        ring.count(kind::ENTER);
        ring.reach(at.base.wrapping_add(u64::from(upper)).wrapping_add(u64::from(ticks) << 4));
        Some((length, strings, counts(aux, ticks)))
    }

    /// Codes an item.
    #[inline]
    pub(super) fn code<S: Stream>(&mut self, s: &mut S, at: &mut At, ring: &mut Ring, item: &mut Item) {
        item.op = s.byte(Column::Op, item.op);
        if item.op & (THREAD | TIME) != 0 {
            self.lead(s, at, ring, item);
        }
        // The time field that an event at once would have.
        let now = ring.now.wrapping_sub(at.base) as u32;
        let (kind, upper, ticks) = match (item.op & !(THREAD | TIME), Lane::from_u8(at.lane)) {
            (EVENT, Some(Lane::Syscall)) => {
                let thread = self.threads.of(ring.current.tid);
                self.calls.code(s, thread, &mut item.call, now);
                let call = &item.call;
                if call.form == form::FOLDED {
                    ring.count(kind::EXIT);
                }
                (if call.form < form::EXITED { kind::ENTER } else { kind::EXIT }, call.upper, call.ticks)
            }
            (EVENT, Some(Lane::Sched)) => {
                self.scheduling.code(s, &mut item.sched, &mut ring.current, &mut self.threads, (now, at.cpu));
                (item.sched.kind, item.sched.upper, 0)
            }
            (PLAIN, _) => {
                self.plain.code(s, &mut item.plain, at.lane, now);
                let head = word(&item.plain, 0);
                if !is_event(head as u8, at.lane) {
                    return;
                }
                (head as u8, (head >> 32) as u32, 0)
            }
            (TEXT, _) => return self.string(s, ring, item),
            (TAIL, _) => return,
            _ => return s.fail(),
        };
        ring.count(kind);
        ring.reach(at.base.wrapping_add(u64::from(upper)).wrapping_add(u64::from(ticks) << 4));
    }

    /// Codes what stands before a record.
    fn lead<S: Stream>(&mut self, s: &mut S, at: &mut At, ring: &mut Ring, item: &mut Item) {
        if item.op & THREAD != 0 {
            let present = ring.current.tid;
            let expected = self.threads.of(present).next;
            item.thread = self.threads.code(s, item.thread, expected, present);
            self.threads.of(present).next = item.thread;
            ring.current.tid = item.thread;
        }
        if item.op & TIME != 0 {
            item.time = s.near(Column::Time, item.time, ring.now);
            at.base = item.time;
            ring.now = ring.now.max(item.time);
        }
    }

    /// Writes the string at the front of a page's words, where it is one of those that were to be expected; returns the number of
    /// words that it takes, and whether it counts with every reader as it does here.
    #[inline]
    pub(super) fn string_again(&mut self, s: &mut Writing, ring: &Ring, words: &Words) -> Option<(usize, bool)> {
        let record = record(words)?;
        let (aux, content) = Text::of(record)?;
        let before = &mut self.threads.of(ring.current.tid).strings;
        self.texts.again(s, aux, content, before).then_some((record.len(), is_fine(aux)))
    }

    /// Codes a string of the present thread, the item's or one behind it.
    pub(super) fn string<S: Stream>(&mut self, s: &mut S, ring: &Ring, item: &mut Item) {
        self.texts.code(s, &mut item.text, &mut self.threads.of(ring.current.tid).strings);
    }
}
