//! `flightctl export`: held against the readers of the tools that the formats are for
//! (`tests/judges`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flightrec_tests::{Judge, Recorder, c_program, online_cpus, require_program};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{is_event, start};

/// A recording of work of every kind, saved.
pub(crate) struct Saved {
    pub(crate) recorder: Recorder,
    dir: TempDir,
}

/// What is recorded: files, pipes, processes, disks, signals, sleeps, forty times.
const WORK: &str = "
for i in $(seq 40); do
    ls -lR /usr/share/doc/libc* >/dev/null 2>&1
    dd if=/dev/zero of=$1/file bs=4k count=50 conv=fsync 2>/dev/null
    echo x | cat | cat >/dev/null
    sleep 0.02 & kill -TERM $! ; wait
done";

impl Saved {
    pub(crate) fn new() -> Self {
        Self::beside(|| {})
    }

    /// With something else before its end.
    fn beside(more: impl FnOnce()) -> Self {
        Self::with("", more)
    }

    /// One that has not all: more calls than 1 % of a CPU pays for.
    pub(crate) fn with_gaps() -> Self {
        let limit = "[budget]\ntotal = \"off\"\nper_cpu = \"1%\"\nburst = \"1s\"\n";
        Self::with(limit, || {
            let cpu = online_cpus().last().expect("a CPU").to_string();
            let mut storm = Command::new(c_program("storm", &[]));
            let status = storm.args(["calls", &cpu, "80000"]).stdout(Stdio::null()).status();
            assert!(status.expect("storm").success());
        })
    }

    fn with(config: &str, more: impl FnOnce()) -> Self {
        let recorder = start(config);
        let dir = TempDir::new().expect("directory");
        let work = Command::new("sh")
            .args(["-c", WORK, "sh"])
            .arg(dir.path())
            .stdin(Stdio::null())
            .status()
            .expect("sh");
        assert!(work.success());
        more();
        let mark = recorder.flightctl(&["mark", "end of \u{1b}[2J work"]);
        assert!(mark.status.success(), "{mark:?}");
        let saved = Self { recorder, dir };
        let file = saved.file();
        let args = ["save", "--last", "1h", "-o"].map(str::to_owned);
        let output = saved.recorder.flightctl(&[&args[..], &[file]].concat());
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
        saved
    }

    pub(crate) fn file(&self) -> String {
        self.dir.path().join("saved.flight").display().to_string()
    }

    /// Exports it, with these arguments.
    pub(crate) fn export(&self, format: &str, args: &[&str]) -> PathBuf {
        let out = self.dir.path().join(format!("out.{format}"));
        let name = out.display().to_string();
        let file = self.file();
        let all = ["export", &file, "--force", "--format", format, "-o", &name];
        let output = self.recorder.flightctl(&[&all[..], args].concat());
        assert!(output.status.success(), "{output:?}");
        let left: Vec<_> = fs::read_dir(self.dir.path())
            .expect("directory")
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().contains(".part-"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        out
    }

    /// All that is told of it.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let output = self.recorder.flightctl(&["dump", &self.file(), "--format", "jsonl"]);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Its events.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.lines().into_iter().filter(is_event).collect()
    }
}

/// Events by thread and kind.
pub(crate) type Counts = BTreeMap<(u64, String), u64>;

pub(crate) fn counts(events: &[Value]) -> Counts {
    let mut counts = Counts::new();
    for event in events {
        let kind = event["event"].as_str().expect("a kind").to_owned();
        *counts.entry((event["tid"].as_u64().expect("a thread"), kind)).or_default() += 1;
    }
    counts
}

/// Switches that are not of the thread that the switch before them on their CPU was to.
fn torn(events: &[Value]) -> u64 {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let mut count = 0;
    for event in events.iter().filter(|event| event["event"] == "switch") {
        let number = |key: &str| event[key].as_u64().expect("a number");
        let next = last.insert(number("cpu"), number("next_tid"));
        count += u64::from(next.is_some_and(|next| next != number("tid")));
    }
    count
}

const INSTALLS_PERFETTO: &str = "tests/judges/perfetto/setup.sh installs what it needs";

/// For tests that ask Perfetto only after minutes.
pub(crate) fn require_perfetto() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/judges/perfetto/bin/python");
    assert!(python.exists(), "{INSTALLS_PERFETTO}");
}

