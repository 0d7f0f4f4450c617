//! Records as the probes write them, taken apart and put together again.
//!
//! A record counts as one only where putting it together gives its words again; whatever else
//! stands in a page is stored word by word.

use flightrec_format::abi::args;
use flightrec_format::abi::page::UNIT;
use flightrec_format::abi::record::{STRING_MAX, fold, header, kind, migrate, switch, wake};

/// Bytes of a record's first word.
const HEAD: usize = 8;
/// Words of a call's arguments that the model takes; a call with more is a record like any other.
/// More there are only where an argument does not fit in 6 bytes.
pub(super) const WORDS: usize = 5;
/// Bytes of these.
const ARGUMENTS: usize = 8 * WORDS;
/// Where arguments begin in an ENTER.
const AFTER_SLOT: usize = HEAD + fold::SLOT;
/// Where they begin in an EXIT.
const AFTER_WORD: usize = HEAD + 8;
/// Bytes of the longest call.
pub(super) const LONGEST: usize = AFTER_WORD + ARGUMENTS;

/// By how many times 4 bytes a call's arguments take: all bits of the words that are theirs. What
/// comes next can't be foretold, so no branch asks.
const OWN: [[u64; WORDS]; 2 * WORDS + 1] = {
    let mut own = [[0; WORDS]; 2 * WORDS + 1];
    let mut length = 0;
    while length < own.len() {
        let mut i = 0;
        while i < length {
            own[length][i / 2] |= 0xffff_ffff << (i % 2 * 32);
            i += 1;
        }
        length += 1;
    }
    own
};

/// In what [`Call::differs`] says, above the words' bits: the result.
pub(super) const RESULT: u8 = 1 << WORDS;

/// Most strings after a call that count as its own.
const STRINGS: u8 = 15;

/// What of a call a record tells.
pub(super) mod form {
    /// Entry and exit.
    pub(crate) const FOLDED: u8 = 0;
    /// Entry.
    pub(crate) const ENTERED: u8 = 1;
    /// Exit.
    pub(crate) const EXITED: u8 = 2;
}

/// Which call it is, as far as it is said before any of its values: the first four bytes of its
/// record (kind, length, `aux`), the number of strings after it, its [`form`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct What(u64);

impl What {
    /// No call.
    pub(super) const NONE: Self = Self(0);

    #[inline]
    pub(super) fn new(form: u8, aux: u16, length: u8, strings: u8) -> Self {
        let kind = if form == form::EXITED { kind::EXIT } else { kind::ENTER };
        Self::of(header(kind, length, aux, 0), form, strings)
    }

    /// By the record's first word.
    #[inline]
    fn of(head: u64, form: u8, strings: u8) -> Self {
        Self(head & 0xffff_ffff | u64::from(strings) << 32 | u64::from(form) << 40)
    }

    /// Whether there may be such a one.
    pub(super) fn is_call(self) -> bool {
        self.arguments() < OWN.len() && self.strings() <= STRINGS && self.form() <= form::EXITED
    }

    /// How many times 4 bytes its arguments take; too many for a call that the model takes where
    /// the record is too short for one.
    #[inline]
    pub(super) fn arguments(self) -> usize {
        arguments(UNIT * usize::from(self.length()), self.form() == form::EXITED)
    }

    /// Of the record, in units.
    #[inline]
    pub(super) fn length(self) -> u8 {
        (self.0 >> 8) as u8
    }

    #[inline]
    pub(super) fn aux(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline]
    pub(super) fn strings(self) -> u8 {
        (self.0 >> 32) as u8
    }

    #[inline]
    pub(super) fn form(self) -> u8 {
        (self.0 >> 40) as u8
    }
}

/// ENTER or EXIT, in a cache line: what is known of one that was before is kept in the same form.
///
/// A processor waits where it reads at once, and wider, what it has just written: the order of the
/// fields keeps `ticks` from being read together with what is after it.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) what: What,
    /// Of an entry alone: whatever it was before.
    pub(super) result: u64,
    /// Arguments, as they are packed; 0 after them.
    pub(super) words: [u64; WORDS],
    /// Time field.
    pub(super) upper: u32,
    /// Whether readers take it for a call: its table is one that there is, and its arguments are
    /// there.
    pub(super) fine: bool,
    /// Duration of a folded call, in units of 16 ns, below 0xffff.
    pub(super) ticks: u16,
}

const _: () = assert!(size_of::<Call>() == 64);

/// Where the arguments of a call begin in its record.
#[inline]
fn after(exit: bool) -> usize {
    if exit { AFTER_WORD } else { AFTER_SLOT }
}

/// As [`What::arguments`], of a record of `length` bytes.
#[inline]
fn arguments(length: usize, exit: bool) -> usize {
    length.wrapping_sub(after(exit)) / 4
}

/// A length in bytes, in the units that records are counted in.
#[inline]
pub(super) fn units(bytes: usize) -> u8 {
    bytes.div_ceil(UNIT) as u8
}

