//! What is run, and the recorder beside it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use flightrec_tests::{Options, Recorder, c_program, key_values};
use nix::sys::signal::Signal;
use serde_json::Value;

/// The program of the loads, and where they run.
pub(super) struct Load {
    program: PathBuf,
    /// The CPU of loads on one.
    pub(super) cpu: usize,
    /// All CPUs.
    pub(super) cpus: Vec<usize>,
}

impl Load {
    pub(super) fn new(cpu: usize, cpus: Vec<usize>) -> Self {
        Self { program: c_program("budget", &[]), cpu, cpus }
    }

    fn run(&self, args: &[&str]) -> Result<HashMap<String, String>> {
        let output = Command::new(&self.program).args(args).stdin(Stdio::null()).output().context("can't run it")?;
        ensure!(output.status.success(), "tests/programs/budget.c {args:?} failed ({})", output.status);
        Ok(key_values(&output.stdout))
    }

    /// 25,000 calls, 5,000 switches and 5,000 wakeups a second beside a loop that counts: how far it came,
    /// and how far it comes in a second of CPU time of its own.
    pub(super) fn paced(&self, seconds: f64) -> Result<(f64, f64)> {
        let printed = self.run(&["paced", &self.cpu.to_string(), &seconds.to_string()])?;
        Ok((value(&printed, "count")?, value(&printed, "a_second")?))
    }

    /// System calls without end on these CPUs: how many a second after the first second.
    pub(super) fn hammer(&self, seconds: f64, cpus: &[usize]) -> Result<Hammered> {
        let mut args = vec!["hammer".to_owned(), seconds.to_string()];
        args.extend(cpus.iter().map(usize::to_string));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let printed = self.run(&args)?;
        let windows = printed.get("windows").context("no windows")?.split(',').map(str::parse);
        Ok(Hammered { rate: value(&printed, "rate")?, windows: windows.collect::<Result<_, _>>()? })
    }

    /// So many calls, evenly over so many milliseconds; its process id.
    pub(super) fn burst(&self, calls: u32, ms: u32) -> Result<u32> {
        let printed = self.run(&["burst", &self.cpu.to_string(), &calls.to_string(), &ms.to_string()])?;
        Ok(value(&printed, "pid")? as u32)
    }
}

fn value(printed: &HashMap<String, String>, key: &str) -> Result<f64> {
    printed.get(key).with_context(|| format!("it printed no {key}"))?.parse().context("number")
}

/// What a hammer did.
pub(super) struct Hammered {
    /// Calls a second.
    pub(super) rate: f64,
    /// The same, of each 20 ms.
    windows: Vec<f64>,
}

impl Hammered {
    /// What it lost in moments, percent: how far its windows are below what is usual around them, on average. A machine that
    /// becomes slower or faster within seconds does not count.
    pub(super) fn dips(&self) -> f64 {
        /// A slice in which system calls are attached, and some more, are much less than half of so many windows.
        const AROUND: usize = 75;
        let below = |(i, rate): (usize, &f64)| {
            let from = i.saturating_sub(AROUND);
            let mut around = self.windows.get(from..self.windows.len().min(i + AROUND)).unwrap_or_default().to_vec();
            around.sort_by(f64::total_cmp);
            1.0 - rate / around.get(around.len() / 2).unwrap_or(rate)
        };
        self.windows.iter().enumerate().map(below).sum::<f64>() / self.windows.len() as f64 * 100.0
    }
}

/// A recorder with this `[budget]`.
pub(super) fn recorder(budget: &str) -> Result<Recorder> {
    let config = format!("[budget]\n{budget}\n");
    Recorder::try_start(Options { config, death_signal: Signal::SIGTERM, ..Options::default() })
}

/// Ends it in order.
pub(super) fn stop(mut recorder: Recorder) -> Result<()> {
    ensure!(recorder.terminate()?.success(), "flightd failed:\n{}", recorder.log());
    Ok(())
}

/// What a command of `flightctl` prints, as JSON.
pub(super) fn asked(recorder: &Recorder, args: &[&str]) -> Result<Value> {
    let output = recorder.flightctl(args);
    ensure!(output.status.success(), "flightctl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A number in it.
pub(super) fn number(json: &Value, pointer: &str) -> Result<f64> {
    json.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("no {pointer} in {json}"))
}
