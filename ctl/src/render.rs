//! What an output format is given, and what it is to do with it. Formats: [`crate::text`],
//! [`crate::json`].

use std::sync::Arc;

use flightrec_format::abi::record::Comm;
use flightrec_format::decode::Event;

use crate::fds::{FdNames, Naming};
use crate::text::plan::Plans;
use crate::{json, text};

/// What the pipeline knows about an event beyond itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// UNIX time of the event, ns.
    pub wall_ns: i64,
    /// Process of the event's thread; the thread's own id where it is not known.
    pub pid: u32,
    /// Name of the event's thread, filled up with NUL; empty: unknown.
    pub comm: Comm,
    /// Of an exit: how long the call took.
    pub duration_ns: Option<u64>,
    /// Of an exit: whether its entry was in the recording. Otherwise its arguments are shown here.
    pub entry_seen: bool,
    /// Of an exit that stands for the whole call, arguments and all: UNIX time of the entry, ns.
    /// The entry is then not shown by itself.
    pub merged: Option<i64>,
    /// Name of the other thread: the next of a switch, the wakee, the thread that migrates.
    pub next_comm: Comm,
    /// Of a wakeup: where it was put and where it ran.
    pub wake: Option<Wake>,
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

/// Whether a call is shown as one, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Its entry and its exit are shown by themselves.
    Never,
    /// One for both, at the time of the entry.
    AtEntry,
    /// One for both, at the time of the exit.
    AtExit,
}

/// An output format, with all that it needs. A copy writes the same lines.
#[derive(Debug, Clone)]
pub enum Renderer {
    /// Lines for people.
    Text(text::Renderer),
    /// JSON lines for programs.
    Json(json::Renderer),
}

impl Renderer {
    /// Appends an event.
    pub fn event(&mut self, event: &Event, cx: &Context<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => text.line(event, cx, out),
            Self::Json(json) => json.event(event, cx, out),
        }
    }

    /// Appends what is left to say behind the last event.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Text(_) => {}
            Self::Json(json) => json.end(out),
        }
    }

    /// Also says what `other` has to say between events.
    pub(crate) fn add_from(&mut self, other: Self) {
        if let (Self::Json(json), Self::Json(other)) = (self, other) {
            json.add(other.into_asides());
        }
    }

    /// A copy that makes the same lines of events, and says nothing between them or behind them.
    pub(crate) fn helper(&self) -> Self {
        match self {
            Self::Text(text) => Self::Text(text.clone()),
            Self::Json(json) => Self::Json(json.helper()),
        }
    }

    /// Whether it says nothing before an event of this time.
    pub(crate) fn is_alone(&self, time: u64) -> bool {
        match self {
            Self::Text(_) => true,
            Self::Json(json) => json.is_alone(time),
        }
    }

    /// How each call reads.
    pub(crate) fn plans(&self) -> &Arc<Plans> {
        match self {
            Self::Text(text) => text.plans(),
            Self::Json(json) => json.plans(),
        }
    }

    /// Whether descriptors are shown by what they stand for.
    pub fn naming(&self) -> Naming {
        match self {
            Self::Text(text) => text.naming(),
            Self::Json(json) => json.naming(),
        }
    }

    /// Whether calls are to be merged.
    pub fn merge(&self) -> Merge {
        match self {
            Self::Text(text) => text.merge(),
            Self::Json(json) => json.merge(),
        }
    }
}

impl From<text::Renderer> for Renderer {
    fn from(text: text::Renderer) -> Self {
        Self::Text(text)
    }
}

impl From<json::Renderer> for Renderer {
    fn from(json: json::Renderer) -> Self {
        Self::Json(json)
    }
}
