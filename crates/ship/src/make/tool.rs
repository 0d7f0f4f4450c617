//! `flightctl`, run as a process of its own.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use thiserror::Error;
use tokio::process::Command;
use tokio::time::timeout;

use crate::config::{Config, Size};

/// Most bytes that are read of what it said.
const SAID_MAX: u64 = 64 << 10;
/// Longest text that is read of an answer or of metrics, bytes.
const TEXT_MAX: u64 = 32 << 20;
/// Exit status of `flightctl` where there is nothing of what was asked for (its `exit.rs`).
const NOTHING: i32 = 1;
/// Exit status of `flightctl --strict` where something of the window is missing (its `exit.rs`).
const INCOMPLETE: i32 = 3;

/// Why it did not do its work.
#[derive(Debug, Error)]
pub enum ToolError {
    /// It could not be run.
    #[error("{}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It took too long.
    #[error(
        "flightctl {command} did not end within {} ([limits] make_timeout)",
        humantime::format_duration(*limit)
    )]
    Slow {
        /// What it was to do.
        command: String,
        /// How long it may take.
        limit: Duration,
    },
    /// It failed.
    #[error("flightctl {command} failed: {said}")]
    Failed {
        /// What it was to do.
        command: String,
        /// What it said of that.
        said: String,
    },
}

impl ToolError {
    /// Whether it failed for want of room on the file system.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Failed { said, .. } => {
                said.contains("os error 28") || said.contains("os error 122")
            }
            Self::Start { .. } | Self::Slow { .. } => false,
        }
    }
}

/// The program, and what every run of it has.
#[derive(Debug, Clone)]
pub struct Tool {
    program: PathBuf,
    memory: Size,
    limit: Duration,
    /// Which strings are written.
    strings: &'static str,
    /// What is hidden in texts: regular expressions, one a line.
    patterns: String,
}

