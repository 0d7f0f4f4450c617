//! What runs in the container, as root: the life of a package from its installation to its purge.

use std::fmt::Display;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flightrec_tests::{BpfObject, bpf_objects_left, online_cpus, wait_until};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::Value;

use super::container::INSIDE;
use super::load::{self, Load};
use super::soak::Soak;
use super::{journal, privileges, ship, snapshots};

/// The packages, in the order in which they are installed.
pub(super) const PACKAGES: [&str; 2] = ["first.deb", "second.deb"];
/// What the trial may take without a soak.
pub(super) const LIMIT: Duration = Duration::from_mins(15);

/// The step that is only taken when it is asked for.
const SOAK: &str = "soak: memory is flat, and no loss is unaccounted for";
pub(super) const UNIT: &str = "flightd.service";
const UNITS: [&str; 2] = [UNIT, "flightrec-recording.service"];
pub(super) const RUNTIME: &str = "/run/flightrec";
pub(super) const STATE: &str = "/var/lib/flightrec";
pub(super) const CONFIG: &str = "/etc/flightrec/flightd.toml";
const DROP_IN: &str = "/etc/systemd/system/flightd.service.d/trial.conf";
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// So that a stalled pipeline shows within seconds.
const WATCHDOG: Duration = Duration::from_secs(4);
/// What systemd may rate the units' exposure at most: the daemon's, that of root's part, which
/// mounts, and that of flight-ship, which has the network. Root's part may have no
/// `PrivateNetwork=`, whose 0.5 are not given back for having no family of addresses.
const EXPOSURE: [(&str, f64); 3] = [(UNITS[0], 2.0), (UNITS[1], 3.5), (ship::UNIT, 2.0)];
/// Exact counts need a recording without a limit to its cost; files that roll all the time are the
/// harder case.
pub(super) const BUSY: &str = "[budget]\nper_cpu = \"off\"\n[store]\nkeep_free = \
                               \"0B\"\nfile_size = \"1MiB\"\nfile_age = \"3s\"\nflush_interval = \
                               \"500ms\"\nsync_interval = \"2s\"\n";

/// Goes through it all; the first thing that is not as it must be ends it.
pub(crate) fn run(soak: Duration) -> Result<()> {
    ensure!(
        Path::new(INSIDE).exists(),
        "this runs in the container that `cargo xtask service` makes"
    );
    let mut trial = Trial { soak };
    let (wanted, left_out) = steps(soak);
    for (what, step) in &wanted {
        let begun = Instant::now();
        match step(&mut trial) {
            Ok(found) => {
                println!("ok      {what}: {found} ({:.1} s)", begun.elapsed().as_secs_f64());
            }
            Err(e) => {
                println!("FAILED  {what}: {e:#}");
                println!(
                    "{}",
                    lossy(
                        &Command::new("journalctl")
                            .args(["-b", "--no-pager", "-n", "60"])
                            .output()?
                    )
                );
                bail!("{what}");
            }
        }
    }
    println!("{} steps passed", wanted.len());
    for (what, _) in left_out {
        println!("LEFT OUT {what}: nothing is shown of it; ask for it by --soak MINUTES");
    }
    Ok(())
}

/// The steps that are taken, and those that were not asked for.
fn steps(soak: Duration) -> (Vec<&'static Named>, Vec<&'static Named>) {
    STEPS.iter().partition(|(what, _)| *what != SOAK || !soak.is_zero())
}

pub(super) struct Trial {
    soak: Duration,
}

