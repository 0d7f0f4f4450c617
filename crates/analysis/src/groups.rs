//! Sums by group, in bounded memory.
//!
//! A group is known by up to [`KEYS`] keys, each a number or a word ([`Words`]). Where there are
//! too many groups, those with the smallest sums are added to one row, the others. So all rows
//! together stay exact. A group that comes again after that begins anew, and what it had before
//! stays with the others.

use std::cmp::Reverse;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::histogram::Histogram;

/// Most keys of a group.
pub const KEYS: usize = 4;
/// Sums that a report may have beside its value.
pub const EXTRAS: usize = 5;
/// Most groups that are left when there are too many; there may be twice as many at a time.
const GROUPS_MAX: usize = if cfg!(test) { 8 } else { 8192 };
/// Most words of a table, and most bytes of all of them.
const WORDS_MAX: usize = if cfg!(test) { 64 } else { 1 << 16 };
const WORD_BYTES_MAX: usize = if cfg!(test) { 4096 } else { 8 << 20 };
/// Most bytes of all texts that are shared ([`Shared`]).
const SHARED_MAX: usize = if cfg!(test) { 1000 } else { 16 << 20 };
/// Partners of a group that are told apart; there may be twice as many at a time.
const PARTNERS_MAX: usize = 16;

/// Stands for a key that is not known.
pub const UNKNOWN: u64 = u64::MAX;
/// Stands for a word for which there was no room.
pub const CROWDED: u64 = u64::MAX - 1;

/// The keys of a group; unused ones are 0.
pub type Keys = [u64; KEYS];

/// What a group comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sum {
    /// How often it happened.
    pub count: u64,
    /// The values: durations, sizes; of those that are known.
    pub values: Histogram,
    /// Further sums.
    pub extras: [u64; EXTRAS],
    /// Whom the values are due to, and how much to each.
    pub partners: Partners,
}

/// Values by partner: the greatest are told apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partners {
    known: Vec<(u64, u64)>,
    others: u64,
}

impl Partners {
    /// Adds a value.
    pub fn add(&mut self, partner: u64, value: u64) {
        if let Some((_, sum)) = self.known.iter_mut().find(|(known, _)| *known == partner) {
            *sum = sum.saturating_add(value);
            return;
        }
        self.known.push((partner, value));
        if self.known.len() >= 2 * PARTNERS_MAX {
            self.known.sort_unstable_by_key(|(partner, sum)| (Reverse(*sum), *partner));
            let small = self.known.drain(PARTNERS_MAX..).map(|(_, sum)| sum);
            self.others = small.fold(self.others, u64::saturating_add);
        }
    }

    fn merge(&mut self, other: &Self) {
        other.known.iter().for_each(|(partner, sum)| self.add(*partner, *sum));
        self.others = self.others.saturating_add(other.others);
    }

    /// The greatest first.
    pub fn ranked(&self) -> Vec<(u64, u64)> {
        let mut ranked = self.known.clone();
        ranked.sort_unstable_by_key(|(partner, sum)| (Reverse(*sum), *partner));
        ranked
    }

    /// The sum of all that are not told apart.
    pub fn others(&self) -> u64 {
        self.others
    }
}

impl Sum {
    /// Adds what happened once, with its value.
    pub fn add(&mut self, value: u64) {
        self.count = self.count.saturating_add(1);
        self.values.add(value);
    }

    /// Adds what happened once, whose value is not known.
    pub fn add_untold(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// Adds to a further sum.
    pub fn extra(&mut self, at: usize, value: u64) {
        if let Some(sum) = self.extras.get_mut(at) {
            *sum = sum.saturating_add(value);
        }
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.values.merge(&other.values);
        for (at, value) in other.extras.iter().enumerate() {
            self.extra(at, *value);
        }
        self.partners.merge(&other.partners);
    }
}

/// By what groups are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By the sum of their values.
    Total,
    /// By how often.
    Count,
}

impl Order {
    fn weight(self, sum: &Sum) -> (u64, u64) {
        match self {
            Self::Total => (sum.values.sum(), sum.count),
            Self::Count => (sum.count, sum.values.sum()),
        }
    }
}

