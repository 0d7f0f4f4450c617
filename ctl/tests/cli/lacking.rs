//! What the recorded kernel lacks is said by every command that shows or keeps events.

use flightrec_format::abi::page::Lane;
use flightrec_format::control::{Request, Response, Status};
use flightrec_format::meta::{Lacking, Meta, WALK_OF_THREADS, to_json};
use flightrec_reader::pipeline::testing::enter;
use tempfile::TempDir;

use crate::common::{NOW, Recording, SECOND, daemon, flightctl, meta, status, stderr, stdout};

const TOLD: &str = "not recorded on this kernel: migrations (this kernel has no \\33tracepoint)";

/// A daemon on a kernel without migrations, and without names of descriptors, which are no events.
fn recorder() -> TempDir {
    let lacking = |what: &str, kinds: &[&str]| Lacking {
        what: what.into(),
        why: "this kernel has no \x1btracepoint".into(),
        kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
        ..Lacking::default()
    };
    let unseen = Lacking { program: WALK_OF_THREADS.into(), ..lacking("who threads are", &[]) };
    let lacking = vec![lacking("migrations", &["migrate"]), lacking("names", &[]), unseen];
    let meta = to_json(&Meta { lacking, ..meta() }).unwrap();
    let mut recording = Recording::new();
    recording.push(Lane::Syscall, &enter(NOW - SECOND, 0, 5, 39));
    let totals = recording.totals(NOW);
    let status = Status { totals: totals.clone(), ..status() };
    let pages: Vec<u8> = recording.pages().concat().iter().flat_map(|page| **page).collect();
    daemon(move |request| match request {
        Request::Status => vec![Response::Status(Box::new(status.clone()))],
        Request::Since { .. } => vec![Response::End(totals.clone())],
        Request::Pages { .. } => vec![
            Response::Meta(meta.clone()),
            Response::Pages(pages.clone()),
            Response::End(totals.clone()),
        ],
        other => panic!("{other:?}"),
    })
}

/// What is said beside the output.
fn said(args: &[&str]) -> String {
    let daemon = recorder();
    let runtime = ["--runtime-dir", daemon.path().to_str().unwrap()];
    let out = flightctl(&[&runtime[..], args].concat());
    assert!(matches!(out.status.code(), Some(0 | 1)), "{args:?}: {}{}", stdout(&out), stderr(&out));
    stderr(&out)
}

#[test]
fn a_saved_window_says_what_the_kernel_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved.flight");
    let said = said(&["save", "--all", "-o", file.to_str().unwrap()]);
    assert_eq!(said.matches(TOLD).count(), 1, "{said}");
}

#[test]
fn a_follower_says_what_the_kernel_lacks_of_what_it_asks_for() {
    let follow = ["follow", "--for", "100ms", "--interval", "10ms"];
    let one = said(&follow);
    assert_eq!(one.matches(TOLD).count(), 1, "{one}");
    let other = said(&[&follow[..], &["--event", "switch"]].concat());
    assert!(!other.contains("not recorded on this kernel"), "{other}");
    // What is kept says it, too.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("followed.txt");
    said(&[&follow[..], &["-o", file.to_str().unwrap()]].concat());
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.contains(&format!("# {TOLD}\n")), "{kept}");
}

#[test]
fn top_says_what_the_kernel_lacks() {
    for args in [&["top", "--once", "--interval", "100ms"][..], &["top", "--last", "10s"]] {
        let said = said(args);
        assert_eq!(said.matches(TOLD).count(), 1, "{args:?}: {said}");
    }
}

/// Questions about who threads are can't be answered whole; others can.
#[test]
fn who_threads_are_may_not_be_known() {
    let daemon = recorder();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved.flight");
    let file = file.to_str().unwrap();
    let runtime = ["--runtime-dir", daemon.path().to_str().unwrap()];
    let ask = |args: &[&str], of: &[&str]| flightctl(&[of, args].concat());
    assert!(ask(&["save", "--all", "-o", file], &runtime).status.success());
    let unknown = "not known: who threads are (";
    for of in [&runtime[..], &["--state-dir", "/nonexistent"]] {
        let from = if of == runtime { vec![] } else { vec!["--file", file] };
        for (args, is_whole) in [
            (&["dump", "--all", "--strict"][..], true),
            (&["dump", "--all", "--strict", "--tid", "5"], true),
            (&["dump", "--all", "--strict", "--comm", "cron"], false),
            (&["dump", "--all", "--strict", "--pid", "5"], false),
            (&["report", "calls", "--all", "--comm", "cron"], false),
            (&["why", "--all", "--pid", "5"], false),
        ] {
            let out = ask(&[args, &from].concat(), of);
            let said = [stdout(&out), stderr(&out)].concat();
            assert_eq!(said.contains(unknown), !is_whole, "{args:?} {from:?}: {said}");
            if args.contains(&"--strict") {
                assert_eq!(out.status.code() == Some(3), !is_whole, "{args:?} {from:?}: {said}");
            }
        }
    }
}
