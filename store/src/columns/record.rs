//! Records as the probes write them, taken apart and put together again.
//!
//! A record counts as one only where putting it together gives its words again; whatever else stands in a page is
//! stored word by word.

use flightrec_format::abi::args;
use flightrec_format::abi::record::{STRING_MAX, fold, header, kind};

/// Index of the result in [`Call::values`]; the arguments stand before it.
pub(super) const RESULT: usize = 6;
/// Words of the longest call (header, word 1, and arguments), and one to store beyond.
pub(super) const CALL_WORDS: usize = 2 + args::MAX_BYTES.div_ceil(8) + 1;

/// Most strings behind a call that count as its own.
const STRINGS: u8 = 15;

/// Words that hold the longest arguments, and the word that is read where the last of them begins.
const PACKED: usize = (2 + 6 * 8usize).div_ceil(8) + 1;

/// Words of the longest arguments.
const ARGUMENTS: usize = PACKED - 1;

/// A call's record as it stands in a page, but for its time, its duration and its result: to know it again without taking it
/// apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Packed {
    /// Kind, length, and what the call is: the record's first four bytes. 0: there is none.
    head: u32,
    /// Arguments; 0 behind them.
    words: [u64; ARGUMENTS],
}

impl Packed {
    /// Of the record of `length` words at the front of a page's words.
    #[inline]
    fn take(words: &[[u8; 8]], length: usize) -> Self {
        // Near the end of a page it is not known again.
        let Some(words) = words.first_chunk::<{ 2 + ARGUMENTS }>() else { return Self::default() };
        let own = |i: usize| word(words, i + 2) & u64::from(i + 2 < length).wrapping_neg();
        Self { head: word(words, 0) as u32, words: std::array::from_fn(own) }
    }

    /// Its length, where the record at the front of a page's words is the same call with its result folded in; the result, and the duration in units of 16 ns.
    #[inline]
    pub(super) fn again(&self, words: &[[u8; 8]]) -> Option<(usize, u64, u32)> {
        // Near the end of a page it is taken apart.
        let words: &[[u8; 8]; 3 + ARGUMENTS] = words.first_chunk()?;
        let head = word(words, 0) as u32;
        if head != self.head || head as u8 != kind::ENTER {
            return None;
        }
        let length = usize::from((head >> 8) as u8);
        if length > 2 + ARGUMENTS {
            return None;
        }
        let (result, ns) = fold::unpack(word(words, 1))?;
        let mut differ = 0;
        for (i, own) in self.words.iter().enumerate() {
            let there = u64::from(i + 2 < length).wrapping_neg();
            differ |= (word(words, i + 2) ^ own) & there;
        }
        (differ == 0).then_some((length, result as u64, (ns >> 4) as u32))
    }
}

/// What of a call a record tells.
pub(super) mod form {
    /// Entry and exit.
    pub(crate) const FOLDED: u8 = 0;
    /// Entry.
    pub(crate) const ENTERED: u8 = 1;
    /// Exit.
    pub(crate) const EXITED: u8 = 2;
    /// Exit with arguments.
    pub(crate) const EXITED_WHOLE: u8 = 3;
}

