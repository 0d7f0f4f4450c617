//! `cargo xtask cross`: the programs for aarch64, built on another machine.
//!
//! rustup's compiler is used where it has the target's standard library (`rustup target add
//! aarch64-unknown-linux-gnu`). Else Debian's, with the library out of its package for arm64: of
//! the same version, and so of the same compiler. Programs are those of packages: they tell no path
//! of this machine, and need the C library that the cross compiler comes with, or a later one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::architecture::Architecture;
use anyhow::{Context, Result, bail, ensure};

use crate::apt::Apt;
use crate::architecture::target;
use crate::build;
use crate::command::{CROSS_GCC, cargo, probe, read, repository, run, tools};
use crate::reproducible::{placeless, rust_flags};
use crate::setup::{self, Scope};

/// What is built for.
const TARGET: &str = target(Architecture::Aarch64);
/// Debian's package of the library, and where its compiler is.
const LIBRARY: &str = "libstd-rust-web-dev";
const DEBIANS: &str = "/usr/bin/rustc";
/// What its own libraries are below, and those of a folder that `--sysroot` names.
const DEBIANS_LIBRARIES: &str = "/usr/lib/rustlib";
const LIBRARIES: &str = "lib/rustlib";

/// Where the programs are, once they are built.
pub fn programs() -> PathBuf {
    repository().join("target").join(TARGET).join("release")
}

/// Installs what it needs.
pub fn setup() -> Result<()> {
    setup::run(Scope::Cross)
}

/// Builds what `cargo xtask build` does.
pub fn build() -> Result<()> {
    setup()?;
    let packages = build::PROGRAMS.into_iter().flat_map(|name| ["-p", name]);
    run(command(&[])?.args(packages))
}

/// Builds the program of the system tests, for what it does in a machine; says where it is.
///
/// # Errors
/// What it needs can't be had, or it does not compile.
pub fn system_tests() -> Result<PathBuf> {
    run(command(&[])?.args(["-p", "flightrec-system-tests"]))?;
    Ok(programs().join("system-tests"))
}

/// Builds, and says where.
pub fn build_and_tell() -> Result<()> {
    build()?;
    println!("built: flightd, flightctl and flight-ship in {}", programs().display());
    Ok(())
}

/// `cargo build` of a release, for the target. `flags`: for the compiler, beside those that all
/// packages are built with.
pub fn command(flags: &[&str]) -> Result<Command> {
    if Architecture::HERE == Architecture::Aarch64 {
        bail!("this is an aarch64 machine: `cargo xtask build` builds for it");
    }
    let mut command = cargo();
    let mut flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    if !has_library(Path::new("rustc")) {
        flags.push(format!("--sysroot={}", sysroot()?.display()));
        command.env("RUSTC", DEBIANS);
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    // With a target named, flags reach neither build scripts nor procedural macros.
    placeless(&mut command).env("CARGO_ENCODED_RUSTFLAGS", rust_flags(&flags));
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", CROSS_GCC);
    command.args(["build", "--release", "--locked", "--target", TARGET]);
    Ok(command)
}

/// Whether a compiler has the target's standard library.
fn has_library(rustc: &Path) -> bool {
    // The folder is named even where the target isn't installed.
    let folder = probe(Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]));
    folder.is_some_and(|folder| has_std(Path::new(&folder)))
}

fn has_std(folder: &Path) -> bool {
    let Ok(files) = fs::read_dir(folder) else { return false };
    files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
}

/// A folder with what Debian's compiler has, and the target's library beside.
fn sysroot() -> Result<PathBuf> {
    let version = read(Command::new("dpkg-query").args(["-W", "-f", "${Version}", "rustc-web"]))
        .context("neither rustup's compiler has the target, nor is Debian's rustc-web there")?;
    let folder = tools().join(format!("aarch64-{}", version.trim()));
    let libraries = folder.join(LIBRARIES);
    if !has_std(&libraries.join(TARGET).join("lib")) {
        println!("cross: fetching {LIBRARY} {} for arm64", version.trim());
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let package = folder.join("package");
        let apt = Apt::new(&tools().join("apt-arm64"), Architecture::Aarch64)?;
        apt.unpack(&format!("{LIBRARY}={}", version.trim()), &package)?;
        fs::create_dir_all(&libraries)?;
        for entry in fs::read_dir(DEBIANS_LIBRARIES)? {
            let path = entry?.path();
            symlink(&path, libraries.join(path.file_name().context("a file without a name")?))?;
        }
        let unpacked = package.join("usr/lib/rustlib").join(TARGET);
        ensure!(has_std(&unpacked.join("lib")), "{LIBRARY} has no library for {TARGET}");
        symlink(unpacked, libraries.join(TARGET))?;
    }
    Ok(folder)
}
