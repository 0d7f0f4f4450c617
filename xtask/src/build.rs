//! `cargo xtask build`.

use anyhow::Result;

use crate::command;
use crate::reproducible;
use crate::setup::{self, Scope};

/// Builds the programs; the probes are inside `flightd` (daemon/build.rs compiles them).
pub(crate) fn programs(scope: Scope) -> Result<()> {
    setup::run(scope)?;
    let mut packages = vec!["flightd", "flightctl", "flightrec-ship"];
    // It makes what thousands of hosts ship, for tests.
    packages.extend((scope == Scope::Test).then_some("flightrec-fleet"));
    let packages = packages.into_iter().flat_map(|name| ["-p", name]);
    let mut command = command::cargo();
    if scope == Scope::Build {
        // What is tested is compiled as `cargo build` does it, so that nothing is built twice.
        reproducible::placeless(&mut command);
    }
    command::run(command.args(["build", "--release", "--locked"]).args(packages))
}

/// Builds, and says where.
pub(crate) fn run() -> Result<()> {
    programs(Scope::Build)?;
    println!("built: target/release/flightd, target/release/flightctl, target/release/flight-ship");
    Ok(())
}
