//! The changes, for people and for programs.

use std::fmt::Write as _;

use flightrec_analysis::compare::{Change, Figures, Side, per_second};
use serde_json::{Map, Value, json};

use super::run::Compared;
use super::topic::{Topic, Words};
use crate::report::json::sums;
use crate::report::minutes::SumsTold;
use crate::report::{Period, Unit, window};
use crate::schema::document;
use crate::text::number::duration;
use flightrec_format::human::bytes;

/// All changes, the largest part of its topic first.
fn ranked(compared: &[Compared], top: usize) -> Vec<(&Compared, &Change<Words>)> {
    let mut all: Vec<(&Compared, &Change<Words>)> =
        compared.iter().flat_map(|of| of.changes.iter().map(move |change| (of, change))).collect();
    all.sort_by(|(_, a), (_, b)| b.share.total_cmp(&a.share));
    all.truncate(top);
    all
}

/// A line for each topic, then one for each change.
pub(super) fn text(compared: &[Compared], top: usize) -> String {
    let changes = ranked(compared, top);
    let mut lines = vec![["SHARE", "CHANGE", "TOPIC", "WHAT", "A", "B"].map(str::to_owned)];
    for of in compared {
        let (a, b) = (&of.a, &of.b);
        lines.push([
            String::new(),
            "all".to_owned(),
            of.topic.name.replace('_', " "),
            String::new(),
            figures(&of.topic, &a.all, a.length),
            figures(&of.topic, &b.all, b.length),
        ]);
    }
    for (of, change) in changes {
        let what: Vec<&str> =
            change.key.iter().map(String::as_str).filter(|word| *word != "-").collect();
        lines.push([
            format!("{:.1} %", change.share * 100.0),
            of.topic.change(change.kind).replace('_', " "),
            of.topic.name.replace('_', " "),
            what.join(" "),
            figures(&of.topic, &change.a, of.a.length),
            figures(&of.topic, &change.b, of.b.length),
        ]);
    }
    let width = |at: usize| {
        lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..6).map(|at| width(at).unwrap_or(0).min(60)).collect();
    let mut out = String::new();
    for line in &lines {
        let start = out.len();
        for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Writing to a string can't fail.
            let _ = if at == 0 {
                write!(out, "{cell:>width$}  ")
            } else {
                write!(out, "{cell:<width$}  ")
            };
        }
        out.truncate(out.trim_end_matches(' ').len().max(start));
        out.push('\n');
    }
    out
}

/// `120/s x 3.4 ms`
fn figures(topic: &Topic, of: &Figures, length: u64) -> String {
    if of.count == 0 {
        return "-".to_owned();
    }
    let mut text = rate(per_second(of.count, length)) + "/s";
    if let Some(mean) = of.mean().filter(|_| !topic.is_of_errors) {
        let mean = match topic.unit() {
            Unit::Ns => {
                let mut out = Vec::new();
                duration(mean, &mut out);
                String::from_utf8_lossy(&out).into_owned()
            }
            Unit::Bytes => bytes(mean),
            Unit::None => return text,
        };
        let _ = write!(text, " x {mean}");
    }
    text
}

fn rate(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.2}") } else { format!("{rate:.0}") }
}

/// A window: where, whether it is complete, what is missing.
pub(super) struct About {
    pub(super) periods: Vec<Period>,
    pub(super) is_complete: bool,
    pub(super) coverage: Vec<String>,
    /// What it is made of: events, sums of minutes, or both.
    pub(super) source: &'static str,
    pub(super) sums: Option<SumsTold>,
}

