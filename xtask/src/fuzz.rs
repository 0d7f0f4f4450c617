//! `cargo xtask fuzz`.

use anyhow::Result;

use crate::command::{cargo, run as run_command};

/// Runs flightrec-fuzz, optimised, with overflow checks.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut command = cargo();
    // What overflows is a finding too, so the checks of a debug build stay on.
    command
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    command.args([
        "run",
        "--release",
        "--quiet",
        "--target-dir",
        "target/fuzz-build",
        "-p",
        "flightrec-fuzz",
        "--",
    ]);
    run_command(command.args(arguments))
}
