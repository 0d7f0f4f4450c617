//! Periods as bytes: words and groups once for a block, then a column for each figure.

use std::sync::Arc;

use thiserror::Error;

use flightrec_analysis::groups::EXTRAS;

use crate::model::{BUCKETS, Cell, Group, KEYS, Period, Table};

/// Most bytes of a block before compression.
pub const RAW_MAX: usize = 2 << 20;
/// Most periods of a block.
pub const PERIODS_MAX: usize = 4096;

/// Columns of periods, and of their groups.
const PERIOD_COLUMNS: usize = 7;
const ROW_COLUMNS: usize = 9;

/// Bytes that are no block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CodecError {
    /// A column is longer than its bytes.
    #[error("it ends too early")]
    Short,
    /// A number is out of its range.
    #[error("a number is out of its range")]
    Range,
    /// Bytes are left.
    #[error("it is longer than what it holds")]
    Long,
}

/// Appends a number, 7 bits a byte, the lowest first.
fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes that are read from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn number(&mut self) -> Result<u64, CodecError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(CodecError::Short)?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(CodecError::Range);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(CodecError::Range)
    }

    /// How many follow, each of which takes a byte or more.
    fn many(&mut self) -> Result<usize, CodecError> {
        let n = usize::try_from(self.number()?).map_err(|_| CodecError::Range)?;
        if n > self.0.len() { Err(CodecError::Short) } else { Ok(n) }
    }

    fn bytes(&mut self) -> Result<&'a [u8], CodecError> {
        let n = self.many()?;
        let (bytes, rest) = self.0.split_at(n);
        self.0 = rest;
        Ok(bytes)
    }

    fn end(&self) -> Result<(), CodecError> {
        if self.0.is_empty() { Ok(()) } else { Err(CodecError::Long) }
    }
}

/// Periods as bytes.
pub fn encode(periods: &[Period]) -> Vec<u8> {
    let mut groups: Vec<&Group> = periods.iter().flat_map(|period| period.rows.keys()).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut words: Vec<&[u8]> =
        groups.iter().flat_map(|group| group.keys.iter().map(|key| &**key)).collect();
    words.sort_unstable();
    words.dedup();
    let mut out = Vec::new();
    put(words.len() as u64, &mut out);
    for word in &words {
        put(word.len() as u64, &mut out);
        out.extend_from_slice(word);
    }
    put(groups.len() as u64, &mut out);
    for group in &groups {
        out.push(group.table as u8);
        for key in &group.keys {
            put(words.binary_search(&&**key).unwrap_or(0) as u64, &mut out);
        }
    }
    put(periods.len() as u64, &mut out);
    let mut columns: [Vec<u8>; PERIOD_COLUMNS] = Default::default();
    let [from, length, wall, flags, lost, unknown, rows] = &mut columns;
    let (mut until, mut wall_until) = (0u64, 0i64);
    for period in periods {
        put(zigzag(period.from.wrapping_sub(until) as i64), from);
        put(period.until.wrapping_sub(period.from), length);
        put(zigzag(period.wall.wrapping_sub(wall_until)), wall);
        put(u64::from(period.flags), flags);
        period.lost.iter().for_each(|n| put(*n, lost));
        put(period.unknown_ns, unknown);
        put(period.rows.len() as u64, rows);
        (until, wall_until) = (period.until, period.wall_until());
    }
    put_columns(&columns, &mut out);
    let mut columns: [Vec<u8>; ROW_COLUMNS] = Default::default();
    let [group_of, count, sum, max, mask, extras, many, places, counts] = &mut columns;
    for period in periods {
        let mut before = 0;
        for (group, cell) in &period.rows {
            let at = groups.binary_search(&group).unwrap_or(0) as u64;
            put(at.wrapping_sub(before), group_of);
            before = at;
            put(cell.count, count);
            put(cell.sum, sum);
            put(cell.max, max);
            let held = (0..EXTRAS).filter(|at| cell.extras.get(*at).is_some_and(|n| *n != 0));
            mask.push(held.fold(0, |mask, at| mask | 1u8 << at));
            cell.extras.iter().filter(|n| **n != 0).for_each(|n| put(*n, extras));
            many.push(cell.buckets.len() as u8);
            let mut last = 0;
            for (bucket, n) in &cell.buckets {
                places.push(bucket.wrapping_sub(last));
                last = *bucket;
                put(*n, counts);
            }
        }
    }
    put_columns(&columns, &mut out);
    out
}