/// What Perfetto answers, a list of rows for each query.
pub(crate) fn perfetto(trace: &Path, queries: &[&str]) -> Vec<Vec<Value>> {
    let judge = Path::new(env!("CARGO_MANIFEST_DIR")).join("judges/perfetto/run.sh");
    let output = Command::new(judge)
        .arg(trace)
        .args(queries)
        .stdin(Stdio::null())
        .output()
        .expect("the judge");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<_> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.len(), queries.len(), "{INSTALLS_PERFETTO}: {output:?}");
    rows
}

/// Events by thread and kind, as Perfetto has them.
const COUNTS: &str = "
with slices as (
  select s.category, s.arg_set_id, coalesce(t.tid, extract_arg(s.arg_set_id, 'debug.tid')) tid
  from slice s left join thread_track tt on s.track_id = tt.id left join thread t using (utid)
), events as (
  select tid, category kind from slices where category not in ('call', 'gap', 'coverage')
  union all
  select tid, 'sys_enter' from slices
  where category = 'call' and extract_arg(arg_set_id, 'debug.entry') is null
  union all
  select tid, 'sys_exit' from slices
  where category = 'call' and extract_arg(arg_set_id, 'debug.ret') is not null
  union all
  select tid, case e.name when 'sched_migrate_task' then 'migrate' else substr(e.name, 7) end
  from ftrace_event e join thread using (utid) where e.name in
  ('sched_switch', 'sched_waking', 'sched_wakeup_new', 'sched_migrate_task')
  union all
  select tid, 'sample' from perf_sample join thread using (utid)
)
select tid, kind, count(*) n from events group by 1, 2";

#[test]
fn perfetto_has_the_same_events() {
    Judge::PERFETTO.require();
    let saved = Saved::new();
    let trace = saved.export("perfetto", &[]);
    let events = saved.events();
    let torn = torn(&events);
    let rows = perfetto(
        &trace,
        &[
            "select name, value from stats where value > 0 and severity in ('error', 'data_loss')",
            COUNTS,
            "include perfetto module sched.thread_executing_span; select count(*) n from \
             _thread_executing_span_critical_path((select utid from thread where name = 'dd' \
             limit 1), (select start_ts from trace_bounds), (select end_ts - start_ts from \
             trace_bounds))",
            "select count(*) n from thread_state where blocked_function is not null and io_wait = 1",
            "select count(*) n from thread_state where irq_context = 1",
            "select cmdline from process where cmdline like 'dd if=/dev/zero of=%'",
            "select (select count(*) from slice where category = 'gap') gaps, abs(clock_value - \
             cast(strftime('%s', 'now') as int) * 1000000000) off from clock_snapshot where \
             clock_name = 'REALTIME' limit 1",
            "select display_value from slice join args using (arg_set_id) where category = \
             'call' and slice.name = 'openat' and key = 'debug.filename' and display_value like \
             '/usr/share/doc%' limit 1",
        ],
    );
    for stat in &rows[0] {
        // Switches that the recording lacks, and gaps.
        let is_known = match stat["name"].as_str().expect("a name") {
            "mismatched_sched_switch_tids" => stat["value"] == torn,
            name => name.contains("data_loss") || name.contains("packet_loss"),
        };
        assert!(is_known, "{stat}, {torn} torn");
    }
    let theirs: Counts = rows[1]
        .iter()
        .map(|row| {
            let number = |key: &str| row[key].as_u64().expect("a number");
            ((number("tid"), row["kind"].as_str().expect("a kind").to_owned()), number("n"))
        })
        .collect();
    let ours = counts(&events);
    assert!(ours.len() > 100, "{}", ours.len());
    for (key, n) in &ours {
        assert_eq!(theirs.get(key), Some(n), "{key:?}");
    }
    assert_eq!(theirs.len(), ours.len());
    let n = |at: usize| rows[at][0]["n"].as_u64().expect("a number");
    // `critical_path` looks at what is on it.
    assert!(n(2) > 0, "a critical path");
    assert!(n(3) > 0, "waits for I/O with their functions");
    assert!(n(4) > 0, "wakeups out of interrupts");
    assert!(!rows[5].is_empty(), "the arguments of a program");
    assert!(rows[6][0]["off"].as_u64().expect("a time") < 600_000_000_000, "{:?}", rows[6]);
    assert!(!rows[7].is_empty(), "a path");
}

