//! The questions of docs/sql.md, and some on the sums of minutes, in engines that read Parquet:
//! each gives DuckDB's answers.

use flightrec_tests::Judge;
use std::path::Path;

use serde_json::Value;

use crate::export::{Saved, tables};
use crate::sums::Summed;

/// How much numbers may differ, which an engine may have as floating-point ones.
const ROUNDED: f64 = 1e-6;
/// How much quotients and percentiles may: DataFusion's percentiles take a millionth of the way
/// from one value to the next for nothing, which is more than a millionth of the lesser one.
const INTERPOLATED: f64 = 1e-4;

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
            let most = if ours.is_f64() { INTERPOLATED } else { ROUNDED };
            let (ours, theirs) = (ours.as_f64().expect("a number"), theirs.as_f64());
            theirs.is_some_and(|theirs| (ours - theirs).abs() <= most * ours.abs())
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

/// What the table of sums is asked.
const SUMS: [&str; 5] = [
    "select what, count(*) as n, sum(count) as events, \
     sum(sum) as total, max(max) as greatest, \
     sum(missing) as lost from sums group by what order by what",
    "select unit, call, sum(count) as n, sum(errors) as failed \
     from sums where what = 'call' group by unit, call order by n desc, unit, call limit 20",
    "select unit, reason, op, sum(sum) as ns from sums where what = 'wait' \
     group by unit, reason, op order by ns desc, unit, reason, op nulls last limit 20",
    "select count(*) as n, count(unit) as units, count(histogram) as histograms, \
     sum(case when complete then 1 else 0 end) as complete, min(ts_ns) as since, \
     max(until_ns) as until from sums",
    "select what, histogram from sums where histogram is not null \
     order by what, histogram limit 20",
];

/// Asks an engine the questions of docs/sql.md, and what the sums of minutes come to.
fn check(engine: &str) {
    let page = include_str!("../../docs/sql.md");
    let questions = questions(page);
    let saved = Saved::with_gaps();
    compare(&saved.export("parquet", &[]), engine, &questions, |question| {
        in_words_of(engine, page, question)
    });
    let summed = Summed::new();
    let (dir, _) = summed.export(&[]);
    let rows = compare(&dir, engine, &SUMS.map(str::to_owned), str::to_owned);
    assert!(rows.iter().all(|rows| !rows.is_empty()), "{rows:?}");
    assert!(rows[3][0]["histograms"].as_u64() > Some(0), "{rows:?}");
}

/// Asks DuckDB and another engine; returns DuckDB's answers.
fn compare(
    dir: &Path,
    engine: &str,
    questions: &[String],
    in_its_words: impl Fn(&str) -> String,
) -> Vec<Vec<Value>> {
    let asked: Vec<&str> = questions.iter().map(String::as_str).collect();
    let ours = tables("duckdb", dir, &asked);
    let asked: Vec<_> = questions.iter().map(|one| in_its_words(one)).collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let theirs = tables(engine, dir, &asked);
    for ((question, ours), theirs) in asked.iter().zip(&ours).zip(&theirs) {
        assert_eq!(ours.len(), theirs.len(), "{engine}: {question}: {ours:?}, {theirs:?}");
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert!(is_same(ours, theirs), "{engine}: {question}: {ours}, {theirs}");
        }
    }
    ours
}

#[test]
fn polars_gives_the_same_answers() {
    Judge::DUCKDB.require();
    check("polars");
}

#[test]
fn clickhouse_gives_the_same_answers() {
    Judge::DUCKDB.require();
    Judge::CLICKHOUSE.require();
    check("clickhouse");
}

#[test]
fn datafusion_gives_the_same_answers() {
    Judge::DUCKDB.require();
    Judge::DATAFUSION.require();
    check("datafusion");
}

#[test]
fn spark_gives_the_same_answers() {
    Judge::DUCKDB.require();
    Judge::SPARK.require();
    check("spark");
}
