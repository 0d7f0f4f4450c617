//! Rows of a table that wait to be written, by column.

use parquet::data_type::ByteArray;
use rustc_hash::FxHashMap;

/// Values of a column; of one that may lack values, with what is there.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) values: Values,
    /// 1: the row has a value, 0: it has none. `None`: every row has one.
    pub(super) levels: Option<Vec<i16>>,
}

/// Values of one type.
#[derive(Debug)]
pub(super) enum Values {
    Int(Vec<i32>),
    Long(Vec<i64>),
    Bool(Vec<bool>),
    Text(Texts),
}

/// Texts, each kept once.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// By row: which one.
    rows: Vec<u32>,
    places: FxHashMap<Box<str>, u32>,
    /// The last row's, if it is short: mostly the next one's is the same.
    last: Option<(String, u32)>,
}

/// Longer texts seldom stand in two rows that follow one another.
const SHORT: usize = 32;

impl Texts {
    fn push(&mut self, text: &str) -> usize {
        if let Some((last, place)) = &self.last
            && last == text
        {
            self.rows.push(*place);
            return 0;
        }
        let (place, bytes) = if let Some(place) = self.places.get(text) {
            (*place, 0)
        } else {
            let place = self.places.len() as u32;
            self.places.insert(text.into(), place);
            (place, text.len())
        };
        self.rows.push(place);
        if text.len() <= SHORT {
            let (last, at) = self.last.get_or_insert_default();
            last.clear();
            last.push_str(text);
            *at = place;
        }
        bytes
    }

    /// The text of each row.
    pub(super) fn into_values(self) -> Vec<ByteArray> {
        let mut texts: Vec<(u32, Box<str>)> =
            self.places.into_iter().map(|(text, place)| (place, text)).collect();
        texts.sort_unstable_by_key(|(place, _)| *place);
        let texts: Vec<ByteArray> = texts
            .into_iter()
            .map(|(_, text)| ByteArray::from(text.into_boxed_bytes().into_vec()))
            .collect();
        self.rows.iter().filter_map(|place| texts.get(*place as usize).cloned()).collect()
    }
}

/// A type, and whether every row has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Long,
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
                Kind::Int => Values::Int(Vec::new()),
                Kind::Long => Values::Long(Vec::new()),
                Kind::Bool => Values::Bool(Vec::new()),
                Kind::Text => Values::Text(Texts::default()),
            },
            levels: optional.then(Vec::new),
        };
        Self { columns: columns.iter().map(column).collect(), at: 0, count: 0, bytes: 0 }
    }

    /// Goes to the next column; `present`: it gets a value.
    fn next(&mut self, present: bool) -> Option<&mut Values> {
        let at = self.at;
        self.at += 1;
        if self.at == self.columns.len() {
            self.at = 0;
            self.count += 1;
        }
        let column = self.columns.get_mut(at)?;
        debug_assert!(present || column.levels.is_some(), "column {at} lacks no value");
        if let Some(levels) = &mut column.levels {
            levels.push(i16::from(present));
        }
        present.then_some(&mut column.values)
    }

    pub(super) fn int(&mut self, value: impl Into<Option<i32>>) -> &mut Self {
        let value = value.into();
        if let (Some(Values::Int(values)), Some(value)) = (self.next(value.is_some()), value) {
            values.push(value);
        }
        self
    }

    pub(super) fn long(&mut self, value: impl Into<Option<i64>>) -> &mut Self {
        let value = value.into();
        if let (Some(Values::Long(values)), Some(value)) = (self.next(value.is_some()), value) {
            values.push(value);
        }
        self
    }

    pub(super) fn bool(&mut self, value: impl Into<Option<bool>>) -> &mut Self {
        let value = value.into();
        if let (Some(Values::Bool(values)), Some(value)) = (self.next(value.is_some()), value) {
            values.push(value);
        }
        self
    }

    pub(super) fn text<'a>(&mut self, value: impl Into<Option<&'a str>>) -> &mut Self {
        let value = value.into();
        let mut more = 0;
        if let (Some(Values::Text(texts)), Some(value)) = (self.next(value.is_some()), value) {
            more = texts.push(value);
        }
        self.bytes += more;
        self
    }

    /// A moment, UNIX time in ns: `ts` in microseconds and `ts_ns`.
    pub(super) fn time(&mut self, ns: i64) -> &mut Self {
        self.long(ns.div_euclid(1000)).long(ns)
    }
}
