//! Events as JSON lines, for programs: an object a line, its fields described by
//! `docs/flightctl-dump.schema.json`.
//!
//! Every line is valid JSON and valid UTF-8 whatever the recording holds, and so is, free of
//! control characters, every string in it once it is decoded (`escape`). What can't be known is
//! `null`, or absent where it does not apply. Written by hand, as it is written millions of times;
//! what is written once, coverage and gaps, is [`coverage`]'s.

mod call;
pub(crate) mod clock;
mod contained;
pub mod coverage;
mod disk;
pub(crate) mod escape;
mod fields;
mod format;
mod function;
mod io_uring;
mod life;
mod sample;
mod sched;
mod stack;
#[cfg(test)]
mod tests;
mod tracepoint;
mod value;

use std::collections::VecDeque;
use std::sync::Arc;

use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_format::published::Tracepoints;
use flightrec_format::symbols::Symbols;
use flightrec_format::trace_context::TraceContext;
use flightrec_reader::binaries::{Binaries, ProbedFunctions};
use flightrec_reader::fds::Naming;
use flightrec_reader::pipeline::{EventContext, Wake};

use self::call::Calls;
use self::clock::Stamps;
use self::contained::Contained;
pub use self::format::Format;
use self::sched::Thread;
use crate::text::number::{decimal, hex_digits};
use crate::text::plan::Plans;
use crate::text::recent::Recent;

/// A line that stands at a time of its own, not at an event's: a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    /// Where it belongs, ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The line, with its end.
    pub line: String,
}

/// Writes events as JSON lines.
#[derive(Debug, Clone)]
pub struct Renderer {
    calls: Calls,
    stamps: Stamps,
    /// What tells the thread.
    recent: Recent,
    /// What tells the container.
    contained: Arc<Contained>,
    merge: bool,
    naming: Naming,
    /// Whether events have the span that their thread works for.
    traces: bool,
    symbols: Arc<Symbols>,
    binaries: Arc<Binaries>,
    functions: Arc<ProbedFunctions>,
    tracepoints: Arc<Tracepoints>,
    asides: VecDeque<Aside>,
    /// Time of the first of them; none: the end of time.
    next_aside: u64,
}

impl Renderer {
    /// For the events of one recording, with lines (in order of time) to put between them. `merge`:
    /// a call whose exit directly follows is one object, at its exit.
    pub fn new(meta: &Meta, merge: bool, asides: impl IntoIterator<Item = Aside>) -> Self {
        let calls = Calls::new(Arc::new(Plans::new(meta)));
        let (naming, asides_to_come) = (Naming::default(), VecDeque::new());
        let mut renderer = Self {
            calls,
            stamps: Stamps::new(),
            recent: Recent::new(),
            contained: Arc::new(Contained::new(meta)),
            merge,
            naming,
            traces: false,
            symbols: Arc::new(Symbols::new(meta)),
            binaries: Arc::new(Binaries::new(meta)),
            functions: Arc::new(ProbedFunctions::new(meta)),
            tracepoints: Arc::new(Tracepoints::new(meta)),
            asides: asides_to_come,
            next_aside: u64::MAX,
        };
        renderer.add(asides);
        renderer
    }

    /// Adds lines to put between the events to come; none of them before those that wait already.
    pub fn add(&mut self, asides: impl IntoIterator<Item = Aside>) {
        self.asides.extend(asides);
        self.next_aside = self.asides.front().map_or(u64::MAX, |aside| aside.time);
    }

    /// With descriptors shown so.
    #[must_use]
    pub fn name_fds(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }

    /// With the span that each event's thread works for, where one is known.
    #[must_use]
    pub fn with_traces(self, traces: bool) -> Self {
        Self { traces, ..self }
    }

    /// Appends the event's line to `out`, and before it what belongs there.
    pub fn object(&mut self, event: &Event, cx: &EventContext<'_>, out: &mut Vec<u8>) {
        while event.time >= self.next_aside
            && let Some(aside) = self.asides.pop_front()
        {
            out.extend_from_slice(aside.line.as_bytes());
            self.next_aside = self.asides.front().map_or(u64::MAX, |aside| aside.time);
        }
        self.common(event, cx, out);
        self.particular(event, cx, out);
        self.contained.write(cx.cgroup, out);
        if let Some(TraceContext { trace, span, .. }) = &cx.trace {
            out.extend_from_slice(b",\"trace_id\":\"");
            hex_digits(trace, out);
            out.extend_from_slice(b"\",\"span_id\":\"");
            hex_digits(span, out);
            out.push(b'"');
        }
        out.extend_from_slice(b"}\n");
    }

    /// Appends an object of what the event's kind has, without what every event has but for
    /// `event`.
    #[cfg(feature = "export")]
    pub(crate) fn fields(&mut self, event: &Event, cx: &EventContext<'_>, out: &mut Vec<u8>) {
        if matches!(event.body, Body::Enter(_) | Body::Exit { .. }) {
            // Their beginnings are kept with the rest.
            self.common(event, cx, out);
        } else {
            out.extend_from_slice(b"{\"event\":\"");
        }
        self.particular(event, cx, out);
        out.extend_from_slice(b"}\n");
    }

