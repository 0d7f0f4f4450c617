//! Snapshots as the package has them: of a unit that failed, by a member of the group, with a hook,
//! in the journal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flightrec_tests::wait_until;
use serde_json::Value;

use super::journal::entries;
use super::trial::{BUSY, CONFIG, PATIENCE, STATE, Trial, UNIT, check, is, lossy, read};

/// docs/triggers.md names it.
const MESSAGE_ID: &str = "MESSAGE_ID=6a1d2c7f0b3e4d5c9f8a7b6c5d4e3f21";
const BROKEN: &str = "broken.service";
const HOOK: &str = "/usr/local/bin/flight-hook";

/// A hook is configured; a unit that fails is the cause of a snapshot.
pub(super) fn of_a_failed_unit(_: &mut Trial) -> Result<String> {
    // What it may: its own directories, and a temporary one.
    let script = format!(
        "#!/bin/sh\nset -e\nmkdir -p {STATE}/hook\ndate > /tmp/of-the-hook\n{{ id -un; env | grep \
         ^FLIGHTREC_; }} > /tmp/told\ncp /tmp/told {STATE}/hook/$FLIGHTREC_SNAPSHOT_ID\n"
    );
    fs::write(HOOK, script)?;
    fs::set_permissions(HOOK, fs::Permissions::from_mode(0o755))?;
    fs::write(CONFIG, format!("{BUSY}[snapshots]\nhook = [\"{HOOK}\"]\n"))?;
    check(Command::new("systemctl").args(["restart", UNIT]))?;

    let unit = "[Unit]\nOnFailure=flight-snapshot@%n.service\n[Service]\nType=oneshot\nExecStart=/\
                bin/false\n";
    let path = Path::new("/etc/systemd/system").join(BROKEN);
    fs::write(&path, unit)?;
    check(Command::new("systemctl").arg("daemon-reload"))?;
    let started = Command::new("systemctl").args(["start", BROKEN]).output()?;
    ensure!(!started.status.success(), "{BROKEN} does not fail: {}", lossy(&started));
    let reason = format!("unit {BROKEN} failed");
    let mut found = None;
    let came = wait_until(PATIENCE, || {
        found = list()
            .unwrap_or_default()
            .into_iter()
            .find(|snapshot| snapshot["reason"] == reason.as_str());
        // The answer comes a little after the snapshot, or a note says why it does not.
        found.as_ref().is_some_and(|of| {
            let notes = of["summary"]["notes"].as_array().map_or(0, Vec::len);
            of["summary"]["why"].is_object() || notes != 0
        })
    });
    let instance = format!("flight-snapshot@{BROKEN}.service");
    let said = Command::new("systemctl").args(["status", &instance]).output()?;
    ensure!(came && !is("is-failed", &instance), "no snapshot of {BROKEN}: {}", lossy(&said));
    let snapshot = found.context("a snapshot")?;
    let id = text(&snapshot, "id")?;
    // flightctl works in flightd's sandbox.
    let summary = &snapshot["summary"];
    ensure!(
        summary["why"]["sentence"].as_str().is_some_and(|sentence| !sentence.is_empty()),
        "flightctl why did not answer in the sandbox: {}",
        summary["notes"]
    );
    told(id, &reason)?;
    check(Command::new("systemctl").args(["reset-failed", BROKEN]))?;
    fs::remove_file(path)?;
    check(Command::new("systemctl").arg("daemon-reload"))?;
    // The exec of what failed is in it.
    let events =
        read(Command::new("flightctl").args(["dump", "--snapshot", id, "--event", "exec"]))?;
    ensure!(events.contains("/bin/false"), "snapshot {id} does not have what failed: {events}");
    Ok(format!("{id}: {reason}; told by the journal, seen by the hook"))
}

/// A member of the group takes one, reads it, and it is told; another user is told why not.
pub(super) fn by_users(_: &mut Trial) -> Result<String> {
    let reason = "deploy of 1.2 failed";
    let ask = |user: &str, args: &[&str]| {
        Command::new("runuser").args(["-u", user, "--", "flightctl"]).args(args).output()
    };
    let take = ["snapshot", "--last", "3s", "--reason", reason];
    let alice = ask("alice", &take)?;
    ensure!(alice.status.success(), "alice: {}", lossy(&alice));
    let id = String::from_utf8_lossy(&alice.stdout).trim().to_owned();
    told(&id, reason)?;
    for args in [["snapshots", "show", &id].as_slice(), &["dump", "--strict", "--snapshot", &id]] {
        let seen = ask("alice", args)?;
        ensure!(
            seen.status.success() && seen.stdout.len() > 100,
            "alice, {}: {}",
            args.join(" "),
            lossy(&seen)
        );
    }
    let before = list()?.len();
    for args in [take.as_slice(), &["snapshots", "show", &id], &["dump", "--snapshot", &id]] {
        let bob = ask("bob", args)?;
        let said = String::from_utf8_lossy(&bob.stderr);
        ensure!(
            !bob.status.success() && bob.stdout.is_empty(),
            "bob, {}: {}",
            args.join(" "),
            lossy(&bob)
        );
        ensure!(
            said.contains("group") || said.contains("permission"),
            "bob is not told why, {}: {said}",
            args.join(" ")
        );
    }
    let bob = ask("bob", &take)?;
    ensure!(list()?.len() == before, "bob had a snapshot taken");
    fs::write(CONFIG, BUSY)?;
    check(Command::new("systemctl").args(["restart", UNIT]))?;
    Ok(format!(
        "{id} for a member, complete; for the other, exit code {:?}: {}",
        bob.status.code(),
        String::from_utf8_lossy(&bob.stderr).trim()
    ))
}

/// The journal tells of the snapshot, and the hook has run for it, as flightd's user.
fn told(id: &str, reason: &str) -> Result<()> {
    let entries = entries(MESSAGE_ID)?;
    let entry = entries
        .iter()
        .find(|entry| entry["MESSAGE"].as_str().is_some_and(|message| message.contains(id)));
    let entry =
        entry.with_context(|| format!("the journal does not tell of {id}: {entries:#?}"))?;
    ensure!(
        text(entry, "MESSAGE")?.contains(reason) && text(entry, "CAUSE")? == "request",
        "{entry:#}"
    );
    ensure!(Path::new(text(entry, "SNAPSHOT")?).exists(), "{entry:#}");
    text(entry, "SUBJECT")?;

    let seen = Path::new(STATE).join("hook").join(id);
    ensure!(wait_until(PATIENCE, || seen.exists()), "the hook has not run for {id}");
    // Its last line is there last.
    let whole =
        |text: &str| text.contains("FLIGHTREC_REASON=") && text.contains("FLIGHTREC_SNAPSHOT_ID=");
    let mut text = String::new();
    wait_until(PATIENCE, || {
        text = fs::read_to_string(&seen).unwrap_or_default();
        whole(&text)
    });
    ensure!(text.starts_with("flightrec\n"), "the hook ran as {text}");
    ensure!(text.contains(&format!("FLIGHTREC_REASON={reason}\n")), "the hook was told {text}");
    ensure!(!Path::new("/tmp/of-the-hook").exists(), "the hook writes to everybody's /tmp");
    Ok(())
}

fn list() -> Result<Vec<Value>> {
    let document: Value =
        serde_json::from_str(&read(Command::new("flightctl").args(["snapshots", "--json"]))?)?;
    document["snapshots"].as_array().cloned().context("no list of snapshots")
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("no {key} in {value}"))
}
