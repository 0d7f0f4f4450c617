//! What is run, and the recorder beside it.

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

    fn run(&self, args: &[&str], what: &[&str]) -> Result<Vec<f64>> {
        let output = Command::new(&self.program).args(args).stdin(Stdio::null()).output().context("can't run it")?;
        ensure!(output.status.success(), "tests/programs/budget.c {args:?} failed ({})", output.status);
        let values = key_values(&output.stdout);
        let value =
            |key: &&str| values.get(*key).with_context(|| format!("it printed no {key}"))?.parse().context("number");
        what.iter().map(value).collect()
    }

    /// 25,000 calls, 5,000 switches and 5,000 wakeups a second beside a loop that counts: how far it came,
    /// and how far it comes in a second of CPU time of its own.
    pub(super) fn paced(&self, seconds: f64) -> Result<(f64, f64)> {
        let args = ["paced", &self.cpu.to_string(), &seconds.to_string()];
        match self.run(&args, &["count", "a_second"])?[..] {
            [count, a_second] => Ok((count, a_second)),
            _ => unreachable!("two were asked for"),
        }
    }

    /// System calls without end on these CPUs: calls a second after the first second.
    pub(super) fn hammer(&self, seconds: f64, cpus: &[usize]) -> Result<f64> {
        let mut args = vec!["hammer".to_owned(), seconds.to_string()];
        args.extend(cpus.iter().map(usize::to_string));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.run(&args, &["rate"])?.first().copied().context("no rate")
    }

    /// So many calls, evenly over so many milliseconds; its process id.
    pub(super) fn burst(&self, calls: u32, ms: u32) -> Result<u32> {
        let args = ["burst", &self.cpu.to_string(), &calls.to_string(), &ms.to_string()];
        self.run(&args, &["pid"])?.first().map(|pid| *pid as u32).context("no process id")
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
