//! `cargo xtask arch`: makes Arch Linux's package of the tarball by packaging/arch/PKGBUILD, and
//! checks what is in it. makepkg takes no root, so root has it done by nobody.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::architecture::Architecture;
use anyhow::{Context, Result, ensure};
use nix::unistd::geteuid;

use crate::command::{read, repository, run as run_command};
use crate::reproducible::timed;
use crate::setup::{self, Scope};
use crate::tarball;

/// The recipe and its script, below the repository.
const RECIPE: &str = "packaging/arch";
/// Who makes it if root asks for it: nobody, on every distribution.
const NOBODY: u32 = 65534;

/// Makes the tarball, or takes this one, and a package of it: target/arch/….pkg.tar.gz, which it
/// returns.
///
/// # Errors
/// Whatever a step says; a file that only one of the two has.
pub(crate) fn run(tarball: Option<PathBuf>) -> Result<PathBuf> {
    setup::run(Scope::Arch)?;
    let tarball = tarball.map_or_else(|| tarball::run(Architecture::HERE), Ok)?;
    let folder = repository().join("target/arch");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("target/arch")?;
    }
    // Not below the repository, which nobody may have no access to.
    let work = tempfile::tempdir().context("a folder to work in")?;
    let place = |file: &Path| -> Result<()> {
        let name = file.file_name().context("a file without a name")?;
        fs::copy(file, work.path().join(name)).with_context(|| file.display().to_string())?;
        Ok(())
    };
    place(&tarball)?;
    for entry in fs::read_dir(repository().join(RECIPE)).context(RECIPE)? {
        place(&entry?.path())?;
    }
    let mut makepkg = Command::new("setpriv");
    if geteuid().is_root() {
        chown(work.path(), Some(NOBODY), Some(NOBODY)).context("a folder for nobody")?;
        makepkg.args(["reuid", "regid"].map(|id| format!("--{id}={NOBODY}"))).arg("--clear-groups");
    }
    makepkg.current_dir(work.path()).args(["makepkg", "--nodeps"]);
    // There is no database of pacman's here that it could ask.
    makepkg.env("PACMAN", "true").env("HOME", work.path()).env("PKGEXT", ".pkg.tar.gz");
    run_command(timed(makepkg.env("CARCH", std::env::consts::ARCH))?)?;
    let mut files_there = fs::read_dir(work.path())?.filter_map(|entry| Some(entry.ok()?.path()));
    let made = files_there.find(|path| path.to_string_lossy().ends_with(".pkg.tar.gz"));
    let made = made.context("makepkg has made no package")?;
    let list = |of: &Path| read(Command::new("tar").arg("-tzf").arg(of));
    let (wanted, packed) = (expected(&list(&tarball)?), files(&list(&made)?));
    let differ: Vec<&String> = wanted.symmetric_difference(&packed).collect();
    ensure!(differ.is_empty(), "arch: only in one of tarball and package: {differ:?}");
    println!("arch: {} files, as in the tarball", packed.len());
    fs::create_dir_all(&folder).context("target/arch")?;
    let package = folder.join(made.file_name().context("a package without a name")?);
    fs::copy(&made, &package).context("the package")?;
    Ok(package)
}

/// The files of a package, out of `tar`'s list, without those that are makepkg's own.
fn files(list: &str) -> BTreeSet<String> {
    let files = list.lines().filter(|path| !path.ends_with('/') && !path.starts_with('.'));
    files.map(str::to_owned).collect()
}

/// What a package of the tarball with this list must have.
fn expected(list: &str) -> BTreeSet<String> {
    let below = list.lines().filter_map(|path| Some(path.split_once('/')?.1));
    let files = below.filter(|path| !path.is_empty() && !path.ends_with('/'));
    let files = files.filter_map(|path| {
        let name = path.rsplit('/').next().unwrap_or(path);
        match path.strip_prefix("prefix/") {
            Some("lib/flightrec/install.sh") => None,
            Some(_) if name.starts_with("LICENSE-") => {
                Some(format!("usr/share/licenses/flightrec-bin/{name}"))
            }
            Some(rest) => Some(format!("usr/{rest}")),
            None => path.starts_with("etc/").then(|| path.to_owned()),
        }
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_what_the_tarball_has_but_for_its_installer() {
        let tarball = "f-1/\nf-1/install.sh\nf-1/needs\nf-1/prefix/bin/flightd\n\
                       f-1/prefix/lib/flightrec/install.sh\nf-1/etc/flightrec/flightd.toml\n\
                       f-1/prefix/share/doc/flightrec/LICENSE-MIT\n";
        let package = ".MTREE\n.PKGINFO\nusr/\nusr/bin/flightd\netc/flightrec/flightd.toml\n\
                       usr/share/licenses/flightrec-bin/LICENSE-MIT\n";
        assert_eq!(expected(tarball), files(package));
        assert_eq!(files(package).len(), 3);
    }

    #[test]
    fn the_recipe_has_the_version_of_the_programs() {
        let recipe = include_str!("../../packaging/arch/PKGBUILD");
        let version = concat!("pkgver=", env!("CARGO_PKG_VERSION"));
        assert!(recipe.lines().any(|line| line == version), "{recipe}");
    }
}
