//! What the other tests stand on: the sandbox is private and leaves nothing behind, and each C
//! program does the thing that it is named for.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::Command;

use flightrec_tests::{Sandbox, c_program, key_values, online_cpus, pin_to_cpu, require_kernel};

/// Runs a program to its successful end.
fn run(program: &Path, args: &[&str]) -> HashMap<String, String> {
    let output = Command::new(program).args(args).output().expect("run");
    assert!(output.status.success(), "{}: {output:?}", program.display());
    key_values(&output.stdout)
}

/// The mounts below `path` that a process sees.
fn mounts_below(process: &str, path: &Path) -> usize {
    let mounts = fs::read_to_string(format!("/proc/{process}/mounts")).expect("mounts");
    mounts.lines().filter(|line| line.contains(&*path.to_string_lossy())).count()
}

#[test]
fn sandbox_is_private_and_leaves_nothing() {
    require_kernel();
    let sandbox = Sandbox::new().expect("sandbox");
    let root = sandbox.root().to_path_buf();
    assert_eq!(mounts_below("thread-self", &root), 1);
    // The test's parent (nextest or cargo) is outside.
    assert_eq!(mounts_below(&parent_id().to_string(), &root), 0);
    assert!(Path::new("/sys/kernel/tracing/events/raw_syscalls").is_dir());
    let other = Sandbox::new().expect("a second sandbox of the same thread");
    assert_ne!(other.root(), root);
    assert_eq!(sandbox.pins().expect("pins"), Vec::<PathBuf>::new());
    drop(sandbox);
    assert!(!root.exists());
    assert_eq!(mounts_below("thread-self", &root), 0);
    assert_eq!(mounts_below("thread-self", other.root()), 1);
}

#[test]
fn compat32_makes_32_bit_calls() {
    require_kernel();
    let program = c_program("compat32", &["-m32", "-nostdlib"]);
    let bytes = fs::read(&program).expect("read");
    assert_eq!(bytes.get(4), Some(&1), "ELFCLASS32");
    assert!(run(&program, &[])["pid"].parse::<u32>().expect("pid") > 1);
}

#[test]
fn int80_finds_its_own_id() {
    require_kernel();
    let out = run(&c_program("int80", &[]), &[]);
    assert_eq!(out["pid"], out["int80"]);
}

#[test]
fn seccomp_deny_denies() {
    require_kernel();
    let out = run(&c_program("seccomp_deny", &[]), &[]);
    assert_eq!((&*out["ret"], &*out["errno"]), ("-1", "1"));
}

#[test]
fn vfork_clone_makes_three_children() {
    require_kernel();
    let out = run(&c_program("vfork_clone", &[]), &[]);
    assert_eq!((&*out["vfork_code"], &*out["fork_code"]), ("3", "4"));
    assert_ne!(out["thread"], out["pid"]);
}

#[test]
fn restart_restarts() {
    require_kernel();
    let out = run(&c_program("restart", &[]), &[]);
    assert_eq!((&*out["read"], &*out["alarms"]), ("1", "1"));
}

#[test]
fn exec_thread_takes_the_leaders_id() {
    require_kernel();
    let out = run(&c_program("exec_thread", &[]), &[]);
    assert_ne!(out["thread"], out["pid"]);
    assert_eq!((&out["end_pid"], &out["end_thread"]), (&out["pid"], &out["pid"]));
}

#[test]
fn cold_path_is_cold() {
    require_kernel();
    let out = run(&c_program("cold_path", &[]), &["/etc/hostname"]);
    assert_eq!((&*out["present"], &*out["present_after"]), ("0", "1"));
    assert_eq!(out["path"], "/etc/hostname");
}

#[test]
fn pingpong_plays_all_rounds() {
    require_kernel();
    let last = online_cpus().last().expect("a CPU").to_string();
    let out = run(&c_program("pingpong", &[]), &["200", "2", "0", &last]);
    assert_eq!(out["done"], "200");
    assert_eq!(
        ["ping0", "pong0", "ping1", "pong1"].iter().filter(|k| out.contains_key(**k)).count(),
        4
    );
}

#[test]
fn hogs_end_with_the_sleeper() {
    require_kernel();
    let out = run(&c_program("hogs", &[]), &["3", "0", "5", "1000"]);
    assert_eq!(out["done"], "5");
    assert!(out.contains_key("hog2") && !out.contains_key("hog3") && out.contains_key("sleeper"));
}

#[test]
fn pinned_threads_stay() {
    require_kernel();
    let last = *online_cpus().last().expect("a CPU");
    pin_to_cpu(last);
    let status = fs::read_to_string("/proc/thread-self/status").expect("status");
    assert!(status.contains(&format!("Cpus_allowed_list:\t{last}\n")), "{status}");
}
