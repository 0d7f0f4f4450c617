//! flight-ship as the package has it: its user, a directory as the storage, credentials by systemd,
//! a collector of OpenTelemetry.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flightrec_tests::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::collector::Collector;
use super::trial::{PATIENCE, Trial, check, is, lossy, read, unit_pid};

pub(super) const UNIT: &str = "flight-ship.service";
const CONFIG: &str = "/etc/flightrec/flight-ship.toml";
const DROP_IN: &str = "/etc/systemd/system/flight-ship.service.d/trial.conf";
/// The directory that is the storage.
const STORAGE: &str = "/srv/recordings";
/// Settings under which a snapshot is shipped within seconds.
const SOON: &str = "[snapshots]\nsettle = \"1s\"\n[storage]\nretry_most = \"2s\"\n";

/// A snapshot is shipped into a directory by a process without rights, and once: also after a
/// SIGKILL.
pub(super) fn into_a_directory(_: &mut Trial) -> Result<String> {
    fs::create_dir_all(STORAGE)?;
    check(Command::new("chown").args(["flight-ship:flight-ship", STORAGE]))?;
    configure(&format!("[ship]\nto = \"{STORAGE}\"\ninterval = \"1s\"\n{SOON}"))?;
    drop_in(&format!("ReadWritePaths={STORAGE}"))?;
    check(Command::new("systemctl").args(["enable", "--now", UNIT]))?;
    let pid = unit_pid(UNIT)?;
    has_no_rights(pid)?;
    checks_as_the_service()?;

    let first = snapshot("before the end of flight-ship")?;
    let found = shipped(&first)?;
    kill(pid, Signal::SIGKILL)?;
    // systemd waits for RestartSec= first.
    let again = || unit_pid(UNIT).is_ok_and(|now| now != pid);
    ensure!(wait_until(PATIENCE, again), "systemd does not start flight-ship again");
    let second = snapshot("after the end of flight-ship")?;
    ensure!(shipped(&second)?.len() == found.len(), "the second snapshot is not shipped whole");
    let same = of(&first)?;
    ensure!(same == found, "the first snapshot became {same:?}, it was {found:?}");
    Ok(format!("process {pid}; {} objects of each of two snapshots", found.len()))
}

/// Credentials that systemd hands over reach the storage's library, and only these do.
pub(super) fn credentials(_: &mut Trial) -> Result<String> {
    // Nobody listens there: the storage can't be reached, once it is tried.
    let to = "[ship]\nto = \"s3://recordings/trial\"\ninterval = \"1s\"\n";
    let none = "endpoint = \"http://127.0.0.1:9\"\nallow_http = true\n";
    configure(&format!("{to}{SOON}{none}"))?;
    drop_in("")?;
    let without = problem(&["credentials"])?;
    let mut lines = Vec::new();
    for name in ["aws_access_key_id", "aws_secret_access_key"] {
        let file = secret(name, "trial")?;
        lines.push(format!("LoadCredential={name}:{}", file.display()));
    }
    drop_in(&lines.join("\n"))?;
    let with = problem(&["unreachable"])?;
    // It runs on until the package goes.
    ensure!(is("is-active", UNIT), "{UNIT} ended for a storage that is not there");
    Ok(format!("without: {without}; with: {with}"))
}

/// A collector is told of a snapshot and of metrics, with a header that systemd hands over.
pub(super) fn tells_a_collector(_: &mut Trial) -> Result<String> {
    const HEADER: &str = "authorization: Bearer trial";
    let collector = Collector::start(HEADER)?;
    let endpoint = collector.endpoint();
    let often = "metrics_interval = \"10s\"\n";
    configure(&format!(
        "[otlp]\nendpoint = \"{endpoint}\"\n{often}[snapshots]\nsettle = \"1s\"\n"
    ))?;
    let file = secret("otlp_headers", &format!("{HEADER}\n"))?;
    drop_in(&format!("LoadCredential=otlp_headers:{}", file.display()))?;
    snapshot("for the collector")?;
    let mut last = Value::Null;
    let told = wait_until(2 * PATIENCE, || {
        last = status().map(|status| status["otlp"].clone()).unwrap_or_default();
        let of = |path: &str| collector.requests(path, true);
        let points = last["points"].as_u64() > Some(0);
        points && last["records"].as_u64() > Some(0) && of("/v1/logs") > 0 && of("/v1/metrics") > 0
    });
    ensure!(told, "flight-ship says {last}");
    let without = collector.requests("/v1/logs", false) + collector.requests("/v1/metrics", false);
    ensure!(without == 0, "{without} requests came without the header");
    Ok(format!("{} snapshots and {} points of metrics", last["records"], last["points"]))
}

