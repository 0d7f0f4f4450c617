//! `cargo xtask demo`: the main job, once, on this machine, with nothing left behind.

use std::env::current_exe;
use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use flightrec_tests::{Options, Recorder, die_with_parent};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use crate::interrupt::Interrupt;
use crate::setup::Scope;

/// Records a small workload, and shows what the recorder saw of it.
pub(crate) fn run() -> Result<()> {
    ensure!(
        geteuid().is_root(),
        "the demo loads BPF programs into the running kernel: run it as root"
    );
    crate::build::programs(Scope::Build)?;

    let interrupt = Interrupt::defer()?;
    // From here on, every way out drops the recorder: that stops flightd, which removes what it
    // loaded, then its mounts and its temporary folder.
    let options = Options { death_signal: Signal::SIGTERM, ..Options::default() };
    let mut recorder = Recorder::try_start(options)?;
    interrupt.check()?;
    println!(
        "\nflightd records this machine; its state is in {}.",
        recorder.sandbox().root().display()
    );

    let pid = workload(&recorder)?;
    interrupt.check()?;
    println!(
        "A small workload ran as process {pid}: a file copied, a ping-pong between two threads \
         over pipes, a sleep,\nan open that fails. All of the machine was recorded; to be \
         readable, this shows that process alone:\n\n$ flightctl dump --last 5s --pid {pid}"
    );
    std::io::stdout().flush()?;
    let mut dump = recorder.flightctl_command();
    let status = dump.args(["dump", "--last", "5s", "--pid", &pid.to_string()]).status();
    let status = status.context("can't run flightctl")?;
    interrupt.check()?;
    ensure!(status.success(), "flightctl dump: {status}");

    let status = recorder.terminate()?;
    ensure!(status.success(), "flightd: {status}\n{}", recorder.log());
    drop(recorder);
    println!("\nflightd was stopped; nothing is left of it in the kernel or on disk.");
    Ok(())
}

/// Runs this program again as the workload; returns its process id.
fn workload(recorder: &Recorder) -> Result<u32> {
    let folder = recorder.sandbox().root().join("work");
    std::fs::create_dir(&folder)?;
    let mut command = Command::new(current_exe()?);
    command.arg("demo-workload").arg(folder).stdin(Stdio::null());
    let mut child = die_with_parent(&mut command, Signal::SIGKILL)
        .spawn()
        .context("can't start the workload")?;
    let pid = child.id();
    let status = child.wait()?;
    ensure!(status.success(), "the workload failed ({status})");
    Ok(pid)
}
