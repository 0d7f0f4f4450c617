//! Where threads waited, and what ran.

use flightrec_format::abi::kinds::Kind;
use flightrec_format::decode::{Event, Sample, Stack};
use flightrec_reader::pipeline::EventContext;

use super::field::{event as ftrace, packet, sample};
use super::packets::EVENTS;
use super::proto::{message, number};
use super::{Perfetto, Slice, TIME_MAX};
use crate::exporter::{Value, Words};
use crate::stacks::{Frame, Frames};

impl Perfetto {
    /// A thread runs again: where it waited.
    pub(super) fn stack(
        &mut self,
        event: &Event,
        stack: &Stack,
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) {
        let time = event.time.min(TIME_MAX);
        let frames = self.frames.of_wait(stack);
        let blocked = frames.as_deref().and_then(Frames::blocked).map(str::to_owned);
        if let Some(function) = &blocked {
            let caller = self.interned.symbol(function);
            let runs = self.io_runs.get(&event.cpu) == Some(&event.tid);
            let io_wait = runs || self.io_waits.contains(&event.tid);
            let since = self.sched.runs_since(event.cpu, event.tid).unwrap_or(time);
            self.blocked_reason((event.cpu, since), event.tid, Some(caller), io_wait);
        }
        let from = time.saturating_sub(stack.slept.unwrap_or(0));
        let who = Self::who(&self.labels, event, known);
        let track = self.tracks.below(&who, "Waits", (from, time), &mut self.packets);
        self.note("tid", Value::Unsigned(u64::from(event.tid)));
        match &frames {
            Some(frames) => {
                let names: Vec<&str> = frames.iter().map(|frame| &*frame.function).collect();
                self.note("stack", Value::Text(&names.join("\n")));
            }
            None => {
                self.fields(event, known, words, "");
            }
        }
        let name = self.interned.name(blocked.as_deref().unwrap_or("?"));
        let category = self.interned.category(Kind::Stack.name());
        self.stretch(from, time, &Slice { track, category, name });
    }

    /// Why a thread slept that runs again since this moment. Perfetto looks for it after the
    /// wakeup and before the thread runs.
    pub(super) fn blocked_reason(
        &mut self,
        (cpu, since): (u16, u64),
        tid: u32,
        caller: Option<u64>,
        io_wait: bool,
    ) {
        if self.interned.is_fresh() {
            // The bundle has no place for it, and comes later.
            let Self { packets, interned, .. } = self;
            packets.push(|out| {
                number(packet::SEQUENCE, EVENTS, out);
                number(packet::FLAGS, packet::NEEDED, out);
                interned.tell(packet::INTERNED, out);
            });
        }
        let at = (since.saturating_sub(1), tid);
        self.sched.other(cpu, at, ftrace::BLOCKED_REASON, |out| {
            number(1, u64::from(tid), out);
            if let Some(caller) = caller {
                number(2, caller, out);
            }
            number(3, u64::from(io_wait), out);
        });
    }

    pub(super) fn sample(&mut self, event: &Event, of: &Sample, known: &EventContext<'_>) {
        let frames = self.frames.of_sample(of).unwrap_or_else(|| {
            let missing = Frame {
                function: "(no stack)".to_owned(),
                file: String::new(),
                build_id: String::new(),
            };
            vec![missing]
        });
        let stack = self.interned.stack(&frames);
        if event.tid != 0 {
            let who = Self::who(&self.labels, event, known);
            self.tracks.thread(&who, &mut self.packets);
        }
        let Self { packets, interned, .. } = self;
        packets.at(event.time.min(TIME_MAX), |out| {
            number(packet::FLAGS, packet::NEEDED, out);
            interned.tell(packet::INTERNED, out);
            message(packet::PERF_SAMPLE, out, |out| {
                number(sample::CPU, u64::from(event.cpu), out);
                number(sample::PID, u64::from(known.pid), out);
                number(sample::TID, u64::from(event.tid), out);
                number(sample::CALLSTACK, stack, out);
                let mode = if of.user_mode { sample::USER } else { sample::KERNEL };
                number(sample::MODE, mode, out);
            });
        });
    }
}
