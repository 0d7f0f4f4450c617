//! `cargo xtask tarball`: what the Debian package has, for machines with another way to keep
//! packages, with an installer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::architecture::Architecture;
use anyhow::{Context, Result};

use crate::architecture::of_debians;
use crate::command::{lint, read, repository, run as run_command};
use crate::reproducible::time;
use crate::setup::{self, Scope};
use crate::{deb, elf};

/// The installer, below the repository.
const INSTALLER: &str = "packaging/tarball/install.sh";

/// How the tarball's name ends.
const ENDING: &str = ".tar.gz";

/// What is called otherwise than in Debian: zsh itself looks in this folder.
const RENAMED: [(&str, &str); 1] =
    [("usr/share/zsh/vendor-completions", "usr/share/zsh/site-functions")];

/// What Debian's package has for Debian alone.
const DEBIANS: [&str; 2] =
    ["usr/share/doc/flightrec/changelog.Debian.gz", "usr/share/doc/flightrec/copyright"];

/// What it has for Debian's linter, on some machines.
const OVERRIDES: &str = "usr/share/lintian";

/// What that package lacks: where it goes, what it is, and its mode. Debian's kdump has no dracut.
const MORE: [(&str, &str, &str); 4] = [
    ("usr/lib/dracut/modules.d/99flightrec/", "packaging/kdump/module-setup.sh", "0755"),
    ("usr/lib/dracut/modules.d/99flightrec/", "packaging/kdump/pre-dump.sh", "0755"),
    ("usr/share/doc/flightrec/", "LICENSE-MIT", "0644"),
    ("usr/share/doc/flightrec/", "LICENSE-APACHE", "0644"),
];

/// Makes the Debian package of this machine and packs what it has.
///
/// # Errors
/// Whatever a step says.
pub fn run(architecture: Architecture) -> Result<PathBuf> {
    setup::run(Scope::Package)?;
    of_package(&deb::run(None, architecture)?)
}

/// Packs what a Debian package has: target/tarball/flightrec-VERSION-ARCH.tar.gz, which it returns.
///
/// # Errors
/// Whatever a step says.
pub fn of_package(package: &Path) -> Result<PathBuf> {
    setup::run(Scope::Package)?;
    lint("tarball", Command::new("shellcheck").arg(repository().join(INSTALLER)))?;
    let debians = read(Command::new("dpkg-deb").arg("-f").arg(package).arg("Architecture"))?;
    let architecture = of_debians(debians.trim())?;
    let folder = repository().join("target/tarball");
    clear(&folder, architecture)?;
    let name = name(architecture);
    let tree = folder.join(&name);
    fs::create_dir_all(&tree).with_context(|| tree.display().to_string())?;
    arrange(package, &tree, architecture)?;
    let tarball = folder.join(name + ENDING);
    pack(&tree, &tarball)?;
    fs::remove_dir_all(&tree).with_context(|| tree.display().to_string())?;
    Ok(tarball)
}

/// What the tarball's only directory is called, and the tarball but for its ending.
fn name(architecture: Architecture) -> String {
    format!("flightrec-{}-{}", env!("CARGO_PKG_VERSION"), architecture.name())
}

