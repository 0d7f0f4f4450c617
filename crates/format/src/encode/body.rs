//! An event as its record, header word first, and its strings.

use crate::abi::args;
use crate::abi::page::UNIT;
use crate::abi::record::{
    STRING_MAX, StringStatus, call_aux, fold, header, kind, migrate, sample, stack, switch,
    tracepoint, wake,
};
use crate::decode::{Body, Call, Text};

/// Where records are put one after the other.
pub(super) struct Records<'a> {
    pub(super) out: &'a mut Vec<u8>,
}

impl Records<'_> {
    /// A header word whose record has `body` bytes after it.
    pub(super) fn header(&mut self, kind: u8, body: usize, aux: u16, upper: u32) {
        let length = (8 + body).div_ceil(UNIT) as u8;
        self.word(header(kind, length, aux, upper));
    }

    /// A word.
    pub(super) fn word(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Zeros up to where a record may end.
    fn pad(&mut self) {
        self.out.resize(self.out.len().next_multiple_of(UNIT), 0);
    }

    /// A record's head of what stands after it.
    fn close(&mut self, start: usize, kind: u8, aux: u16, upper: u32) {
        self.pad();
        let length = ((self.out.len() - start) / UNIT) as u8;
        if let Some(head) = self.out.get_mut(start..start + 8) {
            head.copy_from_slice(&header(kind, length, aux, upper).to_le_bytes());
        }
    }

    /// The record of `body`, and its strings. `upper` is the time field.
    pub(super) fn event(&mut self, body: &Body, tid: u32, upper: u32) {
        let start = self.out.len();
        self.word(0);
        let (kind, aux) = self.content(body, tid);
        self.close(start, kind, aux, upper);
        match body {
            Body::Enter(call) | Body::Exit { call, .. } => {
                for text in &call.strings {
                    self.string(text, text.index);
                }
            }
            Body::IoSubmit { paths, .. } => {
                for path in paths {
                    self.string(path, path.index);
                }
            }
            Body::Exec { file, args, .. } => {
                for (text, index) in [(file, 0), (args, 1)] {
                    if let Some(text) = text {
                        self.string(text, index);
                    }
                }
                // What is longer has its end apart.
                if let Some(end) = args
                    .as_ref()
                    .and_then(|args| args.bytes.get(STRING_MAX..))
                    .filter(|end| !end.is_empty())
                {
                    self.string(
                        &Text { index: 2, status: StringStatus::Whole, bytes: end.to_vec().into() },
                        2,
                    );
                }
            }
            Body::Mark(text) | Body::Act(_, text) => self.string(text, 0),
            _ => {}
        }
    }

    /// What stands after the header word; returns kind and aux.
    fn content(&mut self, body: &Body, tid: u32) -> (u8, u16) {
        match body {
            Body::Enter(call) => {
                self.out.resize(self.out.len() + fold::SLOT, 0);
                self.arguments(call);
                (kind::ENTER, aux_of(call))
            }
            Body::Exit { call, ret, .. } => {
                self.word(*ret as u64);
                self.arguments(call);
                (kind::EXIT, aux_of(call))
            }
            Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio } => {
                let state = u32::from(*prev_state);
                self.word(switch::pack(tid, *next, state, *preempted, *io_wait));
                (kind::SWITCH, u16::from(*prev_prio) | u16::from(*next_prio) << 8)
            }
            Body::Waking { wakee, prio, state, cpu, new, context } => {
                let (state, cpu) = (u32::from(*state), u32::from(*cpu));
                self.word(wake::pack(*wakee, state, cpu, *context as u8));
                (if *new { kind::WAKEUP_NEW } else { kind::WAKING }, u16::from(*prio))
            }
            Body::Migrate { thread, prio, from, to } => {
                self.word(migrate::pack(*thread, u32::from(*from), u32::from(*to)));
                (kind::MIGRATE, u16::from(*prio))
            }
            Body::Stack(of) => {
                self.word(of.slept.unwrap_or(0));
                for frame in of.frames.iter().take(stack::FRAMES_MAX) {
                    self.bytes(&frame.to_le_bytes());
                }
                (kind::STACK, of.status as u16 | if of.cut { stack::CUT } else { 0 })
            }
            Body::Sample(of) => {
                let (kernel, user) = (of.kernel.iter(), of.user.iter());
                let kernel = kernel.take(sample::FRAMES_MAX);
                let count = kernel.len() as u16;
                kernel.for_each(|frame| self.bytes(&frame.to_le_bytes()));
                user.take(sample::FRAMES_MAX).for_each(|frame| self.word(frame.pack()));
                let flags = [
                    (of.user_mode, sample::USER_MODE),
                    (of.kernel_cut, sample::KERNEL_CUT),
                    (of.user_cut, sample::USER_CUT),
                ];
                let flags = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit);
                let aux = of.status as u16 | flags.sum::<u16>() | count << sample::KERNEL_SHIFT;
                (kind::SAMPLE, aux)
            }
            Body::IoSubmit { submit, .. } => {
                self.bytes(&submit.bytes());
                (kind::IO_SUBMIT, 0)
            }
            Body::Tracepoint(of) => {
                let bytes = of.bytes.get(..tracepoint::BYTES_MAX).unwrap_or(&of.bytes);
                let is_cut = of.cut || bytes.len() < of.bytes.len();
                self.bytes(&(u32::from(of.id) | (bytes.len() as u32) << 16).to_le_bytes());
                self.bytes(bytes);
                self.pad();
                let mut aux = if is_cut { tracepoint::CUT } else { 0 };
                aux |= (of.context as u16) << tracepoint::CONTEXT_SHIFT;
                if let Some(stack) = &of.stack {
                    let frames = stack.frames.iter().take(tracepoint::FRAMES_MAX);
                    aux |= tracepoint::STACK | stack.status as u16;
                    aux |= if stack.cut { tracepoint::STACK_CUT } else { 0 };
                    aux |= (frames.len() as u16) << tracepoint::FRAMES_SHIFT;
                    frames.for_each(|frame| self.bytes(&frame.to_le_bytes()));
                }
                (kind::TRACEPOINT, aux)
            }
            Body::Fork(fork) => {
                self.bytes(&fork.bytes());
                (kind::FORK, 0)
            }
            Body::Exec { exec, .. } => {
                self.bytes(&exec.bytes());
                (kind::EXEC, 0)
            }
            Body::Rename(rename) => {
                self.bytes(&rename.bytes());
                (kind::RENAME, 0)
            }
            Body::TaskExit(exit) => {
                self.bytes(&exit.bytes());
                (kind::TASK_EXIT, 0)
            }
            Body::Plain(plain) => {
                self.bytes(plain.bytes());
                (plain.kind() as u8, 0)
            }
            Body::Mark(_) => (kind::MARK, 0),
            Body::Act(act, _) => (kind::ACT, *act),
        }
    }

    fn arguments(&mut self, call: &Call) {
        let used = call.args.get(..usize::from(call.nargs)).unwrap_or(&call.args);
        if used.is_empty() {
            return;
        }
        let mut group = [0; args::MAX_BYTES];
        let length = args::encode(used, &mut group);
        self.bytes(group.get(..length).unwrap_or(&group));
    }

    /// A STRING record; what is longer than [`STRING_MAX`] is cut there, as the probes do.
    fn string(&mut self, text: &Text, index: u8) {
        let (content, status) = match text.bytes.get(..STRING_MAX) {
            Some(cut) if text.bytes.len() > STRING_MAX => (cut, StringStatus::Cut),
            _ => (&*text.bytes, text.status),
        };
        let aux = u16::from(index & 0xf) | (status as u16) << 4;
        self.header(kind::STRING, content.len(), aux, content.len() as u32);
        self.bytes(content);
        self.pad();
    }
}

fn aux_of(call: &Call) -> u16 {
    call_aux(call.nr, call.abi as u8)
}
