//! Writes rows to the tables' files, in a thread of its own: what comes next is made meanwhile.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use parquet::basic::{ConvertedType, Repetition, Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;

use super::chunk::Chunks;
use super::columns::{Derived, Kind, Rows};
use super::group;
use super::schema::Table;
use crate::exporter::ExportError;
use crate::redact::Redact;

/// Rows of a group: what is read and left out together, and what is in memory at once.
const GROUP_ROWS: usize = 1 << 16;
/// Most bytes of texts in a group, as they come.
const GROUP_BYTES: usize = 6 << 20;
/// Of a recording of builds, level 4 makes 8.1 bytes an event, 5 makes 7.9 and 6 makes 7.8, each in
/// more time; the thread that writes has time left.
const ZSTD_LEVEL: i32 = 5;

/// The tables in the making.
pub(super) struct Writer {
    tables: Vec<Pending>,
    queue: Option<SyncSender<(usize, Rows)>>,
    /// What has been written, to be filled again.
    spare: Receiver<(usize, Rows)>,
    thread: Option<JoinHandle<Result<(), ExportError>>>,
}

/// A table's rows that wait, and the columns that they have.
struct Pending {
    columns: Vec<(Kind, bool)>,
    rows: Rows,
    /// Rows that were written.
    spare: Option<Rows>,
}

/// A table's file.
pub(super) type Sink = SerializedFileWriter<BufWriter<File>>;

impl Writer {
    /// Begins tables in a directory that exists; rows of others go nowhere. Texts are written
    /// without what is hidden.
    pub(super) fn new(dir: &Path, wanted: &[Table], redact: Redact) -> Result<Self, ExportError> {
        let mut tables = Vec::new();
        let mut files = Vec::new();
        for table in Table::ALL {
            let path = dir.join(format!("{}.parquet", table.name()));
            let schema = parse_message_type(table.message())
                .map(TypePtr::new)
                .map_err(|e| failed(&path, e))?;
            let columns: Vec<(Kind, bool)> =
                schema.get_fields().iter().map(|field| column(table, field)).collect();
            let rows = Rows::new(&columns);
            tables.push(Pending { columns, rows, spare: None });
            if !wanted.contains(&table) {
                files.push(None);
                continue;
            }
            let file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&path);
            let file = BufWriter::with_capacity(1 << 18, file.map_err(|e| unwritable(&path, e))?);
            let sink = SerializedFileWriter::new(file, schema, Arc::new(properties()))
                .map_err(|e| failed(&path, e))?;
            files.push(Some((path, sink)));
        }
        let (queue, batches) = sync_channel(1);
        let (empty, spare) = channel();
        let thread = thread::Builder::new()
            .name("parquet".to_owned())
            .spawn(move || write(files, &batches, &empty, &redact))
            .map_err(|e| unwritable(dir, e))?;
        Ok(Self { tables, queue: Some(queue), spare, thread: Some(thread) })
    }

    /// Where a row of a table goes.
    pub(super) fn rows(&mut self, table: Table) -> &mut Rows {
        // One for each of `Table::ALL`, in its order.
        &mut self.tables[table as usize].rows
    }

    /// Writes the tables that have rows enough. `go_on`: takes what is to be kept of a table's rows
    /// that are written into those that come next.
    pub(super) fn flush(
        &mut self,
        mut go_on: impl FnMut(Table, &Rows, &mut Rows),
    ) -> Result<(), ExportError> {
        for (at, table) in Table::ALL.into_iter().enumerate() {
            let is_due = self.tables.get(at).is_some_and(|Pending { rows, .. }| {
                rows.count >= GROUP_ROWS || rows.bytes >= GROUP_BYTES && rows.count > 0
            });
            if is_due {
                self.send(at, |before, rows| go_on(table, before, rows))?;
            }
        }
        Ok(())
    }

    fn send(&mut self, at: usize, go_on: impl FnOnce(&Rows, &mut Rows)) -> Result<(), ExportError> {
        while let Ok((of, rows)) = self.spare.try_recv() {
            if let Some(table) = self.tables.get_mut(of) {
                table.spare = Some(rows);
            }
        }
        let Some(Pending { columns, rows, spare }) = self.tables.get_mut(at) else { return Ok(()) };
        let mut next = spare.take().unwrap_or_else(|| Rows::new(columns));
        go_on(rows, &mut next);
        // What goes on is not what the next ones are made of: it is as much again then.
        next.bytes = 0;
        let rows = std::mem::replace(rows, next);
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send((at, rows)).is_ok());
        // Nobody takes it: the thread has ended, with its reason.
        if sent { Ok(()) } else { self.join() }
    }

    /// Writes what is left, and the ends of the files.
    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        for at in 0..self.tables.len() {
            self.send(at, |_, _| ())?;
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
    let kind = match (field.name(), field.get_physical_type()) {
        ("ts", _) => Kind::Derived(Derived::Micros),
        ("tid", _) if table.has_who() => Kind::Who,
        ("pid", _) if table.has_who() => Kind::Derived(Derived::Pid),
        ("comm", _) if table.has_who() => Kind::Derived(Derived::Comm),
        (_, Type::INT32) => Kind::Int,
        (name, Type::INT64) if table.deltas().contains(&name) => Kind::Time,
        (_, Type::INT64) => Kind::Long,
        (_, Type::BOOLEAN) => Kind::Bool,
        _ => Kind::Text,
    };
    debug_assert!(kind != Kind::Text || info.converted_type() == ConvertedType::UTF8);
    (kind, info.repetition() == Repetition::OPTIONAL)
}

/// Of the files: what groups of rows are like is in [`group`] and [`Chunks`].
fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_created_by(concat!("flightrec ", env!("CARGO_PKG_VERSION")).to_owned())
        // A column's page is all that it has in a group.
        .set_offset_index_disabled(true)
        .build()
}

/// Writes batches until no more come.
fn write(
    mut files: Vec<Option<(PathBuf, Sink)>>,
    batches: &Receiver<(usize, Rows)>,
    empty: &Sender<(usize, Rows)>,
    redact: &Redact,
) -> Result<(), ExportError> {
    let mut chunks: Option<Chunks> = None;
    while let Ok((at, mut rows)) = batches.recv() {
        let Some(Some((path, sink))) = files.get_mut(at) else { continue };
        if rows.count == 0 {
            continue;
        }
        let chunks = match &mut chunks {
            Some(chunks) => chunks,
            none => none.insert(Chunks::new(ZSTD_LEVEL).map_err(|e| failed(path, e))?),
        };
        let Some(table) = Table::ALL.get(at) else { continue };
        if table.by_beginning() {
            rows.sort();
        }
        let texts = |column: &str| table.text(column);
        group::write(sink, &rows, chunks, (texts, redact)).map_err(|e| failed(path, e))?;
        rows.clear();
        // Who fills them may have ended.
        let _ = empty.send((at, rows));
    }
    for (path, sink) in files.into_iter().flatten() {
        sink.close().map_err(|e| failed(&path, e))?;
    }
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
