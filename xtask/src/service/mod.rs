//! `cargo xtask service`: the package as an administrator meets it, in a real systemd.
//!
//! A Debian is made once (debootstrap), copied, and booted with systemd as its init by
//! systemd-nspawn. In it, a unit runs this very program as `cargo xtask service-trial`, which
//! installs the package and goes through its life.

#[cfg(test)]
mod attempts;
mod container;
mod journal;
mod load;
mod privileges;
mod ship;
mod snapshots;
mod soak;
mod trial;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::geteuid;

pub(crate) use container::debian;
pub(crate) use trial::run as trial;

use crate::command::repository;
use crate::deb;
use crate::interrupt::Interrupt;
use crate::setup::{self, Scope};
use container::Container;

/// The versions between which the trial upgrades: the same programs in packages of two numbers.
const VERSIONS: [&str; 2] = ["0.1.0-1", "0.1.0-2"];

/// Where containers and what they are made of are kept.
pub(crate) fn folder() -> PathBuf {
    repository().join("target/service")
}

/// Builds two packages, and tries them in a container. `soak`: for how long it then runs under
/// load.
pub(crate) fn run(soak: Duration, keep: bool) -> Result<()> {
    ensure!(
        geteuid().is_root(),
        "a container needs root, and so do the BPF programs that flightd loads in it"
    );
    setup::run(Scope::Service)?;
    let folder = folder();
    let packages = folder.join("packages");
    fs::create_dir_all(&packages)?;
    for (version, name) in VERSIONS.iter().zip(trial::PACKAGES) {
        // cargo-deb removes the package that it made before.
        let package = deb::run(Some(version))?;
        fs::copy(&package, packages.join(name)).with_context(|| package.display().to_string())?;
    }
    // The trial is this program, as it is now.
    let program = std::env::current_exe().context("where this program is")?;

    let interrupt = Interrupt::defer()?;
    let container = Container::new(&folder, keep)?;
    interrupt.check()?;
    for name in trial::PACKAGES {
        fs::copy(packages.join(name), container.place(name)).context("a copy of a package")?;
    }
    fs::copy(&program, container.place("xtask")).context("a copy of this program")?;
    let hook = repository().join("packaging/kdump/pre-dump.sh");
    fs::copy(&hook, container.place("pre-dump.sh")).with_context(|| hook.display().to_string())?;
    let attack = privileges::ATTACK;
    fs::copy(flightrec_tests::c_program(attack, &[]), container.place(attack))
        .context("a copy of a program")?;
    let minutes = soak.as_secs() / 60;
    let command = format!("{}/xtask service-trial --soak {minutes}", container::INSIDE);
    // What was recorded is read back, on a machine that may be busy.
    let passed = container.run(&command, trial::LIMIT + 2 * soak, &interrupt)?;
    if !passed {
        bail!("the service's trial failed: see above; `--keep` leaves its file system for a look");
    }
    Ok(())
}
