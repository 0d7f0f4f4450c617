//! `cargo xtask man`.

use anyhow::Result;

use crate::command;
use crate::setup::{self, Scope};

/// Makes manual pages and completions from the programs' own definitions, and says where they are.
pub(crate) fn run() -> Result<()> {
    setup::run(Scope::Build)?;
    command::run(command::cargo().args([
        "run",
        "--quiet",
        "--locked",
        "-p",
        "flightrec-manual",
        "--",
        "target",
    ]))?;
    println!("made: target/man (`man -l target/man/flightctl.1` shows a page), target/completions");
    Ok(())
}
