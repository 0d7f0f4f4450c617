//! Sums that outlive the events.
//!
//! - A period is most often a minute; of each, and each unit, it is kept how many calls there were,
//!   of which kind, how long they took and how many failed, for how long threads ran, waited for a
//!   CPU and were blocked and why, how many bytes were moved, and what disks did ([`model`]).
//! - They are made from the files of a recording ([`follow`], [`maker`]), not from the rings: what
//!   falls behind catches up, a restart goes on where the sums end, and nothing is counted twice.
//! - They are in files of their own ([`mod@file`], [`dir`]), kept within a size and an age by
//!   [`keeper`]; [`worker`] does all of it in small turns, and [`history`] reads a window.
//!
//! `FORMAT.md` is the specification of the files. The crate prints nothing and starts no thread.

pub mod codec;
pub mod dir;
pub mod file;
pub mod follow;
pub mod history;
pub mod keeper;
pub mod maker;
pub mod model;
pub mod worker;
