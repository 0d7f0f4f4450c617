//! The table `shipped`: what of each hour is in the storage, and what is missing, and why. One
//! small file for each host and hour, written anew when anything of the hour changes.

use std::sync::Arc;

use flightrec_export::redact::Redact;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use serde::Serialize;

use crate::hour::Hour;
use crate::journal::{Item, Items, State};

/// Its columns. What exists stays as it is; a later release may add columns at the end.
pub(crate) const MESSAGE: &str = "message shipped {
    required int64 ts (TIMESTAMP(MICROS,true)); required int64 ts_ns; required int64 until_ns;
    required binary what (STRING); required binary id (STRING); required binary state (STRING);
    optional boolean complete; optional int64 missing; optional binary why (STRING);
    optional binary cause (STRING); optional int64 periods;
    required int64 objects; required int64 bytes; optional binary session (STRING);
    required binary shipper (STRING);
}";
/// Who wrote a row.
pub(crate) const SHIPPER: &str = concat!("flight-ship ", env!("CARGO_PKG_VERSION"));

/// A row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// `sums` or `snapshot`.
    pub what: &'static str,
    /// The hour, or the snapshot's id.
    pub id: String,
    /// What became of it ([`State::name`]).
    pub state: &'static str,
    /// What it is of, ns since 1970: start.
    pub since: i64,
    /// End.
    pub until: i64,
    /// Nothing of that is missing; `None`: not known.
    pub complete: Option<bool>,
    /// Events that are missing; `None`: not known.
    pub missing: Option<u64>,
    /// Why it is not there, or not whole.
    pub why: Option<String>,
    /// A snapshot's cause.
    pub cause: Option<String>,
    /// Periods of an hour.
    pub periods: Option<u64>,
    /// Objects in the storage.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The recording.
    pub session: Option<String>,
}

impl Row {
    fn new(what: &'static str, id: String, item: &Item, redact: &Redact) -> Self {
        let is_there = item.state == State::Shipped;
        let text = |text: &str| (!text.is_empty()).then(|| redact.text(text).into_owned());
        Self {
            what,
            id,
            state: item.state.name(),
            since: item.since,
            until: item.until,
            complete: if is_there { item.complete } else { Some(false) },
            missing: item.missing,
            why: text(&item.why),
            cause: text(&item.cause),
            periods: (what == "sums").then_some(item.periods),
            objects: if is_there { item.objects } else { 0 },
            bytes: if is_there { item.bytes } else { 0 },
            session: (item.session != 0).then(|| format!("{:016x}", item.session)),
        }
    }
}

/// The rows of an hour.
pub fn rows(hour: Hour, items: &Items, redact: &Redact) -> Vec<Row> {
    let sums = items.sums.iter().map(|item| Row::new("sums", hour.to_string(), item, redact));
    let snapshots = items.snapshots.iter();
    sums.chain(snapshots.map(|(id, item)| Row::new("snapshot", id.clone(), item, redact))).collect()
}

/// What tells rows from others.
pub fn checksum(rows: &[Row]) -> u32 {
    // There is nothing in them that could not be written.
    crc32fast::hash(&serde_json::to_vec(rows).unwrap_or_default())
}

