//! A report as one JSON object: `docs/flightctl-report.schema.json` describes it.

use serde_json::{Map, Value as Json, json};

use flightrec_analysis::groups::Sum;
use flightrec_analysis::histogram::Histogram;

use super::minutes::SumsTold;
use super::table::{OTHERS, Value, figures, window};
use super::{Key, Shape, Table, Unit};
use crate::json::escape::decoded;
use crate::schema::document;

/// The object; `hist`: with histograms.
pub fn table(table: &Table, hist: bool) -> serde_json::Result<String> {
    let row = |sum: &Sum| row(table, sum, hist);
    let rows = table.ranked.rows.iter().map(|(keys, sum)| {
        let mut object = Map::new();
        for (key, value) in table.values(keys) {
            object.insert(key.name().into(), value_of(key, value));
        }
        object.append(&mut row(sum));
        Json::Object(object)
    });
    let rows: Vec<Json> = rows.collect();
    let others = &table.ranked.others;
    let others = (others.groups != 0).then(|| {
        let mut object = Map::new();
        object.insert("groups".into(), others.groups.into());
        object.append(&mut row(&others.sum));
        object
    });
    let by: Vec<&str> = table.by.iter().map(|key| key.name()).collect();
    let mut object = json!({
        "report": table.shape.name,
        "by": by,
        "window": window(&table.periods),
        "window_ns": table.length(),
        "complete": table.is_complete,
        "coverage": table.coverage,
        "source": table.source(),
        "sums": table.sums.as_ref().map(sums),
        "percentile_error": table.error(),
        "rows_may_lack": table.ranked.is_cut,
        "limits": table.limits,
        "total": row(&table.ranked.total()),
        "rows": rows,
        "others": others,
    });
    if let (Some(ns), Json::Object(object)) = (table.unknown_ns, &mut object) {
        object.insert("unknown_ns".into(), ns.into());
    }
    document(object)
}

fn value_of(key: Key, value: Value<'_>) -> Json {
    match value {
        Value::Number(number) => number.into(),
        // From the innermost function out.
        Value::Word(word) if key == Key::Stack => {
            word.split(|byte| *byte == b';').map(text).collect()
        }
        Value::Word(word) => text(word),
        Value::Crowded => OTHERS.into(),
        Value::Unknown => Json::Null,
    }
}

/// Bytes as names are written in all JSON of flightctl.
fn text(word: &[u8]) -> Json {
    Json::String(decoded(word))
}

/// Sums of minutes that were used.
pub fn sums(sums: &SumsTold) -> Json {
    json!({
        "window": window(&sums.periods),
        "longest_period_ns": sums.step_ns,
        "lost_events": sums.lost_events,
        "periods_not_whole": sums.not_whole,
        "unsummed_ns": sums.unsummed_ns,
    })
}

/// The figures of a row.
fn row(table: &Table, sum: &Sum, hist: bool) -> Map<String, Json> {
    let mut object = Map::new();
    for (name, value) in figures(table.shape, sum) {
        object.insert(name, value.into());
    }
    if let Some(name) = table.shape.partners {
        let told = sum
            .partners
            .ranked()
            .into_iter()
            .map(|(partner, ns)| json!({ "name": text(table.partner(partner)), "ns": ns }));
        object.insert(name.into(), told.collect());
        object.insert(format!("{name}_others_ns"), sum.partners.others().into());
    }
    if hist && table.shape.unit != Unit::None {
        object.insert("histogram".into(), histogram(table.shape, &sum.values));
    }
    object
}

/// Counts between two powers of two.
fn histogram(shape: &Shape, values: &Histogram) -> Json {
    let suffix = shape.unit.suffix();
    let (from_name, until_name) = (format!("from{suffix}"), format!("until{suffix}"));
    let bucket = |(from, until, count): (u64, u64, u64)| {
        let mut object = Map::new();
        object.insert(from_name.clone(), from.into());
        object.insert(until_name.clone(), until.into());
        object.insert("count".into(), count.into());
        Json::Object(object)
    };
    values.powers().into_iter().map(bucket).collect()
}
