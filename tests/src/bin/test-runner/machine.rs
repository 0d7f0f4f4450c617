//! What tests may leave on the machine: files, mounts, control groups, processes, objects in the
//! kernel.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flightrec_tests::{ControlGroup, bpf_objects, bpf_objects_left, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::process;

/// Directories in which tests make files by path.
const PLACES: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/run"];
/// How names of such files begin: tempfile's own, and those that programs and tests choose.
const PREFIXES: [&str; 4] = [".tmp", "flightrec", "flightctl", SCRATCH];
/// How the name of the directory for temporary files of all tests begins.
pub(crate) const SCRATCH: &str = "frt-";
/// How long what ends with a test may take to go.
const PATIENCE: Duration = Duration::from_secs(20);

/// The machine before the tests.
#[derive(Debug)]
pub(crate) struct Machine {
    files: BTreeSet<String>,
    mounts: BTreeSet<String>,
    groups: BTreeSet<String>,
    /// Ids of programs and maps; nothing without root.
    objects: BTreeSet<u32>,
}

impl Machine {
    /// Looks at it.
    pub(crate) fn look() -> io::Result<Self> {
        Ok(Self {
            files: files(),
            mounts: mounts()?,
            groups: groups(),
            objects: bpf_objects().unwrap_or_default().iter().map(|object| object.id).collect(),
        })
    }

    /// What is there now and was not there before, in words.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left: Vec<String> = processes_left(Path::new("/"));
        let mut add =
            |what: &str, now: &dyn Fn() -> BTreeSet<String>, before: &BTreeSet<String>| {
                let new = || now().difference(before).cloned().collect::<Vec<_>>();
                wait_until(PATIENCE, || new().is_empty());
                left.extend(new().into_iter().map(|of| format!("{what} {of}")));
            };
        add("the file", &files, &self.files);
        add("the mount", &|| mounts().unwrap_or_default(), &self.mounts);
        add("the control group", &groups, &self.groups);
        // systemd loads and frees programs of its own with its units.
        let mut objects = bpf_objects().unwrap_or_default();
        objects.retain(|of| !self.objects.contains(&of.id) && !of.name.starts_with("sd_"));
        let objects = bpf_objects_left(&objects).into_iter();
        left.extend(
            objects.map(|of| format!("{:?} {} ({}) in the kernel", of.kind, of.name, of.id)),
        );
        left
    }
}

fn files() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in PLACES.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten() {
        let name = entry.file_name();
        if PREFIXES.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            found.insert(entry.path().display().to_string());
        }
    }
    found
}

fn mounts() -> io::Result<BTreeSet<String>> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    Ok(mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(str::to_owned).collect())
}

/// Control groups that are ours by name, in every hierarchy.
fn groups() -> BTreeSet<String> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![PathBuf::from("/sys/fs/cgroup")]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for path in entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with("flightrec") {
                found.insert(path.display().to_string());
            }
            folders.push(path);
        }
    }
    found
}

/// Removes the control groups that a test has left, which have its process id in their names; in
/// words, which they were. A test that was killed can't remove them itself.
pub(crate) fn remove_groups(test: u32) -> Vec<String> {
    let name = format!("/{}", ControlGroup::prefix(test));
    let mut left = groups();
    left.retain(|path| path.contains(&name));
    for path in &left {
        ControlGroup::remove(Path::new(path), PATIENCE);
    }
    left.into_iter().map(|path| format!("the control group {path}")).collect()
}

/// Processes that a test has left, in words, once they had time to end; then they are killed. Of
/// one test those that have `scratch` as their directory for temporary files; `/`: all.
pub(crate) fn processes_left(scratch: &Path) -> Vec<String> {
    let variable = format!("TMPDIR={}", scratch.display());
    let of_test = |process: &Process| {
        scratch == Path::new("/")
            || process.environment.split(|b| *b == 0).any(|of| of == variable.as_bytes())
    };
    let mut left = Vec::new();
    wait_until(PATIENCE, || {
        left = orphans();
        left.retain(of_test);
        left.is_empty()
    });
    for process in &left {
        // It may have ended just now.
        let _ = kill(process.pid, Signal::SIGKILL);
        let _ = waitpid(process.pid, None);
    }
    left.iter().map(|process| format!("process {} {}", process.pid, process.command)).collect()
}

struct Process {
    pid: Pid,
    command: String,
    environment: Vec<u8>,
}

/// The children of this process that it has not started: the tests' own. Those that have ended are
/// taken off the table of processes.
fn orphans() -> Vec<Process> {
    let own = std::process::id();
    // Meanwhile none is started.
    let tests = process::running();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Some((state, parent)) = stat(pid) else { continue };
        if parent != own || tests.contains(&pid) {
            continue;
        }
        let pid = Pid::from_raw(pid as i32);
        if state == 'Z' {
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
            continue;
        }
        let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        found.push(Process { pid, command, environment: read("environ") });
    }
    found
}

/// Takes what has ended of what tests have left off the table of processes: some of them wait for
/// that.
pub(crate) fn reap() {
    drop(orphans());
}

/// State and parent (proc_pid_stat(5)).
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may have anything in it.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
