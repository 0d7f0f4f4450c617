//! The life of threads, and what people and the recorder itself wrote.

use flightrec_format::abi::record::{Comm, Exec, Fork, Rename, StringStatus, TaskExit};
use flightrec_format::decode::Text;

use super::argument::write_signal;
use super::escape::{escape, quote, quote_text};
use super::number::decimal;
use super::paint::Paint;

/// `(FORK) -> 1234 name (process 1234)`, of a thread `(thread of 1200)`
pub(super) fn fork(fork: &Fork, out: &mut Vec<u8>) {
    out.extend_from_slice(b"(FORK) -> ");
    decimal(fork.tid, out);
    out.push(b' ');
    name(&fork.comm, out);
    out.extend_from_slice(if fork.tid == fork.tgid {
        b" (process ".as_slice()
    } else {
        b" (thread of "
    });
    decimal(fork.tgid, out);
    out.push(b')');
}

/// `(EXEC) "/bin/ls" ["ls", "-l"] cgroup:5`
pub(super) fn exec(exec: &Exec, file: Option<&Text>, args: Option<&Text>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"(EXEC) ");
    if let Some(file) = file.filter(|file| file.status != StringStatus::Unreadable) {
        quote_text(file, out);
    } else {
        // The name says a little of what the file would have said.
        out.extend_from_slice(b"? ");
        name(&exec.comm, out);
    }
    match args.filter(|args| args.status != StringStatus::Unreadable) {
        Some(args) => arguments(args, exec.args_len as usize, out),
        None if exec.args_len == 0 => out.extend_from_slice(b" []"),
        None => out.extend_from_slice(b" [...]"),
    }
    out.extend_from_slice(b" cgroup:");
    decimal(exec.cgroup, out);
    if exec.old_tid != exec.tid {
        out.extend_from_slice(b" (was thread ");
        decimal(exec.old_tid, out);
        out.push(b')');
    }
}

/// ` ["ls", "-l"]` of a list of `whole` bytes.
fn arguments(args: &Text, whole: usize, out: &mut Vec<u8>) {
    let (list, cut, end) = args.arguments(whole);
    let mut list = list.peekable();
    out.extend_from_slice(b" [");
    let mut first = true;
    while let Some(argument) = list.next() {
        if !first {
            out.extend_from_slice(b", ");
        }
        first = false;
        quote(argument, cut && list.peek().is_none(), out);
    }
    // What stands between is not recorded.
    for (index, argument) in end.into_iter().flatten().enumerate() {
        out.extend_from_slice(if index == 0 { b", ..." } else { b", " });
        quote(argument, false, out);
    }
    out.push(b']');
}

/// `(RENAME) "old" -> "new"`; `by` is who did it.
pub(super) fn rename(rename: &Rename, by: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"(RENAME) ");
    if rename.tid != by {
        decimal(rename.tid, out);
        out.push(b' ');
    }
    quote(until_nul(&rename.old), false, out);
    out.extend_from_slice(b" -> ");
    quote(until_nul(&rename.new), false, out);
}

/// `(EXIT) status 1`, `(EXIT) killed by SIGSEGV (core dumped)`
pub(super) fn exit(exit: &TaskExit, out: &mut Vec<u8>) {
    out.extend_from_slice(b"(EXIT) ");
    let signal = exit.code & 0x7f;
    if signal == 0 {
        out.extend_from_slice(b"status ");
        decimal(exit.code >> 8 & 0xff, out);
        return;
    }
    out.extend_from_slice(b"killed by ");
    write_signal(signal, out);
    if exit.code & 0x80 != 0 {
        out.extend_from_slice(b" (core dumped)");
    }
}

/// `(MARK) text`
pub(super) fn mark(text: &Text, paint: Paint, out: &mut Vec<u8>) {
    line(b"(MARK) ", text, paint, out);
}

/// `(RECORDER) text`
pub(super) fn act(text: &Text, paint: Paint, out: &mut Vec<u8>) {
    line(b"(RECORDER) ", text, paint, out);
}

fn line(label: &[u8], text: &Text, paint: Paint, out: &mut Vec<u8>) {
    paint.mark(out);
    out.extend_from_slice(label);
    escape(&text.bytes, out);
    if text.is_cut() {
        out.extend_from_slice(b"...");
    }
    paint.end(out);
}

fn name(comm: &Comm, out: &mut Vec<u8>) {
    match until_nul(comm) {
        [] => out.push(b'?'),
        name => escape(name, out),
    }
}

fn until_nul(comm: &Comm) -> &[u8] {
    comm.split(|byte| *byte == 0).next().unwrap_or_default()
}
