//! Rows of a table that wait to be written, by column: as Parquet's writers take them.

use bytes::Bytes;
use parquet::basic::Type;
use rustc_hash::FxHashMap;

use super::columns::{NONE, Texts, Values};
use super::tables;

/// Values of a column that are there, and by row whether there is one: 1, or 0.
#[derive(Debug)]
pub(super) enum Filled {
    Bools(Vec<bool>, Vec<i16>),
    Longs(Vec<i64>, Vec<i16>),
    /// By row, the number of its text.
    Texts(Vec<u32>, Texts),
}

impl Filled {
    /// None, of a column of that type.
    fn of(physical: Type) -> Self {
        match physical {
            Type::BOOLEAN => Self::Bools(Vec::new(), Vec::new()),
            Type::BYTE_ARRAY => Self::Texts(Vec::new(), Texts::default()),
            _ => Self::Longs(Vec::new(), Vec::new()),
        }
    }

    /// Appends nothing, so many times.
    fn none(&mut self, count: usize) {
        match self {
            Self::Bools(_, levels) | Self::Longs(_, levels) => {
                levels.resize(levels.len() + count, 0);
            }
            Self::Texts(rows, _) => rows.resize(rows.len() + count, NONE),
        }
    }

    /// Appends rows of a column of the same type.
    fn take(&mut self, from: &Values, rows: &[u32]) {
        let at = |row: &u32| *row as usize;
        match (self, from) {
            (Self::Bools(values, levels), Values::Bools(from)) => {
                for row in rows {
                    push(values, levels, from.get(at(row)).copied().flatten());
                }
            }
            (Self::Longs(values, levels), Values::Longs(from)) => {
                for row in rows {
                    push(values, levels, from.get(at(row)).copied().flatten());
                }
            }
            (Self::Texts(to, texts), Values::Texts(from, other)) => {
                let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
                let mut last = (NONE, NONE);
                for row in rows {
                    let number = from.get(at(row)).copied().unwrap_or(NONE);
                    if number != last.0 {
                        let new = *numbers.entry(number).or_insert_with(|| {
                            other.get(number).map_or(NONE, |text| texts.number(text))
                        });
                        last = (number, new);
                    }
                    to.push(last.1);
                }
            }
            (to, _) => to.none(rows.len()),
        }
    }

    /// Bytes that it takes, about.
    fn bytes(&self) -> usize {
        match self {
            Self::Bools(values, levels) => values.len() + size_of_val(&**levels),
            Self::Longs(values, levels) => size_of_val(&**values) + size_of_val(&**levels),
            Self::Texts(rows, texts) => size_of_val(&**rows) + texts.bytes(),
        }
    }
}

fn push<T>(values: &mut Vec<T>, levels: &mut Vec<i16>, value: Option<T>) {
    levels.push(i16::from(value.is_some()));
    values.extend(value);
}

/// Rows of a table. Values are appended in the order of the columns.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) columns: Vec<Filled>,
    at: usize,
    /// How many are whole.
    pub(super) count: usize,
}

impl Rows {
    /// None, of these columns.
    pub(super) fn new(columns: &[tables::Column]) -> Self {
        let columns = columns.iter().map(|column| Filled::of(column.physical)).collect();
        Self { columns, at: 0, count: 0 }
    }

    /// Bytes that they take, about.
    pub(super) fn bytes(&self) -> usize {
        self.columns.iter().map(Filled::bytes).sum()
    }

    fn next(&mut self) -> Option<&mut Filled> {
        let at = self.at;
        self.at += 1;
        if self.at >= self.columns.len() {
            (self.at, self.count) = (0, self.count + 1);
        }
        self.columns.get_mut(at)
    }

    /// Appends a text.
    pub(super) fn text(&mut self, text: Option<&Bytes>) -> &mut Self {
        if let Some(Filled::Texts(rows, texts)) = self.next() {
            rows.push(text.map_or(NONE, |text| texts.number(text)));
        }
        self
    }

    /// Appends a text that is there.
    pub(super) fn word(&mut self, text: &[u8]) -> &mut Self {
        if let Some(Filled::Texts(rows, texts)) = self.next() {
            rows.push(texts.number(text));
        }
        self
    }

    /// Appends a number.
    pub(super) fn long(&mut self, value: impl Into<Option<i64>>) -> &mut Self {
        if let Some(Filled::Longs(values, levels)) = self.next() {
            push(values, levels, value.into());
        }
        self
    }

    /// Appends what is true or not.
    pub(super) fn bool(&mut self, value: bool) -> &mut Self {
        if let Some(Filled::Bools(values, levels)) = self.next() {
            push(values, levels, Some(value));
        }
        self
    }

    /// Appends rows of a host's table: after what each begins with, the columns that are there;
    /// the others have nothing.
    pub(super) fn take(&mut self, begin: [&[u8]; 2], from: &[Option<Values>], rows: &[u32]) {
        for (to, text) in self.columns.iter_mut().zip(begin) {
            if let Filled::Texts(of, texts) = to {
                let number = texts.number(text);
                of.resize(of.len() + rows.len(), number);
            }
        }
        for (to, from) in self.columns.iter_mut().skip(begin.len()).zip(from) {
            match from {
                Some(from) => to.take(from, rows),
                None => to.none(rows.len()),
            }
        }
        self.count += rows.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_host_are_taken_in_another_order() {
        let column =
            |name: &str, physical| tables::Column { name: name.into(), physical, optional: true };
        let columns = [
            column("host", Type::BYTE_ARRAY),
            column("machine", Type::BYTE_ARRAY),
            column("unit", Type::BYTE_ARRAY),
            column("count", Type::INT64),
            column("new", Type::BOOLEAN),
        ];
        let mut texts = Texts::default();
        let numbers = vec![texts.number(b"b"), NONE, texts.number(b"a"), texts.number(b"b")];
        let from = [
            Some(Values::Texts(numbers, texts)),
            Some(Values::Longs(vec![Some(1), Some(2), None, Some(4)])),
            None,
        ];
        let mut rows = Rows::new(&columns);
        rows.take([b"web1", b"00"], &from, &[3, 1, 2]);
        rows.word(b"web2").word(b"01").text(None).long(7).bool(true);
        assert_eq!(rows.count, 4);
        let [Filled::Texts(hosts, names), _, Filled::Texts(units, texts), counts, new] =
            &rows.columns[..]
        else {
            panic!("{rows:?}")
        };
        let name = |number: &u32| names.get(*number).map(|text| text.to_vec());
        assert_eq!(
            hosts.iter().map(name).collect::<Vec<_>>()[2..],
            [Some(b"web1".to_vec()), Some(b"web2".to_vec())]
        );
        let unit = |number: &u32| texts.get(*number).map(|text| text.to_vec());
        let expected = [Some(b"b".to_vec()), None, Some(b"a".to_vec()), None];
        assert_eq!(units.iter().map(unit).collect::<Vec<_>>(), expected);
        let Filled::Longs(values, levels) = counts else { panic!("{counts:?}") };
        assert_eq!((&values[..], &levels[..]), (&[4, 2, 7][..], &[1, 1, 0, 1][..]));
        let Filled::Bools(values, levels) = new else { panic!("{new:?}") };
        assert_eq!((&values[..], &levels[..]), (&[true][..], &[0, 0, 0, 1][..]));
        assert!(rows.bytes() > 100);
    }
}
