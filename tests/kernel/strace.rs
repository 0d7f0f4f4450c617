//! The recording of a program agrees with what strace shows of it, call by call.
//!
//! Both see the same script, once each. What is not compared, and why:
//!
//! - Addresses: those of two runs differ.
//! - Process ids: likewise. A process is known by its place instead: the n-th child of its parent.
//! - Buffers that are no paths: strace shows what is in them, the recording has their address
//!   ([`BUFFERS`]). Structures that are not recorded: likewise ([`NOT_READ`]); and those that a
//!   call does not fill.
//! - In structures: addresses; times of the clock, ids of processes and ports that the kernel
//!   chooses, as those of two runs differ.
//! - `rt_sigreturn`: it stands where the end of a child happened to interrupt its parent.
//! - The value of `clone` in the child: strace begins after it.
//! - Comments in strace's lines (`/* 3 vars */`), the words after an error's name, and decoded
//!   results.
//! - The base of a number: 0x1000 is 4096.
//! - Real-time signals: strace counts from the kernel's first, flightctl from the first that
//!   programs may use.
//! - An `ioctl` request that two drivers name: strace writes `A or B`, flightctl the general one.
//! - Arguments without a meaning: `mknodat`'s device where it makes none, those of `clone` but
//!   flags and stack.
//! - What is before the shell's exec: `setarch -R`, which has all addresses agree from one run to
//!   the next, so that what depends on them (how the heap grows) does, too.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use flightrec_tests::{Recorder, die_with_parent};
use nix::sys::signal::Signal;
use regex::Regex;
use tempfile::TempDir;

use crate::support::{dump, start};

/// The whole of it must stay in the rings.
const RINGS: &str = "[rings]\nsyscall = \"128MiB\"\nmax_total = \"1GiB\"\nmax_ram_percent = 50";

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/commands.sh");

/// Strings that are contents, not paths: call and argument.
const BUFFERS: &[(&str, usize)] = &[
    ("fsetxattr", 2),
    ("getcwd", 0),
    ("getrandom", 0),
    ("pread64", 1),
    ("read", 1),
    ("readlink", 1),
    ("readlinkat", 2),
    ("recvfrom", 1),
    ("sendto", 1),
    ("write", 1),
];

/// Calls of which a structure is not recorded, as [`crate`]'s recorder has its address.
const NOT_READ: &[&str] = &[
    "execve",
    "fstat",
    "fstatfs",
    "getdents64",
    "getrusage",
    "getgroups",
    "ioctl",
    "newfstatat",
    "rseq",
    "set_robust_list",
    "statfs",
    "statx",
    "sysinfo",
    "sigaltstack",
    "uname",
    "capget",
    "timer_create",
    "times",
];

/// Lowest number that may be an address.
const FIRST_ADDRESS: u64 = 0x1_0000;

/// A system call as its line shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    name: String,
    args: Vec<String>,
    /// A number, the name of an error, or `?` where it did not return.
    ret: String,
    /// What stands after it.
    after: String,
}

impl Shown {
    /// `name(arguments) = result`
    fn parse(line: &str) -> Self {
        let parse = || {
            let (name, rest) = line.split_once('(')?;
            let (args, rest) = arguments(rest)?;
            let after = rest.split_once(" (").map_or("", |(_, after)| after).into();
            let mut words = rest.split_whitespace();
            let ret = match (words.next()?, words.next(), words.next()) {
                ("-->", None, None) => "?",
                ("=", Some(_), Some(error)) if error.starts_with('E') => error,
                ("=", Some(ret), _) => ret,
                _ => return None,
            };
            Some(Self { name: name.into(), args, ret: ret.into(), after })
        };
        parse().unwrap_or_else(|| panic!("not a line of a system call: {line:?}"))
    }

    /// The process that it made.
    fn child(&self) -> Option<u32> {
        self.ret.parse().ok().filter(|pid| makes_process(&self.name) && *pid > 0)
    }
}

/// Whether a call of this name makes a process.
fn makes_process(name: &str) -> bool {
    matches!(name, "clone" | "clone3" | "fork" | "vfork")
}

/// The arguments up to the closing parenthesis, and what is after it.
fn arguments(text: &str) -> Option<(Vec<String>, &str)> {
    let (mut args, mut arg, mut depth) = (Vec::new(), String::new(), 0);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                arg.push(c);
                while let Some((_, c)) = chars.next() {
                    arg.push(c);
                    match c {
                        '\\' => arg.extend(chars.next().map(|(_, c)| c)),
                        '"' => break,
                        _ => {}
                    }
                }
                continue;
            }
            '/' if text[at..].starts_with("/*") => {
                let after = at + text[at..].find("*/")? + 2;
                while chars.offset() < after {
                    chars.next();
                }
                continue;
            }
            ',' if depth == 0 => {
                args.push(std::mem::take(&mut arg).trim().to_owned());
                continue;
            }
            ')' if depth == 0 => {
                if !arg.is_empty() || !args.is_empty() {
                    args.push(arg.trim().to_owned());
                }
                return Some((args, &text[at + 1..]));
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        arg.push(c);
    }
    None
}

