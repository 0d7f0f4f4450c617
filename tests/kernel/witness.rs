//! What a witness counts by itself is what is shown and what is told as missing, beside floods of
//! any kind, for every filter.
//!
//! Proven is, for a window with all calls of the witness, and for each filter, in events: what is
//! shown is at most what happened; what happened is at most what is shown, what the filter can't
//! decide and what is told as missing, which is the sum over all processes of the witness's CPU;
//! and where the lanes that tell of calls and of threads are called complete, what is shown is
//! exactly what happened. Of a saved file, what is shown of a window is what is shown of its parts.
//!
//! `FLIGHTREC_WITNESS_SECONDS`: for how long rounds are made; `FLIGHTREC_WITNESS_SEED`: what they
//! come from.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use flightrec_reader::pipeline::testing::Random;
use flightrec_tests::{Recorder, c_program, die_with_parent, online_cpus};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{Printed, run, start};

/// For how long rounds are begun, by default.
const SECONDS: u64 = 4;
/// Floods, by their names in `storm.c`.
const FLOODS: [&str; 7] = ["calls", "opens", "renames", "forks", "execs", "threads", "wakeups"];

/// Most lines of a dump that are shown where the answer is wrong.
const EVIDENCE: usize = 1000;

/// Processes that are killed in the end.
#[derive(Default)]
struct Floods(Vec<Child>);

impl Floods {
    fn start(&mut self, mut command: Command) {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.0.push(die_with_parent(&mut command, Signal::SIGKILL).spawn().expect("a flood"));
    }

    /// Stops each of them for a while, again and again, as long as `meanwhile` lasts: there are
    /// times with some of them, with all, and with none.
    fn come_and_go<T>(&self, seed: u64, meanwhile: impl FnOnce() -> T) -> T {
        let (end, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut random = Random(seed);
                let all = |signal| self.0.iter().for_each(|child| send(child, signal));
                while let Err(RecvTimeoutError::Timeout) =
                    ended.recv_timeout(Duration::from_millis(100 + random.below(700)))
                {
                    match random.below(3) {
                        0 => all(Signal::SIGSTOP),
                        1 => all(Signal::SIGCONT),
                        _ => {
                            let signals = [Signal::SIGSTOP, Signal::SIGCONT];
                            self.0.iter().for_each(|child| send(child, random.of(&signals)));
                        }
                    }
                }
                all(Signal::SIGCONT);
            });
            let result = meanwhile();
            drop(end);
            result
        })
    }
}

fn send(child: &Child, signal: Signal) {
    // One that has ended is none.
    let _ = kill(Pid::from_raw(child.id() as i32), signal);
}

impl Drop for Floods {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// A moment at which the witness did nothing, and what it had made.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// ns since 1970.
    time: u64,
    rounds: u64,
    slept: u64,
}

impl Mark {
    /// All of them, in order.
    fn all(made: &Printed) -> Vec<Self> {
        let mark = |i: u32| {
            let text = made.number::<String>(&format!("mark{i}"));
            let numbers: Vec<u64> =
                text.split(':').map(|number| number.parse().expect("a number")).collect();
            Self { time: numbers[0], rounds: numbers[1], slept: numbers[2] }
        };
        (0..=10).map(mark).collect()
    }
}

/// What is asked, and how many events the answer has.
struct Question {
    args: Vec<String>,
    truth: u64,
}

/// About what was made between two marks.
fn questions(pid: u32, from: Mark, until: Mark, dir: &str) -> Vec<Question> {
    let (rounds, slept) = (until.rounds - from.rounds, until.slept - from.slept);
    let window = [("--since", from.time), ("--until", until.time)];
    let window = window.map(|(option, time)| [option.to_owned(), time.to_string()]).concat();
    let question = |args: &str, truth| {
        let args = args.replace("PID", &pid.to_string()).replace("DIR", dir);
        let args = window.iter().cloned().chain(args.split(' ').map(str::to_owned)).collect();
        Question { args, truth }
    };
    vec![
        question("--syscall getpgrp", 2 * rounds),
        question("--pid PID --syscall getpgrp", 2 * rounds),
        question("--tid PID --syscall read,close", 4 * rounds),
        question("--comm counted-PID --syscall close", 2 * rounds),
        question("--path DIR/own", 6 * rounds),
        question("--path DIR/* --pid PID", 8 * rounds),
        question("--path DIR/none --errors", rounds),
        question("--pid PID --syscall openat --errno ENOENT", rounds),
        question("--pid PID --syscall nanosleep --slower-than 2ms", slept),
        question("--pid PID --syscall getpgrp --faster-than 1s", rounds),
        question("--pid PID --syscall getpgrp,openat --event sys_enter", 2 * rounds + rounds),
    ]
}

