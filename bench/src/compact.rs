//! `cargo xtask bench compact`: files as large as engines like them, made of what many hosts ship
//! of an hour; and whether all of it is in them.
//!
//! `flightrec-fleet` makes what hosts ship, `flight-ship compact` makes the compacted tables of it,
//! and DuckDB holds both against each other: each row of the minutes, and what they come to in the
//! tables of hours.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use flightrec_tests::fleet::SUMS_COLUMNS;
use serde_json::Value;

use super::fleet::{FleetArgs, make, tell};
use xtask::command::repository;

/// What is to be compacted.
#[derive(Debug, Clone, Args)]
pub(crate) struct CompactArgs {
    /// Number of hosts; 18,000 make a file of sums of some 190 MiB.
    #[arg(long, default_value_t = 18_000)]
    hosts: usize,
    /// Number of hours, one after the other.
    #[arg(long, default_value_t = 1)]
    hours: usize,
    /// Periods of an hour: flightd has 60.
    #[arg(long, default_value_t = 60)]
    periods: u64,
}

pub(crate) fn run(args: &CompactArgs) -> Result<()> {
    let setup = "tests/judges/parquet/setup.sh duckdb";
    ensure!(repository().join("target/judges/parquet").is_dir(), "DuckDB is not there: {setup}");
    let scratch = tempfile::Builder::new().prefix("flightrec-compact-").tempdir()?;
    let lake = scratch.path().join("lake");
    let &CompactArgs { hosts, hours, periods } = args;
    let fleet = FleetArgs { hosts, hours, periods, engines: Vec::new(), keep: None };
    let mut seconds = (0.0, 0.0);
    let mut rows = 0;
    let made = make(&fleet, &lake, scratch.path(), |hour| {
        let (shipped, of_it) = ask(&lake, scratch.path(), "table=sums", hour, true)?;
        let (compacted, of_them) = ask(&lake, scratch.path(), "compact/table=sums", hour, true)?;
        ensure!(shipped == compacted, "the rows differ: {shipped:?} and {compacted:?}");
        seconds = (seconds.0 + of_it, seconds.1 + of_them);
        rows += shipped.iter().filter_map(|row| row["n"].as_u64()).sum::<u64>();
        // An hour adds its minutes up.
        let (minutes, _) = ask(&lake, scratch.path(), "table=sums", hour, false)?;
        let (added, _) = ask(&lake, scratch.path(), "compact/table=hours", hour, false)?;
        ensure!(minutes == added, "the sums differ: {minutes:?} and {added:?}");
        Ok(())
    })?;
    tell(&fleet, &made);
    println!(
        "DuckDB has the same {rows} rows of sums, and the same sums, in what was shipped ({:.1} s) \
         and in what was made of it ({:.1} s)",
        seconds.0, seconds.1
    );
    Ok(())
}

/// What DuckDB says of a table of an hour, by what its rows are of: of all its rows, or what they
/// come to; and how long that took.
fn ask(
    lake: &Path,
    scratch: &Path,
    table: &str,
    hour: usize,
    of_rows: bool,
) -> Result<(Vec<Value>, f64)> {
    let files = lake.join(format!("schema=1/{table}/**/*.parquet"));
    let mut columns = "cast(sum(count) as varchar) as events, cast(sum(sum) as varchar) as ns, \
                       cast(max(max) as varchar) as most, cast(sum(errors) as varchar) as errors, \
                       cast(sum(bytes) as varchar) as bytes"
        .to_owned();
    if of_rows {
        // The same rows in another order have the same of both.
        columns = format!(
            "{columns}, count(*) as n, count(distinct host) as hosts, \
             cast(sum(hash({SUMS_COLUMNS})) as varchar) as total, \
             cast(bit_xor(hash({SUMS_COLUMNS})) as varchar) as bits"
        );
    }
    let kinds = if of_rows { "" } else { " and what <> 'period'" };
    let query = format!(
        "select what, {columns} from read_parquet('{}', hive_partitioning = true, \
         hive_types = {{'hour': bigint}}) where hour = {hour}{kinds} group by what order by what",
        files.display()
    );
    // Without tables of its own.
    let empty = scratch.join("empty");
    std::fs::create_dir_all(&empty)?;
    let begin = Instant::now();
    let output = Command::new(repository().join("tests/judges/parquet/run.sh"))
        .arg("duckdb")
        .args([&empty])
        .arg(&query)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "DuckDB does not answer {query}");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).context("no rows")?;
    ensure!(rows.len() > 1, "of {table} there is nothing: {rows:?}");
    Ok((rows, begin.elapsed().as_secs_f64()))
}
