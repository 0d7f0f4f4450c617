//! The memory that commands take, whatever the files hold.

use std::path::Path;

use flightrec_fuzz::corpus::{KINDS, Kind};
use flightrec_fuzz::memory::{LIMIT, Places, Survey, write};

use crate::common::{command, stderr};

const FLIGHTCTL: &str = env!("CARGO_BIN_EXE_flightctl");

/// Runs a survey in a directory of its own; what it found must be nothing.
fn survey(run: impl FnOnce(&mut Survey, Places<'_>)) -> Survey {
    let dir = tempfile::tempdir().unwrap();
    let places = Places { flightctl: Path::new(FLIGHTCTL), dir: dir.path(), findings: dir.path() };
    let mut survey = Survey::default();
    run(&mut survey, places);
    assert!(survey.findings.is_empty(), "{:#?}", survey.findings);
    assert!(survey.runs > 0 && survey.peak() <= LIMIT, "{:#?}", survey.rows);
    survey
}

fn crafted(kind: &'static Kind, blocks: usize) {
    survey(|survey, places| {
        write(&(kind.make)(blocks).unwrap(), places).unwrap();
        survey.run(kind.name, kind.form, places).unwrap();
    });
}

/// Those that ask for most at once: more than half a GiB of pages, in files of some 100 KiB.
#[test]
#[ignore = "long: crafted files at full size"]
fn crafted_files_that_are_read_at_once() {
    KINDS.iter().filter(|kind| !kind.heavy).for_each(|kind| crafted(kind, 460));
}

/// Those that ask for much beside their pages.
#[test]
#[ignore = "long: crafted files at full size"]
fn crafted_files_that_are_remembered() {
    KINDS.iter().filter(|kind| kind.heavy).for_each(|kind| crafted(kind, 3));
}

#[test]
fn mutated_files() {
    survey(|survey, places| survey.mutations(15, 1, places).unwrap());
}

#[test]
fn what_does_not_fit_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let kind = KINDS.iter().find(|kind| kind.name == "pages of one moment").unwrap();
    let file = dir.path().join("x.flight");
    std::fs::write(&file, (kind.make)(20).unwrap()).unwrap();
    let dump = |memory: &str| {
        let args = ["dump", "--all", "--file", file.to_str().unwrap()];
        command(&args).env("FLIGHTREC_MEMORY", memory).output().unwrap()
    };
    let out = dump("16MiB");
    assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
    let said = stderr(&out);
    assert!(said.contains("--since") && said.contains("FLIGHTREC_MEMORY=4GiB"), "{said}");
    assert_ne!(dump("512MiB").status.code(), Some(2));
    let typed = |memory: &str| {
        let args = ["dump", "--all", "--file", file.to_str().unwrap(), "--memory", memory];
        command(&args).env("FLIGHTREC_MEMORY", "512MiB").output().unwrap()
    };
    let out = typed("16MiB");
    assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
    assert!(stderr(&out).contains("--memory 4GiB"), "{}", stderr(&out));
    assert_ne!(typed("1GiB").status.code(), Some(2));
    assert!(stderr(&typed("a lot")).contains("not a size"));
    let out = dump("a lot");
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("FLIGHTREC_MEMORY=a lot: not a size"), "{}", stderr(&out));
}
