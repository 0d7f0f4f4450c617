//! System calls that a signal or a stop interrupted, and that go on.
//!
//! A call that waits for a time returns `-ERESTART_RESTARTBLOCK` then (nanosleep, poll, futex and
//! their like), and if no handler runs, the kernel has the thread call `restart_syscall`, which
//! goes on with it (`do_restart_poll` and others; arch/x86/kernel/signal.c, Linux 6.18). Whoever
//! asks what a thread waits for means the call that goes on.

use flightrec_format::abi::record::Abi;
use flightrec_format::meta::{Meta, Syscall};
use rustc_hash::FxHashMap;

use crate::CallId;

/// Never seen by programs (include/linux/errno.h).
const ERESTART_RESTARTBLOCK: i64 = 516;
/// Most threads whose interrupted calls are remembered.
const INTERRUPTED_MAX: usize = 1 << 12;

/// Interrupted calls, by thread.
#[derive(Debug, Clone, Default)]
pub struct Restarts {
    /// `restart_syscall`, by table; `None`: nobody knows its number.
    native: Option<u16>,
    compat: Option<u16>,
    /// Until the thread's next call.
    interrupted: FxHashMap<u32, CallId>,
}

impl Restarts {
    /// Of a recording.
    pub fn new(meta: &Meta) -> Self {
        let mut restarts = Self::default();
        restarts.know(meta);
        restarts
    }

    /// Takes the numbers of calls from a recording's metadata.
    pub fn know(&mut self, meta: &Meta) {
        let number = |table: &[Syscall]| {
            table.iter().find(|call| call.name == "restart_syscall").map(|call| call.nr)
        };
        (self.native, self.compat) = (number(&meta.native), number(&meta.compat));
    }

    fn is_restart(&self, call: CallId) -> bool {
        let table = match call.abi {
            Abi::Native | Abi::X32 => self.native,
            Abi::Compat => self.compat,
        };
        table == Some(call.nr)
    }

    /// A thread begins a call. Returns the call that it goes on with, or else this one.
    #[inline]
    pub fn begun(&mut self, tid: u32, call: CallId) -> CallId {
        if self.interrupted.is_empty() { call } else { self.next(tid, call) }
    }

    #[cold]
    fn next(&mut self, tid: u32, call: CallId) -> CallId {
        if self.is_restart(call) {
            return self.interrupted.get(&tid).copied().unwrap_or(call);
        }
        // A handler ran, so that its call does not go on.
        self.interrupted.remove(&tid);
        call
    }

    /// A thread's call returns `ret`. Returns the call that had gone on, or else this one.
    #[inline]
    pub fn ended(&mut self, tid: u32, call: CallId, ret: i64) -> CallId {
        let is_interrupted = ret == -ERESTART_RESTARTBLOCK;
        if !is_interrupted && self.interrupted.is_empty() {
            return call;
        }
        let of = self.next(tid, call);
        let is_asked = self.native.is_some() || self.compat.is_some();
        if !is_interrupted {
            self.interrupted.remove(&tid);
        } else if is_asked && self.interrupted.len() < INTERRUPTED_MAX {
            self.interrupted.insert(tid, of);
        }
        of
    }

    /// A thread has ended: one that is killed in such a call does not go on with it.
    #[inline]
    pub fn gone(&mut self, tid: u32) {
        if !self.interrupted.is_empty() {
            self.interrupted.remove(&tid);
        }
    }

    /// Calls may be missing: what a thread calls next says nothing of the one before.
    pub fn forget(&mut self) {
        self.interrupted.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEEP: CallId = CallId { nr: 35, abi: Abi::Native };
    const RESTART: CallId = CallId { nr: 219, abi: Abi::Native };
    const WRITE: CallId = CallId { nr: 1, abi: Abi::Native };

    fn restarts() -> Restarts {
        let restart = Syscall { nr: 219, name: "restart_syscall".into(), args: None };
        Restarts::new(&Meta { native: vec![restart], ..Meta::default() })
    }

    #[test]
    fn a_call_that_goes_on_is_the_one_that_was_interrupted() {
        let mut all = restarts();
        assert_eq!(all.begun(1, SLEEP), SLEEP);
        assert_eq!(all.ended(1, SLEEP, -516), SLEEP);
        assert_eq!(all.begun(1, RESTART), SLEEP);
        assert_eq!(all.ended(1, RESTART, -516), SLEEP, "it is interrupted again");
        assert_eq!(all.begun(2, RESTART), RESTART, "another thread's");
        assert_eq!(all.begun(1, RESTART), SLEEP);
        assert_eq!(all.ended(1, RESTART, 0), SLEEP);
        assert_eq!(all.begun(1, RESTART), RESTART, "of what, nobody knows");
    }

    #[test]
    fn a_handler_ends_it() {
        let mut all = restarts();
        all.ended(1, SLEEP, -516);
        assert_eq!(all.begun(1, WRITE), WRITE);
        assert_eq!(all.begun(1, RESTART), RESTART);
        all.ended(1, SLEEP, -516);
        all.forget();
        assert_eq!(all.begun(1, RESTART), RESTART, "events are missing");
        all.ended(1, SLEEP, -516);
        all.gone(1);
        assert_eq!(all.begun(1, RESTART), RESTART, "another thread has its number");
    }
}
