//! The program from outside: usage, and dumps of recordings that a made-up daemon plays.

mod common;
mod disk;
mod dump;
mod files;
mod forged;
mod json;
mod snapshots;
mod usage;
mod vmcore;
