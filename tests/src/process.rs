//! Child processes: where the programs are, that no child outlives its test, bounded waiting.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getppid, sethostname};

/// How long a test waits for what is sure to come: so long that only a hang takes longer, also
/// where other programs have the machine's CPUs.
pub const PATIENCE: Duration = Duration::from_mins(2);
/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(10);

/// The repository.
pub(crate) fn repository() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_path_buf()
}

/// Where `flightd` and `flightctl` are: `FLIGHTREC_BIN_DIR`, else `target/release`.
pub fn bin_dir() -> PathBuf {
    std::env::var_os("FLIGHTREC_BIN_DIR")
        .map_or_else(|| repository().join("target/release"), PathBuf::from)
}

/// Has the kernel send `signal` to the child when the thread that spawns it ends. The child starts
/// with no signal blocked, also where its parent has blocked some for itself.
pub fn die_with_parent(command: &mut Command, signal: Signal) -> &mut Command {
    let parent = Pid::this();
    let hook = move || {
        SigSet::empty().thread_set_mask()?;
        set_pdeathsig(signal)?;
        // The parent may have ended before the line above: then nobody would ever send the signal.
        if getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the hook makes three system calls, and allocates nothing.
    unsafe { command.pre_exec(hook) }
}

/// Has the child be a host of its own: with this host name, and with mounts and IPC objects that no
/// other process sees. The network is shared: servers on loopback are there.
pub(crate) fn on_host<'a>(command: &'a mut Command, name: &str) -> &'a mut Command {
    let name = OsString::from(name);
    let hook = move || {
        unshare(CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC)?;
        Ok(sethostname(&name)?)
    };
    // SAFETY: between fork and exec the hook makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(hook) }
}

/// Has the child run on one CPU only, with what it starts.
pub fn pinned(command: &mut Command, cpu: usize) -> &mut Command {
    let hook = move || {
        let mut set = CpuSet::new();
        set.set(cpu)?;
        Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
    };
    // SAFETY: between fork and exec the hook makes one system call, and allocates nothing.
    unsafe { command.pre_exec(hook) }
}

/// Waits for a condition, at most `limit`; whether it came.
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(POLL);
    }
}

/// Waits for a child's end. Returns how it ended, and the most memory that it had in use at once
/// (its resident set), bytes: at least what this process had when it began the child, as that is
/// counted until the child's exec (`exec_mmap`, fs/exec.c, Linux 6.1).
pub fn wait_peak(child: &Child) -> io::Result<(ExitStatus, u64)> {
    let (pid, mut status) = (child.id() as libc::pid_t, 0);
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to live, writable memory of their types.
        let waited = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
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

/// Waits for a child's end, at most `limit`; `None` when it still runs.
pub fn wait_limited(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut result = Ok(None);
    wait_until(limit, || {
        result = child.try_wait();
        !matches!(result, Ok(None))
    });
    result
}
