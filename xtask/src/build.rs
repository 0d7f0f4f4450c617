//! `cargo xtask build`.

use std::process::Command;

use anyhow::Result;

use crate::command::{self, repository};
use crate::reproducible;
use crate::setup::{self, Scope};

/// Builds the programs; the probes are inside `flightd` (daemon/build.rs compiles them).
pub(crate) fn programs(scope: Scope) -> Result<()> {
    build(scope, |_| {})
}

/// Builds them as packages have them: they tell no path of this machine. Cargo keeps what it
/// compiles so beside what it compiles otherwise. With them, it makes the manual pages and the
/// completions that packages have.
pub(crate) fn for_packages() -> Result<()> {
    build(Scope::Build, |command| {
        reproducible::placeless(command).args(["-p", MANUAL]);
    })?;
    let manual = repository().join("target/release").join(MANUAL);
    command::run(Command::new(manual).arg(repository().join("target")))
}

/// What makes manual pages and completions. It is compiled with the programs, whose crates it is
/// made of; that changes nothing in them, as long as it wants no feature of theirs.
const MANUAL: &str = "flightrec-manual";
/// Crates of the programs.
pub(crate) const PROGRAMS: [&str; 3] = ["flightd", "flightctl", "flightrec-ship"];

fn build(scope: Scope, prepare: impl FnOnce(&mut Command)) -> Result<()> {
    setup::run(scope)?;
    let mut packages = PROGRAMS.to_vec();
    // It makes what thousands of hosts ship, for tests.
    packages.extend((scope == Scope::Test).then_some("flightrec-fleet"));
    let packages = packages.into_iter().flat_map(|name| ["-p", name]);
    let mut command = command::cargo();
    command.args(["build", "--release", "--locked"]).args(packages);
    prepare(&mut command);
    command::run(&mut command)
}

/// Builds, and says where.
pub(crate) fn run() -> Result<()> {
    programs(Scope::Build)?;
    println!("built: target/release/flightd, target/release/flightctl, target/release/flight-ship");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The crates that packages are built with, and the features of each.
    fn crates(packages: &[&str]) -> BTreeSet<String> {
        let mut tree = command::cargo();
        tree.args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none"]);
        tree.args(["--format", "{p} [{f}]"]).args(packages.iter().flat_map(|name| ["-p", name]));
        let tree = command::read(&mut tree).unwrap();
        tree.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
    }

    #[test]
    fn the_manual_changes_no_crate_of_the_programs() {
        let alone = crates(&PROGRAMS);
        assert!(alone.len() > 100, "{alone:?}");
        let with = crates(&[&PROGRAMS[..], &[MANUAL]].concat());
        assert_eq!(alone.difference(&with).collect::<Vec<_>>(), Vec::<&String>::new());
    }
}