pub(super) type Step = fn(&mut Trial) -> Result<String>;
/// A step, by what it shows.
pub(super) type Named = (&'static str, Step);

pub(super) const STEPS: &[Named] = &[
    ("the package installs, and starts nothing", installs),
    ("enabled and started, it runs as its user with two capabilities", runs),
    ("the journal names the recording, and what events cost", journal::names_the_start),
    ("systemd-analyze security", exposure),
    ("a member of the group may dump, another user may not", access),
    ("a member of the group does not lock root out", privileges::connections),
    ("taken over, the service's user leads root's part nowhere", privileges::links),
    ("nor either hook of kdump", privileges::hooks),
    ("nor the package's scripts", privileges::scripts),
    ("taken over while it records, flightd loads nothing", privileges::loads_nothing),
    ("reload changes what it can, and says what it can't", reloads),
    ("no call is lost by reload, restart, kill -9 and watchdog", survives),
    ("no call is lost by an upgrade", upgrades),
    (
        "a unit that fails is a snapshot, told to the journal and the hook",
        snapshots::of_a_failed_unit,
    ),
    ("a member of the group may take a snapshot, another user may not", snapshots::by_users),
    (SOAK, soaks),
    ("a quiet minute is a quiet journal", is_quiet),
    ("the journal names files, lanes and levels when something goes wrong", journal::names_faults),
    ("flight-ship ships snapshots into a directory, without rights", ship::into_a_directory),
    ("flight-ship gets its credentials from systemd", ship::credentials),
    ("flight-ship tells a collector of OpenTelemetry", ship::tells_a_collector),
    ("stop and disable leave nothing pinned or mounted", stops),
    ("purge leaves nothing", purges),
];

fn installs(_: &mut Trial) -> Result<String> {
    install(PACKAGES[0])?;
    for unit in UNITS.into_iter().chain([ship::UNIT]) {
        ensure!(!is("is-active", unit), "{unit} is active");
    }
    for unit in [UNIT, ship::UNIT] {
        ensure!(!is("is-enabled", unit), "{unit} is enabled");
    }
    ensure!(!Path::new(RUNTIME).exists(), "{RUNTIME} is there");
    Ok(format!("version {}", dpkg_version()?))
}

fn runs(_: &mut Trial) -> Result<String> {
    check(Command::new("systemctl").args(["enable", "--now", UNIT]))?;
    let pid = main_pid()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches(':').split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let uid = read(Command::new("id").args(["-u", "flightrec"]))?;
    ensure!(field("Uid") == [uid.trim(); 4].join(" "), "it runs as {}", field("Uid"));
    // CAP_PERFMON is 38, CAP_BPF 39 (linux/capability.h).
    for set in ["CapEff", "CapPrm", "CapBnd", "CapAmb"] {
        ensure!(u64::from_str_radix(&field(set), 16)? == 3 << 38, "{set} is {}", field(set));
    }
    ensure!(field("NoNewPrivs") == "1", "NoNewPrivs is {}", field("NoNewPrivs"));
    let mode = fs::metadata(STATE)?.mode() & 0o777;
    ensure!(mode == 0o750, "the state directory's mode is {mode:o}");
    // What comes after it at boot waits so long.
    let moment = |property: &str| -> Result<u64> {
        Ok(read(Command::new("systemctl").args(["show", "-P", property, UNIT]))?.trim().parse()?)
    };
    let took =
        moment("ActiveEnterTimestampMonotonic")? - moment("ExecMainStartTimestampMonotonic")?;
    Ok(format!("process {pid} of user {}, ready after {} ms", uid.trim(), took / 1000))
}

fn exposure(_: &mut Trial) -> Result<String> {
    let mut found = Vec::new();
    for (unit, most) in EXPOSURE {
        let report = read(Command::new("systemd-analyze").args(["security", "--no-pager", unit]))?;
        let line = report
            .lines()
            .find(|line| line.contains("Overall exposure level"))
            .context("no overall level")?;
        let level: f64 =
            line.split_whitespace().find_map(|word| word.parse().ok()).context("no number")?;
        ensure!(level <= most, "{line}");
        found.push(format!("{unit} {level}, at most {most} asked"));
    }
    Ok(found.join("; "))
}

fn access(_: &mut Trial) -> Result<String> {
    check(Command::new("useradd").args(["--create-home", "--groups", "flightrec", "alice"]))?;
    check(Command::new("useradd").args(["--create-home", "bob"]))?;
    let dump = |user: &str| {
        Command::new("runuser")
            .args(["-u", user, "--", "flightctl", "dump", "--last", "10s"])
            .output()
    };
    let alice = dump("alice")?;
    ensure!(alice.status.success(), "alice: {}", lossy(&alice));
    let lines = String::from_utf8_lossy(&alice.stdout).lines().count();
    ensure!(lines > 100, "alice sees {lines} lines");
    let bob = dump("bob")?;
    let said = String::from_utf8_lossy(&bob.stderr);
    ensure!(!bob.status.success() && bob.stdout.is_empty(), "bob: {}", lossy(&bob));
    ensure!(said.contains("group"), "bob is not told what would help: {said}");
    Ok(format!(
        "{lines} lines for a member; for the other, exit code {:?}: {}",
        bob.status.code(),
        said.trim()
    ))
}

fn reloads(_: &mut Trial) -> Result<String> {
    let pid = main_pid()?;
    let before = status()?;
    fs::write(CONFIG, format!("{BUSY}[rings]\nsyscall = \"8MiB\"\n"))?;
    check(Command::new("systemctl").args(["reload", UNIT]))?;
    // It is told to read it; that it has is what it says then.
    let pending = journal::find(pid, |entry| journal::message(entry).contains("rings.syscall"))?;
    ensure!(main_pid()? == pid, "another process runs");
    ensure!(status()?["session"] == before["session"], "another recording runs");
    let keys = pending["PENDING"].as_str().context("no field PENDING")?;
    ensure!(keys.split(' ').any(|key| key == "rings.syscall"), "PENDING={keys}");
    let line = journal::message(&pending);
    // What comes next changes the recording's shape by no restart.
    fs::write(CONFIG, BUSY)?;
    check(Command::new("systemctl").args(["restart", UNIT]))?;
    ensure!(status()?["session"] == before["session"], "another recording runs");
    Ok(line)
}

fn survives(_: &mut Trial) -> Result<String> {
    let session = status()?["session"].clone();
    let load = Load::start(0, &online_cpus())?;
    let pause = || std::thread::sleep(Duration::from_secs(3));
    pause();
    check(Command::new("systemctl").args(["reload", UNIT]))?;
    pause();
    let pid = main_pid()?;
    check(Command::new("systemctl").args(["restart", UNIT]))?;
    ensure!(main_pid()? != pid, "restart kept the process");
    pause();
    let pid = main_pid()?;
    kill(pid, Signal::SIGKILL)?;
    succeeded(pid)?;
    pause();
    let stalled = stall()?;
    pause();
    let calls = load.end()?;
    ensure!(status()?["session"] == session, "another recording runs");
    let made = load::check(&calls)?;
    Ok(format!(
        "{made} calls made, each recorded once; the stalled daemon was replaced after {:.1} s",
        stalled.as_secs_f64()
    ))
}

/// Holds the thread that drains the rings; tells how long it took until another daemon ran.
fn stall() -> Result<Duration> {
    let dir = Path::new(DROP_IN).parent().context("a directory")?;
    fs::create_dir_all(dir)?;
    fs::write(DROP_IN, format!("[Service]\nWatchdogSec={}\n", WATCHDOG.as_secs()))?;
    check(Command::new("systemctl").arg("daemon-reload"))?;
    check(Command::new("systemctl").args(["restart", UNIT]))?;
    let pid = main_pid()?;
    let thread = thread_named(pid, "flightd-drain")?;
    ptrace::seize(thread, ptrace::Options::empty())?;
    ptrace::interrupt(thread)?;
    let begun = Instant::now();
    // The process is only gone for systemd when who traces its thread has seen that end.
    let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
    let replaced = wait_until(WATCHDOG * 5, || {
        // An error: there is nothing left to wait for.
        let _ = waitpid(thread, Some(flags));
        main_pid().is_ok_and(|now| now != pid) && is("is-active", UNIT)
    });
    ensure!(replaced, "it still runs, {} s after its pipeline stopped", begun.elapsed().as_secs());
    let took = begun.elapsed();
    let said = read(Command::new("journalctl").args([
        "-b",
        "--no-pager",
        "-u",
        UNIT,
        "-g",
        "[Ww]atchdog",
    ]))?;
    ensure!(said.contains("atchdog"), "it was not the watchdog that ended it: {said}");
    fs::remove_dir_all(dir)?;
    check(Command::new("systemctl").arg("daemon-reload"))?;
    Ok(took)
}

fn upgrades(_: &mut Trial) -> Result<String> {
    let (session, pid) = (status()?["session"].clone(), main_pid()?);
    let load = Load::start(1, &online_cpus())?;
    std::thread::sleep(Duration::from_secs(2));
    install(PACKAGES[1])?;
    succeeded(pid)?;
    std::thread::sleep(Duration::from_secs(3));
    let calls = load.end()?;
    ensure!(status()?["session"] == session, "another recording runs");
    ensure!(fs::read_to_string(CONFIG)? == BUSY, "the configuration was replaced");
    let made = load::check(&calls)?;
    Ok(format!("to version {}, {made} calls made meanwhile, each recorded once", dpkg_version()?))
}

fn soaks(trial: &mut Trial) -> Result<String> {
    Soak::run(trial.soak)
}

fn is_quiet(_: &mut Trial) -> Result<String> {
    let pid = main_pid()?;
    // Whatever else the machine does may be worth a snapshot, or more than a recording without a
    // budget can write.
    let lines = || -> Result<Vec<String>> {
        let entries = journal::entries(&journal::by(pid))?;
        let ours =
            entries.iter().filter(|entry| entry["CAUSE"].is_null() && entry["LANE"].is_null());
        Ok(ours.map(journal::message).collect())
    };
    let before = lines()?.len();
    std::thread::sleep(Duration::from_mins(1));
    let news = lines()?.split_off(before);
    ensure!(main_pid()? == pid, "it has not run through");
    ensure!(news.is_empty(), "in a minute in which nothing happened: {}", news.join("; "));
    // A minute was added up, at least.
    let sums = Path::new(STATE).join("sums");
    let bytes = |path: PathBuf| fs::metadata(path).map_or(0, |of| of.len());
    let files = fs::read_dir(&sums).with_context(|| sums.display().to_string())?;
    let bytes: u64 = files.flatten().map(|file| bytes(file.path())).sum();
    ensure!(bytes > 0, "there are no sums of minutes");
    Ok(format!("no line in a minute; {bytes} bytes of sums of minutes"))
}

fn stops(_: &mut Trial) -> Result<String> {
    let bpffs = Path::new(RUNTIME).join("bpf");
    let mut pins = pins(&bpffs)?;
    // The kernel's own.
    pins.retain(|pin| pin.parent() != Some(&bpffs));
    let objects = pins.iter().map(|pin| BpfObject::pinned(pin)).collect::<Result<Vec<_>, _>>()?;
    ensure!(objects.len() > 10, "{} pinned objects", objects.len());
    check(Command::new("systemctl").args(["stop", UNIT]))?;
    check(Command::new("systemctl").args(["disable", UNIT]))?;
    for unit in UNITS {
        let inactive = wait_until(PATIENCE, || !is("is-active", unit));
        ensure!(
            inactive && !is("is-failed", unit),
            "{unit}: {}",
            lossy(&Command::new("systemctl").args(["status", unit]).output()?)
        );
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    ensure!(!mounts.contains(RUNTIME), "still mounted: {mounts}");
    let left = bpf_objects_left(&objects);
    ensure!(left.is_empty(), "still in the kernel: {left:?}");
    // The history outlives it.
    let dump = read(Command::new("flightctl").args(["dump", "--last", "1s"]))?;
    ensure!(dump.lines().count() > 10, "the files are not read: {dump}");
    Ok(format!("{} programs, maps and links are gone; the files are still read", objects.len()))
}

fn purges(_: &mut Trial) -> Result<String> {
    privileges::plant()?;
    check(Command::new("dpkg").args(["--purge", "flightrec"]))?;
    privileges::untouched("the purge")?;
    ship::is_gone()?;
    let find = "find / -xdev '(' -iname '*flight[rcd]*' -o -iname '*flight-s*' ')' \
                -not -path '/proc/*' -not -path '/sys/*' -not -path '/trial/*' \
                -not -path '/var/log/*' -not -path '/usr/share/icons/*'";
    let left = read(Command::new("/bin/sh").args(["-c", find]))?;
    ensure!(left.trim().is_empty(), "left: {left}");
    for (file, what) in [("/etc/passwd", "user"), ("/etc/group", "group")] {
        let text = fs::read_to_string(file)?;
        ensure!(
            !text.lines().any(|line| line.starts_with("flightrec:")),
            "the {what} is still there"
        );
    }
    let failed = read(Command::new("systemctl").args(["--failed", "--plain", "--no-legend"]))?;
    ensure!(!failed.contains("flight"), "{failed}");
    Ok("no file, user, group or unit; links of the user's were not followed".to_owned())
}

fn install(package: &str) -> Result<()> {
    let package = Path::new(INSIDE).join(package);
    check(
        Command::new("dpkg")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["--install"])
            .arg(package),
    )
}

fn dpkg_version() -> Result<String> {
    read(Command::new("dpkg-query").args(["-W", "-f", "${Version}", "flightrec"]))
}

/// Its own process, while it runs.
pub(super) fn main_pid() -> Result<Pid> {
    unit_pid(UNIT)
}

/// The process of a unit that runs.
pub(super) fn unit_pid(unit: &str) -> Result<Pid> {
    let shown = read(Command::new("systemctl").args(["show", "-P", "MainPID", unit]))?;
    let pid: i32 = shown.trim().parse().with_context(|| format!("MainPID {shown}"))?;
    ensure!(pid != 0, "{unit} does not run");
    Ok(Pid::from_raw(pid))
}

/// Waits until another process than this runs, and answers.
pub(super) fn succeeded(by: Pid) -> Result<()> {
    let replaced =
        wait_until(PATIENCE, || main_pid().is_ok_and(|now| now != by) && status().is_ok());
    ensure!(replaced, "no other daemon runs");
    Ok(())
}

pub(super) fn status() -> Result<Value> {
    Ok(serde_json::from_str(&read(Command::new("flightctl").args(["status", "--json"]))?)?)
}

fn thread_named(pid: Pid, name: &str) -> Result<Pid> {
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let entry = entry?;
        if fs::read_to_string(entry.path().join("comm"))?.trim() == name {
            return Ok(Pid::from_raw(entry.file_name().to_string_lossy().parse()?));
        }
    }
    bail!("flightd has no thread {name}")
}

/// What is pinned in a directory, and below.
fn pins(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(pins(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

pub(super) fn is(question: &str, unit: &str) -> bool {
    Command::new("systemctl")
        .args([question, "--quiet", unit])
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs it; an error says what it said.
pub(super) fn check(command: &mut Command) -> Result<()> {
    read(command).map(drop)
}

pub(super) fn read(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}: {}", output.status, lossy(&output));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(super) fn lossy(output: &Output) -> impl Display {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    format!("{out}{err}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_that_nobody_asked_for_is_left_out_and_not_passed() {
        let (wanted, left_out) = steps(Duration::ZERO);
        assert_eq!(left_out.iter().map(|(what, _)| *what).collect::<Vec<_>>(), [SOAK]);
        assert_eq!(wanted.len(), STEPS.len() - 1);
        let (wanted, left_out) = steps(Duration::from_mins(1));
        assert_eq!((wanted.len(), left_out.len()), (STEPS.len(), 0));
    }
}