/// A switch or a wakeup takes at most 8 bytes, a call with arguments at most 25.
#[test]
#[ignore = "long: a million events"]
fn perfettos_traces_are_small() {
    // So many that names of threads and the like, which are there once, do not count.
    let saved = Saved::beside(|| {
        let status = Command::new(c_program("pingpong", &[])).args(["5000", "4"]).status();
        assert!(status.expect("pingpong").success());
    });
    let events = saved.events();
    let of = |kinds: &str| {
        let n = events.iter().filter(|e| kinds.split(',').any(|kind| e["event"] == kind)).count();
        let trace = saved.export("perfetto", &["--event", kinds]);
        let bytes = fs::metadata(trace).expect("a file").len();
        eprintln!("{kinds}: {bytes} bytes, {n} events");
        (bytes, n as u64)
    };
    let (bytes, n) = of("switch,waking,wakeup_new,migrate");
    assert!(bytes <= 8 * n, "{bytes} bytes for {n} events of the scheduler");
    let (bytes, n) = of("sys_enter,sys_exit");
    assert!(bytes <= 25 * (n / 2), "{bytes} bytes for {} calls", n / 2);
}

/// What an engine answers about the tables of an export.
pub(crate) fn tables(engine: &str, dir: &Path, queries: &[&str]) -> Vec<Vec<Value>> {
    let judge = Path::new(env!("CARGO_MANIFEST_DIR")).join("judges/parquet/run.sh");
    let mut judge = Command::new(judge);
    judge.arg(engine).arg(dir).args(queries).stdin(Stdio::null());
    let output = judge.output().expect("the judge");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<_> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let installed = "tests/judges/parquet/setup.sh installs what it needs";
    assert_eq!(rows.len(), queries.len(), "{installed}: {output:?}");
    rows
}

/// A number of the first row.
fn number(rows: &[Value], key: &str) -> u64 {
    rows[0][key].as_u64().unwrap_or_else(|| panic!("no number {key}: {:?}", rows[0]))
}

#[test]
fn parquet_has_the_same_events() {
    Judge::DUCKDB.require();
    let saved = Saved::new();
    let dir = saved.export("parquet", &[]);
    let lines = saved.lines();
    let gaps = lines.iter().filter(|line| line["event"] == "gap").count() as u64;
    let events: Vec<Value> = lines.into_iter().filter(is_event).collect();
    let ours = counts(&events);
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).count() as u64;
    // What both engines take.
    let queries = [
        "select tid, kind, count(*) as n from events group by tid, kind",
        "select sum(cast(has_entry as bigint)) as n from calls",
        "select sum(cast(has_exit as bigint)) as n from calls",
        "select count(*) as n from calls where has_entry and has_exit and dur_ns is null",
        "select count(*) as n from block_io",
        "select count(*) as n from calls where name = 'openat' and path like '/usr/share/doc%'",
        "select count(*) as n from calls where name = 'write' and file like '%/file' and ret > 0",
        "select count(*) as n from waits where kind = 'blocked' and io_wait",
        "select count(*) as n from waits where kind = 'cpu' and dur_ns > 0",
        "select count(*) as n from waits where function is not null",
        "select count(*) as n from processes where args like 'dd if=/dev/zero%' and exit_code = 0",
        "select count(*) as n from coverage where what = 'window'",
        "select count(*) as n from coverage where what = 'gap'",
        "select count(*) as n from events where ts_ns < 1700000000000000000",
        "select max(ts_ns) as n from events",
    ];
    for engine in ["duckdb", "polars"] {
        let rows = tables(engine, &dir, &queries);
        let theirs: Counts = rows[0]
            .iter()
            .map(|row| {
                let number = |key: &str| row[key].as_u64().expect("a number");
                ((number("tid"), row["kind"].as_str().expect("a kind").to_owned()), number("n"))
            })
            .collect();
        assert_eq!(theirs, ours, "{engine}");
        assert_eq!(number(&rows[1], "n"), of("sys_enter"), "{engine}");
        assert_eq!(number(&rows[2], "n"), of("sys_exit"), "{engine}");
        assert_eq!(number(&rows[3], "n"), 0, "{engine}: calls that are whole have a duration");
        assert_eq!(number(&rows[4], "n"), of("block_complete"), "{engine}");
        for (at, what) in (5..).zip(["opens", "writes", "I/O waits", "CPU waits", "stacks", "dd"]) {
            assert!(number(&rows[at], "n") > 0, "{engine}: {what}");
        }
        assert!(number(&rows[11], "n") >= 1, "{engine}: a window");
        assert_eq!(number(&rows[12], "n"), gaps, "{engine}: gaps");
        assert_eq!(number(&rows[13], "n"), 0, "{engine}: times");
        let newest = events.iter().filter_map(|event| event["mono_ns"].as_u64()).max();
        let ahead = number(
            &tables(engine, &dir, &["select wall_minus_mono_ns as n from recordings"])[0],
            "n",
        );
        let off = number(&rows[14], "n").abs_diff(newest.expect("events") + ahead);
        assert!(off < 1_000_000, "{engine}: times are {off} ns off");
    }
}

