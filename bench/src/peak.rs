//! A program's run: how long it took, and the most memory that it had.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use flightrec_tests::wait_peak;

/// What a run took.
pub(super) struct Run {
    /// Wall-clock time, from its start to its end.
    pub(super) seconds: f64,
    /// The most memory that it had in use at once (its resident set), bytes.
    pub(super) peak: u64,
}

/// Runs a program to its successful end, its output to /dev/null.
pub(super) fn run(program: &mut Command) -> Result<Run> {
    let name = program.get_program().display().to_string();
    let start = Instant::now();
    let child = program
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("can't run {name}"))?;
    let (status, peak) = wait_peak(&child).with_context(|| format!("can't wait for {name}"))?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(status.success(), "{name}: {status}");
    Ok(Run { seconds, peak })
}
