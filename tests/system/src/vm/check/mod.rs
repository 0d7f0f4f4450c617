//! What must be true of a machine that panicked.

mod aarch64;
mod cpus;
mod flood;
mod forged;
mod functions;
mod quota;
mod refusal;
mod refusals;
mod rings;
mod row;
mod samples;
mod slow_disk;
mod stress;
mod wakeups;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// At the ends of what two sources have in common: what was on its way there, ns.
const EDGE: u64 = 200_000_000;

pub(super) use aarch64::aarch64;
pub(super) use cpus::{Figures, cpus};
pub(super) use flood::flooded;
pub(super) use refusal::refuses;
pub(super) use refusals::refusals;
pub(super) use row::{Found, Row};

/// Checks all; what was found, for people.
pub(super) fn records(out: &Path) -> Result<Found> {
    ended(out)?;
    let files = out.join("out");
    let crash = recovered(out)?;
    // What vouches for the recording, where a dump has all memory.
    let store = out.join("flightrec");
    let of = |path| ["--vmcore", text(path), "--state-dir", text(&store)];

    let mut texts: Vec<(String, String)> = Vec::new();
    let forms = fs::read_to_string(files.join("forms")).context("no list of the dump's forms")?;
    let path = |form: &str| {
        files.join(if form == super::QEMU { form.to_owned() } else { format!("d31-{form}") })
    };
    let dumps: Vec<PathBuf> = forms.split_whitespace().map(path).collect();
    for path in &dumps {
        texts
            .push((path.display().to_string(), dump(&[&of(path), ["--all"].as_slice()].concat())?));
    }
    texts.push(("recovered by the hook".to_owned(), dump(&["--file", text(&crash), "--all"])?));
    let (Some(((_, first), others)), Some(vmcore)) = (texts.split_first(), dumps.first()) else {
        bail!("no dump")
    };
    for (name, other) in others {
        same(first, other)
            .with_context(|| format!("{name} tells something else than {}", vmcore.display()))?;
    }
    let events = events(first)?;
    let mut found = vec![format!(
        "{} events, the same by {} and in the recovered file",
        events.len(),
        forms.trim()
    )];

    last_words(&events)?;
    let stress = stress::numbered_calls(&files, &events)?;
    found.extend(stress.lines());
    let contexts = wakeups::contexts(&files)?;
    found.push(contexts.line.clone());
    found.push(samples::taken(&events)?);
    found.push(quota::adds_up(&files)?);
    found.push(rings::are_seen(&files)?);
    found.push(functions::of_the_kernel(&files)?);
    found.extend(slow_disk::waits(&files)?);
    // The last second of every CPU, by the coverage.
    for path in &dumps {
        let last = dump(&[&of(path), ["--last", "1s", "--strict"].as_slice()].concat());
        last.with_context(|| format!("the last second is not complete in {}", path.display()))?;
    }
    dump(&["--file", text(&crash), "--last", "1s", "--strict"])
        .context("the last second is not complete in the recovered file")?;
    let in_flight = flightctl(&[&["dump"], of(vmcore).as_slice(), &["--in-flight"]].concat())?;
    let writer =
        in_flight.lines().find(|line| line.contains("write(") && line.contains(", on CPU "));
    let writer =
        writer.with_context(|| format!("nobody writes to sysrq-trigger in {in_flight}"))?;
    found.push(format!("in flight: {}", writer.split_whitespace().collect::<Vec<_>>().join(" ")));
    ensure!(in_flight.contains("cat "), "the thread that waits at a pipe is not in {in_flight}");
    found.push(slow_disk::under_way(&in_flight)?);

    found.push(live(&files, &events)?);
    joined(out, vmcore, &events)?;
    found.push(sessions(vmcore)?);
    found.extend(forged::is_told(out, &crash)?);
    found.extend(memory(&files)?);
    let log = fs::read_to_string(files.join("flightd-live.log")).unwrap_or_default();
    let warnings = log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR"));
    found.extend(warnings.map(|line| format!("flightd: {}", line.trim())));
    found.extend(descriptors(&files)?);
    let forms: Vec<&str> = forms.split_whitespace().collect();
    let row = Row {
        panics: Row::panics(events.len(), &forms, true),
        stress: stress.cell(),
        contexts: contexts.cell(),
        ..Row::of(out, "x86_64")?
    };
    Ok(Found { lines: found, row })
}

