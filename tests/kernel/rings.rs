//! Operations of io_uring: of a program that makes no other calls on its file, held against the
//! kernel's own counters.

use std::path::Path;

use flightrec_tests::{PerfStat, Recorder, c_program};
use serde_json::Value;
use tempfile::TempDir;

use crate::json::valid_dump;
use crate::lacking::{btf_without, status};
use crate::support::{dump, run, share_recorder, start};

/// Both kinds, of a process.
fn events(recorder: &Recorder, pid: u32) -> Vec<Value> {
    let args = ["--last", "1h", "--event", "io_submit,io_complete"];
    valid_dump(recorder, &args).into_iter().filter(|event| event["pid"] == pid).collect()
}

/// The program's process, and its events.
fn rings(recorder: &Recorder, dir: &Path, how: &[&str]) -> (u32, Vec<Value>) {
    let dir = dir.to_str().expect("UTF-8");
    let pid = run(&c_program("rings", &[]), &[&[dir], how].concat()).id("pid");
    (pid, events(recorder, pid))
}

/// What each event of a kind says of these fields.
fn of_kind(events: &[Value], kind: &str, fields: &[&str]) -> Vec<String> {
    let of_kind = events.iter().filter(|event| event["event"] == kind);
    let values = |event: &Value| -> Vec<String> {
        fields.iter().map(|field| event[*field].to_string()).collect()
    };
    of_kind.map(|event| values(event).join(" ").replace('"', "")).collect()
}

/// That of each operation both events are there, and one is joined to the other.
fn are_joined(events: &[Value]) {
    let field = |kind: &str, field: &str| of_kind(events, kind, &[field]);
    assert_eq!(field("io_submit", "user_data"), field("io_complete", "user_data"));
    assert_eq!(field("io_submit", "op"), field("io_complete", "op"));
    assert_eq!(field("io_submit", "ring"), field("io_complete", "ring"));
    assert_eq!(field("io_submit", "operation"), field("io_complete", "operation"));
    assert_eq!(field("io_submit", "tid"), field("io_complete", "submitted_by"));
    assert!(
        events
            .iter()
            .filter(|event| event["event"] == "io_complete")
            .all(|event| event["duration_ns"].as_u64().is_some_and(|ns| ns > 0)),
        "{events:#?}"
    );
}

fn a_program_that_uses_a_ring_alone_is_seen(recorder: &Recorder) {
    let dir = TempDir::new().expect("directory");
    let (pid, events) = rings(recorder, dir.path(), &[]);
    let path = format!("{}/by-ring", dir.path().display());
    let to = format!("{}/renamed-by-ring", dir.path().display());
    let submitted = of_kind(&events, "io_submit", &["op", "fd", "path", "file", "submitter"]);
    assert_eq!(
        submitted,
        [
            format!("openat -100 {path} null thread"),
            format!("write 4 null {path} thread"),
            format!("fsync 4 null {path} thread"),
            format!("statx -100 {path} null thread"),
            "openat -100 no/such/file null thread".to_owned(),
            format!("renameat -100 {path} null thread"),
            format!("close 4 null {path} thread"),
            format!("unlinkat -100 {to} null thread"),
        ]
    );
    assert_eq!(of_kind(&events, "io_submit", &["new_path"])[5], to);
    let done = of_kind(&events, "io_complete", &["op", "result", "file"]);
    assert_eq!(
        done,
        [
            format!("openat 4 {path}"),
            format!("write 5 {path}"),
            format!("fsync 0 {path}"),
            "statx 0 null".to_owned(),
            "openat -2 null".to_owned(),
            "renameat 0 null".to_owned(),
            format!("close 0 {path}"),
            "unlinkat 0 null".to_owned(),
        ]
    );
    are_joined(&events);

    // A call on what the ring opened has its name, and none does any more after its closing.
    let mut text = dump(recorder, &["--last", "1h", "--fds", "all"]);
    text.retain(|line| line.tid == pid);
    let has = |part: &str| text.iter().any(|line| line.text.contains(part));
    assert!(has(&format!("pwrite64(4<{path}>, ")), "{text:#?}");
    // The kernel may have made it `async` by itself.
    let open = text.iter().find(|line| line.text.contains(" op=openat fd=AT_FDCWD flags="));
    let open = &open.unwrap_or_else(|| panic!("{text:#?}")).text;
    assert!(open.ends_with(&format!(" submitter=thread path=\"{path}\"")), "{open}");
    // A worker of the kernel may have done it.
    let done = dump(recorder, &["--last", "1h", "--event", "io_complete"]);
    let has = |part: &str| done.iter().any(|line| line.text.contains(part));
    assert!(has(&format!(" made=4<{path}>")), "{done:#?}");
    assert!(has("op=openat result=-2 (ENOENT) "), "{done:#?}");
}

