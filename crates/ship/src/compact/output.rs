//! A compacted file in the making.
//!
//! Hosts come one after the other, in the order of their names. Rows wait by what they are of
//! (`what`); when there are too many, those of the commonest kind become a group of rows. So a
//! group is of one kind and of hosts that are neighbours, its statistics say so, and engines skip
//! what a question does not need; and no more is in memory than that.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Type, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;

use super::rows::{Filled, Rows};
use super::tables::{Column, Table};
use crate::told::SHIPPER;

/// Most rows that wait. The fullest kind of eight then has an eighth of them or more.
const ROWS_MAX: usize = 1 << 19;
/// Rows of a group: as many as DuckDB, ClickHouse and Spark have in those that they write, about.
const GROUP_ROWS: usize = 1 << 17;
/// Most bytes of rows that wait.
const BYTES_MAX: usize = 64 << 20;
/// Of the level, as Parquet's users have it most often.
const ZSTD_LEVEL: i32 = 3;

/// What a file came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) rows: u64,
    pub(super) groups: u64,
    pub(super) bytes: u64,
}

/// A file.
pub(super) struct Output {
    columns: Vec<Column>,
    file: SerializedFileWriter<BufWriter<File>>,
    /// By what they are of.
    waiting: Vec<(Vec<u8>, Rows)>,
    written: Written,
}

impl Output {
    /// Begins one.
    pub(super) fn create(table: Table, path: &Path, inputs: &str) -> Result<Self, ParquetError> {
        let columns = table.columns()?;
        let file = BufWriter::with_capacity(1 << 18, File::create(path)?);
        let place = |name: &str| columns.iter().position(|column| column.name == name);
        let sorted = place("host").map(|at| SortingColumn {
            column_idx: at as i32,
            descending: false,
            nulls_first: false,
        });
        let inputs = KeyValue::new("flightrec.inputs".to_owned(), inputs.to_owned());
        let properties = WriterProperties::builder()
            .set_created_by(SHIPPER.to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_key_value_metadata(Some(vec![inputs]))
            .set_sorting_columns(sorted.map(|sorted| vec![sorted]))
            .build();
        let file = SerializedFileWriter::new(file, table.schema()?, Arc::new(properties))?;
        Ok(Self { columns, file, waiting: Vec::new(), written: Written::default() })
    }

    /// The rows of a kind, to be appended to.
    pub(super) fn rows(&mut self, what: &[u8]) -> &mut Rows {
        let known = self.waiting.iter().position(|(of, _)| of == what);
        let at = known.unwrap_or_else(|| {
            self.waiting.push((what.to_vec(), Rows::new(&self.columns)));
            self.waiting.len() - 1
        });
        &mut self.waiting[at].1
    }

    /// Bytes of what waits, about.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting.iter().map(|(_, rows)| rows.bytes()).sum()
    }

    /// Writes what there is enough of. To be called after each host.
    pub(super) fn settle(&mut self) -> Result<(), ParquetError> {
        loop {
            let count: usize = self.waiting.iter().map(|(_, rows)| rows.count).sum();
            let bytes = self.waiting_bytes();
            let of = |at: &usize| self.waiting.get(*at).map_or(0, |(_, rows)| rows.count);
            let Some(fullest) = (0..self.waiting.len()).max_by_key(of) else { return Ok(()) };
            let rows = of(&fullest);
            let is_due = rows >= GROUP_ROWS || count >= ROWS_MAX || bytes >= BYTES_MAX;
            if !is_due || rows == 0 {
                return Ok(());
            }
            let (_, rows) = self.waiting.swap_remove(fullest);
            self.write(&rows)?;
        }
    }

    fn write(&mut self, rows: &Rows) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for (values, column) in rows.columns.iter().zip(&self.columns) {
            let mut writer = group
                .next_column()?
                .ok_or_else(|| ParquetError::General(format!("no column {}", column.name)))?;
            write_column(writer.untyped(), values, column)?;
            writer.close()?;
        }
        group.close()?;
        self.written.rows += rows.count as u64;
        self.written.groups += 1;
        Ok(())
    }

    /// Writes what is left, and the file's end.
    pub(super) fn finish(mut self) -> Result<Written, ParquetError> {
        let mut left = std::mem::take(&mut self.waiting);
        left.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (_, rows) in left.iter().filter(|(_, rows)| rows.count > 0) {
            self.write(rows)?;
        }
        let file = self.file.into_inner()?;
        let file = file.into_inner().map_err(|e| ParquetError::External(Box::new(e)))?;
        let bytes = file.metadata()?.len();
        Ok(Written { bytes, ..self.written })
    }
}

fn write_column(
    writer: &mut ColumnWriter<'_>,
    filled: &Filled,
    column: &Column,
) -> Result<(), ParquetError> {
    let levels = |of: &[i16]| column.optional.then(|| of.to_vec());
    let written = match (writer, filled) {
        (ColumnWriter::BoolColumnWriter(writer), Filled::Bools(of, there)) => {
            writer.write_batch(of, levels(there).as_deref(), None)
        }
        (ColumnWriter::Int32ColumnWriter(writer), Filled::Longs(of, there)) => {
            let of: Vec<i32> = of.iter().map(|n| i32::try_from(*n).unwrap_or(i32::MAX)).collect();
            writer.write_batch(&of, levels(there).as_deref(), None)
        }
        (ColumnWriter::Int64ColumnWriter(writer), Filled::Longs(of, there)) => {
            writer.write_batch(of, levels(there).as_deref(), None)
        }
        (ColumnWriter::ByteArrayColumnWriter(writer), Filled::Texts(of, texts)) => {
            let there: Vec<i16> =
                of.iter().map(|number| i16::from(texts.get(*number).is_some())).collect();
            let all: Vec<ByteArray> =
                of.iter().filter_map(|n| texts.get(*n)).map(|t| t.clone().into()).collect();
            writer.write_batch(&all, levels(&there).as_deref(), None)
        }
        _ => return Err(ParquetError::General(format!("{} is {}", column.name, Type::INT64))),
    };
    written.map(drop)
}
