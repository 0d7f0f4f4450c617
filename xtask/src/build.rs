//! Builds: programs as packages have them (profile `release`), and as the demo, the tests and the
//! tasks run them (profile `dev`).

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::unistd::geteuid;

use crate::command::{self, repository};
use crate::reproducible;
use crate::setup::{self, Scope};

/// Builds programs of this repository as tests have them. Whatever is asked for, cargo selects the
/// features that the tests of the whole workspace have: so nothing is compiled twice.
///
/// # Errors
/// They do not compile.
pub fn for_tests(programs: &[&str]) -> Result<()> {
    let mut command = command::cargo();
    command.args(["build", "--locked", "--workspace"]);
    command.args(programs.iter().flat_map(|name| ["--bin", name]));
    // With a test among what is built, cargo selects the features of dev-dependencies, too. This
    // one is compiled in a second.
    command.args(["--test", "prebuilt"]);
    command::run(&mut command)
}

/// Builds a program of this repository, and becomes it.
pub(crate) fn run_ours(name: &str, arguments: &[OsString]) -> Result<()> {
    for_tests(&[name])?;
    become_ours(name, arguments)
}

fn become_ours(name: &str, arguments: &[OsString]) -> Result<()> {
    let program = repository().join("target/debug").join(name);
    let failed = Command::new(&program).args(arguments).exec();
    Err(failed).with_context(|| format!("can't run {}", program.display()))
}

/// `cargo xtask demo`.
pub(crate) fn demo() -> Result<()> {
    ensure!(
        geteuid().is_root(),
        "the demo loads BPF programs into the running kernel: run it as root"
    );
    setup::run(Scope::Build)?;
    println!("building flightd, which records, and flightctl, which shows: some minutes, once");
    for_tests(&["flightd", "flightctl", "demo"])?;
    become_ours("demo", &[])
}

/// Builds the programs as packages have them: optimised as a whole, with debug information.
///
/// # Errors
/// What they need can't be installed, or they do not compile.
pub fn programs() -> Result<()> {
    release(|_| {})
}

/// Builds them so that they tell no path of this machine. Cargo keeps what it compiles so beside
/// what it compiles otherwise. With them, it makes the manual pages and the completions that
/// packages have.
pub(crate) fn for_packages() -> Result<()> {
    release(|command| {
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

fn release(prepare: impl FnOnce(&mut Command)) -> Result<()> {
    setup::run(Scope::Build)?;
    let packages = PROGRAMS.into_iter().flat_map(|name| ["-p", name]);
    let mut command = command::cargo();
    command.args(["build", "--release", "--locked"]).args(packages);
    prepare(&mut command);
    command::run(&mut command)
}

/// Builds, and says where.
pub(crate) fn run() -> Result<()> {
    programs()?;
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
