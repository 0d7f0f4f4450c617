//! A report that is done.

use flightrec_analysis::groups::{CROWDED, KEYS, Keys, Ranked, Sum, UNKNOWN, Words};
use flightrec_analysis::histogram::ERROR;
use jiff::Timestamp;
use serde_json::{Value as Json, json};

use super::minutes::SumsTold;
use super::{Key, Shape, Unit};

/// A stretch of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// ns of `CLOCK_MONOTONIC`: from, until.
    pub mono: (u64, u64),
    /// UNIX time in ns.
    pub wall: (i64, i64),
}

/// Stretches of a window, as all JSON of reports has them.
pub fn window(periods: &[Period]) -> Json {
    let at = |ns: i64| {
        Timestamp::from_nanosecond(i128::from(ns)).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
    };
    let of = |period: &Period| {
        json!({
            "from": at(period.wall.0),
            "from_mono_ns": period.mono.0,
            "until": at(period.wall.1),
            "until_mono_ns": period.mono.1,
        })
    };
    periods.iter().map(of).collect()
}

/// What the numbers of a table's words stand for.
#[derive(Debug, Default)]
pub struct TableWords {
    /// Of each key.
    pub(super) keys: [Words; KEYS],
    /// Of partners.
    pub(super) partners: Words,
}

/// A report that is done.
pub struct Table {
    /// What it looks like.
    pub shape: &'static Shape,
    /// By what it is grouped.
    pub by: Vec<Key>,
    /// The groups.
    pub ranked: Ranked,
    /// What their keys and partners stand for.
    pub words: TableWords,
    /// The window.
    pub periods: Vec<Period>,
    /// Whether nothing that was recorded of it is missing.
    pub is_complete: bool,
    /// What it covers and what is missing, in words, a line each.
    pub coverage: Vec<String>,
    /// What the report had no room for, in words, a line each.
    pub limits: Vec<String>,
    /// Time of threads within the window of which it is not known what they did, ns. Of the threads
    /// of which anything was seen.
    pub unknown_ns: Option<u64>,
    /// Sums of minutes that it is made of, where the events are gone; `None`: it is made of events
    /// alone.
    pub sums: Option<SumsTold>,
}

/// A key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
    /// A word.
    Word(&'a [u8]),
    /// One of too many different ones.
    Crowded,
    /// It is not known, or there is none.
    Unknown,
}

impl Table {
    /// The values of a row's keys.
    pub fn values<'a>(&'a self, keys: &'a Keys) -> impl Iterator<Item = (Key, Value<'a>)> + 'a {
        let keys = self.by.iter().zip(&self.words.keys).zip(keys);
        keys.map(|((key, words), value)| (*key, Self::value(*key, words, *value)))
    }

    fn value(key: Key, words: &Words, value: u64) -> Value<'_> {
        match value {
            UNKNOWN => Value::Unknown,
            CROWDED => Value::Crowded,
            number if !key.is_word() => Value::Number(number),
            id => words.word(id).map_or(Value::Unknown, Value::Word),
        }
    }

    /// The values of a row's keys, as words; `None`: not known.
    pub fn words<'a>(&'a self, keys: &'a Keys) -> impl Iterator<Item = Option<Vec<u8>>> + 'a {
        self.values(keys).map(|(_, value)| match value {
            Value::Number(number) => Some(number.to_string().into_bytes()),
            Value::Word(word) => Some(word.into()),
            Value::Crowded => Some(OTHERS.into()),
            Value::Unknown => None,
        })
    }

    /// The name of a partner.
    pub fn partner(&self, id: u64) -> &[u8] {
        self.words.partners.word(id).unwrap_or(OTHERS.as_bytes())
    }

    /// What it is made of, as JSON has it.
    pub fn source(&self) -> &'static str {
        match &self.sums {
            None => "events",
            Some(sums) if sums.periods == self.periods => "sums",
            Some(_) => "sums and events",
        }
    }

    /// Largest part of a value by which a percentile is off.
    pub fn error(&self) -> f64 {
        if self.sums.is_some() { 0.5 } else { ERROR }
    }

    /// How long the window is, ns.
    pub fn length(&self) -> u64 {
        let of = |period: &Period| period.mono.1.saturating_sub(period.mono.0);
        self.periods.iter().map(of).fold(0, u64::saturating_add)
    }
}

/// Stands for the keys of all groups that are not told apart.
pub(super) const OTHERS: &str = "(others)";

/// All figures of a sum, by the names that JSON and CSV have; `None`: there is none.
pub fn figures(shape: &Shape, sum: &Sum) -> Vec<(String, Option<u64>)> {
    let mut figures = vec![("count".to_owned(), Some(sum.count))];
    for (extra, value) in shape.extras.iter().zip(sum.extras) {
        figures.push((extra.name.to_owned(), Some(value)));
    }
    if shape.unit != Unit::None {
        let values = &sum.values;
        let suffix = shape.unit.suffix();
        figures.extend(
            [
                ("total", Some(values.sum())),
                ("average", values.mean()),
                ("p50", values.percentile(50)),
                ("p99", values.percentile(99)),
                ("max", (values.count() != 0).then(|| values.max())),
            ]
            .map(|(name, value)| (format!("{name}_{}{suffix}", shape.value), value)),
        );
    }
    figures
}
