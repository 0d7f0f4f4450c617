//! A program's run: how long it took, and the most memory that it had.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nix::libc;

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
    let (status, peak) = wait(child.id()).with_context(|| format!("can't wait for {name}"))?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(status.success(), "{name}: {status}");
    Ok(Run { seconds, peak })
}

/// Waits for a child, which nobody else has waited for.
fn wait(pid: u32) -> io::Result<(ExitStatus, u64)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to live, writable memory of their types.
        let waited =
            unsafe { libc::wait4(pid as libc::pid_t, &raw mut status, 0, usage.as_mut_ptr()) };
        if waited != -1 {
            break;
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
    // SAFETY: plain integers, which zeroes are valid for, and which wait4 has written.
    let usage = unsafe { usage.assume_init() };
    // In KiB on Linux (getrusage(2)).
    Ok((ExitStatus::from_raw(status), usage.ru_maxrss as u64 * 1024))
}
