//! `cargo xtask vm --boot`: the package in a Debian that boots, is recorded from early on, and
//! boots again.
//!
//! The disk is a whole Debian with the package installed and its service enabled, as an
//! administrator does both; the initrd only finds the disk. After `multi-user.target` a unit keeps
//! what systemd and `flightctl` say (`tests/system/vm/boot/trial.sh`), and reboots; the second time it
//! asks for the boot before, too. What must be true of it is [`check`].
//!
//! Debian for arm64 is made by its own programs, which this machine emulates ([`Foreign`]). There,
//! the package is purged after the second boot, and then comes and goes as `cargo xtask bare` has
//! it, which needs a kernel of this machine and so can't be had for another one.

mod check;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::unistd::geteuid;
use xtask::architecture::Architecture;

use super::image::{Image, image, which};
use super::{aarch64, kernels, machine};
use crate::service::{self, container};
use xtask::command::{CROSS_STRIP, read, repository, run};
use xtask::foreign::Foreign;
use xtask::setup::{self, Scope};
use xtask::{cross, deb};

/// Units of the trial, in `tests/system/vm/boot`.
const UNITS: &[&str] = &["early.service", "late.service", "trial.service"];

/// Builds the package; what it is tried in is made where it is missing.
pub(super) fn package(architecture: Architecture) -> Result<PathBuf> {
    ensure!(geteuid().is_root(), "vm: the Debian that boots is made as root");
    if architecture == Architecture::X86_64 {
        setup::run(Scope::Service)?;
    }
    deb::run(None, architecture)
}

/// One kernel's two boots with that package, and the checks; without a package, the checks of what
/// the last run left. What was found, for people.
pub(super) fn one(
    cache: &Path,
    architecture: Architecture,
    kernel: &kernels::Kernel,
    package: Option<&Path>,
) -> Result<Vec<String>> {
    let out = cache.join(format!("boot-{}", kernel.name));
    if let Some(package) = package {
        let unpacked = kernels::unpacked(cache, kernel)?;
        let work = cache.join(format!("work-boot-{}", kernel.name));
        let image = match architecture {
            Architecture::X86_64 => {
                image(&work, &unpacked, (&which("busybox")?, "strip"), |_, _| {
                    root(&work, package, &service::folder(), architecture)
                })?
            }
            Architecture::Aarch64 => {
                image(&work, &unpacked, (&aarch64::busybox(cache)?, CROSS_STRIP), |_, _| {
                    let _foreign = Foreign::new()?;
                    let root = root(&work, package, cache, architecture)?;
                    bare(&root, package)?;
                    Ok(root)
                })?
            }
        };
        boot(&image, &work, architecture)?;
        image.extract(&out)?;
        let consoles = [work.join("first.log"), image.console];
        for (from, to) in consoles.iter().zip(["console-1.log", "console-2.log"]) {
            fs::copy(from, out.join(to))?;
        }
    }
    check::all(&out, architecture == Architecture::Aarch64)
}

/// Twice: a machine that reboots is one that ends, as QEMU is asked.
fn boot(image: &Image, work: &Path, architecture: Architecture) -> Result<()> {
    let run = match architecture {
        Architecture::X86_64 => machine::run,
        Architecture::Aarch64 => machine::run_aarch64,
    };
    run(image)?;
    fs::rename(&image.console, work.join("first.log")).context("the first boot's console")?;
    run(image)
}

/// The tree of the disk: a Debian, kept in `folder`, the package, and the trial's units.
fn root(work: &Path, package: &Path, folder: &Path, architecture: Architecture) -> Result<PathBuf> {
    let (root, from) = (work.join("root"), repository().join("tests/system/vm/boot"));
    container::debian(container::BOOKWORM, architecture, folder, &root)?;
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
    let line = match architecture {
        Architecture::X86_64 => "serial-getty@ttyS0.service",
        Architecture::Aarch64 => "serial-getty@ttyAMA0.service",
    };
    chroot(&root, &["systemctl", "mask", line])?;
    fs::create_dir_all(root.join("out"))?;
    Ok(root)
}

/// What installs and purges the package again, and compares, where `trial.sh` finds it: this
/// program, and the package.
fn bare(root: &Path, package: &Path) -> Result<()> {
    let to = root.join(container::INSIDE.trim_start_matches('/'));
    fs::create_dir_all(&to)?;
    let name = package.file_name().context("a package without a name")?;
    fs::copy(package, to.join(name)).context("a copy of the package")?;
    run(Command::new(CROSS_STRIP)
        .arg("-o")
        .arg(to.join("system-tests"))
        .arg(cross::system_tests()?))
}

/// Runs a command in it. systemd is not running there: units are enabled in files alone. `/proc`,
/// which `systemd-tmpfiles` needs, is mounted for this command only, and goes with it.
fn chroot(root: &Path, command: &[&str]) -> Result<()> {
    let script = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"";
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", script]).arg(root).args(command);
    read(shell.env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
}
