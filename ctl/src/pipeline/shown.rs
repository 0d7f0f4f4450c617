//! An event that is to be shown, with all that is known of it: what the renderers are given, on whichever thread.

use flightrec_format::abi::record::Comm;
use flightrec_format::decode::Event;

use super::threads::trim;
use crate::fds::Kept;
use crate::render::{Context, Wake};

/// An event and what was known when its turn came. It borrows nothing: what it was learnt from goes on.
#[derive(Debug)]
pub struct Shown {
    /// The event; boxed, as it is handed on often.
    pub event: Box<Event>,
    /// What was known of it.
    pub known: Known,
}

/// [`Context`], with names of its own.
#[derive(Debug, Default)]
pub struct Known {
    /// As in [`Context`], like the others.
    pub wall_ns: i64,
    /// See [`Context`].
    pub pid: u32,
    /// Name of the event's thread, filled up with NUL.
    pub comm: Comm,
    /// See [`Context`].
    pub duration_ns: Option<u64>,
    /// See [`Context`].
    pub entry_seen: bool,
    /// See [`Context`].
    pub merged: Option<i64>,
    /// Name of the other thread, filled up with NUL.
    pub next_comm: Comm,
    /// See [`Context`].
    pub wake: Option<Wake>,
    /// Names of descriptors.
    pub fds: Kept,
}

impl Shown {
    /// What was known, as a renderer takes it.
    pub fn context(&self) -> Context<'_> {
        let known = &self.known;
        Context {
            wall_ns: known.wall_ns,
            pid: known.pid,
            comm: trim(&known.comm),
            duration_ns: known.duration_ns,
            entry_seen: known.entry_seen,
            merged: known.merged,
            next_comm: trim(&known.next_comm),
            wake: known.wake,
            fds: known.fds.names(),
        }
    }
}
