//! What was known of the events of a batch when their turn came, so that lines can be made of them
//! elsewhere and later.

use std::io;

use flightrec_format::abi::record::Comm;
use flightrec_format::decode::{Body, Event};

use crate::fds::{FdNames, Named};
use crate::pipeline::delay::Found;
use crate::pipeline::{Known, Sink, Wake};

/// What is to be known of the events of a batch that are shown, beyond what the batch has; in
/// order.
#[derive(Debug, Default)]
pub(super) struct Notes {
    shown: Vec<Note>,
    /// Names of the other threads of scheduling events, one each.
    others: Vec<Comm>,
    /// What descriptors stand for, [`Note::names`] of each event.
    names: Vec<Named>,
    /// Events of the batch that came by.
    passed: u32,
}

/// [`Known`] of one event, but for what follows from the event itself and for what is kept
/// beside.
#[derive(Debug, Clone, Copy)]
struct Note {
    /// Number of its event in the batch.
    at: u32,
    pid: u32,
    wall_ns: i64,
    comm: Comm,
    qlen: Option<u32>,
    entry_seen: bool,
    /// How many [`Notes::names`] it has: at most six arguments and a return value.
    names: u8,
}

impl Notes {
    /// Makes room for those of another batch.
    pub(super) fn clear(&mut self) {
        self.shown.clear();
        self.others.clear();
        self.names.clear();
        self.passed = 0;
    }

    /// The next event of the batch came by, shown or not.
    pub(super) fn pass(&mut self) {
        self.passed += 1;
    }

    /// What was noted, for the events one after the other.
    pub(super) fn read(&self) -> Reader<'_> {
        Reader { notes: self.shown.iter(), others: self.others.iter(), names: &self.names, next: 0 }
    }
}

impl Sink for Notes {
    /// Notes what is known of an event, which is shown. An event that stands for a whole call is
    /// not to come here.
    fn event(&mut self, event: &Event, cx: &Known<'_>) -> io::Result<()> {
        let before = self.names.len();
        match &event.body {
            Body::Enter(call) => cx.fds.keep_in(call, None, &mut self.names),
            Body::Exit { call, ret, .. } => cx.fds.keep_in(call, Some(*ret), &mut self.names),
            Body::Switch { .. } | Body::Waking { .. } | Body::Migrate { .. } => {
                self.others.push(cx.next_comm);
            }
            _ => {}
        }
        self.shown.push(Note {
            at: self.passed,
            pid: cx.pid,
            wall_ns: cx.wall_ns,
            comm: cx.comm,
            qlen: cx.wake.and_then(|wake| wake.qlen),
            entry_seen: cx.entry_seen,
            names: (self.names.len() - before) as u8,
        });
        Ok(())
    }
}

/// Goes through a batch's notes beside its events.
pub(super) struct Reader<'n> {
    notes: std::slice::Iter<'n, Note>,
    others: std::slice::Iter<'n, Comm>,
    names: &'n [Named],
    /// Number of the next event.
    next: u32,
}

impl<'n> Reader<'n> {
    /// What was known of the next event of the batch; `None`: it is not shown.
    #[inline]
    pub(super) fn next(&mut self, event: &Event, found: &Found) -> Option<Known<'n>> {
        let number = self.next;
        self.next += 1;
        let note = self.notes.as_slice().first().filter(|note| note.at == number)?;
        self.notes.next();
        let (names, rest) =
            self.names.split_at_checked(usize::from(note.names)).unwrap_or_default();
        self.names = rest;
        let mut cx = Known {
            wall_ns: note.wall_ns,
            pid: note.pid,
            comm: note.comm,
            entry_seen: note.entry_seen,
            fds: FdNames::kept(names),
            ..Known::default()
        };
        match &event.body {
            Body::Exit { .. } => cx.duration_ns = found.duration_ns(event.time),
            Body::Switch { .. } | Body::Migrate { .. } => cx.next_comm = *self.others.next()?,
            Body::Waking { .. } => {
                cx.next_comm = *self.others.next()?;
                cx.wake = Some(Wake {
                    queued_on: found.queued_on,
                    runs_on: found.runs_on,
                    qlen: note.qlen,
                });
            }
            _ => {}
        }
        Some(cx)
    }
}
