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
//!   make, and the program that it runs: [`cli`].
//!
//! Public is what `main.rs` needs, and what `cargo xtask man` and the benchmarks need.

#![expect(unreachable_pub, reason = "a module's `pub` is what it offers to the crate")]
#![allow(rustdoc::private_intra_doc_links, reason = "its documentation is for who changes it")]

mod announce;
pub mod cli;
mod clock_offset;
pub mod commands;
mod descriptors;
mod events;
mod exit;
mod explain;
#[cfg(feature = "export")]
mod export;
pub mod filter;
mod follow;
mod formats;
mod forward;
mod frames;
mod guard;
mod help;
mod in_flight;
pub mod json;
mod narrowing;
mod options;
mod output;
pub mod print;
mod progress;
pub mod render;
mod report;
mod schema;
mod ssh;
mod state;
mod suggest;
mod target;
pub mod text;
mod value;
mod why;
mod zone;
