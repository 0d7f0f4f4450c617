//! `flightctl why`: incidents of known causes (`tests/zoo`), and sums held against the kernel's.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_tests::{
    ControlGroup, Files, Options, PATIENCE, Recorder, RingPieces, c_program, die_with_parent,
    require_kernel, wait_limited, wait_until,
};
use jiff::Timestamp;
use nix::sys::signal::Signal;
use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::snapshot;

const SCHEMA: &str = include_str!("../../docs/flightctl-why.schema.json");
/// How much before and after a request is asked about, ns.
pub(crate) const AROUND: i64 = 20_000_000;
/// Longest that an incident takes.
const LONGEST: Duration = Duration::from_secs(40);
/// Operations a second of the slow disk.
const SLOW_IOPS: &str = "20";
/// Incidents on the slow disk.
const SLOW: [&str; 12] = [
    "01-lock-convoy",
    "05-writeback",
    "12-io-uring",
    "15-osync-log",
    "31-direct-read",
    "32-major-fault",
    "37-flock-fsync",
    "43-sysv-sem",
    "47-shared-mutex",
    "49-lease",
    "51-uring-read",
    "59-fsfreeze",
];
/// The exit status of an incident that needs what is not here.
const LACKING: i32 = 77;
/// Questions about random windows.
const ASKED: u32 = 25;
/// Slices that a window may cut at its ends, ns: one at each, of a tick at 100 Hz.
const EDGES: u64 = 20_000_000;
/// So many calls, so often, are more than `flightctl` reads at once with 128 MiB of memory, and no
/// more than two fifths of what it makes an answer of: the rest is for what else the machine does.
const FLOOD: &str = "25000";
const FLOODS: u32 = 8;
/// So many events are half of those calls.
const HALF_FLOOD: u64 = 25_000;
/// What it reads at once of 128 MiB (`memory::stretch`, with what `why` keeps for its answer), bytes.
const AT_ONCE: usize = 15 << 20;
/// Where incidents happen.
const SERVICE: &str = "zoo.service";
/// Of so many incidents of a hundred the cause is found though no thread is named.
const UNNAMED_PERCENT: usize = 80;

/// Where the incidents are.
fn zoo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("zoo")
}

