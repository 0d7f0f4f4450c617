//! Events into lines of text, in the notation of the 2009 kernel tracer.
//!
//! ```text
//! 14:03:07.123456 [001]    8883 mysqld           openat(AT_FDCWD, "/etc/hosts", O_RDONLY) -->
//! ```
//! Time of day, CPU, thread, name, then what happened. Every byte of a line is printable ASCII,
//! whatever the recording holds, but for the colours where they are wanted. Nothing here knows
//! where events come from, or which of them are wanted.

pub(crate) mod argument;
pub(crate) mod call;
mod clock;
pub mod coverage;
pub(crate) mod devices;
mod disk;
pub(crate) mod escape;
pub(crate) mod fields;
mod format;
mod function;
pub(crate) mod io_uring;
mod ioctl;
pub(crate) mod life;
pub(crate) mod names;
pub(crate) mod number;
pub(crate) mod paint;
pub(crate) mod piece;
pub(crate) mod plain;
pub(crate) mod plan;
mod pointee;
pub(crate) mod recent;
pub(crate) mod sample;
pub(crate) mod sched;
mod si_code;
pub(crate) mod stack;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tracepoint;

use std::sync::Arc;

use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::record::Comm;
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::meta::Meta;
use flightrec_format::published::Tracepoints;
use flightrec_format::symbols::Symbols;
use flightrec_format::trace_context::TraceContext;
use flightrec_reader::binaries::{Binaries, ProbedFunctions};
use flightrec_reader::fds::{FdNames, Naming};
use flightrec_reader::pipeline::{EventContext, Wake};
use flightrec_reader::threads::trim;
use jiff::tz::TimeZone;

use self::call::Length;
use self::clock::Clock;
pub use self::escape::{escape, printable, quote};
pub use self::format::Format;
use self::function::Graph;
use self::number::{decimal, hex_digits, pad, padded};
use self::paint::Paint;
use self::plan::Plans;
use self::recent::Recent;
use self::sched::Stop;

/// Digits of the greatest thread id (`PID_MAX_LIMIT`, 4 million).
const TID_WIDTH: usize = 7;
/// Longest name of a thread.
const COMM_WIDTH: usize = 15;

/// How lines look.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on one another")]
pub struct Options {
    /// Terminal colours.
    pub colour: bool,
    /// Arguments on exits as well, wherever the recording has them.
    pub exit_arguments: bool,
    /// A call in one line with its result, where it fits.
    pub merge: bool,
    /// Descriptors by what they stand for.
    pub fds: Naming,
    /// Where threads waited in the kernel, and what ran.
    pub stacks: bool,
    /// What a thread does indented by the probed functions that it is in.
    pub graph: bool,
    /// The spans that threads work for.
    pub traces: bool,
    /// Time zone of the times of day.
    pub time_zone: TimeZone,
}

impl Default for Options {
    /// No colours, arguments where they are needed, this machine's time zone.
    fn default() -> Self {
        Self {
            colour: false,
            exit_arguments: false,
            merge: false,
            fds: Naming::Near,
            stacks: true,
            graph: false,
            traces: false,
            time_zone: crate::zone::system(),
        }
    }
}

/// Writes events as lines.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on one another")]
pub struct Renderer {
    plans: Arc<Plans>,
    paint: Paint,
    exit_arguments: bool,
    merge: bool,
    naming: Naming,
    stacks: bool,
    traces: bool,
    symbols: Arc<Symbols>,
    binaries: Arc<Binaries>,
    functions: Arc<ProbedFunctions>,
    /// `None`: nothing is indented.
    graph: Option<Graph>,
    tracepoints: Arc<Tracepoints>,
    clock: Clock,
    /// The columns after the time.
    recent: Recent,
}

impl Renderer {
    /// For the events of one recording.
    pub fn new(meta: &Meta, options: Options) -> Self {
        Self {
            plans: Arc::new(Plans::new(meta)),
            paint: Paint(options.colour),
            exit_arguments: options.exit_arguments,
            merge: options.merge,
            naming: options.fds,
            stacks: options.stacks,
            traces: options.traces,
            symbols: Arc::new(Symbols::new(meta)),
            binaries: Arc::new(Binaries::new(meta)),
            functions: Arc::new(ProbedFunctions::new(meta)),
            graph: options.graph.then(Graph::default),
            tracepoints: Arc::new(Tracepoints::new(meta)),
            clock: Clock::new(options.time_zone),
            recent: Recent::new(),
        }
    }

