//! What a trial records: numbered calls, so that one that is missing, or there twice, is seen; and
//! whether the dump told of it.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use flightrec_tests::{NUMBERED_BASE, numbered_call, pin_to_cpu};
use serde_json::Value;

/// Between two numbered calls of a thread.
const PAUSE: Duration = Duration::from_millis(1);
/// Numbers of one thread: more than it makes in the longest trial.
const NUMBERS: u32 = 10_000_000;
/// Most threads of a load.
const THREADS: u32 = 16;

/// Threads that make numbered calls, one a CPU, and processes that work with files, pipes and each
/// other.
#[derive(Debug)]
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Calls>>,
    others: Vec<Child>,
}

/// The calls that a thread made: `first`, `first + 1`, …
#[derive(Debug, Clone, Copy)]
pub(super) struct Calls {
    first: u32,
    made: u32,
    cpu: usize,
}

/// What a dump showed of them.
#[derive(Debug)]
struct Seen {
    calls: Calls,
    /// By number after the first: when it was called, ns of `CLOCK_MONOTONIC`; 0: it is not
    /// there.
    times: Vec<u64>,
    /// Those that are there more than once.
    twice: Vec<u32>,
    /// What the dump says is missing on the thread's CPU.
    gaps: Vec<Gap>,
}

/// A stretch in which a dump says that system calls are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    from: u64,
    until: u64,
    /// How many were called.
    calls: u64,
}