    /// Appends the lines that belong after the last event.
    pub fn rest(&mut self, out: &mut Vec<u8>) {
        for aside in self.asides.drain(..) {
            out.extend_from_slice(aside.line.as_bytes());
        }
        self.next_aside = u64::MAX;
    }

    /// `{"time":…,"mono_ns":…,"cpu":…,"tid":…,"pid":…,"comm":…,"event":"`
    #[inline]
    fn common(&mut self, event: &Event, cx: &EventContext<'_>, out: &mut Vec<u8>) {
        self.stamps.write(cx.wall_ns, event.time, out);
        self.recent.write((event.cpu, event.tid, cx.pid), &cx.comm, out, |out| {
            out.extend_from_slice(b",\"cpu\":");
            decimal(event.cpu, out);
            out.extend_from_slice(b",\"tid\":");
            decimal(event.tid, out);
            out.extend_from_slice(b",\"pid\":");
            decimal(cx.pid, out);
            out.extend_from_slice(b",\"comm\":");
            value::thread(event.tid, event.cpu, &cx.comm, out);
            out.extend_from_slice(b",\"event\":\"");
        });
    }

    /// What kind of event it is, and what that kind has.
    fn particular(&mut self, event: &Event, cx: &EventContext<'_>, out: &mut Vec<u8>) {
        match &event.body {
            // The beginnings of these are kept with the rest.
            Body::Enter(_) | Body::Exit { .. } => {}
            Body::Act(act, _) => out.extend_from_slice(life::act_event(*act)),
            body => {
                out.extend_from_slice(body.kind().name().as_bytes());
                out.push(b'"');
            }
        }
        match &event.body {
            Body::Enter(call) => self.calls.enter(call, cx.fds, out),
            Body::Exit { call, ret, entered } => {
                let took = cx.duration_ns.or_else(|| {
                    entered.and_then(|at| event.time.checked_sub(at)).filter(|ns| *ns != 0)
                });
                self.calls.exit(call, (*ret, took), cx.merged.is_some(), cx.fds, out);
                if let (None, Some(ns)) = (took, cx.at_least_ns) {
                    out.extend_from_slice(b",\"duration_at_least_ns\":");
                    decimal(ns, out);
                }
                disk::of_call(cx.disk.as_ref(), out);
                if let Some(wall) = cx.merged {
                    out.extend_from_slice(b",\"entered\":\"");
                    self.stamps.time(wall, out);
                    out.extend_from_slice(b"\",\"entered_mono_ns\":");
                    decimal(event.time.saturating_sub(took.unwrap_or(0)), out);
                }
            }
            Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio } => {
                let prev = Thread { tid: event.tid, comm: &cx.comm, prio: *prev_prio };
                let next = Thread { tid: *next, comm: &cx.next_comm, prio: *next_prio };
                let how =
                    sched::Stop { state: *prev_state, preempted: *preempted, io_wait: *io_wait };
                sched::switch(event.cpu, prev, how, next, out);
                disk::of_wait(cx.disk.as_ref(), out);
            }
            Body::Waking { wakee, prio, state, cpu, new, context } => {
                let wake = cx.wake.unwrap_or(Wake { queued_on: *cpu, runs_on: *cpu, qlen: None });
                let wakee = Thread { tid: *wakee, comm: &cx.next_comm, prio: *prio };
                sched::wakeup(&wake, wakee, (!new).then_some(*state), *context, out);
            }
            Body::Migrate { thread, prio, from, to } => {
                sched::migrate(
                    Thread { tid: *thread, comm: &cx.next_comm, prio: *prio },
                    *from,
                    *to,
                    out,
                );
            }
            Body::Stack(stack) => stack::object(stack, &self.symbols, out),
            Body::Sample(sample) => sample::object(sample, &self.symbols, &self.binaries, out),
            Body::IoSubmit { submit, paths } => io_uring::submit(submit, paths, cx.fds, out),
            Body::Tracepoint(of) => {
                tracepoint::object(of, &self.tracepoints, &self.symbols, out);
            }
            Body::Fork(fork) => life::fork(fork, out),
            Body::Exec { exec, file, args } => life::exec(exec, file.as_ref(), args.as_ref(), out),
            Body::Rename(rename) => life::rename(rename, out),
            Body::TaskExit(exit) => life::exit(exit, out),
            Body::Mark(text) => life::mark(text, out),
            Body::Act(_, text) => life::act(text, out),
            Body::Plain(plain) => {
                fields::object(plain, self.calls.devices(), out);
                disk::request(cx.request.as_ref(), out);
                io_uring::done(plain, cx.operation.as_ref(), cx.fds, out);
                function::known(plain, cx.function.as_ref(), &self.functions, out);
            }
        }
    }
}
