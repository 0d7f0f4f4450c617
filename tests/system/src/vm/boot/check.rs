//! What must be true of a machine that booted twice with the recorder enabled.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// What the trial's units do, early and late.
const EARLY: &str = "\"/run/boot-trial-early\"";
const LATE: &str = "\"/run/boot-trial-late\"";
/// At the end of what was recorded when it was asked for: what was on its way there, ns.
const EDGE: u64 = 200_000_000;

/// A boot's recording, as flightctl tells it.
struct Told {
    coverage: Value,
    events: Vec<Value>,
}

/// Checks all; what was found, for people. `purged`: whether the package was purged in the end.
pub(super) fn all(out: &Path, purged: bool) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut ids = Vec::new();
    let mut first = None;
    for number in [1, 2_usize] {
        let dir = out.join("out").join(number.to_string());
        console(out, number)?;
        service(&dir)?;
        let here = Told::read(&dir, "here.jsonl")?;
        found.push(format!(
            "boot {number}: {}",
            early(&dir, &here).with_context(|| format!("boot {number}"))?
        ));
        ids.push(text(&dir, "boot_id")?.replace('-', ""));
        boots(&dir, &ids)?;
        match first.take() {
            None => first = Some(here),
            Some(first) => {
                ensure!(ids.first() != ids.last(), "both boots have one id");
                found.push(before(&dir, &out.join("out/1"), &first)?);
            }
        }
    }
    if purged {
        found.push(nothing_is_left(&out.join("out/2"))?);
    }
    Ok(found)
}

/// The drill finds its cause beside the recorder that runs, and after a purge the package comes and
/// goes twice, with a drill and a recorder, without leaving anything.
fn nothing_is_left(dir: &Path) -> Result<String> {
    for name in ["drill", "purge", "bare"] {
        let code = text(dir, &format!("{name}.code"))?;
        ensure!(code.trim() == "0", "{name}: exit code {code}{}", text(dir, name)?);
    }
    let said = text(dir, "bare")?;
    let nothing = said.lines().filter(|line| line.starts_with("nothing is left")).count();
    ensure!(nothing == 2, "{nothing} of 2 times nothing is left: {said}");
    let planted = said.lines().find(|line| line.starts_with("what was left on purpose"));
    let planted = planted.with_context(|| format!("nothing was left on purpose: {said}"))?;
    Ok(format!(
        "the drill beside it found the cause; installed, tried and purged {nothing} times, \
         nothing is left; {planted}"
    ))
}

/// It got to its end, and no unit failed.
fn console(out: &Path, number: usize) -> Result<()> {
    let console =
        fs::read(out.join(format!("console-{number}.log"))).context("the machine was not run")?;
    let console = String::from_utf8_lossy(&console);
    let done = format!("boot {number} done");
    ensure!(
        console.lines().any(|line| line.starts_with("VM ") && line.ends_with(&done)),
        "no line tells {done}"
    );
    let failed: Vec<&str> = console.lines().filter(|line| line.contains("FAILED")).collect();
    ensure!(failed.is_empty(), "systemd tells of boot {number}: {}", failed.join("; "));
    Ok(())
}

/// systemd started it, as its user, with two capabilities.
fn service(dir: &Path) -> Result<()> {
    let unit = "flightd.service";
    for (key, value) in
        [("ActiveState", "active"), ("UnitFileState", "enabled"), ("User", "flightrec")]
    {
        let is = property(dir, unit, key)?;
        ensure!(is == value, "{unit}: {key} is {is}");
    }
    let process = text(dir, "process")?;
    let field = |name: &str| {
        let line = process.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches(':').split_whitespace().collect::<Vec<_>>().join(" ")
    };
    ensure!(field("PPid") == "1", "its parent is process {}", field("PPid"));
    ensure!(!field("Uid").split(' ').any(|uid| uid == "0"), "it runs as {}", field("Uid"));
    // CAP_PERFMON is 38, CAP_BPF 39 (linux/capability.h).
    ensure!(u64::from_str_radix(&field("CapEff"), 16)? == 3 << 38, "CapEff is {}", field("CapEff"));
    let journal = text(dir, "journal")?;
    // An emulated machine may be too slow to measure; that the sandbox denies something is a fault.
    // Debian's kernels keep perf events for root, and flightd says what is lacking for that reason.
    let denied = journal.lines().find(|line| {
        let is_denied = ["not permitted", "ermission denied"].iter().any(|no| line.contains(no));
        is_denied && !line.contains("kernel.perf_event_paranoid is")
    });
    ensure!(denied.is_none(), "{}", denied.unwrap_or_default());
    Ok(())
}

/// The recording begins before `multi-user.target`, and nothing is missing from there on.
fn early(dir: &Path, told: &Told) -> Result<String> {
    let moment = |unit: &str| {
        property(dir, unit, "ActiveEnterTimestampMonotonic")?.parse::<u64>().context("a time")
    };
    let (sysinit, multi_user) = (moment("sysinit.target")?, moment("multi-user.target")?);
    let userspace: u64 =
        text(dir, "manager")?.trim().split('=').nth(1).context("a time")?.parse()?;
    told.is_complete(&lanes(dir)?)?;
    let call = told.call(EARLY)?;
    ensure!(
        call < sysinit * 1000,
        "the early unit's call, at {call} ns, is not before sysinit.target, at {sysinit} us"
    );
    let begin = told.begin();
    let before = told.events.iter().filter(|event| mono(event) < multi_user * 1000).count();
    ensure!(before > 1000, "{before} events before multi-user.target");
    let misses = match &told.coverage["recursion_misses"] {
        Value::Object(misses) if !misses.is_empty() => {
            format!("; skipped by the kernel: {}", told.coverage["recursion_misses"])
        }
        _ => String::new(),
    };
    Ok(format!(
        "userspace at {}, recorded from {} on, sysinit.target at {}, multi-user.target at {}: \
         {before} of {} events are before that{misses}",
        seconds(userspace * 1000),
        seconds(begin),
        seconds(sysinit * 1000),
        seconds(multi_user * 1000),
        told.events.len()
    ))
}