/// What the machine's scripts said, which got to their end; and its kernel had nothing to complain
/// about.
fn ended(out: &Path) -> Result<Vec<String>> {
    let said = said(out)?;
    let is_end = |line: &String| line.ends_with(" done");
    ensure!(said.iter().any(is_end), "it did not get to its end: {}", said.join("\n"));
    no_complaints(out)?;
    Ok(said)
}

/// The kernel found nothing wrong in itself.
fn no_complaints(out: &Path) -> Result<()> {
    let complaint = complaint(&console(out)?).unwrap_or_default();
    ensure!(complaint.is_empty(), "the kernel complained:\n{complaint}");
    Ok(())
}

/// What stood on the machine's console.
fn console(out: &Path) -> Result<String> {
    let console =
        fs::read(out.join("console.log")).context("no console: the machine was not run")?;
    Ok(String::from_utf8_lossy(&console).into_owned())
}

/// What the machine's scripts said.
fn said(out: &Path) -> Result<Vec<String>> {
    let console = console(out)?;
    let said = console.lines().filter(|line| line.starts_with("VM ") || line.starts_with("VM:"));
    Ok(said.map(str::to_owned).collect())
}

/// The first warning or bug that the kernel found in itself (`__warn`, kernel/panic.c, Linux 6.1),
/// with the lines after it.
fn complaint(console: &str) -> Option<String> {
    /// Lines that have its stack.
    const LINES: usize = 40;
    let is_one = |line: &&str| line.contains("] WARNING: ") || line.contains("] BUG: ");
    let at = console.lines().position(|line| is_one(&line))?;
    Some(console.lines().skip(at).take(LINES).collect::<Vec<_>>().join("\n"))
}

/// The file that the hook made.
fn recovered(out: &Path) -> Result<PathBuf> {
    let dir = out.join("flightrec-crash");
    let entries =
        fs::read_dir(&dir).with_context(|| format!("the hook made no {}", dir.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "flight"));
    match files.as_slice() {
        [file] => Ok(file.clone()),
        _ => bail!("the hook made {} files", files.len()),
    }
}

/// The last mark is there, and after it the write that panicked the machine, the last call of its
/// CPU, without an exit.
fn last_words(events: &[Value]) -> Result<()> {
    let is = |event: &Value, kind: &str| event["event"] == kind;
    let mark = events.iter().rposition(|event| is(event, "mark")).context("no mark")?;
    let line = &events.get(mark).context("no mark")?["text"];
    ensure!(line == "the last mark", "the last mark is {line}");
    let after = events.get(mark..).unwrap_or_default();
    let calls = after.iter().enumerate().filter(|(_, event)| is(event, "sys_enter"));
    let opens = |event: &Value| event["args"].to_string().contains("/proc/sysrq-trigger");
    let (opened, open) = calls
        .clone()
        .find(|(_, event)| opens(event))
        .context("nobody opens sysrq-trigger after the last mark")?;
    let mut writes = calls.filter(|(at, event)| *at > opened && event["syscall"] == "write");
    let (at, write) = writes
        .find(|(_, event)| event["tid"] == open["tid"])
        .context("no write to sysrq-trigger after the last mark")?;
    let (tid, cpu) = (&write["tid"], &write["cpu"]);
    let later =
        after.get(at + 1..).unwrap_or_default().iter().filter(|event| event["syscall"].is_string());
    for event in later {
        ensure!(event["tid"] != *tid, "the thread of the last write went on: {event}");
        ensure!(event["cpu"] != *cpu, "its CPU {cpu} went on: {event}");
    }
    Ok(())
}

