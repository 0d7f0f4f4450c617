//! Sums of `flightctl report`, held against strace, perf, the kernel's counters, and sums by hand
//! over the events.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use flightrec_tests::Recorder;
use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;

use crate::disk::{self, Loop};
use crate::json::valid_dump;
use crate::support::{share_recorder, start};

/// A report of all that was recorded.
fn report(recorder: &Recorder, args: &[&str]) -> Value {
    report_of(recorder, &[args, &["--last", "1h"]].concat())
}

fn report_of(recorder: &Recorder, args: &[&str]) -> Value {
    let common = ["--format", "json", "--top", "1000"];
    let output = recorder.flightctl(&[&["report"], args, &common[..]].concat());
    assert!(output.status.success(), "{args:?}: {output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["others"], Value::Null, "{report}");
    report
}

fn rows(report: &Value) -> &Vec<Value> {
    report["rows"].as_array().expect("rows")
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_else(|| panic!("no {name} in {row}"))
}

/// Runs a program to its successful end.
fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("run");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Calls and errors by name, in the table of `strace -c`.
fn of_strace(table: &str) -> BTreeMap<String, (u64, u64)> {
    let lines = table.lines().skip(2).take_while(|line| !line.starts_with("------"));
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let errors = if fields.len() == 6 { fields[4].parse().expect("errors") } else { 0 };
        let calls = fields[3].parse().expect("calls");
        (fields.last().expect("a name").to_string(), (calls, errors))
    };
    lines.map(row).collect()
}

fn calls_and_bytes_are_those_of_strace_and_of_the_events(recorder: &Recorder) {
    let dir = TempDir::new().expect("directory");
    let (table, to) = (dir.path().join("table"), dir.path().join("to"));
    let copy = dir.path().join("report-copy");
    fs::copy("/usr/bin/dd", &copy).expect("a program of its own name");
    let to = format!("of={}", to.display());
    run(Command::new("strace").args(["-f", "-c", "-o"]).arg(&table).arg(&copy).args([
        "if=/dev/zero",
        &to,
        "bs=3k",
        "count=700",
    ]));
    let comm = ["--comm", "report-copy"];
    let calls = report(recorder, &[&["calls"], &comm[..]].concat());
    let counted: BTreeMap<String, (u64, u64)> = rows(&calls)
        .iter()
        .map(|row| {
            let name = row["syscall"].as_str().expect("a name").to_owned();
            (name, (number(row, "count"), number(row, "errors")))
        })
        .collect();
    let traced = of_strace(&fs::read_to_string(&table).expect("the table of strace"));
    assert_eq!(counted, traced);
    assert!(traced["write"].0 >= 700, "{traced:?}");
    assert_eq!(calls["complete"], true, "{}", calls["coverage"]);

    // By hand: what each call returned, by the file of its descriptor.
    let mut by_hand: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    let args = [&["--last", "1h", "--merge", "--event", "sys_enter,sys_exit"], &comm[..]].concat();
    for event in valid_dump(recorder, &args) {
        let op = match event["syscall"].as_str() {
            Some("read" | "pread64") => "read",
            Some("write") => "write",
            _ => continue,
        };
        let Some(bytes) = event["ret"].as_u64().filter(|bytes| *bytes > 0) else { continue };
        let text = event["args"][0]["text"].as_str().expect("a descriptor");
        let file = text.split_once('<').map_or("-", |(_, file)| file.trim_end_matches('>'));
        let sum = by_hand.entry((op.into(), file.into())).or_default();
        *sum = (sum.0 + 1, sum.1 + bytes);
    }
    let bytes = report(recorder, &[&["bytes", "--by", "op,file"], &comm[..]].concat());
    let summed: BTreeMap<(String, String), (u64, u64)> = rows(&bytes)
        .iter()
        .map(|row| {
            let word = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
            let sums = (number(row, "count"), number(row, "total_size_bytes"));
            ((word("op"), word("file")), sums)
        })
        .collect();
    assert_eq!(summed, by_hand);
    assert!(by_hand.values().any(|(count, bytes)| (*count, *bytes) == (700, 700 * 3072)));
    // CSV has the same rows.
    let csv = recorder.flightctl(
        &[&["report", "bytes", "--by", "op", "--format", "csv", "--last", "1h"], &comm[..]]
            .concat(),
    );
    let csv = String::from_utf8(csv.stdout).expect("UTF-8");
    let written = by_hand.iter().filter(|((op, _), _)| op == "write").map(|(_, sum)| sum.1);
    let written: u64 = written.sum();
    let row = csv.lines().find(|line| line.starts_with("write,")).expect("a row");
    assert_eq!(row.split(',').nth(4), Some(written.to_string().as_str()), "{csv}");
}

/// Delay by thread, ms, in the table of `perf sched latency -p`.
fn of_perf(table: &str, comm: &str) -> BTreeMap<u64, f64> {
    let row = |line: &str| {
        let (task, rest) = line.trim().split_once('|')?;
        let tid = task.trim().strip_prefix(comm)?.strip_prefix(':')?.parse().ok()?;
        let fields: Vec<&str> = rest.split('|').collect();
        let switches: f64 = fields.get(1)?.trim().parse().ok()?;
        let average = fields.get(2)?.trim().strip_prefix("avg:")?.trim().strip_suffix(" ms")?;
        Some((tid, switches * average.trim().parse::<f64>().ok()?))
    };
    table.lines().filter_map(row).collect()
}

