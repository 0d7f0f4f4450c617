//! Narrow questions, with the blocks' summaries and without: the same bytes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::thread;

use flightrec_format::abi::kinds::{BlockComplete, BlockIssue, Kind, Throttle};
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{
    Abi, Comm, Exec, Fork, Rename, StringStatus, TaskExit, WakeContext,
};
use flightrec_format::decode::{Body, Call, Event, Plain, Text};
use flightrec_store::Kind as Block;
use flightrec_store::summary::{BlockSummary, Components};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

use crate::common::{NOW, Recording, SECOND, WALL, command, meta, stderr, stdout};
use crate::disk::{Disk, files, rewrite};

/// A limit at which some 250 pages are a stretch.
const SMALL: &str = "3M";
/// When the recording begins.
const BEGIN: u64 = NOW - 19 * SECOND;

fn run(memory: &str, args: &[&str]) -> Output {
    command(args).env("FLIGHTREC_MEMORY", memory).output().unwrap()
}

fn comm(name: &str) -> Comm {
    let mut comm = Comm::default();
    comm.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte);
    comm
}

fn a_call(nr: u16, args: &[u64], path: Option<(u8, &str, StringStatus)>) -> Call {
    let mut call =
        Call { nr, abi: Abi::Native, nargs: args.len() as u8, args: [0; 6], strings: vec![] };
    call.args.iter_mut().zip(args).for_each(|(to, from)| *to = *from);
    call.strings.extend(path.map(|(index, text, status)| {
        let bytes = if status == StringStatus::Unreadable { "" } else { text };
        Text { index, status, bytes: bytes.as_bytes().into() }
    }));
    call
}

/// Two CPUs, a thread that runs on each, and a random number.
struct Machine {
    recording: Recording,
    time: u64,
    running: [u32; 2],
    random: u64,
    requests: u32,
}

impl Machine {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn put(&mut self, cpu: u16, tid: u32, body: Body) -> u64 {
        self.time += 1000 + self.random(150_000);
        let lane = body.kind().lane();
        let event = Event { time: self.time, cpu, tid, body };
        self.recording.push(lane, &event);
        self.time
    }

    fn exit(&mut self, cpu: u16, tid: u32, call: Call, ret: i64, entered: Option<u64>) {
        self.put(cpu, tid, Body::Exit { call, ret, entered });
    }

