//! How long `flightctl` searches hours of a recording: at least 75 million made-up events in files,
//! asked nine narrow questions and one about all of them; time and most memory of each.
//!
//! `cargo run --release -p flightctl --example bench_search -- FLIGHTCTL [--json] [--events N]
//! [--rounds N] [--keep DIR] [--killed] [--cold] [--duckdb PYTHON]`
//!
//! With `--killed`, all events are in one file that was never closed, as after a `kill -9` of the
//! recorder. With `--cold`, the files are dropped from the page cache before each question.
//!
//! With a Python that has DuckDB, the same is asked of the same events in Parquet files.

mod made;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use flightrec_tests::wait_peak;

use flightrec_format::abi::record::{
    Comm, Exec, Fork, Rename, StringStatus, TaskExit, WakeContext,
};
use flightrec_format::decode::{Body, Call, Text};

use self::made::{Cpu, Made, call};

/// Events a second of the recording.
const RATE: u64 = 100_000;
/// Threads of each CPU that are there all the time.
const THREADS: u64 = 32;
/// Between two turns of the thread of each CPU that sleeps long. As of failures, less than one in
/// a hundred blocks of calls has one.
const LONG_TURNS: u64 = 500_000;
/// Between two programs that a CPU's threads execute, in turns; each opens some files.
const PROGRAM_TURNS: u64 = 300_000;
/// Between two opens that fail, in turns.
const FAILURE_TURNS: u64 = 600_000;
/// Which program opens the file that no other does.
const ONCE_AT: u64 = 3;
const ONCE: &str = "/srv/once/only.txt";
/// Programs' threads are numbered from here on, by CPU and program.
const CHILDREN: u32 = 100_000;

/// Events that are made, unless others are asked for.
const EVENTS: u64 = 75_000_000;

/// A question, and whether something matches it.
struct Question {
    name: &'static str,
    args: &'static [&'static str],
    /// The same of the tables that `flightctl export` makes.
    sql: &'static str,
    finds: bool,
}

const QUESTIONS: &[Question] = &[
    Question {
        name: "a thread",
        args: &["dump", "--tid", "100002"],
        sql: "select * from events where tid = 100002",
        finds: true,
    },
    Question {
        name: "a process",
        args: &["dump", "--pid", "101001"],
        sql: "select * from events where pid = 101001",
        finds: true,
    },
    Question {
        name: "one path",
        args: &["dump", "--path", ONCE],
        sql: "select * from calls where path = '/srv/once/only.txt'",
        finds: true,
    },
    Question {
        name: "failing opens",
        args: &["dump", "--syscall", "openat", "--errors"],
        sql: "select * from calls where name = 'openat' and error is not null",
        finds: true,
    },
    Question {
        name: "slower than 100 ms",
        args: &["dump", "--slower-than", "100ms"],
        sql: "select * from calls where dur_ns >= 100000000",
        finds: true,
    },
    Question {
        name: "slower than 1 s",
        args: &["dump", "--slower-than", "1s"],
        sql: "select * from calls where dur_ns >= 1000000000",
        finds: true,
    },
    Question {
        name: "slow opens",
        args: &["dump", "--syscall", "openat", "--slower-than", "100ms"],
        sql: "select * from calls where name = 'openat' and dur_ns >= 100000000",
        finds: false,
    },
    Question {
        name: "all execs",
        args: &["dump", "--event", "exec"],
        sql: "select * from events where kind = 'exec'",
        finds: true,
    },
    Question {
        name: "a comm not there",
        args: &["dump", "--comm", "nosuch"],
        sql: "select * from events where comm = 'nosuch'",
        finds: false,
    },
    Question {
        name: "report calls",
        args: &["report", "calls"],
        sql: "select name, count(*), count(error), sum(dur_ns), avg(dur_ns), \
              approx_quantile(dur_ns, 0.5), approx_quantile(dur_ns, 0.99), \
              max(dur_ns) from calls where has_exit group by name",
        finds: true,
    },
];