fn put_columns(columns: &[Vec<u8>], out: &mut Vec<u8>) {
    for column in columns {
        put(column.len() as u64, out);
        out.extend_from_slice(column);
    }
}

fn columns<'a, const N: usize>(from: &mut Cursor<'a>) -> Result<[Cursor<'a>; N], CodecError> {
    let mut columns = [const { Cursor(&[]) }; N];
    for column in &mut columns {
        *column = Cursor(from.bytes()?);
    }
    Ok(columns)
}

/// Periods from bytes: any are taken, and need memory in proportion to their length.
pub fn decode(raw: &[u8]) -> Result<Vec<Period>, CodecError> {
    let mut all = Cursor(raw);
    let words = (0..all.many()?).map(|_| all.bytes().map(Arc::from));
    let words = words.collect::<Result<Vec<Arc<[u8]>>, _>>()?;
    let mut groups = Vec::new();
    for _ in 0..all.many()? {
        let table = u8::try_from(all.number()?).map_err(|_| CodecError::Range)?;
        let mut keys: [Arc<[u8]>; KEYS] = Default::default();
        for key in &mut keys {
            let at = usize::try_from(all.number()?).map_err(|_| CodecError::Range)?;
            key.clone_from(words.get(at).ok_or(CodecError::Range)?);
        }
        // Tables of later releases are passed over.
        groups.push((Table::of(table), keys));
    }
    let n = all.many()?;
    if n > PERIODS_MAX {
        return Err(CodecError::Range);
    }
    let [mut from, mut length, mut wall, mut flags, mut lost, mut unknown, mut rows] =
        columns(&mut all)?;
    let [
        mut group_of,
        mut count,
        mut sum,
        mut max,
        mut mask,
        mut extras,
        mut many,
        mut places,
        mut counts,
    ] = columns(&mut all)?;
    all.end()?;
    let (mut until, mut wall_until) = (0u64, 0i64);
    let mut periods = Vec::with_capacity(n);
    for _ in 0..n {
        let mut period = Period { from: until, ..Period::default() };
        period.from = until.wrapping_add(unzigzag(from.number()?) as u64);
        period.until = period.from.checked_add(length.number()?).ok_or(CodecError::Range)?;
        period.wall = wall_until.wrapping_add(unzigzag(wall.number()?));
        period.flags = flags.number()? as u32;
        for n in &mut period.lost {
            *n = lost.number()?;
        }
        period.unknown_ns = unknown.number()?;
        (until, wall_until) = (period.until, period.wall_until());
        let mut at = 0u64;
        for _ in 0..rows.number()? {
            at = at.checked_add(group_of.number()?).ok_or(CodecError::Range)?;
            let group = usize::try_from(at).ok().and_then(|at| groups.get(at));
            let (table, keys) = group.ok_or(CodecError::Range)?;
            let mut cell = Cell {
                count: count.number()?,
                sum: sum.number()?,
                max: max.number()?,
                ..Cell::default()
            };
            let held = mask.number()?;
            if held >> EXTRAS != 0 {
                return Err(CodecError::Range);
            }
            for (at, extra) in cell.extras.iter_mut().enumerate() {
                if held & 1 << at != 0 {
                    *extra = extras.number()?;
                }
            }
            let mut bucket = 0u64;
            for _ in 0..many.number()? {
                let step = places.number()?;
                bucket = bucket.saturating_add(step);
                let is_again = step == 0 && !cell.buckets.is_empty();
                if is_again || bucket >= BUCKETS as u64 {
                    return Err(CodecError::Range);
                }
                cell.buckets.push((bucket as u8, counts.number()?));
            }
            if let Some(table) = table {
                period.rows.insert(Group { table: *table, keys: keys.clone() }, cell);
            }
        }
        periods.push(period);
    }
    for column in [from, length, wall, flags, lost, unknown, rows] {
        column.end()?;
    }
    for column in [group_of, count, sum, max, mask, extras, many, places, counts] {
        column.end()?;
    }
    Ok(periods)
}