/// One JSON object: `docs/flightctl-diff.schema.json` describes it.
pub(super) fn json(
    a: &About,
    b: &About,
    compared: &[Compared],
    top: usize,
) -> serde_json::Result<String> {
    let topics: Map<String, Value> = compared
        .iter()
        .map(|of| {
            let sides = json!({ "a": side(&of.topic, &of.a), "b": side(&of.topic, &of.b) });
            (of.topic.name.to_owned(), sides)
        })
        .collect();
    let changes: Vec<Value> = ranked(compared, top)
        .into_iter()
        .map(|(of, change)| {
            let keys: Map<String, Value> = of
                .topic
                .by
                .iter()
                .zip(&change.key)
                .map(|(key, word)| {
                    let word = (word != "-").then_some(word.as_str());
                    (key.name().to_owned(), json!(word))
                })
                .collect();
            json!({
                "topic": of.topic.name,
                "change": of.topic.change(change.kind),
                "share": change.share,
                "keys": keys,
                "a": told(&of.topic, &change.a, of.a.length),
                "b": told(&of.topic, &change.b, of.b.length),
            })
        })
        .collect();
    document(json!({
        "a": about(a),
        "b": about(b),
        "topics": topics,
        "changes": changes,
    }))
}

fn about(of: &About) -> Value {
    json!({
        "window": window(&of.periods),
        "complete": of.is_complete,
        "coverage": of.coverage,
        "source": of.source,
        "sums": of.sums.as_ref().map(sums),
    })
}

fn side(topic: &Topic, side: &Side<Words>) -> Value {
    told(topic, &side.all, side.length)
}

fn told(topic: &Topic, of: &Figures, length: u64) -> Value {
    let mut object = Map::new();
    object.insert("count".into(), of.count.into());
    object.insert("per_second".into(), per_second(of.count, length).into());
    if topic.unit() != Unit::None {
        let suffix = topic.unit().suffix();
        object.insert(format!("total{suffix}"), of.total.into());
        object.insert(format!("average{suffix}"), of.mean().into());
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use flightrec_analysis::compare::changes;

    use super::super::topic;
    use super::*;

    const S: u64 = 1_000_000_000;

    fn compared() -> Vec<Compared> {
        let side = |topic: &Topic, mean: u64| {
            let key: Words = topic.by.iter().map(|key| key.name().to_owned()).collect();
            let unknown: Words = topic.by.iter().map(|_| "-".to_owned()).collect();
            let of = |mean| Figures { count: 100, valued: 100, total: 100 * mean };
            let groups = [(key, of(mean)), (unknown, of(50))].into();
            let all = Figures { count: 200, valued: 200, total: 100 * mean + 5000 };
            Side { groups, all, length: 10 * S }
        };
        let of = |topic: Topic| {
            let (a, b) = (side(&topic, 1000), side(&topic, 900_000));
            let changes = changes(&a, &b, topic.weight);
            Compared { topic, a, b, changes }
        };
        topic::ALL.into_iter().map(of).collect()
    }

    #[test]
    fn the_json_is_as_its_schema_says() {
        let about = About {
            periods: vec![Period { mono: (0, 10 * S), wall: (0, 10) }],
            is_complete: true,
            coverage: vec!["all".into()],
            source: "sums",
            sums: Some(SumsTold::default()),
        };
        let json = json(&about, &about, &compared(), 100).unwrap();
        let document: Value = serde_json::from_str(&json).unwrap();
        let schema = include_str!("../../../../docs/flightctl-diff.schema.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:?} in {document:#}");
        let changes = document["changes"].as_array().unwrap();
        // Errors are counted, and their count is the same.
        assert_eq!(changes.len(), topic::ALL.len() - 1);
        let files = changes.iter().find(|of| of["topic"] == "files").unwrap();
        assert_eq!((&files["change"], &files["keys"]["op"]), (&"larger".into(), &"op".into()));
        assert_eq!(files["b"]["average_bytes"], 900_000);
    }

    #[test]
    fn a_line_for_each_topic_and_change() {
        let shown = text(&compared(), 2);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 1 + topic::ALL.len() + 2, "{shown}");
        assert!(lines[7].contains("slower") && lines[7].contains("10/s x 900 us"), "{shown}");
    }
}
