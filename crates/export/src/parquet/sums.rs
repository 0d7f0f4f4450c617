//! The table `sums`: what minutes come to, from the sums that a recorder keeps when the events are
//! gone.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use flightrec_reader::names::errno;
use flightrec_sums::history::{self, Dated};
use flightrec_sums::model::{Cell, Group, Period, Table as Kind, flags};

use super::columns::Rows;
use super::writer::Writer;
use super::{Table, people::some};
use crate::exporter::ExportError;
use crate::printable::printable;
use crate::redact::Redact;

/// Where the sums of an export are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sums {
    /// In a state directory, those that touch a window: UNIX time in ns.
    Of(PathBuf, (i64, i64)),
    /// There are none, for a reason in words.
    None(&'static str),
}

/// What there are of sums of a stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HourSums {
    /// How many periods.
    pub periods: u64,
    /// Their lengths together, ns.
    pub covered: u64,
    /// The start of the first and the end of the last, ns since 1970.
    pub span: Option<(i64, i64)>,
    /// Events that are missing in them; `None`: nobody knows how many.
    pub missing: Option<u64>,
    /// In none of them is anything missing.
    pub complete: bool,
    /// What could not be read, a line each.
    pub damage: Vec<String>,
}

/// Makes the table of sums alone, `dir/sums.parquet`: of the periods of a state directory that
/// begin within a window, UNIX time in ns; without what is hidden. So windows that follow one
/// another have each period once.
///
/// # Errors
/// The sums can't be read, or the file can't be written.
pub fn write_sums(
    dir: &Path,
    state_dir: &Path,
    window: (i64, i64),
    redact: &Redact,
) -> Result<HourSums, ExportError> {
    let mut writer = Writer::new(dir, &[Table::Sums], redact.clone())?;
    let mut told = HourSums { missing: Some(0), complete: true, ..HourSums::default() };
    let mut failed = None;
    let read = history::read(
        state_dir,
        window,
        |_| true,
        |dated| {
            let period = &dated.period;
            if failed.is_some() || period.wall < window.0 || period.wall >= window.1 {
                return;
            }
            told.take(period);
            write_period(&dated, writer.rows(Table::Sums));
            failed = writer.flush(|_, _, _| ()).err();
        },
    );
    if let Some(failed) = failed {
        return Err(failed);
    }
    told.damage = read.map_err(|source| unreadable(state_dir, source))?;
    writer.finish()?;
    Ok(told)
}

impl HourSums {
    fn take(&mut self, period: &Period) {
        let (from, until) = (period.wall, period.wall_until());
        self.periods += 1;
        self.covered = self.covered.saturating_add(until.abs_diff(from));
        let (first, last) = self.span.unwrap_or((from, until));
        self.span = Some((first.min(from), last.max(until)));
        if period.flags & (flags::LOST_UNTOLD | flags::NOT_SUMMED) != 0 {
            self.missing = None;
        }
        self.missing = self.missing.map(|sum| sum.saturating_add(period.missing()));
        let gone = flags::LOST | flags::LOST_UNTOLD | flags::NOT_SUMMED;
        self.complete &= period.flags & gone == 0;
    }
}

/// What stands in the columns of a group that are for its keys; empty: nothing.
#[derive(Default)]
struct Keys<'a> {
    unit: &'a [u8],
    call: &'a [u8],
    error: &'a [u8],
    op: &'a [u8],
    reason: &'a [u8],
    device: &'a [u8],
    cpu: Option<i32>,
}

/// The name of a kind of sums, and its further sums in the order of the columns for them: errors,
/// bytes, bytes read, bytes written, ns that threads ran, ns that they were held, ns in the queue,
/// how many were queued, how many have no time.
const fn kind(kind: Kind) -> (&'static str, [Option<usize>; EXTRAS]) {
    let none = None;
    match kind {
        Kind::Calls => ("call", [Some(0), none, none, none, none, none, none, none, Some(1)]),
        Kind::Errors => ("error", [none; EXTRAS]),
        Kind::RunQueue => ("unit", [none, none, none, none, Some(0), Some(1), none, none, none]),
        Kind::Cpus => ("cpu", [none, none, none, none, Some(0), Some(1), none, none, none]),
        Kind::Waits => ("wait", [none; EXTRAS]),
        Kind::Block => {
            ("block_io", [Some(3), Some(0), none, none, none, none, Some(1), Some(2), Some(4)])
        }
        Kind::Bytes => ("bytes", [none, none, Some(0), Some(1), none, none, none, none, none]),
    }
}

