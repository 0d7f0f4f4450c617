//! An event as the words of its record, header word first, and of its strings.

use crate::abi::args;
use crate::abi::record::{STRING_MAX, StringStatus, call_aux, header, kind, migrate, switch, wake};
use crate::decode::{Body, Call, Text};

/// Appends the words of `body`'s record and strings. `upper` is the time field.
pub(super) fn words(body: &Body, tid: u32, upper: u32, out: &mut Vec<u64>) {
    let start = out.len();
    out.push(0);
    let (kind, aux) = match body {
        Body::Enter(call) => {
            out.push(0);
            arguments(call, out);
            (kind::ENTER, aux_of(call))
        }
        Body::Exit { call, ret, .. } => {
            out.push(*ret as u64);
            arguments(call, out);
            (kind::EXIT, aux_of(call))
        }
        Body::Switch { prev_prio, prev_state, preempted, next, next_prio } => {
            out.push(switch::pack(tid, *next, u32::from(*prev_state), *preempted));
            (kind::SWITCH, u16::from(*prev_prio) | u16::from(*next_prio) << 8)
        }
        Body::Waking { wakee, prio, state, cpu, new } => {
            out.push(wake::pack(*wakee, u32::from(*state), u32::from(*cpu)));
            (if *new { kind::WAKEUP_NEW } else { kind::WAKING }, u16::from(*prio))
        }
        Body::Migrate { thread, prio, from, to } => {
            out.push(migrate::pack(*thread, u32::from(*from), u32::from(*to)));
            (kind::MIGRATE, u16::from(*prio))
        }
        Body::Fork(f) => {
            out.extend([pair(f.parent_tid, f.parent_tgid), pair(f.tid, f.tgid), f.start_time, f.cgroup]);
            bytes(&f.comm, out);
            (kind::FORK, 0)
        }
        Body::Exec { exec, .. } => {
            out.extend([pair(exec.tid, exec.old_tid), pair(exec.tgid, exec.args_len), exec.cgroup]);
            bytes(&exec.comm, out);
            (kind::EXEC, 0)
        }
        Body::Rename(r) => {
            out.push(pair(r.tid, r.tgid));
            bytes(&r.old, out);
            bytes(&r.new, out);
            (kind::RENAME, 0)
        }
        Body::TaskExit(e) => {
            out.extend([pair(e.tid, e.tgid), pair(e.code, e.reserved), e.start_time]);
            bytes(&e.comm, out);
            (kind::TASK_EXIT, 0)
        }
        Body::Mark(_) => (kind::MARK, 0),
        Body::Act(act, _) => (kind::ACT, *act),
    };
    let length = (out.len() - start) as u8;
    if let Some(head) = out.get_mut(start) {
        *head = header(kind, length, aux, upper);
    }
    match body {
        Body::Enter(call) | Body::Exit { call, .. } => {
            for text in &call.strings {
                string(text, text.index, out);
            }
        }
        Body::Exec { file, args, .. } => {
            for (text, index) in [(file, 0), (args, 1)] {
                if let Some(text) = text {
                    string(text, index, out);
                }
            }
        }
        Body::Mark(text) | Body::Act(_, text) => string(text, 0, out),
        _ => {}
    }
}

fn aux_of(call: &Call) -> u16 {
    call_aux(call.nr, call.abi as u8)
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Bytes as words, zero padded.
fn bytes(bytes: &[u8], out: &mut Vec<u64>) {
    for chunk in bytes.chunks(8) {
        out.push(chunk.iter().rev().fold(0, |word, b| word << 8 | u64::from(*b)));
    }
}

fn arguments(call: &Call, out: &mut Vec<u64>) {
    let used = call.args.get(..usize::from(call.nargs)).unwrap_or(&call.args);
    if used.is_empty() {
        return;
    }
    let mut group = [0; args::MAX_BYTES];
    let length = args::encode(used, &mut group);
    bytes(group.get(..length).unwrap_or(&group), out);
}

/// A STRING record; what is longer than [`STRING_MAX`] is cut there, as the probes do.
fn string(text: &Text, index: u8, out: &mut Vec<u64>) {
    let (content, status) = match text.bytes.get(..STRING_MAX) {
        Some(cut) if text.bytes.len() > STRING_MAX => (cut, StringStatus::Cut),
        _ => (&*text.bytes, text.status),
    };
    let words = 1 + content.len().div_ceil(8);
    let aux = u16::from(index & 0xf) | (status as u16) << 4;
    out.push(header(kind::STRING, words as u8, aux, content.len() as u32));
    bytes(content, out);
}
