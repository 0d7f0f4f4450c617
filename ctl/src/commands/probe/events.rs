//! The perf events of points in programs and in the kernel (perf_event_open(2), `perf_uprobe` and
//! `perf_kprobe` of kernel/events/core.c, Linux 6.1). The point has its breakpoint as long as the
//! event is open, or a program is linked to it.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `PERF_ATTR_SIZE_VER5`: `struct perf_event_attr` in bytes.
const ATTR_SIZE: usize = 112;
/// `PERF_FLAG_FD_CLOEXEC`.
const FD_CLOEXEC: libc::c_ulong = 8;
/// The source of events at functions of programs, and of those of the kernel, in sysfs.
const UPROBE: &str = "uprobe";
const KPROBE: &str = "kprobe";

/// A source of events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    kind: u64,
    /// The bit of `config` that asks for returns.
    returns: u64,
}

impl Source {
    /// At functions of programs. The error is for the user.
    pub(super) fn uprobe() -> Result<Self, String> {
        Self::read(UPROBE).map_err(|e| {
            format!(
                "this kernel has no uprobes (CONFIG_UPROBE_EVENTS): functions of programs can't \
                 be probed ({e})"
            )
        })
    }

    /// At functions of the kernel. The error is for the user.
    pub(super) fn kprobe() -> Result<Self, String> {
        Self::read(KPROBE).map_err(|e| {
            format!(
                "this kernel has no kprobes (CONFIG_KPROBES, CONFIG_KPROBE_EVENTS): functions of \
                 the kernel can't be probed, those of programs can ({e})"
            )
        })
    }

    fn read(name: &str) -> io::Result<Self> {
        let dir = format!("/sys/bus/event_source/devices/{name}");
        let number = |text: String| text.trim().parse::<u64>().map_err(io::Error::other);
        let kind = number(fs::read_to_string(format!("{dir}/type"))?)?;
        let format = fs::read_to_string(format!("{dir}/format/retprobe"))?;
        let bit = number(format.trim().trim_start_matches("config:").to_owned())?;
        Ok(Self { kind, returns: 1 << bit.min(63) })
    }

    /// Of a byte of a file. `semaphore`: the byte of the counter that is to be above 0 meanwhile;
    /// 0: there is none.
    pub(super) fn in_file(
        self,
        file: &impl AsRawFd,
        at: u64,
        semaphore: u64,
        returns: bool,
    ) -> io::Result<OwnedFd> {
        // Whatever its path means by then, and to whom.
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let semaphore = u32::try_from(semaphore).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // `format/ref_ctr_offset`: the upper half.
        let config = u64::from(semaphore) << 32 | if returns { self.returns } else { 0 };
        open(self.kind, config, path.as_ptr() as u64, at)
    }

    /// Of a function of the kernel, by its address.
    pub(super) fn at_address(self, address: u64, returns: bool) -> io::Result<OwnedFd> {
        open(self.kind, if returns { self.returns } else { 0 }, 0, address)
    }
}

/// `first`, `second`: `config1` and `config2`.
fn open(kind: u64, config: u64, first: u64, second: u64) -> io::Result<OwnedFd> {
    let mut attr = [0u64; ATTR_SIZE / 8];
    attr[0] = kind | (ATTR_SIZE as u64) << 32; // type, size
    attr[1] = config;
    attr[7] = first;
    attr[8] = second;
    let (pid, cpu, group) = (-1, 0, -1);
    // SAFETY: `attr` is a live `struct perf_event_attr` of the size that it says; the path that it
    // points to lives as long as the call, which copies it.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), pid, cpu, group, FD_CLOEXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
