//! The columns and the frame around them: version, number of pages, the columns' lengths, their
//! bytes.

use super::ColumnsError;

/// First byte of encoded pages.
const VERSION: u8 = 1;
/// Number of columns.
pub(super) const COLUMNS: usize = 38;
/// A block of a zstd frame ends before and after a column of at least this many bytes, so that
/// each of the large ones gets an entropy table of its own. Less does not pay for the table.
const OWN_BLOCK: usize = 4096;

/// What is stored together, in the order of the encoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Column {
    /// Low bits of intervals: noise, which nothing makes smaller.
    Bits,
    /// Intervals between events.
    Gap,
    /// How long calls took, and the times before them, by the number of their bits.
    Ticks,
    /// What each item is.
    Op,
    /// Of calls: what was not as predicted.
    Miss,
    Shape,
    CallLow,
    CallHigh,
    Count,
    /// Of calls: in which bytes a word of arguments differs, and these.
    Source,
    Value,
    /// The same of results.
    ResultSource,
    Result,
    /// Threads.
    Thread,
    NewThread,
    /// Time bases.
    Time,
    /// Scheduling events.
    Sched,
    Prev,
    Priority,
    State,
    Cpu,
    /// Other records.
    Plain,
    PlainLength,
    PlainHead,
    PlainMask,
    PlainBytes,
    /// Strings.
    String,
    StringAux,
    StringLow,
    StringHigh,
    StringShared,
    StringLength,
    Text,
    /// Page headers.
    Header,
    HeaderField,
    Base,
    Used,
    /// What of pages can't be read as records.
    Raw,
}

const _: () = assert!(Column::Raw as usize + 1 == COLUMNS);

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Appends the columns of `pages` pages.
pub(super) fn put(pages: usize, columns: &[Vec<u8>; COLUMNS], out: &mut Vec<u8>) {
    out.push(VERSION);
    put_varint(pages as u64, out);
    put_varint(COLUMNS as u64, out);
    for column in columns {
        put_varint(column.len() as u64, out);
    }
    for column in columns {
        out.extend_from_slice(column);
    }
}

/// Encoded pages, before anything of the columns is read.
pub(super) struct Encoded<'a> {
    pub(super) pages: u64,
    pub(super) columns: [&'a [u8]; COLUMNS],
}

/// Takes encoded pages apart.
pub(super) fn take(mut bytes: &[u8]) -> Result<Encoded<'_>, ColumnsError> {
    let (version, rest) = bytes.split_first().ok_or(ColumnsError::Cut)?;
    if *version != VERSION {
        return Err(ColumnsError::Version(*version));
    }
    bytes = rest;
    let pages = take_varint(&mut bytes).ok_or(ColumnsError::Cut)?;
    let count = take_varint(&mut bytes).ok_or(ColumnsError::Cut)?;
    if count != COLUMNS as u64 {
        return Err(ColumnsError::Columns(count));
    }
    let mut lengths = [0; COLUMNS];
    for length in &mut lengths {
        *length = take_varint(&mut bytes).ok_or(ColumnsError::Cut)?;
    }
    let mut columns = [&[][..]; COLUMNS];
    for (column, length) in columns.iter_mut().zip(lengths) {
        let length = usize::try_from(length).map_err(|_| ColumnsError::Cut)?;
        (*column, bytes) = bytes.split_at_checked(length).ok_or(ColumnsError::Cut)?;
    }
    if !bytes.is_empty() {
        return Err(ColumnsError::After(bytes.len()));
    }
    Ok(Encoded { pages, columns })
}

/// Where a large column begins, or what stands after one: pieces that are worth an entropy table
/// each.
pub(super) fn pieces(encoded: &[u8]) -> Vec<&[u8]> {
    let Ok(Encoded { columns, .. }) = take(encoded) else { return vec![encoded] };
    let all: usize = columns.iter().map(|column| column.len()).sum();
    let mut at = encoded.len() - all;
    let mut ends = Vec::new();
    // The lengths go with what comes first and is small.
    let mut open = at;
    for column in columns {
        if column.len() >= OWN_BLOCK {
            if open >= OWN_BLOCK {
                ends.push(at);
            }
            ends.push(at + column.len());
            open = 0;
        } else {
            open += column.len();
        }
        at += column.len();
    }
    ends.push(at);
    let mut from = 0;
    let mut pieces = Vec::with_capacity(ends.len());
    for end in ends {
        if let Some(piece) = encoded.get(from..end).filter(|piece| !piece.is_empty()) {
            pieces.push(piece);
        }
        from = end;
    }
    pieces
}
