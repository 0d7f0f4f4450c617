//! Whether a stretch of time that a thread spent in one state is wanted.

use flightrec_analysis::CallId;
use flightrec_format::decode::{Body, Call, Event};
use flightrec_reader::pipeline::Took;
use flightrec_reader::threads::Threads;

use super::Filter;

/// What a filter asks of a stretch.
#[derive(Debug, Clone, Copy)]
pub struct StretchFacts<'a> {
    /// The thread.
    pub tid: u32,
    /// The CPU on which it ran or waited, or else ran last.
    pub cpu: u16,
    /// Its end, ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// Its length.
    pub ns: u64,
    /// The system call that it was in.
    pub call: Option<CallId>,
    /// What that call is about: a path.
    pub object: Option<&'a [u8]>,
}

impl Filter {
    /// Whether it is wanted: by its thread, its CPU, its call and what that is about, and its own
    /// length. Other filters are of events alone.
    pub fn wants_stretch(&self, of: &StretchFacts<'_>, threads: &Threads) -> bool {
        let is_wanted_call = || {
            if self.calls.is_none() && self.paths.is_none() {
                return true;
            }
            let Some(CallId { nr, abi }) = of.call else { return false };
            let call = Call { nr, abi, nargs: 0, args: [0; 6], strings: Vec::new() };
            self.calls.as_ref().is_none_or(|calls| calls.may_have(&call))
                && self
                    .paths
                    .as_ref()
                    .is_none_or(|paths| of.object.is_some_and(|object| paths.matches(object)))
        };
        let is_wanted_thread = || {
            // A switch to the thread itself is of nobody else.
            let body = Body::Switch {
                prev_prio: 0,
                prev_state: 0,
                preempted: false,
                io_wait: false,
                next: of.tid,
                next_prio: 0,
            };
            let event = Event { time: of.time, cpu: of.cpu, tid: of.tid, body };
            self.wants_thread(&event, None, threads)
        };
        (self.cpus.is_empty() || self.cpus.contains(&of.cpu))
            && self.takes(Took::Ns(of.ns)) == Some(true)
            && is_wanted_call()
            && is_wanted_thread()
    }
}
