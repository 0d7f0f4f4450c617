//! What must be true of a machine that lacks something: `flightd` ends, and says what is missing
//! and what to do.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::ended;

/// What a machine lacks, what `flightd` says then, and what `flightctl doctor` does.
const LACKING: &[(&str, &str, &str)] = &[
    (
        "tracefs",
        "/sys/kernel/tracing: no tracefs is mounted there. Mount it: `mount -t tracefs nodev \
         /sys/kernel/tracing`",
        "MISSING  tracepoints   no tracefs is mounted on /sys/kernel/tracing",
    ),
    (
        "btf",
        "/sys/kernel/btf/vmlinux: not found. This kernel has no type information (BTF); flightd \
         needs a kernel built with CONFIG_DEBUG_INFO_BTF=y",
        "MISSING  BTF",
    ),
    (
        "confidentiality",
        "this kernel is locked down (confidentiality), so no BPF program may read its memory",
        "MISSING  lockdown",
    ),
];

/// Checks all; what was found, for people.
pub(in super::super) fn refusals(out: &Path) -> Result<Vec<String>> {
    ended(out)?;
    let text = |name: String| {
        let path = out.join("out").join(&name);
        fs::read_to_string(path).with_context(|| format!("no {name} was left"))
    };
    let mode = text("lockdown".to_owned())?;
    ensure!(mode.contains("[confidentiality]"), "the kernel is not locked down: {mode}");
    let mut found = Vec::new();
    for (name, says, doctor) in LACKING {
        let (code, log) = (text(format!("{name}.code"))?, text(format!("{name}.log"))?);
        ensure!(code.trim() == "2", "without {name}: exit code {code}, not 2: {log}");
        let line = log.lines().find(|line| line.contains(says));
        let line = line.with_context(|| format!("without {name} flightd says: {log}"))?;
        let told = text(format!("{name}.doctor"))?;
        ensure!(told.contains(doctor), "without {name} `flightctl doctor` says: {told}");
        let left = text(format!("{name}.left"))?;
        ensure!(left.is_empty(), "without {name}, BPF objects are left: {left}");
        let (_, line) = line.split_once("ERROR ").unwrap_or(("", line));
        found.push(format!("{name}: exit code 2: {line}"));
    }
    let (code, error) = (text("integrity.code".to_owned())?, text("integrity.err".to_owned())?);
    ensure!(code.trim() == "0", "locked down for integrity: {error}");
    let lines = text("integrity.txt".to_owned())?.lines().count();
    ensure!(lines > 100, "locked down for integrity: {lines} lines");
    found.push(format!("locked down for integrity: it records, {lines} lines, complete"));
    Ok(found)
}
