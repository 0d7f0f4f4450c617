//! What must be true of a machine with many CPUs, and its figures.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{ended, events};

/// The first number of `tests/system/vm/numbers.c`, how many a second `tests/system/vm/cpus.sh` asks for, and for
/// how many seconds it reads them.
const FIRST: u64 = 1 << 30;
const RATE: usize = 20;
const SECONDS: usize = 10;

/// Up to how many CPUs, starting and `status` have a limit in seconds.
const LIMITED: u32 = 64;
const START_LIMIT: f64 = 10.0;
const STATUS_LIMIT: f64 = 1.0;

/// How far a figure may lie above the line through two others, in parts of it; and by unit how
/// coarsely it is read.
const ABOVE: f64 = 1.25;
const COARSE: &[(&str, f64)] = &[("s", 0.02), ("MiB", 4.0), ("%", 0.5), ("", 5.0)];

/// What a machine of so many CPUs took: rows in order, each with its name, value and unit.
#[derive(Debug)]
pub(in crate::vm) struct Figures {
    cpus: u32,
    rows: Vec<(&'static str, f64, &'static str)>,
}

impl Figures {
    /// Side by side, each beside how often it is the first one's.
    pub(in crate::vm) fn table(columns: &[Self]) -> Vec<String> {
        let Some(first) = columns.first() else { return Vec::new() };
        let mut head = format!("| | {} CPUs |", first.cpus);
        for of in columns.iter().skip(1) {
            let times = f64::from(of.cpus) / f64::from(first.cpus);
            // To a string, writing does not fail.
            let _ = write!(head, " {} CPUs (x {times:.1}) |", of.cpus);
        }
        let mut lines = vec![head, format!("| --- |{}", " ---: |".repeat(columns.len()))];
        for (at, (name, value, unit)) in first.rows.iter().enumerate() {
            let mut line = format!("| {name} | {value:.2} {unit} |");
            for of in columns.iter().skip(1) {
                let (_, there, unit) = of.rows[at];
                let times = if *value > 0.0 { there / value } else { f64::NAN };
                let _ = write!(line, " {there:.2} {unit} (x {times:.1}) |");
            }
            lines.push(line);
        }
        lines
    }

    /// None grows faster than linearly with the CPUs: of three machines, smallest first, the third
    /// lies on the line through the others, or below it. Two tell nothing, as each figure has a part
    /// that does not grow.
    pub(in crate::vm) fn grow_linearly(columns: &[Self]) -> Result<()> {
        for machines in columns.windows(3) {
            let [small, middle, large] = machines else { continue };
            let [x, y, z] = [small, middle, large].map(|of| f64::from(of.cpus));
            ensure!(x < y && y < z, "name the numbers of CPUs smallest first");
            for (((name, a, unit), (_, b, _)), (_, c, _)) in
                small.rows.iter().zip(&middle.rows).zip(&large.rows)
            {
                let coarse = COARSE.iter().find(|(of, _)| of == unit).map_or(0.0, |of| of.1);
                let line = b + (b - a).max(0.0) * (z - y) / (y - x);
                // What is read coarsely leaves the line's slope open by as much.
                let most = line * ABOVE + coarse * (z - x) / (y - x);
                ensure!(
                    *c <= most,
                    "{name}: {a:.2}, {b:.2} and {c:.2} {unit} with {x}, {y} and {z} CPUs: it grows \
                     faster than they do (at most {most:.2})"
                );
            }
        }
        Ok(())
    }
}

