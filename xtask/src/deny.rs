//! `cargo xtask deny`: licences, bans and sources always, advisories where there is a network.

use std::process::Command;

use anyhow::Result;

use crate::command::{probe, repository, run as run_command};
use crate::tool;

/// What is installed; it takes minutes to compile, so only this command asks for it.
const VERSION: &str = "0.20.2";

/// Checks by cargo-deny, as .cargo/deny.toml says.
pub(crate) fn run() -> Result<()> {
    let program = tool::install("cargo-deny", VERSION, &[])?;
    let deny = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(repository()).args(args).args(["--config", ".cargo/deny.toml"]);
        command
    };
    let offline = ["licenses", "bans", "sources"];
    run_command(deny(&["check"]).args(offline))?;
    // The probes are outside the workspace, and need only some of its exceptions.
    let probes = [
        "--manifest-path",
        "probes-ebpf/Cargo.toml",
        "check",
        "-A",
        "license-exception-not-encountered",
    ];
    run_command(deny(&probes).args(offline))?;
    // The database is fetched apart, so that "no network" is told from "has a vulnerability".
    if probe(&mut deny(&["fetch", "db"])).is_none() {
        println!(
            "deny: advisories NOT checked: the advisory database can't be fetched (no network?)"
        );
        return Ok(());
    }
    run_command(&mut deny(&["check", "--disable-fetch", "advisories"]))
}
