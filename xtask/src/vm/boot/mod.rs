//! `cargo xtask vm --boot`: the package in a Debian that boots, is recorded from early on, and
//! boots again.
//!
//! The disk is a whole Debian with the package installed and its service enabled, as an
//! administrator does both; the initrd only finds the disk. Behind `multi-user.target` a unit keeps
//! what systemd and `flightctl` say (`xtask/vm/boot/trial.sh`), and reboots; the second time it
//! asks for the boot before, too. What must be true of it is [`check`].

mod check;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flightrec_format::architecture::Architecture;
use nix::unistd::geteuid;

use super::image::{Image, image, which};
use super::{kernels, machine};
use crate::command::{read, repository};
use crate::deb;
use crate::service::{self, container};
use crate::setup::{self, Scope};

/// Units of the trial, in `xtask/vm/boot`.
const UNITS: &[&str] = &["early.service", "late.service", "trial.service"];

/// Builds the package; what it is tried in is made where it is missing.
pub(super) fn package() -> Result<PathBuf> {
    ensure!(geteuid().is_root(), "vm: the Debian that boots is made as root");
    setup::run(Scope::Service)?;
    deb::run(None, Architecture::HERE)
}

/// One kernel's two boots with that package, and the checks; without a package, the checks of what
/// the last run left. What was found, for people.
pub(super) fn one(
    cache: &Path,
    kernel: &kernels::Kernel,
    package: Option<&Path>,
) -> Result<Vec<String>> {
    let out = cache.join(format!("boot-{}", kernel.name));
    if let Some(package) = package {
        let unpacked = kernels::unpacked(cache, kernel)?;
        let work = cache.join(format!("work-boot-{}", kernel.name));
        let image =
            image(&work, &unpacked, (&which("busybox")?, "strip"), |_, _| root(&work, package))?;
        boot(&image, &work)?;
        image.extract(&out)?;
        let consoles = [work.join("first.log"), image.console];
        for (from, to) in consoles.iter().zip(["console-1.log", "console-2.log"]) {
            fs::copy(from, out.join(to))?;
        }
    }
    check::all(&out)
}

/// Twice: a machine that reboots is one that ends, as QEMU is asked.
fn boot(image: &Image, work: &Path) -> Result<()> {
    machine::run(image)?;
    fs::rename(&image.console, work.join("first.log")).context("the first boot's console")?;
    machine::run(image)
}

/// The tree of the disk: a Debian, the package, and the trial's units.
fn root(work: &Path, package: &Path) -> Result<PathBuf> {
    let (root, from) = (work.join("root"), repository().join("xtask/vm/boot"));
    container::debian(container::BOOKWORM, &service::folder(), &root)?;
    fs::copy(package, root.join("flightrec.deb")).context("the package")?;
    chroot(&root, &["dpkg", "--install", "/flightrec.deb"])?;
    fs::remove_file(root.join("flightrec.deb"))?;
    fs::copy(from.join("flightd.toml"), root.join("etc/flightrec/flightd.toml"))?;
    fs::copy(from.join("trial.sh"), root.join("boot-trial.sh"))?;
    for unit in UNITS {
        fs::copy(from.join(unit), root.join("etc/systemd/system").join(unit))?;
    }
    chroot(&root, &[&["systemctl", "enable", "flightd.service"], UNITS].concat())?;
    // There is no udev, which would tell systemd of the serial line, so that its login would be
    // waited for.
    chroot(&root, &["systemctl", "mask", "serial-getty@ttyS0.service"])?;
    fs::create_dir_all(root.join("out"))?;
    Ok(root)
}

/// Runs a command in it. systemd is not running there: units are enabled in files alone. `/proc`,
/// which `systemd-tmpfiles` needs, is mounted for this command only, and goes with it.
fn chroot(root: &Path, command: &[&str]) -> Result<()> {
    let script = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"";
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", script]).arg(root).args(command);
    read(shell.env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
}
