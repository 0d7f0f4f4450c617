//! The user `flightrec`, taken over, and all that root does where it owns the directories.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::trial::{Trial, UNIT, check, read};

/// A directory of root's with one file.
const ROOTS: &str = "/root/roots";
const SECRET: &str = "root's own\n";
const RECORDING: &str = "flightrec-recording.service";

pub(super) fn links(_: &mut Trial) -> Result<String> {
    fs::create_dir_all(ROOTS)?;
    fs::write(Path::new(ROOTS).join("file"), SECRET)?;
    // What `flightd --prepare` writes.
    as_service(&format!("cd /run/flightrec; rm -f tracepoints.json; ln -s {ROOTS}/file tracepoints.json.new"))?;
    // What `flightd --remove` empties.
    let generation = "/run/flightrec/bpf/gen-00000000000000aa";
    as_service(&format!("mkdir {generation}; ln -s {ROOTS} {generation}/links"))?;
    check(Command::new("systemctl").args(["stop", UNIT, RECORDING]))?;
    untouched("stopping it")?;
    // What `flightd --prepare` mounts on, and gives away.
    as_service(&format!("cd /run/flightrec; rm -rf bpf; ln -s {ROOTS} bpf; ln -sf {ROOTS}/file tracepoints.json.new"))?;
    let started = Command::new("systemctl").args(["start", RECORDING]).status()?;
    untouched("starting it")?;
    ensure!(!started.success(), "root's part works through a link");
    check(Command::new("/usr/bin/flightd").arg("--remove"))?;
    untouched("removing what it left")?;
    check(Command::new("systemctl").args(["reset-failed", RECORDING]))?;
    check(Command::new("systemctl").args(["start", UNIT]))?;
    untouched("starting it again")?;
    // The hook of kdump, as kdump-tools runs it.
    let text = fs::read_to_string("/usr/lib/systemd/system/kdump-tools-dump.service.d/flightrec.conf")?;
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStartPre=-")).context("no hook")?;
    let (program, dir) = line.split_once(' ').context("no directory")?;
    let meta = fs::symlink_metadata(dir)?;
    ensure!(meta.is_dir() && meta.uid() == 0, "{dir} is of user {}", meta.uid());
    ensure!(as_service(&format!("ln -s {ROOTS} {dir}/x || mv {dir} {dir}.old")).is_err(), "the user may change {dir}");
    as_service(&format!("ln -s {ROOTS} /var/lib/flightrec/crash"))?;
    for dir in ["/var/lib/flightrec", "/var/lib/flightrec/crash"] {
        let mut hook = Command::new(program);
        let hook = hook.arg(dir).env("VMCORE", "/dev/null").env("FLIGHTCTL", "/bin/true").status()?;
        ensure!(hook.code() == Some(1), "the hook works in {dir}");
        untouched("the hook")?;
    }
    fs::remove_file("/var/lib/flightrec/crash")?;
    fs::remove_dir_all(ROOTS)?;
    Ok("--prepare, --remove and the hook of kdump follow no link of its".to_owned())
}

fn as_service(script: &str) -> Result<String> {
    read(Command::new("runuser").args(["-u", "flightrec", "--", "/bin/sh", "-ec", script]))
}

fn untouched(by: &str) -> Result<()> {
    let (dir, file) = (Path::new(ROOTS), Path::new(ROOTS).join("file"));
    ensure!(fs::read_to_string(&file).is_ok_and(|text| text == SECRET), "{by}: root's file is not what it was");
    for path in [dir, &file] {
        let meta = fs::metadata(path)?;
        ensure!(meta.uid() == 0 && meta.gid() == 0, "{by}: {} was given away", path.display());
    }
    ensure!(fs::read_dir(dir)?.count() == 1, "{by}: something was put into {ROOTS}");
    Ok(())
}
