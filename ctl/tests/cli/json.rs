//! `--format jsonl` and `--merge`, held against the schema that is published.

use std::collections::BTreeSet;

use flightrec_format::abi::kinds::{BODY_MAX, IoSubmit, Kind};
use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::abi::record::sample::UserFrame;
use flightrec_format::abi::record::stack::Status;
use flightrec_format::abi::record::{
    Abi, Act, Comm, Exec, Fork, Rename, StringStatus, TaskExit, WakeContext,
};
use flightrec_format::decode::{Body, Call, Event, Plain, Sample, Stack, Text, Tracepoint};
use flightrec_format::meta::{Lacking, LaneMeta, Meta, SwitchedOff};
use serde_json::{Value, json};

use crate::common::{NOW, Recording, SECOND, dump, meta, stderr, stdout};

const SCHEMA: &str = include_str!("../../../docs/flightctl-dump.schema.json");

/// Reads lines, each of which must be as the schema says.
pub(crate) fn valid(output: &str) -> Vec<Value> {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    output
        .lines()
        .map(|line| {
            let object: Value =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            let wrong: Vec<String> = schema
                .iter_errors(&object)
                .map(|e| format!("{}: {e}", e.instance_path()))
                .collect();
            assert!(wrong.is_empty(), "{wrong:#?}\n{line}");
            object
        })
        .collect()
}

