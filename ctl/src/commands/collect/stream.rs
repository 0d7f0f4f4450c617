//! What ssh writes, until a time: nobody has to be waited for who says nothing.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::follow::stop::Stop;

/// How soon a signal, or the end of the time, is noticed.
const LOOK: Duration = Duration::from_millis(50);
/// For how long ssh may take to end once it is told.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much of the errors is kept, the last of them, bytes.
const SAID_MAX: usize = 4096;

/// A running ssh, in a process group of its own, which ends with this.
pub(super) struct Stream<'a> {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    stderr: Option<ChildStderr>,
    said: Vec<u8>,
    until: Instant,
    stop: &'a Stop,
    /// Bytes that may still come.
    left: u64,
    has_ended: bool,
}

impl<'a> Stream<'a> {
    /// Starts it; it may take `time`, and send `most` bytes.
    pub(super) fn start(
        mut command: Command,
        time: Duration,
        most: u64,
        stop: &'a Stop,
    ) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn()?;
        let stdin = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let now = Instant::now();
        let until = now.checked_add(time).unwrap_or(now);
        let stdout = stdout.ok_or(ErrorKind::BrokenPipe)?;
        Ok(Self {
            child,
            stdin,
            stdout,
            stderr,
            said: Vec::new(),
            until,
            stop,
            left: most,
            has_ended: false,
        })
    }

    /// Tells it a byte, which a pipe always has room for; if it has ended, its output says so.
    pub(super) fn tell(&mut self, byte: u8) {
        if self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(&[byte]).is_err()) {
            self.stdin = None;
        }
    }

    /// There is nothing more to tell.
    pub(super) fn told(&mut self) {
        self.stdin = None;
    }

    /// The last line that it said beside what it sent.
    pub(super) fn last_words(&self) -> Option<String> {
        let said = String::from_utf8_lossy(&self.said);
        said.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }

    /// Its status, once it has ended.
    pub(super) fn end(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.has_ended = true;
                // What is in the pipe still; it may have another writer, which is not waited for.
                while self.stderr.is_some() && self.listen(Duration::ZERO)? {}
                return Ok(status);
            }
            if self.stderr.is_some() {
                self.listen(LOOK)?;
            } else {
                thread::sleep(LOOK);
            }
            self.check()?;
        }
    }

    fn check(&self) -> io::Result<()> {
        if self.stop.signalled() {
            return Err(ErrorKind::Interrupted.into());
        }
        if Instant::now() >= self.until {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Waits for errors, and takes some in; whether there were any.
    fn listen(&mut self, time: Duration) -> io::Result<bool> {
        let Some(stderr) = &mut self.stderr else { return Ok(false) };
        if !ready([Some(stderr.as_fd())], time)?[0] {
            return Ok(false);
        }
        let mut buffer = [0; 1024];
        let n = stderr.read(&mut buffer)?;
        if n == 0 {
            self.stderr = None;
            return Ok(false);
        }
        self.said.extend_from_slice(buffer.get(..n).unwrap_or_default());
        let surplus = self.said.len().saturating_sub(SAID_MAX);
        self.said.drain(..surplus);
        Ok(true)
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.signalled() {
                // Not `Interrupted`, after which who reads would try again.
                return Err(ErrorKind::ConnectionAborted.into());
            }
            self.check()?;
            let stderr = self.stderr.as_ref().map(AsFd::as_fd);
            let [has_bytes, has_words] = ready([Some(self.stdout.as_fd()), stderr], LOOK)?;
            if has_words {
                self.listen(Duration::ZERO)?;
            }
            if has_bytes {
                let n = self.stdout.read(buffer)?;
                self.left = self.left.checked_sub(n as u64).ok_or(ErrorKind::FileTooLarge)?;
                return Ok(n);
            }
        }
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // Its group, as what it started may hold on to the pipes. The child is not waited for yet,
        // so no other process can have the id.
        let group = Pid::from_raw(self.child.id() as i32);
        let _ = killpg(group, Signal::SIGTERM);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(LOOK);
        }
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// Which of these have something to read, or have ended.
fn ready<const N: usize>(
    streams: [Option<std::os::fd::BorrowedFd<'_>>; N],
    time: Duration,
) -> io::Result<[bool; N]> {
    let mut out = [false; N];
    let mut fds: Vec<PollFd<'_>> =
        streams.iter().flatten().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
    match poll(&mut fds, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut found = fds.iter().map(|fd| fd.any().unwrap_or(false));
    for (out, stream) in out.iter_mut().zip(streams) {
        *out = stream.is_some() && found.next().unwrap_or(false);
    }
    Ok(out)
}
