//! The entry of each thread's present call, for what its exit can't tell by itself: the arguments,
//! where the exit is shown alone, and whether the call has to do with a path that is wanted.

use flightrec_format::decode::{Body, Call, Event};

use super::choice::{CallFacts, Choice, Part, Took};
use super::delay::Findings;
use crate::fds::Fds;
use crate::open_calls::OpenCalls;
use crate::threads::Threads;

/// A call that was entered.
#[derive(Debug, Clone)]
struct Entry {
    call: Call,
    path: bool,
    lacks: Option<Part>,
}

/// The present calls, by thread.
#[derive(Debug, Clone, Default)]
pub struct Entries {
    open: OpenCalls<Entry>,
}

impl Entries {
    /// Whether a choice needs this at all.
    pub fn needed(choice: &impl Choice) -> bool {
        choice.wants_whole_ends() || choice.has_paths()
    }

    /// Takes the next event, and returns what is known of its call; of an exit the entry's
    /// arguments too, where the exit belongs to it.
    pub fn take(
        &mut self,
        event: &Event,
        found: &Findings,
        choice: &impl Choice,
        fds: &Fds,
        threads: &Threads,
    ) -> (CallFacts, Option<Call>) {
        let Event { time, tid, ref body, .. } = *event;
        let about = |call: &Call, alone: bool| {
            if !choice.has_paths() {
                return (false, None);
            }
            let names = fds.names(tid, threads.tgid(tid, time));
            let path = choice.wants_path(call, names);
            (path, if path { None } else { choice.lacks(call, names, alone) })
        };
        match body {
            Body::Enter(call) => {
                let (path, lacks) = about(call, false);
                self.open.begin(tid, call, || Entry { call: call.clone(), path, lacks });
                (CallFacts { took: Took::Nothing, path, lacks, ..CallFacts::default() }, None)
            }
            Body::Exit { call, ret, .. } => {
                let same = |entry: &Entry| {
                    found.entered.is_some()
                        && (entry.call.nr, entry.call.abi) == (call.nr, call.abi)
                };
                let entry = self.open.end(tid).filter(same);
                let took = Took::of(found, time);
                let (path, lacks) = match &entry {
                    Some(Entry { path: true, .. }) => (true, None),
                    Some(entry) => (about(call, false).0, entry.lacks),
                    None => about(call, true),
                };
                // EFAULT: the address of the path was bad, so the call had no path.
                let is_none = *ret == -i64::from(libc::EFAULT);
                let lacks = lacks.filter(|part| !is_none || *part != Part::UnreadPaths);
                (
                    CallFacts { took, path, lacks, ..CallFacts::default() },
                    entry.map(|entry| entry.call),
                )
            }
            Body::Exec { exec, .. } if exec.old_tid != exec.tid => {
                self.open.rename(exec.old_tid, exec.tid);
                (CallFacts::default(), None)
            }
            Body::TaskExit(exit) => {
                self.open.end(exit.tid);
                (CallFacts::default(), None)
            }
            _ => (CallFacts::default(), None),
        }
    }
}
