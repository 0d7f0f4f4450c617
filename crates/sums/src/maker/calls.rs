//! Exits find their entries, by the rules of the reader's pipeline (`pipeline/pairing.rs`): the
//! last entry of the thread is the exit's, if its number is, or is lost.

use flightrec_format::abi::record::{Abi, Act, NR_INVALID};
use flightrec_format::decode::{Body, Event};
use flightrec_reader::threads::THREADS_MAX;
use rustc_hash::FxHashMap;

/// An entry without its exit.
#[derive(Debug, Clone, Copy)]
struct Pending {
    time: u64,
    nr: u16,
    abi: Abi,
    /// A program has been executed in it.
    executed: bool,
}

/// A call that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) nr: u16,
    pub(super) abi: Abi,
    pub(super) ret: i64,
    /// How long it took, ns, as far as that is known.
    pub(super) ns: Option<u64>,
    /// When it began.
    pub(super) entered: Option<u64>,
}

/// Entries that wait for their exits, by thread.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pending: FxHashMap<u32, Pending>,
}

impl Calls {
    /// Calls are missing: the next exit of a thread may be of another call than its last entry.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
    }

    /// Goes past an event; where it ends a call, what is known of that.
    #[inline]
    pub(super) fn take(&mut self, event: &Event) -> Option<Ended> {
        let Event { time, tid, .. } = *event;
        match &event.body {
            Body::Enter(call) => {
                let pending = Pending { time, nr: call.nr, abi: call.abi, executed: false };
                if self.pending.len() < THREADS_MAX || self.pending.contains_key(&tid) {
                    self.pending.insert(tid, pending);
                }
                None
            }
            Body::Exit { call, entered, ret } => {
                let mut ended =
                    Ended { nr: call.nr, abi: call.abi, ret: *ret, ns: None, entered: *entered };
                if let Some(of) = self.pending.remove(&tid) {
                    let is_lost = of.executed || call.nr == NR_INVALID && of.nr != NR_INVALID;
                    if is_lost || call.nr == of.nr {
                        (ended.nr, ended.abi) = (of.nr, of.abi);
                        ended.entered = ended.entered.or(Some(of.time));
                    }
                }
                ended.ns = ended.entered.map(|entered| time.saturating_sub(entered));
                Some(ended)
            }
            Body::Fork(fork) => {
                self.pending.remove(&fork.tid);
                None
            }
            Body::Exec { exec, .. } => {
                if exec.old_tid != exec.tid {
                    self.pending.remove(&exec.tid);
                    if let Some(of) = self.pending.remove(&exec.old_tid) {
                        self.pending.insert(exec.tid, of);
                    }
                }
                if let Some(of) = self.pending.get_mut(&exec.tid) {
                    of.executed = true;
                }
                None
            }
            Body::TaskExit(exit) => {
                self.pending.remove(&exit.tid);
                None
            }
            // Its thread may have made any number of calls meanwhile.
            Body::Act(act, _) if *act == Act::Attached as u16 => {
                self.pending.clear();
                None
            }
            _ => None,
        }
    }
}
