//! The program from outside: usage, and dumps of recordings that a made-up daemon plays.

mod common;
mod dump;
mod json;
mod usage;