fn run_queue_delays_are_those_of_perf(recorder: &Recorder) {
    let dir = TempDir::new().expect("directory");
    let (data, hog) = (dir.path().join("data"), dir.path().join("report-hog"));
    fs::copy("/bin/sh", &hog).expect("a program of its own name");
    let script = format!(
        "for i in 1 2 3; do timeout 1.5 {} -c 'while :; do :; done' & done; wait",
        hog.display()
    );
    run(Command::new("perf")
        .args(["sched", "record", "-o"])
        .arg(&data)
        // On one CPU from their beginning: where a thread is moved, perf begins to count again.
        .args(["taskset", "-c", "0", "sh", "-c", &script]));
    let table = Command::new("perf").args(["sched", "latency", "-p", "-i"]).arg(&data).output();
    let table = String::from_utf8_lossy(&table.expect("perf").stdout).into_owned();
    let traced = of_perf(&table, "report-hog");
    // perf's are of the whole life of a thread, under any name.
    let tids = traced.keys().map(u64::to_string).collect::<Vec<_>>().join(",");
    let told = report(recorder, &["runq", "--by", "tid", "--tid", &tids]);
    // Some kernels run no program of the recorder in some threads, such as a sandbox's first
    // process. Who waited while such a thread left its CPU is in an unknown state.
    let unknown = number(&told, "unknown_ns") as f64 / 1e6;
    let delays: BTreeMap<u64, &Value> =
        rows(&told).iter().map(|row| (number(row, "tid"), row)).collect();
    assert_eq!(delays.keys().collect::<Vec<_>>(), traced.keys().collect::<Vec<_>>(), "{table}");
    assert_eq!(traced.len(), 3);
    assert!(unknown < 100.0, "{unknown} ms unknown");
    for (tid, ms) in traced {
        let told = number(delays[&tid], "total_delay_ns") as f64 / 1e6;
        let line = format!("{tid}: {told:.1} ms, perf {ms:.1} ms, {unknown:.1} ms unknown");
        eprintln!("{line}");
        // perf misses a wait now and then, of one time slice: its "context switch bugs".
        let within = (ms - unknown) * 0.998..=ms * 1.02;
        assert!(ms > 500.0 && within.contains(&told), "{line}: {table}");
        // All that time somebody had the CPU: the other two, and whatever else runs there.
        let by = delays[&tid]["ran_instead"].as_array().expect("a list");
        let by_hogs =
            |of: &&Value| of["name"].as_str().is_some_and(|n| n.starts_with("report-hog"));
        assert_eq!(by.iter().filter(by_hogs).count(), 2, "{by:?}");
        let others = delays[&tid]["ran_instead_others_ns"].as_u64().unwrap_or(0);
        let ns = by.iter().map(|of| number(of, "ns")).sum::<u64>() + others;
        assert!(ns as f64 / 1e6 > told * 0.9 - unknown, "{told}: {by:?}");
    }
}

#[test]
fn requests_to_disks_are_those_that_the_kernel_counts() {
    let recorder = start("[rings]\nkernel = \"16MiB\"");
    let disk = Loop::new("mq-deadline");
    let (before, lost) = (disk.stat(), disk::lost(&recorder));
    // Another test may have had a device of this name before.
    let since = Timestamp::now().to_string();
    disk.read(400);
    disk.write(4);
    let after = disk.stat();
    let counted: Vec<u64> = after.iter().zip(before).map(|(now, then)| now - then).collect();
    let device = Path::new(disk.device()).file_name().expect("a name").to_string_lossy();
    let of_device = ["block", "--device", disk.device(), "--hist", "--since", &since];
    let requests = report_of(&recorder, &of_device);
    let of = |op: &str| rows(&requests).iter().find(|row| row["op"] == op);
    let sums = |op: &str| of(op).map_or((0, 0), |row| (number(row, "count"), number(row, "bytes")));
    let told = [sums("read"), sums("write"), sums("flush")];
    // Of ends that no program saw, the kernel's trace tells (`disk::`): there are none.
    let told_counts = [told[0].0, told[0].1 / 512, told[1].0, told[1].1 / 512, told[2].0];
    let is_lost = disk::lost(&recorder) > lost;
    assert!(is_lost || told_counts == counted[..], "{counted:?}: {requests}");
    let reads = of("read").expect("reads");
    assert_eq!((&reads["device"], reads["untimed"].as_u64()), (&Value::from(&*device), Some(0)));
    let histogram = reads["histogram"].as_array().expect("a list");
    let values: u64 = histogram.iter().map(|bucket| number(bucket, "count")).sum();
    assert_eq!(values, told[0].0);
    assert!(number(reads, "queued") > 0, "mq-deadline queues them: {reads}");
}

share_recorder!(
    calls_and_bytes_are_those_of_strace_and_of_the_events,
    run_queue_delays_are_those_of_perf
);
