//! Attaching a classic tracepoint program by the tracepoint's number.
//!
//! aya looks the number up in tracefs itself, which only root can read; here it comes from whoever could.
//! The link is as `libbpf` makes it: a perf event of the tracepoint, and the program linked to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use flightrec_format::live::sys;

/// `PERF_TYPE_TRACEPOINT`, include/uapi/linux/perf_event.h.
const TYPE_TRACEPOINT: u64 = 2;
/// `PERF_ATTR_SIZE_VER5` (Linux 4.1): `struct perf_event_attr` in bytes. A kernel takes the sizes of all before it.
const ATTR_SIZE: usize = 112;
/// `PERF_FLAG_FD_CLOEXEC`.
const FD_CLOEXEC: libc::c_ulong = 8;

/// Attaches `program` to the tracepoint with this number, on all CPUs, and pins the link as `link`.
///
/// The program hears of every CPU although the event is opened on one: it hangs on the tracepoint, not on the event
/// (`perf_event_set_bpf_prog`, kernel/events/core.c, Linux 6.1).
pub fn attach(program: BorrowedFd<'_>, id: u32, link: &Path) -> io::Result<()> {
    let event = open(id)?;
    let linked = sys::link_perf_event(program, event.as_fd())?;
    sys::obj_pin(linked.as_fd(), link)
}

/// How far the kernel keeps perf events from others than root (`kernel.perf_event_paranoid`, sysctl/kernel.rst), if it says so.
pub fn paranoid() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// Opens a perf event of a tracepoint, for all processes, on CPU 0.
fn open(id: u32) -> io::Result<OwnedFd> {
    let mut attr = [0u64; ATTR_SIZE / 8];
    attr[0] = TYPE_TRACEPOINT | (ATTR_SIZE as u64) << 32; // type, size
    attr[1] = u64::from(id); // config
    let (pid, cpu, group) = (-1, 0, -1);
    // SAFETY: `attr` is a live `struct perf_event_attr` of the size that it says, and the call keeps no address.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), pid, cpu, group, FD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
