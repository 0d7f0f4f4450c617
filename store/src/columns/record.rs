//! Records as the probes write them, taken apart and put together again.
//!
//! A record counts as one only where putting it together gives its words again: whatever else stands in a page is
//! stored word by word. So nothing here need be trusted for encoding to be reversible.

use flightrec_format::abi::args;
use flightrec_format::abi::record::{STRING_MAX, fold, header, kind};

/// Index of the result in [`Call::values`]; the arguments stand before it.
pub(super) const RESULT: usize = 6;
/// Words of the longest call: header, word 1, and arguments.
pub(super) const CALL_WORDS: usize = 2 + args::MAX_BYTES.div_ceil(8);

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
}

/// A word of a page; 0 behind its end.
#[inline]
pub(super) fn word(words: &[[u8; 8]], at: usize) -> u64 {
    words.get(at).map_or(0, |word| u64::from_le_bytes(*word))
}

/// Fewer than eight bytes as a word.
#[cold]
fn tail(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

impl Call {
    /// The record of `words`, but for its strings.
    #[inline]
    pub(super) fn take(words: &[[u8; 8]]) -> Option<Self> {
        let head = word(words, 0);
        let second = u64::from_le_bytes(*words.get(1)?);
        let mut call = Self { aux: (head >> 16) as u16, upper: (head >> 32) as u32, ..Self::default() };
        if words.len() > 2 {
            call.arguments(words.get(2..)?.as_flattened())?;
        }
        match head as u8 {
            kind::ENTER => match fold::unpack(second) {
                Some((result, ns)) => {
                    call.values[RESULT] = result as u64;
                    call.ticks = (ns >> 4) as u32;
                }
                None => call.form = form::ENTERED,
            },
            kind::EXIT => {
                call.values[RESULT] = second;
                call.form = if call.count == 0 { form::EXITED } else { form::EXITED_WHOLE };
            }
            _ => return None,
        }
        let mut again = [[0; 8]; CALL_WORDS];
        let length = call.put(&mut again);
        (again.get(..length)? == words).then_some(call)
    }

    /// Unpacks arguments, as [`args::decode`].
    #[inline]
    fn arguments(&mut self, bytes: &[u8]) -> Option<()> {
        let head = u16::from_le_bytes(*bytes.first_chunk()?);
        let count = usize::from(head >> 12 & 7);
        if count > 6 {
            return None;
        }
        let mut rest = bytes.get(2..)?;
        let mut classes = head;
        for value in self.values.iter_mut().take(count) {
            let width = if head & args::RAW == 0 { args::CLASS_BYTES[usize::from(classes & 3)] } else { 8 };
            classes >>= 2;
            let word = match rest.first_chunk() {
                Some(word) => u64::from_le_bytes(*word),
                None => tail(rest),
            };
            *value = args::extend(word, width);
            rest = rest.get(usize::from(width)..)?;
        }
        self.count = count as u8;
        Some(())
    }

    /// Its record; returns the number of words.
    #[inline]
    pub(super) fn put(&self, out: &mut [[u8; 8]; CALL_WORDS]) -> usize {
        let words = if self.count == 0 { 2 } else { 2 + self.put_arguments(out) };
        let kind = if self.form < form::EXITED { kind::ENTER } else { kind::EXIT };
        out[0] = header(kind, words as u8, self.aux, self.upper).to_le_bytes();
        let result = self.values[RESULT];
        let second = match self.form {
            form::FOLDED => result & 0xffff_ffff_ffff | (u64::from(self.ticks) + 1) << 48,
            form::ENTERED => 0,
            _ => result,
        };
        out[1] = second.to_le_bytes();
        words
    }

    /// Packs arguments, as [`args::encode`]; returns the number of words.
    #[inline]
    fn put_arguments(&self, out: &mut [[u8; 8]; CALL_WORDS]) -> usize {
        let values = self.values.get(..usize::from(self.count).min(RESULT)).unwrap_or_default();
        let raw = values.iter().fold(0, |all, value| all | args::magnitude(*value)) >> 47 != 0;
        let mut head = (self.count as u16) << 12 | if raw { args::RAW } else { 0 };
        // Whole words are stored and then written over: there is room behind the last.
        let mut bytes = [0; (CALL_WORDS - 2 + 1) * 8];
        let mut at = 2;
        for (i, value) in values.iter().enumerate() {
            let class = args::class(*value);
            let width = if raw { 8 } else { usize::from(args::CLASS_BYTES[class as usize]) };
            if !raw {
                head |= (class as u16) << (2 * i);
            }
            if let Some(to) = bytes.get_mut(at..at + 8) {
                to.copy_from_slice(&value.to_le_bytes());
            }
            at += width;
        }
        if let Some(padding) = bytes.get_mut(at..at + 8) {
            padding.fill(0);
        }
        bytes[0] = head as u8;
        bytes[1] = (head >> 8) as u8;
        let (words, _) = bytes.as_chunks::<8>();
        for (to, from) in out.iter_mut().skip(2).zip(words) {
            *to = *from;
        }
        at.div_ceil(8)
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
        let plain = word >> used == 0 && (kind == kind::SWITCH || head >> 24 & 0xff == 0);
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
    /// Zero behind `length`.
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
            && head >> 24 & 0xff == 0
            && length <= STRING_MAX
            && padding.is_some_and(|padding| padding.len() < 8 && padding.iter().all(|byte| *byte == 0))
    }

    /// Takes over a record that [`Self::is`] one.
    pub(super) fn take(&mut self, words: &[[u8; 8]]) {
        let head = word(words, 0);
        self.aux = (head >> 16) as u8;
        self.set(words.get(1..).unwrap_or_default().as_flattened(), (head >> 32) as usize);
    }

    /// Takes over a content; zeros follow it.
    pub(super) fn set(&mut self, content: &[u8], length: usize) {
        self.length = length.min(STRING_MAX);
        self.bytes = [0; STRING_MAX];
        if let Some(content) = content.get(..self.length) {
            for (to, from) in self.bytes.iter_mut().zip(content) {
                *to = *from;
            }
        }
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
