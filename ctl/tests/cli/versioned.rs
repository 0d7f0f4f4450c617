//! Every JSON output has its version, and its fields are those that the documentation names.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use flightrec_format::control::{Request, Response};
use flightrec_format::meta::to_json;
use flightrec_store::snapshot::{
    About, Culprit, Failure, Hog, Involved, Summary, Thread, Wait, Why, WhyLink, WhyThread,
};
use flightrec_vmcore::synthetic;
use serde_json::Value;

use crate::common::{
    NOW, Recording, SECOND, SESSION, WALL, daemon, flightctl, meta, status, stderr, stdout,
};
use crate::disk::recorded;
use crate::everyday::text;
use crate::snapshots::{about, snapshot};
use crate::vmcore::{file, image, pages_with_request};

const FIELDS: &str = include_str!("../../../docs/json.md");
const STATUS: &str = include_str!("../../../docs/status.md");

/// The first object of an output.
fn first(out: &Output) -> Value {
    assert!(matches!(out.status.code(), Some(0 | 1)), "{}", stderr(out));
    let first = serde_json::Deserializer::from_slice(&out.stdout).into_iter().next();
    let first: Value = first.unwrap().unwrap_or_else(|e| panic!("{e}: {}", stdout(out)));
    assert_eq!(first["schema_version"], 1, "{first}");
    // Nothing is said twice, which the parser would not mind.
    let (keys, named) = (first.as_object().unwrap().keys(), stdout(out));
    for key in keys {
        let top = named.matches(&format!("\n  \"{key}\":")).count();
        assert!(top <= 1, "{key} stands there {top} times: {named}");
    }
    first
}

fn of(args: &[&str]) -> Value {
    first(&flightctl(args))
}

/// A daemon that records nothing more, for who follows it.
fn followed() -> tempfile::TempDir {
    let mut recording = Recording::new();
    let totals = recording.totals(NOW);
    let meta = to_json(&meta()).unwrap();
    let pages: Vec<u8> = recording.pages().concat().iter().flat_map(|page| **page).collect();
    daemon(move |request| match request {
        Request::Status => vec![Response::Status(Box::new(status()))],
        Request::Since { .. } => vec![Response::End(totals.clone())],
        _ => vec![
            Response::Meta(meta.clone()),
            Response::Pages(pages.clone()),
            Response::End(totals.clone()),
        ],
    })
}

/// The part of a page below a heading, up to the next.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, after) = page.split_once(&format!("\n## `flightctl {heading}`\n")).expect(heading);
    after.split("\n## ").next().unwrap()
}

/// The words in backticks of a text.
fn words(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// All paths in an object, and those of them that hold a value.
fn paths(value: &Value, path: &str, all: &mut BTreeSet<String>, leaves: &mut BTreeSet<String>) {
    if !path.is_empty() {
        all.insert(path.to_owned());
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                // The kernel's release, a string, is no lane's.
                let is_lane = ["syscall", "sched", "task", "kernel"].contains(&&**name);
                let name = if is_lane && !value.is_string() { "LANE" } else { &**name };
                // Threads look the same wherever they stand.
                let path = match path.rsplit('.').next() {
                    Some("thread" | "waker") => format!("THREAD.{name}"),
                    Some("") => name.to_owned(),
                    _ => format!("{path}.{name}"),
                };
                paths(value, &path, all, leaves);
            }
        }
        Value::Array(values) => {
            for value in values {
                paths(value, &format!("{path}[]"), all, leaves);
            }
            if values.is_empty() {
                all.insert(format!("{path}[]"));
            }
        }
        _ => _ = leaves.insert(path.to_owned()),
    }
}

/// The fields of some objects are those of a section of the page.
fn documented(heading: &str, objects: &[Value]) {
    let (mut all, mut leaves) = (BTreeSet::new(), BTreeSet::new());
    for object in objects {
        paths(object, "", &mut all, &mut leaves);
    }
    let rows = section(FIELDS, heading).lines().filter_map(|line| line.strip_prefix("| `"));
    let mut named = BTreeSet::new();
    for row in rows {
        let (fields, meaning) = row.split_once(" | ").unwrap();
        // The first backtick is off.
        for field in fields.split('`').step_by(2).filter(|field| !field.is_empty()) {
            assert!(
                all.contains(field) || meaning.contains("absent"),
                "{heading}: docs/json.md has {field}, the output has {all:#?}"
            );
            named.insert(field);
        }
    }
    for leaf in &leaves {
        let known = named.contains(&**leaf);
        assert!(known, "{heading}: {leaf} is not in docs/json.md");
    }
}

