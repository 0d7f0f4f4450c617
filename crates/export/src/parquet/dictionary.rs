//! Values of a column, each kept once, as the pages of Parquet have them.
//!
//! Rows come one by one, in the thread that has them made: there, a text that was met a moment ago
//! is found by its key, and the others are only appended. What is the same is found later, column
//! by column, in the thread that writes.

use std::borrow::Cow;
use std::hash::Hasher as _;

use rustc_hash::{FxHashMap, FxHasher};

/// Values that are found without a hash table; a power of two.
const RECENT: usize = 64;
/// Texts that were kept and are found again; a power of two.
const KEPT: usize = 1024;
/// Most bytes of room that is kept for other texts.
const SPARE_BYTES: usize = 1 << 20;
/// Of an odd number, so that keys that differ in any bits get places that differ.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Which value each row has, and the values.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// By row that has a value: which one.
    pub(super) rows: Vec<u32>,
    /// The values, in Parquet's encoding `PLAIN`.
    pub(super) plain: Vec<u8>,
    /// Where each of them ends there.
    pub(super) ends: Vec<u32>,
}

impl Places {
    /// How many values there are.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Appends a text.
    #[inline]
    pub(super) fn append(&mut self, text: &str) -> u32 {
        self.plain.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.plain.extend_from_slice(text.as_bytes());
        self.end()
    }

    /// Appends a value, which ends at the end of `plain`.
    #[inline]
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

    /// The same rows, with other texts in the place of these.
    pub(super) fn with_texts(&self, other: impl Fn(&str) -> Cow<'_, str>) -> Self {
        let mut texts = Self { rows: self.rows.clone(), ..Self::default() };
        for place in 0..self.count() {
            let text = self.value(place as u32).get(LENGTH..).unwrap_or_default();
            texts.append(&other(std::str::from_utf8(text).unwrap_or_default()));
        }
        texts.once()
    }

    /// The same rows, with each value once, in the order of the first rows that have them.
    pub(super) fn once(&self) -> Self {
        let mut once = Self { rows: Vec::with_capacity(self.rows.len()), ..Self::default() };
        let mut known: FxHashMap<&[u8], u32> = FxHashMap::default();
        let mut from = 0;
        let mut place = |end: u32| {
            let value = self.plain.get(from as usize..end as usize).unwrap_or_default();
            from = end;
            *known.entry(value).or_insert_with(|| {
                once.plain.extend_from_slice(value);
                once.end()
            })
        };
        let places: Vec<u32> = self.ends.iter().map(|end| place(*end)).collect();
        let new = |row: &u32| places.get(*row as usize).copied().unwrap_or_default();
        once.rows.extend(self.rows.iter().map(new));
        once
    }
}

/// Texts.
#[derive(Debug)]
pub(super) struct Texts {
    /// A value may stand there more than once.
    places: Places,
    recent: Box<[Option<(u128, u32)>; RECENT]>,
    /// By the hash of a text that was kept last, the place after it; made with the first.
    kept: Vec<u32>,
    /// The last row's text; its place is that of the last row.
    last: Option<u32>,
}

/// Bytes before each text: its length.
const LENGTH: usize = 4;

impl Default for Texts {
    fn default() -> Self {
        Self {
            places: Places::default(),
            recent: Box::new([None; RECENT]),
            kept: Vec::new(),
            last: None,
        }
    }
}

impl Texts {
    /// Appends a row; returns how many bytes it adds to what is kept.
    #[inline]
    pub(super) fn push(&mut self, text: &str) -> usize {
        if let Some(place) = self.last
            && self.places.value(place).get(LENGTH..) == Some(text.as_bytes())
        {
            self.places.rows.push(place);
            return 0;
        }
        let place = self.append(text);
        self.last = Some(place);
        self.places.rows.push(place);
        text.len()
    }

    /// Keeps a text, which rows may then have by its place; returns how many bytes it adds.
    pub(super) fn keep(&mut self, text: &str) -> (u32, usize) {
        if self.kept.is_empty() {
            self.kept.resize(KEPT, 0);
        }
        let mut hasher = FxHasher::default();
        hasher.write(text.as_bytes());
        let at = (hasher.finish() >> 20) as usize % KEPT;
        if let Some(place) = self.kept[at].checked_sub(1)
            && self.places.value(place).get(LENGTH..) == Some(text.as_bytes())
        {
            return (place, 0);
        }
        let place = self.append(text);
        self.kept[at] = place + 1;
        (place, text.len())
    }

