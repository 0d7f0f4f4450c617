//! A report as a table for people.

use std::fmt::Write as _;

use flightrec_analysis::groups::{Keys, Sum};
use flightrec_analysis::histogram::Histogram;

use super::table::{OTHERS, Value};
use super::{Column, Key, Table, Unit};
use crate::text::number::duration;
use crate::text::printable;
use flightrec_format::human::{bytes, counted};

/// Width of the longest bar of a histogram.
const BAR: usize = 40;
/// Longest key in the middle of a line.
const KEY_MAX: usize = 40;

/// A line of the table.
struct Line<'a> {
    figures: Vec<String>,
    keys: Vec<String>,
    sum: Option<&'a Sum>,
}

/// The table; `hist`: with a histogram below each row.
pub fn table(table: &Table, hist: bool) -> String {
    if table.ranked.rows.is_empty() {
        return String::new();
    }
    let total = table.ranked.total();
    let columns = table.shape.columns;
    let mut lines = vec![Line {
        figures: columns.iter().map(|column| head(table, *column)).collect(),
        keys: table.by.iter().map(|key| key.name().to_uppercase().replace('_', " ")).collect(),
        sum: None,
    }];
    for (keys, sum) in &table.ranked.rows {
        let (figures, keys) = (cells(table, sum, &total), words(table, keys));
        lines.push(Line { figures, keys, sum: Some(sum) });
    }
    let others = &table.ranked.others;
    if others.groups != 0 {
        let who = format!("{OTHERS}: {}", counted(others.groups, "group"));
        let figures = cells(table, &others.sum, &total);
        lines.push(Line { figures, keys: vec![who], sum: Some(&others.sum) });
    }
    let widest = |of: &dyn Fn(&Line<'_>) -> usize| lines.iter().map(of).max().unwrap_or(0);
    let length = |cell: &String| cell.chars().count();
    let figure_widths: Vec<usize> = (0..columns.len())
        .map(|at| widest(&|line| line.figures.get(at).map_or(0, length)))
        .collect();
    // The row of the others has one word for all keys.
    let is_whole = |line: &Line<'_>| line.keys.len() == table.by.len();
    let key_widths: Vec<usize> = (0..table.by.len())
        .map(|at| {
            widest(&|line| {
                line.keys.get(at).filter(|_| is_whole(line)).map_or(0, length).min(KEY_MAX)
            })
        })
        .collect();
    let mut out = String::new();
    for Line { figures, keys, sum } in &lines {
        for (at, (cell, width)) in figures.iter().zip(&figure_widths).enumerate() {
            // To whom it is due is a word.
            if table.shape.columns.get(at) == Some(&Column::Partner) {
                let _ = write!(out, "{cell:<width$}  ");
            } else {
                let _ = write!(out, "{cell:>width$}  ");
            }
        }
        for (at, key) in keys.iter().enumerate() {
            let width = key_widths.get(at).copied().unwrap_or(0);
            if at + 1 == keys.len() {
                let _ = write!(out, "{key}");
            } else {
                let _ = write!(out, "{key:<width$}  ");
            }
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
        if let Some(sum) = sum.filter(|_| hist && table.shape.unit != Unit::None) {
            histogram(table.shape.unit, &sum.values, &mut out);
        }
    }
    out
}

/// What is to be known of the figures, a line each.
pub fn remarks(table: &Table) -> Vec<String> {
    let mut lines: Vec<String> =
        table.shape.remarks.iter().map(|line| (*line).to_owned()).collect();
    let has_percentiles = table.shape.columns.contains(&Column::P99);
    if has_percentiles && !table.ranked.rows.is_empty() {
        lines.push(format!(
            "p50 and p99 are within 1/{:.0} of the value; all else is exact",
            1.0 / table.error()
        ));
    }
    lines.extend(limits(table));
    if let Some(ns @ 1..) = table.unknown_ns {
        lines.push(format!(
            "{} of threads' time in the window is in no row: their state was unknown, as they \
             had no event before or events are missing",
            time(ns)
        ));
    }
    lines
}

/// What there was no room for, a line each: to be known in every format.
pub fn limits(table: &Table) -> Vec<String> {
    let cut = table.ranked.is_cut.then(|| {
        format!(
            "too many groups: small ones were added to the row {OTHERS}; a row may lack the part \
             of its group that was added there before"
        )
    });
    cut.into_iter().chain(table.limits.iter().cloned()).collect()
}

fn head(table: &Table, column: Column) -> String {
    match column {
        Column::Count => table.shape.counted.to_owned(),
        Column::Extra(at) => table.shape.extras.get(at).map_or("", |extra| extra.head).to_owned(),
        Column::Total => "TOTAL".into(),
        Column::Average => "AVERAGE".into(),
        Column::Max => "MAX".into(),
        Column::P50 => "P50".into(),
        Column::P99 => "P99".into(),
        Column::Share => "PERCENT".into(),
        Column::Partner => {
            table.shape.partners.unwrap_or_default().to_uppercase().replace('_', " ")
        }
    }
}

fn cells(table: &Table, sum: &Sum, total: &Sum) -> Vec<String> {
    let unit = table.shape.unit;
    let values = &sum.values;
    let told =
        |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| figure(unit, value));
    let cell = |column: &Column| match *column {
        Column::Count => sum.count.to_string(),
        Column::Extra(at) => {
            let unit = table.shape.extras.get(at).map_or(Unit::None, |extra| extra.unit);
            figure(unit, sum.extras.get(at).copied().unwrap_or(0))
        }
        Column::Total => told((values.count() != 0).then(|| values.sum())),
        Column::Average => told(values.mean()),
        Column::Max => told((values.count() != 0).then(|| values.max())),
        Column::P50 => told(values.percentile(50)),
        Column::P99 => told(values.percentile(99)),
        Column::Share => {
            let (part, whole) = match unit {
                Unit::None => (sum.count, total.count),
                _ => (values.sum(), total.values.sum()),
            };
            if whole == 0 {
                "-".to_owned()
            } else {
                format!("{:.1}", part as f64 * 100.0 / whole as f64)
            }
        }
        Column::Partner => {
            let first = sum.partners.ranked().into_iter().next();
            first.map_or_else(String::new, |(partner, ns)| {
                let share = ns as f64 * 100.0 / values.sum().max(1) as f64;
                format!("{} {share:.0} %", printable(table.partner(partner)))
            })
        }
    };
    table.shape.columns.iter().map(cell).collect()
}

/// The keys of a row.
fn words(table: &Table, keys: &Keys) -> Vec<String> {
    let word = |(key, value): (Key, Value<'_>)| match value {
        Value::Number(number) => number.to_string(),
        Value::Word(word) if key == Key::Stack => {
            let frames = word.split(|byte| *byte == b';').map(printable);
            frames.collect::<Vec<_>>().join(" <- ")
        }
        Value::Word(word) => printable(word),
        Value::Crowded => OTHERS.to_owned(),
        Value::Unknown => "-".to_owned(),
    };
    table.values(keys).map(word).collect()
}

fn figure(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Ns => time(value),
        Unit::Bytes => bytes(value),
        Unit::None => value.to_string(),
    }
}

fn time(ns: u64) -> String {
    let mut out = Vec::new();
    duration(ns, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// A line for each power of two.
fn histogram(unit: Unit, values: &Histogram, out: &mut String) {
    let powers = values.powers();
    let most = powers.iter().map(|(_, _, count)| *count).max().unwrap_or(0).max(1);
    for (from, until, count) in powers {
        let bar = (count as f64 / most as f64 * BAR as f64).round() as usize;
        let _ = writeln!(
            out,
            "    {:>9} - {:>9}  {count:>10}  |{:<BAR$}|",
            figure(unit, from),
            figure(unit, until),
            "@".repeat(bar)
        );
    }
}
