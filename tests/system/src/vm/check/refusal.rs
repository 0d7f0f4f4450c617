//! What must be true of a kernel that is older than the oldest that is supported.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::row::{Found, Row};

/// `flightd` ended with its code for errors, naming the kernel that it found and the one that it
/// needs.
pub(in crate::vm) fn refuses(out: &Path) -> Result<Found> {
    let said = super::said(out)?;
    let code = said.iter().find_map(|line| line.split_once("flightd ended: "));
    let (_, code) = code.with_context(|| format!("flightd did not end: {}", said.join("\n")))?;
    ensure!(code == "2", "flightd ended with {code}, not 2");
    let linux = said
        .iter()
        .find_map(|line| line.split_once(" Linux "))
        .context("the machine does not name its kernel")?;
    let log = fs::read_to_string(out.join("out/earlier.log")).context("flightd wrote nothing")?;
    let refusal = format!("this kernel is {}; flightrec needs Linux 6.1 or later", linux.1);
    ensure!(log.contains(&refusal), "flightd does not say \"{refusal}\" but: {log}");
    let row = Row { calls: format!("refused, exit code {code}"), ..Row::named(linux.1, "x86_64") };
    Ok(Found { lines: vec![format!("flightd refuses, exit code {code}: {refusal}")], row })
}
