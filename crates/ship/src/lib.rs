//! `flight-ship`: ships what the flight recorder keeps to object storage, and tells a collector of
//! OpenTelemetry of it.
//!
//! - It reads the state directory of flightd: [`source`] has the snapshots and the hours of sums
//!   that are there.
//! - Each is an *item*, by which the [`journal`] knows what became of it. An item's files are made
//!   in the [`spool`] ([`mod@make`]), uploaded under the names that [`layout`] gives them
//!   ([`storage`]), and removed.
//! - The names follow from the item alone, so what is uploaded again replaces itself, and a crash
//!   at any moment leaves neither doubles nor holes.
//! - What is complete, and what is missing, is a table of its own ([`told`]): one small file for
//!   each host and hour.
//! - [`otlp`] tells a collector of snapshots, metrics and waits, without the journal and the spool.
//! - [`compact`] makes few large files of what all hosts ship, on one machine, for SQL.
//! - [`service`] brings them together: one task makes, another one uploads, others tell.
//!   [`limits`] bound what goes over the network, the spool what waits.
//!
//! Modules import those below them only (`cargo xtask check-modules`): [`hour`], [`config`],
//! [`layout`]; [`files`], [`journal`], [`ledger`], [`spool`], [`source`]; [`limits`], [`storage`];
//! [`mod@make`], [`told`]; [`report`], [`compact`]; [`service`], [`check`]; [`args`], [`run`].

pub mod args;
pub mod check;
pub mod compact;
mod compaction;
pub mod config;
mod credentials;
pub mod files;
pub mod hour;
pub mod journal;
pub mod layout;
pub mod ledger;
pub mod limits;
pub mod make;
pub mod metrics;
pub mod otlp;
pub mod report;
pub mod run;
pub mod service;
pub mod source;
pub mod spool;
pub mod storage;
mod tls;
pub mod told;
