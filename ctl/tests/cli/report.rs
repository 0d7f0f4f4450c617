//! `flightctl report` out of kernel dumps, and `flightctl diff` of a snapshot with the files before
//! it, each held against the schema that is published.

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Body;
use flightrec_vmcore::synthetic::{self, Codec};
use serde_json::Value;

use crate::common::{NOW, Recording, SECOND, WALL, flightctl, meta, stderr, stdout};
use crate::disk::Disk;
use crate::snapshots::{about, snapshot};
use crate::vmcore::{call, event, file, image, pages, pages_with_request};

const REPORT: &str = include_str!("../../../docs/flightctl-report.schema.json");
const DIFF: &str = include_str!("../../../docs/flightctl-diff.schema.json");
const NAMES: [&str; 11] = [
    "calls",
    "waits",
    "runq",
    "offcpu",
    "wakers",
    "block",
    "bytes",
    "functions",
    "irq",
    "net",
    "signals",
];

/// JSON as its schema says.
fn valid(output: &std::process::Output, schema: &str) -> Value {
    let object: Value = serde_json::from_str(&stdout(output))
        .unwrap_or_else(|e| panic!("{e}: {}{}", stdout(output), stderr(output)));
    let schema: Value = serde_json::from_str(schema).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> =
        schema.iter_errors(&object).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{object:#}");
    object
}

#[test]
fn every_report_reads_a_kernel_dump() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &synthetic::kdump(&image(&pages_with_request()), Codec::Zlib));
    let report = |args: &[&str]| {
        let place = ["--vmcore", path.to_str().unwrap(), "--format", "json"];
        flightctl(&[&["report"], args, &place].concat())
    };
    let of = |name: &str| {
        let out = report(&[name, "--all"]);
        let table = valid(&out, REPORT);
        let has_rows = !table["rows"].as_array().unwrap().is_empty();
        assert_eq!(out.status.code(), Some(i32::from(!has_rows)), "{name}: {}", stderr(&out));
        assert_eq!(table["report"], name);
        table
    };
    for name in NAMES {
        of(name);
    }
    // The calls that ended before the machine died; one request was done.
    let calls = of("calls");
    assert_eq!(
        (&calls["rows"][0]["count"], &calls["rows"][0]["max_duration_ns"]),
        (&500.into(), &320.into())
    );
    let block = of("block");
    assert_eq!(
        (&block["rows"][0]["count"], &block["rows"][0]["max_service_ns"]),
        (&1.into(), &1_000_000.into())
    );
    // Thread 9 waited up to the death of the machine, in the window of the last second as well.
    let waits = valid(&report(&["waits", "--tid", "9", "--last", "1s"]), REPORT);
    assert_eq!(waits["rows"][0]["total_duration_ns"], SECOND, "{waits:#}");
    assert_eq!(valid(&report(&["calls", "--last", "1ms"]), REPORT)["rows"], Value::Array(vec![]));
    let wrong = report(&["calls", "--session", "1"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
    let both = report(&["calls", "--file", "x.flight"]);
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
    let text = flightctl(&["report", "calls", "--vmcore", path.to_str().unwrap(), "--all"]);
    assert!(stdout(&text).starts_with("CALLS "), "{}{}", stdout(&text), stderr(&text));
}

#[test]
fn a_dump_without_a_recording_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let none: Vec<_> = pages().into_iter().take(0).collect();
    let path = file(&dir, &synthetic::elf(&image(&none), 0));
    let out = flightctl(&["report", "waits", "--vmcore", path.to_str().unwrap(), "--all"]);
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(2), ""), "{}", stderr(&out));
}

/// 15 s of writes that take 1 us, and 100 us in the last 3 s; the snapshot is of one of these.
#[test]
fn a_snapshot_is_compared_with_the_files_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::new();
    let mut disk = Disk::new(dir.path(), meta(), WALL, 3);
    let begin = NOW - 15 * SECOND;
    for ms in 0..15_000u64 {
        let end = begin + ms * 1_000_000 + 500_000;
        let took = if ms < 12_000 { 1_000 } else { 100_000 };
        let entry = Body::Enter(call(1, &[4, 0, 9]));
        recording.push(Lane::Syscall, &event(end - took, 0, 7, entry));
        let body = Body::Exit { call: call(1, &[4, 0, 9]), ret: 9, entered: Some(end - took) };
        recording.push(Lane::Syscall, &event(end, 0, 7, body));
        if ms % 500 == 499 {
            disk.drain(&mut recording, end);
        }
    }
    disk.close(&mut recording, NOW);
    let id = "20260101T000159Z-core-dump";
    snapshot(dir.path(), id, &about("slow"));
    let state = dir.path().to_str().unwrap();
    let diff = |args: &[&str]| {
        let place = ["--runtime-dir", "/nonexistent", "--state-dir", state, "diff"];
        flightctl(&[&place, args].concat())
    };
    for args in [
        &["--snapshot", "latest", "--a", "-5s", "--format", "json"][..],
        &["--snapshot", id, "--a", "-6s", "--format", "json"],
    ] {
        let out = diff(args);
        assert_eq!(out.status.code(), Some(0), "{args:?}: {}{}", stdout(&out), stderr(&out));
        let told = valid(&out, DIFF);
        let length = |side: &str| {
            let of = &told[side]["window"][0];
            of["until_mono_ns"].as_u64().unwrap() - of["from_mono_ns"].as_u64().unwrap()
        };
        assert_eq!((length("a"), length("b")), (SECOND, SECOND), "{told:#}");
        let change = &told["changes"][0];
        assert_eq!((&change["topic"], &change["change"]), (&"calls".into(), &"slower".into()));
        assert_eq!(
            (&change["a"]["average_ns"], &change["b"]["average_ns"]),
            (&1_000.into(), &100_000.into())
        );
    }
    let text = diff(&["--snapshot", "latest", "--a", "-5s"]);
    assert!(stdout(&text).contains("slower"), "{}{}", stdout(&text), stderr(&text));
    assert!(stderr(&text).contains("a: ") && stderr(&text).contains("b: "), "{}", stderr(&text));
    // Nothing is recorded of the day before; within the slow time nothing changed.
    let day = diff(&["--snapshot", "latest"]);
    assert_eq!((day.status.code(), stdout(&day).as_str()), (Some(2), ""));
    assert!(stderr(&day).contains("--a: nothing is recorded of that window"), "{}", stderr(&day));
    let same = diff(&["--snapshot", "latest", "--a", "-0.5s"]);
    assert_eq!(same.status.code(), Some(1), "{}{}", stdout(&same), stderr(&same));
}