/// Each query of docs/sql.md answers, and those that this work must show have rows.
#[test]
fn questions_in_sql() {
    Judge::DUCKDB.require();
    let saved = Saved::new();
    let dir = saved.export("parquet", &[]);
    let page = include_str!("../../docs/sql.md");
    let queries: Vec<&str> = page
        .split("```sql\n")
        .skip(1)
        .map(|block| block.split("```").next().expect("the end of a block"))
        .collect();
    assert_eq!(queries.len(), 10);
    let rows = tables("duckdb", &dir, &queries);
    for (query, rows) in queries.iter().zip(&rows).skip(1) {
        assert!(!rows.is_empty(), "{query}");
    }
    assert!(rows[1].iter().any(|row| row["comm"] == "dd"), "dd syncs: {:?}", rows[1]);
    let file = saved.dir.path().join("file").display().to_string();
    assert!(rows[7].iter().any(|row| row["file"] == *file), "dd writes: {:?}", rows[7]);
}

/// What the gaps of a recording lack on each CPU, and how many there are; of a CPU with a gap of
/// unknown size nothing is said.
pub(crate) fn missing(lines: &[Value]) -> BTreeMap<u64, u64> {
    let mut sums: BTreeMap<u64, Option<u64>> = BTreeMap::new();
    for gap in lines.iter().filter(|line| line["event"] == "gap") {
        let refused = gap["refused"].as_object().expect("counts").iter();
        let refused = refused.filter(|(reason, _)| *reason != "own");
        let refused: u64 = refused.map(|(_, n)| n.as_u64().expect("a number")).sum();
        let lost = if gap["reason"] == "refused" { Some(0) } else { gap["missing"].as_u64() };
        let sum = sums.entry(gap["cpu"].as_u64().expect("a CPU")).or_insert(Some(0));
        *sum = sum.zip(lost).map(|(sum, lost)| sum + lost + refused);
    }
    sums.into_iter().filter_map(|(cpu, sum)| Some((cpu, sum?))).collect()
}

/// Names of events in the formats that have the kernel's, and the kinds that they are.
pub(crate) fn kind(name: &str) -> &str {
    match name {
        "sched_switch" => "switch",
        "sched_waking" => "waking",
        "sched_wakeup_new" => "wakeup_new",
        "sched_migrate_task" => "migrate",
        "sched_process_fork" => "fork",
        "sched_process_exec" => "exec",
        "sched_process_exit" => "exit",
        "block_rq_insert" => "block_insert",
        "block_rq_issue" => "block_issue",
        "block_rq_complete" => "block_complete",
        _ if name.starts_with("sys_enter_") || name.starts_with("syscall_entry_") => "sys_enter",
        _ if name.starts_with("sys_exit_") || name.starts_with("syscall_exit_") => "sys_exit",
        _ => name.strip_prefix("flightrec_").unwrap_or(name),
    }
}

#[test]
fn trace_dat_has_the_same_events() {
    require_program("trace-cmd", "tests/judges/trace-cmd/setup.sh");
    check_trace_dat(&Saved::new(), 0);
    // Most of what was refused.
    check_trace_dat(&Saved::with_gaps(), 10_000);
}

