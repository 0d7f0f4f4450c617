//! Snapshots that are asked for: the window is whole, floods are refused, limits hold, the hook
//! runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use flightrec_tests::{PATIENCE, Recorder, wait_until};
use serde_json::Value;

use crate::support::{dump, start};

/// A recorder whose triggers are off.
fn quiet(config: &str) -> Recorder {
    let keep_free = if config.contains("[store]") { "" } else { "[store]\nkeep_free = \"0B\"\n" };
    start(&format!("{keep_free}{config}\n[triggers]\nenabled = false\n"))
}

/// The snapshots, newest first.
pub(crate) fn list(recorder: &Recorder) -> Vec<Value> {
    let output = recorder.flightctl(&["snapshots", "--json"]);
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    document["snapshots"].as_array().expect("a list").clone()
}

/// Dumps all of a snapshot, which must be complete.
pub(crate) fn whole(recorder: &Recorder, id: &str, args: &[&str]) -> Vec<crate::support::Line> {
    dump(recorder, &[&["--snapshot", id, "--strict"], args].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

fn take(recorder: &Recorder, args: &[&str]) -> Output {
    recorder.flightctl(&[&["snapshot", "--reason", "a test"], args].concat())
}

/// Takes one, which must succeed; its id.
fn taken(recorder: &Recorder, args: &[&str]) -> String {
    taken_for(recorder, "a test", args)
}

/// Takes one for a reason, which must succeed; its id. On a busy machine it may be finished after
/// `flightctl` has given up waiting for it, and said so.
pub(crate) fn taken_for(recorder: &Recorder, reason: &str, args: &[&str]) -> String {
    let id = |of: &Value| of["id"].as_str().expect("an id").to_owned();
    let is_it = |of: &&Value| of["reason"].as_str().is_some_and(|of| of.contains(reason));
    let known: Vec<String> = list(recorder).iter().map(id).collect();
    let output = recorder.flightctl(&[&["snapshot", "--reason", reason], args].concat());
    if String::from_utf8_lossy(&output.stderr).contains("not finished yet") {
        let new = || list(recorder).iter().filter(is_it).map(id).find(|id| !known.contains(id));
        assert!(wait_until(PATIENCE, || new().is_some()), "{}", recorder.log());
        return new().expect("it was there");
    }
    assert!(output.status.success(), "{output:?}\n{}", recorder.log());
    text(&output.stdout)
}

/// Waits until the recording is older than `seconds`.
fn has_lasted(recorder: &Recorder, seconds: f64) {
    let lasted = || {
        let status = recorder.flightctl(&["status", "--json"]).stdout;
        let status: Value = serde_json::from_slice(&status).expect("JSON");
        status["lanes"]["sched"]["held_seconds"].as_f64() > Some(seconds)
    };
    assert!(wait_until(PATIENCE, lasted), "it does not record");
}

/// `[snapshots] page`: a page stands beside each, is named, and goes with it.
#[test]
fn a_page_stands_beside_its_snapshot() {
    let hook = tempfile::TempDir::new().expect("directory");
    let program = hook.path().join("hook");
    let told = hook.path().join("told");
    fs::write(&program, format!("#!/bin/sh\necho \"$FLIGHTREC_PAGE\" >>{}\n", told.display()))
        .expect("a hook");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("a mode");
    let hook = format!("hook = [\"{}\"]", program.display());
    let recorder = quiet(&format!("[snapshots]\npage = true\nmax_count = 2\n{hook}\n"));
    has_lasted(&recorder, 4.0);
    let first = taken(&recorder, &["--last", "3s"]);
    let page_of = |id: &str| {
        let shown = list(&recorder).into_iter().find(|of| of["id"] == id)?;
        shown["page"].as_str().map(std::path::PathBuf::from)
    };
    assert!(wait_until(PATIENCE, || page_of(&first).is_some()), "{}", recorder.log());
    let page = page_of(&first).expect("a page");
    let html = fs::read_to_string(&page).expect("the page");
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    assert!(html.contains("\"sentence\":\""), "the answer");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("a file").permissions().mode();
    assert_eq!(mode(&page), mode(&page.with_extension("flight")), "the same readers");
    let shown = recorder.flightctl(&["snapshots", "show", &first]).stdout;
    assert!(text(&shown).contains(&format!("page      {}", page.display())));
    let wanted = format!("{}\n", page.display());
    let is_told = || fs::read_to_string(&told).is_ok_and(|told| told == wanted);
    assert!(wait_until(PATIENCE, is_told), "the hook");

    // Of two, requests may be one.
    let second = taken(&recorder, &["--last", "1s"]);
    assert!(wait_until(PATIENCE, || page_of(&second).is_some()), "{}", recorder.log());
    assert!(!page.exists(), "it goes with its snapshot");
    assert_eq!(list(&recorder).len(), 1);
}

#[test]
fn the_window_asked_for_is_the_window_saved() {
    let recorder = quiet("");
    has_lasted(&recorder, 4.0);
    assert!(recorder.flightctl(&["mark", "before"]).status.success());
    let id = taken(&recorder, &["--last", "3s"]);
    assert!(recorder.flightctl(&["mark", "after"]).status.success());
    assert!(
        whole(&recorder, &id, &["--event", "mark"]).iter().any(|line| line.text.contains("before"))
    );
    let marks = dump(&recorder, &["--snapshot", "latest", "--event", "mark", "--all"]);
    assert!(marks.iter().all(|line| !line.text.contains("after")), "{marks:?}");

    let [snapshot] = &list(&recorder)[..] else { panic!("one snapshot") };
    let number = |key: &str| snapshot[key].as_u64().expect("a number");
    assert_eq!(number("until_mono_ns") - number("from_mono_ns"), 3_000_000_000);
    assert_eq!(
        (&snapshot["held_from_mono_ns"], &snapshot["source"]),
        (&snapshot["from_mono_ns"], &Value::from("files"))
    );
    assert_eq!(
        (&snapshot["cause"], &snapshot["reason"]),
        (&Value::from("request"), &Value::from("a test"))
    );
    let path = snapshot["path"].as_str().expect("a path");
    assert_eq!(fs::metadata(path).expect("there").permissions().mode() & 0o777, 0o640);
    let dir = fs::metadata(recorder.sandbox().state_dir().join("snapshots")).expect("there");
    assert_eq!(dir.permissions().mode() & 0o777, 0o750);
    assert!(recorder.flightctl(&["verify", path]).status.success());

    // It is a copy: the history is not told twice, and the list of files does not have it.
    let ls = recorder.flightctl(&["ls", "--json"]);
    assert!(!text(&ls.stdout).contains("/snapshots/"), "{ls:?}");
    let show = recorder.flightctl(&["snapshots", "show", &id]);
    assert!(
        text(&show.stdout).starts_with("request: a test\n")
            && text(&show.stdout).contains("ran the most"),
        "{show:?}"
    );
    let wrong = recorder.flightctl(&["snapshots", "show", "../x"]);
    assert!(text(&wrong.stderr).contains("there is no snapshot \"../x\""), "{wrong:?}");
    // It needs no daemon.
    let mut recorder = recorder;
    recorder.kill();
    whole(&recorder, &id, &["--event", "mark"]);
}

#[test]
fn without_files_it_comes_from_the_rings() {
    let recorder = quiet("[store]\nenabled = false\nkeep_free = \"0B\"\n");
    has_lasted(&recorder, 3.0);
    assert!(recorder.flightctl(&["mark", "here"]).status.success());
    let id = taken(&recorder, &["--last", "2s"]);
    assert_eq!(list(&recorder)[0]["source"], "rings");
    assert_eq!(whole(&recorder, &id, &["--event", "mark"]).len(), 1);
}

#[test]
fn a_flood_of_requests_is_refused_with_the_time_to_come_back() {
    let recorder = quiet("");
    let answers: Vec<Output> = (0..12).map(|_| take(&recorder, &["--last", "1s"])).collect();
    let (taken, refused): (Vec<&Output>, Vec<&Output>) =
        answers.iter().partition(|output| output.status.success());
    assert_eq!((taken.len(), list(&recorder).len()), (5, 5), "{}", recorder.log());
    for output in refused {
        let told = text(&output.stderr);
        assert!(
            output.status.code() == Some(2)
                && told.contains("too many snapshots were requested: try again in "),
            "{told}"
        );
    }
    let too_long = take(&recorder, &["--last", "1h"]);
    assert!(text(&too_long.stderr).contains("reaches back at most 10m"), "{too_long:?}");
}

#[test]
fn what_is_asked_for_takes_half_of_the_room_and_the_oldest_go() {
    let recorder = quiet("[snapshots]\nmax_count = 4\n");
    let ids: Vec<String> = (0..4).map(|_| taken(&recorder, &["--last", "1s"])).collect();
    let held: Vec<Value> =
        list(&recorder).into_iter().map(|snapshot| snapshot["id"].clone()).collect();
    assert_eq!(held, [ids[3].as_str(), ids[2].as_str()]);
}

#[test]
fn switched_off_or_unwritable_it_says_so() {
    let recorder = quiet("[snapshots]\nenabled = false\n");
    let off = take(&recorder, &[]);
    assert!(
        off.status.code() == Some(2)
            && text(&off.stderr).contains("snapshots are off: set enabled = true"),
        "{off:?}"
    );

    let recorder = quiet("");
    fs::write(recorder.sandbox().state_dir().join("snapshots"), "in the way").expect("written");
    let failed = take(&recorder, &["--last", "1s"]);
    assert!(
        failed.status.code() == Some(2) && text(&failed.stderr).contains("could not be taken"),
        "{failed:?}"
    );
    assert!(recorder.flightctl(&["status"]).status.success(), "it goes on recording");
}

#[test]
fn the_hook_is_given_the_file() {
    let copy = tempfile::tempdir().expect("a directory");
    let script = format!(
        "cp \"$FLIGHTREC_SNAPSHOT\" {0}/part && mv {0}/part {0}/$FLIGHTREC_CAUSE.flight",
        copy.path().display()
    );
    let recorder = quiet(&format!("[snapshots]\nhook = [\"/bin/sh\", \"-c\", {script:?}]\n"));
    taken(&recorder, &["--last", "1s"]);
    let copied = copy.path().join("request.flight");
    assert!(wait_until(PATIENCE, || copied.exists()), "{}", recorder.log());
    assert!(
        recorder
            .flightctl_command()
            .arg("verify")
            .arg(&copied)
            .output()
            .expect("run")
            .status
            .success()
    );
}