/// The first line, and those of the events.
fn dumped(dir: &tempfile::TempDir, args: &[&str]) -> (Value, Vec<Value>) {
    let out = dump(dir.path(), &[&["--format", "jsonl"], args].concat());
    assert!(matches!(out.status.code(), Some(0 | 1 | 3)), "{}", stderr(&out));
    let mut objects = valid(&stdout(&out));
    let coverage = objects.remove(0);
    assert_eq!(coverage["event"], "coverage");
    assert!(stdout(&out).starts_with(r#"{"event":"coverage","#));
    (coverage, objects)
}

fn call(nr: u16, args: &[u64]) -> Call {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    Call { nr, abi: Abi::Native, nargs: args.len() as u8, args: all, strings: Vec::new() }
}

fn text(index: u8, status: StringStatus, bytes: &[u8]) -> Text {
    Text { index, status, bytes: bytes.into() }
}

fn comm(name: &[u8]) -> Comm {
    std::array::from_fn(|i| name.get(i).copied().unwrap_or(0))
}

const T: u64 = NOW - 5 * SECOND;

/// Every kind of event.
fn every_kind() -> Recording {
    let mut recording = Recording::new();
    let mut time = T;
    let mut push = |lane, cpu, tid, body| {
        time += 1000;
        recording.push(lane, &Event { time, cpu, tid, body });
    };
    let mut open = call(1, &[1, 0x7fff_0000_1000, 3]);
    open.strings.push(text(1, StringStatus::Whole, "grün\n".as_bytes()));
    push(Lane::Syscall, 0, 7, Body::Enter(open));
    push(Lane::Syscall, 0, 7, Body::Exit { call: call(1, &[]), ret: -2, entered: None });
    push(Lane::Syscall, 0, 7, Body::Exit { call: call(39, &[]), ret: 7, entered: None });
    push(Lane::Syscall, 0, 7, Body::Enter(Call { abi: Abi::Compat, ..call(4000, &[1, u64::MAX]) }));
    let (prev_prio, next_prio, preempted) = (120, 255, true);
    push(
        Lane::Sched,
        0,
        0,
        Body::Switch { prev_prio, prev_state: 0, preempted, io_wait: false, next: 7, next_prio },
    );
    push(
        Lane::Sched,
        0,
        7,
        Body::Waking {
            wakee: 8,
            prio: 120,
            state: 0x102,
            cpu: 1,
            new: false,
            context: WakeContext::Thread,
        },
    );
    push(
        Lane::Sched,
        0,
        7,
        Body::Waking {
            wakee: 9,
            prio: 120,
            state: 0,
            cpu: 1,
            new: true,
            context: WakeContext::Thread,
        },
    );
    push(Lane::Sched, 0, 7, Body::Migrate { thread: 8, prio: 49, from: 1, to: 0 });
    for (status, frames) in [(Status::Taken, &[110, 7000][..]), (Status::Refused, &[])] {
        let stack = Stack { slept: Some(5), status, cut: true, frames: frames.into() };
        push(Lane::Sched, 0, 7, Body::Stack(stack));
    }
    for (status, kernel, user) in [
        (Status::Taken, &[110, 7000][..], &[(1, 5), (0, 7), (9, 1)][..]),
        (Status::Refused, &[], &[]),
    ] {
        let user = user.iter().map(|(binary, at)| UserFrame { binary: *binary, at: *at }).collect();
        let sample = Sample {
            user_mode: false,
            status,
            kernel_cut: true,
            user_cut: true,
            kernel: kernel.into(),
            user,
        };
        push(Lane::Kernel, 0, 7, Body::Sample(sample));
    }
    let name = comm(b"web");
    let fork = Fork {
        parent_tid: 7,
        parent_tgid: 7,
        tid: 9,
        tgid: 7,
        start_time: T,
        cgroup: 12,
        comm: name,
        shares: 0,
    };
    push(Lane::Task, 0, 7, Body::Fork(fork));
    let exec = Exec { tid: 7, old_tid: 9, tgid: 7, args_len: 6, cgroup: 12, comm: comm(b"ls") };
    let file = text(0, StringStatus::Ends, ("/.".repeat(64) + "/bin/ls").as_bytes());
    let (file, args) = (file, text(1, StringStatus::Whole, b"ls\0-l\0"));
    push(Lane::Task, 0, 7, Body::Exec { exec, file: Some(file), args: Some(args) });
    push(
        Lane::Task,
        0,
        7,
        Body::Rename(Rename { tid: 7, tgid: 7, old: comm(b"ls"), new: comm(b"\xff") }),
    );
    let exit =
        |code| TaskExit { tid: 7, tgid: 7, code, left: 0, start_time: 0, comm: comm(b"\xff") };
    push(Lane::Task, 0, 7, Body::TaskExit(exit(1 << 8)));
    push(Lane::Task, 0, 8, Body::TaskExit(TaskExit { tid: 8, ..exit(0x8b) }));
    push(Lane::Task, 0, 7, Body::Mark(text(0, StringStatus::Whole, b"lunch")));
    push(
        Lane::Task,
        0,
        0,
        Body::Act(Act::Start as u16, text(0, StringStatus::Whole, b"recording starts")),
    );
    push(Lane::Task, 0, 0, Body::Act(Act::Level as u16, text(0, StringStatus::Cut, b"level 2")));
    // Joined to the result that follows.
    let ones = 0x0101_0101;
    let submit = IoSubmit {
        ring: ones,
        operation: ones,
        user_data: 0x0101_0101_0101_0101,
        op: 23,
        fd: 3,
        flags: 0,
        submitter: 0,
    };
    let paths = vec![
        text(0, StringStatus::Ends, ("/.".repeat(64) + "/bin/ls").as_bytes()),
        text(1, StringStatus::Unreadable, b""),
    ];
    push(Lane::Kernel, 0, 7, Body::IoSubmit { submit, paths });
    // Of none that the recording describes.
    let (bytes, context) = ([1; 8].into(), WakeContext::Softirq);
    let tracepoint = Tracepoint { id: 9, context, bytes, cut: true, stack: None };
    push(Lane::Kernel, 0, 7, Body::Tracepoint(tracepoint));
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_plain()) {
        let plain = Plain::read(kind, &[1; BODY_MAX]).unwrap();
        push(kind.lane(), 0, plain.thread().unwrap_or(7), Body::Plain(plain));
    }
    recording
}

#[test]
fn every_kind_is_as_the_schema_says() {
    let dir = every_kind().serve();
    let (coverage, events) = dumped(&dir, &[]);
    let kinds: BTreeSet<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    // The recorder's own events are lines of these names.
    let others = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Recorder).map(Kind::name);
    assert_eq!(kinds, others.chain(["level"]).collect());
    assert_eq!((&coverage["complete"], &coverage["cpus"]), (&json!(true), &json!([0, 1])));
    assert_eq!(coverage["until"], "2026-01-01T00:02:00.000000000Z");
    assert_eq!(coverage["until_mono_ns"], NOW);
    let times: Vec<u64> = events.iter().map(|event| event["mono_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted());
    assert_eq!(events[0]["time"], "2026-01-01T00:01:55.000001000Z");
    let compat = events.iter().find(|event| event["abi"] == "compat").unwrap();
    assert_eq!((&compat["nr"], &compat["args"][1]["name"]), (&json!(4000), &json!("arg1")));
}

/// The schema says no to what is none of this output; else it would hold nothing.
#[test]
fn the_schema_can_fail() {
    let schema = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let dir = every_kind().serve();
    let (coverage, events) = dumped(&dir, &[]);
    for good in [&[coverage], &events[..]].concat() {
        let fields = good.as_object().unwrap();
        for field in fields.keys().filter(|field| !["errno", "duration_ns"].contains(&&***field)) {
            let mut less = fields.clone();
            less.remove(field);
            let unknown = ["queue_ns", "service_ns", "issued_by", "depth"].contains(&&**field);
            let optional = ["file_cut", "file_end", "text_cut", "argv_cut"];
            let of_rings = ["path", "path_cut", "path_end", "new_path", "file"];
            let of_kind = match good["event"].as_str() {
                Some("io_submit") => of_rings.contains(&&**field),
                Some("io_complete") => ["submitted_by", "fd", "file"].contains(&&**field),
                Some("tracepoint") => field == "cut",
                _ => false,
            };
            let optional = optional.contains(&&**field)
                || of_kind
                || field.ends_with("stack_cut")
                || unknown
                || field == "stack_missing"
                || (field == "args" && good["event"] == "sys_exit");
            assert_eq!(schema.is_valid(&less.into()), optional, "without {field}: {good}");
            let mut other = fields.clone();
            other.insert(field.clone(), json!({"odd": [[]]}));
            assert!(!schema.is_valid(&other.into()), "{field} may be anything: {good}");
        }
        let mut more = fields.clone();
        more.insert("more".into(), json!(1));
        assert!(!schema.is_valid(&more.into()), "{good}");
    }
}

/// What was given up, and when calls were detached.
#[test]
fn what_was_given_up_is_as_the_schema_says() {
    let mut recording = Recording::new();
    let act = |time, act: Act| {
        let body = Body::Act(act as u16, text(0, StringStatus::Whole, b"system calls"));
        Event { time, cpu: 0, tid: 0, body }
    };
    let open = call(257, &[libc::AT_FDCWD as u64, 0x7fff_0000_1000, 3]);
    recording.push(Lane::Syscall, &Event { time: T, cpu: 0, tid: 7, body: Body::Enter(open) });
    recording.push(Lane::Task, &act(T + SECOND, Act::Detached));
    recording.push(Lane::Task, &act(T + 2 * SECOND, Act::Attached));
    let dir = recording.serve();
    let (coverage, events) = dumped(&dir, &["--path", "/x"]);
    assert_eq!(coverage["complete"], false);
    let undecided = coverage["undecided"].as_array().unwrap();
    assert_eq!(undecided.len(), 1, "{coverage}");
    let row = &undecided[0];
    assert_eq!(
        (&row["cpu"], &row["missing"], &row["events"]),
        (&json!(0), &json!("paths"), &json!(1))
    );
    assert_eq!((&row["from_mono_ns"], &row["until_mono_ns"]), (&json!(T), &json!(T)));
    let detached = &coverage["detached"][0];
    assert_eq!(
        (&detached["from_mono_ns"], &detached["until_mono_ns"]),
        (&json!(T + SECOND), &json!(T + 2 * SECOND))
    );
    let kinds: Vec<&Value> = events.iter().map(|event| &event["event"]).collect();
    assert_eq!(kinds, ["level", "level"], "the recorder's own lines");
    let out = dump(dir.path(), &["--path", "/x", "--strict"]);
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
}

#[test]
fn what_the_kernel_lacked_is_as_the_schema_says() {
    let lacking = Lacking {
        program: "sched_migrate_task".into(),
        what: "migrations".into(),
        kinds: vec!["migrate".into()],
        why: "this kernel has no tracepoint sched:sched_migrate_task\u{1b}".into(),
    };
    let dir = every_kind().serve_as(&Meta { lacking: vec![lacking], ..meta() });
    let (coverage, _) = dumped(&dir, &["--event", "migrate"]);
    let want = json!([{
        "what": "migrations",
        "kinds": ["migrate"],
        "why": "this kernel has no tracepoint sched:sched_migrate_task\\33"
    }]);
    assert_eq!(coverage["lacking"], want);
    let line = "not recorded on this kernel: migrations (this kernel has no tracepoint \
                sched:sched_migrate_task\\33)\n";
    let out = dump(dir.path(), &[]);
    assert_eq!(stdout(&out).matches(&format!("# {line}")).count(), 1, "{}", stdout(&out));
    assert_eq!(stderr(&out).matches(line).count(), 1, "{}", stderr(&out));
    // Who asks for something else is not told.
    assert_eq!(dumped(&dir, &["--event", "switch"]).0.get("lacking"), None);
    assert!(!stdout(&dump(dir.path(), &["--errors"])).contains("not recorded on this kernel"));
}

/// Of a lane that is off as a whole the lane is told, of others the key.
#[test]
fn what_the_configuration_leaves_out_is_as_the_schema_says() {
    let off = |key: &str, kinds: &[&str]| SwitchedOff {
        key: key.into(),
        kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
    };
    let switched_off = vec![
        off("signals", &["signal_deliver", "signal_generate"]),
        off("disk", &["block_issue"]),
        off("later\u{1b}", &["of_later"]),
    ];
    let mut meta = Meta { switched_off, ..meta() };
    let lane = meta.lanes.get(Lane::Kernel as u8).unwrap().clone();
    meta.lanes.set(LaneMeta { off: true, ..lane });
    let dir = every_kind().serve_as(&meta);
    let (coverage, _) = dumped(&dir, &["--event", "migrate"]);
    let want = json!([
        { "key": "signals", "kinds": ["signal_deliver", "signal_generate"] },
        { "key": "disk", "kinds": ["block_issue"] },
        { "key": "later\\33", "kinds": ["of_later"] },
    ]);
    assert_eq!(coverage["switched_off"], want);
    let said = stdout(&dump(dir.path(), &[]));
    let lines = [
        "# lane kernel: not recorded (off in the configuration)\n",
        "# not recorded (off in the configuration): signals (signal_deliver, \
         signal_generate); later\\33 (of_later)\n",
    ];
    for line in lines {
        assert_eq!(said.matches(line).count(), 1, "{said}");
    }
}

/// A flood of calls on CPU 0, one event refused in its middle.
fn flood() -> Recording {
    let mut recording = Recording::new();
    for i in 0..5000 {
        let time = T + i * 10_000;
        if i == 4500 {
            recording.ring(Lane::Syscall, 0).refuse(Refusal::Throttled);
        }
        recording
            .push(Lane::Syscall, &Event { time, cpu: 0, tid: 7, body: Body::Enter(call(39, &[])) });
        let body = Body::Exit { call: call(39, &[]), ret: 7, entered: Some(time) };
        recording.push(Lane::Syscall, &Event { time: time + 160, cpu: 0, tid: 7, body });
    }
    recording
}

#[test]
fn gaps_are_objects_where_they_fall() {
    let mut recording = flood();
    recording.drop_pages = 3;
    let dir = recording.serve();
    let (coverage, events) = dumped(&dir, &["--strict"]);
    assert_eq!(coverage["complete"], false);
    let places: Vec<usize> = events
        .iter()
        .enumerate()
        .filter(|(_, event)| event["event"] == "gap")
        .map(|(at, _)| at)
        .collect();
    let [first, second] = places[..] else { panic!("{places:?}") };
    let (overwritten, refused) = (&events[first], &events[second]);
    let shown = events.len() as u64 - 2;
    assert_eq!(
        (first, &overwritten["reason"], &overwritten["missing"]),
        (0, &json!("overwritten"), &json!(10_000 - shown))
    );
    let half = json!((10_000 - shown) / 2);
    assert_eq!(overwritten["lost"], json!({"sys_enter": half, "sys_exit": half}));
    assert_eq!(
        (&refused["reason"], &refused["refused"]),
        (&json!("refused"), &json!({"throttled": 1}))
    );
    assert!(
        second > 1 && second < events.len() - 1,
        "the refused one is at {second} of {}",
        events.len()
    );
    assert_eq!(coverage["refused"]["throttled"], json!({"syscall": 1}));
    assert_eq!(coverage["gaps"].as_array().map(Vec::len), Some(2));
    let times: Vec<u64> = events.iter().map(|event| event["mono_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted());
    // Whatever the filter, and nothing in the window but gaps is still nothing.
    let (_, filtered) = dumped(&dir, &["--event", "mark"]);
    assert_eq!(filtered.iter().filter(|event| event["event"] == "gap").count(), filtered.len());
    assert_eq!(dump(dir.path(), &["--format", "jsonl", "--event", "mark"]).status.code(), Some(1));
}

#[test]
fn merged_calls_are_one() {
    let dir = every_kind().serve();
    // The recorder's own line about what is recorded is there whatever is asked for.
    let calls_alone = |(_, mut events): (Value, Vec<Value>)| {
        assert_eq!(events.pop().map(|event| event["event"].clone()), Some(json!("level")));
        events
    };
    let calls = calls_alone(dumped(&dir, &["--merge", "--event", "sys_enter,sys_exit"]));
    let [write, getpid, open] = &calls[..] else { panic!("{calls:#?}") };
    assert_eq!((&write["event"], &write["ret"]), (&json!("sys_exit"), &json!(-2)));
    assert_eq!(
        (&write["duration_ns"], &write["entered_mono_ns"]),
        (&json!(1000), &json!(T + 1000))
    );
    assert_eq!(write["args"].as_array().map(Vec::len), Some(3));
    assert_eq!(getpid.get("entered"), None, "its entry was not recorded");
    assert_eq!(open["event"], "sys_enter", "it has not come back");

    // Where entries are not wanted, their exits are as whole.
    let exits = calls_alone(dumped(&dir, &["--merge", "--event", "sys_exit"]));
    assert_eq!(exits[..], calls[..2]);

    let out = dump(dir.path(), &["--merge", "--event", "sys_enter,sys_exit"]);
    let text = stdout(&out);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines[0].starts_with("00:01:55.000001 "), "{text}");
    assert!(lines[0].ends_with(r#"write(1, "gr\303\274n\n", 3) = -2 ENOENT (1.0 us)"#), "{text}");
    assert!(lines[1].ends_with("getpid <-- 7") && lines[2].ends_with("-->"), "{text}");
    assert!(lines[3].contains("(RECORDER) level 2"), "{text}");
    assert_eq!(lines.len(), 4);
}

#[test]
fn a_wakeup_within_a_call_parts_it() {
    let mut recording = Recording::new();
    let mut push =
        |lane, time, tid, body| recording.push(lane, &Event { time: T + time, cpu: 0, tid, body });
    push(Lane::Syscall, 0, 7, Body::Enter(call(1, &[1, 2, 3])));
    push(
        Lane::Sched,
        10,
        7,
        Body::Waking {
            wakee: 8,
            prio: 120,
            state: 1,
            cpu: 1,
            new: false,
            context: WakeContext::Thread,
        },
    );
    push(Lane::Syscall, 20, 7, Body::Exit { call: call(1, &[]), ret: 3, entered: None });
    let dir = recording.serve();
    let kinds = |args: &[&str]| -> Vec<Value> {
        dumped(&dir, &[&["--merge"], args].concat())
            .1
            .iter()
            .map(|event| event["event"].clone())
            .collect()
    };
    assert_eq!(kinds(&[]), ["sys_enter", "waking", "sys_exit"]);
    assert_eq!(kinds(&["--syscall", "write"]), ["sys_exit"]);
}

/// Names that try everything: control characters, terminal escapes, newlines, quotes, and bytes
/// that are no UTF-8.
fn hostile(n: u64) -> Vec<u8> {
    const PARTS: [&[u8]; 16] = [
        b"\x1b[2J",
        b"\n",
        b"\r\n",
        b"\xff\xfe",
        b"\"",
        b"\\",
        b"\x07",
        b"\xc2\x9b31m",
        b"\xe2\x80\xae",
        b"\xed\xa0\x80",
        b"\x7f",
        b"\xc3",
        "ü日🦀".as_bytes(),
        b"},{\"event\":\"mark\"",
        b"\\u0000",
        b"\x1b]0;owned\x07",
    ];
    let mut random = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut name = Vec::new();
    while name.len() < 12 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        match random % 3 {
            0 => name.push((random >> 32) as u8),
            1 => name.extend_from_slice(PARTS[(random >> 32) as usize % PARTS.len()]),
            _ => name.extend_from_slice(n.to_string().as_bytes()),
        }
    }
    name.retain(|byte| *byte != 0);
    name
}

/// What the notation of names means.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match rest.next().unwrap() {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'v' => out.push(0x0b),
            b'f' => out.push(0x0c),
            digit @ b'0'..=b'7' => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(next) = rest.next_if(|b| (b'0'..=b'7').contains(b)) else { break };
                    value = value * 8 + u32::from(next - b'0');
                }
                out.push(u8::try_from(value).unwrap());
            }
            other => out.push(other),
        }
    }
    out
}

