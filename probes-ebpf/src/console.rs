//! The lines that the kernel logs, for whoever in user space looks for a bad one. Not a part of the
//! recording.

use aya_ebpf::helpers::generated::{
    bpf_get_current_uid_gid, bpf_probe_read_kernel_str, bpf_task_pt_regs,
};
use aya_ebpf::macros::{btf_tracepoint, map};
use aya_ebpf::maps::RingBuf;
use aya_ebpf::programs::BtfTracePointContext;
use core::ffi::c_void;
use flightrec_format::abi::probe::{CALLS, LOG_LINE, LogLine, WRITES, WRITTEN};

use crate::files::device;
use crate::kernel::{Regs, Task, comm_bytes};
use crate::syscalls::call_entry;

/// Beginnings of lines, and who logged them.
#[map(name = "kernel_log")]
static KERNEL_LOG: RingBuf = RingBuf::with_byte_size(64 << 10, 0);

/// /dev/kmsg: `MKDEV(MEM_MAJOR, 11)` (drivers/char/mem.c, include/linux/kdev_t.h, Linux 6.1).
const KMSG: u32 = 1 << 20 | 11;

/// `printk:console`: `text`, `len`. Every line passes here, whatever its level (`printk_sprint`,
/// kernel/printk/printk.c, Linux 6.1). Where it comes from (`facility`) is no argument of it, and
/// not yet in the log's own record.
#[btf_tracepoint(function = "console")]
fn console(ctx: BtfTracePointContext) -> Option<()> {
    let text: *const c_void = ctx.arg(0);
    let mut line = KERNEL_LOG.reserve::<LogLine>(0)?;
    let (entry, task) = (line.as_mut_ptr(), Task::current());
    // SAFETY: the entry has these members, which are written whole; of the text, what can't be read
    // leaves an empty string.
    unsafe {
        (*entry).tid = task.tid();
        (*entry).tgid = task.tgid();
        (*entry).uid = bpf_get_current_uid_gid() as u32;
        (*entry).flags = if writes(task) { WRITTEN } else { 0 };
        (*entry).comm = comm_bytes(task.comm());
        bpf_probe_read_kernel_str((&raw mut (*entry).text).cast(), LOG_LINE as u32, text);
    }
    // Nobody is woken: who looks does so by himself (`BPF_RB_NO_WAKEUP`).
    line.submit(1);
    Some(())
}

/// Whether a thread is in a call that writes to /dev/kmsg.
#[inline(always)]
fn writes(task: Task) -> bool {
    if !task.makes_calls() {
        return false;
    }
    // SAFETY: the helper takes any task that the verifier knows.
    let registers =
        Regs::from_arg(unsafe { bpf_task_pt_regs(task.as_ptr() as *mut _) } as *const u8);
    let nr = registers.nr();
    let is_compat = task.is_compat();
    if nr < 0 || nr >= CALLS as i64 || call_entry(is_compat, nr as u64) & WRITES == 0 {
        return false;
    }
    let fd = if is_compat { registers.compat_argument(0) } else { registers.argument(0) };
    device(task, fd as u32) == KMSG
}
