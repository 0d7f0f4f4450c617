//! The most memory that a child process had.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

use nix::libc;

/// Waits for a child. Returns how it ended, and the most memory that it had in use at once (its
/// resident set), bytes.
pub(crate) fn wait(child: &Child) -> io::Result<(ExitStatus, u64)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to live, writable memory of their types.
        let waited = unsafe {
            libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, usage.as_mut_ptr())
        };
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