/// Checks all; what was found, for people, and the figures.
pub(in crate::vm) fn cpus(out: &Path, cpus: u32) -> Result<(Vec<String>, Figures)> {
    let console = ended(out)?;
    let failed = console.iter().find(|line| line.contains("FAILED"));
    ensure!(failed.is_none(), "{}", failed.map_or("", String::as_str));
    let files = out.join("out");
    let text = |name: &str| {
        fs::read_to_string(files.join(name)).with_context(|| format!("no {name} was left"))
    };
    let json = |name: &str| -> Result<Value> { Ok(serde_json::from_str(&text(name)?)?) };
    let mut found = Vec::new();

    // Each CPU's numbered calls, of a window that says it is complete.
    let dumped = text("dump.jsonl")?;
    let head: Value = serde_json::from_str(dumped.lines().next().context("an empty dump")?)?;
    ensure!(head["complete"] == true, "the last {SECONDS} s are not complete: {head}");
    let threads = threads(&text("numbers.txt")?)?;
    ensure!(threads.len() == cpus as usize, "{} threads on {cpus} CPUs", threads.len());
    let numbers = numbers(&events(&dumped)?)?;
    let mut fewest = usize::MAX;
    for (cpu, tid, _) in &threads {
        let of = numbers.get(tid).with_context(|| format!("no call on CPU {cpu}"))?;
        in_a_row(of, *cpu).with_context(|| format!("CPU {cpu}"))?;
        fewest = fewest.min(of.len());
    }
    ensure!(fewest >= RATE * SECONDS * 3 / 4, "only {fewest} calls on a CPU in {SECONDS} s");
    found.push(format!(
        "the last {SECONDS} s are complete: {} lines, at least {fewest} numbered calls on each CPU",
        text("dump.txt")?.lines().count()
    ));

    // The recorder was killed meanwhile.
    ensure!(text("adopted.code")?.trim() == "0", "after the kill: {}", text("adopted.err")?);
    let log = text("adopted.log")?;
    ensure!(log.contains("adopted"), "the next flightd did not take over the recording: {log}");
    let after = self::numbers(&events(&text("adopted.jsonl")?)?)?;
    for (cpu, tid, calls) in &threads {
        let of = after.get(tid).with_context(|| format!("no call on CPU {cpu} since the kill"))?;
        in_a_row(of, *cpu).with_context(|| format!("CPU {cpu}, across the kill"))?;
        let last = of.last().map_or(0, |(number, _)| number + 1 - FIRST);
        ensure!(last == *calls, "CPU {cpu}: the last of {calls} calls is {last}");
    }
    found.push("no call is missing across a kill of flightd".to_owned());

    // The last CPU was away.
    if cpus > 1 {
        let left = text("offline.nproc")?;
        ensure!(left.trim() == (cpus - 1).to_string(), "{left} CPUs without the last one");
        ensure!(text("back.code")?.trim() == "0", "with the CPU back: {}", text("back.err")?);
        let of_cpu = self::threads(&text("back.txt")?)?;
        let [(cpu, tid, calls)] = of_cpu.as_slice() else { anyhow::bail!("no thread on it") };
        let back = self::numbers(&events(&text("back.jsonl")?)?)?;
        let of = back.get(tid).context("no call on the CPU that is back")?;
        in_a_row(of, *cpu)?;
        ensure!(of.len() as u64 == *calls, "{} of {calls} calls on CPU {cpu}", of.len());
        found
            .push(format!("CPU {cpu} went away, and all {calls} calls since it is back are there"));
    }
    nothing_lost(&json("status.json")?)?;
    ensure!(text("left.txt")?.trim() == "0", "BPF objects are left: {}", text("left.txt")?);

    let figures = figures(&files, cpus)?;
    let of = |name: &str| {
        figures.rows.iter().find(|row| row.0 == name).map_or(f64::NAN, |(_, value, _)| *value)
    };
    if cpus <= LIMITED {
        for (name, limit) in [("start", START_LIMIT), ("`status`", STATUS_LIMIT)] {
            let took = of(name);
            ensure!(took < limit, "{name} took {took:.2} s, and must take less than {limit} s");
        }
    }
    Ok((found, figures))
}

/// The threads of `numbers`: CPU, thread, calls.
fn threads(text: &str) -> Result<Vec<(u64, u64, u64)>> {
    let mut threads = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["cpu", cpu, "tid", tid, "calls", calls] = words.as_slice() else { continue };
        threads.push((cpu.parse()?, tid.parse()?, calls.parse()?));
    }
    Ok(threads)
}

