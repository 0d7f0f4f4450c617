//! Recordings that a process made up, in dumps that were not filtered: copies of real pages with
//! other words in them, of a recording that says that it began a nanosecond after the real one.

use std::path::{Path, PathBuf};

use flightrec_format::abi::page::MAGIC;
use flightrec_format::identity::public_id;
use flightrec_format::meta::Meta;
use flightrec_vmcore::synthetic;
use tempfile::TempDir;

use super::common::{BOOT_ID, SESSION, STARTED, flightctl, meta, stderr, stdout};
use super::vmcore::{
    Bytes, SECRET_FORGED, described, died_while_recording, dump, file, image, pages, text,
};

fn hex(session: u64) -> String {
    format!("{session:016x}")
}

/// The pages with other words, of a session that claims to have begun last.
fn forged_from(real: &[Bytes], session: u64) -> Vec<Bytes> {
    let forged = Meta { session, started: STARTED + 1, ..meta() };
    let of_rings = real.iter().filter(|page| page[18] < 8).map(|page| {
        let mut page = page.clone();
        page[8..16].copy_from_slice(&session.to_le_bytes());
        let words = b"the last words";
        if let Some(at) = page.windows(words.len()).position(|bytes| bytes == words) {
            page[at..at + words.len()].copy_from_slice(b"nothing to see");
        }
        page
    });
    [described(&forged), of_rings.collect()].concat()
}

/// A dump with the real recording and the made-up one, which is later by its own account.
fn attacked(dir: &TempDir) -> PathBuf {
    let real = pages();
    let forged = forged_from(&real, public_id(SECRET_FORGED));
    file(dir, &synthetic::elf(&image(&[forged, real].concat()), 0))
}

/// A state directory as the recorder has it, with files of this session.
fn files_of(dir: &TempDir, session: u64, number: u32) -> PathBuf {
    use flightrec_store::{FileHeader, FileWriter};
    let state = dir.path().join("state");
    let boot = state.join(BOOT_ID);
    std::fs::create_dir_all(&boot).unwrap();
    let boot_id = flightrec_store::dir::parse_boot(BOOT_ID).unwrap();
    let (created_mono, begins) = (STARTED, STARTED);
    let header = FileHeader {
        compatible: 0,
        incompatible: 0,
        boot_id,
        session,
        number,
        created_wall: 0,
        created_mono,
        begins,
    };
    let mut file = FileWriter::new(Vec::new(), &header, 1).unwrap();
    file.meta(&Meta { session, ..meta() }, STARTED).unwrap();
    let name = format!("20260101T000140Z-{number:06}.flight");
    std::fs::write(boot.join(name), file.finish().unwrap()).unwrap();
    state
}