/// The record at the front of a page's bytes, by its length.
#[inline]
pub(super) fn record(bytes: &[u8]) -> Option<&[u8]> {
    match UNIT * usize::from((word(bytes, 0) >> 8) as u8) {
        0..HEAD => None,
        length => bytes.get(..length),
    }
}

/// How many records at the front of a page's bytes are STRINGs as they should be, of those at most
/// [`STRINGS`].
#[inline]
fn strings(mut bytes: &[u8]) -> u8 {
    let mut count = 0;
    while count < STRINGS && bytes.first() == Some(&kind::STRING) {
        let Some(record) = record(bytes).filter(|record| Text::is(record)) else {
            break;
        };
        bytes = bytes.get(record.len()..).unwrap_or_default();
        count += 1;
    }
    count
}

/// The word at a byte of a page; 0 where not all of it is there.
#[inline]
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |word| u64::from_le_bytes(*word))
}

impl Call {
    pub(super) const NONE: Self =
        Self { what: What::NONE, result: 0, words: [0; WORDS], upper: 0, ticks: 0, fine: false };

    /// Takes over another one; without its contents, what alone is then known of it.
    #[inline(always)]
    pub(super) fn set(&mut self, of: &Self, contents: bool) {
        if contents {
            *self = *of;
        } else {
            (self.what, self.result, self.fine) = (of.what, of.result, of.fine);
        }
    }

    /// Takes over the record at the front of a page's bytes, but for its strings, where it is one;
    /// returns its length.
    #[inline(always)]
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<usize> {
        let head = word(bytes, 0);
        let exit = match head as u8 {
            kind::ENTER => false,
            kind::EXIT => true,
            _ => return None,
        };
        let length = UNIT * usize::from((head >> 8) as u8);
        let own = OWN.get(arguments(length, exit))?;
        let strings = strings(bytes.get(length..)?);
        // Words are read beyond the record's end: only near the page's end that needs a copy.
        let mut copy = [0; LONGEST];
        let all: &[u8; LONGEST] = if let Some(all) = bytes.first_chunk() {
            all
        } else {
            for (to, from) in copy.iter_mut().zip(bytes) {
                *to = *from;
            }
            &copy
        };
        let second = word(all, HEAD);
        // Which of the forms comes can't be foretold: values are chosen, and no way is.
        let folded = fold::unpack(second as u32);
        let (result, ns) = folded.unwrap_or_default();
        let form = if exit { form::EXITED } else { u8::from(folded.is_none()) };
        if form == form::ENTERED && second as u32 != 0 {
            return None;
        }
        self.result = if exit { second } else { result as u64 };
        self.ticks = if exit { 0 } else { (ns >> 4) as u16 };
        self.what = What::of(head, form, strings);
        self.upper = (head >> 32) as u32;
        let words = if after(exit) == AFTER_SLOT {
            &all[AFTER_SLOT..][..ARGUMENTS]
        } else {
            &all[AFTER_WORD..]
        };
        self.words = std::array::from_fn(|i| word(words, 8 * i) & own[i]);
        Some(length)
    }

    /// In what it differs from another one: a bit for each word, and [`RESULT`].
    #[inline]
    pub(super) fn differs(&self, from: &Self) -> u8 {
        let mut differs = 0;
        for (i, (word, other)) in self.words.iter().zip(&from.words).enumerate() {
            differs |= u8::from(word != other) << i;
        }
        differs | u8::from(self.result != from.result && self.what.form() != form::ENTERED) << WORDS
    }

    /// Finds out whether readers take it for a call, and clears what its length leaves out.
    pub(super) fn tidy(&mut self) {
        let arguments = self.what.arguments();
        for (word, own) in self.words.iter_mut().zip(&OWN[arguments % OWN.len()]) {
            *word &= own;
        }
        self.fine = self.what.aux() >> 12 & 3 != 3
            && (arguments == 0
                || args::length(self.words[0] as u16).is_some_and(|bytes| bytes <= 4 * arguments));
    }

    /// What a thread's history keeps of it.
    #[inline]
    pub(super) fn step(&self) -> u64 {
        let form = self.what.form();
        let failed = (self.result as i64) < 0 && form != form::ENTERED;
        u64::from(self.what.aux() & 0xfff)
            | u64::from(form) << 12
            | u64::from(failed) << 14
            | 1 << 15
    }

