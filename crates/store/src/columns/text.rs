//! Strings: mostly ones that were there before, and in the same order.

use std::ops::Range;

use flightrec_format::abi::record::STRING_MAX;

use super::column::Column;
use super::record::Text;
use super::seen::Seen;
use super::stream::{Stream, Writing};
use crate::components::hash_64;

/// Slots of the tables by content, and by the two strings before.
const SLOTS: usize = 4096;
/// Strings that are remembered; those that come when there are as many are not.
const KNOWN: usize = 0xffff;

/// Symbols of [`Column::String`]: 0 to 3, one of the candidates; an older one; a new one.
const OLDER: u8 = 4;
const NEW: u8 = 5;

/// The strings of a block. They have numbers from 1 in the order in which they came; 0 is none.
/// Where contents are left alone ([`Stream::CONTENTS`]), of each its length alone is known.
pub(super) struct Texts {
    bytes: Vec<u8>,
    /// Where each ends in `bytes`, if these are kept, and the string that followed it last.
    known: Vec<(u32, u16)>,
    /// For the encoder: numbers by content.
    index: Box<[u16; SLOTS]>,
    after_two: Box<[u16; SLOTS]>,
    /// The last string of all.
    last: u16,
}

impl Texts {
    pub(super) fn new() -> Self {
        let (index, after_two) = (Box::new([0; SLOTS]), Box::new([0; SLOTS]));
        Self { bytes: Vec::new(), known: vec![(0, 0)], index, after_two, last: 0 }
    }

    /// Forgets all, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.known.truncate(1);
        self.known[0] = (0, 0);
        self.index.fill(0);
        self.after_two.fill(0);
        self.last = 0;
    }

    fn range(&self, number: u16) -> Range<usize> {
        let number = usize::from(number);
        let end = self.known.get(number).map_or(0, |(end, _)| *end as usize);
        let start = self.known.get(number.wrapping_sub(1)).map_or(0, |(end, _)| *end as usize);
        start..end
    }

    fn content(&self, number: u16) -> &[u8] {
        self.bytes.get(self.range(number)).unwrap_or_default()
    }

    /// The slot of a content.
    fn slot(content: &[u8]) -> usize {
        (hash_64(content) >> 52) as usize % SLOTS
    }

    /// The slot of a thread's last two strings, and what may come then: what followed the two, what
    /// followed the last one, the last one, the one before.
    #[inline]
    fn candidates(&self, [last, older]: [u16; 2]) -> (usize, [u16; 4]) {
        let two =
            (usize::from(last).wrapping_mul(31) ^ usize::from(older).wrapping_mul(7919)) % SLOTS;
        let next = self.known.get(usize::from(last)).map_or(0, |(_, next)| *next);
        (two, [self.after_two[two], next, last, older])
    }

    /// Writes a string, where it is one of those that were to be expected, as [`Self::code`] does:
    /// most are, and nothing has to be looked up for it.
    #[inline]
    pub(super) fn again(
        &mut self,
        s: &mut Writing,
        aux: u8,
        content: &[u8],
        before: &mut [u16; 2],
    ) -> bool {
        let (two, candidates) = self.candidates(*before);
        let place =
            candidates.iter().position(|number| *number != 0 && self.content(*number) == content);
        let Some(place) = place else { return false };
        s.byte(Column::StringAux, aux);
        s.byte(Column::String, place as u8);
        self.remember(two, candidates[place], before);
        true
    }

    /// `number` came after the two that were there before, in the slot of these.
    #[inline]
    fn remember(&mut self, two: usize, number: u16, before: &mut [u16; 2]) {
        let [last, _] = *before;
        if let Some((_, next)) = self.known.get_mut(usize::from(last)) {
            *next = number;
        }
        self.after_two[two] = number;
        self.last = number;
        *before = [number, last];
    }

    /// Codes a string. `before` are the last two of the same thread, the last one first.
    pub(super) fn code<S: Stream>(
        &mut self,
        s: &mut S,
        text: &mut Text,
        before: &mut [u16; 2],
        seen: &mut Seen,
    ) {
        text.aux = s.byte(Column::StringAux, text.aux);
        let (two, candidates) = self.candidates(*before);
        let (mut symbol, mut number, mut slot) = (NEW, 0, 0);
        if S::WRITES {
            slot = Self::slot(text.content());
            number = self.index[slot];
            if number != 0 && self.content(number) == text.content() {
                let place = candidates.iter().position(|candidate| *candidate == number);
                symbol = place.map_or(OLDER, |place| place as u8);
            }
        }
        let symbol = s.byte(Column::String, symbol);
        let number = if symbol == NEW {
            let shared = self.fresh(s, text);
            if S::WRITES {
                seen.names(text.content(), shared);
            }
            self.learn::<S>(text, slot)
        } else {
            let number = match candidates.get(usize::from(symbol)) {
                Some(candidate) => *candidate,
                None => self.older(s, number),
            };
            if !S::WRITES {
                self.copy(s, number, text);
            }
            number
        };
        self.remember(two, number, before);
    }

    /// Codes the number of a string that came before, by how long ago it was new.
    fn older<S: Stream>(&self, s: &mut S, number: u16) -> u16 {
        let count = self.known.len() as u16;
        let [low, high] = count.wrapping_sub(number).to_le_bytes();
        let low = s.byte(Column::StringLow, low);
        count.wrapping_sub(u16::from_le_bytes([low, s.byte(Column::StringHigh, high)]))
    }

    /// Takes the content of a string that came before.
    fn copy<S: Stream>(&self, s: &mut S, number: u16, text: &mut Text) {
        if number == 0 || usize::from(number) >= self.known.len() {
            return s.fail();
        }
        if S::CONTENTS {
            let content = self.content(number);
            text.set(content, content.len());
        } else {
            text.length = self.range(number).len();
        }
    }

    /// Codes a content: how much of the string before it begins with, which it returns, and the
    /// rest.
    fn fresh<S: Stream>(&self, s: &mut S, text: &mut Text) -> usize {
        let before = self.content(self.last);
        let shared =
            before.iter().zip(text.content()).take_while(|(a, b)| a == b).count().min(0xff);
        let rest = text.length.saturating_sub(shared);
        let shared = usize::from(s.byte(Column::StringShared, shared as u8));
        let rest = s.varint(Column::StringLength, rest as u64);
        let length = usize::try_from(rest).ok().and_then(|rest| rest.checked_add(shared));
        let length = length.filter(|length| *length <= STRING_MAX);
        if !S::CONTENTS {
            let Some(length) = length.filter(|_| shared <= self.range(self.last).len()) else {
                s.fail();
                return 0;
            };
            text.length = length;
            return shared;
        }
        let (Some(length), Some(start)) = (length, before.get(..shared)) else {
            s.fail();
            return 0;
        };
        if !S::WRITES {
            text.set(start, shared);
            text.length = length;
        }
        if let Some(rest) = text.bytes.get_mut(shared..length) {
            s.bytes(Column::Text, rest);
        }
        text.pad();
        shared
    }

    /// Gives a new string its number; 0 where there are as many as may be.
    fn learn<S: Stream>(&mut self, text: &Text, slot: usize) -> u16 {
        if self.known.len() > KNOWN {
            return 0;
        }
        let number = self.known.len() as u16;
        if S::CONTENTS {
            self.bytes.extend_from_slice(text.content());
        }
        let begin = self.known.last().map_or(0, |(end, _)| *end);
        self.known.push((begin + text.content().len() as u32, 0));
        self.index[slot] = number;
        number
    }
}
