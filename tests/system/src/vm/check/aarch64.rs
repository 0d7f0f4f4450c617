//! What must be true of an aarch64 machine that recorded, and panicked.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flightrec_tests::contexts;
use serde_json::Value;

use super::row::{Found, Row};
use super::{dump, events, flightctl, functions, last_words, samples, stress, text, wakeups};
use crate::vm::image::FORMS;

/// What `tests/system/vm/machine.c` does, in the words for it.
const CALLS: &[&str] = &[
    "openat(AT_FDCWD, \"/\", O_RDONLY|O_NOFOLLOW|O_CLOEXEC|O_DIRECTORY)",
    "openat(AT_FDCWD, \"/proc/self/comm\", O_RDONLY|O_DIRECT)",
    "MAP_PRIVATE|MAP_ANONYMOUS",
    "{events=EPOLLIN, data={u32=1432778632, u64=1234605616436508552}}",
    "[{events=EPOLLIN, data={u32=1432778632, u64=1234605616436508552}}]",
    "syscall_1073741825",
];

/// Checks all; what was found, for people.
pub(in crate::vm) fn aarch64(out: &Path) -> Result<Found> {
    let said = super::said(out)?;
    ensure!(
        said.iter().any(|line| line.contains(" read: ")),
        "it did not get to its end: {}",
        said.join("\n")
    );
    super::no_complaints(out)?;
    let files = out.join("out");
    let mut found = Vec::new();
    // What each machine says of either recording.
    for (name, recording) in
        [("aarch64", files.join("aarch64.flight")), ("x86_64", out.join("x86_64.flight"))]
    {
        let there = fs::read_to_string(files.join(name).with_extension("txt"))?;
        let here = in_text(&recording)?;
        same_text(&there, &here).with_context(|| format!("the recording of {name}"))?;
        found.push(format!(
            "recording of {name}: {} lines of text are the same on both machines",
            here.lines().count()
        ));
    }
    let text_of = fs::read_to_string(files.join("aarch64.txt"))?;
    let thread = fs::read_to_string(files.join("machine.txt")).context("no machine.txt")?;
    let is_its = |line: &&str| line.split_whitespace().nth(2) == Some(thread.trim());
    let lines: Vec<&str> = text_of.lines().filter(is_its).collect();
    for wanted in CALLS {
        ensure!(
            lines.iter().any(|line| line.contains(wanted)),
            "no {wanted} among the calls of thread {}:\n{}",
            thread.trim(),
            lines.join("\n")
        );
    }
    found.push(format!("{} lines of calls that x86_64 has otherwise", lines.len()));

    let recording = files.join("aarch64.flight");
    let saved = events(&dump(&["--file", text(&recording), "--all"])?)?;
    let stress = stress::numbered_calls(&files, &saved)?;
    found.extend(stress.lines());
    let contexts = wakeups::contexts(&files)?;
    found.push(contexts.line.clone());
    found.push(samples::taken(&saved)?);
    found.push(functions::of_programs(&files, 50)?);
    found.push(spans(&files, &recording)?);
    found.push(nothing_is_lost(&files)?);

    // The machine's memory.
    let store = out.join("flightrec");
    let mut of_dumps = Vec::new();
    for (form, _) in FORMS {
        let path = out.join(form);
        let args = ["--vmcore", text(&path), "--state-dir", text(&store), "--all"];
        of_dumps.push(dump(&args).with_context(|| form.to_owned())?);
    }
    let [elf, kdump] = of_dumps.as_slice() else { anyhow::bail!("no dumps") };
    super::same(elf, kdump).context("the two forms of the dump")?;
    let dumped = events(elf)?;
    last_words(&dumped)?;
    let in_dump = stress::numbered_calls(&files, &dumped)?.threads();
    found.push(format!(
        "{} events in the machine's memory after the panic, by both forms of the dump; numbered \
         calls of {in_dump} threads",
        dumped.len()
    ));
    let path = out.join("elf");
    let args = ["dump", "--vmcore", text(&path), "--state-dir", text(&store), "--in-flight"];
    let in_flight = flightctl(&args)?;
    ensure!(in_flight.contains("write("), "nobody writes to sysrq-trigger in {in_flight}");
    let log = fs::read_to_string(files.join("flightd-live.log")).unwrap_or_default();
    let warnings = log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR"));
    found.extend(warnings.map(|line| format!("flightd: {}", line.trim())));
    let forms: Vec<&str> = FORMS.iter().map(|(form, _)| *form).collect();
    let row = Row {
        panics: Row::panics(dumped.len(), &forms, false),
        stress: stress.cell(),
        contexts: contexts.cell(),
        ..Row::of(out, "aarch64")?
    };
    Ok(Found { lines: found, row })
}

/// A recording in the words of this machine's flightctl.
fn in_text(recording: &Path) -> Result<String> {
    let mut command = super::command(&["dump", "--file", text(recording), "--all"]);
    let output = command.env("TZ", "UTC").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn same_text(there: &str, here: &str) -> Result<()> {
    if let Some((a, b)) = there.lines().zip(here.lines()).find(|(a, b)| a != b) {
        anyhow::bail!("on aarch64: {a}\non x86_64:  {b}");
    }
    ensure!(there == here, "{} bytes on aarch64, {} here", there.len(), here.len());
    Ok(())
}

/// Of switches away from threads that publish for which span they work, 99.9 % have the right one,
/// by each way of finding the variable.
fn spans(files: &Path, recording: &Path) -> Result<String> {
    let switches = ["--file", text(recording), "--all", "--event", "switch", "--traces"];
    let switches = events(&dump(&switches)?)?;
    let mut shares = Vec::new();
    for name in ["pie", "fixed", "large", "traditional"] {
        let told = fs::read_to_string(files.join(format!("contexts.{name}")))
            .with_context(|| format!("no contexts.{name}"))?;
        let threads = contexts::published(&told);
        let (right, all) = contexts::right(&switches, &threads);
        ensure!(
            threads.len() == 2 && all > 300 && right * 1000 >= all * 999,
            "contexts.{name}: {right} of {all} switches of {} threads have the right span",
            threads.len()
        );
        shares.push(format!("{right} of {all} ({name})"));
    }
    Ok(format!("the right span at {} switches", shares.join(", ")))
}

/// By the recorder's own counters, and by what its recording has of what they count.
fn nothing_is_lost(files: &Path) -> Result<String> {
    let status = fs::read_to_string(files.join("status.json")).context("no status")?;
    let status: Value = serde_json::from_str(&status)?;
    let lanes = status["lanes"].as_object().context("no lanes in the status")?;
    for (name, lane) in lanes {
        let of_lane = lane["lost"].as_object().with_context(|| format!("lane {name}: {lane}"))?;
        for (why, count) in of_lane {
            let count = count.as_u64().context("a count that is none")?;
            ensure!(count == 0, "lane {name} lost {count} events ({why})");
        }
    }
    // Events that are counted, and in no page.
    let told = fs::read_to_string(files.join("aarch64.err")).context("no aarch64.err")?;
    let gap = told.lines().find(|line| line.starts_with("gap: "));
    ensure!(gap.is_none(), "{}", gap.unwrap_or_default());
    Ok(format!("no event lost in {} lanes, and no gap in the recording", lanes.len()))
}
