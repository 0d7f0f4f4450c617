//! What the minutes of an hour of a host come to, by group.

use bytes::Bytes;
use flightrec_sums::model::{BUCKETS, OTHERS, ROWS_MAX, bucket};
use rustc_hash::FxHashMap;

use super::columns::{NONE, Texts, Values};
use super::input::Group;
use super::rows::Rows;
use super::tables::Column;
use crate::hour::{Hour, NS};

/// How much of an hour may lack sums that is none the less whole: periods are measured by another
/// clock.
const SLACK: i64 = 1_000_000_000;
/// Columns of keys that are texts, in the order of the table `hours`; the first tells the kind.
const KEYS: [&str; 7] = ["what", "unit", "call", "error", "op", "reason", "device"];
/// Columns of numbers that are added up, in the order of the table `hours`.
const ADDED: [&str; 11] = [
    "count",
    "sum",
    "errors",
    "bytes",
    "read_bytes",
    "written_bytes",
    "running_ns",
    "held_ns",
    "queue_ns",
    "queued",
    "untimed",
];
/// The kind of the rows that tell of periods themselves.
const PERIOD: &[u8] = b"period";

/// A group's keys: the numbers of its texts, and its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key([u32; KEYS.len()], Option<i64>);

/// What a group comes to.
#[derive(Debug, Clone, Default)]
struct Cell {
    added: [Option<i64>; ADDED.len()],
    max: Option<i64>,
    periods: i64,
    /// By power of two; empty: no distribution.
    buckets: Vec<i64>,
}

/// What the sums of an hour of a host come to.
pub(super) struct Rollup {
    texts: Texts,
    known: FxHashMap<Key, usize>,
    cells: Vec<(Key, Cell)>,
    /// Length of all periods, ns.
    covered: i64,
    /// Events that are missing; `None`: nobody knows how many.
    missing: Option<i64>,
    complete: bool,
}

/// A column by its name.
struct Columns<'a>(&'a [Column], &'a Group);

impl<'a> Columns<'a> {
    fn get(&self, name: &str) -> Option<&'a Values> {
        let at = self.0.iter().position(|column| column.name == name)?;
        self.1.columns.get(at)?.as_ref()
    }
}

impl Rollup {
    /// Of nothing yet.
    pub(super) fn new() -> Self {
        Self {
            texts: Texts::default(),
            known: FxHashMap::default(),
            cells: Vec::new(),
            covered: 0,
            missing: Some(0),
            complete: true,
        }
    }

    /// Of a host's hour that can't be read: nothing is known of it.
    pub(super) fn unknown() -> Self {
        let mut rollup = Self { missing: None, complete: false, ..Self::new() };
        let what = rollup.texts.number(PERIOD);
        let mut keys = [NONE; KEYS.len()];
        keys[0] = what;
        rollup.cells.push((Key(keys, None), Cell::default()));
        rollup
    }

    /// Adds rows of the table `sums`. What is wrong with them is said in words.
    pub(super) fn add(&mut self, columns: &[Column], group: &Group) -> Result<(), String> {
        let columns = Columns(columns, group);
        let keys = KEYS.map(|name| columns.get(name));
        let added = ADDED.map(|name| columns.get(name));
        let [cpu, max, histogram, missing, complete, since, until] =
            ["cpu", "max", "histogram", "missing", "complete", "ts_ns", "until_ns"]
                .map(|name| columns.get(name));
        let long = |of: Option<&Values>, row| of.and_then(|of| of.long(row));
        let mut last: Option<(Key, usize)> = None;
        for row in 0..group.rows {
            let mut key = [NONE; KEYS.len()];
            for (key, values) in key.iter_mut().zip(keys) {
                if let Some(text) = values.and_then(|values| values.text(row)) {
                    *key = self.texts.number(text);
                }
            }
            let key = Key(key, long(cpu, row));
            let at = match last {
                Some((known, at)) if known == key => at,
                _ => self.place(key),
            };
            last = Some((key, at));
            let is_period = self.texts.get(key.0[0]).is_some_and(|what| what == PERIOD);
            if is_period {
                let (since, until) = (long(since, row), long(until, row));
                let length =
                    until.zip(since).map_or(0, |(until, since)| until.saturating_sub(since));
                self.covered = self.covered.saturating_add(length.max(0));
                self.complete &= complete.and_then(|of| of.bool(row)) == Some(true);
                let missing = long(missing, row);
                self.missing = self.missing.zip(missing).map(|(a, b)| a.saturating_add(b));
            }
            let Some((_, cell)) = self.cells.get_mut(at) else { continue };
            cell.periods += 1;
            for (sum, values) in cell.added.iter_mut().zip(added) {
                if let Some(value) = long(values, row) {
                    *sum = Some(sum.unwrap_or(0).saturating_add(value));
                }
            }
            cell.max = cell.max.max(long(max, row));
            if let Some(text) = histogram.and_then(|values| values.text(row)) {
                if cell.buckets.is_empty() {
                    cell.buckets.resize(BUCKETS, 0);
                }
                add_histogram(&mut cell.buckets, text)
                    .ok_or("it is damaged: a histogram is not as flightd makes it")?;
            }
        }
        Ok(())
    }

    /// Where the cell of a group is; where there are too many, that of the others.
    fn place(&mut self, key: Key) -> usize {
        if let Some(at) = self.known.get(&key) {
            return *at;
        }
        let mut key = key;
        if self.cells.len() >= ROWS_MAX {
            let others = self.texts.number(OTHERS);
            key = Key([key.0[0], others, others, NONE, NONE, NONE, NONE], None);
            if let Some(at) = self.known.get(&key) {
                return *at;
            }
        }
        let at = self.cells.len();
        self.cells.push((key, Cell::default()));
        self.known.insert(key, at);
        at
    }