/// A file that root alone reads.
fn secret(name: &str, text: &str) -> Result<PathBuf> {
    let folder = Path::new("/etc/flightrec/ship");
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    let file = folder.join(name);
    fs::write(&file, text)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

fn configure(text: &str) -> Result<()> {
    fs::write(CONFIG, text)?;
    read(Command::new("systemctl").args(["reset-failed", UNIT])).ok();
    Ok(())
}

/// Replaces the drop-in, and starts the service again if it runs.
fn drop_in(lines: &str) -> Result<()> {
    fs::create_dir_all(Path::new(DROP_IN).parent().context("a directory")?)?;
    // It is not to wait for long where it was killed.
    fs::write(DROP_IN, format!("[Service]\nRestartSec=1s\n{lines}\n"))?;
    check(Command::new("systemctl").arg("daemon-reload"))?;
    check(Command::new("systemctl").args(["try-restart", UNIT]))
}

/// The process has the service's user, its group and flightd's, and no capability.
fn has_no_rights(pid: Pid) -> Result<()> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches(':').split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let uid = read(Command::new("id").args(["-u", "flight-ship"]))?;
    ensure!(field("Uid") == [uid.trim(); 4].join(" "), "flight-ship runs as {}", field("Uid"));
    for set in ["CapEff", "CapPrm", "CapBnd", "CapAmb"] {
        ensure!(field(set) == "0000000000000000", "{set} of flight-ship is {}", field(set));
    }
    let group = read(Command::new("getent").args(["group", "flightrec"]))?;
    let gid = group.split(':').nth(2).context("no id of the group flightrec")?;
    ensure!(
        field("Groups").split(' ').any(|has| has == gid),
        "flight-ship is in the groups {}, and not in {gid}",
        field("Groups")
    );
    Ok(())
}

/// `flight-ship --check` as docs/ship.md says to run it.
fn checks_as_the_service() -> Result<()> {
    let mut run = Command::new("systemd-run");
    run.args(["--pipe", "--wait", "--quiet", "-p", "User=flight-ship"]);
    run.args(["-p", "SupplementaryGroups=flightrec", "-p", "StateDirectory=flight-ship"]);
    check(run.args(["flight-ship", "--check"]))
}

/// Has a snapshot taken; its id.
fn snapshot(reason: &str) -> Result<String> {
    let take = ["snapshot", "--last", "1s", "--reason", reason];
    Ok(read(Command::new("flightctl").args(take))?.trim().to_owned())
}

/// Waits for the objects of a snapshot: a page, and a table that tells what is complete.
fn shipped(id: &str) -> Result<Vec<PathBuf>> {
    let whole = |objects: &[PathBuf]| {
        let has = |part: &str| objects.iter().any(|path| path.to_string_lossy().contains(part));
        has("/table=events/") && has("/table=coverage/") && has("/pages/")
    };
    let mut objects = Vec::new();
    let came = wait_until(2 * PATIENCE, || {
        objects = of(id).unwrap_or_default();
        whole(&objects) && status().is_ok_and(|status| status["waiting"] == 0)
    });
    let said = Command::new("flight-ship").arg("status").output()?;
    ensure!(came, "snapshot {id}: only {objects:?} came; {}", lossy(&said));
    of(id)
}

/// The objects of a snapshot, in order.
fn of(id: &str) -> Result<Vec<PathBuf>> {
    let find =
        read(Command::new("find").args([STORAGE, "-type", "f", "-name", &format!("{id}*")]))?;
    let mut objects: Vec<PathBuf> = find.lines().map(PathBuf::from).collect();
    objects.sort_unstable();
    Ok(objects)
}

fn status() -> Result<Value> {
    Ok(serde_json::from_str(&read(Command::new("flight-ship").args(["status", "--json"]))?)?)
}

/// Waits until the service tells one of these kinds of problem with the storage.
fn problem(kinds: &[&str]) -> Result<String> {
    snapshot("for a storage that is not there")?;
    let mut last = Value::Null;
    let told = wait_until(2 * PATIENCE, || {
        last = status().map(|status| status["problem"].clone()).unwrap_or_default();
        kinds.iter().any(|kind| last["kind"] == *kind)
    });
    ensure!(told, "the problem is {last}, and none of {kinds:?}");
    Ok(last["message"].as_str().unwrap_or_default().to_owned())
}

/// Nothing of it is left after a purge, but for what it shipped.
pub(super) fn is_gone() -> Result<()> {
    for (file, what) in [("/etc/passwd", "user"), ("/etc/group", "group")] {
        let text = fs::read_to_string(file)?;
        ensure!(
            !text.lines().any(|line| line.starts_with("flight-ship:")),
            "the {what} flight-ship is still there"
        );
    }
    ensure!(!is("is-active", UNIT) && !is("is-enabled", UNIT), "{UNIT} runs on");
    // What was shipped is not the package's.
    ensure!(Path::new(STORAGE).join("schema=1").exists(), "what was shipped is gone");
    fs::remove_dir_all(STORAGE)?;
    match fs::remove_dir_all(Path::new(DROP_IN).parent().context("a directory")?) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
        _ => Ok(()),
    }
}
