//! `cargo xtask deb`.

use std::path::PathBuf;
use std::process::Command;

use crate::architecture::Architecture;
use anyhow::{Context, Result, ensure};

use crate::architecture::target;
use crate::command::{CROSS_STRIP, lint, read};
use crate::reproducible::timed;
use crate::{build, cross, elf, static_program, tool};

/// Version of cargo-deb: what packaging was tried with.
const CARGO_DEB: &str = "3.8.0";

/// The glibc that the package for another machine asks for: `depends` in daemon/Cargo.toml.
const CROSS_GLIBC: (u32, u32) = (2, 34);

/// Builds programs, manual pages and completions, and packs them:
/// target/debian/flightrec_VERSION_ARCH.deb, which it returns.
///
/// # Errors
/// Whatever a step says; cargo-deb is built into target/tools first where it is missing (it needs
/// the registry then).
pub fn run(version: Option<&str>, architecture: Architecture) -> Result<PathBuf> {
    // Manual pages and completions are the same for every machine.
    build::for_packages()?;
    let mut deb = Command::new(tool::install("cargo-deb", CARGO_DEB, &[])?);
    // What cargo passes to its subcommands.
    deb.arg("deb");
    deb.args(["-p", "flightd", "--no-build", "--locked", "--strip"]);
    if architecture == Architecture::HERE {
        here(&mut deb);
    } else {
        cross(&mut deb, architecture)?;
    }
    if let Some(version) = version {
        deb.args(["--deb-version", version]);
    }
    // Its output is the package's path.
    let package = PathBuf::from(read(timed(&mut deb)?)?.trim());
    lint("deb", Command::new("lintian").args(["--fail-on", "error"]).arg(&package))?;
    Ok(package)
}

/// For this machine.
fn here(deb: &mut Command) {
    match static_program::flightctl(Architecture::HERE) {
        Ok(_) => {
            deb.args(["--variant", "static"]);
        }
        Err(why) => println!(
            "deb: left out: the crash kernel's own flightctl (it takes the system's): {why:#}"
        ),
    }
}

/// For another one, whose programs are built first.
fn cross(deb: &mut Command, architecture: Architecture) -> Result<()> {
    cross::setup()?;
    // Cargo puts either flightctl in the same place, so the one of packages comes last.
    static_program::flightctl(architecture)?;
    cross::build()?;
    for name in ["flightd", "flightctl", "flight-ship"] {
        let glibc = elf::glibc(&cross::programs().join(name))?;
        let (major, minor) = glibc.with_context(|| format!("{name} needs no glibc"))?;
        ensure!(
            (major, minor) <= CROSS_GLIBC,
            "{name} needs glibc {major}.{minor}, and the package asks for {CROSS_GLIBC:?}"
        );
    }
    deb.args(["--target", target(architecture), "--variant", architecture.name()]);
    deb.env("STRIP_aarch64-linux-gnu", CROSS_STRIP);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_changelog_has_the_version_of_the_programs() {
        let changelog = include_str!("../../packaging/deb/changelog");
        let version = concat!("flightrec (", env!("CARGO_PKG_VERSION"), "-1) ");
        assert!(changelog.starts_with(version), "{changelog}");
    }
}
