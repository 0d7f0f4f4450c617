//! In which order the rows of a host are written: by kind and by keys, then by time, so that
//! neighbours are alike and take little room.

use std::ops::Range;

use super::columns::{NONE, Values};
use super::input::Group;
use super::tables::Column;

/// The columns of texts that rows are ordered by; the first tells the kind.
const KEYS: [&str; 7] = ["what", "unit", "call", "error", "op", "reason", "device"];

/// Rows in order, and where those of each kind are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) rows: Vec<u32>,
    pub(super) kinds: Vec<(Vec<u8>, Range<usize>)>,
}

/// The order of a group of rows.
pub(super) fn order(columns: &[Column], group: &Group) -> Order {
    let get = |name: &str| {
        let at = columns.iter().position(|column| column.name == name)?;
        group.columns.get(at)?.as_ref()
    };
    let ranks = KEYS.map(|name| get(name).map(ranks).unwrap_or_default());
    let (cpus, times) = (get("cpu"), get("ts_ns"));
    let long = |of: Option<&Values>, row| of.and_then(|of| of.long(row));
    let key = |row: &u32| {
        let row = *row as usize;
        let keys = ranks.each_ref().map(|ranks| ranks.get(row).copied().unwrap_or(0));
        (keys, long(cpus, row), long(times, row))
    };
    let mut rows: Vec<u32> = (0..group.rows as u32).collect();
    rows.sort_by_cached_key(key);
    let what = get("what");
    let kind = |row: &u32| what.and_then(|what| what.text(*row as usize));
    let mut kinds = Vec::new();
    let mut from = 0;
    for same in rows.chunk_by(|a, b| kind(a) == kind(b)) {
        let until = from + same.len();
        let name = same.first().and_then(kind).map(|name| name.to_vec());
        kinds.push((name.unwrap_or_default(), from..until));
        from = until;
    }
    Order { rows, kinds }
}

/// By row, where its text is among all of the column's, in order; 0: it has none.
fn ranks(values: &Values) -> Vec<u32> {
    let Values::Texts(rows, texts) = values else { return Vec::new() };
    let mut numbers: Vec<u32> = (0..texts.count()).collect();
    numbers.sort_by(|a, b| texts.get(*a).cmp(&texts.get(*b)));
    let mut by_number = vec![0; numbers.len()];
    for (rank, number) in (1..).zip(&numbers) {
        if let Some(place) = by_number.get_mut(*number as usize) {
            *place = rank;
        }
    }
    let rank = |number: &u32| match *number {
        NONE => 0,
        number => by_number.get(number as usize).copied().unwrap_or(0),
    };
    rows.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use parquet::basic::Type;

    use super::super::columns::Texts;
    use super::*;

    #[test]
    fn by_kind_then_by_keys_then_by_time() {
        let column = |name: &str, physical| Column { name: name.into(), physical, optional: true };
        let columns = [
            column("ts_ns", Type::INT64),
            column("what", Type::BYTE_ARRAY),
            column("unit", Type::BYTE_ARRAY),
        ];
        let rows: [(i64, &str, &str); 5] = [
            (2, "wait", "b"),
            (1, "call", "b"),
            (2, "call", "a"),
            (1, "wait", "b"),
            (1, "call", "a"),
        ];
        let texts = |of: fn(&(i64, &'static str, &'static str)) -> &'static str| {
            let mut texts = Texts::default();
            let numbers = rows.iter().map(|row| texts.number(of(row).as_bytes())).collect();
            Some(Values::Texts(numbers, texts))
        };
        let times = Values::Longs(rows.iter().map(|row| Some(row.0)).collect());
        let columns_read = vec![Some(times), texts(|row| row.1), texts(|row| row.2)];
        let group = Group { columns: columns_read, rows: rows.len() };
        let order = order(&columns, &group);
        assert_eq!(order.rows, [4, 2, 1, 3, 0]);
        let kinds = [(b"call".to_vec(), 0..3), (b"wait".to_vec(), 3..5)];
        assert_eq!(order.kinds, kinds);
    }
}