impl Load {
    /// Each load of a trial counts in a range of its own (`round`).
    pub(super) fn start(round: u32, cpus: &[usize]) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut load = Self { stop: stop.clone(), threads: Vec::new(), others: Vec::new() };
        for (thread, &cpu) in (0..THREADS).zip(cpus) {
            let first = (round * THREADS + thread) * NUMBERS;
            let stop = stop.clone();
            load.threads.push(thread::spawn(move || {
                pin_to_cpu(cpu);
                let mut calls = Calls { first, made: 0, cpu };
                while !stop.load(Ordering::Relaxed) && calls.made < NUMBERS {
                    numbered_call(first + calls.made);
                    calls.made += 1;
                    thread::sleep(PAUSE);
                }
                calls
            }));
        }
        for script in [
            "while :; do find /usr/share -maxdepth 2 -newer /etc/passwd | wc -l; sleep 0.1; done",
            "while :; do dd if=/dev/zero of=/tmp/load bs=4k count=64 conv=fsync; rm /tmp/load; \
             sleep 0.05; done",
        ] {
            let mut sh = Command::new("/bin/sh");
            sh.args(["-c", script])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            load.others.push(sh.spawn().context("sh")?);
        }
        Ok(load)
    }

    /// Ends it, and tells what was made.
    pub(super) fn end(mut self) -> Result<Vec<Calls>> {
        self.stop.store(true, Ordering::Relaxed);
        std::mem::take(&mut self.threads)
            .into_iter()
            .map(|t| t.join().map_err(|_| anyhow!("a thread of the load")))
            .collect()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for child in &mut self.others {
            // They run until they are ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Fails unless each is in the whole recording, rings and files, once; tells how many they are.
pub(super) fn check(calls: &[Calls]) -> Result<u32> {
    let mut made = 0;
    for seen in dump(calls)? {
        let missing: Vec<usize> = (0..seen.times.len()).filter(|&i| seen.times[i] == 0).collect();
        ensure!(
            missing.is_empty(),
            "{}: {} are missing ({:?} …)",
            seen.calls,
            missing.len(),
            &missing[..missing.len().min(5)]
        );
        made += seen.calls.made;
    }
    Ok(made)
}

/// Fails unless each is in the whole recording once, or where the dump says that calls are missing,
/// and no more than it says; tells how many they are, and how many of them are missing.
pub(super) fn account(calls: &[Calls]) -> Result<(u32, u32)> {
    let (mut made, mut missing) = (0, 0);
    for mut seen in dump(calls)? {
        missing += seen.account().with_context(|| seen.calls.to_string())?;
        made += seen.calls.made;
    }
    Ok((made, missing))
}

/// Finds them in a dump of everything; fails where one is there twice.
fn dump(calls: &[Calls]) -> Result<Vec<Seen>> {
    let mut dump = Command::new("flightctl");
    // Not by its thread's id: the container's are not the kernel's.
    dump.args(["dump", "--all", "--event", "sys_enter", "--syscall", "getpgid"]);
    dump.args(["--format", "jsonl"]).stdin(Stdio::null());
    let mut dump = dump.stdout(Stdio::piped()).spawn().context("flightctl")?;
    let lines = BufReader::new(dump.stdout.take().context("its output")?);
    let mut all: Vec<Seen> = calls.iter().map(|calls| Seen::none(*calls)).collect();
    for line in lines.lines() {
        let line = serde_json::from_str(&line?)?;
        all.iter_mut().try_for_each(|seen| seen.line(&line))?;
    }
    ensure!(dump.wait()?.success(), "flightctl dump failed");
    for Seen { calls, twice, .. } in &all {
        ensure!(
            twice.is_empty(),
            "{calls}: {} are there more than once ({:?} …)",
            twice.len(),
            &twice[..twice.len().min(5)]
        );
    }
    Ok(all)
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {} calls from number {} on, on CPU {}", self.made, self.first, self.cpu)
    }
}

impl Seen {
    fn none(calls: Calls) -> Self {
        Self { calls, times: vec![0; calls.made as usize], twice: Vec::new(), gaps: Vec::new() }
    }

    /// The next line of a dump.
    fn line(&mut self, line: &Value) -> Result<()> {
        let calls = self.calls;
        if line["event"] == "coverage" {
            let gaps = line["gaps"].as_array().context("coverage without gaps")?;
            let ours =
                gaps.iter().filter(|gap| gap["lane"] == "syscall" && gap["cpu"] == calls.cpu);
            for gap in ours {
                self.gaps.push(Gap::of(gap).with_context(|| format!("a gap: {gap}"))?);
            }
            return Ok(());
        }
        if line["event"] != "sys_enter" {
            return Ok(());
        }
        let number = line["args"][0]["value"].as_u64().context("an argument")?;
        let time = line["mono_ns"].as_u64().context("a time")?;
        let base = u64::from(NUMBERED_BASE + calls.first);
        // Others are another thread's, or an earlier load's.
        let Some(number) = number.checked_sub(base).and_then(|n| u32::try_from(n).ok()) else {
            return Ok(());
        };
        if let Some(seen) = self.times.get_mut(number as usize) {
            if *seen != 0 {
                self.twice.push(number);
            }
            *seen = time;
        }
        Ok(())
    }

    /// Fails if more calls are missing between two that are there than gaps tell between them;
    /// tells how many are missing.
    fn account(&mut self) -> Result<u32> {
        let (mut missing, mut at, mut since) = (0, 0, 0);
        while let Some(&time) = self.times.get(at) {
            if time != 0 {
                (at, since) = (at + 1, time);
                continue;
            }
            let run = self.times[at..].iter().take_while(|time| **time == 0).count();
            let until = self.times.get(at + run).copied().unwrap_or(u64::MAX);
            let mut untold = run as u64;
            for gap in self.gaps.iter_mut().filter(|gap| gap.from < until && since < gap.until) {
                let told = untold.min(gap.calls);
                // What one call is missing by does not excuse another.
                (untold, gap.calls) = (untold - told, gap.calls - told);
            }
            ensure!(
                untold == 0,
                "{run} are missing from the {at}th on, {untold} of them in no gap that the dump \
                 tells"
            );
            (at, missing) = (at + run, missing + u32::try_from(run)?);
        }
        Ok(missing)
    }
}

impl Gap {
    /// From its object in a coverage line. A gap of which nobody knows how much is missing tells of
    /// nothing.
    fn of(gap: &Value) -> Option<Self> {
        let [from, until] = ["from_mono_ns", "until_mono_ns"].map(|name| gap[name].as_u64());
        let refused =
            gap["refused"].as_object()?.values().map(|n| n.as_u64().unwrap_or(0)).sum::<u64>();
        Some(Self {
            from: from?,
            until: until?,
            calls: gap["lost"]["sys_enter"].as_u64().unwrap_or(0) + refused,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CALLS: Calls = Calls { first: 0, made: 8, cpu: 1 };

    fn gap(cpu: u32, from: u64, until: u64, lost: u64) -> Value {
        json!({
            "cpu": cpu, "lane": "syscall", "from_mono_ns": from, "until_mono_ns": until,
            "lost": { "sys_enter": lost }, "refused": {}
        })
    }

    /// Calls at ten times their number and ten, of which some are there.
    fn seen(numbers: &[u32], gaps: &[Value]) -> Seen {
        let mut seen = Seen::none(CALLS);
        seen.line(&json!({ "event": "coverage", "gaps": gaps })).unwrap();
        for number in numbers {
            let args = json!([{ "value": NUMBERED_BASE + number }]);
            seen.line(&json!({ "event": "sys_enter", "mono_ns": (number + 1) * 10, "args": args }))
                .unwrap();
        }
        seen
    }

    #[test]
    fn what_is_missing_must_have_been_told() {
        let all: Vec<u32> = (0..8).collect();
        assert_eq!(seen(&all, &[]).account().unwrap(), 0);
        let some = [0, 1, 4, 5, 7];
        assert_eq!(seen(&some, &[gap(1, 21, 50, 2), gap(1, 65, 75, 1)]).account().unwrap(), 3);
        for told in [
            vec![],
            vec![gap(1, 21, 50, 2)],
            vec![gap(1, 21, 50, 2), gap(0, 65, 75, 1)],
            vec![gap(1, 21, 50, 1), gap(1, 65, 75, 1)],
            vec![gap(1, 51, 75, 9)],
        ] {
            assert!(seen(&some, &told).account().is_err(), "{told:?}");
        }
        assert_eq!(
            seen(&all[2..6], &[gap(1, 0, 30, 5), gap(1, 61, 99, 5)]).account().unwrap(),
            4,
            "at both ends"
        );
    }

    #[test]
    fn a_call_that_is_there_twice_is_seen() {
        assert_eq!(seen(&[0, 1, 1, 2], &[]).twice, [1]);
    }
}
