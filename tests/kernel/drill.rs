//! `flightctl drill`.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use flightrec_tests::{BpfObject, Recorder, Sandbox, bin_dir, bpf_objects, bpf_objects_left};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::support::start;

fn drill(recorder: &Recorder, args: &[&str]) -> (Output, String, String) {
    let output = recorder.flightctl(&[&["drill"], args].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    (output, said, errors)
}

#[test]
fn the_recorder_finds_the_cause_and_nothing_stays() {
    let recorder = start("");
    let parent = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = parent.path().to_str().unwrap();
    let (output, said, errors) = drill(&recorder, &["--dir", dir]);
    assert_eq!(output.status.code(), Some(0), "{said}{errors}");
    let answer = said.split_once("--last 10s\n").unwrap().1;
    let sentence = answer.lines().next().unwrap();
    assert!(sentence.contains("drill-waiter"), "{said}");
    assert!(answer.contains("drill-holder") && answer.contains("futex"), "{said}");
    assert!(said.ends_with("The recorder found the cause.\n"), "{said}");
    assert!(errors.contains("coverage: "), "{errors}");
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    let marks = recorder.flightctl(&["dump", "--last", "1h", "--event", "mark"]);
    let marks = String::from_utf8_lossy(&marks.stdout).into_owned();
    assert!(marks.contains("flightctl drill: an incident made on purpose"), "{marks}");
}

/// As on a machine on which flightrec was only installed: its /run is empty.
#[test]
fn without_a_recorder_the_drill_has_one_of_its_own() {
    let sandbox = Sandbox::new().unwrap();
    let none: Option<&str> = None;
    mount(Some("none"), "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
    let before: Vec<u32> = bpf_objects().unwrap().iter().map(|object| object.id).collect();
    let output = Command::new(bin_dir().join("flightctl")).arg("drill").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}{errors}");
    assert!(said.starts_with("No recorder runs here: this one is for the drill alone"), "{said}");
    assert!(said.ends_with("The recorder found the cause.\n"), "{said}");
    assert_eq!(fs::read_dir("/run").unwrap().count(), 0);
    assert!(bpf_objects_left(&loaded(&before)).is_empty());
    umount2("/run", MntFlags::MNT_DETACH).unwrap();
    drop(sandbox);
}

/// What is loaded of ours and was not before; systemd's objects come and go with its units.
fn loaded(before: &[u32]) -> Vec<BpfObject> {
    let mut objects = bpf_objects().unwrap();
    objects.retain(|object| !before.contains(&object.id) && !object.name.starts_with("sd_"));
    objects
}

/// Nobody else may: not without a recorder that runs.
#[test]
fn a_drill_without_a_recorder_needs_root() {
    let sandbox = Sandbox::new().unwrap();
    let none: Option<&str> = None;
    mount(Some("none"), "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
    let output = Command::new(bin_dir().join("flightctl")).arg("drill").uid(65534).output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{errors}");
    assert!(errors.contains("or run the drill as root"), "{errors}");
    umount2("/run", MntFlags::MNT_DETACH).unwrap();
    drop(sandbox);
}

/// Without scheduling nothing tells who waited for whom.
#[test]
fn a_cause_that_is_not_found_is_no_success() {
    let recorder = start("[record]\nsched = false");
    let (output, said, errors) = drill(&recorder, &["--hold", "50ms"]);
    assert_eq!(output.status.code(), Some(1), "{said}{errors}");
    assert!(said.contains("The recorder did not find the cause"), "{said}");
}

#[test]
fn what_is_wrong_is_said() {
    let mut recorder = start("");
    let (output, said, errors) = drill(&recorder, &["--dir", "/nowhere"]);
    assert_eq!((output.status.code(), said.as_str()), (Some(2), ""), "{errors}");
    assert!(errors.contains("/nowhere: name another directory with --dir"), "{errors}");
    let (output, _, errors) = drill(&recorder, &["--hold", "1h"]);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("--hold 1h: from 50ms to 5s"), "{errors}");

    recorder.terminate().unwrap();
    let (output, said, errors) = drill(&recorder, &[]);
    assert_eq!((output.status.code(), said.as_str()), (Some(2), ""), "{errors}");
    assert!(errors.contains("the drill needs a running recorder"), "{errors}");
}
