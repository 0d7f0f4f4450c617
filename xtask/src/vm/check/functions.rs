//! A function of the kernel that was probed for a time, by a kprobe.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Calls of each at least, or it was no trial.
const ENOUGH: u64 = 5;

/// What was counted is what was recorded; and what was told of them.
pub(super) fn counted(files: &Path) -> Result<String> {
    let said = fs::read_to_string(files.join("functions.txt")).unwrap_or_default();
    let report = fs::read_to_string(files.join("functions.json"))
        .with_context(|| format!("no report of functions: {said}"))?;
    let report: Value = serde_json::from_str(&report)
        .with_context(|| format!("the report of functions: {said}"))?;
    let dump = fs::read_to_string(files.join("functions.jsonl"))
        .with_context(|| format!("no dump of functions: {said}"))?;
    let events = super::events(&dump)?;
    // Called by the table of system calls: no compiler inlines it, as it does `vfs_fsync_range` in
    // `do_fsync` (Linux 7.3).
    let name = "__x64_sys_fsync";
    let all = report["functions"].as_array().context("no list of functions")?;
    let of = all.iter().find(|of| of["name"] == name);
    let of = of.with_context(|| format!("{name} was not counted: {said}"))?;
    let (calls, returns) = (of["calls"].as_u64(), of["returns"].as_u64());
    let recorded = |point: &str| {
        let is_of = |event: &&Value| event["function"] == name && event["point"] == point;
        events.iter().filter(is_of).count() as u64
    };
    let (entries, ends) = (recorded("entry"), recorded("return"));
    let told = format!("{name}: {calls:?} calls and {returns:?} returns counted");
    // The program that asks is called while it is counted.
    let is_near = |count: Option<u64>, recorded: u64| {
        count.is_some_and(|n| n >= ENOUGH && n.abs_diff(recorded) <= 1)
    };
    ensure!(
        is_near(calls, entries) && is_near(returns, ends),
        "{told}, but {entries} and {ends} recorded: {said}"
    );
    let durations = events.iter().filter(|event| event["duration_ns"].is_u64()).count() as u64;
    ensure!(durations >= ENOUGH, "calls without a duration: {dump}");
    ensure!(said.contains("nothing is probed"), "something is still probed: {said}");
    ensure!(said.contains("nosuchmodule is not loaded"), "{said}");
    Ok(format!("functions: {told}"))
}
