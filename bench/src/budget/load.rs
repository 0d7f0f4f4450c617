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
        let output = Command::new(&self.program)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .context("can't run it")?;
        ensure!(
            output.status.success(),
            "tests/programs/budget.c {args:?} failed ({})",
            output.status
        );
        Ok(key_values(&output.stdout))
    }

    /// 25,000 calls, 5,000 switches and 5,000 wakeups a second beside a loop that counts: how far
    /// it came, in seconds of CPU time of its own. It is its own measure of how fast the
    /// machine is at the moment: that changes by more than what is measured.
    pub(super) fn paced(&self, seconds: f64) -> Result<f64> {
        let printed = self.run(&["paced", &self.cpu.to_string(), &seconds.to_string()])?;
        Ok(value(&printed, "count")? / value(&printed, "a_second")?)
    }

    /// System calls without end on these CPUs: how many a second after the first second.
    pub(super) fn hammer(&self, seconds: f64, cpus: &[usize]) -> Result<Hammered> {
        let mut args = vec!["hammer".to_owned(), seconds.to_string()];
        args.extend(cpus.iter().map(usize::to_string));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let printed = self.run(&args)?;
        Ok(Hammered { rate: value(&printed, "rate")?, speed: value(&printed, "speed")? })
    }

    /// So many calls, evenly over so many milliseconds; its process id.
    pub(super) fn burst(&self, calls: u32, ms: u32) -> Result<u32> {
        let printed =
            self.run(&["burst", &self.cpu.to_string(), &calls.to_string(), &ms.to_string()])?;
        Ok(value(&printed, "pid")? as u32)
    }
}

fn value(printed: &HashMap<String, String>, key: &str) -> Result<f64> {
    printed.get(key).with_context(|| format!("it printed no {key}"))?.parse().context("number")
}

/// What a hammer did.
pub(super) struct Hammered {
    /// Calls a second.
    rate: f64,
    /// Loops of a fixed length a second of CPU time, made between them.
    speed: f64,
}

impl Hammered {
    /// Calls for each of the loops: a machine that others slow down takes longer for both. The
    /// recorder does not touch the loops, and what CPU time its daemon takes is not theirs.
    pub(super) fn throughput(&self) -> f64 {
        self.rate / self.speed
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
    ensure!(
        output.status.success(),
        "flightctl {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A number in it.
pub(super) fn number(json: &Value, pointer: &str) -> Result<f64> {
    json.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("no {pointer} in {json}"))
}