/// Sums by group.
#[derive(Debug)]
pub struct Groups {
    rows: FxHashMap<Keys, Sum>,
    order: Order,
    others: Others,
}

/// The groups that are not told apart, together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Others {
    /// How many; a group that came again is counted again.
    pub groups: u64,
    /// What they come to.
    pub sum: Sum,
}

impl Others {
    fn add(&mut self, sum: &Sum) {
        self.groups = self.groups.saturating_add(1);
        self.sum.merge(sum);
    }
}

/// All groups, the greatest first, and the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranked {
    /// The greatest groups.
    pub rows: Vec<(Keys, Sum)>,
    /// The rest.
    pub others: Others,
    /// Whether there were too many groups to tell all apart: then a row may lack what its group had
    /// at first.
    pub is_cut: bool,
}

impl Groups {
    /// None yet.
    pub fn new(order: Order) -> Self {
        Self { rows: FxHashMap::default(), order, others: Others::default() }
    }

    /// The sum of a group.
    #[inline]
    pub fn sum(&mut self, keys: Keys) -> &mut Sum {
        if self.rows.len() >= 2 * GROUPS_MAX && !self.rows.contains_key(&keys) {
            self.cut();
        }
        self.rows.entry(keys).or_default()
    }

    /// Adds the smallest groups to the others.
    #[cold]
    fn cut(&mut self) {
        let mut rows: Vec<(Keys, Sum)> = self.rows.drain().collect();
        rank(&mut rows, self.order);
        for (_, sum) in rows.drain(GROUPS_MAX.min(rows.len())..) {
            self.others.add(&sum);
        }
        self.rows.extend(rows);
    }

    /// All groups; of more than `most`, the smallest are among the others.
    pub fn ranked(self, most: usize) -> Ranked {
        let Self { rows, order, mut others } = self;
        let is_cut = others.groups != 0;
        let mut rows: Vec<(Keys, Sum)> = rows.into_iter().collect();
        rank(&mut rows, order);
        for (_, sum) in rows.drain(most.min(rows.len())..) {
            others.add(&sum);
        }
        Ranked { rows, others, is_cut }
    }
}

impl Ranked {
    /// The sum of all groups.
    pub fn total(&self) -> Sum {
        let mut total = self.others.sum.clone();
        self.rows.iter().for_each(|(_, sum)| total.merge(sum));
        total
    }
}

fn rank(rows: &mut [(Keys, Sum)], order: Order) {
    rows.sort_unstable_by_key(|(keys, sum)| (Reverse(order.weight(sum)), *keys));
}

/// Words as numbers. A table is for words of one sort: where paths fill one, names of commands
/// still have room in another.
#[derive(Debug, Default)]
pub struct Words {
    ids: FxHashMap<Rc<[u8]>, u64>,
    by_id: Vec<Rc<[u8]>>,
    bytes: usize,
}

impl Words {
    /// The number of a word; [`CROWDED`] where there is no room for it.
    #[inline]
    pub fn id(&mut self, word: &[u8]) -> u64 {
        if let Some(id) = self.ids.get(word) {
            return *id;
        }
        if self.by_id.len() >= WORDS_MAX || self.bytes + word.len() > WORD_BYTES_MAX {
            return CROWDED;
        }
        let id = self.by_id.len() as u64;
        self.bytes += word.len();
        let word: Rc<[u8]> = word.into();
        self.by_id.push(word.clone());
        self.ids.insert(word, id);
        id
    }

    /// The word of a number; `None`: it is not known, or there was no room for it.
    pub fn word(&self, id: u64) -> Option<&[u8]> {
        self.by_id.get(usize::try_from(id).ok()?).map(|word| &**word)
    }
}

/// Texts that many hold at a time, each once: the paths that threads are busy with. What nobody
/// holds any longer makes room.
#[derive(Debug, Default)]
pub struct Shared {
    texts: FxHashSet<Rc<[u8]>>,
    bytes: usize,
    /// Texts that found no room since room was looked for last.
    refused: usize,
}