/// What is measured.
struct Options {
    flightctl: PathBuf,
    json: bool,
    events: u64,
    rounds: usize,
    keep: Option<PathBuf>,
    /// The recorder was killed: there is one file, and it was not closed.
    killed: bool,
    /// The files are not in the page cache.
    cold: bool,
    /// A Python with DuckDB.
    duckdb: Option<PathBuf>,
    /// Only make the recording, here.
    make: Option<PathBuf>,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut args = std::env::args().skip(1);
        let flightctl = args.next().context("name the flightctl to measure")?.into();
        let (events, rounds, keep) = (EVENTS, 3, None);
        let (json, killed, cold) = (false, false, false);
        let (duckdb, make) = (None, None);
        let mut options =
            Self { flightctl, json, events, rounds, keep, killed, cold, duckdb, make };
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--json" => options.json = true,
                "--killed" => options.killed = true,
                "--cold" => options.cold = true,
                "--events" => options.events = value()?.parse()?,
                "--rounds" => options.rounds = value()?.parse::<usize>()?.max(1),
                "--keep" => options.keep = Some(value()?.into()),
                "--duckdb" => options.duckdb = Some(value()?.into()),
                "--make" => options.make = Some(value()?.into()),
                other => bail!(
                    "{other}: not --json, --events, --rounds, --keep, --killed, --cold or --duckdb"
                ),
            }
        }
        Ok(options)
    }
}

fn main() -> Result<()> {
    let options = Options::parse()?;
    if let Some(dir) = &options.make {
        let workers = |cpu| (0..THREADS as u32).map(move |thread| first(cpu) + thread);
        let processes = (0..made::CPUS).flat_map(workers).collect();
        let made = made::make(dir, options.events, RATE, turn, processes, options.killed)?;
        println!("{}", serde_json::to_string(&made)?);
        return Ok(());
    }
    // Beside the programs: on a disk, unlike /tmp on many machines, and not in the way of anything.
    let target =
        std::env::current_exe()?.ancestors().nth(3).context("no target directory")?.to_owned();
    let scratch = tempfile::Builder::new().prefix("bench-search-").tempdir_in(target)?;
    let dir = options.keep.as_deref().unwrap_or(scratch.path());
    std::fs::create_dir_all(dir)?;
    let made = make_apart(&options, dir)?;
    made::warm(dir)?;
    let mut answers = Vec::new();
    for question in QUESTIONS {
        let lines = lines(&options, dir, question)?;
        let mut runs = Vec::new();
        for _ in 0..options.rounds {
            runs.push(ask(&options, dir, question)?);
        }
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let seconds = runs.get(runs.len() / 2).map_or(0.0, |run| run.0);
        let peak = runs.iter().map(|run| run.1).max().unwrap_or(0);
        eprintln!("{}: {seconds:.2} s", question.name);
        answers.push(Answer { question, lines, seconds, peak, beside: None });
    }
    if let Some(python) = &options.duckdb {
        let tables = scratch.path().join("tables");
        for (answer, beside) in answers.iter_mut().zip(duckdb(&options, python, dir, &tables)?) {
            answer.beside = Some(beside);
        }
    }
    report(&options, &made, &answers);
    Ok(())
}

/// What DuckDB took for a question.
#[derive(serde::Deserialize)]
struct Beside {
    rows: usize,
    /// Asked of a connection that was asked the same before, s.
    warm: f64,
    /// With the start of a process, which opens the tables, s; as a command is measured.
    alone: f64,
}

/// What DuckDB has of the same.
fn duckdb(options: &Options, python: &Path, dir: &Path, tables: &Path) -> Result<Vec<Beside>> {
    let begin = Instant::now();
    let mut export = Command::new(&options.flightctl);
    export.args(["export", "--format", "parquet", "--all", "--store"]).arg(dir);
    let export = export.arg("-o").arg(tables).output()?;
    let errors = String::from_utf8_lossy(&export.stderr);
    ensure!(export.status.success(), "export: {errors}");
    eprintln!("export to Parquet: {:.1} s", begin.elapsed().as_secs_f64());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/judges/parquet/timed.py");
    let mut asked = Command::new(python);
    asked.arg(script).arg(tables).arg(options.rounds.to_string());
    let asked = asked.args(QUESTIONS.iter().map(|question| question.sql)).output()?;
    let errors = String::from_utf8_lossy(&asked.stderr);
    ensure!(asked.status.success(), "DuckDB: {errors}");
    String::from_utf8(asked.stdout)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Has another process make the recording: the peak of a child's memory is at least what its parent
/// had when it began it (`wait_peak`).
fn make_apart(options: &Options, dir: &Path) -> Result<Made> {
    let mut maker = Command::new(std::env::current_exe()?);
    maker.arg(&options.flightctl).args(["--events", &options.events.to_string()]);
    if options.killed {
        maker.arg("--killed");
    }
    let output = maker.arg("--make").arg(dir).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "making the recording: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// What a question took.
struct Answer<'a> {
    question: &'a Question,
    lines: usize,
    /// The median of all rounds.
    seconds: f64,
    /// The most of all rounds, bytes.
    peak: u64,
    /// Where DuckDB was asked, too.
    beside: Option<Beside>,
}

fn command(options: &Options, dir: &Path, question: &Question) -> Command {
    let mut command = Command::new(&options.flightctl);
    command.args(question.args).args(["--all", "--store"]).arg(dir);
    command
}

/// Asks once: seconds, and the most memory.
fn ask(options: &Options, dir: &Path, question: &Question) -> Result<(f64, u64)> {
    if options.cold {
        made::cool(dir)?;
    }
    let start = Instant::now();
    let child = command(options, dir, question)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("can't run flightctl")?;
    let (status, peak) = wait_peak(&child)?;
    // 1: nothing matches.
    ensure!(status.code().is_some_and(|code| code < 2), "flightctl: {status}");
    Ok((start.elapsed().as_secs_f64(), peak))
}

/// Lines of the answer, which must be complete, and be what is to be found.
fn lines(options: &Options, dir: &Path, question: &Question) -> Result<usize> {
    let mut command = command(options, dir, question);
    if question.args.first() == Some(&"dump") {
        command.arg("--strict");
    }
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code().is_some_and(|code| code < 2), "{}: {said}", question.name);
    // The coverage stands before the events, after `#`.
    let is_told = |line: &&[u8]| !line.is_empty() && !line.starts_with(b"#");
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(is_told).count();
    // Of fewer events, what is looked for may not be made yet.
    let is_right = (lines != 0) == question.finds || options.events < EVENTS;
    ensure!(is_right, "{}: {lines} lines: {said}", question.name);
    Ok(lines)
}

