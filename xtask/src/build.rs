//! `cargo xtask build`.

use std::process::Command;

use anyhow::Result;

use crate::command;
use crate::reproducible;
use crate::setup::{self, Scope};

/// Builds the programs; the probes are inside `flightd` (daemon/build.rs compiles them).
pub(crate) fn programs(scope: Scope) -> Result<()> {
    build(scope, |_| {})
}

/// Builds them as packages have them: they tell no path of this machine. Cargo keeps what it
/// compiles so beside what it compiles otherwise.
pub(crate) fn for_packages() -> Result<()> {
    build(Scope::Build, |command| {
        reproducible::placeless(command);
    })
}

fn build(scope: Scope, prepare: impl FnOnce(&mut Command)) -> Result<()> {
    setup::run(scope)?;
    let mut packages = vec!["flightd", "flightctl", "flightrec-ship"];
    // It makes what thousands of hosts ship, for tests.
    packages.extend((scope == Scope::Test).then_some("flightrec-fleet"));
    let packages = packages.into_iter().flat_map(|name| ["-p", name]);
    let mut command = command::cargo();
    prepare(&mut command);
    command::run(command.args(["build", "--release", "--locked"]).args(packages))
}

/// Builds, and says where.
pub(crate) fn run() -> Result<()> {
    programs(Scope::Build)?;
    println!("built: target/release/flightd, target/release/flightctl, target/release/flight-ship");
    Ok(())
}
