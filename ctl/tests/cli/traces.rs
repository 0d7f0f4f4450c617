//! `--traces` and `--trace`: the spans that threads work for, as a mark says.

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{dump, stderr, stdout};
use crate::json::valid;
use crate::why::{marked, recording};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Thread 71 works for a span from 5 ms on; its write waits for 72.
fn traced() -> TempDir {
    marked(true, Some(&format!("traceparent=00-{TRACE}-{SPAN}-01")))
}

fn objects(dir: &TempDir, args: &[&str]) -> Vec<Value> {
    let out = dump(dir.path(), &[&["--all", "--format", "jsonl"], args].concat());
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    valid(&stdout(&out)).split_off(1)
}

fn lines(dir: &TempDir, args: &[&str]) -> Vec<String> {
    let out = dump(dir.path(), &[&["--all"], args].concat());
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let text = stdout(&out);
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn events_have_the_spans_of_their_threads() {
    let dir = traced();
    let all = objects(&dir, &["--traces"]);
    let mut told = 0;
    for object in &all {
        if object["tid"] == 71 {
            assert_eq!((&object["trace_id"], &object["span_id"]), (&TRACE.into(), &SPAN.into()));
            told += 1;
        } else {
            assert!(
                object.get("trace_id").is_none() && object.get("span_id").is_none(),
                "{object}"
            );
        }
    }
    assert_eq!(told, 5, "{all:#?}");
    assert!(all.iter().any(|object| object["event"] == "mark" && object["span_id"] == SPAN));
    assert!(objects(&dir, &[]).iter().all(|object| object.get("trace_id").is_none()));

    let suffix = format!(" {{trace {TRACE} span {SPAN}}}");
    let with: Vec<String> = lines(&dir, &["--traces"]);
    let without: Vec<String> = lines(&dir, &[]);
    assert_eq!(with.len(), without.len());
    for (with, without) in with.iter().zip(&without) {
        let is_of_71 = with.get(22..29).is_some_and(|tid| tid.trim_start().starts_with("71"));
        let is_told = with.strip_suffix(suffix.as_str()) == Some(without);
        assert!(is_told || with == without, "{with}\n{without}");
        // What it comes back to is told by the thread before.
        assert!(!is_told || is_of_71, "{with}");
    }
    assert_eq!(with.iter().filter(|line| line.ends_with(&suffix)).count(), told);
    let merged = lines(&dir, &["--traces", "--merge", "--syscall", "write"]);
    assert!(merged.iter().all(|line| line.ends_with(&suffix)) && !merged.is_empty(), "{merged:?}");
}

#[test]
fn a_trace_is_what_its_threads_and_those_about_them_do() {
    let dir = traced();
    let wanted = objects(&dir, &["--trace", TRACE]);
    let with_71: Vec<Value> = objects(&dir, &["--traces", "--tid", "71"]);
    // The switch to it before the mark is not the span's.
    assert_eq!(wanted[..], with_71[1..], "{wanted:#?}");
    assert!(wanted.iter().any(|object| object["event"] == "waking" && object["tid"] == 72));
    let parent = format!("00-{TRACE}-{SPAN}-01");
    assert_eq!(objects(&dir, &["--trace", &parent]), wanted);
    let both = objects(&dir, &["--trace", &format!("{},{TRACE}", "1".repeat(32))]);
    assert_eq!(both, wanted);
    let calls = objects(&dir, &["--trace", TRACE, "--event", "sys_exit"]);
    assert_eq!((calls.len(), &calls[0]["syscall"]), (1, &"write".into()));
}

#[test]
fn what_no_mark_says_is_not_found() {
    for dir in [recording(true), traced()] {
        let out = dump(dir.path(), &["--all", "--trace", &"1".repeat(32)]);
        assert_eq!(out.status.code(), Some(1), "{}", stdout(&out));
        assert!(stderr(&out).contains("only marks tell"), "{}", stderr(&out));
    }
    let dir = traced();
    for id in ["4bf9", "nothing", &"0".repeat(32)] {
        let out = dump(dir.path(), &["--all", "--trace", id]);
        assert_eq!(out.status.code(), Some(2), "{id}");
        assert!(stderr(&out).contains("32 hexadecimal digits"), "{}", stderr(&out));
    }
}
