//! `cargo xtask tarball`: what the Debian package has, for machines with another way to keep
//! packages, with an installer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{lint, read, repository, run as run_command};
use crate::deb;
use crate::reproducible::time;
use crate::setup::{self, Scope};

/// The installer, below the repository.
const INSTALLER: &str = "packaging/tarball/install.sh";

/// What is called otherwise than in Debian: zsh itself looks in this folder.
const RENAMED: [(&str, &str); 1] =
    [("usr/share/zsh/vendor-completions", "usr/share/zsh/site-functions")];

/// What Debian's package has for Debian alone.
const DEBIANS: [&str; 2] =
    ["usr/share/doc/flightrec/changelog.Debian.gz", "usr/share/doc/flightrec/copyright"];

/// What that package lacks: where it goes, what it is, and its mode. Debian's kdump has no dracut.
const MORE: [(&str, &str, &str); 4] = [
    ("usr/lib/dracut/modules.d/99flightrec/", "packaging/kdump/module-setup.sh", "0755"),
    ("usr/lib/dracut/modules.d/99flightrec/", "packaging/kdump/pre-dump.sh", "0755"),
    ("usr/share/doc/flightrec/", "LICENSE-MIT", "0644"),
    ("usr/share/doc/flightrec/", "LICENSE-APACHE", "0644"),
];

/// Makes the Debian package and packs what it has, or what the one that is given has:
/// target/tarball/flightrec-VERSION-ARCH.tar.gz, which it returns.
///
/// # Errors
/// Whatever a step says.
pub(crate) fn run(package: Option<PathBuf>) -> Result<PathBuf> {
    setup::run(Scope::Package)?;
    lint("tarball", Command::new("shellcheck").arg(repository().join(INSTALLER)))?;
    let package = package.map_or_else(|| deb::run(None), Ok)?;
    let folder = repository().join("target/tarball");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("target/tarball")?;
    }
    let name = format!("flightrec-{}-{}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let tree = folder.join(&name);
    fs::create_dir_all(&tree).with_context(|| tree.display().to_string())?;
    arrange(&package, &tree)?;
    let tarball = folder.join(format!("{name}.tar.gz"));
    pack(&folder, &name, &tarball)?;
    fs::remove_dir_all(&tree).with_context(|| tree.display().to_string())?;
    Ok(tarball)
}

/// Has the package's files in `tree`: `prefix/…`, `etc/…`, and the installer above them.
fn arrange(package: &Path, tree: &Path) -> Result<()> {
    run_command(Command::new("dpkg-deb").arg("-x").arg(package).arg(tree))?;
    for path in DEBIANS {
        fs::remove_file(tree.join(path)).with_context(|| format!("the package's {path}"))?;
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
        let symbols = read(Command::new("objdump").arg("-T").arg(entry?.path()))?;
        glibc.extend(needed_glibc(&symbols));
    }
    let (major, minor) = glibc.into_iter().max().context("programs that need no glibc")?;
    let needs = format!("{} and glibc {major}.{minor} or later\n", std::env::consts::ARCH);
    fs::write(tree.join("needs"), needs).context("needs")
}

/// The newest version of glibc that one of these symbols is of, as `objdump -T` prints them.
fn needed_glibc(symbols: &str) -> Option<(u32, u32)> {
    let words = symbols.split(|c: char| c.is_whitespace() || c == '(' || c == ')');
    let versions = words.filter_map(|word| word.strip_prefix("GLIBC_"));
    let numbers = versions.filter_map(|version| {
        let mut parts = version.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    });
    numbers.max()
}

/// Packs `folder/name`, so that the same files are the same bytes.
fn pack(folder: &Path, name: &str, tarball: &Path) -> Result<()> {
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
    fn the_newest_symbol_says_which_glibc_is_needed() {
        let symbols = "0000 DF *UND* 0 (GLIBC_2.4) a\n0000 DF *UND* 0 (GLIBC_2.34) b\n\
                       0000 DF *UND* 0 (GLIBC_2.2.5) c\n0000 DF *UND* 0 (GCC_3.0) d\n";
        assert_eq!(needed_glibc(symbols), Some((2, 34)));
        assert_eq!(needed_glibc("0000 g D .data 0 Base x\n"), None);
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
            pack(&folder, "x", &tarball).unwrap();
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
