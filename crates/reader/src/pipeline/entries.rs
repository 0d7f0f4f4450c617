//! The entry of each thread's present call, for what its exit can't tell by itself: the arguments,
//! where the exit is shown alone, and whether the call has to do with a path that is wanted. And
//! the operations of io_uring that do.

use flightrec_format::abi::kinds::{IoComplete, Kind};
use flightrec_format::abi::value_names::IO_SKIPS_SUCCESS;
use flightrec_format::decode::{Body, Call, Event};
use rustc_hash::FxHashMap;

use super::choice::{CallFacts, Choice, Part, Took};
use super::delay::Findings;
use crate::fds::Fds;
use crate::names::may_be_of_file;
use crate::open_calls::OpenCalls;
use crate::threads::Threads;

/// Most operations that are remembered.
const OPERATIONS_MAX: usize = 1 << 16;

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
    /// Of operations of io_uring under way: as of their calls.
    operations: FxHashMap<u32, (bool, Option<Part>)>,
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
            Body::IoSubmit { submit, paths } if choice.has_paths() => {
                let names = fds.names(tid, threads.tgid(tid, time));
                let (path, lacks) = choice.wants_operation(submit, paths, names);
                self.operations.remove(&submit.operation);
                let has_end = submit.flags & IO_SKIPS_SUCCESS == 0;
                if has_end && self.operations.len() < OPERATIONS_MAX {
                    self.operations.insert(submit.operation, (path, lacks));
                }
                (CallFacts { path, lacks, ..CallFacts::default() }, None)
            }
            Body::Plain(plain) if plain.kind() == Kind::IoComplete && choice.has_paths() => {
                let done = IoComplete::read(plain.bytes());
                let known = done.and_then(|done| self.operations.remove(&done.operation));
                let may_have = done.is_some_and(|done| may_be_of_file(done.op));
                let (path, lacks) = known.unwrap_or((false, may_have.then_some(Part::Entries)));
                (CallFacts { path, lacks, ..CallFacts::default() }, None)
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