/// By thread: its numbers in order, each with the CPU of the call.
fn numbers(events: &[Value]) -> Result<BTreeMap<u64, Vec<(u64, u64)>>> {
    let mut of: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for event in events {
        if event["event"] != "sys_enter" || event["syscall"] != "getpgid" {
            continue;
        }
        let number = event["args"][0]["value"].as_u64().context("a call without a number")?;
        let (tid, cpu) = (event["tid"].as_u64(), event["cpu"].as_u64());
        let (tid, cpu) = tid.zip(cpu).context("a call of no thread, or on no CPU")?;
        of.entry(tid).or_default().push((number, cpu));
    }
    Ok(of)
}

/// None is missing, none is there twice, and all are on the thread's CPU.
fn in_a_row(numbers: &[(u64, u64)], cpu: u64) -> Result<()> {
    let gap = numbers.windows(2).find(|pair| pair[1].0 != pair[0].0 + 1);
    ensure!(gap.is_none(), "calls are missing, or there twice: {gap:?}");
    let elsewhere = numbers.iter().find(|(_, on)| *on != cpu);
    ensure!(elsewhere.is_none(), "a call is on another CPU: {elsewhere:?}");
    Ok(())
}

/// Of no lane, for no reason.
fn nothing_lost(status: &Value) -> Result<()> {
    let lanes = status["lanes"].as_object().context("no lanes in the status")?;
    for (name, lane) in lanes {
        let lost = lane["lost"].as_object().with_context(|| format!("lane {name}: {lane}"))?;
        let lost: Vec<_> = lost.iter().filter(|(_, count)| count.as_u64() != Some(0)).collect();
        ensure!(lost.is_empty(), "lane {name} lost events: {lost:?}");
    }
    Ok(())
}

/// What it took.
fn figures(files: &Path, cpus: u32) -> Result<Figures> {
    let text = |name: &str| fs::read_to_string(files.join(name)).with_context(|| name.to_owned());
    let json = |name: &str| -> Result<Value> { Ok(serde_json::from_str(&text(name)?)?) };
    // What took how long: seconds, and KiB.
    let mut times: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for line in text("times")?.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, seconds, kib] = words.as_slice() else { anyhow::bail!("times: {line}") };
        times.entry((*name).to_owned()).or_default().push((seconds.parse()?, kib.parse()?));
    }
    let median = |name: &str| -> Result<(f64, f64)> {
        let mut all = times.get(name).with_context(|| format!("no time of {name}"))?.clone();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(all[all.len() / 2])
    };
    // CPU time and time, s; events; the recorder's own system calls.
    let span = |of: &str| -> Result<[f64; 4]> {
        let (a, b) = (json(&format!("{of}-1.json"))?, json(&format!("{of}-2.json"))?);
        let cpu = |of: &Value| of["daemon"]["cpu_seconds"].as_f64().context("no CPU time");
        let at = |of: &Value| of["mono_ns"].as_f64().context("no time");
        // Entries and exits.
        let own = |of: &Value| of["lanes"]["syscall"]["own"].as_f64().context("no own calls");
        Ok([
            cpu(&b)? - cpu(&a)?,
            (at(&b)? - at(&a)?) / 1e9,
            recorded(&b)? - recorded(&a)?,
            (own(&b)? - own(&a)?) / 2.0,
        ])
    };
    let status = json("busy-2.json")?;
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    let daemon = text("daemon.txt")?;
    let of_daemon = |key: &str| -> Result<f64> {
        let line = daemon.lines().find(|line| line.starts_with(key)).context("daemon.txt")?;
        Ok(line.split_whitespace().nth(1).context("daemon.txt")?.parse()?)
    };
    let files_open: f64 = daemon.lines().last().context("daemon.txt")?.trim().parse()?;
    let [idle, idle_seconds, _, idle_calls] = span("idle")?;
    let [busy, busy_seconds, events, busy_calls] = span("busy")?;
    let (dump, dump_kib) = median("dump")?;
    let lines = text("dump.txt")?.lines().count() as f64;
    let ring = |lane: &str| status["lanes"][lane]["ring_bytes"].as_f64().unwrap_or(f64::NAN);
    let rows = vec![
        ("kernel memory", mib(status["memory_bytes"].as_f64().context("no memory")?), "MiB"),
        ("ring of system calls, each CPU", ring("syscall") / 1024.0, "KiB"),
        ("flightd's memory, most", mib(of_daemon("VmHWM")? * 1024.0), "MiB"),
        ("flightd's threads", of_daemon("Threads")?, ""),
        ("flightd's open files", files_open, ""),
        ("start", median("start")?.0, "s"),
        ("take over after a kill", median("adopt")?.0, "s"),
        ("stop", median("stop")?.0, "s"),
        ("`flightctl --version`", median("version")?.0, "s"),
        ("`status`", median("status")?.0, "s"),
        ("`dump --last 10s`", dump, "s"),
        ("its lines", lines, ""),
        ("its memory", mib(dump_kib * 1024.0), "MiB"),
        ("`dump --last 10s --format jsonl`", median("json")?.0, "s"),
        ("`why --last 10s`", median("why")?.0, "s"),
        ("idle machine: flightd's system calls a second", idle_calls / idle_seconds, ""),
        ("flightd, of one CPU", 100.0 * idle / idle_seconds, "%"),
        ("numbered calls: events a second", events / busy_seconds, ""),
        ("flightd's system calls a second", busy_calls / busy_seconds, ""),
        ("flightd, of one CPU", 100.0 * busy / busy_seconds, "%"),
    ];
    Ok(Figures { cpus, rows })
}

