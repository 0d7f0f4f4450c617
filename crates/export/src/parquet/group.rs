//! A group of rows, as a table's file has it.

use parquet::errors::ParquetError;

use super::chunk::{Chunks, Content};
use super::columns::{Column, Derived, Rows, Values};
use super::dictionary::{self, Places};
use super::schema::Text;
use super::who::{Who, sorted};
use super::writer::Sink;
use crate::redact::Redact;

/// Writes a group. `texts`: what the columns' texts are, by their names; of these, what is hidden
/// is left out.
pub(super) fn write(
    sink: &mut Sink,
    rows: &Rows,
    chunks: &mut Chunks,
    (texts, redact): (impl Fn(&str) -> Text, &Redact),
) -> Result<(), ParquetError> {
    let schema = sink.schema_descr().columns().to_vec();
    let mut group = sink.next_row_group()?;
    let who = rows.columns.iter().find_map(|column| match &column.values {
        Values::Who(who) => Some(who),
        _ => None,
    });
    let mut levels = Vec::new();
    for (at, (column, descriptor)) in rows.columns.iter().zip(&schema).enumerate() {
        let levels = column.rows.as_ref().map(|values| {
            levels.clear();
            levels.resize(rows.count, 0);
            for row in values {
                if let Some(level) = levels.get_mut(*row as usize) {
                    *level = 1;
                }
            }
            &*levels
        });
        let once = |places: &Places, range, chunks: &mut Chunks| {
            chunks.chunk(descriptor, Content::Once { places, levels, range })
        };
        let hidden = |places: Places| match texts(descriptor.name()) {
            _ if redact.is_none() => places,
            Text::Own => places,
            Text::Any => places.with_texts(|text| redact.text(text)),
            Text::Json => places.with_texts(|text| redact.json(text)),
        };
        let (bytes, close) = match &column.values {
            Values::Derived(Derived::Micros) => {
                let micros = micros(rows.columns.get(at + 1));
                chunks.chunk(descriptor, Content::Deltas(&micros))?
            }
            Values::Derived(Derived::Pid) => {
                let (places, range) = who.map(Who::pids).unwrap_or_default();
                once(&places, range, chunks)?
            }
            Values::Derived(Derived::Comm) => {
                once(&hidden(who.map(Who::comms).unwrap_or_default()), None, chunks)?
            }
            Values::Times(of) => chunks.chunk(descriptor, Content::Deltas(of))?,
            Values::Bools(of) => chunks.chunk(descriptor, Content::Bools(of))?,
            Values::Who(who) => {
                let (places, range) = who.tids();
                once(&places, range, chunks)?
            }
            Values::Numbers(width, of) => {
                let (places, range) = dictionary::numbers(*width, of);
                once(&places, range, chunks)?
            }
            Values::Texts(of) => once(&hidden(of.places()), None, chunks)?,
        };
        group.append_column(&bytes, close)?;
    }
    group.close()?;
    Ok(())
}

/// Nanoseconds of a column as microseconds.
fn micros(column: Option<&Column>) -> Vec<i64> {
    match column.map(|column| &column.values) {
        Some(Values::Times(of)) => of.iter().map(|ns| ns.div_euclid(1000)).collect(),
        _ => Vec::new(),
    }
}

impl Rows {
    /// Puts the rows in the order of their times; those of one time stay as they are.
    pub(super) fn sort(&mut self) {
        let times = self.columns.iter().find_map(|column| match &column.values {
            Values::Times(of) => Some(of),
            _ => None,
        });
        let Some(times) = times.filter(|times| !times.is_sorted()) else { return };
        let mut by_time: Vec<(i64, u32)> = times.iter().copied().zip(0..).collect();
        by_time.sort_unstable();
        let order: Vec<u32> = by_time.into_iter().map(|(_, row)| row).collect();
        self.columns.iter_mut().for_each(|column| column.sort(&order));
    }
}

impl Column {
    /// Puts its rows in another order: where each of them comes from.
    fn sort(&mut self, order: &[u32]) {
        let mut values = None;
        if let Some(rows) = &mut self.rows {
            if rows.is_empty() {
                return;
            }
            // By row, its value.
            let mut places = vec![u32::MAX; order.len()];
            for (value, row) in (0..).zip(&*rows) {
                if let Some(place) = places.get_mut(*row as usize) {
                    *place = value;
                }
            }
            rows.clear();
            let mut of = Vec::with_capacity(rows.capacity());
            for (row, before) in (0..).zip(order) {
                match places.get(*before as usize) {
                    Some(value) if *value != u32::MAX => {
                        rows.push(row);
                        of.push(*value);
                    }
                    _ => {}
                }
            }
            values = Some(of);
        }
        let order = values.as_deref().unwrap_or(order);
        match &mut self.values {
            Values::Derived(_) => {}
            Values::Times(of) | Values::Numbers(_, of) => *of = sorted(of, order),
            Values::Bools(of) => *of = sorted(of, order),
            Values::Texts(of) => {
                let rows = sorted(of.rows(), order);
                *of.rows() = rows;
            }
            Values::Who(who) => who.sort(order),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::Kind;
    use super::*;

    #[test]
    fn rows_are_sorted_with_all_that_they_have() {
        let columns = [(Kind::Time, false), (Kind::Int, true), (Kind::Text, false)];
        let mut rows = Rows::new(&columns);
        let given: [(i64, Option<i32>, &str); 4] = [
            (5, Some(50), "five"),
            (3, None, "three"),
            (4, Some(40), "four"),
            (3, Some(30), "and"),
        ];
        for (time, number, text) in given {
            rows.long(time).int(number).text(text);
        }
        rows.sort();
        let [times, numbers, texts] = &mut rows.columns[..] else { panic!("three columns") };
        let Values::Times(times) = &times.values else { panic!("times") };
        assert_eq!(*times, [3, 3, 4, 5]);
        assert_eq!(numbers.rows.as_deref(), Some(&[1, 2, 3][..]));
        let Values::Numbers(_, numbers) = &numbers.values else { panic!("numbers") };
        assert_eq!(*numbers, [30, 40, 50]);
        let Values::Texts(texts) = &mut texts.values else { panic!("texts") };
        let places = texts.rows().clone();
        let read: Vec<&str> = places.iter().map(|place| texts.text(*place)).collect();
        assert_eq!(read, ["three", "and", "four", "five"]);
    }
}