/// Columns for further sums.
const EXTRAS: usize = 9;
/// Columns of keys, and of all that a group has.
const KEYS: usize = 7;
const CELL: usize = 3 + EXTRAS + 1;

impl<'a> Keys<'a> {
    fn of(group: &'a Group) -> Self {
        let [a, b, c] = group.keys.each_ref().map(|key| &**key);
        let none = Self::default();
        match group.table {
            Kind::Calls => Self { unit: a, call: b, ..none },
            Kind::Errors => {
                let number = std::str::from_utf8(c).ok().and_then(|text| text.parse().ok());
                let name = number.and_then(errno).map(str::as_bytes);
                Self { unit: a, call: b, error: name.unwrap_or(c), ..none }
            }
            Kind::RunQueue => Self { unit: a, ..none },
            Kind::Cpus => {
                let cpu = std::str::from_utf8(a).ok().and_then(|text| text.parse().ok());
                Self { cpu, ..none }
            }
            // The third key is "idle" where the thread merely had nothing to do.
            Kind::Waits => Self { unit: a, reason: b, op: c, ..none },
            Kind::Block => Self { device: a, op: b, unit: c, ..none },
            Kind::Bytes => Self { unit: a, call: b, op: c, ..none },
        }
    }

    fn write(&self, rows: &mut Rows) {
        for key in [self.unit, self.call, self.error, self.op, self.reason, self.device] {
            rows.text(some(&printable(key)));
        }
        rows.int(self.cpu);
    }
}

/// What every row of a period begins with.
fn begin(period: &Period, what: &'static str, rows: &mut Rows) {
    let gone = flags::PART | flags::LOST | flags::LOST_UNTOLD | flags::NOT_SUMMED;
    rows.time(period.wall).long(period.wall_until()).fixed(what).bool(period.flags & gone == 0);
}

fn write_cell(group: &Group, cell: &Cell, rows: &mut Rows) {
    let ns = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    rows.long(ns(cell.count)).long(ns(cell.sum)).long(ns(cell.max));
    for extra in kind(group.table).1 {
        rows.long(extra.and_then(|at| cell.extras.get(at)).map(|value| ns(*value)));
    }
    let mut histogram = String::from("{");
    for (bucket, n) in &cell.buckets {
        let comma = if histogram.len() > 1 { "," } else { "" };
        let least = bucket.checked_sub(1).map_or(0, |power| 1_u128 << power);
        // Writing to a text does not fail.
        let _ = write!(histogram, "{comma}\"{least}\":{n}");
    }
    histogram.push('}');
    rows.text(&*histogram);
}

impl Sums {
    /// Writes the rows; returns what is to be said.
    pub(super) fn write(&self, writer: &mut Writer) -> Result<Vec<String>, ExportError> {
        let (state_dir, window) = match self {
            Self::None(why) => return Ok(vec![empty(why)]),
            Self::Of(state_dir, window) => (state_dir, *window),
        };
        let (mut failed, mut any) = (None, false);
        let read = history::read(
            state_dir,
            window,
            |_| true,
            |dated| {
                any = true;
                if failed.is_none() {
                    write_period(&dated, writer.rows(Table::Sums));
                    failed = writer.flush(|_, _, _| ()).err();
                }
            },
        );
        if let Some(failed) = failed {
            return Err(failed);
        }
        let mut said = read.map_err(|source| unreadable(state_dir, source))?;
        if !any {
            said.push(empty("there are no sums of minutes of this window"));
        }
        Ok(said)
    }
}

fn write_period(dated: &Dated, rows: &mut Rows) {
    let Dated { session, period, .. } = dated;
    let session = format!("{session:016x}");
    begin(period, "period", rows);
    let missing = (period.flags & flags::LOST_UNTOLD == 0)
        .then(|| i64::try_from(period.missing()).unwrap_or(i64::MAX));
    rows.none(KEYS + CELL).long(missing).text(&*session);
    for (group, cell) in &period.rows {
        begin(period, kind(group.table).0, rows);
        Keys::of(group).write(rows);
        write_cell(group, cell, rows);
        rows.none(1).text(&*session);
    }
}

fn empty(why: &str) -> String {
    format!("the table sums is empty: {why}")
}

fn unreadable(dir: &Path, source: io::Error) -> ExportError {
    ExportError::Io { what: format!("can't read sums in {}", dir.display()), source }
}
