//! Values of a column, each kept once, as the pages of Parquet have them.
//!
//! Most values were there a moment ago. What is found by a key, or by its number, in the few that
//! were met last is not made, compared or hashed again.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

/// Values that are found without a hash table; a power of two.
const RECENT: usize = 64;
/// Of an odd number, so that keys that differ in any bits get places that differ.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Which value each row has, and the values.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// By row that has a value: which one.
    pub(super) rows: Vec<u32>,
    /// The values, each once, in Parquet's encoding `PLAIN`.
    pub(super) plain: Vec<u8>,
    /// Where each of them ends there.
    pub(super) ends: Vec<u32>,
}

impl Places {
    /// How many values there are.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Appends a value, which ends at the end of `plain`.
    fn end(&mut self) -> u32 {
        let place = self.ends.len() as u32;
        self.ends.push(self.plain.len() as u32);
        place
    }

    /// The bytes of a value.
    pub(super) fn value(&self, place: u32) -> &[u8] {
        let at = place as usize;
        let from = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let until = self.ends.get(at).copied().unwrap_or_default();
        self.plain.get(from.unwrap_or_default() as usize..until as usize).unwrap_or_default()
    }
}

/// Texts.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) places: Places,
    known: FxHashMap<Box<str>, u32>,
    recent: Box<[Option<(u128, u32)>; RECENT]>,
    /// The last row's, if it is short: mostly the next one's is the same.
    last: Option<(String, u32)>,
}

/// Longer texts seldom stand in two rows that follow one another.
const SHORT: usize = 32;

impl Default for Texts {
    fn default() -> Self {
        Self {
            places: Places::default(),
            known: FxHashMap::default(),
            recent: Box::new([None; RECENT]),
            last: None,
        }
    }
}

impl Texts {
    /// Appends a row; returns how many bytes it adds to what is kept.
    pub(super) fn push(&mut self, text: &str) -> usize {
        if let Some((last, place)) = &self.last
            && last == text
        {
            self.places.rows.push(*place);
            return 0;
        }
        let (place, bytes) = self.place(text);
        self.places.rows.push(place);
        if text.len() <= SHORT {
            let (last, at) = self.last.get_or_insert_default();
            last.clear();
            last.push_str(text);
            *at = place;
        }
        bytes
    }

    /// The same of a text that is always the same for `key`, and made only where that is new.
    #[inline]
    pub(super) fn push_keyed<'t>(
        &mut self,
        key: u128,
        text: impl FnOnce() -> Cow<'t, str>,
    ) -> usize {
        let hash = ((key >> 64) as u64 ^ (key as u64).rotate_left(29)).wrapping_mul(SPREAD);
        let slot = (hash >> (u64::BITS - RECENT.ilog2())) as usize % RECENT;
        if let Some((known, place)) = self.recent[slot]
            && known == key
        {
            self.places.rows.push(place);
            return 0;
        }
        let (place, bytes) = self.place(&text());
        self.recent[slot] = Some((key, place));
        self.places.rows.push(place);
        bytes
    }

    fn place(&mut self, text: &str) -> (u32, usize) {
        if let Some(place) = self.known.get(text) {
            return (*place, 0);
        }
        self.places.plain.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.places.plain.extend_from_slice(text.as_bytes());
        let place = self.places.end();
        self.known.insert(text.into(), place);
        (place, text.len())
    }
}

/// Numbers.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) places: Places,
    known: FxHashMap<i64, u32>,
    recent: Box<[Option<(i64, u32)>; RECENT]>,
    /// Bytes of each.
    pub(super) width: usize,
    /// The least and the greatest.
    pub(super) range: Option<(i64, i64)>,
}

impl Numbers {
    /// Of so many bytes each: 4 or 8.
    pub(super) fn new(width: usize) -> Self {
        Self {
            places: Places::default(),
            known: FxHashMap::default(),
            recent: Box::new([None; RECENT]),
            width,
            range: None,
        }
    }

    /// Appends a row.
    #[inline]
    pub(super) fn push(&mut self, number: i64) {
        let hash = (number as u64).wrapping_mul(SPREAD);
        let slot = (hash >> (u64::BITS - RECENT.ilog2())) as usize % RECENT;
        let place = match self.recent[slot] {
            Some((known, place)) if known == number => place,
            _ => {
                let place = self.place(number);
                self.recent[slot] = Some((number, place));
                place
            }
        };
        self.places.rows.push(place);
    }

    fn place(&mut self, number: i64) -> u32 {
        let Self { places, known, width, range, .. } = self;
        *known.entry(number).or_insert_with(|| {
            let bytes = number.to_le_bytes();
            places.plain.extend_from_slice(bytes.get(..*width).unwrap_or(&bytes));
            let (least, greatest) = range.unwrap_or((number, number));
            *range = Some((least.min(number), greatest.max(number)));
            places.end()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_stands_once() {
        let mut texts = Texts::default();
        assert_eq!(texts.push("ab"), 2);
        assert_eq!(texts.push_keyed(7, || "".into()), 0);
        assert_eq!(texts.push_keyed(7, || panic!("it is known")), 0);
        assert_eq!(texts.push_keyed(8, || "ab".into()), 0);
        assert_eq!(texts.push("c"), 1);
        assert_eq!(texts.places.rows, [0, 1, 1, 0, 2]);
        assert_eq!(texts.places.plain, b"\x02\0\0\0ab\0\0\0\0\x01\0\0\0c");
        assert_eq!(texts.places.value(1), b"\0\0\0\0");
        assert_eq!(texts.places.value(3), b"");
    }

    #[test]
    fn numbers_keep_their_range() {
        let mut numbers = Numbers::new(4);
        for number in [5, -1, 5, 7] {
            numbers.push(number);
        }
        assert_eq!(numbers.range, Some((-1, 7)));
        assert_eq!(numbers.places.rows, [0, 1, 0, 2]);
        assert_eq!(numbers.places.value(1), (-1_i32).to_le_bytes());
    }
}