/// Where the script's shell begins.
fn shell(calls: &[Shown]) -> Option<usize> {
    calls.iter().position(|call| {
        call.name == "execve" && call.args.first().is_some_and(|path| path == "\"/bin/sh\"")
    })
}

/// A program's processes, parents before their children; each with its calls.
struct Run {
    processes: Vec<(u32, Vec<Shown>)>,
}

impl Run {
    /// Puts the processes in order, beginning with `root`.
    fn new(mut calls: HashMap<u32, Vec<Shown>>, root: u32) -> Self {
        let first = calls.get_mut(&root).expect("the first process");
        first.drain(..shell(first).expect("the shell's exec"));
        let mut run = Self { processes: Vec::new() };
        let mut next = vec![root];
        while let Some(pid) = next.pop() {
            let mut calls =
                calls.remove(&pid).unwrap_or_else(|| panic!("nothing of process {pid}"));
            calls.retain(|call| call.name != "rt_sigreturn");
            next.extend(calls.iter().rev().filter_map(Shown::child));
            run.processes.push((pid, calls));
        }
        assert!(calls.is_empty(), "nobody made these processes: {:?}", calls.keys());
        for index in 0..run.processes.len() {
            let mut calls = std::mem::take(&mut run.processes[index].1);
            for call in &mut calls {
                run.name_processes(call);
            }
            order_waits(&mut calls);
            run.processes[index].1 = calls;
        }
        run
    }

    /// Process ids as places in the order.
    fn name_processes(&self, call: &mut Shown) {
        match &*call.name {
            "clone" | "clone3" | "fork" | "vfork" | "wait4" | "getpid" | "gettid" | "getppid"
            | "getpgrp" | "getpgid" | "set_tid_address" => self.name_process(&mut call.ret),
            _ => {}
        }
        if let ("kill" | "wait4" | "getpgid" | "setpgid", [pid, ..]) =
            (&*call.name, &mut call.args[..])
        {
            self.name_process(pid);
        }
        if let ("waitid", [_, pid, ..]) = (&*call.name, &mut call.args[..]) {
            self.name_process(pid);
        }
    }

    fn name_process(&self, text: &mut String) {
        if let Some(pid) = text.parse::<u32>().ok().filter(|pid| *pid > 0) {
            let place = self.processes.iter().position(|(known, _)| *known == pid);
            *text = place
                .map_or_else(|| "(process outside)".into(), |place| format!("(process {place})"));
        }
    }
}

/// Which of the children that run at once ends first is chance: of calls in a row that wait for any
/// child, the results are put in order.
fn order_waits(calls: &mut [Shown]) {
    let waits =
        |call: &Shown| call.name == "wait4" && call.args.first().is_some_and(|pid| pid == "-1");
    for row in calls.chunk_by_mut(|a, b| waits(a) && waits(b)) {
        if row.first().is_some_and(waits) {
            let ended = row.iter().take_while(|call| call.ret.starts_with("(process")).count();
            let mut results: Vec<String> =
                row[..ended].iter().map(|call| call.ret.clone()).collect();
            results.sort_unstable();
            for (call, result) in row.iter_mut().zip(results) {
                call.ret = result;
            }
        }
    }
}

