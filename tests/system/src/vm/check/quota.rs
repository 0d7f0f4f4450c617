//! A control group that used up its CPU time, held against the kernel's own sums.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// What there is of it at least, or it was no trial, µs.
const ENOUGH: u64 = 1_000_000;

/// The durations of its events add up to what `cpu.stat` has.
pub(super) fn adds_up(files: &Path) -> Result<String> {
    let stat = fs::read_to_string(files.join("cpu.stat")).context("no cpu.stat")?;
    let count = |key: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.and_then(|n| n.parse::<u64>().ok()).with_context(|| format!("no {key} in {stat}"))
    };
    let (periods, counted) = (count("nr_throttled")?, count("throttled_usec")?);
    let id = fs::read_to_string(files.join("quota.id")).context("no id of the group")?;
    let id: u64 = id.trim().parse().context("the group's id")?;
    let dump = fs::read_to_string(files.join("throttled.jsonl")).context("no dump of the group")?;
    let events = super::events(&dump)?;
    let of_group: Vec<&Value> = events.iter().filter(|event| event["cgroup"] == id).collect();
    let sum: u64 = of_group.iter().filter_map(|event| event["duration"].as_u64()).sum();
    let recorded = sum / 1000;
    let found = format!(
        "throttled: {recorded} us in {} events; the kernel counts {counted} us in {periods} periods",
        of_group.len()
    );
    ensure!(counted >= ENOUGH, "nothing was throttled: {found}");
    ensure!(recorded == counted, "{found}");
    // By the group's name as well.
    let text = fs::read_to_string(files.join("throttled.txt")).context("no text")?;
    let lines = text.lines().filter(|line| line.contains("(THROTTLE) ")).count();
    ensure!(lines == of_group.len(), "{lines} lines by the group's name; {found}");
    Ok(found)
}
