//! What whoever took flightd over can do with its capabilities, and a member of the group with its
//! connections.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use flightrec_tests::{key_values, wait_until};

use crate::service::container::INSIDE;
use crate::service::trial::{
    BUSY, CONFIG, PATIENCE, RUNTIME, STATE, Trial, UNIT, check, lossy, main_pid, read,
};

/// The program that has the kernel kill a process (tests/programs).
pub(in crate::service) const ATTACK: &str = "send_signal";
/// More connections than flightd serves.
const CONNECTIONS: u32 = 40;

/// Ends it when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A hook has all rights of the daemon: user, capabilities, sandbox, filters. It loads no program,
/// and kills nobody.
pub(in crate::service) fn loads_nothing(_: &mut Trial) -> Result<String> {
    let mut loop_of_root = Command::new("/bin/sh");
    let mut victim = Running(
        loop_of_root.args(["-c", "while :; do sleep 0.05; done"]).stdin(Stdio::null()).spawn()?,
    );
    let out = Path::new(STATE).join("came-of-it");
    let (program, pid) = (Path::new(INSIDE).join(ATTACK), victim.0.id().to_string());
    let hook = format!(
        "[snapshots]\nhook = [\"{}\", \"{pid}\", \"{}\"]\n",
        program.display(),
        out.display()
    );
    fs::write(CONFIG, format!("{BUSY}{hook}"))?;
    check(Command::new("systemctl").args(["restart", UNIT]))?;
    check(Command::new("flightctl").args(["snapshot", "--last", "1s", "--reason", "an attack"]))?;
    ensure!(wait_until(PATIENCE, || out.exists()), "the hook was not run");
    let said: HashMap<String, String> = key_values(&fs::read(&out)?);
    ensure!(matches!(victim.0.try_wait(), Ok(None)), "a process of root was killed: {said:?}");
    // EPERM.
    for what in ["load", "map"] {
        ensure!(said.get(what).is_some_and(|errno| errno == "1"), "{what}: {said:?}");
    }
    let status = fs::read_to_string(format!("/proc/{}/status", main_pid()?))?;
    let filters = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp_filters:"))
        .context("no filters")?;
    fs::remove_file(out)?;
    fs::write(CONFIG, BUSY)?;
    check(Command::new("systemctl").args(["restart", UNIT]))?;
    Ok(format!("EPERM for programs and maps, by one of {} filters", filters.trim()))
}

/// A member of the group holds as many connections as it gets; root is served all the same.
pub(in crate::service) fn connections(_: &mut Trial) -> Result<String> {
    let script = format!(
        "use IO::Socket::UNIX; $| = 1; for (1..{CONNECTIONS}) {{ push @s, \
         IO::Socket::UNIX->new(Peer => '{RUNTIME}/control.sock') }} print scalar(grep {{ $_ }} \
         @s), \"\\n\"; <STDIN>"
    );
    let mut perl = Command::new("runuser");
    // It ends when its input does.
    perl.args(["-u", "alice", "--", "perl", "-e", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut member = Running(perl.spawn()?);
    let mut line = String::new();
    BufReader::new(member.0.stdout.take().context("a pipe")?).read_line(&mut line)?;
    let held: u32 = line.trim().parse().with_context(|| format!("alice: {line}"))?;
    ensure!(held >= 24, "alice holds {held} connections only");
    let answer = read(Command::new("timeout").args(["5", "flightctl", "status"]))
        .context("root is locked out")?;
    ensure!(answer.lines().count() > 3, "{answer}");
    let other = Command::new("timeout")
        .args(["5", "runuser", "-u", "alice", "--", "flightctl", "status"])
        .output()?;
    ensure!(!other.status.success(), "alice gets more than a member's part: {}", lossy(&other));
    drop(member);
    let mut served =
        || read(Command::new("runuser").args(["-u", "alice", "--", "flightctl", "status"])).is_ok();
    ensure!(wait_until(PATIENCE, &mut served), "alice is not served again");
    Ok(format!(
        "{held} connections of a member's; root is answered, and so is the member when they end"
    ))
}
