//! `cargo xtask deb`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::command::{lint, read};
use crate::reproducible::timed;
use crate::{build, static_program, tool};

/// Version of cargo-deb: what packaging was tried with.
const CARGO_DEB: &str = "3.8.0";

/// Builds programs, manual pages and completions, and packs them:
/// target/debian/flightrec_VERSION_ARCH.deb, which it returns.
///
/// # Errors
/// Whatever a step says; cargo-deb is built into target/tools first where it is missing (it needs
/// the registry then).
pub(crate) fn run(version: Option<&str>) -> Result<PathBuf> {
    build::for_packages()?;
    let mut deb = Command::new(tool::install("cargo-deb", CARGO_DEB, &[])?);
    // What cargo passes to its subcommands.
    deb.arg("deb");
    deb.args(["-p", "flightd", "--no-build", "--locked", "--strip"]);
    match static_program::flightctl() {
        Ok(_) => {
            deb.args(["--variant", "static"]);
        }
        Err(why) => println!(
            "deb: left out: the crash kernel's own flightctl (it takes the system's): {why:#}"
        ),
    }
    if let Some(version) = version {
        deb.args(["--deb-version", version]);
    }
    // Its output is the package's path.
    let package = PathBuf::from(read(timed(&mut deb)?)?.trim());
    lint("deb", Command::new("lintian").args(["--fail-on", "error"]).arg(&package))?;
    Ok(package)
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
