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

/// Whether a function is one by which stacks end.
pub(crate) fn is_entry(function: &str) -> bool {
    ENTRIES.contains(&function)
}

/// The functions, from the innermost one out.
pub(crate) fn frames(stack: &Stack, symbols: &Symbols, out: &mut Vec<u8>) {
    kernel(&stack.frames, stack.cut, symbols, out);
}

/// Functions of the kernel; `cut`: there may be more.
pub(super) fn kernel(frames: &[u32], cut: bool, symbols: &Symbols, out: &mut Vec<u8>) {
    let is_entry = |frame: &u32| symbols.find(*frame).is_some_and(|of| is_entry(of.function));
    let entries = frames.iter().rev().take_while(|frame| is_entry(frame)).count();
    let shown = frames.len() - entries;
    // A stack of nothing else is shown as it is: user space, at an interrupt.
    let shown = if shown == 0 { frames.len() } else { shown };
    for (i, frame) in frames.iter().take(shown).enumerate() {
        if i > 0 {
            out.extend_from_slice(b" <- ");
        }
        if let Some(of) = symbols.find(*frame) {
            escape(of.function.as_bytes(), out);
            if let Some(module) = of.module {
                out.extend_from_slice(b" [");
                escape(module.as_bytes(), out);
                out.push(b']');
            }
        } else {
            out.push(b'?');
            hex(u64::from(*frame), out);
        }
    }
    if cut {
        out.extend_from_slice(b" <- ...");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use flightrec_format::meta::{Meta, Symbol};

    use super::*;

    /// Functions of 100 bytes from 100, 200 and so on.
    pub(crate) fn symbols(names: &[&str]) -> Symbols {
        let symbol =
            |(name, i): (&&str, u32)| Symbol { at: i * 100, size: 100, name: (*name).into() };
        Symbols::new(&Meta {
            symbols: names.iter().zip(1..).map(symbol).collect(),
            ..Meta::default()
        })
    }

    /// A stack of these frames.
    pub(crate) fn taken(frames: &[u32]) -> Stack {
        Stack { slept: Some(12_345_678), status: Status::Taken, cut: false, frames: frames.into() }
    }

    fn shown(stack: &Stack, symbols: &Symbols) -> String {
        let mut out = Vec::new();
        line(stack, symbols, Paint(false), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_stack_is_shown_from_the_inside_out_without_the_way_in() {
        let names = ["wait", "fsync [xfs]", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"];
        let symbols = symbols(&names);
        let all = taken(&[110, 220, 310, 410]);
        assert_eq!(shown(&all, &symbols), "(STACK) slept 12 ms in wait <- fsync [xfs]");
        let cut = Stack { cut: true, slept: None, ..taken(&[110, 0x7000_0001]) };
        assert_eq!(
            shown(&cut, &symbols),
            "(STACK) slept since before the recording in wait <- ?0x70000001 <- ..."
        );
        let only = shown(&taken(&[310, 410]), &symbols);
        assert_eq!(only, "(STACK) slept 12 ms in do_syscall_64 <- entry_SYSCALL_64_after_hwframe");
        let inner = shown(&taken(&[310, 110]), &symbols);
        assert_eq!(inner, "(STACK) slept 12 ms in do_syscall_64 <- wait", "only at the end");
    }

    #[test]
    fn a_stack_that_is_not_there_says_why() {
        let missing = |status| Stack { status, ..taken(&[]) };
        let none = Symbols::default();
        assert_eq!(
            shown(&missing(Status::Refused), &none),
            "(STACK) slept 12 ms (stack refused by the budget)"
        );
        assert_eq!(
            shown(&missing(Status::Unreadable), &none),
            "(STACK) slept 12 ms (stack not available)"
        );
    }

    #[test]
    fn names_are_escaped() {
        let symbols = symbols(&["a\u{1b}[1m [b\n]"]);
        let text = shown(&taken(&[150]), &symbols);
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{text:?}");
    }
}
