//! `cargo xtask build`.

use anyhow::Result;

use crate::command;
use crate::setup::{self, Scope};

/// Builds the programs; the probes are inside `flightd` (daemon/build.rs compiles them).
pub(crate) fn programs(scope: Scope) -> Result<()> {
    setup::run(scope)?;
    command::run(command::cargo().args([
        "build",
        "--release",
        "--locked",
        "-p",
        "flightd",
        "-p",
        "flightctl",
        "-p",
        "flightrec-ship",
    ]))
}

/// Builds, and says where.
pub(crate) fn run() -> Result<()> {
    programs(Scope::Build)?;
    println!("built: target/release/flightd, target/release/flightctl, target/release/flight-ship");
    Ok(())
}
