//! Sums of minutes, held against the reports of the events that they are made of.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use flightrec_store::Store;
use flightrec_sums::keeper::Limits;
use flightrec_sums::worker::{Turn, Worker};
use flightrec_tests::{Judge, PATIENCE, Recorder, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::export::tables;
use crate::store::{BUSY, Load};
use crate::support::start;

const SCHEMA: &str = include_str!("../../docs/flightctl-report.schema.json");
const DIFF: &str = include_str!("../../docs/flightctl-diff.schema.json");

/// JSON as its schema says, and what was said beside it.
fn asked(recorder: &Recorder, args: &[&str], schema: &str) -> (Value, String) {
    let output = recorder.flightctl_command().args(args).output().expect("flightctl");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {output:?}");
    let object: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let schema: Value = serde_json::from_str(schema).expect("a schema");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let wrong: Vec<String> = schema.iter_errors(&object).map(|e| e.to_string()).collect();
    assert!(wrong.is_empty(), "{args:?}: {wrong:#?}");
    (object, said)
}

fn report(recorder: &Recorder, dir: &Path, args: &[&str]) -> Value {
    let place = ["--store", dir.to_str().expect("UTF-8"), "--all", "--format", "json"];
    let most = ["--top", "100000"];
    asked(recorder, &[&["report"], args, &place, &most].concat(), SCHEMA).0
}

/// Rows by the values of their keys.
fn rows(report: &Value) -> BTreeMap<String, Value> {
    let by = report["by"].as_array().expect("keys");
    let of = |row: &Value| {
        let keys = by.iter().map(|key| row[key.as_str().expect("a key")].to_string());
        (keys.collect::<Vec<_>>().join(" "), row.clone())
    };
    report["rows"].as_array().expect("rows").iter().map(of).collect()
}

/// The figures of a row that are exact.
fn exact(row: &Value) -> BTreeMap<String, u64> {
    let numbers = row.as_object().expect("a row").iter();
    numbers
        .filter(|(name, _)| !name.starts_with("p50") && !name.starts_with("p99"))
        .filter_map(|(name, value)| Some((name.clone(), value.as_u64()?)))
        .collect()
}

/// A row of sums and that of the events have the same figures. But a call that was entered before
/// the pages of all CPUs begin has a duration in sums alone, since these read the wakeups that tell
/// whether it is the one that ended ([`flightrec_reader::pipeline::ends`]).
#[track_caller]
fn assert_same(sum: &Value, row: &Value, what: &str) {
    let (mut sum, mut row) = (exact(sum), exact(row));
    let untimed = |of: &BTreeMap<String, u64>| of.get("untimed").copied().unwrap_or(0);
    if untimed(&sum) < untimed(&row) {
        assert!(sum["total_duration_ns"] >= row["total_duration_ns"], "{what}");
        for of in [&mut sum, &mut row] {
            of.retain(|name, _| name != "untimed" && !name.ends_with("duration_ns"));
        }
    }
    assert_eq!(sum, row, "{what}");
}

/// The bucket of a value: the power of two below it.
fn power(value: &Value) -> Option<u32> {
    value.as_u64().map(|value| value.checked_ilog2().map_or(0, |power| power + 1))
}

/// Adds up a state directory whose recorder has ended: one that has nothing but the sums, and how
/// many events they are of.
fn added_up(dir: &Path) -> (TempDir, u64) {
    let limits = Limits { max_size: 50_000_000, keep: None };
    let mut worker = Worker::open(dir, limits, None).expect("the directory");
    while worker.turn(None).expect("a turn") == Turn::More {}
    worker.flush().expect("written");
    let bare = tempfile::tempdir().expect("a directory");
    fs::create_dir(bare.path().join("sums")).expect("a directory");
    for sums in fs::read_dir(dir.join("sums")).expect("sums") {
        let path = sums.expect("a file").path();
        let to = bare.path().join("sums").join(path.file_name().expect("a name"));
        fs::copy(&path, to).expect("a copy");
    }
    (bare, worker.events())
}

/// All of a recording is added up twice: by `flightctl report` from its events, and from the sums
/// that were made of its files, when the events are gone.
#[test]
fn sums_are_those_of_the_events() {
    let mut recorder = start(&format!("{BUSY}[history]\nenabled = false\n"));
    let load = Load::mixed();
    let file = recorder.sandbox().state_dir().join("written");
    for _ in 0..2 {
        let of = format!("of={}", file.display());
        let copy = ["if=/dev/zero", &of, "bs=64k", "count=40", "conv=fsync"];
        assert!(Command::new("dd").args(copy).output().expect("dd").status.success());
        thread::sleep(Duration::from_secs(1));
    }
    drop(load);
    recorder.terminate().expect("its end");
    let dir = recorder.sandbox().state_dir();
    let (bare, events) = added_up(&dir);
    assert!(events > 10_000, "{events} events");
    for (name, by) in
        [("calls", "unit,syscall"), ("block", "device,op,unit"), ("bytes", "unit,syscall,op")]
    {
        let events = report(&recorder, &dir, &[name, "--by", by]);
        let sums = report(&recorder, bare.path(), &[name, "--by", by]);
        assert_eq!((&events["source"], &events["sums"]), (&"events".into(), &Value::Null));
        assert_eq!(sums["source"], "sums", "{sums:#}");
        assert_eq!(sums["sums"]["lost_events"], 0, "the load is small");
        let (of_events, of_sums) = (rows(&events), rows(&sums));
        assert!(!of_events.is_empty(), "{name}");
        assert_eq!(
            of_sums.keys().collect::<Vec<_>>(),
            of_events.keys().collect::<Vec<_>>(),
            "{name}"
        );
        for (key, row) in &of_events {
            let sum = &of_sums[key];
            assert_same(sum, row, &format!("{name}: {key}"));
            let p99 = row.as_object().expect("a row").keys().find(|key| key.starts_with("p99"));
            let p99 = p99.expect("a p99");
            if exact(sum).get("untimed") != exact(row).get("untimed") {
                continue; // of other durations
            }
            assert_eq!(power(&sum[p99]), power(&row[p99]), "{name}: {key}: {row} {sum}");
        }
        assert_same(&sums["total"], &events["total"], name);
    }
    // Times of threads: all that is known of the recording but for its very beginning and end,
    // where a thread's state is told by the first event after the window's edge.
    for (name, figure) in [("runq", "running_ns"), ("waits", "total_duration_ns")] {
        let of = |dir: &Path| {
            let total = report(&recorder, dir, &[name, "--by", "unit"])["total"][figure].as_u64();
            total.expect("a time") as f64
        };
        let (events, sums) = (of(&dir), of(bare.path()));
        assert!((sums - events).abs() < events * 0.02, "{name}: {sums} for {events}");
    }
}

/// Gives the thread that makes the sums the usual priority: beside busy programs it would take
/// minutes, as it stands back.
fn do_not_stand_back(recorder: &Recorder) {
    let tasks = format!("/proc/{}/task", recorder.pid());
    let is_ours = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim_end() == "flightd-sums")
    };
    let find = || {
        let tasks = fs::read_dir(&tasks).expect("threads").flatten().map(|entry| entry.path());
        let task = tasks.into_iter().find(is_ours)?;
        task.file_name().and_then(|name| name.to_str()?.parse().ok())
    };
    // It stands back itself a moment after it has begun.
    let has_stood_back = |tid: &libc::id_t| {
        // SAFETY: no memory is involved.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, *tid) > 0 }
    };
    assert!(wait_until(PATIENCE, || find().is_some_and(|tid| has_stood_back(&tid))));
    let tid = find().expect("the thread");
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, 0) }, 0);
}