fn first_line(out: &std::process::Output) -> String {
    stderr(out).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn what_nothing_decides_is_said_first_and_never_complete() {
    let dir = tempfile::tempdir().unwrap();
    let path = attacked(&dir);
    let none = ["--state-dir", "/nonexistent"];
    let both = [SESSION, public_id(SECRET_FORGED)].map(hex);
    let out = dump(&path, &[&none[..], &["--last", "20s", "--strict"]].concat());
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    let first = first_line(&out);
    assert!(first.contains("nothing decides") && first.contains("--session"), "{}", stderr(&out));
    assert!(both.iter().all(|id| first.contains(id)), "{first}");
    assert!(stdout(&out).starts_with("# NOT CONFIRMED"), "{}", stdout(&out));
    assert!(!stderr(&out).contains("complete on CPUs"), "{}", stderr(&out));

    let out =
        dump(&path, &[&none[..], &["--last", "20s", "--strict", "--format", "jsonl"]].concat());
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    let line: serde_json::Value =
        serde_json::from_str(stdout(&out).lines().next().unwrap()).unwrap();
    assert_eq!(line["complete"], false, "{line}");
    let named = [line["recording"]["session"].clone(), line["disputed_by"][0].clone()];
    assert!(both.iter().all(|id| named.iter().any(|name| name == id)), "{line}");

    let flight = dir.path().join("panic.flight");
    let recover =
        ["recover", text(&path), "-o", text(&flight), "--state-dir", "/nonexistent", "--strict"];
    let out = flightctl(&recover);
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    assert!(first_line(&out).contains("nothing decides"), "{}", stderr(&out));
    // Nor does the file count as complete later.
    let out = flightctl(&["dump", "--file", text(&flight), "--all", "--strict"]);
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));

    let out = dump(&path, &[&none[..], &["--in-flight", "--strict", "--format", "jsonl"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(out.status.code() == Some(3) && json["disputed_by"].is_array(), "{json}");
}

#[test]
fn what_is_named_is_taken_and_the_other_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = attacked(&dir);
    let id = hex(SESSION);
    let out = dump(
        &path,
        &["--state-dir", "/nonexistent", "--session", &id, "--last", "20s", "--strict"],
    );
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(
        stdout(&out).contains("the last words") && !stdout(&out).contains("nothing to see"),
        "{}",
        stdout(&out)
    );
    let first = first_line(&out);
    assert!(
        first.contains(&hex(public_id(SECRET_FORGED))) && first.contains("nothing confirms"),
        "{first}"
    );
}

#[test]
fn what_the_files_vouch_for_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = attacked(&dir);
    let state = files_of(&dir, SESSION, 3);
    let forged = hex(public_id(SECRET_FORGED));
    for option in ["--store", "--state-dir"] {
        let out = dump(&path, &[option, text(&state), "--last", "9s"]);
        assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
        assert!(
            stdout(&out).contains("the last words") && !stdout(&out).contains("nothing to see"),
            "{}",
            stdout(&out)
        );
        let first = first_line(&out);
        assert!(first.contains("the files of") && first.contains("nothing confirms"), "{first}");
        assert!(first.contains(&forged) && first.contains(text(&state)), "{first}");
    }
    let with = |more: &[&str]| dump(&path, &[&["--state-dir", text(&state)], more].concat());
    let out = with(&["--last", "20s", "--strict"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));

    let out = with(&["--list-sessions", "--format", "jsonl"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let vouched = |id: &str| {
        let session = json["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|session| session["session"] == id)
            .unwrap();
        session["vouched"].clone()
    };
    assert_eq!((vouched(&hex(SESSION)), vouched(&forged)), (true.into(), false.into()), "{json}");
    let out = with(&["--list-sessions"]);
    let of = |id: &str| {
        stdout(&out).lines().find(|line| line.starts_with(id)).unwrap().contains("  files  ")
    };
    assert!(of(&hex(SESSION)) && !of(&forged), "{}", stdout(&out));

    // One that is named against the files is shown, with that said.
    let out = with(&["--session", &forged, "--last", "20s"]);
    assert!(first_line(&out).contains("is not in the files"), "{}", stderr(&out));

    let flight = dir.path().join("panic.flight");
    let out = flightctl(&[
        "recover",
        text(&path),
        "-o",
        text(&flight),
        "--state-dir",
        text(&state),
        "--strict",
    ]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let out = flightctl(&["dump", "--file", text(&flight), "--all", "--strict"]);
    assert!(stdout(&out).contains("the last words"), "{}{}", stdout(&out), stderr(&out));
}

/// A file that was recovered from a dump by itself is no proof: it may hold what was made up.
#[test]
fn recovered_files_vouch_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = attacked(&dir);
    let state = dir.path().join("state");
    let crash = state.join("crash");
    std::fs::create_dir_all(&crash).unwrap();
    let (flight, forged) = (crash.join("before.flight"), hex(public_id(SECRET_FORGED)));
    let out = flightctl(&["recover", text(&path), "--session", &forged, "-o", text(&flight)]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let out = dump(&path, &["--state-dir", text(&state), "--last", "20s", "--strict"]);
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    assert!(first_line(&out).contains("nothing decides"), "{}", stderr(&out));
}

/// Who knows the public id can't make pages that count as that recording's.
#[test]
fn pages_that_say_a_public_id_are_another_recordings() {
    let dir = tempfile::tempdir().unwrap();
    let real = pages();
    let mut image = image(&real);
    // With the magic and the public id, in the description as well, and fuller than the real ones.
    for (i, mut page) in (0u64..).zip(forged_from(&real, SESSION)) {
        page[..8].copy_from_slice(&MAGIC.to_le_bytes());
        assert_eq!(page[8..16], SESSION.to_le_bytes());
        image.insert(300 + i, page);
    }
    let path = file(&dir, &synthetic::elf(&image, 0));
    let state = files_of(&dir, SESSION, 1);
    let out = dump(&path, &["--state-dir", text(&state), "--last", "20s", "--strict"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(
        stdout(&out).contains("the last words") && !stdout(&out).contains("nothing to see"),
        "{}",
        stdout(&out)
    );
    let out = dump(&path, &["--state-dir", text(&state), "--list-sessions"]);
    let ids: Vec<String> = stdout(&out).lines().skip(1).map(|line| line[..16].to_owned()).collect();
    assert!(
        ids.contains(&hex(SESSION)) && ids.contains(&hex(public_id(SESSION))) && ids.len() == 2,
        "{ids:?}"
    );
    let rings = stdout(&out)
        .lines()
        .find(|line| line.starts_with(&hex(SESSION)))
        .unwrap()
        .contains("     0  files");
    assert!(rings, "no page of theirs is a copy of the real one's: {}", stdout(&out));
}

/// The order of files, not what pages claim, tells which of two that files vouch for is the last.
#[test]
fn a_recording_that_was_ended_claims_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut real, _) = died_while_recording(&dir);
    let ended = Meta {
        session: public_id(SECRET_FORGED),
        started: STARTED + 5,
        ended: STARTED + 9,
        ..meta()
    };
    real.extend(described(&ended));
    let path = file(&dir, &synthetic::elf(&image(&real), 0));
    let out = dump(&path, &["--state-dir", "/nonexistent", "--last", "1s", "--strict"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(
        stderr(&out).contains(&hex(SESSION)) && !stderr(&out).contains(&hex(ended.session)),
        "{}",
        stderr(&out)
    );
    assert!(Path::new(&path).exists());
}
