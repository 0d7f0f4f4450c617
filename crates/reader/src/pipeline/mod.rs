//! From pages to events of which all is known that the recording tells, in order and in bounded
//! memory.
//!
//! ```text
//! lanes of each CPU ─> merge ─> pairing, placement ─> delay line ─> run queues, threads, names
//!                       front                                       resolver
//! ```
//! The pass starts before the window, so that names, pairs and queues are right where it starts,
//! and goes on after it, until it is known where the last woken threads ran.

mod addresses;
pub mod calls;
pub mod choice;
pub mod context;
pub mod delay;
pub mod doubts;
pub mod ends;
pub mod entries;
pub mod front;
pub mod functions;
pub mod operations;
pub mod pairing;
pub mod placement;
pub mod requests;
pub mod resolve;
pub mod runq;
mod since;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod traces;

use flightrec_format::abi::page::Lane;
use flightrec_format::merge::Merge;
use flightrec_format::ring::Events;

pub use self::choice::{All, CallFacts, Choice, Part, Took};
pub use self::context::Shown;
pub use self::context::{EventContext, Wake};
pub use self::doubts::{Doubt, Doubts};
pub use self::functions::FunctionCall;
pub use self::operations::Operation;
pub use self::requests::{DiskUse, Flight, Request};
pub use self::resolve::{Merging, Ongoing, Resolver, Sink, Wants};
pub use self::since::Since;
pub use self::traces::Traces;
use crate::source::PageSet;
use crate::window::{Window, with_leads};

/// Boxes of events that are kept to be used again.
const SPARE: usize = 1024;

/// The events that the window needs, in order; `all`: from the recording's beginning on.
pub fn events(recording: &PageSet, window: Window, all: bool) -> Merge<Events<'_>> {
    let from = if all { 0 } else { with_leads(window).from };
    Merge::new(recording.streams.iter().map(|stream| {
        // All of the task lane goes through, as names hold until they change.
        stream.events_from(if stream.lane() == Lane::Task { 0 } else { from })
    }))
}
