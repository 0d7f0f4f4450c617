//! Why a thread was slow: from events to causes.
//!
//! A [`Story`] takes the events of a window, and a little of what was before it, each with what the
//! reader knows of it. Then questions can be asked of it: [`Story::answer`] for a thread,
//! [`Story::worst`] for the thread that was delayed most.
//!
//! The model: at each moment a thread is in one state ([`crate::State`]); runs, waits for a CPU,
//! waits for something in a call. An answer adds up the states of the window, takes the one that
//! cost most, and follows it to its cause: who ran instead, what used up its CPU time, who stopped
//! it; of waits, what ended them. If a thread did, the same is asked of that thread for the time of
//! the wait, and so on, until something runs, a timer, a disk or the network is met, or events are
//! missing. (This is the critical path of Giraldeau and Dagenais, "Wait analysis of distributed
//! systems using kernel tracing", 2016, over longest stretches.)
//!
//! Nothing is guessed: where events are missing, the chain ends with a doubt and without a culprit.

mod about;
mod answer;
mod chain;
mod death;
mod disk;
mod facts;
mod held;
mod kinds;
mod leaf;
mod memory;
mod names;
mod parts;
mod pieces;
mod rival;
mod sentence;
mod share;
mod starved;
mod story;
#[cfg(test)]
mod tests;
mod traced;
mod track;
mod wait;
mod worst;

pub use self::answer::{Answer, Culprit, Link, MECHANISMS, Share, Who};
pub use self::names::{Names, Told};
pub use self::story::{Known, Sleeper, Story};
pub use self::traced::{Traced, TracedWait};
pub use self::worst::{SlowCall, Subject};
