//! `cargo xtask bench fleet`: the ten questions of docs/fleet.md, about a fleet with known faults.
//!
//! For each hour, `flightrec-fleet` makes what all hosts ship, `flight-ship compact` makes the
//! compacted tables of it, and what was shipped is deleted, as there is not room for all of it.
//! Then each engine answers each question: as the faults are, and all alike.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use flightrec_tests::fleet::{Answer, ask, check, questions, same};
use flightrec_tests::wait_peak;
use serde_json::{Value, json};

use xtask::command::{read, repository};

/// What is to be simulated.
#[derive(Debug, Clone, Args)]
pub(crate) struct FleetArgs {
    /// Number of hosts.
    #[arg(long, default_value_t = 10_000)]
    pub(super) hosts: usize,
    /// Number of hours.
    #[arg(long, default_value_t = 24)]
    pub(super) hours: usize,
    /// Periods of an hour: flightd has 60, and merges them into 6, and into 1, when they are old.
    #[arg(long, default_value_t = 6)]
    pub(super) periods: u64,
    /// Engines to ask: duckdb, clickhouse, spark [default: those that are installed, see
    /// tests/judges/parquet/setup.sh].
    #[arg(long, value_name = "ENGINE", value_delimiter = ',')]
    pub(super) engines: Vec<String>,
    /// Leave the compacted tables in DIR; if they are there already, only ask the questions.
    #[arg(long, value_name = "DIR")]
    pub(super) keep: Option<PathBuf>,
}

/// The day of the questions.
const DAY: &str = "2026-11-25";

/// An engine, and the folder in target/judges.
const ENGINES: [(&str, &str); 3] =
    [("duckdb", "parquet"), ("clickhouse", "clickhouse"), ("spark", "spark")];

/// Numbers of the hours that were compacted.
#[derive(Default)]
pub(super) struct Made {
    shipped: (u64, u64),
    sums_bytes: u64,
    seconds: (f64, f64),
    peak: u64,
    tables: BTreeMap<String, Vec<(u64, u64, u64)>>,
}

pub(crate) fn run(args: &FleetArgs) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("flightrec-fleet-").tempdir()?;
    let lake = args.keep.clone().unwrap_or_else(|| scratch.path().join("lake"));
    let engines = engines(args)?;
    let truth = read(fleet(args).arg("--truth"))?;
    let truth: Value = serde_json::from_str(&truth)?;
    if !lake.join("schema=1/compact").is_dir() {
        let made = make(args, &lake, scratch.path(), |_| Ok(()))?;
        tell(args, &made);
    }
    let page = fs::read_to_string(repository().join("docs/fleet.md"))?;
    let questions = questions(&page, truth["deploy"].as_u64().unwrap_or(12));
    ensure!(questions.len() == 10, "docs/fleet.md has {} questions", questions.len());
    let mut answers: Vec<(String, Vec<Answer>)> = Vec::new();
    for engine in engines {
        let answer = ask(&engine, &lake, &questions)?;
        check(&truth, &answer).with_context(|| engine.clone())?;
        if let Some((first, theirs)) = answers.first() {
            for (n, (ours, theirs)) in answer.iter().zip(theirs).enumerate() {
                let what = format!("question {} of {engine} and {first}", n + 1);
                same(&ours.rows, &theirs.rows).context(what)?;
            }
        }
        answers.push((engine, answer));
    }
    table(&answers);
    Ok(())
}

/// The engines that are asked.
fn engines(args: &FleetArgs) -> Result<Vec<String>> {
    let is_there = |folder: &str| repository().join("target/judges").join(folder).is_dir();
    let (there, lacking): (Vec<_>, Vec<_>) = ENGINES
        .into_iter()
        .filter(|(name, _)| args.engines.is_empty() || args.engines.iter().any(|of| of == name))
        .partition(|(_, folder)| is_there(folder));
    for (name, _) in &lacking {
        println!("{name} is not installed (tests/judges/parquet/setup.sh {name}): not asked");
    }
    ensure!(!there.is_empty(), "no engine to be asked: tests/judges/parquet/setup.sh");
    Ok(there.into_iter().map(|(name, _)| name.to_owned()).collect())
}

fn program(name: &str) -> PathBuf {
    let dir = std::env::var_os("FLIGHTREC_BIN_DIR").map(PathBuf::from);
    dir.unwrap_or_else(|| repository().join("target/release")).join(name)
}

fn fleet(args: &FleetArgs) -> Command {
    let mut command = Command::new(program("flightrec-fleet"));
    let (hosts, hours) = (args.hosts.to_string(), args.hours.to_string());
    command.args(["--hosts", &hosts, "--hours", &hours]);
    command.args(["--periods", &args.periods.to_string()]);
    command.args(["--first", &format!("{DAY}T00")]);
    command
}