/// Has an incident happen; what it printed. `Err`: what it needs is not here.
fn happen(mut command: Command, id: &str) -> Result<String, String> {
    let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap_or_else(|e| panic!("{id}: {e}"));
    // What it prints fits into the pipe.
    let status = wait_limited(&mut child, LONGEST).unwrap_or_else(|e| panic!("{id}: {e}"));
    if status.is_none() {
        let _ = child.kill();
    }
    let output = child.wait_with_output().unwrap_or_else(|e| panic!("{id}: {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(LACKING) {
        return Err(errors.trim().to_owned());
    }
    assert!(output.status.success(), "{id}: {status:?}: {errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The slow disk; dropping it removes it. To be made after a recorder: in the mounts of that it is
/// gone with the test, however that ends.
pub(crate) struct SlowDisk(PathBuf);

impl SlowDisk {
    /// `None`: there can be none here; says why.
    pub(crate) fn make(dir: &Path) -> Option<Self> {
        let disk = Self(dir.join("slow"));
        let output = disk.run(&["up", SLOW_IOPS]);
        if output.status.success() {
            return Some(disk);
        }
        eprintln!("no slow disk: {}", String::from_utf8_lossy(&output.stderr).trim());
        None
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut script = Command::new(zoo().join("slowdev.sh"));
        script.args(args).env("ZOO_SLOW", &self.0).stdin(Stdio::null());
        script.output().expect("slowdev.sh")
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        let output = self.run(&["down"]);
        if !output.status.success() {
            eprintln!("slowdev.sh down: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// The command that makes an incident happen; `Err`: why it can't here.
fn program(id: &str, dir: &Path) -> Result<Command, String> {
    let python = zoo().join("src").join(id).with_extension("py");
    if python.exists() {
        let mut command = Command::new("python3");
        command.arg(python);
        return Ok(command);
    }
    let (source, built) = (zoo().join("src").join(id).with_extension("c"), dir.join(id));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-w", "-o"]).arg(&built).arg(source).arg("-lpthread");
    match id {
        "07-dns-timeout" => _ = gcc.arg("-lresolv"),
        "12-io-uring" | "51-uring-read" => _ = gcc.arg("-luring"),
        _ => {}
    }
    let output = gcc.output().map_err(|e| format!("gcc: {e}"))?;
    if output.status.success() {
        return Ok(Command::new(built));
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(errors.lines().find(|line| line.contains("error")).unwrap_or("gcc failed").to_owned())
}

/// An incident that happened.
pub(crate) struct Incident {
    /// What is expected of it.
    expected: Value,
    /// The truth about it.
    pub(crate) truth: Value,
}

/// What is expected of all incidents.
pub(crate) fn expected() -> Value {
    let text = fs::read(zoo().join("expected.json")).expect("expected.json");
    serde_json::from_slice(&text).expect("expected.json")
}

impl Incident {
    /// Has it happen. `Err`: why it can't here. `dir`: for its files.
    pub(crate) fn happen(expected: &Value, id: &str, dir: &Path) -> Result<Self, String> {
        Self::happen_in(None, expected, id, dir)
    }

    /// The same in a control group of this directory.
    fn happen_in(
        group: Option<&Path>,
        expected: &Value,
        id: &str,
        dir: &Path,
    ) -> Result<Self, String> {
        let all = expected["incidents"].as_array().expect("incidents");
        let expected = all.iter().find(|of| of["id"] == id).expect("an incident");
        let mut command = program(id, dir)?;
        if let Some(group) = group {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(group.join("cgroup.procs"));
            shell.arg(command.get_program()).args(command.get_args());
            command = shell;
        }
        command.env("ZOO_OUT", dir).env("ZOO_SLOW", dir.join("slow"));
        let text = happen(command, id)?;
        let truth = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{id}: {e}: {text}"));
        Ok(Self { expected: expected.clone(), truth })
    }

    /// A moment of its truth, as text.
    pub(crate) fn ns(&self, key: &str, more: i64) -> String {
        let ns = self.truth[key].as_i64().expect("ns") + more;
        Timestamp::from_nanosecond(ns.into()).expect("a time").to_string()
    }

    /// The answer; `subject`: about whom.
    pub(crate) fn why(&self, recorder: &Recorder, subject: &[&str]) -> Value {
        let since = self.ns("begin_ns", -AROUND);
        let until = self.ns("end_ns", AROUND);
        let window = ["why", "--format", "json", "--since", &since, "--until", &until];
        valid(&recorder.flightctl(&[&window, subject].concat()))
    }

    /// Whether a sentence names the cause.
    pub(crate) fn is_named_in(&self, sentence: &str) -> bool {
        let patterns = self.expected["why_must_match"].as_array().expect("patterns");
        patterns.iter().all(|pattern| {
            let mut pattern = pattern.as_str().expect("a pattern").to_owned();
            for key in ["tid", "pid"] {
                pattern = pattern.replace(&format!("{{{key}}}"), &self.truth[key].to_string());
            }
            Regex::new(&pattern).expect("a pattern").is_match(sentence)
        })
    }
}

/// An answer, which must be as the schema says.
pub(crate) fn valid(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let object: Value = serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {text}\n{}", String::from_utf8_lossy(&output.stderr)));
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema");
    let schema = jsonschema::validator_for(&schema).expect("the schema");
    let wrong: Vec<String> =
        schema.iter_errors(&object).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{text}");
    let sum: f64 = object["shares"].as_array().expect("shares").iter().map(percent).sum();
    assert!(object["subject"].is_null() || (sum - 100.0).abs() <= 0.1, "{sum}: {text}");
    object
}

fn percent(share: &Value) -> f64 {
    share["percent"].as_f64().expect("per cent")
}

#[test]
#[ignore = "long: 50 incidents"]
fn the_cause_of_every_incident_is_in_the_first_sentence() {
    require_kernel();
    let dir = TempDir::new().expect("a directory");
    let expected = expected();
    // As it is installed: default configuration.
    let recorder = Recorder::start(Options::default());
    let slow = SlowDisk::make(dir.path());
    // The others are much like one of these; continuous integration has no time for them.
    let with_extra = std::env::var_os("FLIGHTREC_ZOO").is_some_and(|which| which == "all");
    let all = expected["incidents"].as_array().expect("incidents").iter();
    let all = all.filter(|of| with_extra || of["extra"] != true);
    let ids = all.map(|of| of["id"].as_str().expect("an id"));
    let results = answers(&expected, ids, slow.is_some(), dir.path(), &recorder);
    let count = |which: usize| results.values().filter(|found| found[which]).count();
    let (all, named, unnamed) = (results.len(), count(0), count(1));
    eprintln!("{named} of {all} named, {unnamed} of {all} without a name");
    assert!(all >= 8, "too few of them ran");
    assert_eq!(named, all);
    assert!(unnamed * 100 >= all * UNNAMED_PERCENT, "{unnamed} of {all}");
}

/// Has incidents happen, and asks about each with its thread's id, and about their service without;
/// whether the answer was right, by the incident.
fn answers<'a>(
    expected: &Value,
    ids: impl Iterator<Item = &'a str>,
    has_slow_disk: bool,
    dir: &Path,
    recorder: &Recorder,
) -> BTreeMap<String, [bool; 2]> {
    // A service of its own, as whoever asks without a name is told of the thread that waited most:
    // of all those of a busy machine, that may be another one.
    let groups = ControlGroup::unified().expect("a control group");
    let service = groups.dir().join(SERVICE);
    fs::create_dir_all(&service).expect("a control group");
    let mut incidents = Vec::new();
    for id in ids {
        if SLOW.contains(&id) && !has_slow_disk {
            eprintln!("{id}: left out, as there is no slow disk");
            continue;
        }
        match Incident::happen_in(Some(&service), expected, id, dir) {
            Ok(incident) => incidents.push(incident),
            Err(why) => eprintln!("{id}: left out: {why}"),
        }
    }
    wait_for_names(recorder);
    let mut results = BTreeMap::new();
    for incident in &incidents {
        let tid = incident.truth["tid"].to_string();
        let ask = |subject: [&str; 2]| {
            let answer = incident.why(recorder, &subject);
            let sentence = answer["sentence"].as_str().expect("a sentence").to_owned();
            if !incident.is_named_in(&sentence) {
                eprintln!("{answer:#}");
            }
            sentence
        };
        let sentences = thread::scope(|scope| {
            let unnamed = scope.spawn(|| ask(["--unit", SERVICE]));
            [ask(["--tid", &tid]), unnamed.join().expect("an answer")]
        });
        let found = sentences.each_ref().map(|sentence| incident.is_named_in(sentence));
        let said = |is_found| if is_found { "found" } else { "MISSED" };
        eprintln!("{} {} {}", incident.expected["id"], said(found[0]), said(found[1]));
        eprintln!("    {}\n    {}", sentences[0], sentences[1]);
        results.insert(incident.expected["id"].as_str().expect("an id").to_owned(), found);
    }
    results
}

/// What programs were sampled is entered into the metadata now and then: waits until one is there
/// that runs only now.
fn wait_for_names(recorder: &Recorder) {
    let program = c_program("spins", &[]);
    let mut command = Command::new(&program);
    command.args(["program", "120"]).stdin(Stdio::null());
    let mut spins = die_with_parent(&mut command, Signal::SIGKILL).spawn().expect("spins");
    let name = program.to_str().expect("a path");
    let is_there = wait_until(PATIENCE, || {
        snapshot(recorder).meta.binaries.iter().any(|binary| binary.path == name)
    });
    spins.kill().and_then(|()| spins.wait()).expect("spins");
    assert!(is_there, "{name} has no name");
}

/// What a thread ran and waited for a CPU, ns: /proc/PID/schedstat.
fn schedstat(tid: u32) -> [u64; 2] {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).expect("schedstat");
    let mut numbers = text.split_whitespace().map(|word| word.parse().expect("a number"));
    [(); 2].map(|()| numbers.next().expect("two numbers"))
}

#[test]
fn shares_are_what_the_kernel_counts() {
    let recorder = crate::support::start("");
    // Two threads share a CPU: each runs half of the time, and waits for it the other half.
    let spins = c_program("spins", &[]);
    let spin = || {
        // What else the machine does makes their waits no longer.
        let mut command = Command::new("nice");
        command
            .args(["-n", "-20", "taskset", "-c", "0"])
            .arg(&spins)
            .args(["program", "2.5"])
            .stdin(Stdio::null());
        command.spawn().expect("nice")
    };
    let (mut one, mut other) = (spin(), spin());
    thread::sleep(Duration::from_millis(300));
    let (tid, name) = (one.id(), one.id().to_string());
    // Both at the same time, also where this thread loses its CPU between.
    let at_once = || loop {
        let (time, counted) = (Timestamp::now(), schedstat(tid));
        if time.duration_until(Timestamp::now()) < jiff::SignedDuration::from_millis(1) {
            return (time, counted);
        }
    };
    let (since, before) = at_once();
    thread::sleep(Duration::from_secs(2));
    let (until, after) = at_once();
    let times = [since, until].map(|time| time.to_string());
    let window = ["--since", &times[0], "--until", &times[1]];
    let asked = [&["why", "--format", "json", "--tid", &name], &window[..]].concat();
    let answer = valid(&recorder.flightctl(&asked));
    for child in [&mut one, &mut other] {
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
    let sum = |states: &[&str]| -> u64 {
        let shares = answer["shares"].as_array().expect("shares").iter();
        let of = shares.filter(|share| states.contains(&share["state"].as_str().unwrap_or("")));
        of.map(|share| share["ns"].as_u64().expect("ns")).sum()
    };
    let running = (sum(&["running", "interrupted"]), after[0] - before[0]);
    let runnable = (sum(&["runnable", "held", "throttled"]), after[1] - before[1]);
    let window = (until.as_nanosecond() - since.as_nanosecond()) as u64;
    for (name, (ours, kernels)) in [("running", running), ("runnable", runnable)] {
        eprintln!("{name}: {ours} ns, {kernels} ns by the kernel, of {window} ns");
        // A slice that runs on, or is waited for, where the window ends is counted when it is over.
        let off = ours.abs_diff(kernels);
        assert!(off <= window / 100 + EDGES, "{name}: {ours} ns, {kernels} ns by the kernel");
    }
}

/// A `cat` that waits for what comes through a FIFO, its other end, and its path. It ends when that
/// end is closed.
fn reader_of_fifo(recorder: &Recorder) -> (Child, fs::File, String) {
    let fifo = recorder.sandbox().root().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let mut cat = Command::new("cat");
    let cat = cat.arg(&fifo).stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("cat");
    let writer = fs::File::options().write(true).open(&fifo).expect("the fifo");
    (cat, writer, fifo.to_str().expect("a path").to_owned())
}

/// How many events of system calls are in the rings and not yet in the files.
fn unwritten(recorder: &Recorder) -> u64 {
    let output = recorder.flightctl(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let count = |value: &Value| value.as_u64().expect("a number");
    let recorded = status["lanes"]["syscall"]["events"].as_object().expect("events").values();
    let stored =
        ["written_events", "lost_events"].map(|key| count(&status["store"][key]["syscall"]));
    recorded.map(count).sum::<u64>().saturating_sub(stored.iter().sum())
}

#[test]
fn a_window_after_a_flood() {
    // What the rings do not hold any more is in the files, and is too much to be read at once: it
    // is read in stretches, and the rings are the last of them.
    let mut recorder = crate::support::start("[rings]\nsyscall = \"8MiB\"");
    // It opens the file so long before that its name is to be looked for.
    let (mut cat, mut writer, path) = reader_of_fifo(&recorder);
    let flood = Timestamp::now();
    let storm = c_program("storm", &[]);
    for _ in 0..FLOODS {
        let mut storm = Command::new(&storm);
        let status = storm.args(["opens", "0", FLOOD]).stdout(Stdio::null()).status();
        assert!(status.expect("storm").success());
        // Half a ring of calls is in the files before the next ones come.
        assert!(wait_until(PATIENCE, || unwritten(&recorder) < HALF_FLOOD));
        writer.write_all(b"line\n").expect("a line");
    }
    let since = Timestamp::now();
    thread::sleep(Duration::from_millis(600));
    drop(writer);
    assert!(cat.wait().expect("cat").success());
    let until = Timestamp::now();
    let tid = cat.id().to_string();
    for since in [since, flood] {
        let window = [since, until].map(|time| time.to_string());
        let memory = ["--memory", "128MiB", "why", "--format", "json", "--tid", &tid];
        let asked = [&memory[..], &["--since", &window[0], "--until", &window[1]]].concat();
        let output = recorder.flightctl(&asked);
        let answer = valid(&output);
        let sentence = answer["sentence"].as_str().expect("a sentence");
        eprintln!("{sentence}");
        assert!(sentence.starts_with("`cat`"), "{answer:#}");
        assert!(sentence.contains("read(") && sentence.contains(&path), "{answer:#}");
        // As the whole of what was asked about.
        let ns = |key: &str| answer["window"][key].as_i64().expect("ns") as i128;
        let asked = since.as_nanosecond()..=until.as_nanosecond();
        assert!((ns("from_ns") - asked.start()).abs() < EDGES as i128, "{answer:#}");
        assert!((ns("until_ns") - asked.end()).abs() < EDGES as i128, "{answer:#}");
    }
    recorder.stop();
    let files = Files::read(&recorder.sandbox().state_dir(), |_| {});
    let bytes = files.rings.values().map(RingPieces::pages).sum::<usize>() * PAGE_SIZE;
    eprintln!("{bytes} bytes of pages");
    assert!(bytes > AT_ONCE, "{bytes}");
}

/// What hangs since long before the window has no event in it, nor in what is read before it.
#[test]
fn a_thread_that_hangs() {
    let recorder = crate::support::start("");
    let (mut cat, writer, path) = reader_of_fifo(&recorder);
    // Longer than what is read before a window.
    thread::sleep(Duration::from_secs(4));
    let tid = cat.id().to_string();
    let why = |last: &[&str]| {
        let asked = [&["why", "--format", "json", "--tid", &tid], last].concat();
        let answer = valid(&recorder.flightctl(&asked));
        eprintln!("{}", answer["sentence"]);
        answer
    };
    let file = recorder.sandbox().root().join("hangs.flight");
    let file = file.to_str().expect("a path");
    let saved = recorder.flightctl(&["save", "--last", "1s", "-o", file]);
    assert!(saved.status.success(), "{saved:?}");
    for answer in [why(&["--last", "1s"]), why(&["--file", file])] {
        let sentence = answer["sentence"].as_str().expect("a sentence");
        let said = format!("waited 1.0 s in read({path})");
        assert!(sentence.starts_with("`cat`") && sentence.contains(&said), "{answer:#}");
        let evidence = answer["chain"][0]["evidence"].to_string();
        assert!(evidence.contains("when the window began"), "{evidence}");
    }
    // It is woken in the window; since when it had slept is looked for before it.
    let since = Timestamp::now();
    thread::sleep(Duration::from_millis(300));
    drop(writer);
    assert!(cat.wait().expect("cat").success());
    let window = [since, Timestamp::now()].map(|time| time.to_string());
    let answer = why(&["--since", &window[0], "--until", &window[1]]);
    let sentence = answer["sentence"].as_str().expect("a sentence");
    let said = format!("ms in read({path}) for `why::");
    assert!(sentence.starts_with("`cat`") && sentence.contains(&said), "{answer:#}");
}

#[test]
fn random_threads_and_windows_add_up() {
    let recorder = crate::support::start("");
    let script = "for i in 1 2; do (for j in $(seq 40); do cat /etc/hostname | wc -c; done) \
                  >/dev/null & done; wait";
    let status = Command::new("/bin/sh").args(["-c", script]).stdin(Stdio::null()).status();
    assert!(status.expect("sh").success());
    let file = recorder.sandbox().root().join("busy.flight");
    let file = file.to_str().expect("a path");
    let saved = recorder.flightctl(&["save", "--last", "10s", "-o", file]);
    assert!(saved.status.success(), "{saved:?}");
    let mut seed = 7_u64;
    let mut below = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    let mut answered = 0;
    for _ in 0..ASKED {
        let comm = ["cat", "wc", "sh", "flightd"][below(4) as usize];
        let since = format!("-{}ms", 100 + below(3000));
        let asked = ["why", "--file", file, "--since", &since, "--format", "json", "--comm", comm];
        let output = recorder.flightctl(&asked);
        if output.status.code() == Some(0) {
            valid(&output);
            answered += 1;
        }
    }
    eprintln!("{answered} of {ASKED} questions have an answer");
    assert!(answered > 0);
}