/// Events of all kinds.
fn recorded(status: &Value) -> Result<f64> {
    let lanes = status["lanes"].as_object().context("no lanes in the status")?;
    let events = lanes.values().filter_map(|lane| lane["events"].as_object());
    Ok(events.flat_map(|of| of.values()).filter_map(Value::as_f64).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cpus: u32, start: f64, memory: f64) -> Figures {
        Figures { cpus, rows: vec![("start", start, "s"), ("memory", memory, "MiB")] }
    }

    #[test]
    fn what_grows_faster_than_the_cpus_is_found() {
        let grow = |starts: [f64; 3]| {
            let of = |(cpus, start)| of(cpus, start, 80.0);
            Figures::grow_linearly(&[2, 16, 64].into_iter().zip(starts).map(of).collect::<Vec<_>>())
        };
        assert!(grow([1.0, 1.0, 1.0]).is_ok());
        assert!(grow([1.2, 2.6, 7.4]).is_ok(), "1 s, and 0.1 s a CPU");
        assert!(grow([1.0, 8.0, 8.0]).is_ok(), "what is capped");
        // 1 s, and 0.002 s for each pair of CPUs.
        let error = grow([1.008, 1.512, 9.192]).unwrap_err().to_string();
        assert!(
            error.starts_with("start: 1.01, 1.51 and 9.19 s with 2, 16 and 64 CPUs"),
            "{error}"
        );
        // What is hardly to be measured is no growth.
        assert!(grow([0.01, 0.02, 0.06]).is_ok());
        let turned = [of(64, 1.0, 1.0), of(16, 1.0, 1.0), of(2, 1.0, 1.0)];
        assert!(Figures::grow_linearly(&turned).is_err());
    }

    #[test]
    fn the_table_has_each_figure_beside_the_first_ones() {
        let table = Figures::table(&[of(2, 0.5, 80.0), of(64, 1.0, 508.0)]).join("\n");
        assert!(table.starts_with("| | 2 CPUs | 64 CPUs (x 32.0) |\n"), "{table}");
        assert!(table.contains("| start | 0.50 s | 1.00 s (x 2.0) |"), "{table}");
    }

    #[test]
    fn a_missing_call_and_a_call_elsewhere_are_found() {
        assert!(in_a_row(&[(5, 1), (6, 1), (7, 1)], 1).is_ok());
        assert!(in_a_row(&[(5, 1), (7, 1)], 1).is_err());
        assert!(in_a_row(&[(5, 1), (5, 1)], 1).is_err());
        assert!(in_a_row(&[(5, 1), (6, 0)], 1).is_err());
    }
}
