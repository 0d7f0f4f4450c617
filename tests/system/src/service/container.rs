//! A Debian with systemd as its init, in a container.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use flightrec_tests::die_with_parent;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use xtask::architecture::Architecture;

use flightrec_tests::Interrupt;
use xtask::architecture::debians;
use xtask::command::{run, shown};

/// Where the container sees what is handed in and out.
pub(crate) const INSIDE: &str = "/trial";

/// The release whose systemd is tried; the programs must not need a newer C library than its own.
pub(crate) const BOOKWORM: &str = "bookworm";
/// The one after it.
pub(crate) const TRIXIE: &str = "trixie";
/// Beyond what debootstrap takes by itself.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,procps";

const REPORT: &str = "report";
const PASSED: &str = "passed";

/// Copies a fresh Debian with systemd to `to`; makes that Debian first, in `folder`, where there is
/// none. `suite`: which release. One for another machine is made by programs of that machine, which
/// this one must be able to run.
pub(crate) fn debian(
    suite: &str,
    architecture: Architecture,
    folder: &Path,
    to: &Path,
) -> Result<()> {
    let base = match architecture {
        Architecture::HERE => folder.join(format!("{suite}-base")),
        other => folder.join(format!("{suite}-{}-base", debians(other))),
    };
    if !base.join("complete").exists() {
        // What an interrupted try left.
        remove(&base)?;
        fs::create_dir_all(&base)?;
        println!("making a Debian {suite} for {} (some minutes)", debians(architecture));
        let mut debootstrap = Command::new("debootstrap");
        debootstrap
            .arg(format!("--arch={}", debians(architecture)))
            .args(["--variant=minbase", &format!("--include={PACKAGES}"), suite])
            .arg(base.join("root"));
        run(debootstrap.stdout(Stdio::null()))?;
        fs::write(base.join("complete"), "")?;
    }
    run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(base.join("root")).arg(to))
}

/// A container's file system, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Container {
    root: PathBuf,
    shared: PathBuf,
    keep: bool,
}

impl Container {
    /// A fresh Debian of this release in `folder`.
    pub(crate) fn new(suite: &str, folder: &Path, keep: bool) -> Result<Self> {
        let container = Self { root: folder.join("root"), shared: folder.join("shared"), keep };
        container.clear()?;
        debian(suite, Architecture::HERE, folder, &container.root)?;
        fs::create_dir_all(&container.shared)?;
        Ok(container)
    }

    /// The path of a file that the container sees as `INSIDE/name`.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.shared.join(name)
    }

    /// Boots, runs a command as a unit after everything else, shows what it prints, and tells
    /// whether it succeeded.
    pub(crate) fn run(
        &self,
        command: &str,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        let unit = format!(
            "[Unit]\nAfter=multi-user.target\n\
             [Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart={command}\n\
             ExecStart=/bin/touch {INSIDE}/{PASSED}\n\
             ExecStopPost=/bin/systemctl poweroff --no-block\n\
             StandardOutput=append:{INSIDE}/{REPORT}\nStandardError=append:{INSIDE}/{REPORT}\n"
        );
        let units = self.root.join("etc/systemd/system");
        fs::write(units.join("trial.service"), unit)?;
        // Wanted by nothing that multi-user.target waits for.
        fs::write(
            units.join("trial.timer"),
            "[Timer]\nOnBootSec=1s\nAccuracySec=100ms\n[Install]\nWantedBy=timers.target\n",
        )?;
        let wants = units.join("timers.target.wants");
        fs::create_dir_all(&wants)?;
        std::os::unix::fs::symlink("/etc/systemd/system/trial.timer", wants.join("trial.timer"))?;
        File::create(self.place(REPORT))?;

        let mut nspawn = Command::new("systemd-nspawn");
        nspawn.arg("-D").arg(&self.root).args([
            "--register=no",
            "--keep-unit",
            "--boot",
            "--capability=all",
        ]);
        nspawn.arg("--system-call-filter=bpf perf_event_open").arg("--quiet").arg("--console=pipe");
        nspawn.arg(format!("--bind={}:{INSIDE}", self.shared.display()));
        nspawn.stdin(Stdio::null()).stdout(File::create(self.place("console"))?);
        nspawn.stderr(File::create(self.place("nspawn"))?);
        let mut child = die_with_parent(&mut nspawn, Signal::SIGTERM)
            .spawn()
            .with_context(|| format!("can't run {}", shown(&nspawn)))?;
        let watched = self.watch(&mut child, limit, interrupt);
        if !matches!(child.try_wait(), Ok(Some(_))) {
            end(&mut child);
        }
        watched?;
        if self.place(PASSED).exists() {
            return Ok(true);
        }
        let said = fs::read_to_string(self.place("nspawn")).unwrap_or_default();
        if !said.is_empty() {
            println!("systemd-nspawn: {said}");
        }
        Ok(false)
    }

    /// Shows the report as it grows, until the container has ended.
    fn watch(&self, child: &mut Child, limit: Duration, interrupt: &Interrupt) -> Result<()> {
        let mut report = File::open(self.place(REPORT))?;
        let begun = Instant::now();
        loop {
            let ended = child.try_wait()?.is_some();
            let mut news = Vec::new();
            report.read_to_end(&mut news)?;
            std::io::stdout().write_all(&news)?;
            std::io::stdout().flush()?;
            if ended {
                return Ok(());
            }
            interrupt.check()?;
            if begun.elapsed() > limit {
                bail!("the container has not ended within {} s", limit.as_secs());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn clear(&self) -> Result<()> {
        remove(&self.root)?;
        remove(&self.shared)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if self.keep {
            println!("kept: {}, {}", self.root.display(), self.shared.display());
        } else if let Err(e) = self.clear() {
            eprintln!("{e:#}");
        }
    }
}

/// SIGTERM lets systemd-nspawn end the container's processes with it.
fn end(child: &mut Child) {
    let pid = Pid::from_raw(child.id() as i32);
    // It may have ended by itself.
    let _ = kill(pid, Signal::SIGTERM);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Removes a folder, if it is there.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}
