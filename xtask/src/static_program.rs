//! `cargo xtask static`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::command::{cargo, probe, repository, run};
use crate::reproducible::{self, rust_flags};

/// glibc's own target. For musl's, the `libc` crate lacks constants that `flightctl` names
/// (`MADV_COLLAPSE`, `UNAME26`, `PR_…`).
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Where it is, once it is built: beside manual pages and completions, where packages take things
/// from.
pub(crate) fn path() -> PathBuf {
    repository().join("target/static/flightctl")
}

/// Builds a `flightctl` without shared libraries, for crash kernels, and returns its path.
///
/// # Errors
/// Without glibc's static library: what to type.
pub(crate) fn flightctl() -> Result<PathBuf> {
    // gcc answers with the bare name where there is no such file.
    let library = probe(Command::new("gcc").arg("-print-file-name=libc.a")).unwrap_or_default();
    ensure!(
        library.starts_with('/'),
        "there is no static C library: apt-get install -y gcc libc6-dev"
    );
    let mut command = cargo();
    // With a target named, the flag reaches neither build scripts nor procedural macros.
    reproducible::placeless(&mut command)
        .env("CARGO_ENCODED_RUSTFLAGS", rust_flags(&["-Ctarget-feature=+crt-static"]));
    // A crash kernel has little memory, and no use for symbols.
    command.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    run(command
        .args(["build", "--release", "--locked", "--target", TARGET, "-p", "flightctl"])
        .arg("--no-default-features"))?;
    let program = path();
    fs::create_dir_all(repository().join("target/static"))?;
    fs::copy(repository().join("target").join(TARGET).join("release/flightctl"), &program)?;
    // ldd of a static program fails, or says so.
    let libraries = probe(Command::new("ldd").arg(&program)).unwrap_or_default();
    ensure!(!libraries.contains("=>"), "{} needs libraries: {libraries}", program.display());
    Ok(program)
}
