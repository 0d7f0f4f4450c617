//! Reads recordings of flightrec, the flight recorder for the Linux kernel: system calls, context
//! switches, wakeups and the lives of threads, in the order of time, each with what the recording
//! tells about it.
//!
//! ```no_run
//! use std::time::Duration;
//! use flightrec_reader::{Question, Reader};
//!
//! let mut reader = Reader::files(["saved.flight"]);
//! let mut events = reader.events(Question::last(Duration::from_secs(10)))?;
//! for event in &mut events {
//!     let event = event?;
//!     if let (Some(name), Some(took)) = (event.call_name(), event.duration()) {
//!         let comm = String::from_utf8_lossy(event.comm());
//!         println!("{comm} ({}): {name} took {took:?}", event.pid());
//!     }
//! }
//! println!("complete: {}", events.is_complete());
//! # Ok::<(), flightrec_reader::SourceError>(())
//! ```
//!
//! A [`Reader`] is where a recording is: files, a state directory, a running recorder, a kernel
//! dump. A [`Question`] is a window of time. [`Events`] iterates over what happened in it, in
//! bounded memory; [`Events::coverage`] tells what is missing. A [`KnownEvent`] is one event: the
//! typed event as the recorder wrote it ([`Event`], [`Body`]), and its thread, process, unit and
//! time of day, the duration of a call, what its descriptors stood for, where a woken thread ran.
//!
//! Units: times and durations are ns; times are of `CLOCK_MONOTONIC` unless they are called wall
//! times, which are UNIX time. Names and paths are bytes, as in the kernel.
//!
//! The crate prints nothing. While it reads, it reports progress and notes (what it left out, or
//! used instead) to the observer that the program passes to [`observe::listen`].
//!
//! `examples/` prints a file, counts by call, and finds the longest wait.
//!
//! # Below the iterator
//!
//! The modules form layers. A module imports only from the layers before its own in this list:
//!
//! - Time: [`window`], [`windows`], [`wall`], [`boots`]. Names: [`binaries`], [`kind`], [`names`],
//!   [`threads`].
//! - Pages: [`control`], [`memory`], [`observe`], [`source`].
//! - Events: [`left_out`], [`pairing`], `open_calls`, [`fds`], [`pipeline`]. What is complete and
//!   missing: [`coverage`].

#![warn(clippy::missing_errors_doc)]

pub mod binaries;
pub mod boots;
pub mod control;
mod counters;
pub mod coverage;
mod events;
pub mod fds;
pub mod holes;
pub mod kind;
mod known_event;
pub mod left_out;
pub mod memory;
pub mod names;
pub mod observe;
mod open;
mod open_calls;
pub mod pairing;
pub mod pipeline;
pub mod redact;
mod session;
pub mod source;
pub mod threads;
pub mod wall;
pub mod window;
pub mod windows;

pub use flightrec_format::containers::Container;
pub use flightrec_format::decode::{Body, Call, Event, Text};
pub use flightrec_format::ring::{Gap, RingCoverage};

pub use self::coverage::Coverage;
pub use self::events::Events;
pub use self::fds::Naming;
pub use self::known_event::KnownEvent;
pub use self::open::Reader;
pub use self::pipeline::{EventContext, Merging, Wake};
pub use self::session::Session;
pub use self::source::SourceError;
pub use self::source::history::Question;
pub use flightrec_format::units::unit;
