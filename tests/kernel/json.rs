//! `--format jsonl` and `--merge` on what the kernel really does.

use std::process::{Command, Output, Stdio};

use flightrec_tests::{Recorder, numbered_call};
use nix::unistd::gettid;
use serde_json::Value;

use crate::support::{is_event, is_whole, lines, own, share_recorder, start};

const SCHEMA: &str = include_str!("../../docs/flightctl-dump.schema.json");

/// The events of a dump: each line must be as the published schema says, and the first the
/// coverage.
fn objects(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).expect("UTF-8");
    let schema = serde_json::from_str(SCHEMA).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let parse = |line: &str| -> Value {
        let object = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let wrong: Vec<_> = schema.iter_errors(&object).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:#?}\n{line}");
        object
    };
    let mut all: Vec<Value> = text.lines().map(parse).collect();
    let coverage = all.remove(0);
    assert_eq!(coverage["event"], "coverage", "{coverage}");
    assert_eq!(coverage["lanes"].as_array().map(Vec::len), Some(4), "{coverage}");
    all.retain(is_event);
    all
}

fn dumped(recorder: &Recorder, args: &[&str]) -> Output {
    recorder.flightctl(&[&["dump", "--format", "jsonl"], args].concat())
}

/// The events of a dump, each line of which is as the schema says. There must be some.
pub(crate) fn valid_dump(recorder: &Recorder, args: &[&str]) -> Vec<Value> {
    let output = dumped(recorder, args);
    assert!(is_whole(&output), "{output:?}");
    objects(&output)
}

/// The same where there may be none, or none yet: on a quiet machine nobody else adds any.
pub(crate) fn valid_dump_or_none(recorder: &Recorder, args: &[&str]) -> Vec<Value> {
    let output = dumped(recorder, args);
    let none = String::from_utf8_lossy(&output.stderr).contains("no event matches the filters");
    assert!(is_whole(&output) || output.status.code() == Some(1) && none, "{output:?}");
    objects(&output)
}

/// What the text tells has its object, in the same order.
#[test]
fn text_and_json_tell_the_same() {
    let recorder = start("");
    let status = Command::new("sh")
        .args(["-c", "ls / | wc -l; exit 3"])
        .stdout(Stdio::null())
        .status()
        .expect("sh");
    assert_eq!(status.code(), Some(3));
    let [tree, own] = own();
    let kinds = "fork,exec,exit,sys_enter,sys_exit";
    let last = ["--event", kinds, "--comm", "ls,wc", &tree, &own];
    let text = lines(&recorder.flightctl(&[&["dump", "--last", "1h"], &last[..]].concat()));
    let events = valid_dump(&recorder, &[&["--last", "1h"], &last[..]].concat());
    assert!(events.len() > 50, "{}", events.len());
    assert_eq!(text.len(), events.len());
    for (line, event) in text.iter().zip(&events) {
        assert_eq!(
            (event["cpu"].as_u64(), event["tid"].as_u64()),
            (Some(line.cpu.into()), Some(line.tid.into()))
        );
        assert_eq!(event["comm"], *line.comm);
        let starts = match event["event"].as_str() {
            Some("sys_enter") => format!("{}(", event["syscall"].as_str().expect("a name")),
            Some("sys_exit") => event["syscall"].as_str().expect("a name").to_owned(),
            Some(kind) => format!("({})", kind.to_uppercase()),
            None => panic!("{event}"),
        };
        assert!(line.text.starts_with(&starts), "{line:?} {event}");
        // An exit has arguments in the text only where it needs them.
        let arguments = event["args"].as_array().filter(|_| event["event"] == "sys_enter");
        for argument in arguments.into_iter().flatten() {
            // Names in ASCII are the same in both.
            assert!(
                line.text.contains(argument["text"].as_str().expect("a text")),
                "{line:?} {argument}"
            );
        }
    }
    let exec = events
        .iter()
        .find(|event| event["event"] == "exec" && event["argv"][0] == "ls")
        .expect("ls");
    assert_eq!(exec["argv"], serde_json::json!(["ls", "/"]));
    assert_eq!(exec["new_comm"], "ls");
}

fn a_call_and_its_fields(recorder: &Recorder) {
    numbered_call(0);
    let (tid, pid) = (gettid().as_raw(), std::process::id());
    let (tid_text, all) = (tid.to_string(), ["--last", "1h"]);
    let only = [&all[..], &["--tid", &tid_text, "--syscall", "getpgid"]].concat();
    let of = |args: &[&str]| valid_dump(recorder, &[&only[..], args].concat());
    let [enter, exit] = &of(&[])[..] else { panic!("{:?}", of(&[])) };
    assert_eq!(
        (&enter["event"], &enter["syscall"], &enter["abi"]),
        (&"sys_enter".into(), &"getpgid".into(), &"native".into())
    );
    assert_eq!(
        enter["args"],
        serde_json::json!([{"name":"pid","value":5_000_000,"text":"5000000"}])
    );
    assert_eq!((&enter["tid"], &enter["pid"]), (&tid.into(), &pid.into()));
    assert_eq!((&exit["ret"], &exit["errno"]), (&(-3).into(), &"ESRCH".into()));
    let took = exit["mono_ns"].as_u64().expect("ns") - enter["mono_ns"].as_u64().expect("ns");
    assert_eq!(exit["duration_ns"], took);

    let [merged] = &of(&["--merge"])[..] else { panic!("{:?}", of(&["--merge"])) };
    assert_eq!(merged["event"], "sys_exit");
    assert_eq!((&merged["args"], &merged["entered"]), (&enter["args"], &enter["time"]));
    assert_eq!((&merged["ret"], &merged["mono_ns"]), (&exit["ret"], &exit["mono_ns"]));
    let text = recorder.flightctl(&[&["dump", "--merge"], &only[..]].concat());
    let [line] = &lines(&text)[..] else { panic!("{text:?}") };
    assert!(line.text.starts_with("getpgid(5000000) = -3 ESRCH ("), "{line:?}");
}

/// All that the machine does, in order, each event with what its kind has.
fn the_whole_machine(recorder: &Recorder) {
    let moment = || jiff::Timestamp::now().to_string();
    let since = moment();
    crate::support::run(&flightrec_tests::c_program("pingpong", &[]), &["500", "4"]);
    assert!(recorder.flightctl(&["mark", "a \x1b[31mmark\n"]).status.success());
    let until = moment();
    let window = ["--since", &since, "--until", &until];
    for args in [&window[..], &[&window[..], &["--merge"]].concat()] {
        let events = valid_dump(recorder, args);
        let times: Vec<u64> =
            events.iter().map(|event| event["mono_ns"].as_u64().expect("ns")).collect();
        assert!(times.is_sorted());
        let one = |kind: &str| {
            events
                .iter()
                .find(|event| event["event"] == kind)
                .unwrap_or_else(|| panic!("no {kind} among {}", events.len()))
        };
        assert!(one("switch")["prev_state"].as_str().expect("a state").starts_with("TASK_"));
        assert!(one("waking")["slept_in"].is_string() && one("waking")["wakee_cpu"].is_u64());
        assert!(one("fork")["child_tid"].is_u64());
        assert!(one("exec")["file"].is_string());
        let mark = events
            .iter()
            .find(|event| event["event"] == "mark" && event["by"] == "user")
            .expect("the mark");
        assert_eq!(mark["text"], r"a \33[31mmark\n");
        let merged = events.iter().filter(|event| event.get("entered").is_some()).count();
        assert_eq!(merged > 100, args.contains(&"--merge"), "{merged}");
    }
}

share_recorder!(a_call_and_its_fields, the_whole_machine);
