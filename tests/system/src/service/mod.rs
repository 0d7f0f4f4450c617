//! `cargo xtask service`: the package as an administrator meets it, in a real systemd.
//!
//! A Debian is made once (debootstrap), copied, and booted with systemd as its init by
//! systemd-nspawn. In it, a unit runs this very program as `cargo xtask service-trial`, which
//! installs the package and goes through its life.

#[cfg(test)]
mod attempts;
mod collector;
pub(crate) mod container;
mod journal;
mod load;
mod privileges;
mod ship;
mod snapshots;
mod soak;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::geteuid;
use xtask::architecture::Architecture;

pub(crate) use trial::run as trial;

use container::Container;
use flightrec_tests::Interrupt;
use xtask::command::{self, repository};
use xtask::deb;
use xtask::setup::{self, Scope};

/// What the package's version has after it in the one to which the trial upgrades, which has the
/// same programs.
const NEXT: &str = "+next";

/// Where containers and what they are made of are kept.
pub(crate) fn folder() -> PathBuf {
    repository().join("target/service")
}

/// Builds a package, and tries it in a container. `soak`: for how long it then runs under load;
/// `package`: the one that is tried in its place.
pub(crate) fn run(soak: Duration, keep: bool, package: Option<PathBuf>) -> Result<()> {
    ensure!(
        geteuid().is_root(),
        "a container needs root, and so do the BPF programs that flightd loads in it"
    );
    setup::run(Scope::Service)?;
    let folder = folder();
    let packages = folder.join("packages");
    fs::create_dir_all(&packages)?;
    let package = package.map_or_else(|| deb::run(None, Architecture::HERE), Ok)?;
    let [first, second] = trial::PACKAGES.map(|name| packages.join(name));
    fs::copy(&package, &first).with_context(|| package.display().to_string())?;
    renumber(&first, &folder.join("unpacked"), &second)?;
    // The trial is this program, as it is now.
    let program = std::env::current_exe().context("where this program is")?;

    let interrupt = Interrupt::defer()?;
    let container = Container::new(container::BOOKWORM, &folder, keep)?;
    interrupt.check()?;
    for name in trial::PACKAGES {
        fs::copy(packages.join(name), container.place(name)).context("a copy of a package")?;
    }
    fs::copy(&program, container.place("system-tests")).context("a copy of this program")?;
    let hook = repository().join("packaging/kdump/pre-dump.sh");
    fs::copy(&hook, container.place("pre-dump.sh")).with_context(|| hook.display().to_string())?;
    let attack = privileges::ATTACK;
    fs::copy(flightrec_tests::c_program(attack, &[]), container.place(attack))
        .context("a copy of a program")?;
    let minutes = soak.as_secs() / 60;
    let command = format!("{}/system-tests service-trial --soak {minutes}", container::INSIDE);
    // What was recorded is read back, on a machine that may be busy.
    let passed = container.run(&command, trial::LIMIT + 2 * soak, &interrupt)?;
    if !passed {
        bail!("the service's trial failed: see above; `--keep` leaves its file system for a look");
    }
    Ok(())
}

/// Makes the same package of a later version, by way of a folder.
fn renumber(package: &Path, unpacked: &Path, to: &Path) -> Result<()> {
    container::remove(unpacked)?;
    command::run(Command::new("dpkg-deb").arg("--raw-extract").arg(package).arg(unpacked))?;
    let control = unpacked.join("DEBIAN/control");
    let text = fs::read_to_string(&control).with_context(|| control.display().to_string())?;
    let lines = text.lines().map(|line| {
        let next = if line.starts_with("Version: ") { NEXT } else { "" };
        format!("{line}{next}\n")
    });
    fs::write(&control, lines.collect::<String>())?;
    command::run(Command::new("dpkg-deb").arg("--build").arg(unpacked).arg(to))?;
    container::remove(unpacked)
}