    /// Another thread runs on a CPU.
    fn switch(&mut self, cpu: u16, next: u32, prev_state: u16, io_wait: bool) {
        let prev = std::mem::replace(&mut self.running[usize::from(cpu)], next);
        let (prev_prio, next_prio, preempted) = (120, 120, false);
        let body = Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio };
        self.put(cpu, prev, body);
    }

    fn wake(&mut self, cpu: u16, wakee: u32, on: u16) {
        let context = WakeContext::Thread;
        let by = self.running[usize::from(cpu)];
        let body = Body::Waking { wakee, prio: 120, state: 1, cpu: on, new: false, context };
        self.put(cpu, by, body);
        if self.random(3) == 0 {
            let body = Body::Migrate { thread: wakee, prio: 120, from: on, to: cpu };
            self.put(cpu, by, body);
        }
    }

    /// An open, which fails now and then; what could not be read at first comes with its end.
    fn open(&mut self, cpu: u16, tid: u32, fd: u64) {
        let path = format!("/srv/data/{}", self.random(40));
        let (fails, slow, cold) =
            (self.random(60) == 0, self.random(300) == 0, self.random(15) == 0);
        let status = if cold { StringStatus::Unreadable } else { StringStatus::Whole };
        let dir = if self.random(5) == 0 { 4 } else { u64::MAX - 99 };
        let call = a_call(257, &[dir, 0x5500, 0], Some((1, &path, status)));
        let entered = self.put(cpu, tid, Body::Enter(call));
        if slow {
            self.time += self.random(400) * 1_000_000;
        }
        let whole = cold.then_some((1, path.as_str(), StringStatus::Whole));
        let end = a_call(257, &[], whole);
        let folds = !cold && !slow;
        let ret = if fails { -2 - (self.random(2) as i64) * 11 } else { fd as i64 };
        self.exit(cpu, tid, end, ret, folds.then_some(entered));
    }

    fn write(&mut self, cpu: u16, tid: u32, fd: u64) {
        let call = a_call(1, &[fd, 0x5500, 100], None);
        let entered = self.put(cpu, tid, Body::Enter(call));
        let end = a_call(1, &[], None);
        self.exit(cpu, tid, end, 100, Some(entered));
    }

    /// A write during which a disk is waited for, and others run.
    fn sync(&mut self, cpu: u16, tid: u32) {
        let call = a_call(1, &[4, 0x5500, 100], None);
        self.put(cpu, tid, Body::Enter(call));
        self.requests += 1;
        let request = self.requests;
        let (device, sector) = (254 << 20, u64::from(request) * 8);
        let issue =
            BlockIssue { request, device, sector, bytes: 4096, op: 1, flags: 0, context: 0 };
        self.put(cpu, tid, Body::Plain(Plain::read(Kind::BlockIssue, &issue.bytes()).unwrap()));
        self.switch(cpu, 0, 2, true);
        self.time += self.random(5_000_000);
        let done = BlockComplete {
            request,
            device,
            sector,
            bytes: 4096,
            op: 1,
            flags: 0,
            context: 1,
            left: 0,
            error: 0,
        };
        self.put(cpu, 0, Body::Plain(Plain::read(Kind::BlockComplete, &done.bytes()).unwrap()));
        self.wake(cpu, tid, cpu);
        self.switch(cpu, tid, 0, false);
        let end = a_call(1, &[], None);
        self.exit(cpu, tid, end, 100, None);
    }

    /// Opens a file by its directory, and writes to it.
    fn opens_rarely(&mut self, cpu: u16, tid: u32) {
        for (dir, path, fd) in [(u64::MAX - 99, "/srv/rare", 9), (9, "only.txt", 10)] {
            let call = a_call(257, &[dir, 0x5500, 0], Some((1, path, StringStatus::Whole)));
            let entered = self.put(cpu, tid, Body::Enter(call));
            self.exit(cpu, tid, a_call(257, &[], None), fd, Some(entered));
        }
        self.write(cpu, tid, 10);
        self.open(cpu, tid, 10);
        self.write(cpu, tid, 10);
    }

    /// A process that lives shortly.
    fn child(&mut self, cpu: u16, parent: u32, tid: u32) {
        let start_time = self.time;
        let (parent_tid, parent_tgid, tgid) = (parent, parent, tid);
        let cgroup = 70 + u64::from(tid % 7);
        let comm_of_parent = comm(&format!("main{}", parent % 10));
        let comm = |name: &str| comm(name);
        let fork = Fork {
            parent_tid,
            parent_tgid,
            tid,
            tgid,
            start_time,
            cgroup,
            comm: comm_of_parent,
            shares: 0,
        };
        self.put(cpu, parent, Body::Fork(fork));
        self.switch(cpu, tid, 0, false);
        let rename = Rename { tid, tgid, old: comm_of_parent, new: comm("job") };
        self.put(cpu, tid, Body::Rename(rename));
        let exec = Exec { tid, old_tid: tid, tgid, args_len: 0, cgroup, comm: comm("job") };
        self.put(cpu, tid, Body::Exec { exec, file: None, args: None });
        for fd in 5..9 {
            self.open(cpu, tid, fd);
            self.write(cpu, tid, fd);
        }
        if tid.is_multiple_of(5) {
            self.opens_rarely(cpu, tid);
        }
        if self.random(2) == 0 {
            // What its parent had opened.
            self.write(cpu, tid, 3);
        }
        self.wake(cpu, parent, cpu);
        let exit = TaskExit { tid, tgid, code: 0, left: 0, start_time, comm: comm("job") };
        self.put(cpu, tid, Body::TaskExit(exit));
        self.switch(cpu, parent, 16, false);
        if tid.is_multiple_of(4) {
            let (duration, v1_cgroup, throttled_cpu, reserved) = (1_000_000, 0, 0, 0);
            let of = Throttle { duration, cgroup, v1_cgroup, throttled_cpu, reserved };
            let body = Plain::read(Kind::Throttle, &of.bytes()).unwrap();
            self.put(cpu, parent, Body::Plain(body));
        }
    }
}