impl Shared {
    /// A text; `None`: those that are held take all the room.
    #[inline]
    pub fn get(&mut self, text: &[u8]) -> Option<Rc<[u8]>> {
        if let Some(known) = self.texts.get(text) {
            return Some(known.clone());
        }
        if self.bytes + text.len() > SHARED_MAX && !self.make_room(text.len()) {
            return None;
        }
        let new: Rc<[u8]> = text.into();
        self.bytes += text.len();
        self.texts.insert(new.clone());
        Some(new)
    }

    /// Drops what nobody holds, unless that made little room a short while ago.
    #[cold]
    fn make_room(&mut self, length: usize) -> bool {
        if self.refused != 0 && self.refused < self.texts.len() {
            self.refused += 1;
            return false;
        }
        let Self { texts, bytes, .. } = self;
        texts.retain(|text| {
            let is_held = Rc::strong_count(text) > 1;
            if !is_held {
                *bytes -= text.len();
            }
            is_held
        });
        let has_room = self.bytes + length <= SHARED_MAX / 2;
        self.refused = usize::from(!has_room);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is left out of the rows is in the others.
    #[test]
    fn all_groups_together_stay_exact() {
        let mut groups = Groups::new(Order::Total);
        let (mut count, mut total) = (0, 0);
        for round in 0..50u64 {
            for key in 0..40u64 {
                let value = key * key + round;
                let sum = groups.sum([key, 0, 0, 0]);
                sum.add(value);
                sum.extra(1, 2);
                sum.partners.add(round * 50 + key, value);
                (count, total) = (count + 1, total + value);
            }
        }
        let ranked = groups.ranked(5);
        assert!(ranked.is_cut);
        assert_eq!(ranked.rows.len(), 5);
        let sum = ranked.total();
        assert_eq!((sum.count, sum.values.sum(), sum.extras[1]), (count, total, 2 * count));
        assert_eq!(sum.values.count(), count);
        let partners: u64 = sum.partners.ranked().iter().map(|(_, value)| value).sum();
        assert_eq!(partners + sum.partners.others(), total);
        let weights: Vec<u64> = ranked.rows.iter().map(|(_, sum)| sum.values.sum()).collect();
        assert!(weights.is_sorted_by(|a, b| a >= b), "{weights:?}");
    }

    #[test]
    fn few_groups_are_all_there() {
        let mut groups = Groups::new(Order::Count);
        groups.sum([1, 0, 0, 0]).add(100);
        groups.sum([2, 0, 0, 0]).add(1);
        groups.sum([2, 0, 0, 0]).add_untold();
        let ranked = groups.ranked(10);
        assert_eq!(ranked.rows.iter().map(|(keys, _)| keys[0]).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((ranked.others.groups, ranked.is_cut), (0, false));
        assert_eq!(ranked.rows[0].1.count, 2);
        assert_eq!(ranked.rows[0].1.values.count(), 1);
    }

    #[test]
    fn texts_that_nobody_holds_make_room() {
        let mut shared = Shared::default();
        let text = |n: u32| [n.to_le_bytes().as_slice(), &[b'x'; 96]].concat();
        let first = shared.get(&text(0)).unwrap();
        assert!(Rc::ptr_eq(&first, &shared.get(&text(0)).unwrap()));
        // However many come, those that are gone are no burden.
        assert!((1..10_000).all(|n| shared.get(&text(n)).is_some_and(|new| *new == *text(n))));
        assert!(Rc::ptr_eq(&first, &shared.get(&text(0)).unwrap()));
        let held: Vec<_> = (0..10_000).map_while(|n| shared.get(&text(n))).collect();
        assert!((5..=10).contains(&held.len()), "{}", held.len());
        assert!(shared.get(&text(5000)).is_none());
        drop(held);
        assert!((0..100).any(|n| shared.get(&text(5000 + n)).is_some()));
        assert!(shared.bytes <= SHARED_MAX && shared.texts.len() <= 10);
    }

    #[test]
    fn words_have_bounds() {
        let mut words = Words::default();
        let ids: Vec<u64> = (0..100u64).map(|n| words.id(&n.to_le_bytes())).collect();
        assert_eq!(words.id(&5u64.to_le_bytes()), ids[5]);
        assert_eq!(words.word(ids[5]), Some(5u64.to_le_bytes().as_slice()));
        assert_eq!((ids[99], words.word(CROWDED), words.word(UNKNOWN)), (CROWDED, None, None));
    }
}
