//! Writes rows to the tables' files, in a thread of its own: what comes next is made meanwhile.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use parquet::basic::{Compression, ConvertedType, Encoding, Repetition, Type, ZstdLevel};
use parquet::data_type::{BoolType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};

use super::chunk::Chunks;
use super::columns::{Kind, Rows, Values};
use super::dictionary;
use super::schema::Table;
use crate::exporter::ExportError;

/// Rows of a group: what is read and left out together, and what is in memory at once.
const GROUP_ROWS: usize = 1 << 16;
/// Most bytes of texts in a group, as they come.
const GROUP_BYTES: usize = 8 << 20;
/// Bytes of a page, within a group's column.
const PAGE_BYTES: usize = 1 << 20;
/// The library's own default.
const ZSTD_LEVEL: i32 = 3;

/// The tables in the making.
pub(super) struct Writer {
    tables: Vec<Pending>,
    queue: Option<SyncSender<(usize, Rows)>>,
    thread: Option<JoinHandle<Result<(), ExportError>>>,
}

/// A table's rows that wait, and the columns that they have.
struct Pending {
    columns: Vec<(Kind, bool)>,
    rows: Rows,
}

/// A table's file.
type Sink = SerializedFileWriter<BufWriter<File>>;

impl Writer {
    /// Begins the tables in a directory that exists.
    pub(super) fn new(dir: &Path) -> Result<Self, ExportError> {
        let mut tables = Vec::new();
        let mut files = Vec::new();
        for table in Table::ALL {
            let path = dir.join(format!("{}.parquet", table.name()));
            let schema = parse_message_type(table.message())
                .map(TypePtr::new)
                .map_err(|e| failed(&path, e))?;
            let columns: Vec<(Kind, bool)> =
                schema.get_fields().iter().map(|field| column(table, field)).collect();
            let file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&path);
            let file = BufWriter::with_capacity(1 << 18, file.map_err(|e| unwritable(&path, e))?);
            let properties = properties(table);
            let sink = SerializedFileWriter::new(file, schema, Arc::new(properties))
                .map_err(|e| failed(&path, e))?;
            let rows = Rows::new(&columns);
            tables.push(Pending { columns, rows });
            files.push((path, sink));
        }
        let (queue, batches) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("parquet".to_owned())
            .spawn(move || write(files, &batches))
            .map_err(|e| unwritable(dir, e))?;
        Ok(Self { tables, queue: Some(queue), thread: Some(thread) })
    }

    /// Where a row of a table goes.
    pub(super) fn rows(&mut self, table: Table) -> &mut Rows {
        // One for each of `Table::ALL`, in its order.
        &mut self.tables[table as usize].rows
    }

    /// Writes the tables that have rows enough.
    pub(super) fn flush(&mut self) -> Result<(), ExportError> {
        for at in 0..self.tables.len() {
            let is_due = self.tables.get(at).is_some_and(|Pending { rows, .. }| {
                rows.count >= GROUP_ROWS || rows.bytes >= GROUP_BYTES
            });
            if is_due {
                self.send(at)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, at: usize) -> Result<(), ExportError> {
        let Some(Pending { columns, rows }) = self.tables.get_mut(at) else { return Ok(()) };
        let rows = std::mem::replace(rows, Rows::new(columns));
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send((at, rows)).is_ok());
        // Nobody takes it: the thread has ended, with its reason.
        if sent { Ok(()) } else { self.join() }
    }

    /// Writes what is left, and the ends of the files.
    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        for at in 0..self.tables.len() {
            self.send(at)?;
        }
        self.join()
    }

    fn join(&mut self) -> Result<(), ExportError> {
        self.queue = None;
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(result)) => result,
            Some(Err(_)) | None => Err(ExportError::Io {
                what: "writing the tables".to_owned(),
                source: io::Error::other("the thread that writes them has ended"),
            }),
        }
    }
}

/// The type of a column, and whether it may lack values.
fn column(table: Table, field: &TypePtr) -> (Kind, bool) {
    let info = field.get_basic_info();
    let kind = match field.get_physical_type() {
        Type::INT32 => Kind::Int,
        Type::INT64 if table.deltas().contains(&field.name()) => Kind::Time,
        Type::INT64 => Kind::Long,
        Type::BOOLEAN => Kind::Bool,
        _ => Kind::Text,
    };
    debug_assert!(kind != Kind::Text || info.converted_type() == ConvertedType::UTF8);
    (kind, info.repetition() == Repetition::OPTIONAL)
}

fn properties(table: Table) -> WriterProperties {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).unwrap_or_default();
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("flightrec ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_data_page_row_count_limit(GROUP_ROWS)
        // A column's page is all that it has in a group.
        .set_offset_index_disabled(true);
    for name in table.deltas() {
        properties = properties
            .set_column_dictionary_enabled(ColumnPath::from(*name), false)
            .set_column_encoding(ColumnPath::from(*name), Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

/// Writes batches until no more come.
fn write(
    mut files: Vec<(PathBuf, Sink)>,
    batches: &Receiver<(usize, Rows)>,
) -> Result<(), ExportError> {
    let mut chunks: Option<Chunks> = None;
    while let Ok((at, rows)) = batches.recv() {
        let Some((path, sink)) = files.get_mut(at) else { continue };
        if rows.count == 0 {
            continue;
        }
        let chunks = match &mut chunks {
            Some(chunks) => chunks,
            none => none.insert(Chunks::new(ZSTD_LEVEL).map_err(|e| failed(path, e))?),
        };
        group(sink, rows, chunks).map_err(|e| failed(path, e))?;
    }
    for (path, sink) in files {
        sink.close().map_err(|e| failed(&path, e))?;
    }
    Ok(())
}

/// Writes a group of rows.
fn group(sink: &mut Sink, rows: Rows, chunks: &mut Chunks) -> Result<(), ParquetError> {
    let schema = sink.schema_descr().columns().to_vec();
    let mut group = sink.next_row_group()?;
    let count = rows.count;
    for (mut column, descriptor) in rows.columns.into_iter().zip(&schema) {
        if let Some(levels) = &mut column.levels {
            levels.resize(count, 0);
        }
        let levels = column.levels.as_deref();
        let (places, range) = match &column.values {
            Values::Times(of) => {
                let Some(mut writer) = group.next_column()? else { break };
                writer.typed::<Int64Type>().write_batch(of, None, None)?;
                writer.close()?;
                continue;
            }
            Values::Bools(of) => {
                let Some(mut writer) = group.next_column()? else { break };
                writer.typed::<BoolType>().write_batch(of, None, None)?;
                writer.close()?;
                continue;
            }
            Values::Numbers(width, of) => dictionary::numbers(*width, of),
            Values::Texts(of) => (of.places(), None),
        };
        let (bytes, close) = chunks.chunk(descriptor, &places, levels, range)?;
        group.append_column(&bytes, close)?;
    }
    group.close()?;
    Ok(())
}

fn unwritable(path: &Path, source: io::Error) -> ExportError {
    ExportError::Io { what: format!("can't write {}", path.display()), source }
}

/// An error of the library, which wraps those of the system.
fn failed(path: &Path, error: ParquetError) -> ExportError {
    let source = match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    };
    unwritable(path, source)
}
