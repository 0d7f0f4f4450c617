//! A recorder of its own: `flightd` in a [`Sandbox`].

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bpf::BpfObject;
use crate::process::{PATIENCE, bin_dir, die_with_parent, wait_limited};
use crate::sandbox::Sandbox;

/// How a [`Recorder`] is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The configuration file's text; empty: all defaults.
    pub config: String,
    /// Further arguments of `flightd`.
    pub args: Vec<String>,
    /// What the daemon gets when the thread that started it ends without stopping it.
    pub death_signal: Signal,
    /// Where `flightd` and `flightctl` are.
    pub programs: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            config: String::new(),
            args: Vec::new(),
            death_signal: Signal::SIGKILL,
            programs: bin_dir(),
        }
    }
}

/// A running `flightd` with directories of its own. Dropping it ends the daemon and removes
/// everything; if the test has failed, the daemon's log is shown first.
#[derive(Debug)]
pub struct Recorder {
    options: Options,
    daemon: Option<Child>,
    sandbox: Sandbox,
}

impl Recorder {
    /// Starts a recorder and waits until it is ready.
    ///
    /// # Panics
    /// If it doesn't start, with what `flightd` wrote.
    pub fn start(options: Options) -> Self {
        Self::try_start(options).unwrap_or_else(|e| panic!("{e:#}"))
    }

    /// As [`Self::start`], for callers that aren't tests, and for starts that should fail.
    pub fn try_start(options: Options) -> Result<Self> {
        let mut recorder = Self { options, daemon: None, sandbox: Sandbox::new()? };
        recorder.spawn()?;
        Ok(recorder)
    }

