//! Records as the probes write them, taken apart and put together again.
//!
//! A record counts as one only where putting it together gives its words again; whatever else stands in a page is
//! stored word by word.

use flightrec_format::abi::args;
use flightrec_format::abi::record::{STRING_MAX, fold, header, kind};

/// Words of a call's arguments that the model takes; a call with more is a record like any other. More there are only where an
/// argument does not fit in 6 bytes.
pub(super) const WORDS: usize = 5;
/// Words of the longest call.
pub(super) const LONGEST: usize = 2 + WORDS;

/// By a call's length: all bits of the words of arguments that it has. What comes next can't be foretold, so no branch asks.
const OWN: [[u64; WORDS]; LONGEST + 1] = {
    let mut own = [[0; WORDS]; LONGEST + 1];
    let mut length = 2;
    while length <= LONGEST {
        let mut i = 0;
        while i + 2 < length {
            own[length][i] = u64::MAX;
            i += 1;
        }
        length += 1;
    }
    own
};

/// In what [`Call::differs`] says, above the words' bits: the result.
pub(super) const RESULT: u8 = 1 << WORDS;

/// Most strings behind a call that count as its own.
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

/// Which call it is, as far as it is said before any of its values: the first four bytes of its record (kind, length, `aux`), the
/// number of strings behind it, its [`form`].
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
        (2..=LONGEST).contains(&usize::from(self.length())) && self.strings() <= STRINGS && self.form() <= form::EXITED
    }

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
#[repr(align(64))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) what: What,
    /// Of an entry alone: whatever it was before.
    pub(super) result: u64,
    /// Arguments, as they are packed; 0 behind them.
    pub(super) words: [u64; WORDS],
    /// Time field.
    pub(super) upper: u32,
    /// Duration of a folded call, in units of 16 ns, below 0xffff.
    pub(super) ticks: u16,
    /// Whether readers take it for a call: its table is one that there is, and its arguments are there.
    pub(super) fine: bool,
}

const _: () = assert!(size_of::<Call>() == 64);

/// The record at the front of a page's words, by its length.
pub(super) fn record(words: &[[u8; 8]]) -> Option<&[[u8; 8]]> {
    match usize::from((word(words, 0) >> 8) as u8) {
        0 => None,
        length => words.get(..length),
    }
}

/// How many records at the front of a page's words are STRINGs as they should be, of those at most [`STRINGS`].
#[inline]
pub(super) fn strings(mut words: &[[u8; 8]]) -> u8 {
    let mut count = 0;
    while count < STRINGS && word(words, 0) as u8 == kind::STRING {
        let Some(record) = record(words).filter(|record| Text::is(record)) else { break };
        words = words.get(record.len()..).unwrap_or_default();
        count += 1;
    }
    count
}

/// A word of a page; 0 behind its end.
#[inline]
pub(super) fn word(words: &[[u8; 8]], at: usize) -> u64 {
    words.get(at).map_or(0, |word| u64::from_le_bytes(*word))
}

impl Call {
    pub(super) const NONE: Self =
        Self { what: What::NONE, result: 0, words: [0; WORDS], upper: 0, ticks: 0, fine: false };

    /// Takes over the record at the front of a page's words, but for its strings, where it is one; returns its length.
    #[inline]
    pub(super) fn take(&mut self, words: &[[u8; 8]]) -> Option<usize> {
        let head = word(words, 0);
        let length = usize::from((head >> 8) as u8);
        if !matches!(head as u8, kind::ENTER | kind::EXIT) || !(2..=LONGEST).contains(&length) {
            return None;
        }
        let behind = words.get(length..)?;
        // Words are read beyond the record's end: only near the page's end that needs a copy.
        let mut copy = [[0; 8]; LONGEST];
        let all: &[[u8; 8]; LONGEST] = if let Some(all) = words.first_chunk() {
            all
        } else {
            for (to, from) in copy.iter_mut().zip(words) {
                *to = *from;
            }
            &copy
        };
        let second = word(all, 1);
        let form = if head as u8 == kind::EXIT {
            (self.result, self.ticks) = (second, 0);
            form::EXITED
        } else if let Some((result, ns)) = fold::unpack(second) {
            (self.result, self.ticks) = (result as u64, (ns >> 4) as u16);
            form::FOLDED
        } else if second == 0 {
            self.ticks = 0;
            form::ENTERED
        } else {
            return None;
        };
        self.what = What::of(head, form, strings(behind));
        self.upper = (head >> 32) as u32;
        let own = &OWN[length % OWN.len()];
        self.words = std::array::from_fn(|i| word(all, i + 2) & own[i]);
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
        let length = usize::from(self.what.length());
        for (word, own) in self.words.iter_mut().zip(&OWN[length % OWN.len()]) {
            *word &= own;
        }
        self.fine = self.what.aux() >> 12 & 3 != 3
            && (length == 2 || args::length(self.words[0] as u16).is_some_and(|bytes| 2 + bytes.div_ceil(8) <= length));
    }