/// A snapshot with all that one may have.
fn everything() -> About {
    let thread = || Thread { tid: 7, tgid: 7, name: "web".into() };
    let summary = Summary {
        notes: vec!["a note".into()],
        why: Some(Why {
            sentence: "it waited".into(),
            chain: vec![WhyLink { doubt: Some("a doubt".into()), ..WhyLink::default() }],
            culprits: vec![Culprit { thread: Some(WhyThread::default()), ..Culprit::default() }],
            doubts: vec!["a doubt".into()],
            complete: true,
        }),
        involved: vec![Involved { thread: thread(), ..Involved::default() }],
        waits: vec![Wait { thread: thread(), waker: Some(thread()), ..Wait::default() }],
        hogs: vec![Hog { thread: thread(), ns: 1 }],
        failures: vec![Failure { thread: thread(), ..Failure::default() }],
        ..Summary::default()
    };
    About { threads: vec![7], stretches: vec![(1, 2), (3, 4)], summary, ..about("web died") }
}

#[test]
fn of_the_recorder() {
    let daemon = Recording::new().serve();
    let runtime = ["--runtime-dir", text(&daemon)];
    let of = |args: &[&str]| of(&[&runtime[..], args].concat());
    for command in ["status", "budget"] {
        let object = of(&[command, "--json"]);
        let heading = if command == "status" { "status --json" } else { command };
        let words = words(section(STATUS, heading));
        for field in object.as_object().unwrap().keys() {
            let known = |word: &&str| word.split(['.', '[']).next() == Some(&**field);
            assert!(words.iter().any(known), "{field} is not in docs/status.md, {heading}");
        }
    }
    assert_eq!(of(&["ps", "--json"])["threads"], Value::Array(Vec::new()));
    documented("doctor --json", &[of(&["doctor", "--json"])]);
    assert_eq!(of(&["dump", "--format", "jsonl"])["event"], "coverage");
}

#[test]
fn of_what_is_followed() {
    let daemon = followed();
    let follow = ["follow", "--for", "100ms", "--interval", "10ms", "--format", "jsonl"];
    let out = flightctl(&[&["--runtime-dir", text(&daemon)], &follow[..]].concat());
    assert_eq!(out.status.code(), Some(1), "no event: {}", stderr(&out));
    let objects = crate::json::valid(&stdout(&out));
    assert_eq!(objects[0], first(&out));
    let [following] = &objects[..] else { panic!("{objects:?}") };
    assert!(stdout(&out).starts_with(r#"{"event":"following","schema_version":1,"session":""#));
    assert_eq!(following["session"], format!("{SESSION:016x}"));
    let from: jiff::Timestamp = following["from"].as_str().unwrap().parse().unwrap();
    let mono = following["from_mono_ns"].as_u64().unwrap();
    assert_eq!(from.as_nanosecond(), i128::from(WALL + mono));
}

#[test]
fn of_files() {
    let (_recording, dir) = recorded();
    snapshot(dir.path(), "20260101T000158Z-core-dump", &everything());
    let state = ["--runtime-dir", "/nonexistent", "--state-dir", text(&dir)];
    let of = |args: &[&str]| of(&[&state[..], args].concat());
    documented("ls --json", &[of(&["ls", "--json"])]);
    let list = of(&["snapshots", "--json"]);
    documented("snapshots --json", std::slice::from_ref(&list));
    let mut shown = of(&["snapshots", "show", "latest", "--json"]);
    assert_eq!(shown["time"], "2026-01-01T00:01:59Z");
    assert_eq!(shown["mono_ns"], NOW - SECOND);
    shown.as_object_mut().unwrap().remove("schema_version");
    assert_eq!(shown, list["snapshots"][0]);
    let store = ["dump", "--store", text(&dir), "--format", "jsonl"];
    documented(
        "dump --list-boots --format jsonl",
        &[of(&[&store[..], &["--list-boots"]].concat())],
    );
    assert_eq!(of(&store)["event"], "coverage");
}

#[test]
fn of_kernel_dumps() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &synthetic::elf(&image(&pages_with_request()), 0));
    let of = |args: &[&str]| of(&[args, &["--vmcore", text::<Path>(&path)]].concat());
    let json = ["dump", "--format", "jsonl"];
    documented("ps --json", &[of(&["ps", "--json"]), of(&[&json[..], &["--in-flight"]].concat())]);
    documented(
        "dump --vmcore FILE --list-sessions --format jsonl",
        &[of(&[&json[..], &["--list-sessions"]].concat())],
    );
    assert_eq!(of(&json)["event"], "coverage");
}