/// `least`: so many events are missing at least.
fn check_trace_dat(saved: &Saved, least: u64) {
    let trace = saved.export("trace.dat", &[]);
    let output = Command::new("trace-cmd").arg("report").arg("-i").arg(&trace).output();
    let output = output.expect("tests/judges/trace-cmd/setup.sh installs it");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let line = regex::Regex::new(r"^ *.+-(\d+) +\[(\d+)\] +\d+\.\d+: (\w+): ").expect("regex");
    let lost = regex::Regex::new(r"^CPU:(\d+) \[(\d+) EVENTS DROPPED\]$").expect("regex");
    let mut theirs = Counts::new();
    let mut dropped: BTreeMap<u64, u64> = BTreeMap::new();
    let mut told: BTreeMap<&str, u64> = BTreeMap::new();
    for text in text.lines().skip(1) {
        if let Some(found) = lost.captures(text) {
            let number = |at: usize| found[at].parse::<u64>().expect("a number");
            *dropped.entry(number(1)).or_default() += number(2);
        } else if let Some(found) = line.captures(text) {
            let kind = kind(found.get(3).expect("a name").as_str());
            if ["gap", "coverage"].contains(&kind) {
                *told.entry(kind).or_default() += 1;
                continue;
            }
            let tid = found[1].parse().expect("a thread");
            *theirs.entry((tid, kind.to_owned())).or_default() += 1;
        } else {
            assert!(text.contains("EVENTS DROPPED"), "{text:?}");
        }
    }
    let lines = saved.lines();
    assert_eq!(theirs, counts(&saved.events()));
    let ours = missing(&lines);
    assert!(ours.values().sum::<u64>() >= least, "{ours:?}");
    for (cpu, n) in &ours {
        assert_eq!(dropped.get(cpu), Some(n), "CPU {cpu}: {ours:?}");
    }
    let gaps = lines.iter().filter(|line| line["event"] == "gap").count() as u64;
    assert_eq!(told.get("gap").copied().unwrap_or_default(), gaps);
    assert!(told["coverage"] >= 1);
    let shown = |part: &str| assert!(text.contains(part), "no {part:?}");
    shown("sys_enter_openat:     dfd=AT_FDCWD, filename=/usr/share/doc");
    shown(" ENOENT\n");
    shown("text=\"end of \\33[2J work\"");
    // Threads have the names that they had last.
    shown(" dd-");
    shown(" ls-");
}

#[test]
fn ctf_has_the_same_events() {
    Judge::CTF.require();
    require_program("babeltrace2", "tests/judges/ctf/setup.sh");
    let saved = Saved::new();
    check_ctf(&saved, 0);
    check_analyses(&saved);
    // Most of what was refused.
    check_ctf(&Saved::with_gaps(), 10_000);
}

/// `least`: so many events are missing at least.
fn check_ctf(saved: &Saved, least: u64) {
    let trace = saved.export("ctf", &[]);
    let output = Command::new("babeltrace2").arg(&trace).output();
    let output = output.expect("tests/judges/ctf/setup.sh installs it");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let line = regex::Regex::new(
        r"^\[[\d:.]+\] \([^)]*\) \S+ (\w+): \{ cpu_id = \d+ \}, \{ pid = -?\d+, tid = (\d+) \}",
    )
    .expect("regex");
    let mut theirs = Counts::new();
    let mut told: BTreeMap<&str, u64> = BTreeMap::new();
    for text in text.lines() {
        let found = line.captures(text).unwrap_or_else(|| panic!("{text:?}"));
        let name = found.get(1).expect("a name").as_str();
        let kind = kind(name);
        if name.starts_with("lttng_") || ["gap", "coverage"].contains(&kind) {
            *told.entry(kind).or_default() += 1;
            continue;
        }
        let tid = found[2].parse().expect("a thread");
        *theirs.entry((tid, kind.to_owned())).or_default() += 1;
    }
    let lines = saved.lines();
    assert_eq!(theirs, counts(&saved.events()));
    let gaps = lines.iter().filter(|line| line["event"] == "gap").count() as u64;
    assert_eq!(told.get("gap").copied().unwrap_or_default(), gaps);
    assert!(told["coverage"] >= 1 && told["lttng_statedump_process_state"] > 10);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lost =
        regex::Regex::new(r"Tracer discarded (\d+) events? .*channel0_(\d+)").expect("regex");
    let mut dropped: BTreeMap<u64, u64> = BTreeMap::new();
    for found in lost.captures_iter(&said) {
        let number = |at: usize| found[at].parse::<u64>().expect("a number");
        *dropped.entry(number(2)).or_default() += number(1);
    }
    let ours = missing(&lines);
    assert!(ours.values().sum::<u64>() >= least, "{ours:?}");
    for (cpu, n) in &ours {
        assert_eq!(dropped.get(cpu), Some(n), "CPU {cpu}: {said}");
    }
}