/// Runs the script in an empty directory, by `command` with what it takes after its arguments; its
/// process id.
fn run_script(mut command: Command, dir: &Path) -> u32 {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir(dir).expect("a directory");
    command.args(["/usr/bin/setarch", "-R", "/bin/sh", SCRIPT]).current_dir(dir);
    command.env_clear().envs([("PATH", "/usr/bin:/bin"), ("LC_ALL", "C")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = die_with_parent(&mut command, Signal::SIGKILL)
        .spawn()
        .expect("`cargo xtask setup` installs strace");
    let pid = child.id();
    assert!(child.wait().expect("wait").success());
    pid
}

/// Run under strace: a file a process.
fn strace(dir: &Path, out: &Path) -> Run {
    fs::create_dir(out).expect("a directory");
    let mut command = Command::new("/usr/bin/strace");
    command.arg("-ff").arg("-o").arg(out.join("of"));
    run_script(command, dir);
    let mut calls: HashMap<u32, Vec<Shown>> = HashMap::new();
    for entry in fs::read_dir(out).expect("strace's files") {
        let path = entry.expect("strace's file").path();
        let pid: u32 =
            path.extension().and_then(|pid| pid.to_str()?.parse().ok()).expect("a process id");
        let text = fs::read_to_string(&path).expect("ASCII");
        let shown = text
            .lines()
            .filter(|line| !line.starts_with("---") && !line.starts_with("+++"))
            .map(of_strace);
        calls.insert(pid, shown.collect());
    }
    let root =
        *calls.iter().find(|(_, calls)| shell(calls).is_some()).expect("the first process").0;
    Run::new(calls, root)
}

/// strace names the arguments of `clone`, in an order of its own.
fn of_strace(line: &str) -> Shown {
    let mut call = Shown::parse(line);
    if call.name == "clone" {
        let value = |name: &str| {
            let value = call.args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
            value.map(str::to_owned)
        };
        call.args = ["flags", "child_stack"].into_iter().filter_map(value).collect();
    }
    call
}

/// Run bare, with the recorder.
fn recorded(recorder: &Recorder, dir: &Path) -> Run {
    let root = run_script(Command::new("/usr/bin/env"), dir);
    let tree = root.to_string();
    let lines = dump(
        recorder,
        &[
            "--all",
            "--strict",
            "--merge",
            "--fds",
            "off",
            "--event",
            "sys_enter,sys_exit",
            "--tree",
            &tree,
        ],
    );
    let mut calls: HashMap<u32, Vec<Shown>> = HashMap::new();
    for line in lines {
        // A child's own return from the call that made it.
        if line.text.ends_with(" <-- 0")
            && line.text.split(['(', ' ']).next().is_some_and(makes_process)
        {
            continue;
        }
        let mut call = Shown::parse(&line.text);
        match &*call.name {
            "clone" => call.args.truncate(2),
            "mknodat"
                if !call
                    .args
                    .get(2)
                    .is_some_and(|mode| mode.contains("S_IFCHR") || mode.contains("S_IFBLK")) =>
            {
                call.args.truncate(3);
            }
            _ => {}
        }
        calls.entry(line.tid).or_default().push(call);
    }
    Run::new(calls, root)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn is_address(text: &str) -> bool {
    text.starts_with("0x") && number(text).is_some_and(|n| n >= FIRST_ADDRESS)
}

fn same_value(ours: &str, straces: &str) -> bool {
    let number_of_both = number(ours).is_some_and(|n| Some(n) == number(straces));
    straces.split(" or ").any(|name| name == ours)
        || number_of_both
        || is_address(ours) && is_address(straces)
}

/// What differs from run to run in a structure, and what stands for it.
static REPLACED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        // strace's notation of addresses of sockets.
        (
            r#"\{sa_family=AF_INET, sin_port=htons\((\d+)\), sin_addr=inet_addr\("([^"]*)"\)\}"#,
            "{AF_INET, $2:$1}",
        ),
        (
            r#"\{sa_family=AF_INET6, sin6_port=htons\((\d+)\), sin6_flowinfo=htonl\(0\), inet_pton\(AF_INET6, "([^"]*)", &sin6_addr\), sin6_scope_id=0\}"#,
            "{AF_INET6, [$2]:$1}",
        ),
        (r"sa_family=(AF_\w+)", "$1"),
        ("sun_path=", ""),
        (r"nl_pid=\d+, nl_groups=", "pid=(id), groups="),
        (r"AF_NETLINK, pid=\d+", "AF_NETLINK, pid=(id)"),
        // Ports that the kernel chose.
        (r":(3[2-9]\d{3}|[4-6]\d{4})\}", ":(port)}"),
        // Contents of buffers.
        (r#"iov_base="(?:[^"\\]|\\.)*"(?:\.\.\.)?, "#, ""),
        (r"iov_base=0x[0-9a-f]+, ", ""),
        (r"\[\d+ => (\d+)\]", "[$1]"),
        // An offset that the call has moved.
        (r"\[(\d+)\] => \[\d+\]", "[$1]"),
        ("0x[0-9a-f]{5,}", "(address)"),
        (r", si_utime=\d+ ?, si_stime=\d+ ?", ""),
        (r"(si_pid)=\d+", "$1=(id)"),
        // What the kernel wrote at the same time.
        (r" => \{.*\}$", ""),
        // Times of files that the script made.
        (r"tv_sec=1[7-9]\d{8}, tv_nsec=\d+", "(time)"),
        // Where a comment stood.
        (r" ([,\]])", "$1"),
    ];
    patterns.map(|(pattern, by)| (compiled(pattern), by)).into()
});
/// A time of the clock, and how much of a timer is left.
static TIME: LazyLock<Regex> = LazyLock::new(|| compiled(r"tv_sec=\d+, tv_nsec=\d+"));
static TIMER: LazyLock<Regex> = LazyLock::new(|| compiled(r"it_value=\{tv_sec=\d+, tv_usec=\d+\}"));
static POLLED: LazyLock<Regex> = LazyLock::new(|| compiled(r"\{fd=(\d+), events=([^}]*)\}"));

/// Compiled once each: that takes longer than all else here.
fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern")
}

