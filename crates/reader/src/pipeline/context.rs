//! What is known of an event beyond itself, when its turn comes.

use flightrec_format::abi::kinds::{IoComplete, Kind};
use flightrec_format::abi::record::Comm;
use flightrec_format::decode::{Body, Event};
use flightrec_format::trace_context::TraceContext;

use super::functions::FunctionCall;
use super::operations::Operation;
use super::requests::{DiskUse, Request};
use crate::fds::{FdNames, Kept};

/// What is known of an event beyond itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventContext<'a> {
    /// UNIX time of the event, ns.
    pub wall_ns: i64,
    /// Process of the event's thread; the thread's own id where it is not known.
    pub pid: u32,
    /// Name of the event's thread, filled up with NUL; empty: unknown.
    pub comm: Comm,
    /// Control group of the event's thread (its inode number in cgroup v2); 0: not known.
    pub cgroup: u64,
    /// Of an exit: how long the call took.
    pub duration_ns: Option<u64>,
    /// Of an exit whose call began before all that is there: how long the call took at least.
    pub at_least_ns: Option<u64>,
    /// Of an exit: whether its entry was in the recording. Otherwise its arguments are shown here.
    pub entry_seen: bool,
    /// Of an exit that stands for the whole call, arguments and all: UNIX time of the entry, ns.
    /// The entry is then not shown by itself.
    pub merged: Option<i64>,
    /// Name of the other thread: the next of a switch, the wakee, the thread that migrates.
    pub next_comm: Comm,
    /// Of a wakeup: where it was put and where it ran.
    pub wake: Option<Wake>,
    /// Of a request to a disk that is issued or done: who made it, and how long it took.
    pub request: Option<Request>,
    /// Of an exit: what requests to disks its thread made in the call. Of a switch: for which ones
    /// the next thread had waited.
    pub disk: Option<DiskUse>,
    /// The span of a distributed trace that the event's thread works for, if that is asked for.
    pub trace: Option<TraceContext>,
    /// Of a result of io_uring: what had been handed over.
    pub operation: Option<Operation>,
    /// Of a function that is probed: how deep the thread is in such ones, and how long the call
    /// took.
    pub function: Option<FunctionCall>,
    /// Of a call: what its descriptors stand for.
    pub fds: FdNames<'a>,
}

/// Where a woken thread went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// CPU whose run queue it was put on.
    pub queued_on: u16,
    /// CPU where it ran.
    pub runs_on: u16,
    /// Threads that waited on that run queue already; unknown before the queue's first anchor.
    pub qlen: Option<u32>,
}

impl EventContext<'_> {
    /// The same but for what descriptors stand for, which is not its own.
    fn without_names(&self) -> EventContext<'static> {
        EventContext { fds: FdNames::default(), ..*self }
    }
}

/// An event that is to be given later, with all that was known of it when its turn came. It borrows
/// nothing: what that was learnt from goes on.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The event.
    pub(crate) event: Box<Event>,
    /// What was known of it, but for [`Self::names`].
    pub(crate) known: EventContext<'static>,
    /// What the descriptors stood for that the call is about.
    pub(crate) names: Kept,
}

impl Shown {
    /// Keeps an event that is to be given with `known`.
    pub fn new(event: Box<Event>, known: EventContext<'static>, names: Kept) -> Self {
        Self { event, known, names }
    }

    /// An event that is given now.
    pub fn of(event: Event, known: &EventContext<'_>) -> Self {
        let (kept, names) = keep(&event, known);
        Self::new(Box::new(event), kept, names)
    }

    /// What was known.
    pub fn known(&self) -> EventContext<'_> {
        EventContext { fds: self.names.names(), ..self.known }
    }
}

/// What is to be kept of what is known of an event.
pub fn keep(event: &Event, known: &EventContext<'_>) -> (EventContext<'static>, Kept) {
    let names = match &event.body {
        Body::Enter(call) => known.fds.keep(call, None),
        Body::Exit { call, ret, .. } => known.fds.keep(call, Some(*ret)),
        Body::IoSubmit { submit, .. } => known.fds.keep_ones([submit.fd]),
        Body::Plain(plain) => match (known.operation, plain.kind()) {
            (Some(of), Kind::IoComplete) => {
                let result = IoComplete::read(plain.bytes()).map(|done| done.result);
                known.fds.keep_ones([of.submit.fd].into_iter().chain(result))
            }
            _ => Kept::default(),
        },
        _ => Kept::default(),
    };
    (known.without_names(), names)
}
