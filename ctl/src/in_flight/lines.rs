//! Threads in the middle of something, for people and for programs.

use serde::Serialize;

use super::{Doing, InFlight};
use crate::text::Renderer;
use flightrec_format::human::span;

/// What stands over the lines; the columns are those of `ps`.
pub(crate) const HEAD: &str = "         FOR      TID      PID  NAME             STATE  IN\n";

impl InFlight {
    /// Appends `     2.1 ms     8883     8880  bash             R
    /// write(1</proc/sysrq-trigger>, …), on CPU 1`.
    pub(crate) fn line(&self, renderer: &Renderer, out: &mut Vec<u8>) {
        let time = if self.is_timed { span(self.thread.time) } else { "?".to_owned() };
        match self.doing {
            Doing::Blocked => self.thread.line(renderer, out),
            Doing::Running(cpu) => {
                self.thread.row(&time, 'R', self.otherwise(), renderer, out);
                out.extend_from_slice(format!(", on CPU {cpu}\n").as_bytes());
            }
            Doing::Ready => {
                self.thread.row(&time, 'R', self.otherwise(), renderer, out);
                out.extend_from_slice(b", waiting for a CPU\n");
            }
        }
    }

    /// Where a thread is that is awake and, as far as is known, in no call.
    fn otherwise(&self) -> &'static [u8] {
        if self.thread.is_kernel() { b"the kernel" } else { b"its own code" }
    }

    /// As an object, with the fields of `ps --json`.
    pub(crate) fn json(&self, renderer: &Renderer) -> impl Serialize + use<> {
        match self.doing {
            Doing::Blocked => self.thread.object(self.thread.state.letter(), None, renderer),
            Doing::Running(cpu) => self.thread.object('R', Some(cpu), renderer),
            Doing::Ready => self.thread.object('R', None, renderer),
        }
    }
}
