//! The program from outside: usage, and dumps of recordings that a made-up daemon plays.

mod access;
mod begun;
mod collect;
mod common;
mod disk;
mod dump;
mod everyday;
#[cfg(feature = "export")]
mod export;
mod files;
mod forged;
mod gaps;
mod json;
mod lacking;
mod later;
#[path = "../../../crates/format/tests/pages/later_pages.rs"]
mod later_pages;
mod library;
mod memory;
#[cfg(feature = "export")]
mod page;
#[cfg(feature = "export")]
mod page_crowd;
mod quiet;
mod report;
mod snapshots;
mod ssh;
mod stretches;
mod summaries;
mod traces;
mod usage;
mod versioned;
mod vmcore;
mod wall_clock;
mod why;