/// A recording of some seconds, in files of so many: threads that open, write, sleep, wake one
/// another and wait for a disk, and now and then a process. If it goes on, its last file is open,
/// and the newest events are in the rings of a daemon alone.
fn made(file_seconds: u64, seed: u64, goes_on: bool) -> (TempDir, Option<TempDir>) {
    let dir = tempfile::tempdir().unwrap();
    let mut disk = Disk::new(dir.path(), meta(), WALL, file_seconds);
    let (recording, running) = (Recording::new(), [0, 0]);
    let mut machine = Machine { recording, time: BEGIN, running, random: seed, requests: 0 };
    for tid in [21, 22, 23, 24, 31, 32, 33, 34] {
        let tgid = if tid < 30 { 20 } else { tid };
        let name = comm(&format!("main{}", tid % 10));
        machine.put(0, tid, Body::Rename(Rename { tid, tgid, old: comm("init"), new: name }));
    }
    let mut drained = BEGIN;
    let mut child = 1000;
    let drained_until = if goes_on { BEGIN + 17 * SECOND } else { u64::MAX };
    while machine.time < BEGIN + 19 * SECOND - 600_000_000 {
        let cpu = machine.random(2) as u16;
        // One of them is busy, and one there seldom.
        let tid = match machine.random(400) {
            0 => 34,
            n => [21, 22, 23, 24, 31, 32, 33][n as usize % 7],
        };
        let other = usize::from(1 - cpu);
        if machine.running[other] == tid {
            continue;
        }
        if machine.running[usize::from(cpu)] != tid {
            machine.wake(1 - cpu, tid, cpu);
            machine.switch(cpu, tid, 1, false);
        }
        for _ in 0..4 {
            match machine.random(12) {
                0..4 => machine.open(cpu, tid, 3 + u64::from(tid % 3)),
                4..9 => machine.write(cpu, tid, 3 + u64::from(tid % 3)),
                9 if tid == 31 || machine.random(3) == 0 => machine.sync(cpu, tid),
                10 if machine.random(40) == 0 => {
                    child += 1;
                    machine.child(cpu, tid, child);
                }
                _ => {}
            }
        }
        if machine.random(3) == 0 {
            machine.switch(cpu, 0, 1, false);
            machine.time += machine.random(300_000);
        }
        if machine.time > drained + SECOND / 4 && machine.time < drained_until {
            drained = machine.time;
            disk.drain(&mut machine.recording, drained + 1000);
        }
    }
    let daemon = if goes_on {
        machine.recording.keep_pages = 12;
        Some(machine.recording.serve())
    } else {
        disk.close(&mut machine.recording, BEGIN + 19 * SECOND);
        None
    };
    (dir, daemon)
}

/// What questions are asked of.
struct Asked {
    store: TempDir,
    /// A copy of it without summaries.
    bare: TempDir,
    /// The daemon that has the rings after it.
    daemon: Option<TempDir>,
}

/// One in a file, one in several, and one that goes on.
const ASKED: [(u64, u64, bool); 3] = [(60, 7, false), (5, 8, false), (5, 9, true)];

fn asked(which: usize) -> Asked {
    let (seconds, seed, goes_on) = ASKED[which];
    let (store, daemon) = made(seconds, seed, goes_on);
    let bare = with_other_summaries(&store, |_, _| None);
    Asked { store, bare, daemon }
}

