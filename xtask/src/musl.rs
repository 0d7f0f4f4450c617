//! `cargo xtask static`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::command::{cargo, probe, repository, run};

/// The target whose programs need no shared library.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// Builds a `flightctl` without shared libraries, for crash kernels, and returns its path.
///
/// # Errors
/// Where the target or musl's C compiler (for libzstd) can't be had: what to type.
pub(crate) fn flightctl() -> Result<PathBuf> {
    ensure!(
        probe(Command::new("which").arg("musl-gcc")).is_some(),
        "there is no musl-gcc: apt-get install -y musl-tools"
    );
    let installed = probe(Command::new("rustup").args(["target", "list", "--installed"])).unwrap_or_default();
    if !installed.lines().any(|target| target == TARGET) {
        run(Command::new("rustup").args(["target", "add", TARGET]))?;
    }
    run(cargo().args(["build", "--release", "--locked", "--target", TARGET, "-p", "flightctl"]))?;
    let program = repository().join("target").join(TARGET).join("release/flightctl");
    // ldd of a static program fails, or says so.
    let libraries = probe(Command::new("ldd").arg(&program)).unwrap_or_default();
    ensure!(!libraries.contains("=>"), "{} needs libraries: {libraries}", program.display());
    Ok(program)
}
