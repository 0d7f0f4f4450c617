//! `cargo xtask rpm`.

use std::path::PathBuf;
use std::process::Command;

use crate::architecture::Architecture;
use anyhow::{Result, ensure};

use crate::command::{lint, read, repository};
use crate::reproducible::timed;
use crate::setup::{self, Scope};
use crate::{build, static_program};

/// The package's description, below the repository.
const SPEC: &str = "packaging/rpm/flightrec.spec";

/// What rpmbuild does so that it makes the same package each time: times are those of
/// `SOURCE_DATE_EPOCH`, and the machine has no name.
const SAME: [&str; 3] = [
    "use_source_date_epoch_as_buildtime 1",
    "clamp_mtime_to_source_date_epoch 1",
    "_buildhost reproducible",
];

/// Builds programs, manual pages and completions, and packs them as `packaging/rpm/flightrec.spec`
/// says: target/rpm/RPMS/ARCH/flightrec-VERSION.ARCH.rpm, which it returns.
///
/// # Errors
/// Whatever a step says.
pub fn run() -> Result<PathBuf> {
    setup::run(Scope::Package)?;
    build::for_packages()?;
    static_program::flightctl(Architecture::HERE)?;
    let top = format!("_topdir {}", repository().join("target/rpm").display());
    let rpmbuild = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.current_dir(repository()).args(args).args(["--define", &top]);
        for define in SAME {
            command.args(["--define", define]);
        }
        read(timed(command.arg(SPEC))?)
    };
    // Its dependencies are the distribution's names, which another one's database does not know.
    rpmbuild("rpmbuild", &["-bb", "--build-in-place", "--nodeps", "--quiet"])?;
    let name =
        rpmbuild("rpmspec", &["-q", "--queryformat", "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm"])?;
    let package =
        repository().join("target/rpm/RPMS").join(std::env::consts::ARCH).join(name.trim());
    ensure!(package.exists(), "rpm: rpmbuild has not made {}", package.display());
    let lints = repository().join("packaging/rpm/rpmlint.toml");
    lint("rpm", Command::new("rpmlint").arg("--config").arg(lints).arg(&package))?;
    Ok(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spec_has_the_version_of_the_programs() {
        let spec = std::fs::read_to_string(repository().join(SPEC)).expect("the spec");
        let version = spec.lines().find_map(|line| line.strip_prefix("Version:")).map(str::trim);
        assert_eq!(version, Some(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn the_spec_has_every_unit() {
        let spec = std::fs::read_to_string(repository().join(SPEC)).expect("the spec");
        let units = std::fs::read_dir(repository().join("packaging/systemd")).expect("the units");
        for unit in units {
            let name = unit.expect("an entry").file_name().into_string().expect("a name");
            assert!(spec.contains(&format!("packaging/systemd/{name}")), "{name}");
        }
    }
}
