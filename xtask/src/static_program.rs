//! `cargo xtask static`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::architecture::Architecture;
use anyhow::{Result, ensure};

use crate::architecture::target;
use crate::command::{cargo, probe, repository, run};
use crate::reproducible::{placeless, rust_flags};
use crate::{cross, elf};

/// Links the C library into the program.
const STATIC: &str = "-Ctarget-feature=+crt-static";

/// Where it is, once it is built: beside manual pages and completions, where packages take things
/// from.
pub fn path(architecture: Architecture) -> PathBuf {
    let target = repository().join("target");
    if architecture == Architecture::HERE {
        target.join("static/flightctl")
    } else {
        target.join("static").join(architecture.name()).join("flightctl")
    }
}

/// Builds a `flightctl` without shared libraries, for crash kernels of a machine, and returns its
/// path.
///
/// # Errors
/// Without glibc's static library: what to type.
pub fn flightctl(architecture: Architecture) -> Result<PathBuf> {
    let mut command = if architecture == Architecture::HERE {
        here(target(architecture))?
    } else {
        cross::command(&[STATIC])?
    };
    // A crash kernel has little memory, and no use for symbols.
    command.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    run(command.args(["-p", "flightctl", "--no-default-features"]))?;
    let program = path(architecture);
    let built = repository().join("target").join(target(architecture)).join("release/flightctl");
    fs::create_dir_all(program.with_file_name(""))?;
    fs::copy(built, &program)?;
    let libraries = elf::libraries(&program)?;
    ensure!(libraries.is_empty(), "{} needs {}", program.display(), libraries.join(", "));
    Ok(program)
}

fn here(target: &str) -> Result<Command> {
    // gcc answers with the bare name where there is no such file.
    let library = probe(Command::new("gcc").arg("-print-file-name=libc.a")).unwrap_or_default();
    ensure!(
        library.starts_with('/'),
        "there is no static C library: apt-get install -y gcc libc6-dev"
    );
    let mut command = cargo();
    // With a target named, the flag reaches neither build scripts nor procedural macros.
    placeless(&mut command).env("CARGO_ENCODED_RUSTFLAGS", rust_flags(&[STATIC]));
    command.args(["build", "--release", "--locked", "--target", target]);
    Ok(command)
}
