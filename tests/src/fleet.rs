//! The ten questions of docs/fleet.md, and whether the answers are what is wrong with the fleet
//! that `flightrec-fleet` makes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::process::repository;

/// How much numbers may differ that are quotients.
const ROUNDED: f64 = 1e-9;

/// All columns of the table `sums` that tell something, in SQL.
pub const SUMS_COLUMNS: &str = "host, ts, ts_ns, until_ns, what, complete, unit, call, error, \
    op, reason, device, cpu, count, sum, max, errors, bytes, read_bytes, written_bytes, \
    running_ns, held_ns, queue_ns, queued, untimed, histogram, missing, session";

/// What an engine answered.
#[derive(Debug)]
pub struct Answer {
    /// The rows.
    pub rows: Vec<Value>,
    /// How long it took.
    pub seconds: f64,
    /// How many bytes its process read.
    pub bytes: u64,
}

/// The SQL of the ten questions; `noon` is the hour of the release.
pub fn questions(page: &str, noon: u64) -> Vec<String> {
    let chapter = page.split("\n## Ten questions\n").nth(1).unwrap_or_default();
    let chapter = chapter.split("\n## ").next().unwrap_or_default();
    let blocks = chapter.split("```sql\n").skip(1);
    let texts = blocks.filter_map(|block| block.split("```").next());
    texts.map(|text| text.replace(" 12 ", &format!(" {noon} "))).collect()
}

/// Asks an engine about the compacted tables of a storage that is a directory.
pub fn ask(engine: &str, lake: &Path, questions: &[String]) -> Result<Vec<Answer>> {
    let judge = repository().join("tests/judges/parquet/run.sh");
    let mut child = Command::new(judge)
        .args(["--fleet", engine])
        .arg(lake)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("its input")?;
    input.write_all(serde_json::to_string(questions)?.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{engine} failed after {} answers", text.lines().count());
    let answer = |line: &str| -> Result<Answer> {
        let value: Value = serde_json::from_str(line)?;
        Ok(Answer {
            rows: value["rows"].as_array().cloned().unwrap_or_default(),
            seconds: value["seconds"].as_f64().unwrap_or(f64::NAN),
            bytes: value["bytes"].as_u64().unwrap_or(0),
        })
    };
    text.lines().map(answer).collect()
}

/// The same rows; quotients but for their last digits.
pub fn same(ours: &[Value], theirs: &[Value]) -> Result<()> {
    ensure!(ours.len() == theirs.len(), "{} and {} rows", ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        let (Some(a), Some(b)) = (ours.as_object(), theirs.as_object()) else {
            bail!("{ours} and {theirs}")
        };
        let is_same = |(key, a): (&String, &Value)| match (a.as_f64(), b.get(key)) {
            (Some(a), Some(b)) => {
                b.as_f64().is_some_and(|b| (a - b).abs() <= ROUNDED * a.abs().max(b.abs()))
            }
            (None, b) => Some(a) == b,
            (Some(_), None) => false,
        };
        ensure!(a.len() == b.len() && a.iter().all(is_same), "{ours} and {theirs}");
    }
    Ok(())
}

/// The texts of a column.
fn texts(rows: &[Value], key: &str) -> Vec<String> {
    let text = |row: &Value| row[key].as_str().unwrap_or_default().to_owned();
    rows.iter().map(text).collect()
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

/// Holds the answers against what `flightrec-fleet --truth` says.
pub fn check(truth: &Value, answers: &[Answer]) -> Result<()> {
    let answers: Vec<&[Value]> = answers.iter().map(|of| &of.rows[..]).collect();
    let [slow, crowded, blocked, errors, lossy, disks, release, calls, silent, outliers] =
        answers[..]
    else {
        anyhow::bail!("{} answers", answers.len())
    };
    let names = |key: &str| -> Vec<String> {
        truth[key]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let number = |key: &str| truth[key].as_u64().unwrap_or(u64::MAX);
    let first = |rows: &[Value]| rows.first().cloned().context("no rows");

    ensure!(sorted(texts(slow, "host")) == names("slow_disk"), "1: {:?}", texts(slow, "host"));
    ensure!(
        slow.iter().all(|row| row["since"] == number("slow_from")),
        "1: since: {:?}",
        slow.first()
    );
    let top = texts(crowded.get(..names("crowded").len()).unwrap_or_default(), "host");
    ensure!(sorted(top) == names("crowded"), "2: {:?}", texts(crowded, "host"));
    let most = first(blocked)?;
    ensure!(most["unit"] == "app.service" && most["reason"] == "futex", "3: {most}");
    let full = errors.iter().find(|row| row["error"] == "ENOSPC").context("4: no ENOSPC")?;
    ensure!(full["role"] == "dbs" && full["since"] == number("full_from"), "4: {full}");
    let worst = first(errors)?;
    ensure!(worst["role"] == "kvs" && worst["error"] == "EAGAIN", "4: {worst}");
    ensure!(sorted(texts(lossy, "host")) == names("lossy"), "5: {:?}", texts(lossy, "host"));
    ensure!(lossy.iter().all(|row| row["hour"] == number("lossy_at")), "5: {:?}", lossy.first());
    let p99 = |device: &str| {
        let row = disks.iter().find(|row| row["device"] == device && row["op"] == "write");
        row.and_then(|row| row["p99_ms"].as_f64()).context("6: no such device")
    };
    ensure!((p99("sda")? / p99("nvme0n1")? - 32.0).abs() < 0.01, "6: {disks:?}");
    let is_slower = |row: &&Value| row["unit"] == "app.service" && row["call"] == "recvfrom";
    let slower = release.iter().find(is_slower).context("7: nothing is slower")?;
    ensure!(slower["times"].as_f64() == Some(8.0), "7: {slower}");
    let top = first(calls)?;
    ensure!(top["unit"] == "nginx.service" && top["call"] == "epoll_wait", "8: {top}");
    ensure!(texts(silent, "host").len() == names("absent").len(), "9: {silent:?}");
    ensure!(sorted(texts(silent, "host")) == names("absent"), "9: {:?}", texts(silent, "host"));
    ensure!(
        sorted(texts(outliers, "host")) == names("outliers"),
        "10: {:?}",
        texts(outliers, "host")
    );
    Ok(())
}