fn a_ring_that_the_kernel_polls_is_seen(recorder: &Recorder) {
    let dir = TempDir::new().expect("directory");
    let (pid, events) = rings(recorder, dir.path(), &["sqpoll"]);
    let path = format!("{}/by-ring", dir.path().display());
    let submitted = of_kind(&events, "io_submit", &["op", "submitter", "path"]);
    assert_eq!(submitted.len(), 8, "{events:#?}");
    assert_eq!(submitted[0], format!("openat sq_thread {path}"));
    let submits = events.iter().filter(|event| event["event"] == "io_submit");
    for event in submits {
        assert_eq!(event["comm"], format!("iou-sqp-{pid}"), "{event:#}");
        assert_ne!(event["tid"], pid, "{event:#}");
    }
    let done = of_kind(&events, "io_complete", &["op", "result", "file"]);
    assert_eq!(done[..2], [format!("openat 4 {path}"), format!("write 5 {path}")]);
    are_joined(&events);
}

fn files_of_the_ring_are_no_descriptors(recorder: &Recorder) {
    let dir = TempDir::new().expect("directory");
    let (_, events) = rings(recorder, dir.path(), &["direct"]);
    // The kernel may make them `async` by itself.
    let submitted = of_kind(&events, "io_submit", &["op", "flags", "file"]);
    let submitted: Vec<String> = submitted.iter().map(|of| of.replace("async|", "")).collect();
    assert_eq!(submitted[..2], ["openat direct null", "write fixed_file null"]);
    let close = submitted.iter().find(|of| of.starts_with("close"));
    assert_eq!(close.expect("its closing"), "close direct null");
    let done = of_kind(&events, "io_complete", &["op", "result", "file"]);
    // Place 0 is not descriptor 0.
    assert_eq!(done[..2], ["openat 0 null", "write 5 null"]);
}

fn as_many_as_the_kernel_counts(recorder: &Recorder) {
    let program = c_program("rings", &[]);
    let submit = ["io_uring_submit_req", "io_uring_submit_sqe"]
        .into_iter()
        .find(|name| Path::new("/sys/kernel/tracing/events/io_uring").join(name).exists())
        .expect("a tracepoint");
    let names = [format!("io_uring:{submit}"), "io_uring:io_uring_complete".to_owned()];
    let mut stat = PerfStat::of(&[&names[0], &names[1]]);
    let printed = stat.run(&program, &["/nonexistent", "many", "1000"]);
    let events = events(recorder, printed["pid"].parse().expect("a number"));
    for (name, kind) in names.iter().zip(["io_submit", "io_complete"]) {
        let recorded = of_kind(&events, kind, &["op"]);
        assert!(recorded.iter().all(|op| op == "nop"), "{kind}");
        assert_eq!(stat.count(name), recorded.len() as u64, "{kind}");
        assert_eq!(recorded.len(), 1000, "{kind}");
    }
    are_joined(&events);
}

#[test]
fn rings_have_a_switch_of_their_own() {
    let dir = TempDir::new().expect("directory");
    let recorder = start("[record]\nio_uring = false\n");
    run(&c_program("rings", &[]), &[dir.path().to_str().expect("UTF-8")]);
    let status = status(&recorder);
    assert_eq!(status["switched_off"], serde_json::json!(["io_uring"]));
    let counted = &status["lanes"]["kernel"]["events"];
    assert_eq!((&counted["io_submit"], &counted["io_complete"]), (&0.into(), &0.into()));

    // Strings have one, too.
    let recorder = start("[record]\nstrings = false\n");
    let (_, events) = rings(&recorder, dir.path(), &[]);
    assert_eq!(of_kind(&events, "io_submit", &["op", "path"])[0], "openat null");
}

#[test]
fn a_kernel_without_the_tracepoints_is_recorded_without_rings() {
    let dir = TempDir::new().expect("directory");
    let btf = btf_without(&["btf_trace_io_uring_submit_req"], dir.path());
    let recorder = start(&format!("[kernel]\nbtf = \"{}\"", btf.display()));
    let (_, events) = rings(&recorder, dir.path(), &[]);
    assert!(of_kind(&events, "io_submit", &["op"]).is_empty(), "{events:#?}");
    assert_eq!(of_kind(&events, "io_complete", &["op", "result"])[0], "openat 4");
    let lacking = status(&recorder)["lacking"].to_string();
    assert_eq!(lacking.matches("\"operations of io_uring\"").count(), 1, "{lacking}");
}

share_recorder!(
    a_program_that_uses_a_ring_alone_is_seen,
    a_ring_that_the_kernel_polls_is_seen,
    files_of_the_ring_are_no_descriptors,
    as_many_as_the_kernel_counts
);