/// A structure as both show it, without what differs from run to run.
fn structure(call: &Shown, text: &str) -> String {
    let mut text = text.to_owned();
    let mut replace = |pattern: &Regex, by: &str| {
        text = pattern.replace_all(&text, by).into_owned();
    };
    if call.args.iter().any(|arg| arg == "TIMER_ABSTIME") {
        replace(&TIME, "(time)");
    }
    for (pattern, by) in &*REPLACED {
        replace(pattern, by);
    }
    if call.name == "setitimer" {
        replace(&TIMER, "it_value=(time)");
    }
    text
}

/// Which events a `poll` found stands after its result in strace's line.
fn found(call: &Shown) -> String {
    let with_events = |of: &regex::Captures<'_>| {
        let found = call.after.split_once(&format!("{{fd={}, revents=", &of[1]));
        let found = found.and_then(|(_, rest)| rest.split_once('}')).map_or("0", |(it, _)| it);
        format!("{{fd={}, events={}, revents={found}}}", &of[1], &of[2])
    };
    POLLED.replace_all(&call.args[0], with_events).into_owned()
}

/// `None`: they agree.
fn difference(ours: &Shown, straces: &Shown) -> Option<String> {
    if ours.name != straces.name || ours.args.len() != straces.args.len() {
        return Some("another call, or number of arguments".into());
    }
    for (index, (our, their)) in ours.args.iter().zip(&straces.args).enumerate() {
        let mut their = their.clone();
        if matches!(&*ours.name, "poll" | "ppoll") && index == 0 && straces.ret != "?" {
            their = found(straces);
        }
        let is_structure = their.starts_with(['{', '[']) || their.starts_with("~[");
        let failed = straces.ret.starts_with('E');
        let not_read = NOT_READ.contains(&&*ours.name) || failed || their == "[]";
        let buffer = their.starts_with('"') && BUFFERS.contains(&(&*ours.name, index));
        let same = if is_structure {
            structure(ours, our) == structure(straces, &their)
                || not_read && (is_address(our) || our == "NULL")
        } else {
            same_value(our, &their) || buffer && is_address(our)
        };
        if !same {
            return Some(format!("argument {index}: {our}, by strace {their}"));
        }
    }
    (!same_value(&ours.ret, &straces.ret))
        .then(|| format!("result: {}, by strace {}", ours.ret, straces.ret))
}

/// The first difference of a process's calls, with those before it.
fn first_difference(ours: &[Shown], straces: &[Shown]) -> Option<String> {
    let at =
        (0..ours.len().max(straces.len())).find_map(|at| match (ours.get(at), straces.get(at)) {
            (Some(our), Some(their)) => difference(our, their).map(|what| (at, what)),
            _ => Some((at, "one has more calls".into())),
        });
    let (at, what) = at?;
    let around = |calls: &[Shown]| {
        let calls = calls.iter().skip(at.saturating_sub(5)).take(8);
        let lines =
            calls.map(|call| format!("  {}({}) = {}", call.name, call.args.join(", "), call.ret));
        lines.collect::<Vec<_>>().join("\n")
    };
    Some(format!("call {at}: {what}\nrecorded:\n{}\nstrace:\n{}", around(ours), around(straces)))
}

#[test]
fn a_script_of_many_commands_reads_as_with_strace() {
    let root = TempDir::new().expect("a directory");
    let dir = root.path().join("work");
    // Unseen: what it leaves in caches (Python's compiled modules) is there for both.
    run_script(Command::new("/usr/bin/env"), &dir);
    let straces = strace(&dir, &root.path().join("strace"));
    // Only now: all that is recorded is read, and what strace itself does is a hundred times that
    // of the script.
    let ours = recorded(&start(RINGS), &dir);
    let mut commands = 0;
    for (place, ((pid, ours), (_, straces))) in
        ours.processes.iter().zip(&straces.processes).enumerate()
    {
        if let Some(what) = first_difference(ours, straces) {
            panic!("process {place} ({pid}): {what}");
        }
        commands += ours.iter().filter(|call| call.name == "execve" && call.ret == "0").count();
    }
    assert_eq!(ours.processes.len(), straces.processes.len());
    assert!(commands >= 60, "{commands} commands");
}
