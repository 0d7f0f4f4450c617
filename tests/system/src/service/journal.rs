//! What flightd tells the journal: fields for programs, and nothing while nothing happens.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use flightrec_tests::{online_cpus, pin_to_cpu, wait_until};
use nix::unistd::{Pid, getppid};
use serde_json::Value;

use super::trial::{PATIENCE, Trial, check, main_pid, read, status};

/// Entries about a start of the recorder: which recording, in how much memory, and what events
/// cost.
pub(super) fn names_the_start(_: &mut Trial) -> Result<String> {
    let entries = entries(&by(main_pid()?))?;
    let session = status()?["session"].clone();
    let begun =
        entries.iter().find(|entry| entry["SESSION"] == session && entry["BYTES"].is_string());
    let begun =
        begun.with_context(|| format!("no entry has SESSION={session} and BYTES: {entries:#?}"))?;
    ensure!(begun["PRIORITY"] == "5", "its priority is {}", begun["PRIORITY"]);
    // A machine that is too busy to measure says so; that the sandbox keeps flightd from measuring
    // is a fault.
    let denied = entries.iter().find(|entry| message(entry).contains("can't be measured"));
    ensure!(denied.is_none(), "{denied:#?}");
    let cost = entries.iter().find(|entry| entry["COST_CALL"].is_string());
    let busy = entries.iter().any(|entry| message(entry).contains("the machine is too busy"));
    ensure!(cost.is_some() || busy, "no entry has COST_CALL: {entries:#?}");
    let cost = cost.map_or_else(|| "the machine was too busy to measure costs".to_owned(), message);
    Ok(format!("{} entries; {}; {cost}", entries.len(), message(begun)))
}

/// Entries about what goes wrong: files that can't be written, events that are lost for it, and
/// what the budget gives up.
pub(super) fn names_faults(_: &mut Trial) -> Result<String> {
    let pid = main_pid()?;
    let told = status()?;
    let file = told["store"]["file"].as_str().context("no file is being written")?;
    let boot = Path::new(file).parent().context("a directory")?;
    let mode = fs::metadata(boot).with_context(|| boot.display().to_string())?.permissions();
    let flood = Flood::start();
    // Files roll every few seconds here, and no new one can be made then.
    fs::set_permissions(boot, Permissions::from_mode(0o500))?;
    let failed = find(pid, |entry| {
        message(entry).contains("files can't be written") && entry["FILE"].is_string()
    });
    let told =
        wait_until(PATIENCE, || status().is_ok_and(|status| status["store"]["state"] != "writing"));
    // Rings are overwritten meanwhile, which takes long where the machine is busy.
    let since = status()?;
    let overwritten =
        wait_until(PATIENCE, || status().is_ok_and(|now| is_overwritten(&since, &now)));
    fs::set_permissions(boot, mode)?;
    let failed = failed?;
    ensure!(told, "status does not tell that files can't be written");
    ensure!(overwritten, "no ring is overwritten in {} s", PATIENCE.as_secs());
    // The pauses between attempts have grown: the next may be half a minute away.
    let written = wait_until(PATIENCE * 2, || {
        status().is_ok_and(|status| status["store"]["state"] == "writing")
    });
    ensure!(written, "files are not written again: {}", status()?["store"]);
    find(pid, |entry| message(entry).contains("files are written again"))?;
    let lost = find(pid, |entry| entry["LANE"] == "syscall" && number(&entry["LOST"]) > 0)
        .with_context(|| {
            format!("status tells of {}", status().unwrap_or_default()["store"]["lost_events"])
        })?;

    check(Command::new("flightctl").args(["budget", "set", "--per-cpu", "0.5%"]))?;
    let level = find(pid, |entry| number(&entry["LEVEL"]) > 0 && entry["DEGRADED"].is_string());
    drop(flood);
    check(Command::new("flightctl").args(["budget", "set", "--per-cpu", "off"]))?;
    let level = level?;
    ensure!(level["CPUS"].is_string(), "no CPUS: {level}");
    Ok([failed, lost, level].map(|entry| message(&entry)).join("; "))
}

/// Whether a CPU recorded more system calls between two reports than its ring holds.
fn is_overwritten(before: &Value, now: &Value) -> bool {
    let events = |report: &Value, cpu: usize| -> u64 {
        let kinds = report["cpus"][cpu]["lanes"]["syscall"]["events"].as_object();
        kinds.into_iter().flatten().filter_map(|(_, events)| events.as_u64()).sum()
    };
    // An entry and its exit take more than 8 bytes together.
    let most = now["lanes"]["syscall"]["ring_bytes"].as_u64().map_or(u64::MAX, |bytes| bytes / 4);
    let cpus = now["cpus"].as_array().map_or(0, Vec::len);
    (0..cpus).any(|cpu| events(now, cpu).saturating_sub(events(before, cpu)) > most)
}

/// System calls, as many as every CPU can make.
struct Flood(&'static AtomicBool);

impl Flood {
    fn start() -> Self {
        // Its threads end with it, or with the process.
        let stop: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        for cpu in online_cpus() {
            thread::spawn(move || {
                pin_to_cpu(cpu);
                while !stop.load(Ordering::Relaxed) {
                    getppid();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits for such an entry of a process.
pub(super) fn find(pid: Pid, is: impl Fn(&Value) -> bool) -> Result<Value> {
    let mut all = Vec::new();
    let mut found = None;
    wait_until(PATIENCE, || {
        all = entries(&by(pid)).unwrap_or_default();
        found = all.iter().find(|entry| is(entry)).cloned();
        found.is_some()
    });
    found.with_context(|| {
        format!("the journal lacks an entry with the fields that it must have: {all:#?}")
    })
}

pub(super) fn by(pid: Pid) -> String {
    format!("_PID={pid}")
}

/// Entries of this boot that match.
pub(super) fn entries(matching: &str) -> Result<Vec<Value>> {
    check(Command::new("journalctl").arg("--sync"))?;
    let text = read(Command::new("journalctl").args(["-b", "--no-pager", "-o", "json", matching]))?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

pub(super) fn message(entry: &Value) -> String {
    entry["MESSAGE"].as_str().unwrap_or_default().to_owned()
}

/// Fields are text.
fn number(field: &Value) -> u64 {
    field.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_ring_is_overwritten_when_one_cpu_recorded_more_than_it_holds() {
        let report = |cpus: [[u64; 2]; 2]| {
            let of_cpu = |[enter, exit]: [u64; 2]| {
                let events = json!({ "sys_enter": enter, "sys_exit": exit });
                json!({ "lanes": { "syscall": { "events": events } } })
            };
            json!({ "lanes": { "syscall": { "ring_bytes": 4096 } }, "cpus": cpus.map(of_cpu) })
        };
        let before = report([[5000, 5000], [0, 0]]);
        assert!(!is_overwritten(&before, &report([[5500, 5500], [1024, 0]])));
        assert!(is_overwritten(&before, &report([[5500, 5500], [1024, 1]])));
        assert!(!is_overwritten(&before, &json!({})));
    }
}
