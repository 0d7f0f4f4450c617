//! `cargo xtask bench`.

mod overhead;

use anyhow::Result;
use clap::Subcommand;

use crate::command::{cargo, run as run_command};
use crate::setup::{self, Scope};

/// What is measured.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Bench {
    /// How fast `flightctl` writes 2,000,000 events as text to a file.
    Read,
    /// What recording costs a system call, an open and a pipe round trip, beside ftrace.
    Overhead,
}

/// Runs one benchmark; it prints its result itself.
pub(crate) fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Overhead => {
            crate::build::programs(Scope::Build)?;
            overhead::run()
        }
        Bench::Read => {
            setup::run(Scope::Build)?;
            run_command(cargo().args(["run", "--release", "--locked", "-p", "flightctl", "--example", "bench_read"]))
        }
    }
}