/// ENTER or EXIT.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// See [`form`].
    pub(super) form: u8,
    pub(super) aux: u16,
    /// Number of arguments.
    pub(super) count: u8,
    /// Strings behind it.
    pub(super) strings: u8,
    /// Six arguments and the result; 0 where there is none.
    pub(super) values: [u64; 7],
    /// Time field.
    pub(super) upper: u32,
    /// Duration of a folded call, in units of 16 ns.
    pub(super) ticks: u32,
    /// What it was taken from.
    pub(super) packed: Packed,
}

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
    /// Takes over the record of `length` words at the front of a page's words, but for its strings, where it is as [`Self::put`]
    /// makes it.
    #[inline]
    pub(super) fn take(&mut self, words: &[[u8; 8]], length: usize) -> Option<()> {
        let call = self;
        let head = word(words, 0);
        let second = word(words, 1);
        if length < 2 {
            return None;
        }
        let packed = Packed::take(words, length);
        *call = Self { aux: (head >> 16) as u16, upper: (head >> 32) as u32, packed, ..Self::default() };
        match head as u8 {
            kind::ENTER => match fold::unpack(second) {
                Some((result, ns)) => {
                    call.values[RESULT] = result as u64;
                    call.ticks = (ns >> 4) as u32;
                }
                None if second == 0 => call.form = form::ENTERED,
                None => return None,
            },
            kind::EXIT => {
                call.values[RESULT] = second;
                call.form = if length == 2 { form::EXITED } else { form::EXITED_WHOLE };
            }
            _ => return None,
        }
        match length {
            2 => Some(()),
            _ => call.take_arguments(words.get(2..)?, length - 2),
        }
    }

    /// Unpacks arguments that are as [`args::encode`] makes them: one at least, each in its least width, zero padded
    /// to the next word. They are the first `length` of the words.
    #[inline]
    fn take_arguments(&mut self, words: &[[u8; 8]], length: usize) -> Option<()> {
        // Values are read as whole words, also beyond the record's end: only near the page's end that needs a copy.
        let mut copy = [[0; 8]; PACKED];
        let packed = if let Some(packed) = words.first_chunk::<PACKED>() {
            packed
        } else {
            for (to, from) in copy.iter_mut().zip(words) {
                *to = *from;
            }
            &copy
        };
        let bytes = packed.as_flattened();
        let read =
            |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b));
        let head = read(0) as u16;
        let count = usize::from(head >> 12 & 7);
        if count == 0 || count > RESULT {
            return None;
        }
        let raw = head & args::RAW != 0;
        let (mut classes, mut all, mut same, mut at) = (u32::from(head), 0, true, 2);
        for value in self.values.iter_mut().take(count) {
            let class = classes & 3;
            classes >>= 2;
            // Classes 0 to 3: 1, 2, 4, 6 bytes, as args::CLASS_BYTES.
            let width = if raw { 8 } else { (1 << class) - usize::from(class == 3) * 2 };
            *value = args::extend(read(at), width as u8);
            same &= class == if raw { 0 } else { args::class(*value) };
            all |= args::magnitude(*value);
            at += width;
        }
        self.count = count as u8;
        // Nothing in the head's other classes, nothing in the padding.
        same &= classes & ((1 << (12 - 2 * count)) - 1) == 0;
        same &= raw == (all >> 47 != 0);
        same &= at.div_ceil(8) == length;
        let padding = at.next_multiple_of(8) - at;
        (same && (padding == 0 || read(at) << (64 - 8 * padding) == 0)).then_some(())
    }

    /// Its record, and the number of its words.
    #[inline]
    pub(super) fn put(&self) -> ([[u8; 8]; CALL_WORDS], usize) {
        let mut out = [[0; 8]; CALL_WORDS];
        let words = if self.count == 0 { 2 } else { 2 + self.put_arguments(out.as_flattened_mut()).div_ceil(8) };
        let kind = if self.form < form::EXITED { kind::ENTER } else { kind::EXIT };
        let result = self.values[RESULT];
        let second = match self.form {
            form::FOLDED => result & 0xffff_ffff_ffff | (u64::from(self.ticks) + 1) << 48,
            form::ENTERED => 0,
            _ => result,
        };
        out[0] = header(kind, words as u8, self.aux, self.upper).to_le_bytes();
        out[1] = second.to_le_bytes();
        (out, words)
    }

    /// Packs arguments behind two words, as [`args::encode`]; returns their bytes.
    #[inline]
    fn put_arguments(&self, out: &mut [u8]) -> usize {
        let values = self.values.get(..usize::from(self.count)).unwrap_or_default();
        let raw = values.iter().fold(0, |all, value| all | args::magnitude(*value)) >> 47 != 0;
        let mut head = u16::from(self.count) << 12 | if raw { args::RAW } else { 0 };
        let mut at = 18;
        for (i, value) in values.iter().enumerate() {
            let class = if raw { 0 } else { args::class(*value) };
            let width = if raw { 8 } else { (1 << class) - usize::from(class == 3) * 2 };
            head |= (class as u16) << (2 * i);
            // Whole words are stored, and then written over: there is room behind the last.
            if let Some(to) = out.get_mut(at..at + 8) {
                to.copy_from_slice(&value.to_le_bytes());
            }
            at += width;
        }
        if let Some(padding) = out.get_mut(at..at + 8) {
            padding.fill(0);
        }
        if let Some(to) = out.get_mut(16..18) {
            to.copy_from_slice(&head.to_le_bytes());
        }
        at - 16
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