    /// Puts its record, and zeros after it; returns the number of its bytes. Straight to where it
    /// stays: words that were just written one by one can't be read in wider pieces at once.
    /// Without `CONTENTS`, its arguments stay as they are in the page, zeros.
    #[inline]
    pub(super) fn put<const CONTENTS: bool>(&self, out: &mut [u8; LONGEST]) -> usize {
        let form = self.what.form();
        let (result, ns) = (self.result as i64, u64::from(self.ticks) << 4);
        let second = match form {
            form::FOLDED => u64::from(fold::pack(result, ns)),
            form::ENTERED => 0,
            _ => self.result,
        };
        let head = self.what.0 & 0xffff_ffff | u64::from(self.upper) << 32;
        let (words, _) = out.as_chunks_mut::<8>();
        for (to, word) in words.iter_mut().zip([head, second]) {
            *to = word.to_le_bytes();
        }
        if !CONTENTS {
            return UNIT * usize::from(self.what.length());
        }
        let words = match after(form == form::EXITED) {
            AFTER_SLOT => &mut out[AFTER_SLOT..],
            _ => &mut out[AFTER_WORD..],
        };
        let (words, after) = words.split_at_mut(ARGUMENTS);
        for (to, word) in words.as_chunks_mut::<8>().0.iter_mut().zip(&self.words) {
            *to = word.to_le_bytes();
        }
        after.fill(0);
        UNIT * usize::from(self.what.length())
    }
}

/// SWITCH, WAKING, WAKEUP_NEW or MIGRATE: two words, taken as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sched {
    pub(super) kind: u8,
    pub(super) aux: u16,
    pub(super) upper: u32,
    /// Word 1.
    pub(super) word: u64,
}

impl Sched {
    /// The record.
    #[inline]
    pub(super) fn take(record: &[u8]) -> Option<Self> {
        let ([head, word], []) = record.as_chunks::<8>() else { return None };
        let (head, word) = (u64::from_le_bytes(*head), u64::from_le_bytes(*word));
        let kind = head as u8;
        let used = match kind {
            kind::SWITCH => switch::BITS,
            kind::WAKING | kind::WAKEUP_NEW => wake::BITS,
            kind::MIGRATE => migrate::BITS,
            _ => return None,
        };
        // Of a thread that is woken or moves, the upper half of `aux` says nothing.
        let plain = word >> used == 0 && (kind == kind::SWITCH || (head >> 24) as u8 == 0);
        plain.then_some(Self { kind, aux: (head >> 16) as u16, upper: (head >> 32) as u32, word })
    }

    /// Its record.
    pub(super) fn put(&self) -> [[u8; 8]; 2] {
        [header(self.kind, units(16), self.aux, self.upper).to_le_bytes(), self.word.to_le_bytes()]
    }
}

/// STRING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text {
    /// Which string, and its status: the low byte of the record's `aux`.
    pub(super) aux: u8,
    pub(super) length: usize,
    /// Zero after `length` up to the next multiple of 8.
    pub(super) bytes: [u8; STRING_MAX],
}

impl Text {
    pub(super) const EMPTY: Self = Self { aux: 0, length: 0, bytes: [0; STRING_MAX] };

    /// Whether it is a record as [`Self::put`] makes it.
    pub(super) fn is(record: &[u8]) -> bool {
        let Some((head, content)) = record.split_first_chunk() else { return false };
        let head = u64::from_le_bytes(*head);
        let length = (head >> 32) as usize;
        let padding = content.get(length..);
        head as u8 == kind::STRING
            && (head >> 24) as u8 == 0
            && length <= STRING_MAX
            && padding.is_some_and(|padding| {
                padding.len() < UNIT && padding.iter().all(|byte| *byte == 0)
            })
    }

    /// Takes over a record that [`Self::is`] one.
    pub(super) fn take(&mut self, record: &[u8]) {
        if let Some((aux, content)) = Self::of(record) {
            self.aux = aux;
            self.set(content, content.len());
        }
    }

    /// Takes over the first `length` bytes of a content.
    pub(super) fn set(&mut self, content: &[u8], length: usize) {
        self.length = length.min(STRING_MAX);
        if let Some((to, from)) = self.bytes.get_mut(..self.length).zip(content.get(..self.length))
        {
            to.copy_from_slice(from);
        }
        self.pad();
    }

    /// Zeros after the content, as far as its record goes.
    pub(super) fn pad(&mut self) {
        let end = self.length.next_multiple_of(8);
        if let Some(padding) = self.bytes.get_mut(self.length..end) {
            padding.fill(0);
        }
    }

    /// Which string the record is that [`Self::is`] one, and its content.
    #[inline]
    pub(super) fn of(record: &[u8]) -> Option<(u8, &[u8])> {
        let (head, content) = record.split_first_chunk()?;
        let head = u64::from_le_bytes(*head);
        Some(((head >> 16) as u8, content.get(..(head >> 32) as usize)?))
    }

    /// Its content.
    pub(super) fn content(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&self.bytes)
    }

    /// Its record's first word, and what is after.
    pub(super) fn put(&self) -> ([u8; HEAD], &[u8]) {
        let length = self.length.next_multiple_of(UNIT);
        let head =
            header(kind::STRING, units(HEAD + length), u16::from(self.aux), self.length as u32);
        (head.to_le_bytes(), self.bytes.get(..length).unwrap_or(&self.bytes))
    }
}