/// What was shown live is in the dump, for the time that both have.
fn live(files: &Path, dumped: &[Value]) -> Result<String> {
    let text = fs::read_to_string(files.join("live.jsonl")).context("no live dump")?;
    let head = |text: &str| {
        serde_json::from_str::<Value>(text.lines().next().unwrap_or_default()).unwrap_or_default()
    };
    let of = |value: &Value, field: &str| value[field].as_u64().unwrap_or(0);
    let head = head(&text);
    let (mut live, mut dumped) = (events(&text)?, dumped.to_vec());
    live.iter_mut().chain(&mut dumped).for_each(samples::forget_names);
    let begin = |events: &[Value]| events.first().map_or(0, |event| of(event, "mono_ns"));
    let from = begin(&live).max(begin(&dumped)) + EDGE;
    let until = of(&head, "until_mono_ns").saturating_sub(EDGE);
    let within = |event: &&Value| (from..until).contains(&of(event, "mono_ns"));
    let (a, b): (Vec<&Value>, Vec<&Value>) =
        (live.iter().filter(within).collect(), dumped.iter().filter(within).collect());
    ensure!(a.len() > 1000, "only {} events in common", a.len());
    if let Some((live, dumped)) = a.iter().zip(&b).find(|(a, b)| a != b) {
        bail!("live: {live}\ndump: {dumped}");
    }
    ensure!(a.len() == b.len(), "{} events live, {} in the dump", a.len(), b.len());
    Ok(format!(
        "{} events of {} ms are the same live",
        a.len(),
        until.saturating_sub(from) / 1_000_000
    ))
}

/// With the files of that boot, without and with what the hook put beside them.
fn joined(out: &Path, vmcore: &Path, events: &[Value]) -> Result<()> {
    let store = out.join("flightrec");
    for args in [
        ["--vmcore", text(vmcore), "--store", text(&store), "--all"].as_slice(),
        &["--store", text(&store), "--all"],
    ] {
        let told = self::events(&dump(args)?)?;
        ensure!(
            told.len() >= events.len(),
            "{} events with the files, {} without",
            told.len(),
            events.len()
        );
        let tail = told.get(told.len() - events.len()..).unwrap_or_default();
        if let Some((a, b)) = tail.iter().zip(events).find(|(a, b)| a != b) {
            bail!("with the files: {a}\nwithout: {b}");
        }
    }
    Ok(())
}

/// The earlier recording is told apart.
fn sessions(vmcore: &Path) -> Result<String> {
    let list = flightctl(&["dump", "--vmcore", text(vmcore), "--list-sessions"])?;
    Ok(format!("{} recordings in the dump", list.lines().count().saturating_sub(1)))
}

/// What the hook took.
fn memory(files: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(files.join("recover.txt")).context("the hook was not run")?;
    let wanted =
        ["recovered ", "/usr/lib/flightrec/flightctl", "Maximum resident", "Elapsed", "INCOMPLETE"];
    let lines = text.lines().filter(|line| wanted.iter().any(|words| line.contains(words)));
    Ok(lines.map(|line| format!("hook: {}", line.trim())).collect())
}

/// Whether descriptors have names.
fn descriptors(files: &Path) -> Result<Option<String>> {
    let status = fs::read_to_string(files.join("status.json")).context("no status")?;
    let status: Value = serde_json::from_str(&status)?;
    Ok(Some(format!(
        "descriptors: {}; programs: {}",
        status["descriptors"], status["syscall_programs"]
    )))
}

/// Two dumps tell the same events; what they say of themselves may differ.
fn same(a: &str, b: &str) -> Result<()> {
    let lines = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let (a, b) = (lines(a), lines(b));
    if let Some((a, b)) = a.iter().zip(&b).find(|(a, b)| a != b) {
        bail!("{a}\n{b}");
    }
    ensure!(a.len() == b.len(), "{} events, {} events", a.len(), b.len());
    Ok(())
}

/// The events of JSON lines, after the first.
fn events(text: &str) -> Result<Vec<Value>> {
    let events = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    Ok(events
        .into_iter()
        .filter(|event| event["event"] != "coverage" && event["event"] != "gap")
        .collect())
}

fn dump(args: &[&str]) -> Result<String> {
    flightctl(&[&["dump", "--fds", "off", "--format", "jsonl"], args].concat())
}

fn flightctl(args: &[&str]) -> Result<String> {
    let output = command(args).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "flightctl {}: {}: {errors}", args.join(" "), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(super::programs().join("flightctl"));
    command.args(args);
    command
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn what_the_kernel_complains_of_is_found() {
        let quiet = "[    0.1] Spectre V2 : WARNING: Unprivileged eBPF is enabled\nVM 3 done\n";
        assert_eq!(complaint(quiet), None);
        let line = "[   38.0] WARNING: CPU: 1 PID: 0 at kernel/trace/rethook.c:263 x+0x1a/0x80";
        let console = format!("{quiet}{line}\n[   38.1] Call Trace:\n");
        assert_eq!(complaint(&console), Some(format!("{line}\n[   38.1] Call Trace:")));
    }
}
