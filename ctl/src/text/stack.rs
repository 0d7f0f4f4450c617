//! Where in the kernel a thread waited.

use flightrec_format::abi::record::stack::Status;
use flightrec_format::decode::Stack;
use flightrec_format::symbols::Symbols;

use super::escape::escape;
use super::number::{duration, hex};
use super::paint::Paint;

/// Functions by which every stack of a thread ends: the way into the kernel, which says nothing of
/// the wait.
const ENTRIES: [&str; 8] = [
    "entry_SYSCALL_64_after_hwframe",
    "entry_SYSCALL_compat_after_hwframe",
    "do_syscall_64",
    "do_fast_syscall_32",
    "__do_fast_syscall_32",
    "x64_sys_call",
    "ret_from_fork_asm",
    "ret_from_fork",
];

/// `(STACK) slept 12 ms in anon_pipe_read <- vfs_read <- ksys_read`, without the way into the
/// kernel; `...` at the end: there may be more.
pub(super) fn line(stack: &Stack, symbols: &Symbols, paint: Paint, out: &mut Vec<u8>) {
    out.extend_from_slice(b"(STACK) slept ");
    match stack.slept {
        Some(ns) => paint.time(ns, out, |out| duration(ns, out)),
        None => out.extend_from_slice(b"since before the recording"),
    }
    match stack.status {
        Status::Taken => {
            out.extend_from_slice(b" in ");
            frames(stack, symbols, out);
        }
        Status::Refused => out.extend_from_slice(b" (stack refused by the budget)"),
        Status::Unreadable => out.extend_from_slice(b" (stack not available)"),
    }
}

/// The functions, from the innermost one out.
pub(crate) fn frames(stack: &Stack, symbols: &Symbols, out: &mut Vec<u8>) {
    let is_entry = |frame: &u32| {
        symbols.find(*frame).is_some_and(|of| ENTRIES.contains(&of.function))
    };
    let entries = stack.frames.iter().rev().take_while(|frame| is_entry(frame)).count();
    let shown = stack.frames.len() - entries;
    // A stack of nothing else is shown as it is: user space, at an interrupt.
    let shown = if shown == 0 { stack.frames.len() } else { shown };
    for (i, frame) in stack.frames.iter().take(shown).enumerate() {
        if i > 0 {
            out.extend_from_slice(b" <- ");
        }
        match symbols.find(*frame) {
            Some(of) => {
                escape(of.function.as_bytes(), out);
                if let Some(module) = of.module {
                    out.extend_from_slice(b" [");
                    escape(module.as_bytes(), out);
                    out.push(b']');
                }
            }
            None => {
                out.push(b'?');
                hex(u64::from(*frame), out);
            }
        }
    }
    if stack.cut {
        out.extend_from_slice(b" <- ...");
    }
}