#[test]
fn a_thousand_hostile_names() {
    const NAMES: u64 = 1000;
    let mut recording = Recording::new();
    let mut old = comm(b"innocent");
    for n in 0..NAMES {
        let name = hostile(n);
        let mut push = |lane, time, body| {
            recording.push(lane, &Event { time: T + n * 10_000 + time, cpu: 0, tid: 7, body });
        };
        let new = comm(&name[..name.len().min(15)]);
        push(Lane::Task, 0, Body::Rename(Rename { tid: 7, tgid: 7, old, new }));
        old = new;
        let mut open = call(1, &[1, 0x7fff_0000_1000, 3]);
        open.strings.push(text(1, StringStatus::Whole, &name));
        push(Lane::Syscall, 1000, Body::Enter(open));
        push(Lane::Syscall, 2000, Body::Exit { call: call(1, &[]), ret: 3, entered: None });
        push(Lane::Task, 3000, Body::Mark(text(0, StringStatus::Whole, &name)));
    }
    let dir = recording.serve();
    for args in [&["--event", "sys_enter,rename,mark"][..], &["--merge"]] {
        let (_, events) = dumped(&dir, args);
        let of = |kind| events.iter().filter(move |event: &&Value| event["event"] == kind);
        let calls = if args[0] == "--merge" { "sys_exit" } else { "sys_enter" };
        assert_eq!(of(calls).count() as u64, NAMES);
        for (n, ((renamed, call), mark)) in (0..).zip(of("rename").zip(of(calls)).zip(of("mark"))) {
            let name = hostile(n);
            let (string, short) =
                (|value: &Value| value.as_str().unwrap().to_owned(), &name[..name.len().min(15)]);
            assert_eq!(unescape(&string(&renamed["new_comm"])), short);
            assert_eq!(unescape(&string(&call["comm"])), short);
            assert_eq!(unescape(&string(&mark["text"])), name);
            let path = string(&call["args"][1]["text"]);
            assert_eq!(unescape(path.strip_prefix('"').unwrap().strip_suffix('"').unwrap()), name);
            for text in [renamed, call, mark] {
                assert!(!text.to_string().chars().any(char::is_control));
            }
        }
    }
    for args in [&[][..], &["--merge"]] {
        let out = dump(dir.path(), args);
        let raw = out.stdout.iter().filter(|b| **b != b'\n').find(|b| !(b' '..=b'~').contains(*b));
        assert_eq!(raw, None, "a raw byte in the text");
        let lines = stdout(&out).lines().filter(|line| !line.starts_with('#')).count() as u64;
        assert_eq!(lines, if args.is_empty() { 4 * NAMES } else { 3 * NAMES });
    }
}
