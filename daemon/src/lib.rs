//! `flightd`, the flight recorder's daemon, as a library: `main.rs` is only its command line.

pub mod args;
pub mod backend;
pub mod bpffs;
pub mod btf;
pub mod budget;
pub mod calibrate;
pub mod cgroups;
pub mod clock;
pub mod config;
pub mod control;
pub mod cpus;
pub mod journal;
pub mod load;
pub mod note;
pub mod recording;
pub mod run;
pub mod syscalls;
