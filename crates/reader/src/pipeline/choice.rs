//! Which events are wanted, and what is known of a call when that is asked.

use std::cmp::Ordering;

use flightrec_format::abi::kinds::IoSubmit;
use flightrec_format::decode::{Call, Event, Text};

use super::delay::Findings;
use crate::fds::FdNames;
use crate::threads::Threads;

/// Which events are wanted. What has no method of its own is wanted.
pub trait Choice {
    /// Whether every event is, so that [`Self::wants`] need not be asked.
    fn wants_all(&self) -> bool {
        false
    }

    /// Whether entries of system calls are wanted at all.
    fn wants_entries(&self) -> bool {
        true
    }

    /// Whether the ends of calls are wanted without their beginnings, and so with their arguments.
    fn wants_whole_ends(&self) -> bool {
        false
    }

    /// Whether calls are wanted by the paths they have to do with.
    fn has_paths(&self) -> bool {
        false
    }

    /// Whether a call has to do with a path that is wanted.
    fn wants_path(&self, _call: &Call, _fds: FdNames<'_>) -> bool {
        false
    }

    /// Whether an operation of io_uring has to do with a path that is wanted; and what it lacks, if
    /// that can't be decided.
    fn wants_operation(
        &self,
        _submit: &IoSubmit,
        _paths: &[Text],
        _fds: FdNames<'_>,
    ) -> (bool, Option<Part>) {
        (false, None)
    }

    /// Whether events are wanted by the distributed traces that threads work for.
    fn has_traces(&self) -> bool {
        false
    }

    /// What is missing of a call that, as far as is known, has nothing to do with a path that is
    /// wanted. `alone`: it is known by its end alone.
    fn lacks(&self, _call: &Call, _fds: FdNames<'_>, _alone: bool) -> Option<Part> {
        None
    }

    /// Whether the event is wanted, given the threads as they are when it happens.
    fn wants(&self, _event: &Event, _facts: CallFacts, _threads: &Threads) -> bool {
        true
    }

    /// Of an event that is not wanted: what is missing of it, if it might be wanted were that
    /// there.
    fn doubt(&self, _event: &Event, _facts: CallFacts, _threads: &Threads) -> Option<Part> {
        None
    }

    /// The event is given.
    fn note_shown(&self, _event: &Event) {}
}

/// Every event.
#[derive(Debug, Clone, Copy, Default)]
pub struct All;

impl Choice for All {
    fn wants_all(&self) -> bool {
        true
    }
}

/// What is known of the system call that an event belongs to, or of the request, beyond the event.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallFacts {
    /// Of the end of a request to a disk: the thread that made it.
    pub issued_by: Option<u32>,
    /// Of an exit: how long the call took.
    pub took: Took,
    /// Whether the call has to do with a path that is wanted ([`Choice::wants_path`]); or the
    /// operation ([`Choice::wants_operation`]).
    pub path: bool,
    /// Where it does not as far as is known: what is missing of the call ([`Choice::lacks`]).
    pub lacks: Option<Part>,
    /// The distributed traces that the event's thread and the other one work for, if events are
    /// wanted by these ([`Choice::has_traces`]).
    pub traces: [Option<[u8; 16]>; 2],
}

/// Longest that a call took whose time was given up, ns: within one jiffy, of 10 ms at most
/// (FORMAT.md, section 3).
pub const UNTIMED_NS: u64 = 10_000_000;

/// What is missing of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A path that it was given.
    Paths,
    /// The same, which the recorder could not read: it was not in memory at that moment.
    UnreadPaths,
    /// The directory that a path is relative to.
    Directories,
    /// Arguments after the first.
    Arguments,
    /// What a descriptor stands for that it was given: the path by which it was opened, or the call
    /// that did.
    Descriptors,
    /// How long it took.
    ExitTimes,
    /// Its beginning, with its arguments.
    Entries,
}

impl Part {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paths => "paths",
            Self::UnreadPaths => "unread_paths",
            Self::Directories => "directories",
            Self::Arguments => "arguments",
            Self::Descriptors => "descriptors",
            Self::ExitTimes => "exit_times",
            Self::Entries => "entries",
        }
    }
}

/// How long a call took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Took {
    /// Nothing to be told: it has not ended, or never began.
    #[default]
    Nothing,
    /// So many ns.
    Ns(u64),
    /// At most so many.
    AtMost(u64),
    /// Its entry is not there: at least so many (0: nothing is known), and at most so many.
    Between(u64, u64),
}

impl Took {
    /// Of an exit at `time`.
    #[inline]
    pub fn of(found: &Findings, time: u64) -> Self {
        match found.entered {
            None => found.began.map_or(Self::Nothing, |began| {
                Self::Between(time.saturating_sub(began.until), time.saturating_sub(began.from))
            }),
            Some(entered) if entered == time => Self::AtMost(UNTIMED_NS),
            Some(entered) => Self::Ns(time.saturating_sub(entered)),
        }
    }

    /// How that compares to a limit; `None`: it is not known.
    pub fn compare(self, limit: u64) -> Option<Ordering> {
        match self {
            Self::Nothing => None,
            Self::Ns(ns) => Some(ns.cmp(&limit)),
            // One that takes as long as the limit at least is none that takes less.
            Self::Between(least, _) if least >= limit => Some(Ordering::Greater),
            Self::AtMost(most) | Self::Between(_, most) => (most < limit).then_some(Ordering::Less),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::delay::Began;

    #[test]
    fn bounds_decide_where_they_reach_the_limit() {
        let found =
            Findings { began: Some(Began { from: 200, until: 700 }), ..Findings::default() };
        let took = Took::of(&found, 1000);
        assert_eq!(took, Took::Between(300, 800));
        assert_eq!(
            [1, 300, 301, 800, 801].map(|limit| took.compare(limit)),
            [Some(Ordering::Greater), Some(Ordering::Greater), None, None, Some(Ordering::Less)]
        );
        assert_eq!(Took::of(&Findings::default(), 1000), Took::Nothing, "it never began");
    }
}
