//! `cargo xtask bench`.

use anyhow::Result;
use clap::Subcommand;

use crate::command::{cargo, run as run_command};
use crate::setup::{self, Scope};

/// What is measured.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Bench {
    /// How fast `flightctl` writes 2,000,000 events as text to a file.
    Read,
}

/// Runs one benchmark; it prints its result itself.
pub(crate) fn run(bench: Bench) -> Result<()> {
    setup::run(Scope::Build)?;
    match bench {
        Bench::Read => {
            run_command(cargo().args(["run", "--release", "--locked", "-p", "flightctl", "--example", "bench_read"]))
        }
    }
}
