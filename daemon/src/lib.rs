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
pub mod descriptors;
pub mod drain;
pub mod journal;
pub mod load;
pub mod note;
pub mod prepare;
pub mod recording;
pub mod reload;
pub mod run;
pub mod snapshots;
pub mod supervisor;
pub mod syscalls;
pub mod tracepoint;
pub mod tracepoints;
pub mod triggers;
