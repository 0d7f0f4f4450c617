//! The ten questions of docs/fleet.md, and the dashboards of packaging/grafana, about a small fleet
//! with known faults: each engine finds them, and Grafana's own types take the dashboards.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flightrec_tests::fleet::{Answer, ask, check, questions, same};
use flightrec_tests::shipping::Shipper;
use flightrec_tests::{Judge, bin_dir};
use serde_json::Value;
use tempfile::TempDir;

const PAGE: &str = include_str!("../../docs/fleet.md");
const RECORDERS: &str = include_str!("../../packaging/grafana/recorders.json");
const FLEET: &str = include_str!("../../packaging/grafana/fleet.json");
/// Hosts, hours, and periods of an hour.
const SIZE: [&str; 6] = ["--hosts", "200", "--hours", "8", "--periods", "2"];
const HOURS: usize = 8;

/// Compacted tables.
struct Lake {
    dir: TempDir,
    truth: Value,
}

impl Lake {
    fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        let lake = dir.path().join("lake");
        let fleet = |args: &[&str]| {
            let mut command = Command::new(bin_dir().join("flightrec-fleet"));
            let output = command.args(SIZE).args(args).output().expect("flightrec-fleet");
            assert!(output.status.success(), "{output:?}");
            output.stdout
        };
        for number in 0..HOURS {
            let to = lake.to_str().expect("text");
            fleet(&["--number", &number.to_string(), "--to", to]);
        }
        let config = format!("[ship]\nto = \"{}\"\n", lake.display());
        let shipper = Shipper::new(&dir.path().join("own"), &config).expect("flight-ship");
        let output = shipper.run(&["compact", "--day", "2026-11-25"]).expect("flight-ship");
        assert!(output.status.success(), "{output:?}");
        let truth = serde_json::from_slice(&fleet(&["--truth"])).expect("JSON");
        Self { dir, truth }
    }

    fn ask(&self, engine: &str, questions: &[String]) -> Vec<Answer> {
        ask(engine, &self.dir.path().join("lake"), questions).expect("answers")
    }
}

fn finds_the_faults(engine: &str) {
    let lake = Lake::new();
    let questions = questions(PAGE, lake.truth["deploy"].as_u64().expect("an hour"));
    assert_eq!(questions.len(), 10);
    let answers = lake.ask(engine, &questions);
    check(&lake.truth, &answers).expect(engine);
    if engine != "duckdb" {
        let ours = lake.ask("duckdb", &questions);
        for (n, (ours, theirs)) in ours.iter().zip(&answers).enumerate() {
            same(&ours.rows, &theirs.rows).unwrap_or_else(|e| panic!("question {}: {e:#}", n + 1));
        }
    }
}

#[test]
fn duckdb_finds_the_faults_of_a_fleet() {
    Judge::DUCKDB.require();
    finds_the_faults("duckdb");
}

#[test]
fn clickhouse_finds_the_faults_of_a_fleet() {
    Judge::DUCKDB.require();
    Judge::CLICKHOUSE.require();
    finds_the_faults("clickhouse");
}

#[test]
fn spark_finds_the_faults_of_a_fleet() {
    Judge::DUCKDB.require();
    Judge::SPARK.require();
    finds_the_faults("spark");
}

/// The texts by a key, wherever they are.
fn texts<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(of) => {
            for (name, value) in of {
                match value {
                    Value::String(text) if name == key => found.push(text),
                    value => texts(value, key, found),
                }
            }
        }
        Value::Array(of) => of.iter().for_each(|value| texts(value, key, found)),
        _ => {}
    }
}

/// What stands in quotes in the sources below a directory.
fn quoted(dir: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).expect("sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            quoted(&path, names);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            names.extend(text.split('"').skip(1).step_by(2).map(str::to_owned));
            names.extend(text.split('"').skip(2).step_by(2).map(str::to_owned));
        }
    }
}

#[test]
fn metrics_of_the_dashboard_are_there() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names = BTreeSet::new();
    quoted(&root.join("ctl/src/commands/metrics"), &mut names);
    names.append(&mut {
        let source = fs::read_to_string(root.join("crates/ship/src/metrics.rs")).expect("a source");
        source.split('"').map(str::to_owned).collect()
    });
    let dashboard: Value = serde_json::from_str(RECORDERS).expect("JSON");
    let mut asked = Vec::new();
    texts(&dashboard, "expr", &mut asked);
    assert!(asked.len() >= 20, "{asked:?}");
    let metric = regex::Regex::new(r"\b(flightrec|flightship)_[a-z_]+").expect("regex");
    let mut found = BTreeSet::new();
    for text in &asked {
        found.extend(metric.find_iter(text).map(|of| of.as_str().to_owned()));
    }
    assert!(found.len() >= 15, "{found:?}");
    for name in found {
        let plain = name.strip_suffix("_total").unwrap_or(&name);
        assert!(names.contains(plain), "{name} is no metric");
    }
}

#[test]
fn clickhouse_answers_the_dashboard() {
    Judge::DUCKDB.require();
    Judge::CLICKHOUSE.require();
    let lake = Lake::new();
    let dashboard: Value = serde_json::from_str(FLEET).expect("JSON");
    let mut asked = Vec::new();
    texts(&dashboard, "rawSql", &mut asked);
    assert_eq!(asked.len(), 10);
    let questions: Vec<String> = asked
        .iter()
        .map(|text| {
            // As Grafana's data source does.
            text.replace("$__fromTime", "toDateTime('2026-11-25 00:00:00', 'UTC')")
                .replace("$__toTime", "toDateTime('2026-11-25 23:59:59', 'UTC')")
                .replace("$call", "fsync")
        })
        .collect();
    assert!(questions.iter().all(|text| !text.contains('$')), "{questions:?}");
    for (question, answer) in questions.iter().zip(lake.ask("clickhouse", &questions)) {
        assert!(!answer.rows.is_empty(), "{question}");
    }
}

#[test]
fn grafanas_own_types_take_the_dashboards() {
    Judge::GRAFANA.require();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let check = |files: &[PathBuf]| {
        let mut command = Command::new(root.join("judges/grafana/check.sh"));
        command.args(files).output().expect("the judge")
    };
    let folder = root.join("../packaging/grafana");
    let good = check(&["recorders", "fleet"].map(|name| folder.join(format!("{name}.json"))));
    assert!(good.status.success(), "tests/judges/grafana/setup.sh installs it: {good:?}");
    let dir = TempDir::new().expect("a directory");
    for (right, wrong) in [("\"gridPos\"", "\"gridpos\""), ("\"absolute\"", "\"absolut\"")] {
        let file = dir.path().join("wrong.json");
        fs::write(&file, RECORDERS.replace(right, wrong)).expect("written");
        let bad = check(&[file]);
        assert!(!bad.status.success(), "{wrong} is taken");
    }
}