    /// Whether nothing of the hour is missing.
    fn is_complete(&self) -> bool {
        self.complete && self.covered.saturating_add(SLACK) >= NS
    }

    /// Gives each group, in order, with its kind: what writes its rows into the tables `hours` and
    /// `histograms`.
    pub(super) fn write(
        mut self,
        (host, machine): (&[u8], &[u8]),
        hour: Hour,
        mut write: impl FnMut(&[u8], &dyn Fn(&mut Rows, &mut Rows)),
    ) {
        let complete = self.is_complete();
        let mut cells = std::mem::take(&mut self.cells);
        let texts = &self.texts;
        cells.sort_by(|(Key(a, cpu_a), _), (Key(b, cpu_b), _)| {
            let of = |keys: &[u32; KEYS.len()]| keys.map(|number| texts.get(number));
            of(a).cmp(&of(b)).then(cpu_a.cmp(cpu_b))
        });
        for (Key(keys, cpu), cell) in &cells {
            let keys = keys.map(|number| texts.get(number));
            let Some(what) = keys[0] else { continue };
            let is_period = what == PERIOD;
            write(what, &|hours, histograms| {
                let begin = |rows: &mut Rows| {
                    rows.word(host).word(machine).long(hour.start() / 1000).long(hour.start());
                };
                begin(hours);
                hours.long(hour.end()).text(Some(what)).bool(complete);
                for key in keys.iter().skip(1) {
                    hours.text(*key);
                }
                hours.long(*cpu);
                let [count, sum, others @ ..] = cell.added;
                hours.long(count).long(sum).long(cell.max);
                for value in others {
                    hours.long(value);
                }
                for percent in [50, 90, 99] {
                    hours.long(below(&cell.buckets, percent));
                }
                hours.long(cell.periods);
                hours.long(is_period.then_some(self.covered));
                hours.long(if is_period { self.missing } else { None });
                let there = cell.buckets.iter().enumerate().filter(|(_, n)| **n != 0);
                for (bucket, n) in there {
                    begin(histograms);
                    histograms.text(Some(what)).bool(complete);
                    let [_, unit, call, _, op, reason, device] = keys;
                    for key in [unit, call, op, reason, device] {
                        histograms.text(key);
                    }
                    histograms.long(*cpu).long(least_of(bucket)).long(bound(bucket)).long(*n);
                }
            });
        }
    }
}

/// The least value of a bucket.
fn least_of(bucket: usize) -> i64 {
    let power = bucket.checked_sub(1);
    power.map_or(0, |power| 1_i64.checked_shl(power as u32).map_or(i64::MAX, |n| n & i64::MAX))
}

/// What all values of a bucket are below.
fn bound(bucket: usize) -> i64 {
    match least_of(bucket + 1) {
        0 => i64::MAX,
        bound => bound,
    }
}

/// What so many percent of the values are below.
fn below(buckets: &[i64], percent: i128) -> Option<i64> {
    let all: i128 = buckets.iter().map(|n| i128::from(*n)).sum();
    let mut so_far = 0;
    let found = buckets.iter().position(|n| {
        so_far += i128::from(*n);
        all > 0 && so_far * 100 >= all * percent
    });
    found.map(bound)
}

/// Adds a histogram as the table `sums` has it, `{"0":3,"1024":5}`. `None`: it is none.
fn add_histogram(buckets: &mut [i64], text: &Bytes) -> Option<()> {
    let text = std::str::from_utf8(text).ok()?;
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    for pair in inside.split(',').filter(|_| !inside.is_empty()) {
        let (least, n) = pair.split_once(':')?;
        let least: u64 = least.strip_prefix('"')?.strip_suffix('"')?.parse().ok()?;
        let n: i64 = n.parse().ok().filter(|n| *n >= 0)?;
        if least != 0 && !least.is_power_of_two() {
            return None;
        }
        let count = buckets.get_mut(usize::from(bucket(least)))?;
        *count = count.saturating_add(n);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_powers_of_two() {
        assert_eq!((least_of(0), bound(0)), (0, 1));
        assert_eq!((least_of(1), bound(1)), (1, 2));
        assert_eq!((least_of(11), bound(11)), (1024, 2048));
        assert_eq!((least_of(63), bound(63)), (1 << 62, i64::MAX));
        assert!(bound(64) == i64::MAX && least_of(64) >= 0);
    }

    #[test]
    fn percentiles_are_bounds() {
        let mut buckets = vec![0; BUCKETS];
        assert_eq!(below(&buckets, 99), None);
        buckets[3] = 98;
        buckets[10] = 1;
        buckets[20] = 1;
        assert_eq!(below(&buckets, 50), Some(8));
        assert_eq!(below(&buckets, 99), Some(1 << 10));
        buckets[20] = 2;
        assert_eq!(below(&buckets, 99), Some(1 << 20));
    }

    #[test]
    fn histograms_as_flightd_makes_them_and_no_others() {
        let mut buckets = vec![0; BUCKETS];
        let mut add = |text: &str| add_histogram(&mut buckets, &Bytes::from(text.to_owned()));
        assert!(add("{}").is_some());
        assert!(add(r#"{"0":3,"1":1,"1024":5}"#).is_some());
        assert!(add(r#"{"1024":5,"9223372036854775808":1}"#).is_some());
        for wrong in ["", "{", r#"{"3":1}"#, r#"{"4":-1}"#, r"{4:1}", r#"{"4":1,}"#, "[1]"] {
            assert!(add(wrong).is_none(), "{wrong}");
        }
        assert_eq!((buckets[0], buckets[1], buckets[11], buckets[64]), (3, 1, 10, 1));
    }
}