/// A recorder that runs: where a file is deleted, the report goes on with sums, and says so.
#[test]
fn where_events_are_gone_sums_answer_and_say_so() {
    let mut recorder = start(&format!("{BUSY}[history]\nmax_cpu_percent = 100\n"));
    let load = Load::mixed();
    thread::sleep(Duration::from_secs(2));
    drop(load);
    // Sums of what has ended are made by the next one at once.
    recorder.terminate().expect("its end");
    recorder.restart();
    do_not_stand_back(&recorder);
    let sums = recorder.sandbox().state_dir().join("sums");
    let has_sums = || fs::read_dir(&sums).is_ok_and(|mut files| files.next().is_some());
    assert!(wait_until(PATIENCE, has_sums), "{}", recorder.log());
    // The status tells how far that is, and what it takes.
    let status = || -> Value {
        let output = recorder.flightctl(&["status", "--json"]);
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["sums"].take()
    };
    let on_disk = || -> u64 {
        let files = fs::read_dir(&sums).expect("sums");
        files.map(|file| file.expect("a file").metadata().expect("a size").len()).sum()
    };
    let is_told = || {
        let told = status();
        told["behind_seconds"].as_f64().is_some_and(|after| after < 120.0)
            && told["bytes"] == on_disk()
            && ["files", "bytes", "events"]
                .iter()
                .all(|figure| told[*figure].as_u64().is_some_and(|n| n > 0))
    };
    assert!(wait_until(PATIENCE, is_told), "{:#}", status());
    let sums_now = status();
    assert_eq!((&sums_now["enabled"], &sums_now["reason"]), (&true.into(), &Value::Null));
    assert_eq!(sums_now["unsummed_seconds"], 0.0);
    let store = Store::open(recorder.sandbox().state_dir()).expect("files");
    let first = store.all().first().expect("a file");
    let session = flightrec_store::read_header(&first.path).expect("a header").session;
    for file in store.all() {
        if flightrec_store::read_header(&file.path).is_ok_and(|of| of.session == session) {
            fs::remove_file(&file.path).expect("removed");
        }
    }
    let of = |args: &[&str], schema: &str| {
        asked(&recorder, &[args, &["--format", "json"]].concat(), schema)
    };
    let (calls, _) = of(&["report", "calls", "--all"], SCHEMA);
    assert_eq!(calls["source"], "sums and events", "{calls:#}");
    assert!(calls["coverage"].to_string().contains("from sums of minutes"), "{calls:#}");
    assert!(rows(&calls).values().any(|row| row["syscall"] == "openat"), "{calls:#}");
    // A report that sums know nothing of says what it lacks.
    let (signals, _) = of(&["report", "signals", "--all"], SCHEMA);
    assert_eq!((&signals["source"], &signals["complete"]), (&"events".into(), &false.into()));
    assert!(signals["coverage"].to_string().contains("nothing for report signals"));
    let (by_comm, _) = of(&["report", "calls", "--all", "--by", "comm"], SCHEMA);
    assert!(by_comm["coverage"].to_string().contains("are by unit, syscall only"), "{by_comm:#}");
    let (diff, said) = of(&["diff", "--a=-2h..-1s", "--b=-1s.."], DIFF);
    assert_eq!(diff["a"]["source"], "sums and events", "{diff:#}");
    assert_eq!(diff["b"]["source"], "events");
    assert!(said.contains("grouped by unit"), "{said}");
    let text = recorder.flightctl(&["report", "runq", "--all"]);
    let said = String::from_utf8_lossy(&text.stderr);
    assert!(said.contains("from sums of minutes: the events are gone"), "{said}");
    assert!(String::from_utf8_lossy(&text.stdout).contains("UNIT"), "{text:?}");
}

