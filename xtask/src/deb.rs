//! `cargo xtask deb`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, lint, probe, read, run as run_command, tools};
use crate::reproducible::timed;
use crate::{build, static_program};

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
    if !is_there() {
        println!("deb: building cargo-deb {CARGO_DEB} (some minutes)");
        run_command(
            cargo()
                .args([
                    "install",
                    "cargo-deb",
                    "--version",
                    CARGO_DEB,
                    "--locked",
                    "--force",
                    "--root",
                ])
                .arg(tools()),
        )?;
    }
    let mut deb = cargo_deb();
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

fn cargo_deb() -> Command {
    let mut command = Command::new(tools().join("bin/cargo-deb"));
    // What cargo passes to its subcommands.
    command.arg("deb");
    command
}

fn is_there() -> bool {
    probe(Command::new(tools().join("bin/cargo-deb")).arg("--version"))
        .is_some_and(|version| version.split_whitespace().last() == Some(CARGO_DEB))
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