    /// Its mounts and directories.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Changes the options for the next [`Self::restart`].
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// The daemon's process id.
    ///
    /// # Panics
    /// If it was ended.
    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().map_or_else(|| panic!("flightd does not run"), Child::id)
    }

    /// What the daemon has written to standard error, over all its starts.
    pub fn log(&self) -> String {
        fs::read(self.log_path())
            .map_or_else(|e| format!("(no log: {e})"), |l| String::from_utf8_lossy(&l).into())
    }

    /// A `flightd` on this recorder's directories, not started: with the configuration file and
    /// the three directories as arguments. It dies with the calling thread.
    pub fn flightd_command(&self) -> Command {
        let mut command = Command::new(self.options.programs.join("flightd"));
        command.arg("--config").arg(self.config_path());
        command.arg("--runtime-dir").arg(self.sandbox.runtime_dir());
        command.arg("--state-dir").arg(self.sandbox.state_dir());
        command.arg("--bpffs-dir").arg(self.sandbox.bpffs_dir());
        die_with_parent(&mut command, self.options.death_signal);
        command
    }

    /// A `flightctl` for this recorder, not started.
    pub fn flightctl_command(&self) -> Command {
        let mut command = Command::new(self.options.programs.join("flightctl"));
        command.arg("--runtime-dir").arg(self.sandbox.runtime_dir());
        // For when no daemon runs that could say it: the system's own files are no part of a test.
        command.arg("--state-dir").arg(self.sandbox.state_dir());
        die_with_parent(&mut command, Signal::SIGKILL);
        command
    }

    /// Runs `flightctl --runtime-dir …` with these arguments to its end.
    ///
    /// # Panics
    /// If it can't be run at all.
    pub fn flightctl<S: AsRef<OsStr>>(&self, args: &[S]) -> Output {
        let output = self.flightctl_command().args(args).stdin(Stdio::null()).output();
        output.unwrap_or_else(|e| panic!("can't run flightctl: {e}"))
    }

    /// What is pinned of the recording: programs, maps and links in the kernel. To be kept, and
    /// given to [`crate::bpf_objects_left`] after the recorder's end.
    ///
    /// # Panics
    /// If the pins can't be read.
    pub fn bpf_objects(&self) -> Vec<BpfObject> {
        let pins = self.sandbox.pins().unwrap_or_else(|e| panic!("bpffs: {e}"));
        let object = |pin: &PathBuf| {
            BpfObject::pinned(pin).unwrap_or_else(|e| panic!("{}: {e}", pin.display()))
        };
        pins.iter().map(object).collect()
    }

    /// Ends the daemon by SIGTERM.
    ///
    /// # Panics
    /// If it doesn't end in time, or not with exit code 0.
    pub fn stop(&mut self) {
        let status = self.terminate().unwrap_or_else(|e| panic!("{e:#}"));
        assert!(status.success(), "flightd ended with {status}:\n{}", self.log());
    }

    /// Ends the daemon by SIGKILL, as a crash would.
    ///
    /// # Panics
    /// If it was ended already.
    pub fn kill(&mut self) {
        let mut daemon = self.daemon.take().unwrap_or_else(|| panic!("flightd does not run"));
        daemon.kill().and_then(|()| daemon.wait()).unwrap_or_else(|e| panic!("flightd: {e}"));
    }

    /// Starts the daemon again on the same directories; one that runs is stopped before.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn restart(&mut self) {
        if self.daemon.is_some() {
            self.stop();
        }
        self.spawn().unwrap_or_else(|e| panic!("{e:#}"));
    }

    /// Sends SIGTERM and waits. On failure the daemon is gone as well.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        let mut daemon = self.daemon.take().context("flightd does not run")?;
        kill(Pid::from_raw(daemon.id() as i32), Signal::SIGTERM).context("can't end flightd")?;
        if let Some(status) = wait_limited(&mut daemon, PATIENCE)? {
            return Ok(status);
        }
        daemon.kill()?;
        daemon.wait()?;
        bail!("flightd did not end within {} s of SIGTERM:\n{}", PATIENCE.as_secs(), self.log())
    }

    fn config_path(&self) -> PathBuf {
        self.sandbox.root().join("flightd.toml")
    }

    fn log_path(&self) -> PathBuf {
        self.sandbox.root().join("flightd.log")
    }

    /// What `flightctl status` wrote to standard error while the daemon was starting.
    fn answer_path(&self) -> PathBuf {
        self.sandbox.root().join("flightctl.log")
    }

    fn spawn(&mut self) -> Result<()> {
        fs::write(self.config_path(), &self.options.config)
            .context("can't write the configuration")?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .context("can't make the log")?;
        let mut command = self.flightd_command();
        // A process group of its own: Ctrl-C at a terminal is for the parent, which then stops it.
        command
            .args(&self.options.args)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let program = command.get_program().to_owned();
        let daemon = command.spawn().with_context(|| {
            format!("can't run {} (`cargo xtask build` makes it)", program.display())
        })?;
        self.daemon = Some(daemon);
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.daemon.as_mut().map(Child::try_wait).transpose()?.flatten() {
                self.daemon = None;
                bail!("flightd ended with {status} before it was ready:\n{}", self.log());
            }
            if self.answers(end)? {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let answer = fs::read(self.answer_path()).unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer);
        bail!(
            "flightd was not ready within {} s:\n{}flightctl status: {answer}",
            PATIENCE.as_secs(),
            self.log()
        )
    }

    /// Whether `flightctl status` gets its answer.
    fn answers(&self, end: Instant) -> Result<bool> {
        // A socket that a killed daemon left behind refuses; nor is flightctl run in vain.
        if UnixStream::connect(self.sandbox.runtime_dir().join("control.sock")).is_err() {
            return Ok(false);
        }
        let errors = File::create(self.answer_path()).context("can't make flightctl's log")?;
        let mut command = self.flightctl_command();
        command.arg("status").stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let mut status = command.spawn().with_context(|| {
            format!("can't run {}", self.options.programs.join("flightctl").display())
        })?;
        if let Some(exit) =
            wait_limited(&mut status, end.saturating_duration_since(Instant::now()))?
        {
            return Ok(exit.success());
        }
        status.kill()?;
        status.wait()?;
        Ok(false)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Not `eprintln!` to a closed pipe: a panic here would end the whole test program.
            let _ = io::Write::write_all(
                &mut io::stderr(),
                format!("flightd's log:\n{}", self.log()).as_bytes(),
            );
        }
        if self.daemon.is_some() {
            // The failure that counts has been reported already; `terminate` kills in any case.
            let _ = self.terminate();
        }
    }
}
