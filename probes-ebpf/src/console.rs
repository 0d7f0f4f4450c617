//! The lines that the kernel logs, for whoever in user space looks for a bad one. Not a part of the recording.

use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use aya_ebpf::macros::{btf_tracepoint, map};
use aya_ebpf::maps::RingBuf;
use aya_ebpf::programs::BtfTracePointContext;
use core::ffi::c_void;
use flightrec_format::abi::probe::LOG_LINE;

/// Beginnings of lines, [`LOG_LINE`] bytes each.
#[map(name = "kernel_log")]
static KERNEL_LOG: RingBuf = RingBuf::with_byte_size(64 << 10, 0);

/// `printk:console`: `text`, `len`. Every line passes here, whatever its level (`printk_sprint`, kernel/printk/printk.c, Linux 6.1).
#[btf_tracepoint(function = "console")]
fn console(ctx: BtfTracePointContext) -> Option<()> {
    let text: *const c_void = ctx.arg(0);
    let mut line = KERNEL_LOG.reserve::<[u8; LOG_LINE]>(0)?;
    // SAFETY: the entry has that many bytes; what can't be read leaves an empty string.
    unsafe { bpf_probe_read_kernel_str(line.as_mut_ptr().cast(), LOG_LINE as u32, text) };
    // Nobody is woken: who looks does so by himself (`BPF_RB_NO_WAKEUP`).
    line.submit(1);
    Some(())
}
