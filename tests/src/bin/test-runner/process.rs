//! A test in a process of its own.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flightrec_tests::{LEFT_OUT, LEFT_OUT_MARK, RUNNER, die_with_parent, wait_limited};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::catalogue::Test;
use crate::machine;

/// Ends a test that hangs; far more than any needs on a machine that is busy with other things.
const LIMIT: Duration = Duration::from_mins(10);

/// How names begin of the variables of the environment that a test gets from whoever runs it: where
/// programs and files are, and what is for tests. The programs would ask it for limits,
/// directories, colours, credentials, proxies as well.
const KEPT: [&str; 9] =
    ["CARGO", "CI", "FLIGHTREC_", "HOME", "LLVM_PROFILE", "PATH", "PYENV", "RUST", "USER"];
/// Of those, what the programs themselves read.
const PROGRAMS: [&str; 3] = ["FLIGHTREC_RUNTIME_DIR", "FLIGHTREC_STATE_DIR", "FLIGHTREC_MEMORY"];
/// What every test gets.
const SET: [(&str, &str); 3] = [("LC_ALL", "C.UTF-8"), ("TERM", "xterm"), ("TZ", "UTC")];

/// How a test ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) took: Duration,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    Passed,
    /// The machine lacks what it needs.
    LeftOut(String),
    /// Why, and what it wrote.
    Failed(String, String),
}

/// The processes of tests that are waited for.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

pub(crate) fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test to its end, with a directory for temporary files in `scratch`.
pub(crate) fn run(test: &Test, scratch: &Path) -> Outcome {
    let began = Instant::now();
    let verdict = attempt(test, scratch)
        .unwrap_or_else(|e| Verdict::Failed(format!("can't run it: {e}"), String::new()));
    Outcome { verdict, took: began.elapsed() }
}

fn attempt(test: &Test, all: &Path) -> io::Result<Verdict> {
    let scratch = tempfile::Builder::new().prefix("").rand_bytes(4).tempdir_in(all)?;
    // Also for what a test runs as another user.
    fs::set_permissions(all, Permissions::from_mode(0o755))?;
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o1777))?;
    let mut output = tempfile::tempfile()?;
    let mut command = Command::new(&test.executable);
    command.args(["--exact", &test.name, "--nocapture", "--include-ignored"]);
    command.current_dir(&test.directory).env("CARGO_MANIFEST_DIR", &test.directory);
    command.env_clear().envs(environment()).env("TMPDIR", scratch.path()).env(RUNNER, "1");
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
    let mut child = {
        let mut running = running();
        let child = die_with_parent(command.process_group(0), Signal::SIGKILL).spawn()?;
        running.insert(child.id());
        child
    };
    let group = Pid::from_raw(child.id() as i32);
    let status = wait_limited(&mut child, LIMIT)?;
    if status.is_none() {
        // It may have ended just now.
        let _ = killpg(group, Signal::SIGKILL);
        child.wait()?;
    }
    running().remove(&child.id());
    let text = written(&mut output)?;
    let left = left(test, child.id(), scratch)?;
    Ok(match (status, left) {
        (Some(status), _) if status.code() == Some(LEFT_OUT) => {
            let why = text.lines().find_map(|line| line.strip_prefix(LEFT_OUT_MARK));
            Verdict::LeftOut(why.unwrap_or("it does not say why").to_owned())
        }
        (Some(status), None) if status.success() && has_run(&text) => Verdict::Passed,
        (Some(status), Some(left)) if status.success() => Verdict::Failed(left, text),
        (Some(status), _) => Verdict::Failed(ended(status), text),
        (None, _) => Verdict::Failed(format!("it was ended after {} s", LIMIT.as_secs()), text),
    })
}

/// The same for whoever runs the tests.
fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    let is_kept = |name: &OsString| {
        let name = name.to_string_lossy();
        KEPT.iter().any(|kept| name.starts_with(kept)) && !PROGRAMS.contains(&&*name)
    };
    let kept = std::env::vars_os().filter(move |(name, _)| is_kept(name));
    kept.chain(SET.map(|(name, value)| (name.into(), value.into())))
}

/// Whether the one test ran: a name that no test has is no error of its program.
fn has_run(text: &str) -> bool {
    text.contains("test result: ok. 1 passed")
}

fn ended(status: ExitStatus) -> String {
    if status.success() { "no test of this name ran".to_owned() } else { status.to_string() }
}

fn written(output: &mut File) -> io::Result<String> {
    output.rewind()?;
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a test has left behind, in words.
fn left(test: &Test, process: u32, scratch: TempDir) -> io::Result<Option<String>> {
    let entries = fs::read_dir(scratch.path())?.flatten();
    let mut left: Vec<String> =
        entries.map(|entry| format!("{} in TMPDIR", entry.file_name().to_string_lossy())).collect();
    if test.is_of_kernel {
        left.extend(machine::processes_left(scratch.path()));
        left.extend(machine::remove_groups(process));
    }
    scratch.close()?;
    Ok((!left.is_empty()).then(|| format!("it left behind: {}", left.join(", "))))
}
