//! Load for a long time, with files that roll, reloads and restarts: is memory flat, and is
//! anything lost that was not told?

use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flightrec_tests::online_cpus;
use nix::sys::signal::{Signal, kill};

use super::load::{Load, account};
use super::trial::{check, main_pid, status, succeeded};

const SAMPLE: Duration = Duration::from_secs(5);
/// Samples between two reloads, restarts, and kills.
const RELOAD: u32 = 12;
const RESTART: u32 = 84;
const KILL: u32 = 130;
/// A daemon that has just begun has not yet made its buffers.
const YOUNG: u32 = 6;
/// By how much the last third's median may exceed the first third's, in percent.
const GROWTH: u64 = 10;

/// What was seen of memory.
#[derive(Debug, Default)]
pub(super) struct Soak {
    /// `VmRSS` of the daemon, KiB.
    resident: Vec<u64>,
    /// Kernel memory of rings and tables, bytes.
    kernel: Vec<u64>,
}

impl Soak {
    pub(super) fn run(length: Duration) -> Result<String> {
        let session = status()?["session"].clone();
        let load = Load::start(2, &online_cpus())?;
        let mut soak = Self::default();
        let (begun, mut age, mut tick) = (Instant::now(), 0, 0);
        let (mut reloads, mut restarts, mut kills) = (0, 0, 0);
        while begun.elapsed() < length {
            thread::sleep(SAMPLE);
            (age, tick) = (age + 1, tick + 1);
            if age > YOUNG {
                soak.sample()?;
            }
            if tick % RESTART == 0 {
                check(Command::new("systemctl").args(["restart", "flightd"]))?;
                (age, restarts) = (0, restarts + 1);
            } else if tick % KILL == 0 {
                let pid = main_pid()?;
                kill(pid, Signal::SIGKILL)?;
                succeeded(pid)?;
                (age, kills) = (0, kills + 1);
            } else if tick % RELOAD == 0 {
                check(Command::new("systemctl").args(["reload", "flightd"]))?;
                reloads += 1;
            }
        }
        ensure!(status()?["session"] == session, "another recording runs");
        let (made, missing) = account(&load.end()?)?;
        let files = status()?["store"]["files"].as_u64().unwrap_or_default();
        let mut told = format!(
            "{} min, {made} numbered calls, {} recorded, each once, {missing} in gaps that the \
             dump tells; {reloads} reloads, {restarts} restarts, {kills} kills, {files} files",
            length.as_secs() / 60,
            made - missing
        );
        for (what, samples, unit) in
            [("resident", &soak.resident, 1), ("in the kernel", &soak.kernel, 1024)]
        {
            let (first, last) =
                thirds(samples).with_context(|| format!("{} samples of memory", samples.len()))?;
            ensure!(
                last * 100 <= first * (100 + GROWTH),
                "memory {what} grew from {first} to {last}"
            );
            write!(
                told,
                "; {what}: {} KiB, then {} KiB (medians of the first and last third)",
                first / unit,
                last / unit
            )?;
        }
        Ok(told)
    }

    fn sample(&mut self) -> Result<()> {
        let text = fs::read_to_string(format!("/proc/{}/status", main_pid()?))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        self.resident.push(line.split_whitespace().next().context("no VmRSS")?.parse()?);
        self.kernel.push(status()?["memory_bytes"].as_u64().context("no memory_bytes")?);
        Ok(())
    }
}

/// Medians of the first and the last third.
fn thirds(samples: &[u64]) -> Option<(u64, u64)> {
    let third = samples.len() / 3;
    let median = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part.get(part.len() / 2).copied()
    };
    Some((median(samples.get(..third)?)?, median(samples.get(samples.len() - third..)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_thirds() {
        assert_eq!(thirds(&[]), None);
        assert_eq!(thirds(&[5, 1, 3, 0, 0, 0, 9, 7, 8]), Some((3, 8)));
    }
}