/// Makes the compacted tables, hour by hour; `is_made` is called with the number of each while what
/// was shipped is there still.
pub(super) fn make(
    args: &FleetArgs,
    lake: &Path,
    scratch: &Path,
    mut is_made: impl FnMut(usize) -> Result<()>,
) -> Result<Made> {
    ensure!((1..=24).contains(&args.hours), "--hours {}: a day at most", args.hours);
    fs::create_dir_all(lake)?;
    let config = scratch.join("flight-ship.toml");
    fs::write(&config, format!("[ship]\nto = \"{}\"\n", fs::canonicalize(lake)?.display()))?;
    let mut made = Made::default();
    for number in 0..args.hours {
        let begin = Instant::now();
        let mut command = fleet(args);
        command.args(["--number", &number.to_string(), "--to"]).arg(lake);
        ensure!(command.status()?.success(), "flightrec-fleet failed");
        made.seconds.0 += begin.elapsed().as_secs_f64();
        made.sums_bytes += bytes_below(&lake.join("schema=1/table=sums"))?;
        let begin = Instant::now();
        let out = scratch.join("compacted.json");
        let mut command = Command::new(program("flight-ship"));
        command.arg("--config").arg(&config).arg("--state-dir").arg(scratch.join("own"));
        command.args(["compact", "--json", "--hour", &format!("{DAY}T{number:02}")]);
        let child = command.stdout(fs::File::create(&out)?).spawn()?;
        let (status, peak) = wait_peak(&child)?;
        ensure!(status.success(), "flight-ship compact: {status}");
        let text = fs::read_to_string(&out)?;
        made.seconds.1 += begin.elapsed().as_secs_f64();
        made.peak = made.peak.max(peak);
        let told: Value = serde_json::from_str(text.trim())?;
        ensure!(told["refused"] == json!([]), "{told}");
        made.shipped.0 += told["inputs"].as_u64().unwrap_or(0);
        made.shipped.1 += told["bytes"].as_u64().unwrap_or(0);
        for of in told["made"].as_array().into_iter().flatten() {
            let name = of["name"].as_str().unwrap_or_default();
            let table = name.split("table=").nth(1).and_then(|rest| rest.split('/').next());
            let number = |key: &str| of[key].as_u64().unwrap_or(0);
            let file = (number("bytes"), number("rows"), number("groups"));
            made.tables.entry(table.unwrap_or_default().to_owned()).or_default().push(file);
        }
        is_made(number)?;
        for table in ["sums", "shipped"] {
            fs::remove_dir_all(lake.join(format!("schema=1/table={table}")))?;
        }
    }
    Ok(made)
}

fn bytes_below(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let of = entry.metadata()?;
        bytes += if of.is_dir() { bytes_below(&entry.path())? } else { of.len() };
    }
    Ok(bytes)
}

/// Says what there was, and what was made of it.
pub(super) fn tell(args: &FleetArgs, made: &Made) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{} hosts, {} hours of {} periods: {} objects shipped, {:.1} MiB ({:.0} bytes of sums an \
         object), made in {:.0} s; compacted in {:.0} s, in {} MiB of memory at most",
        args.hosts,
        args.hours,
        args.periods,
        made.shipped.0,
        mib(made.shipped.1),
        made.sums_bytes as f64 / (made.shipped.0 as f64 / 2.0).max(1.0),
        made.seconds.0,
        made.seconds.1,
        made.peak >> 20,
    );
    println!(
        "TABLE        FILES      MIB  MIB A FILE  GROUPS  ROWS A GROUP        ROWS  BYTES A ROW"
    );
    for (table, files) in &made.tables {
        let bytes: u64 = files.iter().map(|(bytes, ..)| bytes).sum();
        let rows: u64 = files.iter().map(|(_, rows, _)| rows).sum();
        let groups: u64 = files.iter().map(|(.., groups)| groups).sum();
        println!(
            "{table:<11} {:>6} {:>8.1} {:>11.1} {groups:>7} {:>13} {rows:>11} {:>12.1}",
            files.len(),
            mib(bytes),
            mib(bytes) / files.len() as f64,
            rows / groups.max(1),
            bytes as f64 / rows as f64,
        );
    }
}

fn table(answers: &[(String, Vec<Answer>)]) {
    let mut head = String::from("QUESTION  ROWS");
    for (engine, _) in answers {
        head.extend([format!("  {:>12} S", engine.to_uppercase()), format!("  {:>12}", "MIB")]);
    }
    println!("{head}");
    let count = answers.first().map_or(0, |(_, answers)| answers.len());
    for n in 0..count {
        let rows = answers.first().and_then(|(_, all)| all.get(n)).map_or(0, |of| of.rows.len());
        let mut line = format!("{:>8}  {rows:>4}", n + 1);
        for of in answers.iter().filter_map(|(_, all)| all.get(n)) {
            let mib = of.bytes as f64 / f64::from(1 << 20);
            line.extend([format!("  {:>14.2}", of.seconds), format!("  {mib:>12.1}")]);
        }
        println!("{line}");
    }
    println!("all engines give the same answers, and find what is wrong with the fleet");
}
