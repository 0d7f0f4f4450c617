//! What a trial records: numbered calls, so that one that is missing, or there twice, is seen.

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

/// Threads that make numbered calls, one a CPU, and processes that work with files, pipes and each other.
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
                let mut calls = Calls { first, made: 0 };
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
            "while :; do dd if=/dev/zero of=/tmp/load bs=4k count=64 conv=fsync; rm /tmp/load; sleep 0.05; done",
        ] {
            let mut sh = Command::new("/bin/sh");
            sh.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
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

impl Calls {
    /// Fails unless each is in the whole recording, rings and files, once; tells how many they are.
    pub(super) fn check(self) -> Result<u32> {
        let mut dump = Command::new("flightctl");
        // Not by its thread's id: the container's are not the kernel's.
        dump.args(["dump", "--all", "--event", "sys_enter", "--syscall", "getpgid"]);
        dump.args(["--format", "jsonl"]).stdin(Stdio::null());
        let mut dump = dump.stdout(Stdio::piped()).spawn().context("flightctl")?;
        let lines = BufReader::new(dump.stdout.take().context("its output")?);
        let base = u64::from(NUMBERED_BASE + self.first);
        let mut seen = vec![0_u8; self.made as usize];
        for line in lines.lines() {
            let event: Value = serde_json::from_str(&line?)?;
            if event["event"] != "sys_enter" {
                continue;
            }
            let number = event["args"][0]["value"].as_u64().context("an argument")?;
            // Others are another thread's, or an earlier load's.
            if let Some(times) = number.checked_sub(base).and_then(|n| seen.get_mut(n as usize)) {
                *times = times.saturating_add(1);
            }
        }
        ensure!(dump.wait()?.success(), "flightctl dump failed");
        let missing: Vec<usize> = (0..seen.len()).filter(|&i| seen[i] == 0).collect();
        let twice: Vec<usize> = (0..seen.len()).filter(|&i| seen[i] > 1).collect();
        ensure!(
            missing.is_empty() && twice.is_empty(),
            "of {} calls from number {} on, {} are missing ({:?} …), {} are there more than once ({:?} …)",
            self.made,
            self.first,
            missing.len(),
            &missing[..missing.len().min(5)],
            twice.len(),
            &twice[..twice.len().min(5)]
        );
        Ok(self.made)
    }
}
