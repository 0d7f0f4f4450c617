//! `flightd`, the flight recorder's daemon, as a library: `main.rs` is only its command line.
//!
//! Public is what `main.rs`, `cargo xtask man`, the benchmarks and `tests/kernel/lacking.rs` need.

#![expect(unreachable_pub, reason = "a module's `pub` is what it offers to the crate")]
#![allow(rustdoc::private_intra_doc_links, reason = "its documentation is for who changes it")]

pub mod args;
mod attach;
pub mod attachments;
mod backend;
mod binaries;
mod bpffs;
pub mod btf;
mod buckets;
mod budget;
mod calibrate;
mod cgroups;
mod clock;
pub mod config;
mod configured_tracepoints;
mod containers;
mod control;
mod cpus;
mod descriptors;
mod devices;
mod dir;
mod drain;
mod function_names;
pub mod load;
mod lockdown;
mod machine;
mod marker;
mod mask;
mod multi;
mod pins;
mod prepare;
mod publishers;
mod quiet;
pub mod recording;
mod reload;
mod relocation;
pub mod run;
mod samplers;
mod seccomp;
mod snapshots;
mod sums;
mod supervisor;
mod symbols;
mod syscalls;
mod tracefs;
mod tracepoint_link;
mod triggers;
mod uprobes;