impl Tool {
    /// The one that is installed beside this program.
    ///
    /// # Errors
    /// Where this program is can't be found out.
    pub fn installed(config: &Config) -> io::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("flightctl");
        Ok(Self::new(program, config))
    }

    /// This one.
    pub(crate) fn new(program: PathBuf, config: &Config) -> Self {
        let (memory, limit) = (config.limits.memory, config.limits.make_timeout.duration());
        let line = |pattern: &String| pattern.replace('\n', r"\n") + "\n";
        let patterns = config.ship.patterns.iter().map(line).collect();
        Self { program, memory, limit, strings: config.ship.strings.name(), patterns }
    }

    /// Has a run leave out what is not to be told. Patterns tell what is secret, and arguments are
    /// seen by all users of the machine: so it reads them.
    fn redact(&self, command: &mut Command) -> Result<(), ToolError> {
        command.arg(format!("--strings={}", self.strings));
        if self.patterns.is_empty() {
            return Ok(());
        }
        let mut file = self.memory_file("patterns")?;
        let written = file.write_all(self.patterns.as_bytes()).and_then(|()| file.rewind());
        written.map_err(|e| self.start(e))?;
        command.arg("--hide-from=/dev/stdin").stdin(file);
        Ok(())
    }

    /// Makes the tables of a recording's file into a new directory; whether nothing of its window
    /// is missing.
    ///
    /// # Errors
    /// See [`ToolError`].
    pub async fn tables(&self, file: &Path, dir: &Path) -> Result<bool, ToolError> {
        self.run("export", ["--format=parquet", "--traces"], file, dir).await
    }

    /// Makes the page of a recording's file.
    ///
    /// # Errors
    /// See [`ToolError`].
    pub async fn page(&self, file: &Path, page: &Path) -> Result<bool, ToolError> {
        self.run("page", [], file, page).await
    }

    /// The answer about a snapshot's cause, as JSON, with at most so many waits in spans; empty:
    /// nothing is recorded of that time.
    ///
    /// # Errors
    /// See [`ToolError`].
    pub async fn answer(&self, file: &Path, spans: u32) -> Result<String, ToolError> {
        let mut command = self.command();
        command.args(["why", "--format=json"]);
        self.redact(&mut command)?;
        if spans > 0 {
            command.arg(format!("--spans={spans}"));
        }
        command.arg("--file").arg(file);
        self.text("why", command).await
    }

    /// What the recorder tells of itself, as OpenMetrics text.
    ///
    /// # Errors
    /// See [`ToolError`].
    pub async fn metrics(&self, runtime_dir: &Path) -> Result<String, ToolError> {
        let mut command = self.command();
        command.arg("--runtime-dir").arg(runtime_dir).arg("metrics");
        self.text("metrics", command).await
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            // A page has times of day: the same ones wherever it is made.
            .env("TZ", "UTC")
            .arg("--memory")
            .arg(self.memory.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn run<const N: usize>(
        &self,
        name: &str,
        args: [&str; N],
        file: &Path,
        out: &Path,
    ) -> Result<bool, ToolError> {
        let file_arg = [OsStr::new("--file"), file.as_os_str()];
        let mut command = self.command();
        command.arg(name).args(args);
        self.redact(&mut command)?;
        command.args(["--strict", "--output"]).arg(out).args(file_arg);
        let (ended, mut err) = self.ended(name, command).await?;
        match ended.code() {
            Some(0) => Ok(true),
            Some(INCOMPLETE) => Ok(false),
            _ => Err(self.failed(name, &mut err, ended)),
        }
    }

    /// What a run prints.
    async fn text(&self, name: &str, mut command: Command) -> Result<String, ToolError> {
        let mut out = self.memory_file("said")?;
        command.stdout(out.try_clone().map_err(|e| self.start(e))?);
        let (ended, mut err) = self.ended(name, command).await?;
        if !matches!(ended.code(), Some(0 | NOTHING)) {
            return Err(self.failed(name, &mut err, ended));
        }
        let mut text = Vec::new();
        let read = out.rewind().and_then(|()| out.take(TEXT_MAX).read_to_end(&mut text));
        read.map_err(|e| self.start(e))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn start(&self, source: io::Error) -> ToolError {
        ToolError::Start { program: self.program.clone(), source }
    }

    /// A file in memory takes whatever is written; a pipe would have to be read meanwhile.
    fn memory_file(&self, name: &str) -> Result<File, ToolError> {
        let file = memfd_create(name, MFdFlags::MFD_CLOEXEC);
        Ok(file.map_err(|e| self.start(e.into()))?.into())
    }

    fn failed(&self, name: &str, err: &mut File, ended: ExitStatus) -> ToolError {
        match said(err, ended) {
            Ok(said) => ToolError::Failed { command: name.to_owned(), said },
            Err(e) => self.start(e),
        }
    }

    /// How a run ends, and what it said of that.
    async fn ended(
        &self,
        name: &str,
        mut command: Command,
    ) -> Result<(ExitStatus, File), ToolError> {
        let start = |source| self.start(source);
        let err = self.memory_file("said")?;
        command.stderr(err.try_clone().map_err(start)?);
        let mut child = command.spawn().map_err(start)?;
        let limit = self.limit;
        let Ok(ended) = timeout(limit, child.wait()).await else {
            child.kill().await.map_err(start)?;
            return Err(ToolError::Slow { command: name.to_owned(), limit });
        };
        Ok((ended.map_err(start)?, err))
    }
}

/// The last thing that it said; where it said nothing, how it ended.
fn said(err: &mut File, ended: ExitStatus) -> io::Result<String> {
    let mut bytes = Vec::new();
    err.rewind()?;
    err.take(SAID_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let plain: String =
        last.chars().map(|c| if c.is_control() { '?' } else { c }).take(500).collect();
    let said = plain.strip_prefix("flightctl: ").unwrap_or(&plain).to_owned();
    Ok(match (said.is_empty(), ended.signal()) {
        (_, Some(signal)) => format!("signal {signal} ended it"),
        (true, None) => ended.to_string(),
        (false, None) => said,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// What comes of a run of a script in flightctl's place.
    async fn of(script: &str) -> Result<bool, String> {
        let (_dir, tool) = tool(script);
        tool.tables(Path::new("/x.flight"), Path::new("/out")).await.map_err(|e| e.to_string())
    }

    /// A script in flightctl's place.
    fn tool(script: &str) -> (tempfile::TempDir, Tool) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("flightctl");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let mut config = Config::default();
        config.ship.patterns = vec!["a b".into()];
        config.limits.make_timeout = "1s".parse().unwrap();
        let tool = Tool::new(program, &config);
        (dir, tool)
    }

    /// What comes of asking one for an answer.
    async fn text(script: &str) -> Result<String, String> {
        let (_dir, tool) = tool(script);
        tool.answer(Path::new("/x.flight"), 5).await.map_err(|e| e.to_string())
    }

    #[tokio::test]
    async fn how_it_is_called_and_how_it_ends() {
        let args = r#"
            all="--memory 256MiB export --format=parquet --traces --strings=all"
            all="$all --hide-from=/dev/stdin --strict --output /out --file /x.flight"
            test "$*" = "$all" -a "$TZ" = UTC -a "$(cat /dev/stdin)" = "a b" || exit 2"#;
        assert_eq!(of(args).await, Ok(true));
        assert_eq!(of("exit 3").await, Ok(false));
        for (script, said) in [
            (
                "echo some notes >&2; echo 'flightctl: bad file' >&2; exit 2",
                "flightctl export failed: bad file",
            ),
            ("exit 1", "flightctl export failed: exit status: 1"),
            ("kill -9 $$", "flightctl export failed: signal 9 ended it"),
            ("exec sleep 100", "flightctl export did not end within 1s ([limits] make_timeout)"),
        ] {
            assert_eq!(of(script).await, Err(said.to_owned()), "{script}");
        }
        let said = text("echo '{}'; echo $* >&2; test $7 = --spans=5 || exit 2; exit 1").await;
        assert_eq!(said, Ok("{}\n".to_owned()));
        let said = text("echo 'flightctl: no' >&2; exit 2").await;
        assert_eq!(said, Err("flightctl why failed: no".to_owned()));
        let gone = Tool::new("/nonexistent/flightctl".into(), &Config::default());
        let error = gone.page(Path::new("/x"), Path::new("/y")).await.unwrap_err();
        assert!(error.to_string().contains("/nonexistent/flightctl: No such file"), "{error}");
    }
}
