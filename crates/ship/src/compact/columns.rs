//! Columns of a file that is read.

use bytes::Bytes;
use rustc_hash::FxHashMap;

/// The number of a text that is none.
pub(super) const NONE: u32 = u32::MAX;

/// Texts, each kept once.
#[derive(Debug, Default)]
pub(super) struct Texts {
    values: Vec<Bytes>,
    known: FxHashMap<Bytes, u32>,
    /// Bytes of all of them.
    bytes: usize,
    /// That which was asked for last: neighbours are alike.
    last: Option<u32>,
}

impl Texts {
    /// The number of a text.
    pub(super) fn number(&mut self, text: &[u8]) -> u32 {
        if let Some(last) = self.last
            && self.values.get(last as usize).is_some_and(|value| value == text)
        {
            return last;
        }
        if let Some(number) = self.known.get(text) {
            self.last = Some(*number);
            return *number;
        }
        // A copy of its own: what was read with it goes.
        let text = Bytes::copy_from_slice(text);
        let number = self.values.len() as u32;
        self.bytes += text.len();
        self.values.push(text.clone());
        self.known.insert(text, number);
        self.last = Some(number);
        number
    }

    /// Bytes that they take, about: each stands in a vector, and in a table with its number.
    pub(super) fn bytes(&self) -> usize {
        self.values.len() * (2 * size_of::<Bytes>() + size_of::<u64>()) + self.bytes
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.values.len() as u32
    }

    /// A text by its number; `None`: there is none.
    pub(super) fn get(&self, number: u32) -> Option<&Bytes> {
        self.values.get(number as usize)
    }
}

/// The values of a column, one for each row.
#[derive(Debug)]
pub(super) enum Values {
    Bools(Vec<Option<bool>>),
    Longs(Vec<Option<i64>>),
    Texts(Vec<u32>, Texts),
}

impl Values {
    /// The text in a row.
    pub(super) fn text(&self, row: usize) -> Option<&Bytes> {
        match self {
            Self::Texts(rows, texts) => texts.get(*rows.get(row)?),
            _ => None,
        }
    }

    /// The number in a row.
    pub(super) fn long(&self, row: usize) -> Option<i64> {
        match self {
            Self::Longs(values) => *values.get(row)?,
            _ => None,
        }
    }

    /// What is true or not in a row.
    pub(super) fn bool(&self, row: usize) -> Option<bool> {
        match self {
            Self::Bools(values) => *values.get(row)?,
            _ => None,
        }
    }
}
