//! Functions that were probed for a time: of the kernel by a kprobe, of programs by a uprobe.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Calls of each at least, or it was no trial.
const ENOUGH: u64 = 5;

/// What the machine left of a trial.
struct Trial {
    /// What its commands said.
    said: String,
    /// The report of functions.
    report: Value,
    /// The events.
    events: Vec<Value>,
}

impl Trial {
    fn read(files: &Path) -> Result<Self> {
        let said = fs::read_to_string(files.join("functions.txt")).unwrap_or_default();
        let report = fs::read_to_string(files.join("functions.json"))
            .with_context(|| format!("no report of functions: {said}"))?;
        let report = serde_json::from_str(&report)
            .with_context(|| format!("the report of functions: {said}"))?;
        let dump = fs::read_to_string(files.join("functions.jsonl"))
            .with_context(|| format!("no dump of functions: {said}"))?;
        let events = super::events(&dump)?;
        ensure!(said.contains("nothing is probed"), "something is still probed: {said}");
        Ok(Self { said, report, events })
    }

    /// How many calls and returns of a function were counted.
    fn counted(&self, name: &str) -> Result<(Option<u64>, Option<u64>)> {
        let all = self.report["functions"].as_array().context("no list of functions")?;
        let of = all.iter().find(|of| of["name"] == name);
        let of = of.with_context(|| format!("{name} was not counted: {}", self.said))?;
        Ok((of["calls"].as_u64(), of["returns"].as_u64()))
    }

    /// The events of a function at a point of it.
    fn recorded(&self, name: &str, point: &str) -> Vec<&Value> {
        let is_of = |event: &&Value| event["function"] == name && event["point"] == point;
        self.events.iter().filter(is_of).collect()
    }
}

/// What was counted of a function of the kernel is what was recorded; and what was told of it.
pub(super) fn of_the_kernel(files: &Path) -> Result<String> {
    // Called by the table of system calls: no compiler inlines it, as it does `vfs_fsync_range` in
    // `do_fsync` (Linux 7.3).
    let name = "__x64_sys_fsync";
    let trial = Trial::read(files)?;
    let (calls, returns) = trial.counted(name)?;
    let recorded = |point| trial.recorded(name, point).len() as u64;
    let (entries, ends) = (recorded("entry"), recorded("return"));
    let (told, said) =
        (format!("{name}: {calls:?} calls and {returns:?} returns counted"), &trial.said);
    // The program that asks is called while it is counted.
    let is_near = |count: Option<u64>, recorded: u64| {
        count.is_some_and(|n| n >= ENOUGH && n.abs_diff(recorded) <= 1)
    };
    ensure!(
        is_near(calls, entries) && is_near(returns, ends),
        "{told}, but {entries} and {ends} recorded: {said}"
    );
    let timed = trial.events.iter().filter(|event| event["duration_ns"].is_u64()).count() as u64;
    ensure!(timed >= ENOUGH, "{timed} calls with a duration: {:#?}", trial.events);
    ensure!(said.contains("nosuchmodule is not loaded"), "{said}");
    Ok(format!("functions: {told}"))
}

/// What `tests/programs/functions.c` does: `graph`, and `mark` with so many passes.
pub(super) fn of_programs(files: &Path, passes: u64) -> Result<String> {
    let trial = Trial::read(files)?;
    let said = &trial.said;
    for (name, expected) in [("leaf", 8), ("middle", 4), ("top", 4), ("getppid", 4)] {
        let (calls, returns) = trial.counted(name)?;
        let recorded = ["entry", "return"].map(|point| trial.recorded(name, point).len());
        ensure!(
            (calls, returns) == (Some(expected), Some(expected))
                && recorded.map(|n| n as u64) == [expected; 2],
            "{name}: {calls:?} calls and {returns:?} returns counted, {recorded:?} recorded, but \
             {expected} made: {said}"
        );
    }
    let is_sum = |event: &&&Value| event["a0"] == "0x47" || event["a0"] == "0x48";
    let sums = trial.recorded("leaf", "return").iter().filter(is_sum).count();
    ensure!(sums == 4, "{sums} returns of leaf(7, 1) and leaf(7, 2): {:#?}", trial.events);
    let name = "tests:passed";
    ensure!(trial.counted(name)?.0 == Some(passes), "{name}: {:?}", trial.counted(name)?);
    ensure!(said.contains(&format!("listened={passes}")), "nobody listened: {said}");
    let marks = trial.recorded(name, "mark");
    ensure!(marks.len() as u64 == passes, "{} of {passes} passes recorded", marks.len());
    for (i, mark) in marks.iter().enumerate() {
        let minus = "0xfffffffffffffff9";
        let i = if i == 0 { "0".to_owned() } else { format!("{i:#x}") };
        let is = ["a0", "a1", "a2", "a3"].map(|of| mark[of].as_str().unwrap_or_default());
        // A constant, two registers, memory.
        ensure!(is == ["0x2a", minus, &i, minus], "arguments of pass {i}: {mark}");
    }
    Ok(format!("20 calls of functions of a program and a library, {passes} passes of a mark"))
}
