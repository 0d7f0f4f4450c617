//! What a process without rights mapped before the panic (`tests/system/src/vm/forge.rs`) is told from the
//! recording.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use flightrec_format::identity::public_id;

use super::text;
use crate::vm::forge::FORGED;
use crate::vm::{QEMU, programs};

/// Where no files are.
const NOWHERE: &str = "/nonexistent";

/// Where files vouch for the real recording it is taken; where nothing does, that is said first,
/// and none is complete. `out` has the files of the recording, `crash` is what the hook made of the
/// unfiltered memory with these files at hand.
pub(super) fn is_told(out: &Path, crash: &Path) -> Result<Vec<String>> {
    let files = out.join("out");
    let said = fs::read_to_string(files.join("forged.txt")).context("nothing was forged")?;
    let words: Vec<&str> = said.split_whitespace().collect();
    let ["real", real, "forged", forged, "pages", pages, ..] = words.as_slice() else {
        bail!("nothing was forged: {said}")
    };
    let by_id = format!("{:016x}", public_id(u64::from_str_radix(real, 16)?));

    // In the crash kernel, out of /proc/vmcore, with the files and without.
    let hook = fs::read_to_string(files.join("recover.txt")).context("the hook was not run")?;
    let line = hook.lines().find(|line| line.starts_with("recording")).unwrap_or_default();
    vouched(line, real, forged).with_context(|| format!("the hook: {hook}"))?;
    is_real(crash)?;
    let without = fs::read_to_string(files.join("unvouched.txt"))
        .context("it was not recovered without the files")?;
    undecided(&without, [real, forged]).context("recovered without the files")?;
    ensure!(
        without.contains("INCOMPLETE: nothing decides"),
        "recovered without the files: {without}"
    );
    let console = super::said(out)?;
    let code = console.iter().find_map(|line| line.split_once("recovered without the files "));
    ensure!(
        code.is_some_and(|(_, code)| code == "(3)"),
        "recover --strict without the files: {code:?}"
    );
    let unvouched = files.join("unvouched.flight");
    let output = ask(&["dump", "--file", text(&unvouched), "--all", "--strict"])?;
    ensure!(
        output.status.code() == Some(3),
        "what was recovered without the files counts as complete"
    );

    let mut found = vec![format!(
        "forged: {pages} pages of recordings {forged} and {by_id}, by a process of nobody's"
    )];
    found.push(format!("forged: the hook says: {line}"));
    let memory = files.join(QEMU);
    if memory.exists() {
        found.push(whole_memory(&memory, &out.join("flightrec"), [real, forged, &by_id])?);
    }
    Ok(found)
}

/// By a dump of all memory, on another machine.
fn whole_memory(memory: &Path, store: &Path, [real, forged, by_id]: [&str; 3]) -> Result<String> {
    let memory = text(memory);
    let list = ask(&["dump", "--vmcore", memory, "--list-sessions", "--state-dir", NOWHERE])?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    for id in [real, forged, by_id] {
        ensure!(list.contains(id), "recording {id} is not in the dump: {list}");
    }
    let last = |state: &str| {
        ask(&["dump", "--vmcore", memory, "--last", "20s", "--strict", "--state-dir", state])
    };
    let output = last(NOWHERE)?;
    let (said, shown) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    undecided(&said, [real, forged])?;
    ensure!(
        output.status.code() == Some(3),
        "with nothing that decides, --strict gives {}",
        output.status
    );
    ensure!(shown.starts_with("# NOT CONFIRMED"), "{}", shown.lines().next().unwrap_or_default());
    ensure!(
        !said.contains("complete on CPUs") && !shown.contains("complete on CPUs"),
        "one is called complete: {said}"
    );
    let output = last(text(store))?;
    let (said, shown) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    vouched(said.lines().next().unwrap_or_default(), real, forged)?;
    ensure!(
        shown.contains("the last mark") && !shown.contains(FORGED),
        "what was made up is shown"
    );
    Ok(format!(
        "forged: in all memory, {} recordings: disputed without files, the real one with",
        list.lines().count() - 1
    ))
}

/// The first line says that nothing decides, and between which.
fn undecided(said: &str, ids: [&str; 2]) -> Result<()> {
    let first = said.lines().next().unwrap_or_default();
    ensure!(
        first.contains("nothing decides between them") && first.contains("--session"),
        "it says first: {said}"
    );
    ensure!(
        ids.iter().all(|id| first.contains(id)),
        "it does not name {}: {first}",
        ids.join(", ")
    );
    Ok(())
}

/// The line says that the files vouch for the real one, and names the other.
fn vouched(line: &str, real: &str, forged: &str) -> Result<()> {
    let taken = line.contains(&format!("recording {real} is used, because the files of "));
    ensure!(
        taken && line.contains(forged) && line.contains("nothing confirms that"),
        "it says first: {line}"
    );
    Ok(())
}

/// The real marks are in it, and none of the others.
fn is_real(file: &Path) -> Result<()> {
    let output = ask(&["dump", "--file", text(file), "--all", "--event", "mark"])?;
    let shown = String::from_utf8_lossy(&output.stdout);
    ensure!(
        shown.contains("the last mark") && !shown.contains(FORGED),
        "the hook's file has {shown}"
    );
    Ok(())
}

fn ask(args: &[&str]) -> Result<Output> {
    Command::new(programs().join("flightctl")).args(args).output().context("flightctl")
}