    /// What a thread's history keeps of it.
    #[inline]
    pub(super) fn step(&self) -> u64 {
        let form = self.what.form();
        let failed = (self.result as i64) < 0 && form != form::ENTERED;
        u64::from(self.what.aux() & 0xfff) | u64::from(form) << 12 | u64::from(failed) << 14 | 1 << 15
    }

    /// Its record, and the number of its words.
    #[inline]
    pub(super) fn put(&self) -> ([[u8; 8]; LONGEST], usize) {
        let second = match self.what.form() {
            form::FOLDED => self.result & 0xffff_ffff_ffff | (u64::from(self.ticks) + 1) << 48,
            form::ENTERED => 0,
            _ => self.result,
        };
        let head = self.what.0 & 0xffff_ffff | u64::from(self.upper) << 32;
        let mut out = [[0; 8]; LONGEST];
        for (to, word) in out.iter_mut().zip([head, second].iter().chain(&self.words)) {
            *to = word.to_le_bytes();
        }
        (out, usize::from(self.what.length()))
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
    /// The record of `words`.
    #[inline]
    pub(super) fn take(words: &[[u8; 8]]) -> Option<Self> {
        let [head, word] = words else { return None };
        let (head, word) = (u64::from_le_bytes(*head), u64::from_le_bytes(*word));
        let kind = head as u8;
        let used = match kind {
            kind::SWITCH => 61,
            kind::WAKING | kind::WAKEUP_NEW | kind::MIGRATE => 54,
            _ => return None,
        };
        // Of a thread that is woken or moves, the upper half of `aux` says nothing.
        let plain = word >> used == 0 && (kind == kind::SWITCH || (head >> 24) as u8 == 0);
        plain.then_some(Self { kind, aux: (head >> 16) as u16, upper: (head >> 32) as u32, word })
    }

    /// Its record.
    pub(super) fn put(&self) -> [[u8; 8]; 2] {
        [header(self.kind, 2, self.aux, self.upper).to_le_bytes(), self.word.to_le_bytes()]
    }
}

/// STRING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text {
    /// Which string, and its status: the low byte of the record's `aux`.
    pub(super) aux: u8,
    pub(super) length: usize,
    /// Zero behind `length` up to the next word.
    pub(super) bytes: [u8; STRING_MAX],
}

impl Text {
    pub(super) const EMPTY: Self = Self { aux: 0, length: 0, bytes: [0; STRING_MAX] };

    /// Whether `words` are a record as [`Self::put`] makes it.
    pub(super) fn is(words: &[[u8; 8]]) -> bool {
        let Some((head, content)) = words.split_first() else { return false };
        let head = u64::from_le_bytes(*head);
        let length = (head >> 32) as usize;
        let padding = content.as_flattened().get(length..);
        head as u8 == kind::STRING
            && (head >> 24) as u8 == 0
            && length <= STRING_MAX
            && padding.is_some_and(|padding| padding.len() < 8 && padding.iter().all(|byte| *byte == 0))
    }

    /// Takes over a record that [`Self::is`] one.
    pub(super) fn take(&mut self, words: &[[u8; 8]]) {
        if let Some((aux, content)) = Self::of(words) {
            self.aux = aux;
            self.set(content, content.len());
        }
    }

    /// Takes over the first `length` bytes of a content.
    pub(super) fn set(&mut self, content: &[u8], length: usize) {
        self.length = length.min(STRING_MAX);
        if let Some((to, from)) = self.bytes.get_mut(..self.length).zip(content.get(..self.length)) {
            to.copy_from_slice(from);
        }
        self.pad();
    }

    /// Zeros behind the content, as far as its record goes.
    pub(super) fn pad(&mut self) {
        let end = self.length.next_multiple_of(8);
        if let Some(padding) = self.bytes.get_mut(self.length..end) {
            padding.fill(0);
        }
    }

    /// Which string the record is that [`Self::is`] one, and its content.
    #[inline]
    pub(super) fn of(words: &[[u8; 8]]) -> Option<(u8, &[u8])> {
        let (head, content) = words.split_first()?;
        let head = u64::from_le_bytes(*head);
        Some(((head >> 16) as u8, content.as_flattened().get(..(head >> 32) as usize)?))
    }

    /// Its content.
    pub(super) fn content(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&self.bytes)
    }

    /// Its record's first word, and the words behind.
    pub(super) fn put(&self) -> ([u8; 8], &[[u8; 8]]) {
        let length = self.length.div_ceil(8);
        let (words, _) = self.bytes.as_chunks::<8>();
        let head = header(kind::STRING, 1 + length as u8, u16::from(self.aux), self.length as u32);
        (head.to_le_bytes(), words.get(..length).unwrap_or(words))
    }
}
