//! Thread contexts as the service records them: of another user's process, without a right over it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use flightrec_format::abi::publisher::{PUBLISHERS, Publisher, Publishers};
use flightrec_format::live::map::ArrayMap;
use flightrec_tests::wait_until;
use serde_json::Value;

use super::container::INSIDE;
use super::trial::{BUSY, CONFIG, PATIENCE, RUNTIME, Trial, UNIT, check, lossy};

/// The program that publishes contexts (`tests/programs/contexts.c`).
pub(super) const PROGRAM: &str = "contexts";
/// What it is compiled with.
pub(super) const FLAGS: [&str; 2] = ["-DOWN", "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1"];
/// Its threads, and what each does.
const THREADS: &str = "4";
const ROUNDS: &str = "1000";
/// The user whose process it is.
const USER: &str = "bob";

/// The spans that a user's threads work for are in the events of their switches.
pub(super) fn of_another_user(_: &mut Trial) -> Result<String> {
    fs::write(CONFIG, format!("{BUSY}[record]\nthread_contexts = true\n"))?;
    check(Command::new("systemctl").args(["restart", UNIT]))?;
    let program = Path::new(INSIDE).join(PROGRAM);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"]);
    command.arg(&program).args([THREADS, ROUNDS]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let pid = child.id();
    let mut output = BufReader::new(child.stdout.take().context("its output")?);
    let mut text = String::new();
    output.read_line(&mut text)?;
    ensure!(text == "ready\n", "{} printed {text:?}", program.display());
    let table = table()?;
    let found = wait_until(PATIENCE, || is_entered(&table, pid));
    child.stdin.take().context("its input")?.write_all(b"go\n")?;
    text.clear();
    output.read_to_string(&mut text)?;
    ensure!(child.wait()?.success(), "{} failed", program.display());
    ensure!(found, "the process that publishes was not found in {} s", PATIENCE.as_secs());
    let published = published(&text)?;
    let seen = seen(pid)?;
    let all: usize = published.values().map(HashSet::len).sum();
    let none = HashSet::new();
    let wrong = seen.iter().flat_map(|(tid, spans)| {
        spans.difference(published.get(tid).unwrap_or(&none)).map(move |span| (tid, span))
    });
    let wrong: Vec<_> = wrong.collect();
    ensure!(wrong.is_empty(), "spans that nobody published: {wrong:?}");
    let seen: usize = seen.values().map(HashSet::len).sum();
    // Each is published over a wait, which may end before it begins.
    ensure!(seen * 100 >= all * 95, "{seen} of {all} spans are in switches");
    Ok(format!("{seen} of {all} spans of a process of {USER} are in its switches, no other"))
}

/// The table of who publishes, of the recording that runs.
fn table() -> Result<ArrayMap> {
    let is_whole = |dir: &PathBuf| {
        dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("gen-"))
    };
    let bpffs = Path::new(RUNTIME).join("bpf");
    let mut entries = fs::read_dir(&bpffs)?.flatten().map(|entry| entry.path());
    let dir = entries.find(is_whole).with_context(|| format!("nothing in {}", bpffs.display()))?;
    Ok(ArrayMap::open(&dir.join("maps/publishers"), false)?)
}

fn is_entered(table: &ArrayMap, pid: u32) -> bool {
    let of = |n| table.load(0, offset_of!(Publishers, places) + n * size_of::<Publisher>());
    (0..PUBLISHERS).any(|n| of(n) as u32 == pid)
}

/// By thread, the spans that the program says it published.
fn published(text: &str) -> Result<HashMap<u64, HashSet<u64>>> {
    let mut all: HashMap<u64, HashSet<u64>> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split(' ').map(str::parse::<u64>);
        let (Some(Ok(tid)), Some(Ok(span))) = (words.next(), words.next_back()) else {
            anyhow::bail!("{PROGRAM} printed {line:?}");
        };
        if span != 0 {
            all.entry(tid).or_default().insert(span);
        }
    }
    Ok(all)
}

/// By thread, the spans that were recorded.
fn seen(pid: u32) -> Result<HashMap<u64, HashSet<u64>>> {
    let id = pid.to_string();
    let mut dump = Command::new("flightctl");
    dump.args(["dump", "--last", "1m", "--event", "sched_switch", "--format", "jsonl"]);
    let output = dump.args(["--pid", &id]).output()?;
    // 3: something else of the window is missing.
    ensure!(matches!(output.status.code(), Some(0 | 3)), "{}", lossy(&output));
    let mut all: HashMap<u64, HashSet<u64>> = HashMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let event: Value = serde_json::from_str(line)?;
        let (Some(tid), Some(span)) = (event["tid"].as_u64(), event["span_id"].as_str()) else {
            continue;
        };
        all.entry(tid).or_default().insert(u64::from_str_radix(span, 16)?);
    }
    Ok(all)
}
