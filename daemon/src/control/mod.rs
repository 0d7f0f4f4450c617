//! The control socket: `flightctl` asks, the daemon answers. The protocol is
//! [`flightrec_format::control`]; what the answers are, the [`Backend`] knows.
//!
//! No client can harm the recording or another client:
//! - only root, the daemon's own user and the members of one group are served ([`Access`]);
//! - at most [`Limits::connections`] connections, of which some are kept for root, and of the
//!   others [`Limits::each`] for one user; each with one request and one batch of pages in memory
//!   (about 4 MiB), and each bounded in time: a whole request, a read of an answer, idling;
//! - a frame that is too long or makes no sense ends its connection, after an answer that says why;
//! - what clients cost, answered or refused, is counted apart from recording ([`Meter`]): nothing is
//!   left out for it; who may not change the budget waits where it would be more than
//!   [`Limits::readers`], and new connections of all of these wait for [`Limits::door`]; each piece
//!   of work counts as a wakeup at least, since floods of requests that are refused at once cost
//!   the recording more than their answers;
//! - refusals are a few lines a second in the log;
//! - a ring is asked for once in a request;
//! - whatever may take long or fault in memory runs on a thread of its own, beside the daemon's.

mod access;
mod connection;
mod descriptors;
mod lock;
mod meter;
mod refusals;
mod server;
mod socket;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::time::Duration;

use flightrec_format::control::{
    Account, FunctionCalls, NewProbe, Position, ProbeChoice, ProbeStatus, Status, ThreadStack,
    Totals,
};

pub use access::{Access, Peer};
pub use lock::{DirLock, LockError, lock_all};
pub use meter::{Allowance, Meter};
pub use server::serve;
pub use socket::Listener;

/// Pages, a batch at a time: appended to an empty buffer, whole pages, at most
/// [`flightrec_format::control::PAGES_MAX`]. It stays empty once there are no more.
pub type Batches = Box<dyn FnMut(&mut Vec<u8>) + Send>;

/// The recording, as the control socket sees it. The calls may block for a short time.
pub trait Backend: Send + Sync {
    /// What counts the CPU time of answers.
    fn meter(&self) -> &Meter;
    /// The state of the recording.
    fn status(&self) -> Status;
    /// The metadata document (JSON).
    fn meta(&self) -> String;
    /// The pages that may hold events from `from` until `until` (ns of `CLOCK_MONOTONIC`,
    /// exclusive), and those of the thread table. Each batch is taken when it is asked for.
    fn pages(&self, from: u64, until: u64) -> Batches;
    /// The pages that are new after these positions, at most the `newest` of each ring; `None`
    /// where the recording is another one than `session`.
    fn since(&self, session: u64, after: Vec<Position>, newest: u32) -> Option<Batches>;
    /// The counters of the whole recording.
    fn totals(&self) -> Totals;
    /// Writes a line into the recording, in the name of thread `tid`; the error is for the user.
    fn mark(&self, text: &str, tid: u32) -> Result<(), String>;
    /// What recording has cost.
    fn account(&self) -> Account;
    /// Changes what recording may cost, in millionths of the machine's CPU time and of each CPU's;
    /// 0: no limit, `None`: as before. The error is for the user.
    fn set_budget(&self, total: Option<u32>, per_cpu: Option<u32>) -> Result<(), String>;
    /// Where blocked threads wait at this moment; the error is for the user.
    fn stacks(&self) -> Result<Vec<ThreadStack>, String>;
    /// Probes functions for a time, with the file or the perf events of their points; the error is
    /// for the user.
    fn add_probe(&self, new: &NewProbe, events: Vec<OwnedFd>) -> Result<ProbeStatus, String>;
    /// What is probed.
    fn probes(&self) -> Vec<ProbeStatus>;
    /// Whether many points of a file can be probed at once, with its descriptor.
    fn takes_files(&self) -> bool;
    /// Ends probes; those that were. The error is for the user.
    fn remove_probes(&self, choice: &ProbeChoice) -> Result<Vec<ProbeStatus>, String>;
    /// How often functions that are probed, or were, were called; and the present time.
    fn function_calls(&self) -> (Vec<FunctionCalls>, u64);
    /// Takes a snapshot that reaches `last` ns back (0: as usual), for user `uid`; its id. The
    /// error is for the user.
    fn snapshot(&self, last: u64, reason: &str, uid: u32) -> Result<String, String>;
}

/// What a client may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// How many of these are for root and the daemon's own user alone.
    pub reserved: usize,
    /// How many of the others one user may have.
    pub each: usize,
    /// From a request's first byte to its last.
    pub request: Duration,
    /// From an answer to the next request's first byte.
    pub idle: Duration,
    /// For one frame of an answer to be taken.
    pub write: Duration,
    /// CPU time that the clients of one user may take, unless that may change the budget; each
    /// piece of work counts as a wakeup at least.
    pub readers: Allowance,
    /// CPU time that new connections of all of these users may take.
    pub door: Allowance,
}

impl Limits {
    /// The account of a client's user; `None`: it is not bounded.
    fn account(&self, peer: &Peer) -> Option<(u32, Allowance)> {
        (!peer.may_change()).then_some((peer.uid, self.readers))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 32,
            reserved: 8,
            each: 8,
            request: Duration::from_secs(5),
            idle: Duration::from_mins(1),
            write: Duration::from_secs(10),
            // In any minute a fifth of a CPU, what is had at once and new connections included.
            readers: Allowance { burst: Duration::from_secs(1), percent: 12 },
            door: Allowance { burst: Duration::from_millis(100), percent: 5 },
        }
    }
}
