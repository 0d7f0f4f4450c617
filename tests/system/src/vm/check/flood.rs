//! A flood before the panic: what quiet processes did in the last minute is in the dump, complete.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{command, dump, ended, events, text};

/// How long before the panic quiet processes are whole.
const SECONDS: u64 = 60;

/// Checks the dump of a machine that ran `tests/system/vm/flood.sh`; what was found, for people.
pub(in super::super) fn flooded(out: &Path) -> Result<Vec<String>> {
    ended(out)?;
    let files = out.join("out");
    let path = files.join("d31-flat");
    let window = format!("{SECONDS}s");
    let of_window = ["--vmcore", text(&path), "--last", &window];

    // It was a flood: of the window, the rings have a part alone.
    let all =
        command(&[&["dump", "--event", "mark", "--format", "jsonl"], &of_window[..]].concat())
            .output()?
            .stdout;
    let all = String::from_utf8_lossy(&all);
    let head: Value = serde_json::from_str(all.lines().next().context("no coverage")?)?;
    ensure!(head["complete"] == false, "the rings held all of the last {SECONDS} s: no flood");
    let gaps = head["gaps"].as_array().context("no gaps")?;
    let missing = |reason: &str| -> u64 {
        gaps.iter()
            .filter(|gap| gap["reason"] == reason)
            .filter_map(|gap| gap["missing"].as_u64())
            .sum()
    };
    let left_out = missing("left_out");
    ensure!(left_out > 100_000, "only {left_out} events of the flood were left out: {head}");
    let mut found =
        vec![format!("the last {SECONDS} s: {left_out} events of the flood are not in the rings")];

    let quiet = fs::read_to_string(files.join("quiet.txt")).context("no quiet process was run")?;
    for line in quiet.lines() {
        let numbers: Vec<u64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [pid, first, rate] = numbers.as_slice() else { bail!("no three numbers: {line}") };
        let pid_text = pid.to_string();
        let asked =
            ["--pid", &pid_text, "--syscall", "getpgid", "--event", "sys_enter", "--strict"];
        let text = dump(&[&of_window[..], &asked].concat())
            .with_context(|| format!("the last {SECONDS} s of {pid} are not complete"))?;
        let calls: Vec<u64> =
            events(&text)?.iter().filter_map(|event| event["args"][0]["value"].as_u64()).collect();
        let gap = calls.windows(2).find(|pair| pair[1] != pair[0] + 1);
        ensure!(gap.is_none(), "a call of {pid} is missing: {gap:?}");
        let (made, wanted) = (calls.len() as u64, rate * SECONDS);
        ensure!(
            calls.first().is_some_and(|number| number >= first),
            "not its calls: {:?}",
            calls.first()
        );
        ensure!(
            made + rate >= wanted && made <= wanted + rate,
            "{made} calls of {pid}, not {wanted}"
        );
        found.push(format!(
            "process {pid}: {made} calls ({rate} a second), none missing, and called complete"
        ));
    }
    ensure!(found.len() == 4, "not three quiet processes: {quiet}");
    Ok(found)
}