/// The file of rows.
///
/// # Errors
/// None that such rows can cause.
pub fn file(rows: &[Row]) -> Result<Vec<u8>, ParquetError> {
    let schema = Arc::new(parse_message_type(MESSAGE)?);
    let properties = WriterProperties::builder()
        .set_created_by(SHIPPER.to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .build();
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let long = |of: fn(&Row) -> i64| rows.iter().map(move |row| Some(of(row)));
    let unsigned = |of: fn(&Row) -> Option<u64>| {
        rows.iter().map(move |row| of(row).map(|n| i64::try_from(n).unwrap_or(i64::MAX)))
    };
    let text = |of: fn(&Row) -> Option<&str>| rows.iter().map(of);
    longs(&mut group, long(|row| row.since.div_euclid(1000)))?;
    longs(&mut group, long(|row| row.since))?;
    longs(&mut group, long(|row| row.until))?;
    texts(&mut group, text(|row| Some(row.what)))?;
    texts(&mut group, text(|row| Some(&row.id)))?;
    texts(&mut group, text(|row| Some(row.state)))?;
    bools(&mut group, rows.iter().map(|row| row.complete))?;
    longs(&mut group, unsigned(|row| row.missing))?;
    texts(&mut group, text(|row| row.why.as_deref()))?;
    texts(&mut group, text(|row| row.cause.as_deref()))?;
    longs(&mut group, unsigned(|row| row.periods))?;
    longs(&mut group, unsigned(|row| Some(row.objects)))?;
    longs(&mut group, unsigned(|row| Some(row.bytes)))?;
    texts(&mut group, text(|row| row.session.as_deref()))?;
    texts(&mut group, text(|_| Some(SHIPPER)))?;
    group.close()?;
    writer.close()?;
    Ok(out)
}

type Group<'a, 'b> = SerializedRowGroupWriter<'a, &'b mut Vec<u8>>;

/// Values of a column, and which rows have one.
fn parted<T>(values: impl Iterator<Item = Option<T>>) -> (Vec<T>, Vec<i16>) {
    let (mut there, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        there.extend(value);
    }
    (there, levels)
}

fn longs(
    group: &mut Group<'_, '_>,
    values: impl Iterator<Item = Option<i64>>,
) -> Result<(), ParquetError> {
    let (values, levels) = parted(values);
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
    column.close()
}

fn bools(
    group: &mut Group<'_, '_>,
    values: impl Iterator<Item = Option<bool>>,
) -> Result<(), ParquetError> {
    let (values, levels) = parted(values);
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<BoolType>().write_batch(&values, Some(&levels), None)?;
    column.close()
}

fn texts<'a>(
    group: &mut Group<'_, '_>,
    values: impl Iterator<Item = Option<&'a str>>,
) -> Result<(), ParquetError> {
    let (values, levels) = parted(values.map(|text| text.map(ByteArray::from)));
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    use super::*;

    fn items() -> Items {
        let sums = Item {
            state: State::Shipped,
            since: 5_000_000,
            until: 9_000_000,
            complete: Some(true),
            missing: Some(0),
            periods: 60,
            objects: 1,
            bytes: 700,
            ..Item::default()
        };
        let lost = Item {
            state: State::Dropped,
            why: "flightd deleted /home/ada".into(),
            cause: "core_dump".into(),
            session: 0xab,
            objects: 9,
            ..Item::default()
        };
        let snapshots = [("a".to_owned(), lost)].into();
        Items { sums: Some(sums), snapshots, told: None }
    }

    #[test]
    fn what_is_there_and_what_is_missing() {
        let redact = Redact::new(&["/home/[a-z]+"]).unwrap();
        let hour: Hour = "2026-11-25T07".parse().unwrap();
        let rows = rows(hour, &items(), &redact);
        let bytes = file(&rows).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let read: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(read.len(), 2);
        for part in [
            "ts_ns: 5000000",
            "what: \"sums\"",
            "id: \"2026-11-25T07\"",
            "state: \"shipped\"",
            "complete: true",
            "missing: 0",
            "why: null",
            "periods: 60",
            "bytes: 700",
        ] {
            assert!(read[0].contains(part), "{part}: {}", read[0]);
        }
        for part in [
            "id: \"a\"",
            "state: \"dropped\"",
            "complete: false",
            "missing: null",
            "why: \"flightd deleted ***\"",
            "cause: \"core_dump\"",
            "objects: 0",
            "session: \"00000000000000ab\"",
            "periods: null",
        ] {
            assert!(read[1].contains(part), "{part}: {}", read[1]);
        }
    }

    #[test]
    fn the_same_rows_are_the_same_file() {
        let hour: Hour = "2026-11-25T07".parse().unwrap();
        let of = |items: &Items| rows(hour, items, &Redact::default());
        let (one, mut other) = (of(&items()), items());
        assert_eq!(checksum(&one), checksum(&of(&items())));
        assert_eq!(file(&one).unwrap(), file(&of(&items())).unwrap());
        other.snapshots.get_mut("a").unwrap().state = State::Shipped;
        assert_ne!(checksum(&one), checksum(&of(&other)));
        assert!(file(&[]).is_ok());
    }
}
