//! Tools that one task alone needs: installed when it asks for them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, probe, run, tools};

/// The program of a crate in exactly this version, which is compiled into target/tools if it is not
/// there. The program has the crate's name. `features`: arguments of `cargo install` that select
/// them.
pub(crate) fn install(name: &str, version: &str, features: &[&str]) -> Result<PathBuf> {
    let program = tools().join("bin").join(name);
    // Some that are made for cargo answer only as its subcommand.
    let subcommand = name.strip_prefix("cargo-").unwrap_or_default();
    let found = probe(Command::new(&program).arg("--version"))
        .or_else(|| probe(Command::new(&program).args([subcommand, "--version"])))
        .unwrap_or_default();
    // Some write `v` before it.
    let is_there = found.split_whitespace().last().map(|word| word.trim_start_matches('v'));
    if is_there != Some(version) {
        println!("installing {name} {version} into target/tools; this takes some minutes");
        let mut command = cargo();
        command.args(["install", name, "--version", version, "--locked", "--force"]);
        run(command.args(features).arg("--root").arg(tools()))?;
    }
    Ok(program)
}
