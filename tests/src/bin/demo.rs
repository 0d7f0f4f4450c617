//! `cargo xtask demo`: what the recorder is for, once, on this machine, with nothing left behind. A
//! small workload and the dump of it; then a slow incident, and why it was slow.

use std::env::{args_os, current_exe};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use flightrec_tests::{Interrupt, Options, Recorder, die_with_parent, workload};
use nix::sys::signal::Signal;

fn main() -> ExitCode {
    let result = match args_os().nth(1) {
        Some(folder) => workload::run(Path::new(&folder)),
        None => demo(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn demo() -> Result<()> {
    let interrupt = Interrupt::defer()?;
    // From here on, every way out drops the recorder: that stops flightd, which removes what it
    // loaded, then its mounts and its temporary folder.
    let options = Options { death_signal: Signal::SIGTERM, ..Options::default() };
    let mut recorder = Recorder::try_start(options)?;
    interrupt.check()?;
    let root = recorder.sandbox().root().to_path_buf();
    println!("\nflightd records this machine; its files are in {}.", root.display());

    let pid = run_workload(&root.join("work"))?;
    interrupt.check()?;
    println!(
        "\n1. A small workload ran as process {pid}: a file copied, a ping-pong between two threads \
         over pipes, a sleep,\nan open that fails. Everything on the machine was recorded; this \
         shows that process:\n"
    );
    show(&recorder, &["dump", "--last", "1m", "--pid", &pid.to_string()])?;
    interrupt.check()?;

    println!(
        "\n2. Now something is slow: a thread wants a lock whose holder waits for the disk. Nobody \
         tells the recorder;\nit is asked afterwards:\n"
    );
    show(&recorder, &["drill", "--dir", &root.to_string_lossy()])?;
    interrupt.check()?;

    let status = recorder.terminate()?;
    ensure!(status.success(), "flightd: {status}\n{}", recorder.log());
    drop(recorder);
    println!(
        "\nflightd was stopped; nothing is left of it in the kernel or on disk. To go on:\n\n    \
         cargo xtask deb      # a package: docs/install.md\n    flightctl why        # once flightd \
         runs: what was worst in the last 10 seconds, and why\n    flightctl top        # who runs, \
         who waits, and for what"
    );
    Ok(())
}

/// Types a command of flightctl, and runs it.
fn show(recorder: &Recorder, args: &[&str]) -> Result<()> {
    println!("$ flightctl {}", args.join(" "));
    io::stdout().flush()?;
    let status = recorder.flightctl_command().args(args).status().context("can't run flightctl")?;
    ensure!(status.success(), "flightctl {}: {status}", args[0]);
    Ok(())
}

/// Runs this program again as the workload; returns its process id.
fn run_workload(folder: &Path) -> Result<u32> {
    fs::create_dir(folder)?;
    let mut command = Command::new(current_exe()?);
    command.arg(folder).stdin(Stdio::null());
    let mut child = die_with_parent(&mut command, Signal::SIGKILL)
        .spawn()
        .context("can't start the workload")?;
    let pid = child.id();
    let status = child.wait()?;
    ensure!(status.success(), "the workload failed ({status})");
    Ok(pid)
}