    #[inline]
    fn append(&mut self, text: &str) -> u32 {
        self.places.append(text)
    }

    /// Appends a row with a text that is there.
    #[inline]
    pub(super) fn push_place(&mut self, place: u32) {
        self.places.rows.push(place);
    }

    /// A text that is there.
    pub(super) fn text(&self, place: u32) -> &str {
        let text = self.places.value(place).get(LENGTH..).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// Forgets all rows and texts.
    pub(super) fn clear(&mut self) {
        self.places.rows.clear();
        self.places.plain.clear();
        self.places.plain.shrink_to(SPARE_BYTES);
        self.places.ends.clear();
        self.recent.fill(None);
        self.kept.fill(0);
        self.last = None;
    }

    /// Which text each row has, to be put in another order.
    pub(super) fn rows(&mut self) -> &mut Vec<u32> {
        &mut self.places.rows
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
        let text = text();
        let place = self.append(&text);
        self.recent[slot] = Some((key, place));
        self.places.rows.push(place);
        text.len()
    }

    /// Each text once.
    pub(super) fn places(&self) -> Places {
        self.places.once()
    }
}

/// Numbers, each once, of so many bytes: 4 or 8; with the least and the greatest. They are in
/// order: neighbours are alike, so that they take less room.
pub(super) fn numbers(width: usize, values: &[i64]) -> (Places, Option<(i64, i64)>) {
    let mut rows = Vec::with_capacity(values.len());
    let mut all: Vec<(i64, u32)> = Vec::new();
    let mut known: FxHashMap<i64, u32> = FxHashMap::default();
    let mut recent: [Option<(i64, u32)>; RECENT] = [None; RECENT];
    for number in values {
        let hash = (*number as u64).wrapping_mul(SPREAD);
        let slot = (hash >> (u64::BITS - RECENT.ilog2())) as usize % RECENT;
        let place = match recent[slot] {
            Some((known, place)) if known == *number => place,
            _ => {
                let place = *known.entry(*number).or_insert_with(|| {
                    let place = all.len() as u32;
                    all.push((*number, place));
                    place
                });
                recent[slot] = Some((*number, place));
                place
            }
        };
        rows.push(place);
    }
    all.sort_unstable();
    let mut places = Places::default();
    let mut order = vec![0; all.len()];
    for (number, before) in &all {
        let bytes = number.to_le_bytes();
        places.plain.extend_from_slice(bytes.get(..width).unwrap_or(&bytes));
        let place = places.end();
        if let Some(new) = order.get_mut(*before as usize) {
            *new = place;
        }
    }
    for row in &mut rows {
        *row = order.get(*row as usize).copied().unwrap_or_default();
    }
    places.rows = rows;
    let range = all.first().zip(all.last()).map(|((least, _), (greatest, _))| (*least, *greatest));
    (places, range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_stands_once() {
        let mut texts = Texts::default();
        assert_eq!(texts.push("ab"), 2);
        assert_eq!(texts.push("ab"), 0, "as the row before");
        assert_eq!(texts.push_keyed(7, || "".into()), 0);
        assert_eq!(texts.push_keyed(7, || panic!("it is known")), 0);
        assert_eq!(texts.push_keyed(8, || "ab".into()), 2);
        assert_eq!(texts.push("c"), 1);
        let (kept, more) = texts.keep("abc");
        assert_eq!(more, 3);
        assert_eq!(texts.keep("abc"), (kept, 0));
        texts.push_place(kept);
        assert_eq!(texts.text(kept), "abc");
        let places = texts.places();
        assert_eq!(places.rows, [0, 0, 1, 1, 0, 2, 3]);
        assert_eq!(places.plain, b"\x02\0\0\0ab\0\0\0\0\x01\0\0\0c\x03\0\0\0abc");
        assert_eq!(places.value(1), b"\0\0\0\0");
        assert_eq!(places.value(4), b"");
    }

    #[test]
    fn numbers_keep_their_range() {
        let (places, range) = numbers(4, &[5, -1, 5, 7]);
        assert_eq!(range, Some((-1, 7)));
        assert_eq!(places.rows, [1, 0, 1, 2]);
        assert_eq!(places.value(0), (-1_i32).to_le_bytes());
    }
}
