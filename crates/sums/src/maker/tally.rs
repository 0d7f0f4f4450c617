//! The sums of the present period, by numbers instead of words.

use std::sync::Arc;

use flightrec_analysis::groups::Words;
use rustc_hash::FxHashMap;

use crate::model::{Cell, Group, KEYS, LANES, Period, ROWS_MAX, Table, flags};

/// The number of a word; 0: none.
pub(super) type Word = u32;

/// Sums by group, and the words of their keys.
#[derive(Debug, Default)]
pub(super) struct Tally {
    words: Words,
    cells: FxHashMap<(Table, [Word; KEYS]), Cell>,
    pub(super) flags: u32,
    pub(super) lost: [u64; LANES],
    pub(super) unknown_ns: u64,
    /// There was no room for a word.
    pub(super) is_crowded: bool,
}

/// Stands for all that there is no room to tell apart.
const CROWD: Word = Word::MAX;

impl Tally {
    /// The number of a word.
    pub(super) fn word(&mut self, word: &[u8]) -> Word {
        if word.is_empty() {
            return 0;
        }
        match Word::try_from(self.words.id(word)) {
            Ok(id) if id < CROWD - 1 => id + 1,
            _ => {
                (self.is_crowded, self.flags) = (true, self.flags | flags::CROWDED);
                CROWD
            }
        }
    }

    /// The sums of a group.
    #[inline]
    pub(super) fn cell(&mut self, table: Table, keys: [Word; KEYS]) -> &mut Cell {
        let mut key = (table, keys);
        if self.cells.len() >= ROWS_MAX && !self.cells.contains_key(&key) {
            self.flags |= flags::CROWDED;
            key.1 = [CROWD; KEYS];
        }
        self.cells.entry(key).or_default()
    }

    /// The period, and begins anew; words keep their numbers unless there are too many.
    pub(super) fn end(&mut self, from: u64, until: u64, wall: i64) -> Period {
        let mut period = Period {
            from,
            until,
            wall,
            flags: std::mem::take(&mut self.flags),
            lost: std::mem::take(&mut self.lost),
            unknown_ns: std::mem::take(&mut self.unknown_ns),
            ..Period::default()
        };
        let mut shared: FxHashMap<Word, Arc<[u8]>> = FxHashMap::default();
        let words = &self.words;
        for ((table, keys), cell) in self.cells.drain() {
            let keys = keys.map(|word| {
                let text = match word {
                    0 => Some(&b""[..]),
                    CROWD => None,
                    word => words.word(u64::from(word) - 1),
                };
                let text = text.unwrap_or(crate::model::OTHERS);
                shared.entry(word).or_insert_with(|| text.into()).clone()
            });
            period.rows.entry(Group { table, keys }).or_default().merge(&cell);
        }
        period
    }
}