    /// Appends the event's line to `out`; of a switch two, one for each thread; of a stack none,
    /// where those are not shown.
    pub fn line(&mut self, event: &Event, cx: &EventContext<'_>, out: &mut Vec<u8>) {
        if !self.stacks && matches!(event.body, Body::Stack(_) | Body::Sample(_)) {
            return;
        }
        if self.graph.is_some() && self.is_of_probe(event) {
            return;
        }
        self.columns(event.cpu, event.tid, &cx.comm, cx.wall_ns, out);
        if let Some(graph) = &mut self.graph {
            graph.indent(event, cx.function.as_ref(), out);
        }
        match &event.body {
            Body::Enter(call) => call::enter(&self.plans, call, cx.fds, out),
            Body::Exit { call, ret, entered } => {
                let took = cx.duration_ns.or_else(|| {
                    entered.and_then(|at| event.time.checked_sub(at)).filter(|ns| *ns != 0)
                });
                let took = match (took, cx.at_least_ns) {
                    (Some(ns), _) => Length::Ns(ns),
                    (None, Some(ns)) => Length::AtLeast(ns),
                    (None, None) => Length::Unknown,
                };
                if cx.merged.is_some() {
                    call::whole(&self.plans, self.paint, call, (*ret, took), cx.fds, out);
                    disk::of_call(cx.disk.as_ref(), out);
                    end(cx, out);
                    return;
                }
                // A string that came only now could not be read at the entry.
                let arguments = self.exit_arguments || !cx.entry_seen || !call.strings.is_empty();
                call::exit(&self.plans, self.paint, call, (*ret, took), arguments, cx.fds, out);
                disk::of_call(cx.disk.as_ref(), out);
            }
            Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio } => {
                let stop = Stop {
                    state: *prev_state,
                    preempted: *preempted,
                    io_wait: *io_wait,
                    idles: *next == 0,
                };
                sched::out_of(self.paint, (event.cpu, event.tid), &cx.comm, *prev_prio, &stop, out);
                end(cx, out);
                self.columns(event.cpu, *next, &cx.next_comm, cx.wall_ns, out);
                sched::into(event.cpu, *next, &cx.next_comm, *next_prio, out);
                disk::of_call(cx.disk.as_ref(), out);
                // The span is that of the thread before.
                out.push(b'\n');
                return;
            }
            Body::Waking { wakee, prio, cpu, new, context, .. } => {
                let unknown = Wake { queued_on: *cpu, runs_on: *cpu, qlen: None };
                let wake = cx.wake.unwrap_or(unknown);
                let how = sched::wakeup_word(*new, *context);
                sched::wakeup(how, &wake, *wakee, &cx.next_comm, *prio, out);
            }
            Body::Migrate { thread, prio, from, to } => {
                sched::migrate(*thread, &cx.next_comm, *prio, *from, *to, out);
            }
            Body::Stack(stack) => stack::line(stack, &self.symbols, self.paint, out),
            Body::Sample(sample) => sample::line(sample, &self.symbols, &self.binaries, out),
            Body::IoSubmit { submit, paths } => io_uring::submit(submit, paths, cx.fds, out),
            Body::Tracepoint(of) => tracepoint::line(of, &self.tracepoints, &self.symbols, out),
            Body::Fork(fork) => life::fork(fork, out),
            Body::Exec { exec, file, args } => life::exec(exec, file.as_ref(), args.as_ref(), out),
            Body::Rename(rename) => life::rename(rename, event.tid, out),
            Body::TaskExit(exit) => life::exit(exit, out),
            Body::Mark(text) => life::mark(text, self.paint, out),
            Body::Act(_, text) => life::act(text, self.paint, out),
            Body::Plain(plain) if plain.kind() == Kind::Function => {
                let is_graph = self.graph.is_some();
                function::line(plain, cx.function.as_ref(), &self.functions, is_graph, out);
            }
            Body::Plain(plain) => {
                fields::line(plain, &self.plans.devices, out);
                disk::request(cx.request.as_ref(), out);
                io_uring::done(plain, cx.operation.as_ref(), cx.fds, out);
            }
        }
        end(cx, out);
    }

    /// Whether it is a call that the probes have a thread make when a function returns
    /// (`uretprobe`, arch/x86/kernel/uprobes.c, Linux 6.11): none of the program's own.
    fn is_of_probe(&self, event: &Event) -> bool {
        match &event.body {
            Body::Enter(call) | Body::Exit { call, .. } => {
                let plan = self.plans.get(call.abi, call.nr);
                plan.is_some_and(|plan| *plan.name == *b"uretprobe")
            }
            _ => false,
        }
    }

    /// How what stands out is marked.
    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    /// Appends a call by itself: `name(arguments)`, its descriptors by what `fds` tells.
    pub fn call(&self, call: &Call, fds: FdNames<'_>, out: &mut Vec<u8>) {
        call::bare(&self.plans, call, fds, out);
    }

    /// Appends a call that is over: `name(arguments) = return value`.
    #[cfg(feature = "export")]
    pub(crate) fn result(&self, call: &Call, ret: i64, fds: FdNames<'_>, out: &mut Vec<u8>) {
        call::whole(&self.plans, Paint(false), call, (ret, Length::Unknown), fds, out);
    }

    /// `HH:MM:SS.uuuuuu [CPU]     tid name             `
    #[inline]
    fn columns(&mut self, cpu: u16, tid: u32, comm: &Comm, wall_ns: i64, out: &mut Vec<u8>) {
        let paint = self.paint;
        paint.dim(out);
        self.clock.write(wall_ns, out);
        self.recent.write((cpu, tid, 0), comm, out, |out| {
            out.extend_from_slice(b" [");
            padded(u32::from(cpu), 3, b'0', out);
            out.push(b']');
            paint.end(out);
            out.push(b' ');
            padded(tid, TID_WIDTH, b' ', out);
            out.push(b' ');
            let start = out.len();
            thread(cpu, tid, comm, out);
            pad(COMM_WIDTH.saturating_sub(out.len() - start) + 2, b' ', out);
        });
    }
}

/// Ends a line: with the span that its thread works for, if one is known.
#[inline]
fn end(cx: &EventContext<'_>, out: &mut Vec<u8>) {
    if let Some(TraceContext { trace, span, .. }) = &cx.trace {
        out.extend_from_slice(b" {trace ");
        hex_digits(trace, out);
        out.extend_from_slice(b" span ");
        hex_digits(span, out);
        out.push(b'}');
    }
    out.push(b'\n');
}

/// Appends a thread's name; thread 0 is the idle thread of its CPU, whose name nobody records.
fn thread(cpu: u16, tid: u32, comm: &Comm, out: &mut Vec<u8>) {
    if tid == 0 {
        out.extend_from_slice(b"swapper/");
        decimal(cpu, out);
    } else {
        match trim(comm) {
            [] => out.push(b'?'),
            name => escape(name, out),
        }
    }
}
