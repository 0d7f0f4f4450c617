//! What threads did, from the events of a recording.
//!
//! Events go in, in the order of time, and answers come out. There is one rule for each question:
//! what state a thread is in ([`Threads`], [`State`]), what its `task_struct.__state` means
//! ([`TaskState`]), what a system call does ([`syscalls`]), whether it failed ([`Failures`]), and
//! why a thread did not get on ([`why`]). Whoever reports such answers (`flightctl top`, the
//! summary of a snapshot, a trigger) adds up the intervals that [`Threads`] reports, and has no
//! model of its own. [`stretches`] gives each wait its stack, and [`reason`] says in words why a
//! thread waited. [`groups`] and [`histogram`] add up, in bounded memory.
//!
//! The crate reads no files, prints nothing and has no clock. Its memory is bounded whatever the
//! events say.

pub mod compare;
pub mod groups;
pub mod histogram;
mod interval;
mod priority;
pub mod reason;
mod restarts;
pub mod stretches;
pub mod syscalls;
mod task_state;
mod threads;
pub mod trace_context;
pub mod why;

pub use flightrec_format::failure::{Failures, is_restart};

pub use interval::{CallId, Interval, State, Waker};
pub use priority::gives_way;
pub use restarts::Restarts;
pub use task_state::TaskState;
pub use threads::{Observer, Threads};
