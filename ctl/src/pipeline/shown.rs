//! An event that is to be shown, kept until it is, with all that was known of it when its turn
//! came.

use flightrec_format::abi::record::Comm;
use flightrec_format::decode::{Body, Event};

use crate::fds::Kept;
use crate::render::{Context, Wake};

/// An event and what was known of it. It borrows nothing: what that was learnt from goes on.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The event.
    pub event: Box<Event>,
    /// What was known of it.
    pub known: Known,
}

/// [`Context`], with names of its own.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// See [`Context`].
    pub wall_ns: i64,
    /// See [`Context`].
    pub pid: u32,
    /// Filled up with NUL.
    pub comm: Comm,
    /// See [`Context`].
    pub duration_ns: Option<u64>,
    /// See [`Context`].
    pub entry_seen: bool,
    /// See [`Context`].
    pub merged: Option<i64>,
    /// Filled up with NUL.
    pub next_comm: Comm,
    /// See [`Context`].
    pub wake: Option<Wake>,
    /// Names of the descriptors that the call is about.
    pub fds: Kept,
}

impl Known {
    /// Keeps what is known of an event.
    pub fn new(event: &Event, cx: &Context<'_>) -> Self {
        let fds = match &event.body {
            Body::Enter(call) => cx.fds.keep(call, None),
            Body::Exit { call, ret, .. } => cx.fds.keep(call, Some(*ret)),
            _ => Kept::default(),
        };
        Self {
            wall_ns: cx.wall_ns,
            pid: cx.pid,
            comm: cx.comm,
            duration_ns: cx.duration_ns,
            entry_seen: cx.entry_seen,
            merged: cx.merged,
            next_comm: cx.next_comm,
            wake: cx.wake,
            fds,
        }
    }
}

impl Shown {
    /// What was known, as a renderer takes it.
    pub fn context(&self) -> Context<'_> {
        let known = &self.known;
        Context {
            wall_ns: known.wall_ns,
            pid: known.pid,
            comm: known.comm,
            duration_ns: known.duration_ns,
            entry_seen: known.entry_seen,
            merged: known.merged,
            next_comm: known.next_comm,
            wake: known.wake,
            fds: known.fds.names(),
        }
    }
}