/// What a dump tells.
#[derive(Debug)]
struct Told {
    shown: u64,
    /// Whether calls are complete where it ran, and threads on all CPUs.
    complete: bool,
    /// Events of all processes that are missing there, with those that the filter can't decide;
    /// `None`: nobody counted them.
    missing: Option<u64>,
    coverage: String,
}

/// The witness: its process, and the CPU that it runs on, where it keeps to one.
#[derive(Debug, Clone, Copy)]
struct Witness {
    pid: u32,
    cpu: Option<u16>,
}

impl Witness {
    fn ask(self, recorder: &Recorder, source: &[&str], question: &Question) -> Told {
        let args = question.args.iter().map(String::as_str);
        let all: Vec<&str> = ["dump", "--format", "jsonl", "--strict"]
            .iter()
            .chain(source)
            .copied()
            .chain(args)
            .collect();
        let mut output = recorder.flightctl(&all);
        // So little memory may be too little for a section, which is said; then more is enough.
        let errors = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(2) && errors.contains("more than the 128 MiB of memory") {
            let args = all.iter().map(|arg| if *arg == "128MiB" { "256MiB" } else { *arg });
            output = recorder.flightctl(&args.collect::<Vec<_>>());
        }
        let text = std::str::from_utf8(&output.stdout).expect("UTF-8");
        let parse =
            |line| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(text.starts_with(r#"{"event":"coverage""#), "{all:?}: {output:?}");
        // A window that does not fit into memory has one coverage for each section.
        let (mut coverage, mut shown) = (Vec::new(), 0);
        for line in text.lines().map(parse) {
            match &line["event"] {
                event if event == "coverage" => coverage.push(line),
                _ => shown += u64::from(line["syscall"].is_string() && line["tid"] == self.pid),
            }
        }
        let all_complete = coverage.iter().all(|of| of["complete"].as_bool().expect("a bool"));
        assert_eq!(
            output.status.code() == Some(3),
            !all_complete,
            "{all:?}: {:?}: {coverage:?}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        let is_whole = |coverage: &Value| {
            self.cpus(coverage).iter().all(|cpu| is_complete(coverage, "syscall", *cpu))
                && cpus(coverage).iter().all(|cpu| is_complete(coverage, "task", *cpu))
        };
        let complete = coverage.iter().all(is_whole);
        assert!(complete || !all_complete, "{coverage:?}");
        let missing = coverage.iter().map(|of| self.missing(of)).sum();
        let text = |coverage: &Value| coverage.to_string().chars().take(2000).collect::<String>();
        Told {
            shown,
            complete,
            missing,
            coverage: coverage.iter().map(text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// What else the recording has of the question's window: the coverage for everybody, all calls
    /// and switches of the witness, and what the task lane says of its id at any time.
    fn evidence(self, recorder: &Recorder, source: &[&str], question: &Question) -> String {
        let window: Vec<&str> = question.args.iter().take(4).map(String::as_str).collect();
        let tid = self.pid.to_string();
        let dump = |args: &[&[&str]]| {
            let mut all = vec!["dump"];
            all.extend_from_slice(source);
            for more in args {
                all.extend_from_slice(more);
            }
            let output = recorder.flightctl(&all);
            let text = String::from_utf8_lossy(&output.stdout);
            let lines: Vec<&str> = text.lines().take(EVIDENCE).collect();
            format!("{}\n{}\n", String::from_utf8_lossy(&output.stderr), lines.join("\n"))
        };
        let everybody = dump(&[&window, &["--event", "mark"]]);
        let own =
            dump(&[&window, &["--tid", &tid, "--event", "sys_enter,sys_exit,switch,migrate"]]);
        let all: &[&str] = if source.contains(&"--file") { &["--all"] } else { &["--last", "1h"] };
        let of_id = dump(&[all, &["--tid", &tid, "--event", "fork,exec,rename,exit"]]);
        format!("the window: {everybody}the witness in it: {own}its id: {of_id}")
    }

    /// The CPUs on which it may have made calls.
    fn cpus(self, coverage: &Value) -> Vec<u64> {
        self.cpu.map_or_else(|| cpus(coverage), |cpu| vec![cpu.into()])
    }

    /// How many events of system calls are told there as missing, and as undecided.
    fn missing(self, coverage: &Value) -> Option<u64> {
        let rows = |name: &str| coverage[name].as_array().cloned().unwrap_or_default();
        let mut sum = 0;
        for cpu in self.cpus(coverage) {
            let gaps = rows("gaps")
                .into_iter()
                .filter(|gap| gap["lane"] == "syscall" && gap["cpu"] == cpu);
            let undecided = rows("undecided").into_iter().filter(|row| row["cpu"] == cpu);
            let mut told = is_complete(coverage, "syscall", cpu);
            for gap in gaps {
                let refused =
                    ["busy", "throttled"].iter().filter_map(|why| gap["refused"][why].as_u64());
                sum += gap["missing"].as_u64()? + refused.sum::<u64>();
                told = true;
            }
            for row in undecided {
                sum += row["events"].as_u64()?;
                told = true;
            }
            let detached =
                ["detached", "detached_untold_ns"].iter().any(|name| !coverage[name].is_null());
            assert!(told || detached, "CPU {cpu} is not complete for no reason: {coverage}");
        }
        ["detached", "detached_untold_ns"]
            .iter()
            .all(|name| coverage[name].is_null())
            .then_some(sum)
    }
}

/// All CPUs with rings.
fn cpus(coverage: &Value) -> Vec<u64> {
    coverage["cpus"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// Whether a lane is called complete on a CPU.
fn is_complete(coverage: &Value, lane: &str, cpu: u64) -> bool {
    let lanes = coverage["lanes"].as_array().into_iter().flatten();
    let mut complete =
        lanes.filter(|of| of["lane"] == lane).filter_map(|of| of["complete_cpus"].as_array());
    complete.any(|cpus| cpus.iter().any(|of| *of == cpu))
}

/// A recorder, floods and a witness, as the seed has it. Returns of how many questions the answer
/// was complete, and of how many it was not.
fn round(seed: u64) -> (u64, u64) {
    let mut random = Random(seed);
    random.below(2);
    let per_cpu = random.of(&["\"1%\"", "\"2%\"", "\"5%\"", "\"20%\"", "\"off\""]);
    let total = random.of(&["\"off\"", "\"off\"", "\"1%\"", "\"3%\""]);
    let order = random.of(&[
        "",
        "degrade_order = [\"no_strings\"]\n",
        "degrade_order = [\"untimed_exits\", \"fewer_arguments\"]\n",
        "degrade_order = []\n",
    ]);
    let store = random.below(3) != 0;
    let config = format!(
        "[budget]\ntotal = {total}\nper_cpu = {per_cpu}\nburst = \"1s\"\n\
         {order}[rings]\nsyscall = \"2MiB\"\n[store]\nenabled = {store}\n"
    );
    let recorder = start(&config);
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("own"), "x").expect("a file");
    let path = dir.path().to_str().expect("UTF-8").to_owned();

    let mut floods = Floods::default();
    let mut kinds = Vec::new();
    for cpu in online_cpus() {
        for _ in 0..random.of(&[0, 0, 1, 1, 2]) {
            let (kind, cpu) = (random.of(&FLOODS), cpu.to_string());
            // Some are so slow that strings, times or arguments alone are given up.
            let paced = random.of(&[0, 0, 3000, 20_000, 60_000]);
            kinds.push((if paced == 0 { kind } else { "paced" }, paced));
            let mut command =
                Command::new(c_program(if paced == 0 { "storm" } else { "counted" }, &[]));
            match paced {
                0 => command.args([kind, &cpu]),
                rate => command.args(["renames", "/nowhere", &rate.to_string(), "60", &cpu]),
            };
            floods.start(command);
        }
    }
    if random.below(3) == 0 {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do \"$0\" \"$@\" >/dev/null; done"]);
        let reader = recorder.flightctl_command();
        command.arg(reader.get_program()).args(reader.get_args()).args(["dump", "--last", "200ms"]);
        kinds.push(("reader", 0));
        floods.start(command);
    }
    let (seconds, rate) =
        (random.of(&["0.4", "1.5", "3"]), random.of(&[20, 200, 1000, 8000]).to_string());
    let delay = Duration::from_millis(random.below(2500));
    // On any CPU, or more often on one, whose coverage then says exactly what is missing of it.
    let cpu = (random.below(4) != 0).then(|| random.of(&online_cpus()) as u16);
    let pinned = cpu.map_or("-1".to_owned(), |cpu| cpu.to_string());
    let made = floods.come_and_go(random.below(u64::MAX), || {
        std::thread::sleep(delay);
        run(&c_program("counted", &[]), &["all", &path, &rate, seconds, &pinned])
    });
    drop(floods);

    let (marks, pid) = (Mark::all(&made), made.id("pid"));
    let witness = Witness { pid, cpu };
    let (mut complete, mut incomplete) = (0, 0);
    let mut check = |source: &[&str], question: &Question| {
        let told = witness.ask(&recorder, source, question);
        let truth = question.truth;
        let place = || {
            let Told { shown, complete, missing, coverage } = &told;
            let answer =
                format!("{shown} shown, missing {missing:?}, complete {complete}, {coverage}");
            format!(
                "seed {seed}, {kinds:?}, {config}, {:?}: truth {truth}: {answer}",
                question.args
            )
        };
        let is_enough = told.missing.is_none_or(|missing| truth <= told.shown + missing);
        let wrong = match () {
            () if told.shown > truth => Some("more than happened"),
            () if told.complete && told.shown != truth => Some("complete, and lacks some"),
            () if !is_enough => Some("more is missing than is told"),
            () => None,
        };
        if let Some(wrong) = wrong {
            panic!("{wrong}: {}\n{}", place(), witness.evidence(&recorder, source, question));
        }
        if told.complete {
            complete += 1;
        } else {
            incomplete += 1;
        }
        (told.shown, place())
    };
    let saved = dir.path().join("saved.flight");
    let saved = saved.to_str().expect("UTF-8");
    let window = [marks[0].time.to_string(), marks[10].time.to_string()];
    let output =
        recorder.flightctl(&["save", "-o", saved, "--since", &window[0], "--until", &window[1]]);
    assert!(output.status.success(), "{output:?}");
    for (i, whole) in questions(pid, marks[0], marks[10], &path).iter().enumerate() {
        // With little memory the answer is told in sections, which come to the same.
        let live = ["--memory", random.of(&["256MiB", "256MiB", "128MiB"])];
        let of_file = [live.as_slice(), &["--file", saved]].concat();
        // Any part, and for some the whole, which is what its parts come to.
        let (one, other) = (random.below(11) as usize, random.below(11) as usize);
        if one != other {
            check(&live, &questions(pid, marks[one.min(other)], marks[one.max(other)], &path)[i]);
        }
        if random.below(4) == 0 {
            check(&live, whole);
        }
        if random.below(3) == 0 {
            let cut = marks[1 + random.below(9) as usize];
            let parts = [(marks[0], cut), (cut, marks[10])];
            let parts =
                parts.map(|(from, until)| check(&of_file, &questions(pid, from, until, &path)[i]));
            let whole = check(&of_file, whole);
            assert_eq!(
                whole.0,
                parts[0].0 + parts[1].0,
                "a whole and its parts: {whole:?}\n{parts:?}"
            );
        }
    }
    (complete, incomplete)
}

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |value| value.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
}

#[test]
fn what_a_witness_counts_is_shown_or_told_as_missing() {
    rounds(SECONDS);
}

#[test]
#[ignore = "long: a minute of floods"]
fn through_many_rounds() {
    rounds(60);
}

fn rounds(seconds: u64) {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a clock")
        .as_nanos() as u64;
    let seed = from_env("FLIGHTREC_WITNESS_SEED", now % 1_000_000_000);
    let time = Duration::from_secs(from_env("FLIGHTREC_WITNESS_SECONDS", seconds));
    let begun = Instant::now();
    let (mut rounds, mut complete, mut incomplete) = (0, 0, 0);
    while rounds == 0 || begun.elapsed() < time {
        eprintln!("seed {}", seed + rounds); // shown if it fails
        let (whole, parts) = round(seed + rounds);
        (rounds, complete, incomplete) = (rounds + 1, complete + whole, incomplete + parts);
    }
    // With a seed of one's own, a round or two may have no complete answer.
    assert!(complete > 0 || rounds < 5, "{incomplete} answers, none of them complete");
    println!(
        "{rounds} rounds from seed {seed}: {complete} answers complete, {incomplete} incomplete"
    );
}
