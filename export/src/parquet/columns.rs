//! Rows of a table that wait to be written, by column.

use std::borrow::Cow;

use flightrec_format::abi::record::Comm;
use flightrec_reader::threads::trim;

use super::dictionary::Texts;
use crate::printable::printable;

/// Values of a column; of one that may lack values, with what is there.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) values: Values,
    /// 1: the row has a value, 0: it has none. `None`: every row has one. Rows behind the last
    /// value are not there: they have none.
    pub(super) levels: Option<Vec<u8>>,
}

/// Values of one type.
#[derive(Debug)]
pub(super) enum Values {
    /// Such as grow from row to row: written as differences.
    Times(Vec<i64>),
    Bools(Vec<bool>),
    /// Of so many bytes each: 4 or 8.
    Numbers(usize, Vec<i64>),
    Texts(Texts),
}

/// A type, and whether every row has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Long,
    Time,
    Bool,
    Text,
}

/// Rows by column. A row is begun by nothing: its values are pushed in the order of the columns.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) columns: Vec<Column>,
    at: usize,
    /// How many are whole.
    pub(super) count: usize,
    /// Bytes of all texts.
    pub(super) bytes: usize,
}

impl Rows {
    /// None, of these columns: each with whether it may lack values.
    pub(super) fn new(columns: &[(Kind, bool)]) -> Self {
        let column = |(kind, optional): &(Kind, bool)| Column {
            values: match kind {
                Kind::Int => Values::Numbers(size_of::<i32>(), Vec::new()),
                Kind::Long => Values::Numbers(size_of::<i64>(), Vec::new()),
                Kind::Time => Values::Times(Vec::new()),
                Kind::Bool => Values::Bools(Vec::new()),
                Kind::Text => Values::Texts(Texts::default()),
            },
            levels: optional.then(Vec::new),
        };
        Self { columns: columns.iter().map(column).collect(), at: 0, count: 0, bytes: 0 }
    }

    /// The next column, which gets a value.
    #[inline]
    fn next(&mut self) -> Option<&mut Values> {
        let (at, row) = (self.at, self.count);
        self.none(1);
        let column = self.columns.get_mut(at)?;
        if let Some(levels) = &mut column.levels {
            if levels.len() < row {
                levels.resize(row, 0);
            }
            levels.push(1);
        }
        Some(&mut column.values)
    }

    /// The next `count` columns have no value; there are as many in the row.
    #[inline]
    pub(super) fn none(&mut self, count: usize) -> &mut Self {
        self.at += count;
        if self.at >= self.columns.len() {
            self.at = 0;
            self.count += 1;
        }
        self
    }

    #[inline]
    pub(super) fn int(&mut self, value: impl Into<Option<i32>>) -> &mut Self {
        self.long(value.into().map(i64::from))
    }

    #[inline]
    pub(super) fn long(&mut self, value: impl Into<Option<i64>>) -> &mut Self {
        let Some(value) = value.into() else { return self.none(1) };
        if let Some(Values::Numbers(_, numbers) | Values::Times(numbers)) = self.next() {
            numbers.push(value);
        }
        self
    }

    #[inline]
    pub(super) fn bool(&mut self, value: bool) -> &mut Self {
        if let Some(Values::Bools(values)) = self.next() {
            values.push(value);
        }
        self
    }

    #[inline]
    pub(super) fn text<'a>(&mut self, value: impl Into<Option<&'a str>>) -> &mut Self {
        let Some(value) = value.into() else { return self.none(1) };
        let mut more = 0;
        if let Some(Values::Texts(texts)) = self.next() {
            more = texts.push(value);
        }
        self.bytes += more;
        self
    }

    /// A text that is always the same for `key`, in this column and group of rows: it is made
    /// only where that is new.
    #[inline]
    pub(super) fn keyed<'t>(
        &mut self,
        key: u128,
        text: impl FnOnce() -> Cow<'t, str>,
    ) -> &mut Self {
        let mut more = 0;
        if let Some(Values::Texts(texts)) = self.next() {
            more = texts.push_keyed(key, text);
        }
        self.bytes += more;
        self
    }

    /// One of few texts that the program has; a column of such ones has no others.
    #[inline]
    pub(super) fn fixed(&mut self, text: impl Into<Option<&'static str>>) -> &mut Self {
        match text.into() {
            // Two texts at one place differ by their lengths.
            Some(text) => self
                .keyed((text.as_ptr().addr() as u128) << 64 | text.len() as u128, || text.into()),
            None => self.none(1),
        }
    }

    /// A thread's name; nothing where it is empty and the column may lack values.
    #[inline]
    pub(super) fn comm(&mut self, comm: Option<&Comm>) -> &mut Self {
        let may_lack = self.columns.get(self.at).is_some_and(|column| column.levels.is_some());
        match comm.filter(|comm| !may_lack || comm[0] != 0) {
            Some(comm) => self.keyed(u128::from_ne_bytes(*comm), || printable(trim(comm))),
            None => self.none(1),
        }
    }

    /// A moment, UNIX time in ns: `ts` in microseconds and `ts_ns`.
    #[inline]
    pub(super) fn time(&mut self, ns: i64) -> &mut Self {
        self.long(ns.div_euclid(1000)).long(ns)
    }
}
