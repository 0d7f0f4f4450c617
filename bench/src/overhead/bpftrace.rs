//! bpftrace on the same tracepoints.

use std::fs::{File, read_to_string};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use flightrec_tests::die_with_parent;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::Signal;

use super::fifo;
use xtask::command::repository;

/// Pages of each CPU's buffer: 16 MiB, as perf is given.
const PAGES: &str = "4096";
/// How often it is looked at whether a starting bpftrace has failed, ms.
const LOOK: u16 = 200;

/// It records until it is stopped.
pub(super) struct Bpftrace {
    process: Child,
    /// What its own child reads; both end when this is closed.
    ask: File,
    /// Where its output goes: it writes a last word there.
    answers: File,
    messages: PathBuf,
}

impl Bpftrace {
    /// Starts `bpftrace/NAME.bt`; its programs are attached when this returns.
    pub(super) fn start(folder: &Path, name: &str) -> Result<Self> {
        let (ask, answer) = (folder.join("bpftrace.ask"), folder.join("bpftrace.answer"));
        let (mut commands, answers) = (fifo::open(&ask)?, fifo::open(&answer)?);
        commands.write_all(b".")?;
        let messages = folder.join("bpftrace.messages");
        let program =
            repository().join("bench/src/overhead/bpftrace").join(name).with_extension("bt");
        let mut command = Command::new("bpftrace");
        // It starts its child once all programs are attached, and ends with it.
        command
            .args(["-B", "full", "-o", "/dev/null", "-c"])
            .arg(format!("/bin/cat {}", ask.display()))
            .arg(program)
            .env("BPFTRACE_PERF_RB_PAGES", PAGES)
            .stdin(Stdio::null())
            .stdout(File::options().write(true).open(&answer)?)
            .stderr(File::create(&messages)?);
        let process =
            die_with_parent(&mut command, Signal::SIGKILL).spawn().context("can't run bpftrace")?;
        let mut bpftrace = Self { process, ask: commands, answers, messages };
        // Open for writing here as well, the answers do not end with a bpftrace that fails.
        while poll(&mut [PollFd::new(bpftrace.answers.as_fd(), PollFlags::POLLIN)], LOOK)? == 0 {
            if let Some(status) = bpftrace.process.try_wait()? {
                let said = read_to_string(&bpftrace.messages)?;
                bail!("bpftrace {name}: {status}: {said}");
            }
        }
        bpftrace.answers.read_exact(&mut [0])?;
        Ok(bpftrace)
    }

    /// Ends it.
    pub(super) fn stop(mut self) -> Result<()> {
        drop(self.ask);
        let status = self.process.wait()?;
        ensure!(status.success(), "bpftrace: {status}: {}", read_to_string(&self.messages)?);
        Ok(())
    }
}