fn report(options: &Options, made: &Made, answers: &[Answer<'_>]) {
    let per_event = made.bytes as f64 / made.events as f64;
    let speed = |answer: &Answer<'_>| made.events as f64 / answer.seconds / 1e6;
    if options.json {
        let answers: Vec<String> = answers
            .iter()
            .map(|answer| {
                format!(
                    "{{\"question\":\"{}\",\"lines\":{},\"seconds\":{:.3},\"peak\":{},\
                     \"million_events_per_second\":{:.1},\"duckdb\":{}}}",
                    answer.question.name,
                    answer.lines,
                    answer.seconds,
                    answer.peak,
                    speed(answer),
                    answer.beside.as_ref().map_or("null".into(), |of| format!(
                        "{{\"rows\":{},\"seconds\":{:.3},\"with_start\":{:.3}}}",
                        of.rows, of.warm, of.alone
                    ))
                )
            })
            .collect();
        println!(
            "{{\"files\":{},\"bytes\":{},\"events\":{},\"bytes_per_event\":{per_event:.2},\
             \"rounds\":{},\"answers\":[{}]}}",
            made.files,
            made.bytes,
            made.events,
            options.rounds,
            answers.join(",")
        );
        return;
    }
    println!(
        "{} files, {} MiB, {:.1} million events ({per_event:.2} bytes each), {:.0} s of a \
         recording; {} cache, median time and most memory of {} rounds:",
        made.files,
        made.bytes >> 20,
        made.events as f64 / 1e6,
        made.span as f64 / 1e9,
        if options.cold { "cold" } else { "warm" },
        options.rounds
    );
    for answer in answers {
        let beside = answer.beside.as_ref().map_or(String::new(), |of| {
            let [warm, alone] = [of.warm, of.alone].map(|of| answer.seconds / of);
            format!(
                "; DuckDB {} rows, as a command {:.2} s: {alone:.1} times as long; as a query \
                 alone {:.2} s: {warm:.1} times",
                of.rows, of.alone, of.warm
            )
        });
        println!(
            "  {:<20} {:>9} lines {:>8.2} s {:>5} MiB {:>7.1} million events/s{beside}",
            answer.question.name,
            answer.lines,
            answer.seconds,
            answer.peak >> 20,
            speed(answer)
        );
    }
}

/// The first thread of a CPU, which is a process of its own as all are.
fn first(cpu: u16) -> u32 {
    1000 + 1000 * u32::from(cpu)
}

/// A thread's turn: its read ends, it makes a few calls, wakes another thread, and sleeps in a
/// read. Now and then a program is executed, an open fails, or a thread sleeps long.
fn turn(cpu: &mut Cpu) -> Result<()> {
    let first = first(cpu.number);
    let me = first + cpu.thread as u32;
    if cpu.turns < THREADS {
        cpu.put(me, renamed(me, "init", &format!("worker-{}", cpu.thread)))?;
    }
    let is_long = |turns: u64| turns.is_multiple_of(LONG_TURNS);
    // One of them has its turn seldom, the others one after the other or nearly so.
    let next = match cpu.turns + 1 {
        next if is_long(next) => THREADS - 1,
        next if next < THREADS => next,
        _ => (cpu.thread + 1 + cpu.random() % 3) % (THREADS - 1),
    };
    let bit = 1 << cpu.thread;
    if cpu.sleeping & bit != 0 {
        let exit = Call { nargs: 0, args: [0; 6], ..call(0, &[]) };
        cpu.put(me, Body::Exit { call: exit, ret: 512, entered: None })?;
    }
    let fails = cpu.turns % FAILURE_TURNS == 99;
    let path = format!("/usr/share/doc/package-{}/copyright", cpu.random() % 2000);
    opens(cpu, me, &path, if fails { -13 } else { 7 })?;
    for _ in 0..3 {
        let (address, count) = (0x55d0_0000_0000 + (cpu.random() & 0xff_fff8), cpu.random() % 8192);
        cpu.whole(me, call(1, &[1 + count % 9, address, count]), count as i64)?;
    }
    if cpu.turns % PROGRAM_TURNS == PROGRAM_TURNS / 2 {
        program(cpu, me)?;
    }
    let wakee = first + next as u32;
    cpu.put(me, waking(wakee, cpu.number))?;
    let address = 0x7ffd_0000_0000 + (cpu.random() & 0xf_fff8);
    cpu.put(me, Body::Enter(call(0, &[5, address, 512])))?;
    cpu.sleeping |= bit;
    cpu.thread = next;
    cpu.put(me, switch(wakee, 1))
}

/// A thread makes a process that executes a program, which opens files and ends.
fn program(cpu: &mut Cpu, parent: u32) -> Result<()> {
    let number = cpu.turns / PROGRAM_TURNS;
    let tid = CHILDREN + 1000 * u32::from(cpu.number) + number as u32;
    let fork = Fork {
        parent_tid: parent,
        parent_tgid: parent,
        tid,
        tgid: tid,
        start_time: cpu.time,
        cgroup: 0,
        comm: name(&format!("worker-{}", cpu.thread)),
        shares: 0,
    };
    cpu.put(parent, Body::Fork(fork))?;
    cpu.put(parent, waking(tid, cpu.number))?;
    cpu.put(parent, switch(tid, 0))?;
    let mut execve = call(59, &[0x55d0_0000_0000, 0x55d0_0000_1000, 0x55d0_0000_2000]);
    execve.strings.push(text(0, "/usr/bin/job"));
    cpu.put(tid, Body::Enter(execve))?;
    cpu.put(tid, renamed(tid, &format!("worker-{}", cpu.thread), "job"))?;
    let exec = Exec { tid, old_tid: tid, tgid: tid, args_len: 0, cgroup: 0, comm: name("job") };
    cpu.put(tid, Body::Exec { exec, file: Some(text(0, "/usr/bin/job")), args: None })?;
    let exit = Call { nargs: 0, args: [0; 6], ..call(59, &[]) };
    cpu.put(tid, Body::Exit { call: exit, ret: 0, entered: None })?;
    for file in 0..20 {
        opens(cpu, tid, &format!("/usr/lib/job/part-{file}"), 3)?;
    }
    if (cpu.number, number) == (0, ONCE_AT) {
        opens(cpu, tid, ONCE, 3)?;
    }
    let exit =
        TaskExit { tid, tgid: tid, code: 0, left: 0, start_time: cpu.time, comm: name("job") };
    cpu.put(tid, Body::TaskExit(exit))?;
    cpu.put(tid, switch(parent, 16))
}

fn opens(cpu: &mut Cpu, tid: u32, path: &str, ret: i64) -> Result<()> {
    let address = 0x7ffd_0000_0000 + (cpu.random() & 0xf_fff8);
    let mut open = call(257, &[u64::MAX - 99, address, 0x8_0000, 0]);
    open.strings.push(text(1, path));
    cpu.whole(tid, open, ret)
}

fn text(index: u8, text: &str) -> Text {
    Text { index, status: StringStatus::Whole, bytes: text.as_bytes().into() }
}

fn name(text: &str) -> Comm {
    let mut comm = Comm::default();
    comm.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte);
    comm
}

fn renamed(tid: u32, old: &str, new: &str) -> Body {
    Body::Rename(Rename { tid, tgid: tid, old: name(old), new: name(new) })
}

fn waking(wakee: u32, cpu: u16) -> Body {
    Body::Waking { wakee, prio: 120, state: 1, cpu, new: false, context: WakeContext::Thread }
}

/// A switch to another thread; `prev_state` is 0 where the one before goes on wanting to run.
fn switch(next: u32, prev_state: u16) -> Body {
    let (prev_prio, next_prio) = (120, 120);
    let (preempted, io_wait) = (false, false);
    Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio }
}