/// What lttng-analyses find. Each reads some 25,000 events a second: they have a second of work.
fn check_analyses(saved: &Saved) {
    let trace = saved.export("ctf", &["--last", "1s"]).join("kernel");
    let analyse = Path::new(env!("CARGO_MANIFEST_DIR")).join("judges/ctf/analyse.sh");
    let start = |(analysis, expected)| {
        let mut judge = Command::new(&analyse);
        judge.arg(analysis).arg(&trace).stdout(Stdio::piped()).stderr(Stdio::piped());
        (analysis, expected, judge.spawn().expect("the judge"))
    };
    // Two at a time.
    for two in [
        [("sched-log", "dd ("), ("sched-top", "Latency")],
        [("iolatencytop", "fsync"), ("io-log", "/usr/share/doc")],
        [("cputop", "Per-TID Usage"), ("syscallstats", "- openat ")],
    ] {
        for (analysis, expected, judge) in two.map(start) {
            let output = judge.wait_with_output().expect("its end");
            let installed = "tests/judges/ctf/setup.sh installs what it needs";
            assert!(output.status.success(), "{installed}: {analysis}: {output:?}");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains(expected), "{analysis} has no {expected:?}: {text}");
        }
    }
}

/// A directory is whole or not there, and what it did not make stays.
#[test]
fn a_directory_of_an_export() {
    let saved = Saved::new();
    let dir = saved.export("parquet", &[]);
    let (file, name) = (saved.file(), dir.display().to_string());
    let all = ["export", &file, "--format", "parquet", "-o", &name];
    let said = |args: &[&str]| {
        let output = saved.recorder.flightctl(args);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    assert!(said(&all).contains("--force"));
    let before = fs::read(dir.join("events.parquet")).expect("a table");
    saved.export("parquet", &[]);
    assert_eq!(fs::read(dir.join("events.parquet")).expect("a table"), before, "the same again");
    fs::write(dir.join("mine.parquet"), "mine").expect("a file");
    let forced = [&all[..], &["--force"]].concat();
    assert!(said(&forced).contains("mine.parquet"));
    assert_eq!(fs::read(dir.join("mine.parquet")).expect("a file"), b"mine");
    assert!(said(&["export", &file, "--format", "parquet", "-o", "-"]).contains("directory"));
    assert!(said(&["export", &file, "--format", "parquet", "-o", "/dev/full"]).contains("direct"));
    // A full disk.
    let full = saved.dir.path().join("full");
    fs::create_dir(&full).expect("a directory");
    let mounted = |args: &[&str]| Command::new(args[0]).args(&args[1..]).status().expect("run");
    let path = full.display().to_string();
    assert!(mounted(&["mount", "-t", "tmpfs", "-o", "size=64k", "nodev", &path]).success());
    let out = full.join("out").display().to_string();
    let outputs = ["parquet", "trace.dat"].map(|format| {
        let output = saved.recorder.flightctl(&["export", &file, "--format", format, "-o", &out]);
        (format, output, fs::read_dir(&full).expect("a directory").count())
    });
    assert!(mounted(&["umount", &path]).success());
    for (format, output, left) in outputs {
        assert_eq!(output.status.code(), Some(2), "{format}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("No space left") && said.contains(&path), "{format}: {said}");
        assert_eq!(left, 0, "nothing is left of {format}");
    }
}

#[test]
fn a_half_written_export_is_not_left() {
    let saved = Saved::new();
    let out = saved.dir.path().join("there");
    fs::write(&out, "mine").expect("a file");
    let (file, name) = (saved.file(), out.display().to_string());
    let all = ["export", &file, "--format", "perfetto", "-o", &name];
    let output = saved.recorder.flightctl(&all);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--force"), "{output:?}");
    assert_eq!(fs::read(&out).expect("a file"), b"mine");
    // A full disk.
    let output =
        saved.recorder.flightctl(&["export", &file, "--format", "perfetto", "-o", "/dev/full"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // A reader that has seen enough.
    let mut command = saved.recorder.flightctl_command();
    command.args(["export", &file, "--format", "perfetto", "-o", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("run");
    drop(child.stdout.take());
    assert!(child.wait().expect("its end").success());
}
