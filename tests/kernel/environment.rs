//! All tests have the same environment, whoever runs them.
//!
//! The programs ask it for the time zone, the language, colours, the terminal's width, credentials,
//! proxies, and their own directories and limits. Of what the caller has set, [`KEPT`] is kept; what
//! else a test needs, it sets for its command. New files have the usual mode.
//!
//! And nothing outlives them, however they end: a guard in a session of its own waits for the end
//! of the test program, kills what was started by it, which it knows by a variable, and removes its
//! control groups.

use std::path::Path;
use std::process::{Command, Stdio, exit};
use std::{env, fs};

use flightrec_tests::{PATIENCE, wait_until};
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{
    ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, pipe2, read, setsid,
};

/// How names begin of what is kept: where programs and files are, and what is for tests.
const KEPT: [&str; 16] = [
    "CARGO",
    "CI",
    "FLIGHTREC_BIN_DIR",
    "FLIGHTREC_FOLLOW_SECONDS",
    "FLIGHTREC_STACKS_SECONDS",
    "FLIGHTREC_STORE_SECONDS",
    "FLIGHTREC_STRESS_SECONDS",
    "FLIGHTREC_WITNESS",
    "FLIGHTREC_ZOO",
    "HOME",
    "NEXTEST",
    "PATH",
    "PYENV",
    "RUST",
    "TMPDIR",
    "USER",
];

const SET: [(&str, &str); 3] = [("LC_ALL", "C.UTF-8"), ("TERM", "xterm"), ("TZ", "UTC")];

/// Tells who started a process: the test program's id.
const STARTED_BY: &str = "FLIGHTREC_TESTS";

/// Run by the C library before `main`, which starts the threads of the tests.
#[used]
// SAFETY: entries of this section are pointers to functions that take nothing they need.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    make_usual();
    let own = Pid::this();
    // SAFETY: no other thread runs yet.
    unsafe { env::set_var(STARTED_BY, own.to_string()) };
    let (end, held) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    // SAFETY: no other thread runs, so the child may do what a process may.
    match unsafe { fork() }.expect("a guard") {
        // Until the process ends, it holds its end of the pipe.
        ForkResult::Parent { .. } => std::mem::forget(held),
        ForkResult::Child => {
            drop(held);
            // Who reads the test's output does not wait for the guard.
            let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null");
            let null = null.expect("/dev/null");
            let moved = dup2_stdin(&null).and(dup2_stdout(&null)).and(dup2_stderr(&null));
            moved.and(setsid().map(|_| ())).expect("a session");
            while read(&end, &mut [0]).is_err() {}
            end_all(own);
            exit(0);
        }
    }
}

/// Ends what a test program has started, and removes its control groups.
fn end_all(program: Pid) {
    let marker = format!("{STARTED_BY}={program}");
    wait_until(PATIENCE, || {
        let mut is_over = true;
        for pid in processes().filter(|pid| *pid != Pid::this() && has(*pid, &marker)) {
            is_over = false;
            // It may have ended just now.
            let _ = kill(pid, Signal::SIGKILL);
        }
        is_over
    });
    let is_its = |name: &str| {
        name.starts_with(&format!("flightrec-test-{program}-"))
            || name == format!("flightrec-pods{program}.slice")
    };
    let root = Path::new("/sys/fs/cgroup");
    for dir in [vec![root.to_path_buf()], folders(root)].concat() {
        for group in folders(&dir) {
            if group.file_name().is_some_and(|name| is_its(&name.to_string_lossy())) {
                remove(&group);
            }
        }
    }
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)))
}

/// Whether a process was started with this in its environment. A zombie has none.
fn has(pid: Pid, variable: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|of| of == variable.as_bytes())
}

fn folders(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Removes a control group with those in it.
fn remove(group: &Path) {
    for inner in folders(group) {
        remove(&inner);
    }
    let _ = fs::remove_dir(group);
}

fn make_usual() {
    for (name, _) in env::vars_os() {
        let name_bytes = name.as_encoded_bytes();
        if !KEPT.iter().any(|kept| name_bytes.starts_with(kept.as_bytes())) {
            // SAFETY: no other thread runs yet.
            unsafe { env::remove_var(&name) };
        }
    }
    for (name, value) in SET {
        // SAFETY: as above.
        unsafe { env::set_var(name, value) };
    }
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
}

#[test]
fn is_the_same_for_all() {
    let names: Vec<_> = env::vars_os().map(|(name, _)| name.into_encoded_bytes()).collect();
    let is_known = |name: &Vec<u8>| {
        KEPT.iter().any(|kept| name.starts_with(kept.as_bytes()))
            || SET.iter().any(|(set, _)| name == set.as_bytes())
            || name == STARTED_BY.as_bytes()
    };
    assert!(names.iter().all(is_known), "{:?}", env::vars_os());
    assert!(SET.iter().all(|(name, value)| env::var(name).as_deref() == Ok(value)));
}

/// This test is started anew, hangs then, and is killed: its processes go, and also those of these.
#[test]
fn nothing_outlives_a_killed_test() {
    /// Filters out no test, and says which of the two this is.
    const HANGS: &str = "hangs";
    if env::args().any(|arg| arg == HANGS) {
        let hangs = Command::new("sh").args(["-c", "sleep 300 & sleep 300; true"]).status();
        panic!("it goes on: {hangs:?}");
    }
    let mut other = Command::new(env::current_exe().expect("this program"));
    other.args(["--exact", "environment::nothing_outlives_a_killed_test", HANGS]);
    let mut other = other.stdout(Stdio::null()).spawn().expect("this program");
    let marker = format!("{STARTED_BY}={}", other.id());
    let count = || processes().filter(|pid| has(*pid, &marker)).count();
    assert!(wait_until(PATIENCE, || count() >= 3), "a shell and two in it");
    other.kill().and_then(|()| other.wait()).expect("it runs");
    assert!(wait_until(PATIENCE, || count() == 0));
}