/// The lanes that the recorder has, as it says itself.
fn lanes(dir: &Path) -> Result<BTreeSet<String>> {
    let status: Value = serde_json::from_str(&text(dir, "status.json")?).context("status.json")?;
    let lanes = status["lanes"].as_object().context("no lanes in the status")?;
    Ok(lanes.keys().cloned().collect())
}

/// `--list-boots` has the boots so far, in their order.
fn boots(dir: &Path, ids: &[String]) -> Result<()> {
    let list = text(dir, "boots")?;
    let listed: Vec<Option<&str>> =
        list.lines().skip(1).map(|line| line.split_whitespace().nth(1)).collect();
    let want: Vec<Option<&str>> = ids.iter().map(|id| Some(id.trim())).collect();
    ensure!(listed == want, "boots {want:?} are listed as {list}");
    Ok(())
}

/// `--boot -1` after the reboot tells what the boot itself told, and its end.
fn before(dir: &Path, first: &Path, here: &Told) -> Result<String> {
    let before = Told::read(dir, "before.jsonl")?;
    before.is_complete(&lanes(dir)?)?;
    let until = here.coverage["until_mono_ns"].as_u64().context("until")?.saturating_sub(EDGE);
    let there = here.events.iter().take_while(|event| mono(event) < until);
    let mut common = 0_usize;
    for (a, b) in there.zip(&before.events) {
        ensure!(a == b, "in its own boot: {a}\nafter the reboot: {b}");
        common += 1;
    }
    ensure!(common > 1000, "{common} events in common");
    let early = before.call(EARLY)?;
    let multi_user: u64 =
        property(first, "multi-user.target", "ActiveEnterTimestampMonotonic")?.parse()?;
    ensure!(
        before.begin() < multi_user * 1000 && early < multi_user * 1000,
        "what was before multi-user.target is gone"
    );
    let late = before.call(LATE)?;
    ensure!(late > until, "what a unit did at shutdown is told before that");
    let end = before.events.last().map_or(0, mono);
    Ok(format!(
        "--boot -1: {} events, {common} of them the same as told in that boot; the last is {} \
         after the call at shutdown",
        before.events.len(),
        seconds(end.saturating_sub(late))
    ))
}

impl Told {
    fn read(dir: &Path, name: &str) -> Result<Self> {
        let code = text(dir, &format!("{name}.code"))?;
        ensure!(
            code.trim() == "0",
            "{name}: exit code {code}{}",
            text(dir, &format!("{name}.err"))?
        );
        let told = text(dir, name)?;
        let mut lines = told.lines().map(serde_json::from_str);
        let coverage = lines.next().context("no coverage")??;
        Ok(Self { coverage, events: lines.collect::<Result<_, _>>()? })
    }

    /// From the start of the recording on, each of these lanes of every CPU. What the kernel
    /// skipped (`recursion_misses`) is told, and no fault: from Linux 7.0 on it skips a run of a
    /// task program now and then.
    fn is_complete(&self, wanted: &BTreeSet<String>) -> Result<()> {
        let lanes = self.coverage["lanes"].as_array().context("no lanes")?;
        let names: BTreeSet<String> =
            lanes.iter().filter_map(|lane| Some(lane["lane"].as_str()?.to_owned())).collect();
        ensure!(names == *wanted, "lanes {names:?} are told, of {wanted:?}");
        let is_whole = |lane: &Value| lane["complete_cpus"] == self.coverage["cpus"];
        let whole = lanes.iter().all(is_whole) && self.coverage["gaps"] == Value::Array(Vec::new());
        ensure!(
            whole && self.coverage["from_start"] == true,
            "something is missing: {}",
            self.coverage
        );
        Ok(())
    }

    fn begin(&self) -> u64 {
        self.events.first().map_or(u64::MAX, mono)
    }

    /// When a directory was made: aarch64 has only `mkdirat`, with the path after the directory.
    fn call(&self, path: &str) -> Result<u64> {
        let has_path = |event: &Value| {
            let args = event["args"].as_array();
            args.is_some_and(|args| args.iter().any(|argument| argument["text"] == path))
        };
        let is = |event: &&Value| event["event"] == "sys_enter" && has_path(event);
        self.events
            .iter()
            .find(is)
            .map(mono)
            .with_context(|| format!("mkdir of {path} is not recorded"))
    }
}

fn mono(event: &Value) -> u64 {
    event["mono_ns"].as_u64().unwrap_or_default()
}

fn seconds(ns: u64) -> String {
    format!("{}.{:03} s", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}

fn property(dir: &Path, unit: &str, key: &str) -> Result<String> {
    let shown = text(dir, unit)?;
    let value = shown.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value.map(str::to_owned).with_context(|| format!("{unit} has no {key}: {shown}"))
}

fn text(dir: &Path, name: &str) -> Result<String> {
    fs::read_to_string(dir.join(name)).with_context(|| dir.join(name).display().to_string())
}
