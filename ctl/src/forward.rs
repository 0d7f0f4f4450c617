//! A command that runs on another host as if it ran here: output, errors and exit status are its
//! own.

use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::exit::Exit;
use crate::follow::stop::{Stop, output_is_gone, wait_for_end};
use crate::ssh::{SshArgs, SshError};

/// How soon a signal is noticed, ms.
const LOOK_MS: u8 = 100;

/// The process to end; `None` once it has ended, as its id may be another's from then on.
type Ending = Arc<Mutex<Option<Pid>>>;

/// Runs flightctl with `args` on `host`; its exit status.
///
/// # Errors
/// ssh or flightctl can't be run there.
pub fn run(ssh: &SshArgs, host: &str, args: &[String]) -> Result<u8, SshError> {
    // With a terminal there, keys and the size of the window arrive, and Ctrl-C ends both. It makes
    // one stream of output and errors, so it is for who reads both.
    let on_terminal =
        io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
    let options: &[&str] = if on_terminal { &["-t", "-o", "LogLevel=ERROR"] } else { &[] };
    let mut command = ssh.command(host, options, args)?;
    if on_terminal {
        command.stdin(Stdio::inherit());
    }
    // Before it is there, so that no signal is missed.
    let stop = Stop::on_signals(None).map_err(|source| ssh.not_started(source))?;
    let mut child = command.spawn().map_err(|source| ssh.not_started(source))?;
    let pid = Pid::from_raw(child.id() as i32);
    let ending: Ending = Arc::new(Mutex::new(Some(pid)));
    watch(Arc::clone(&ending), stop.clone());
    // It stays a zombie until it can no longer be ended by its id.
    while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
        .is_err_and(|e| e == nix::errno::Errno::EINTR)
    {}
    *ending.lock().unwrap_or_else(PoisonError::into_inner) = None;
    let status = child.wait().map_err(|source| ssh.not_started(source))?;
    if output_is_gone() {
        // Its reader has read enough, as here.
        return Ok(Exit::Fine.code());
    }
    match status.code() {
        Some(code) => match ssh.failure(host, code) {
            Some(failure) => Err(failure),
            None => Ok(u8::try_from(code).unwrap_or(Exit::Error.code())),
        },
        None => match status.signal().map(|signal| u8::try_from(128 + signal)) {
            // As a shell has it of who is ended by a signal: nothing remains to be said.
            Some(Ok(code)) if stop.signalled() => Ok(code),
            _ => Err(SshError::Killed(host.to_owned())),
        },
    }
}

/// Ends ssh, and by that flightctl on the other host, when nobody reads what it writes or a signal
/// comes.
fn watch(ending: Ending, stop: Stop) {
    let look = move || {
        loop {
            let mut gone = false;
            if !stop.signalled() {
                gone = wait_for_end(LOOK_MS);
            }
            let ending = ending.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(pid) = *ending else { return };
            if gone || stop.signalled() {
                let _ = kill(pid, Signal::SIGTERM);
                return;
            }
        }
    };
    // Where no thread can be had, it ends when ssh writes next.
    let _ = thread::Builder::new().name("ssh".into()).spawn(look);
}
