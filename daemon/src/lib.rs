//! `flightd`, the flight recorder's daemon, as a library: `main.rs` is only its command line.

pub mod btf;
pub mod config;
pub mod control;
pub mod journal;
pub mod syscalls;
pub mod load;
pub mod backend;
pub mod bpffs;
pub mod clock;
pub mod cpus;
pub mod note;
pub mod recording;
pub mod run;
