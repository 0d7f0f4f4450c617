//! `flightctl` on a snapshot's file, run as a process of its own: it decodes everything that the
//! file holds, which takes memory and may fail, and neither is to happen to the recorder.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use thiserror::Error;

use super::hook;

/// Most bytes that are read of what it said.
const SAID_MAX: u64 = 64 << 10;

/// Why it did not do its work.
#[derive(Debug, Error)]
pub(super) enum ToolError {
    /// It could not be run.
    #[error("{}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It took too long.
    #[error("flightctl {command} did not end within {}", humantime::format_duration(*limit))]
    Slow {
        /// What it was to do.
        command: String,
        /// How long it may take.
        limit: Duration,
    },
    /// It failed.
    #[error("flightctl {command} failed: {said}")]
    Failed {
        /// What it was to do.
        command: String,
        /// What it said of that.
        said: String,
    },
    /// What it made could not be kept.
    #[error("{}: {source}", path.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// How it ended.
#[derive(Debug)]
pub(super) struct Ended {
    command: String,
    status: ExitStatus,
    said: String,
}

impl Ended {
    /// Its exit status; `None`: a signal ended it.
    pub(super) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// That this is a failure.
    pub(super) fn failed(self) -> ToolError {
        let Self { command, status, said } = self;
        let said = if status.signal() == Some(libc::SIGXFSZ) {
            "it wrote more than it may".to_owned()
        } else if said.is_empty() {
            status.to_string()
        } else {
            said
        };
        ToolError::Failed { command, said }
    }
}

/// The one that is installed beside this program.
pub(super) fn installed() -> Result<PathBuf, ToolError> {
    let own = std::env::current_exe()
        .map_err(|source| ToolError::Start { program: "flightctl".into(), source })?;
    Ok(own.with_file_name("flightctl"))
}

/// Runs it to its end: `args` and then `file`, with its output to `out`, of which it may write
/// `most` bytes.
pub(super) fn run(
    program: &Path,
    args: &[&str],
    file: &Path,
    out: &File,
    (limit, most): (Duration, u64),
) -> Result<Ended, ToolError> {
    let start = |source| ToolError::Start { program: program.into(), source };
    let name = args.first().copied().unwrap_or_default().to_owned();
    let mut err = memory("error").map_err(start)?;
    let mut command = Command::new(program);
    command
        .args(args)
        .arg(file)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(out.try_clone().map_err(start)?)
        .stderr(err.try_clone().map_err(start)?)
        // A group of its own, so that it can be killed as a hook is.
        .process_group(0);
    // SAFETY: between fork and exec, they make system calls alone, and allocate nothing.
    unsafe {
        command.pre_exec(move || {
            die_first();
            write_at_most(most)?;
            drop_capabilities()
        })
    };
    let mut child = command.spawn().map_err(start)?;
    let ended = hook::wait(&mut child, limit).map_err(start)?;
    let status = ended.ok_or_else(|| ToolError::Slow { command: name.clone(), limit })?;
    let said = text(&mut err).map_err(start)?.lines().next().unwrap_or_default().to_owned();
    Ok(Ended { command: name, status, said })
}

/// A file in memory, which takes whatever is written: a pipe would have to be read meanwhile.
pub(super) fn memory(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MFdFlags::MFD_CLOEXEC)?.into())
}

/// What is in such a file, as far as it is read.
pub(super) fn text(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(SAID_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// No file of it grows beyond that.
fn write_at_most(bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the kernel reads the limit, which lives until then.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// It needs none of what the recorder may do (capabilities(7), "Ambient").
fn drop_capabilities() -> io::Result<()> {
    // SAFETY: no memory is involved.
    let done =
        unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// If memory runs out, it ends before anything else does, the recorder above all
/// (`oom_badness`, mm/oom_kill.c).
fn die_first() {
    // SAFETY: both strings live for ever, and the length is that of the second one.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY);
        // Without /proc it has the recorder's own score.
        if file >= 0 {
            libc::write(file, c"1000".as_ptr().cast(), 4);
            libc::close(file);
        }
    }
}
