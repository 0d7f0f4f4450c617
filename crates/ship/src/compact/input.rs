//! A table that a host has shipped, read from its file's bytes, a group of rows at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use parquet::basic::Type;
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::schema::types::ColumnDescPtr;

use super::columns::{NONE, Texts, Values};
use super::tables::Column;

/// Most rows of a group: four times what flight-ship writes.
const GROUP_ROWS_MAX: i64 = 1 << 18;
/// Most rows of a file: more than an hour of minutes can have.
const ROWS_MAX: i64 = 1 << 21;

/// A group of rows: a column each that is asked for, or nothing where the file has none.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) columns: Vec<Option<Values>>,
    pub(super) rows: usize,
}

/// Reads a file: gives each group of rows to `take`. What is wrong with it is said in words;
/// groups before that were given. Returns the columns that it has and nobody asked for.
pub(super) fn read(
    bytes: Bytes,
    columns: &[Column],
    mut take: impl FnMut(Group) -> Result<(), String>,
) -> Result<Vec<String>, String> {
    // A decoder that meets bytes that it does not expect ends with an error; should it panic, the
    // file is none the less the cause, and the other hosts' files are to be read.
    let read = catch_unwind(AssertUnwindSafe(|| groups(bytes, columns, &mut take)));
    read.unwrap_or_else(|_| Err("it is damaged: it can't be decoded".to_owned()))
}

fn groups(
    bytes: Bytes,
    columns: &[Column],
    take: &mut impl FnMut(Group) -> Result<(), String>,
) -> Result<Vec<String>, String> {
    let damaged = |e: ParquetError| format!("it is damaged: {e}");
    let file = SerializedFileReader::new(bytes).map_err(damaged)?;
    let metadata = file.metadata();
    let schema = metadata.file_metadata().schema_descr_ptr();
    let has = schema.columns();
    let places = places(has, columns)?;
    let rows: i64 = metadata.row_groups().iter().map(|group| group.num_rows().max(0)).sum();
    let groups = metadata.row_groups().iter();
    let most = groups.map(RowGroupMetaData::num_rows).max().unwrap_or(0);
    if rows > ROWS_MAX || most > GROUP_ROWS_MAX {
        return Err(format!("it has {rows} rows, {most} in a group: more than an hour can have"));
    }
    for at in 0..file.num_row_groups() {
        let group = file.get_row_group(at).map_err(damaged)?;
        take(one(&*group, columns, &places)?)?;
    }
    let asked = |column: &&ColumnDescPtr| columns.iter().any(|of| of.name == column.name());
    let others = has.iter().filter(|column| !asked(column));
    Ok(others.map(|column| column.name().to_owned()).collect())
}

/// Which column of the file each is that is asked for.
fn places(has: &[ColumnDescPtr], columns: &[Column]) -> Result<Vec<Option<usize>>, String> {
    let place = |column: &Column| {
        let found = has.iter().position(|of| of.path().string() == column.name);
        match found.and_then(|at| Some((at, has.get(at)?))) {
            None if column.optional => Ok(None),
            None => Err(format!("it is of another schema: it has no column {}", column.name)),
            Some((at, of)) if of.physical_type() == column.physical && of.max_rep_level() == 0 => {
                Ok(Some(at))
            }
            Some((_, of)) => Err(format!(
                "it is of another schema: its column {} is {}, not {}",
                column.name,
                of.physical_type(),
                column.physical
            )),
        }
    };
    columns.iter().map(place).collect()
}

fn one(
    group: &dyn RowGroupReader,
    columns: &[Column],
    places: &[Option<usize>],
) -> Result<Group, String> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let mut read = Vec::with_capacity(columns.len());
    for (column, place) in columns.iter().zip(places) {
        let Some(place) = place else {
            read.push(None);
            continue;
        };
        let wrong =
            |e: &dyn std::fmt::Display| format!("it is damaged: its column {}: {e}", column.name);
        let reader = group.get_column_reader(*place).map_err(|e| wrong(&e))?;
        let values = values(reader, rows).map_err(|e| wrong(&e))?;
        if !column.optional && lacks(&values) {
            return Err(wrong(&"a value lacks that each row has"));
        }
        read.push(Some(values));
    }
    Ok(Group { columns: read, rows })
}

fn lacks(values: &Values) -> bool {
    match values {
        Values::Bools(of) => of.contains(&None),
        Values::Longs(of) => of.contains(&None),
        Values::Texts(of, _) => of.contains(&NONE),
    }
}

/// All values of a column.
fn values(reader: ColumnReader, rows: usize) -> Result<Values, ParquetError> {
    macro_rules! all {
        ($reader:expr) => {{
            let mut reader = $reader;
            let (mut levels, mut values) = (Vec::new(), Vec::new());
            let (mut read, mut found) = (0, 0);
            while read < rows {
                let (more, with, _) =
                    reader.read_records(rows - read, Some(&mut levels), None, &mut values)?;
                if more == 0 {
                    break;
                }
                (read, found) = (read + more, found + with);
            }
            if read != rows || found != values.len() {
                let what = format!("{read} values in place of {rows}");
                return Err(ParquetError::General(what));
            }
            // A column without levels has a value in each row.
            let mut values = values.into_iter();
            (0..rows).map(move |row| {
                let is_there = levels.is_empty() || levels.get(row).is_some_and(|l| *l > 0);
                if is_there { values.next() } else { None }
            })
        }};
    }
    Ok(match reader {
        ColumnReader::BoolColumnReader(reader) => Values::Bools(all!(reader).collect()),
        ColumnReader::Int32ColumnReader(reader) => {
            Values::Longs(all!(reader).map(|value: Option<i32>| value.map(i64::from)).collect())
        }
        ColumnReader::Int64ColumnReader(reader) => Values::Longs(all!(reader).collect()),
        ColumnReader::ByteArrayColumnReader(reader) => {
            let (mut texts, mut numbers) = (Texts::default(), Vec::with_capacity(rows));
            for value in all!(reader) {
                let value: Option<ByteArray> = value;
                numbers.push(match &value {
                    None => NONE,
                    Some(text) if std::str::from_utf8(text.data()).is_ok() => {
                        texts.number(text.data())
                    }
                    Some(_) => {
                        return Err(ParquetError::General("a text is not UTF-8".to_owned()));
                    }
                });
            }
            Values::Texts(numbers, texts)
        }
        _ => return Err(ParquetError::General(format!("not {}", Type::INT64))),
    })
}
