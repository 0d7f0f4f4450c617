//! The questions of docs/sql.md, in engines that read Parquet: each gives DuckDB's answers.

use std::path::Path;

use serde_json::Value;

use crate::export::{Saved, tables};

/// How much quotients and percentiles may differ: DataFusion's percentiles have six digits.
const ROUNDED: f64 = 1e-6;

/// The ten questions, as docs/sql.md has them.
fn questions(page: &str) -> Vec<String> {
    let blocks = page.split("```sql\n").skip(1);
    blocks.map(|block| block.split("```").next().expect("the end of a block").to_owned()).collect()
}

/// A question in the words of an engine: docs/sql.md has what differs.
fn in_words_of(engine: &str, page: &str, question: &str) -> String {
    let (name, call, with) = match engine {
        "clickhouse" => {
            ("ClickHouse", "quantileExactInclusive(0.5)(x)", "quantileExactInclusive($1)($2)")
        }
        "polars" => ("polars", "quantile_cont(x, 0.5)", "quantile_cont($2, $1)"),
        _ => return question.to_owned(),
    };
    assert!(page.contains(&format!("| {name} | `{call}` |")), "docs/sql.md has no {call}");
    let percentile = r"percentile_cont\(([\d.]+)\) within group \(order by (\w+)\)";
    let percentile = regex::Regex::new(percentile).expect("regex");
    percentile.replace_all(question, with).into_owned()
}

fn is_same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) => {
            let (ours, theirs) = (ours.as_f64().expect("a number"), theirs.as_f64());
            theirs.is_some_and(|theirs| (ours - theirs).abs() <= ROUNDED * ours.abs())
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().all(|(name, ours)| {
                    theirs.get(name).is_some_and(|theirs| is_same(ours, theirs))
                })
        }
        _ => ours == theirs,
    }
}

fn check(dir: &Path, engines: &[&str]) {
    let page = include_str!("../../docs/sql.md");
    let questions = questions(page);
    let asked: Vec<&str> = questions.iter().map(String::as_str).collect();
    let ours = tables("duckdb", dir, &asked);
    for engine in engines {
        let asked: Vec<_> = questions.iter().map(|one| in_words_of(engine, page, one)).collect();
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let theirs = tables(engine, dir, &asked);
        for ((question, ours), theirs) in asked.iter().zip(&ours).zip(&theirs) {
            assert_eq!(ours.len(), theirs.len(), "{engine}: {question}: {ours:?}, {theirs:?}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                assert!(is_same(ours, theirs), "{engine}: {question}: {ours}, {theirs}");
            }
        }
    }
}

#[test]
fn polars_gives_the_same_answers() {
    check(&Saved::with_gaps().export("parquet", &[]), &["polars"]);
}

#[test]
fn clickhouse_gives_the_same_answers() {
    check(&Saved::with_gaps().export("parquet", &[]), &["clickhouse"]);
}

#[test]
fn datafusion_gives_the_same_answers() {
    check(&Saved::with_gaps().export("parquet", &[]), &["datafusion"]);
}

#[test]
fn spark_gives_the_same_answers() {
    check(&Saved::with_gaps().export("parquet", &[]), &["spark"]);
}
