//! What is measured.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use flightrec_tests::{c_dynamic, c_program, key_values, pinned};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use xtask::command::repository;

/// Work with a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Workload {
    Getppid,
    Open,
    Pipe,
    Signal,
    Connection,
    Ring,
    Sync,
    Mix,
}

impl Workload {
    pub(super) const ALL: [Self; 8] = [
        Self::Getppid,
        Self::Open,
        Self::Pipe,
        Self::Signal,
        Self::Connection,
        Self::Ring,
        Self::Sync,
        Self::Mix,
    ];
    /// Those that tests/programs/cost.c does.
    const LOOPS: [Self; 7] = [
        Self::Getppid,
        Self::Open,
        Self::Pipe,
        Self::Signal,
        Self::Connection,
        Self::Ring,
        Self::Sync,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Getppid => "getppid",
            Self::Open => "open",
            Self::Pipe => "pipe",
            Self::Signal => "signal",
            Self::Connection => "connection",
            Self::Ring => "ring",
            Self::Sync => "sync",
            Self::Mix => "mix",
        }
    }

    /// What it does, and the unit of its figure.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Getppid => "a system call; ns",
            Self::Open => "openat of a missing 40-character path; ns",
            Self::Pipe => "round trip between two threads: 4 calls, 2 switches, 2 wakeups; ns",
            Self::Signal => "a signal to itself, and its handler; ns",
            Self::Connection => "a connection over the loopback interface, until it is reset; ns",
            Self::Ring => "an operation of io_uring that does nothing: 1 call, 2 events; ns",
            Self::Sync => "a write and fdatasync of a file in the working directory; ns",
            Self::Mix => "12 compiles, ls -lR, grep -r; ms of CPU time",
        }
    }
}

/// Has everything compiled, and read from the disk once.
pub(super) fn warm_up(cpu: usize, folder: &Path) -> Result<()> {
    run(cpu, folder, 0.0, &[]).map(drop)
}

/// Does all of it on one CPU; the loops in a process that is `age` seconds old, compiled with these
/// flags.
pub(super) fn run(
    cpu: usize,
    folder: &Path,
    age: f64,
    flags: &[&str],
) -> Result<Vec<(Workload, f64)>> {
    let program = if flags.is_empty() {
        c_program("cost", &["-O2", "-pthread"])
    } else {
        c_dynamic("cost", flags)
    };
    let output = Command::new(program)
        .args([cpu.to_string(), age.to_string()])
        .output()
        .context("can't run the workload")?;
    ensure!(output.status.success(), "the workload failed ({})", output.status);
    let values = key_values(&output.stdout);
    let mut figures = Vec::new();
    for workload in Workload::LOOPS {
        let name = workload.name();
        let value = values
            .get(&format!("{name}_ns"))
            .with_context(|| format!("the workload printed no {name}"))?;
        // Of what this machine does not have, it prints no number.
        figures.extend(value.parse().ok().map(|ns| (workload, ns)));
    }
    let before = children_cpu()?;
    mix(cpu, folder)?;
    figures.push((Workload::Mix, (children_cpu()? - before) * 1e3));
    Ok(figures)
}

/// The compile-like mix alone.
pub(super) fn mix(cpu: usize, folder: &Path) -> Result<()> {
    let programs = repository().join("tests/programs");
    let mut shell = Command::new("sh");
    shell
        .arg(programs.join("mix.sh"))
        .arg(programs.join("cost.c"))
        .arg(folder)
        .stdin(Stdio::null());
    let status = pinned(&mut shell, cpu).status().context("can't run sh")?;
    ensure!(status.success(), "tests/programs/mix.sh failed ({status})");
    Ok(())
}

/// CPU time of all children that have ended, s. Wall time would count the machine's other work too.
fn children_cpu() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}
