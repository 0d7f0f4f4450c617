//! `flightctl export` where something is wrong: a damaged file, a reader that leaves, a full disk.
//! What is written is whole, and says what is missing; or it is not there.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Output, Stdio};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;

use crate::common::{command, flightctl, stderr};
use crate::disk::{files, recorded};
use crate::files::spoil;

const FORMATS: [&str; 2] = ["parquet", "trace.dat"];

fn export(store: &Path, format: &str, out: &Path, more: &[&str]) -> Output {
    let place = ["export", "--all", "--store", store.to_str().unwrap(), "--format", format, "-o"];
    flightctl(&[&place[..], &[out.to_str().unwrap()], more].concat())
}

fn table(dir: &Path, name: &str) -> SerializedFileReader<File> {
    let file = File::open(dir.join(name).with_extension("parquet")).unwrap();
    SerializedFileReader::new(file).unwrap()
}

/// Names in a directory that are not in `before`.
fn added(dir: &Path, before: &[String]) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| !before.contains(name)).collect()
}

#[test]
fn a_damaged_file_is_exported_around_the_damage() {
    let (_, dir) = recorded();
    let (missing, ..) = spoil(&files(dir.path())[2]);
    let outs = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let out = outs.path().join(format);
        let output = export(dir.path(), format, &out, &["--strict"]);
        assert_eq!(output.status.code(), Some(3), "{format}: {}", stderr(&output));
        assert!(stderr(&output).contains("damaged"), "{format}: {}", stderr(&output));
    }
    let tables = outs.path().join("parquet");
    let events = table(&tables, "events");
    let (mut last, mut calls, mut rows) = (0, 0, 0);
    for row in events.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        assert!(row.get_long(1).unwrap() >= last, "in order: {row}");
        last = row.get_long(1).unwrap();
        rows += 1;
        if row.get_string(6).unwrap() == "sys_enter" {
            assert_eq!(row.get_string(7).unwrap(), "write", "{row}");
            calls += 1;
        }
    }
    assert_eq!(calls, 15_000 - missing);
    assert_eq!(events.metadata().file_metadata().num_rows(), rows);
    let coverage = table(&tables, "coverage");
    let rows = coverage.get_row_iter(None).unwrap().map(Result::unwrap);
    let gaps = rows.filter(|row| row.get_string(3).unwrap() == "gap");
    assert_eq!(gaps.map(|row| row.get_long(9).unwrap() as u64).sum::<u64>(), missing);
    let trace = fs::read(outs.path().join("trace.dat")).unwrap();
    assert!(trace.starts_with(b"\x17\x08\x44tracing6\0") && trace.len().is_multiple_of(4096));
}

/// As docs/sql.md lays out a lake; what can't be made is said by its name.
#[test]
fn directories_above_the_tables_are_made() {
    let (_, dir) = recorded();
    let outs = tempfile::tempdir().unwrap();
    let out = outs.path().join("dt=2026-11-25/hour=07/host=web-001");
    let output = export(dir.path(), "parquet", &out, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(table(&out, "events").metadata().file_metadata().num_rows() > 0);
    fs::write(outs.path().join("file"), "").unwrap();
    let output = export(dir.path(), "parquet", &outs.path().join("file/tables"), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("/file/tables"), "{}", stderr(&output));
}

#[test]
fn what_is_no_recording_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broken.flight");
    fs::write(&file, b"nothing of the kind").unwrap();
    for format in FORMATS {
        let out = dir.path().join("out");
        let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
        let output = flightctl(&["export", file, "--all", "--format", format, "-o", out]);
        assert!(!output.status.success(), "{format}: {output:?}");
        assert!(stderr(&output).contains("broken.flight"), "{format}: {}", stderr(&output));
        assert_eq!(added(dir.path(), &["broken.flight".into()]), [""; 0], "{format}");
    }
}

#[test]
fn a_reader_that_leaves_and_a_full_disk() {
    let (_, dir) = recorded();
    let before = added(dir.path(), &[]);
    let store = dir.path().to_str().unwrap();
    let mut child =
        command(&["export", "--all", "--store", store, "--format", "trace.dat", "-o", "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("Broken pipe"), "{}", stderr(&output));
    let output = export(dir.path(), "trace.dat", Path::new("/dev/full"), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("/dev/full: No space left"), "{}", stderr(&output));
    // Tables are files in a directory: no pipe takes them.
    let output = export(dir.path(), "parquet", Path::new("-"), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("name a directory"), "{}", stderr(&output));
    assert_eq!(added(dir.path(), &before), [""; 0]);
}

#[test]
fn tables_have_the_spans_of_threads() {
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let dir = crate::why::marked(true, Some(&format!("traceparent=00-{trace}-{span}-01")));
    let outs = tempfile::tempdir().unwrap();
    let place = ["--runtime-dir", dir.path().to_str().unwrap(), "export", "--all"];
    for (args, told) in [(&["--traces"][..], 5), (&["--trace", trace], 5), (&[], 0)] {
        let out = outs.path().join(told.to_string());
        let to = ["--format", "parquet", "--force", "-o", out.to_str().unwrap()];
        let output = flightctl(&[&place[..], &to, args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let events = table(&out, "events");
        let rows: Vec<_> = events.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let of_trace = |row: &&parquet::record::Row| row.get_string(19).is_ok();
        let found: Vec<_> = rows.iter().filter(of_trace).collect();
        assert_eq!(found.len(), told, "{args:?}: {rows:#?}");
        for row in found {
            let ids = (row.get_string(19).unwrap(), row.get_string(20).unwrap());
            assert_eq!(
                (row.get_int(3).unwrap(), ids),
                (71, (&trace.into(), &span.into())),
                "{row}"
            );
        }
        let calls = table(&out, "calls");
        let rows: Vec<_> = calls.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].get_string(18).ok().map(String::as_str), (told > 0).then_some(span));
    }
}
