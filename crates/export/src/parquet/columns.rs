//! Rows of a table that wait to be written, by column.
//!
//! Rows come one by one, in the thread that has them made, which only appends. Their order, what is
//! the same, and where values lack are worked out later, in the thread that writes.

use std::borrow::Cow;

use flightrec_format::abi::record::Comm;
use flightrec_format::trace_context::TraceContext;
use flightrec_reader::threads::trim;

use super::dictionary::Texts;
use super::who::Who;
use crate::printable::printable;

/// Values of a column; of one that may lack values, those that are there.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) values: Values,
    /// The row of each value. `None`: every row has one.
    pub(super) rows: Option<Vec<u32>>,
}

/// Values of one type.
#[derive(Debug)]
pub(super) enum Values {
    /// Made of those of another column.
    Derived(Derived),
    /// Such as grow from row to row: written as differences.
    Times(Vec<i64>),
    Bools(Vec<bool>),
    /// Of so many bytes each: 4 or 8.
    Numbers(usize, Vec<i64>),
    Texts(Texts),
    /// A thread's number; with its process and its name.
    Who(Who),
}

/// What a column is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Derived {
    /// Microseconds, of the nanoseconds in the next column.
    Micros,
    /// The process and the name of the thread, in the columns after that of [`Values::Who`].
    Pid,
    Comm,
}

/// A type, and whether every row has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Long,
    Time,
    Bool,
    Text,
    Who,
    Derived(Derived),
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
                Kind::Who => Values::Who(Who::default()),
                Kind::Derived(derived) => Values::Derived(*derived),
            },
            rows: optional.then(Vec::new),
        };
        Self { columns: columns.iter().map(column).collect(), at: 0, count: 0, bytes: 0 }
    }

    /// Makes room for others.
    pub(super) fn clear(&mut self) {
        for column in &mut self.columns {
            match &mut column.values {
                Values::Derived(_) => {}
                Values::Times(of) | Values::Numbers(_, of) => of.clear(),
                Values::Bools(of) => of.clear(),
                Values::Texts(of) => of.clear(),
                Values::Who(of) => of.clear(),
            }
            if let Some(rows) = &mut column.rows {
                rows.clear();
            }
        }
        (self.at, self.count, self.bytes) = (0, 0, 0);
    }

    /// The next column, which gets a value.
    #[inline]
    fn next(&mut self) -> Option<&mut Values> {
        let (at, row) = (self.at, self.count);
        self.none(1);
        let column = self.columns.get_mut(at)?;
        if let Some(rows) = &mut column.rows {
            rows.push(row as u32);
        }
        Some(&mut column.values)
    }

    /// The next `count` columns have no value, or one that is made of another column's; there are
    /// as many in the row.
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
        let may_lack = self.columns.get(self.at).is_some_and(|column| column.rows.is_some());
        match comm.filter(|comm| !may_lack || comm[0] != 0) {
            Some(comm) => self.keyed(u128::from_ne_bytes(*comm), || printable(trim(comm))),
            None => self.none(1),
        }
    }

    /// The span that a thread works for: two columns.
    #[inline]
    pub(super) fn span(&mut self, of: Option<&TraceContext>) -> &mut Self {
        let Some(TraceContext { trace, span, .. }) = of else { return self.none(2) };
        let (trace, span) = (u128::from_be_bytes(*trace), u64::from_be_bytes(*span));
        self.keyed(trace, || format!("{trace:032x}").into());
        self.keyed(span.into(), || format!("{span:016x}").into())
    }

    /// A moment, UNIX time in ns: `ts` in microseconds and `ts_ns`.
    #[inline]
    pub(super) fn time(&mut self, ns: i64) -> &mut Self {
        self.none(1).long(ns)
    }

    /// A thread, its process and its name: three columns.
    #[inline]
    pub(super) fn who(&mut self, tid: u32, pid: u32, comm: &Comm) -> &mut Self {
        if let Some(Values::Who(who)) = self.next() {
            who.push(tid, pid, comm);
        }
        self.none(2)
    }

    /// Keeps a text of a column for rows of this group that are still to come; returns what
    /// [`Self::kept`] takes.
    #[inline]
    pub(super) fn keep(&mut self, column: usize, text: &str) -> Option<u32> {
        let column = self.columns.get_mut(column).filter(|_| !text.is_empty())?;
        let Values::Texts(texts) = &mut column.values else { return None };
        let (place, more) = texts.keep(text);
        self.bytes += more;
        Some(place)
    }

    /// A text that was kept.
    #[inline]
    pub(super) fn kept(&mut self, place: Option<u32>) -> &mut Self {
        let Some(place) = place else { return self.none(1) };
        if let Some(Values::Texts(texts)) = self.next() {
            texts.push_place(place);
        }
        self
    }

    /// The bytes of a text that was kept in a column.
    pub(super) fn text_of(&self, column: usize, place: u32) -> &str {
        match self.columns.get(column).map(|column| &column.values) {
            Some(Values::Texts(texts)) => texts.text(place),
            _ => "",
        }
    }
}
