//! `flightctl`: reads the flight recorder.
//!
//! A command asks a [source](flightrec_reader::source) for pages and does not know where they come
//! from: a live daemon, the rings pinned in the kernel, files, or a kernel dump. The
//! [pipeline](flightrec_reader::pipeline) makes one stream of events of them, with all that is
//! known of each: names, durations, places. An output format ([`render`]) writes them; the
//! [coverage](flightrec_reader::coverage) says what is missing. All that is not text is
//! `flightrec_reader`.
//!
//! Modules import those below them only (`cargo xtask check-modules`), from below:
//!
//! - Which events: [`filter`]. What of their window need not be read: [`narrowing`].
//! - Formats: [`text`], [`json`], after [`render`]; which there are: [`formats`]; those of other
//!   tools: `export` (a feature).
//!   [`print`](mod@print) brings events to them, on two threads.
//! - Other hosts: [`ssh`], [`frames`]; a command that runs on one: [`forward`].
//! - Options that several commands have, as typed, and what they mean: [`options`], of [`value`]s
//!   and [`filter`]s. What several commands do: [`follow`], [`state`], [`target`], [`output`].
//! - Sums over a window: [`report`].
//! - Commands, a module each with all there is of one: [`commands`]. The command line that they
//!   make: [`cli`].

pub mod announce;
pub mod cli;
pub mod clock_offset;
pub mod commands;
pub mod descriptors;
pub mod events;
pub mod exit;
#[cfg(feature = "export")]
pub mod export;
pub mod filter;
pub mod follow;
pub mod formats;
pub mod forward;
pub mod frames;
pub mod guard;
pub mod help;
pub mod in_flight;
pub mod json;
pub mod narrowing;
pub mod options;
pub mod output;
pub mod print;
pub mod progress;
pub mod render;
pub mod report;
pub mod schema;
pub mod ssh;
pub mod state;
pub mod suggest;
pub mod target;
pub mod text;
pub mod value;
pub mod why;
pub mod zone;
