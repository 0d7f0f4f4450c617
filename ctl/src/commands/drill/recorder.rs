//! A recorder for the drill alone, where none runs: `flightd` as a child, with directories and
//! mounts of its own, which end with it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use flightrec_reader::control::Client;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid, getppid};

use crate::follow::stop::Stop;
use flightrec_cli::note;

/// The daemon.
const PROGRAM: &str = "flightd";
/// Where its directories are: what is there is gone after a reboot, and belongs to root.
const PARENT: &str = "/run";
/// Where flightd finds tracefs unless its configuration says otherwise.
const TRACEFS: &str = "/sys/kernel/tracing";
/// How long it may take until it answers. It loads its programs and measures what events cost.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take to end after SIGTERM.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
const NAP: Duration = Duration::from_millis(20);

/// A running flightd. Dropping it ends the daemon, and the recording with it, and removes the
/// directories.
#[derive(Debug)]
pub(super) struct Recorder {
    daemon: Option<Child>,
    root: PathBuf,
    /// Until all is removed, a signal is only noted.
    stop: Stop,
}

impl Recorder {
    /// Starts it, and waits until it answers. From then on this thread, and those that it starts,
    /// see mounts that no other process sees.
    pub(super) fn start() -> Result<Self> {
        ensure!(
            geteuid().is_root(),
            "none runs here: start it (`systemctl start flightd`), or run the drill as root, \
             which then has a recorder of its own"
        );
        let stop = Stop::on_signals(None).context("signals")?;
        let root = Path::new(PARENT).join(format!("flightctl-drill-{}", std::process::id()));
        let dirs = |path: &Path| fs::DirBuilder::new().mode(0o700).create(path);
        dirs(&root).with_context(|| root.display().to_string())?;
        let mut recorder = Self { daemon: None, root, stop };
        for dir in [recorder.runtime_dir(), recorder.state_dir(), recorder.bpffs_dir()] {
            dirs(&dir).with_context(|| dir.display().to_string())?;
        }
        mounts(&recorder.bpffs_dir())?;
        recorder.spawn()?;
        recorder.wait()?;
        Ok(recorder)
    }

    /// Directory of its control socket.
    pub(super) fn runtime_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Where it is pinned.
    pub(super) fn bpffs_dir(&self) -> PathBuf {
        self.root.join("bpf")
    }

    fn state_dir(&self) -> PathBuf {
        self.root.join("state")
    }

    fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Ends with an error if a signal came.
    fn check(&self) -> Result<()> {
        ensure!(!self.stop.signalled(), "interrupted");
        Ok(())
    }

    fn spawn(&mut self) -> Result<()> {
        let log = File::create(self.log()).context("flightd's log")?;
        let mut command = Command::new(program());
        command.arg("--runtime-dir").arg(self.runtime_dir());
        command.arg("--state-dir").arg(self.state_dir());
        command.arg("--bpffs-dir").arg(self.bpffs_dir());
        // It is nobody's service, and not part of a terminal's foreground: Ctrl-C is for us.
        command.env_remove("NOTIFY_SOCKET").process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let parent = Pid::this();
        let hook = move || -> io::Result<()> {
            set_pdeathsig(Signal::SIGTERM)?;
            // The parent may have ended before: then nobody would ever send the signal.
            if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
        };
        // SAFETY: between fork and exec the hook makes two system calls, and allocates nothing.
        unsafe { command.pre_exec(hook) };
        let daemon = command.spawn().with_context(|| format!("can't run {PROGRAM}"))?;
        self.daemon = Some(daemon);
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        let begun = Instant::now();
        while Client::connect(&self.runtime_dir()).is_err() {
            self.check()?;
            let ended = self.daemon.as_mut().map(Child::try_wait).transpose()?.flatten();
            if let Some(status) = ended {
                self.tell();
                bail!("flightd ended ({status})");
            }
            if begun.elapsed() >= READY_WITHIN {
                self.tell();
                bail!("flightd does not answer after {} s", READY_WITHIN.as_secs());
            }
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Shows what the daemon logged.
    fn tell(&self) {
        match fs::read(self.log()) {
            Ok(log) => String::from_utf8_lossy(&log).lines().for_each(note),
            Err(e) => note(&format!("it has no log: {e}")),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            end(&mut daemon);
        }
        // Before its directory goes, which a mount would hold; it is not mounted if that failed.
        let _ = umount2(&self.bpffs_dir(), MntFlags::MNT_DETACH);
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// SIGTERM ends the recording with the daemon.
fn end(daemon: &mut Child) {
    // It may have ended by itself.
    let _ = kill(Pid::from_raw(daemon.id().cast_signed()), Signal::SIGTERM);
    let begun = Instant::now();
    while begun.elapsed() < ENDS_WITHIN {
        if !matches!(daemon.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(NAP);
    }
    let _ = daemon.kill();
    let _ = daemon.wait();
}

/// The daemon of this flightctl's release, else the one on the PATH.
fn program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}

/// Mounts a BPF file system there, and tracefs where it isn't, for this process and its children:
/// the mounts are gone with the last of them.
fn mounts(bpffs_dir: &Path) -> Result<()> {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).context("can't make a private mount namespace")?;
    // Without this, mounts would still propagate to where the namespace was copied from.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("can't make the mounts private")?;
    mount(Some("bpf"), bpffs_dir, Some("bpf"), MsFlags::empty(), none)
        .context("can't mount a BPF file system")?;
    if !Path::new(TRACEFS).join("events").is_dir() {
        mount(Some("tracefs"), TRACEFS, Some("tracefs"), MsFlags::empty(), none)
            .with_context(|| format!("can't mount tracefs on {TRACEFS}"))?;
    }
    Ok(())
}