fn copied(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(to.join(&name)).unwrap();
            copied(&entry.path(), &to.join(name));
        } else {
            fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

/// Asks a store, and what a daemon has after it.
fn ask(
    command: &[&str],
    (store, daemon): (&Path, Option<&TempDir>),
    way: &[&str],
    memory: &str,
) -> Output {
    let store = store.to_str().unwrap();
    let args = match daemon.map(|daemon| daemon.path().to_str().unwrap()) {
        Some(daemon) => [&["--runtime-dir", daemon, "--state-dir", store], command, way].concat(),
        None => [command, &["--store", store], way].concat(),
    };
    run(memory, &args)
}

fn dump(store: &Path, way: &[&str], memory: &str) -> Output {
    ask(&["dump"], (store, None), way, memory)
}

/// The events of an answer, and what is told of its stretches. How many these are depends on what
/// is read; so what is told of several is one.
fn told(text: &str) -> (Vec<&str>, BTreeSet<String>) {
    let (mut events, mut coverage) = (Vec::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(line) = line.strip_prefix("# coverage: ") {
            coverage.insert(line.split_once("): ").expect("a duration").1.to_owned());
        } else if line.contains("\"event\":\"coverage\"") {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let of = |key: &str| line[key].to_string();
            coverage.insert(["complete", "cpus", "gaps", "lacking", "undecided"].map(of).join(" "));
        } else {
            events.push(line);
        }
    }
    (events, coverage)
}

/// What a question gives must not depend on what is read for it.
fn is_the_same(Asked { store, bare, daemon }: &Asked, way: &[&str]) {
    let dump =
        |store: &TempDir, memory| ask(&["dump"], (store.path(), daemon.as_ref()), way, memory);
    // What is read at once has no stretches, and no use for summaries. (Descriptors may be known by
    // more names then.)
    let is_asked_whole = way.contains(&"off");
    let (with, without, whole) = thread::scope(|scope| {
        let without = scope.spawn(|| dump(bare, SMALL));
        let whole = is_asked_whole.then(|| scope.spawn(|| dump(store, "512M")));
        let with = dump(store, SMALL);
        (with, without.join().unwrap(), whole.map(|whole| whole.join().unwrap()))
    });
    assert_eq!(with.status.code(), without.status.code(), "{way:?}: {}", stderr(&with));
    let (one, other) = (stdout(&with), stdout(&without));
    let ((events, coverage), (others, other)) = (told(&one), told(&other));
    let differs = events.iter().zip(&others).find(|(one, other)| one != other);
    assert_eq!(differs, None, "{way:?}");
    assert_eq!((events.len(), coverage), (others.len(), other), "{way:?}");
    let Some(whole) = whole else { return };
    let whole = stdout(&whole);
    let events = |text: &str| {
        let is_told = |line: &str, of| line.contains(&format!("\"event\":\"{of}\""));
        let is_event = |line: &&str| {
            !line.starts_with('#') && !is_told(line, "coverage") && !is_told(line, "gap")
        };
        text.lines().filter(is_event).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(events(&one), events(&whole), "{way:?}");
}

const FILTERS: [&[&str]; 37] = [
    &["--path", "/srv/rare/only.txt"],
    &["--path", "/srv/rare/*", "--fds", "off"],
    &["--path", "/srv/rare/**", "--event", "sys_exit"],
    &["--path", "only.txt", "--pid", "34"],
    &["--slower-than", "300ms"],
    &["--slower-than", "100ms", "--fds", "off"],
    &["--slower-than", "20ms", "--tid", "34"],
    &["--slower-than", "50ms", "--comm", "main4", "--errors"],
    &["--slower-than", "11ms", "--faster-than", "100ms", "--syscall", "openat"],
    &["--tid", "34"],
    &["--tid", "1003"],
    &["--tid", "1005,1009"],
    &["--pid", "1002"],
    &["--pid", "34", "--fds", "off"],
    &["--pid", "20"],
    &["--comm", "job", "--event", "sys_enter,sys_exit"],
    &["--comm", "job"],
    &["--comm", "main4", "--pid", "34"],
    &["--tree", "34"],
    &["--tree", "1004", "--fds", "off"],
    &["--syscall", "openat", "--errors"],
    &["--syscall", "openat", "--errno", "EACCES"],
    &["--errors"],
    &["--errors", "--fds", "off"],
    &["--errno", "ENOENT,EINTR", "--tid", "21,34"],
    &["--syscall", "write", "--tid", "34"],
    &["--syscall", "write", "--pid", "1001"],
    &["--syscall", "openat", "--pid", "1006", "--fds", "off"],
    &["--event", "switch", "--tid", "34"],
    &["--event", "waking,sys_exit", "--tid", "1004"],
    &["--event", "switch,fork,sys_enter", "--pid", "1007", "--fds", "off"],
    &["--cgroup", "0,70"],
    &["--cgroup", "71"],
    &["--cgroup", "72", "--event", "sys_exit"],
    &["--cgroup", "73", "--syscall", "openat", "--fds", "off"],
    &["--cgroup", "74", "--event", "throttle"],
    &["--cgroup", "75,76", "--tid", "1005", "--event", "switch,sys_exit"],
];

const LOOKS: [&[&str]; 4] = [&[], &["--format", "jsonl"], &["--merge"], &["--cpu", "0"]];

fn summaries_change_no_answer(which: usize) {
    let asked = asked(which);
    for (n, filter) in FILTERS.into_iter().enumerate() {
        for window in [&["--last", "14s"][..], &["--all"]] {
            is_the_same(&asked, &[window, filter, LOOKS[n % LOOKS.len()]].concat());
        }
    }
}

#[test]
#[ignore = "long: hundreds of questions over random files"]
fn summaries_change_no_answer_of_a_file() {
    summaries_change_no_answer(0);
}

#[test]
#[ignore = "long: hundreds of questions over random files"]
fn summaries_change_no_answer_of_several_files() {
    summaries_change_no_answer(1);
}

#[test]
#[ignore = "long: hundreds of questions over random files"]
fn summaries_change_no_answer_of_a_recording_that_goes_on() {
    summaries_change_no_answer(2);
}

#[test]
fn nor_of_any_window() {
    // Not in a `static`, which nothing drops: its directories would stay.
    let all: [Asked; ASKED.len()] = std::array::from_fn(asked);
    let config = ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() };
    let ways = ((6u64..15, 0u64..4), 0..FILTERS.len(), 0..LOOKS.len(), 0..ASKED.len());
    let checked = TestRunner::new(config).run(&ways, |((length, until), which, look, of)| {
        let window = [format!("--since=-{}s", length + until), format!("--until=-{until}s")];
        let window = [window[0].as_str(), window[1].as_str()];
        is_the_same(&all[of], &[&window[..], FILTERS[which], LOOKS[look]].concat());
        Ok(())
    });
    checked.unwrap_or_else(|e| panic!("{e}"));
}

/// A copy of a store with other summaries, or none.
fn with_other_summaries(
    store: &TempDir,
    other: impl Fn(BlockSummary, u32) -> Option<BlockSummary>,
) -> TempDir {
    let own = tempfile::tempdir().unwrap();
    copied(store.path(), own.path());
    for file in files(own.path()) {
        rewrite(&file, &other);
    }
    own
}

const WAY: [&str; 5] = ["--last", "14s", "--syscall", "openat", "--errors"];

#[test]
fn a_damaged_summary_changes_no_answer_and_verify_names_it() {
    let Asked { store, .. } = asked(1);
    let good = dump(store.path(), &WAY, SMALL);
    let own = tempfile::tempdir().unwrap();
    copied(store.path(), own.path());
    let mut damaged = 0;
    for file in files(own.path()) {
        let mut bytes = fs::read(&file).unwrap();
        for block in flightrec_store::FileReader::open(&file).unwrap().of(Block::Pages) {
            bytes[block.end() as usize - 9] ^= 4;
            damaged += 1;
        }
        fs::write(&file, bytes).unwrap();
    }
    assert!(damaged > 9);
    let out = dump(own.path(), &WAY, SMALL);
    assert_eq!(told(&stdout(&out)), told(&stdout(&good)));
    assert_eq!(stderr(&out), stderr(&good));
    let verified = run("512M", &["verify", own.path().to_str().unwrap()]);
    assert_eq!(verified.status.code(), Some(1), "{}", stderr(&verified));
    let told = stdout(&verified).matches("the summary of a block is damaged").count();
    assert_eq!(told, damaged, "{}", stdout(&verified));
}

#[test]
fn verify_names_a_summary_that_lacks_what_its_block_holds() {
    let Asked { store, .. } = asked(1);
    let verified = run("512M", &["verify", store.path().to_str().unwrap()]);
    assert_eq!(verified.status.code(), Some(0), "{}", stdout(&verified));
    let forgeries: [fn(&mut BlockSummary); 5] = [
        |of| of.kinds = 0,
        |of| of.threads.truncate(1),
        |of| of.calls.truncate(1),
        |of| of.calls.iter_mut().for_each(|call| call.longest = Some(0)),
        |of| of.components = Components::default(),
    ];
    for (n, forge) in forgeries.into_iter().enumerate() {
        let own = with_other_summaries(&store, |mut summary, _| {
            forge(&mut summary);
            Some(summary)
        });
        let verified = run("512M", &["verify", own.path().to_str().unwrap()]);
        assert_eq!(verified.status.code(), Some(1), "{n}: {}", stdout(&verified));
    }
}

/// That blocks are left unread shows where a summary says that nothing is in them.
#[test]
fn what_a_summary_rules_out_is_not_read() {
    let Asked { store, .. } = asked(1);
    let own = with_other_summaries(&store, |mut summary, _| {
        for call in &mut summary.calls {
            call.errors.clear();
            call.longest = Some(0);
        }
        summary.components = Components::default();
        Some(summary)
    });
    let ways: [(&[&str], usize); 3] = [
        (&WAY, 20),
        (&["--all", "--slower-than", "100ms"], 4),
        (&["--all", "--path", "/srv/rare/**"], 4),
    ];
    for (way, least) in ways {
        let count = |store: &Path| stdout(&dump(store, way, SMALL)).lines().count();
        let (whole, left) = (count(store.path()), count(own.path()));
        assert!(whole > least && left < whole, "{way:?}: {left} of {whole} lines");
    }
    let failures = |store: &Path| {
        let report = report((store, None), &["--errors", "--last", "14s"], SMALL);
        let table: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
        table["total"]["count"].as_u64().unwrap()
    };
    let (whole, left) = (failures(store.path()), failures(own.path()));
    assert!(whole > 20 && left < whole / 2, "{left} of {whole} failures");
}

#[test]
fn nor_is_it_while_a_recording_goes_on() {
    let Asked { store, daemon, .. } = asked(2);
    let own = with_other_summaries(&store, |mut summary, _| {
        summary.threads.clear();
        Some(summary)
    });
    let mut ways = Vec::new();
    for tid in 1001..=1008 {
        let tid = tid.to_string();
        let way = ["--all", "--tid", &tid, "--event", "sys_enter,sys_exit", "--fds", "off"];
        let count = |store: &TempDir| {
            let of = (store.path(), daemon.as_ref());
            stdout(&ask(&["dump"], of, &way, SMALL)).lines().count()
        };
        ways.push((count(&store), count(&own)));
    }
    assert!(ways.iter().any(|(whole, left)| *left + 8 < *whole), "{ways:?}");
    assert!(ways.iter().all(|(whole, left)| left <= whole), "{ways:?}");
}

fn report(of: (&Path, Option<&TempDir>), way: &[&str], memory: &str) -> Output {
    ask(&["report", "calls", "--format", "json"], of, way, memory)
}

#[test]
#[ignore = "long: hundreds of questions over random files"]
fn summaries_and_stretches_change_no_report() {
    let filters: [&[&str]; 14] = [
        &[],
        &["--by", "tid,cpu"],
        &["--by", "syscall,errno"],
        &["--by", "comm"],
        &["--pid", "34"],
        &["--pid", "20", "--by", "file"],
        &["--tid", "34", "--by", "syscall,cpu"],
        &["--tid", "1003"],
        &["--comm", "job"],
        &["--comm", "nosuch"],
        &["--tree", "34", "--by", "pid,syscall"],
        &["--errors"],
        &["--syscall", "openat", "--errno", "ENOENT", "--by", "errno,tid"],
        &["--slower-than", "100ms"],
    ];
    let rows = |out: &Output| {
        let table: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        (table["rows"].clone(), table["total"].clone())
    };
    for filter in filters {
        for window in [&["--last", "14s"][..], &["--all"]] {
            let way = [window, filter].concat();
            for Asked { store, bare, daemon } in (0..ASKED.len()).map(asked) {
                let daemon = daemon.as_ref();
                let with = report((store.path(), daemon), &way, SMALL);
                let without = report((bare.path(), daemon), &way, SMALL);
                let whole = report((store.path(), daemon), &way, "512M");
                assert_eq!(stdout(&with), stdout(&without), "{way:?}");
                // What is read at once may know more descriptors' names.
                if !way.contains(&"file") {
                    assert_eq!(rows(&with), rows(&whole), "{way:?}");
                }
            }
        }
    }
}

#[test]
fn blocks_without_a_summary_are_read() {
    let Asked { store, .. } = asked(1);
    let own = with_other_summaries(&store, |summary, number| (number % 3 != 0).then_some(summary));
    for filter in FILTERS {
        let way = [&["--last", "14s"], filter].concat();
        let [one, other] = [&store, &own].map(|store| stdout(&dump(store.path(), &way, SMALL)));
        assert_eq!(told(&one), told(&other), "{way:?}");
    }
}

#[test]
fn a_lane_of_each_kind_is_there() {
    let Asked { store, .. } = asked(0);
    let blocks: Vec<Option<Lane>> = files(store.path())
        .iter()
        .flat_map(|file| flightrec_store::FileReader::open(file).unwrap().blocks().to_vec())
        .map(|block| block.header.lane)
        .collect();
    for lane in Lane::RINGS {
        assert!(blocks.contains(&Some(lane)), "{lane:?}");
    }
}