/// Removes what earlier runs left for this machine.
fn clear(folder: &Path, architecture: Architecture) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.trim_end_matches(ENDING).ends_with(&format!("-{}", architecture.name())) {
            let removed =
                if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Has the package's files in `tree`: `prefix/…`, `etc/…`, and the installer above them.
fn arrange(package: &Path, tree: &Path, architecture: Architecture) -> Result<()> {
    run_command(Command::new("dpkg-deb").arg("-x").arg(package).arg(tree))?;
    for path in DEBIANS {
        fs::remove_file(tree.join(path)).with_context(|| format!("the package's {path}"))?;
    }
    let overrides = tree.join(OVERRIDES);
    if overrides.exists() {
        fs::remove_dir_all(&overrides).with_context(|| overrides.display().to_string())?;
    }
    for (from, to) in RENAMED {
        fs::rename(tree.join(from), tree.join(to))
            .with_context(|| format!("the package's {from}"))?;
    }
    for (to, file, mode) in MORE {
        let mut install = Command::new("install");
        install.current_dir(repository()).args(["-D", "-m", mode, "-t"]).arg(tree.join(to));
        run_command(install.arg(file))?;
    }
    let mut install = Command::new("install");
    install.current_dir(repository()).args(["-m", "0755", INSTALLER]);
    run_command(install.arg(tree))?;
    fs::rename(tree.join("usr"), tree.join("prefix")).context("the package's usr")?;
    // Once it is installed, it can remove what it has installed.
    fs::copy(tree.join("install.sh"), tree.join("prefix/lib/flightrec/install.sh"))
        .context("a copy of the installer")?;
    let mut glibc = Vec::new();
    for entry in fs::read_dir(tree.join("prefix/bin")).context("the package's programs")? {
        glibc.extend(elf::glibc(&entry?.path())?);
    }
    let (major, minor) = glibc.into_iter().max().context("programs that need no glibc")?;
    let needs = format!("{} and glibc {major}.{minor} or later\n", architecture.name());
    fs::write(tree.join("needs"), needs).context("needs")
}

/// Packs a directory, so that the same files are the same bytes.
fn pack(tree: &Path, tarball: &Path) -> Result<()> {
    let (folder, name) = (tree.parent().context("a tree")?, tree.file_name().context("a tree")?);
    let tar = tarball.with_extension("");
    let mut pack = Command::new("tar");
    pack.args(["--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    pack.args(["--mode=u=rwX,go=rX", &format!("--mtime=@{}", time()?), "-C"]).arg(folder);
    run_command(pack.arg("-cf").arg(&tar).arg(name))?;
    // Neither the file's name nor its time is in what it makes.
    run_command(Command::new("gzip").args(["-9n", "--force"]).arg(&tar))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_machines_tarball_does_not_remove_anothers() {
        let dir = tempfile::tempdir().unwrap();
        let [here, there] = [Architecture::X86_64, Architecture::Aarch64].map(|machine| {
            let tarball = dir.path().join(name(machine) + ENDING);
            fs::write(&tarball, "").unwrap();
            fs::create_dir(dir.path().join(name(machine))).unwrap();
            tarball
        });
        let old = dir.path().join("flightrec-0.0.1-aarch64.tar.gz");
        fs::write(&old, "").unwrap();
        clear(dir.path(), Architecture::Aarch64).unwrap();
        assert!(here.exists() && !there.exists() && !old.exists());
        assert!(dir.path().join(name(Architecture::X86_64)).exists());
        assert!(!dir.path().join(name(Architecture::Aarch64)).exists());
        clear(&dir.path().join("missing"), Architecture::Aarch64).unwrap();
    }

    #[test]
    fn the_same_files_are_the_same_bytes_whenever_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let packed = |part: &str, names: [&str; 2], age: u64| {
            let folder = dir.path().join(part);
            fs::create_dir_all(folder.join("x")).unwrap();
            for name in names {
                let file = fs::File::create(folder.join("x").join(name)).unwrap();
                file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
            }
            let tarball = folder.join("x.tar.gz");
            pack(&folder.join("x"), &tarball).unwrap();
            fs::read(tarball).unwrap()
        };
        let first = packed("1", ["a", "b"], 1000);
        assert_eq!(first, packed("2", ["b", "a"], 5));
        assert_ne!(first, packed("3", ["b", "c"], 5));
    }

    #[test]
    fn a_person_can_read_the_installer() {
        let installer = include_str!("../../packaging/tarball/install.sh");
        assert!(installer.lines().count() < 180);
        assert!(installer.contains("\nset -eu\n"));
        for fetcher in ["curl", "wget", "http:", "https:", "ftp", "apt", "dnf"] {
            assert!(!installer.contains(fetcher), "{fetcher}");
        }
    }
}
