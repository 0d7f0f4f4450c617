//! The life of threads, and what people and the recorder itself wrote.

use flightrec_format::abi::record::{Act, Exec, Fork, Rename, StringStatus, TaskExit};
use flightrec_format::decode::Text;

use super::value;
use crate::text::argument::write_signal;
use crate::text::number::decimal;

/// `,"child_tid":…,"child_pid":…,"child_comm":…,"cgroup":…`
pub(super) fn fork(fork: &Fork, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"child_tid\":");
    decimal(fork.tid, out);
    out.extend_from_slice(b",\"child_pid\":");
    decimal(fork.tgid, out);
    out.extend_from_slice(b",\"child_comm\":");
    value::comm(&fork.comm, out);
    out.extend_from_slice(b",\"cgroup\":");
    decimal(fork.cgroup, out);
}

/// `,"file":…,"argv":[…],"new_comm":…,"old_tid":…,"cgroup":…`
pub(super) fn exec(exec: &Exec, file: Option<&Text>, args: Option<&Text>, out: &mut Vec<u8>) {
    value::text("file", file, out);
    out.extend_from_slice(b",\"argv\":");
    match args.filter(|args| args.status != StringStatus::Unreadable) {
        Some(args) => {
            out.push(b'[');
            let (list, cut, end) = args.arguments(exec.args_len as usize);
            for (index, argument) in list.enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                value::string(argument, out);
            }
            out.push(b']');
            if cut {
                value::cut("argv", out);
            }
            if let Some(end) = end {
                out.extend_from_slice(b",\"argv_end\":[");
                for (index, argument) in end.enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    value::string(argument, out);
                }
                out.push(b']');
            }
        }
        None if exec.args_len == 0 => out.extend_from_slice(b"[]"),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"new_comm\":");
    value::comm(&exec.comm, out);
    out.extend_from_slice(b",\"old_tid\":");
    decimal(exec.old_tid, out);
    out.extend_from_slice(b",\"cgroup\":");
    decimal(exec.cgroup, out);
}

/// `,"renamed_tid":…,"renamed_pid":…,"old_comm":…,"new_comm":…`
pub(super) fn rename(rename: &Rename, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"renamed_tid\":");
    decimal(rename.tid, out);
    out.extend_from_slice(b",\"renamed_pid\":");
    decimal(rename.tgid, out);
    out.extend_from_slice(b",\"old_comm\":");
    value::comm(&rename.old, out);
    out.extend_from_slice(b",\"new_comm\":");
    value::comm(&rename.new, out);
}

/// `,"status":…`, or `,"signal":…,"core_dumped":…`
pub(super) fn exit(exit: &TaskExit, out: &mut Vec<u8>) {
    let signal = exit.code & 0x7f;
    if signal == 0 {
        out.extend_from_slice(b",\"status\":");
        decimal(exit.code >> 8 & 0xff, out);
        return;
    }
    out.extend_from_slice(b",\"signal\":");
    value::printed(|out| write_signal(signal, out), out);
    let dumped = exit.code & 0x80 != 0;
    out.extend_from_slice(if dumped {
        b",\"core_dumped\":true".as_slice()
    } else {
        b",\"core_dumped\":false"
    });
}

/// What the recorder's act is called as an event, and the quote after it: a change of level, or a
/// line that it wrote itself.
pub(super) fn act_event(act: u16) -> &'static [u8] {
    let levels = [Act::Level, Act::Detached, Act::Attached];
    if levels.into_iter().any(|level| level as u16 == act) { b"level\"" } else { b"mark\"" }
}

/// `,"by":"recorder","text":…`
pub(super) fn act(text: &Text, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"by\":\"recorder\"");
    value::text("text", Some(text), out);
}

/// `,"by":"user","text":…`
pub(super) fn mark(text: &Text, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"by\":\"user\"");
    value::text("text", Some(text), out);
}