/// A recording that has ended, with the sums of its minutes.
pub(crate) struct Summed {
    pub(crate) recorder: Recorder,
    /// A state directory that has nothing but the sums.
    bare: TempDir,
}

impl Summed {
    pub(crate) fn new() -> Self {
        let mut recorder = start(&format!("{BUSY}[history]\nenabled = false\n"));
        let load = Load::mixed();
        thread::sleep(Duration::from_secs(3));
        drop(load);
        recorder.terminate().expect("its end");
        let dir = recorder.sandbox().state_dir();
        let (bare, _) = added_up(&dir);
        Self { recorder, bare }
    }

    /// Exports its tables; returns where they are, and what was said.
    pub(crate) fn export(&self, more: &[&str]) -> (PathBuf, String) {
        let out = self.bare.path().join("tables");
        let mut command = self.recorder.flightctl_command();
        command.args(["export", "--all", "--force", "--format", "parquet", "-o"]).arg(&out);
        let dir = self.recorder.sandbox().state_dir();
        let output = command.arg("--store").arg(&dir).args(more).output().expect("flightctl");
        assert!(output.status.success(), "{output:?}");
        (out, String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The table of sums has what reports have that are made of sums.
#[test]
fn parquet_has_the_sums_of_minutes() {
    Judge::DUCKDB.require();
    let summed = Summed::new();
    let Summed { recorder, bare } = &summed;
    let (out, said) = summed.export(&["--comm", "ls"]);
    assert_eq!(said.matches("the table sums is empty").count(), 1, "{said}");
    let all = "select count(*) as n from sums";
    assert_eq!(tables("duckdb", &out, &[all])[0][0]["n"], 0);
    let (_, said) = summed.export(&[]);
    assert!(!said.contains("the table sums"), "{said}");
    let cases = [
        ("calls", "call", "call", "syscall", "count", "count"),
        ("calls", "call", "call", "syscall", "sum", "total_duration_ns"),
        ("calls", "call", "call", "syscall", "errors", "errors"),
        ("bytes", "bytes", "call", "syscall", "read_bytes", "read_bytes"),
        ("bytes", "bytes", "call", "syscall", "written_bytes", "written_bytes"),
        ("runq", "unit", "unit", "unit", "running_ns", "running_ns"),
        ("waits", "wait", "reason", "reason", "sum", "total_duration_ns"),
    ];
    for (name, what, column, key, sum, figure) in cases {
        let made = report(recorder, bare.path(), &[name, "--by", key]);
        assert_eq!(made["source"], "sums", "{name}");
        let query = format!(
            "select coalesce({column}, '') as k, cast(sum({sum}) as bigint) as n from sums \
             where what = '{what}' group by k"
        );
        let theirs: BTreeMap<String, u64> = tables("duckdb", &out, &[&query])[0]
            .iter()
            .map(|row| (row["k"].as_str().expect("a key").to_owned(), number(&row["n"])))
            .collect();
        let rows = made["rows"].as_array().expect("rows").iter();
        let ours: BTreeMap<String, u64> = rows
            .map(|row| (row[key].as_str().unwrap_or("").to_owned(), number(&row[figure])))
            .collect();
        assert_eq!(theirs, ours, "{name}: {figure} by {key}");
        assert!(ours.values().any(|n| *n != 0), "{name}: {figure}");
    }
}

/// A number; 0 where there is none.
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
